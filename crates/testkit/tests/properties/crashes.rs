//! Jobs that die and go on, for thousands of seeds. `PELTON_CRASH_SIMULATION_SEED` replays one; `PELTON_CRASH_SIMULATION_SEEDS` sets how many are tried.

use pelton_testkit::simulate::crash::{Flaw, simulate_crashes};

use crate::simulation::{no_seed_fails, problem};

#[test]
fn whatever_dies_each_row_is_committed_once_and_in_order() {
    no_seed_fails("PELTON_CRASH_SIMULATION_SEED", |seed| simulate_crashes(seed, Flaw::None));
}

#[test]
fn a_world_that_breaks_a_promise_is_found_out() {
    let flaws = [
        Flaw::NamesAreNotSynchronized,
        Flaw::BytesAreNotSynchronized,
        Flaw::CommitsComeEarly,
        Flaw::TransactionsAreNotFenced,
        Flaw::OutcomesAreForgotten,
    ];
    for flaw in flaws {
        let found = (0..SEEDS_OF_A_FLAW).find(|&seed| problem(|| simulate_crashes(seed, flaw)).is_some());
        assert!(found.is_some(), "{flaw:?}");
    }
}

/// Seeds in which a flaw is found out at least once.
const SEEDS_OF_A_FLAW: u64 = 300;

#[test]
fn a_seed_does_the_same_again_and_has_all_kinds_of_ends() {
    let mut told = Vec::new();
    for seed in 0..200 {
        let once = simulate_crashes(seed, Flaw::None).unwrap();
        if seed < 30 {
            assert_eq!(simulate_crashes(seed, Flaw::None).unwrap(), once, "PELTON_CRASH_SIMULATION_SEED={seed}");
        }
        told.extend(once);
    }
    for part in [
        "is killed",
        "loses power",
        "fails",
        "is stopped",
        "goes on from",
        "was committed before the process died",
        "was not committed before the process died",
    ] {
        assert!(told.iter().any(|line| line.contains(part)), "nothing {part}");
    }
}
