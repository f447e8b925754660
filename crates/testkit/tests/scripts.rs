//! Runs `tests/sql/**/*.slt` in every configuration. Arguments that are no options choose scripts by parts of their path.
//!
//! With `BLESS=1` in the environment what comes of a script in the first configuration replaces what it expects; the other
//! configurations must then agree. `PELTON_SCRIPT_CONFIGURATIONS` says in how many configurations each script runs: others for each script.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use pelton_testkit::script::TemporaryDirectory;
use pelton_testkit::script::engine::{answer, session};
use pelton_testkit::script::parse::Script;
use pelton_testkit::script::run::{CONFIGURATIONS, Configuration, configurations, distinct, mismatches, outcomes};

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sql");
    // A script runs in the same configurations whichever others are chosen.
    let mut scripts: Vec<(usize, PathBuf)> = scripts(&root).into_iter().enumerate().collect();
    scripts.retain(|(_, path)| {
        let name = path.strip_prefix(&root).unwrap_or(path).to_string_lossy();
        wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()))
    });
    let count = std::env::var("PELTON_SCRIPT_CONFIGURATIONS").ok().map(|count| count.parse().expect("it is a number"));
    let count: usize = count.unwrap_or(CONFIGURATIONS);
    let bless = std::env::var_os("BLESS").is_some_and(|value| value == "1");
    let failures = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some((number, path)) = scripts.get(number) else { break };
                    if let Err(problem) = check(path, *number, count, bless) {
                        let name = path.strip_prefix(&root).unwrap_or(path).display();
                        println!("tests/sql/{name}: {problem}\n");
                        failures.lock().expect("no thread panics with the lock").push(name.to_string());
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no thread panics with the lock");
    println!(
        "{} scripts in at most {count} of {CONFIGURATIONS} configurations, {} failed",
        scripts.len(),
        failures.len()
    );
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn scripts(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder of scripts") {
        let path = entry.expect("an entry of the folder of scripts").path();
        if path.is_dir() {
            found.extend(scripts(&path));
        } else if path.extension().is_some_and(|extension| extension == "slt") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Runs a script in so many configurations, and says how the first that differs does.
fn check(path: &Path, number: usize, count: usize, bless: bool) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let mut script = Script::parse(&text).map_err(|error| error.to_string())?;
    if script.to_string() != text {
        return Err("is not written as scripts are: one empty line between blocks, none at the end".to_string());
    }
    let mut configurations = distinct(&script, configurations(number));
    if count < configurations.len() {
        // The first of each script differs, so that all scripts together still run in all.
        let first = number % configurations.len();
        configurations.rotate_left(first);
        configurations.truncate(count);
    }
    for (index, configuration) in configurations.into_iter().enumerate() {
        let found = run(&script, configuration)?;
        if bless && index == 0 {
            script.bless(found);
            std::fs::write(path, script.to_string()).map_err(|error| error.to_string())?;
            continue;
        }
        let differences = mismatches(&script, &found);
        if !differences.is_empty() {
            let shown: Vec<String> = differences.iter().map(ToString::to_string).collect();
            return Err(format!("{configuration}\n{}", shown.join("\n")));
        }
    }
    Ok(())
}

fn run(script: &Script, configuration: Configuration) -> Result<Vec<Vec<String>>, String> {
    let directory = TemporaryDirectory::new().map_err(|error| error.to_string())?;
    let session = session(configuration);
    outcomes(script, directory.path(), &mut |request| answer(&session, request)).map_err(|error| error.to_string())
}
