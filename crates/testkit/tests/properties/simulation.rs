//! A whole engine in one thread, for thousands of seeds. `PELTON_SIMULATION_SEED` replays one; `PELTON_SIMULATION_SEEDS` sets how many are tried.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pelton_testkit::simulate::simulate;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("it is a number"))
}

/// What goes wrong in a simulation.
pub fn problem(simulate: impl FnOnce() -> Result<Vec<String>, String>) -> Option<String> {
    let result = catch_unwind(AssertUnwindSafe(simulate));
    result.unwrap_or_else(|_| Err("the engine panicked".to_owned())).err()
}

/// Tries 2,000 seeds, or as many as the plural of the variable says; or the one that the variable says, and prints what it tells.
pub fn no_seed_fails(variable: &str, simulate: impl Fn(u64) -> Result<Vec<String>, String> + Sync) {
    if let Some(seed) = number(variable) {
        return println!("{:#?}", simulate(seed).unwrap());
    }
    let seeds = number(&format!("{variable}S")).unwrap_or(2_000);
    std::thread::scope(|scope| {
        for half in 0..2 {
            let simulate = &simulate;
            scope.spawn(move || {
                for seed in (half..seeds).step_by(2) {
                    assert_eq!(problem(|| simulate(seed)), None, "{variable}={seed}");
                }
            });
        }
    });
}

#[test]
fn whatever_happens_no_row_is_lost_doubled_or_out_of_order() {
    no_seed_fails("PELTON_SIMULATION_SEED", simulate);
}

#[test]
fn a_seed_does_the_same_again_and_code_changes_meanwhile() {
    let mut told = Vec::new();
    for seed in 0..60 {
        let once = simulate(seed).unwrap();
        assert_eq!(simulate(seed).unwrap(), once, "PELTON_SIMULATION_SEED={seed}");
        told.extend(once);
    }
    let count = |part: &str| told.iter().filter(|line| line.contains(part)).count();
    for part in [
        "drawn by chance: tier",
        "drawn by chance: predicate-order",
        "drawn by chance: fetch-ahead",
        "runs: compiled",
        "runs on: dense-keys, as keys lie between",
        "runs on without dense-keys",
        "more than 'pelton.memory.operator'",
        "for it of 'pelton.memory'",
        "the program reads it no more",
        "is fragile",
    ] {
        assert!(count(part) > 0, "nothing {part}");
    }
    // Code that was compiled while rows passed took the place of what ran.
    let is_late = |line: &&String| line.contains("runs: compiled") && !line.starts_with("row 0:");
    assert!(told.iter().any(|line| is_late(&line)));
}
