//! `cargo xtask test`: every check, one after the other, each under its header and with its time.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::processes::{cargo, run};
use crate::{examples, judge, python, rules};

/// How much is tried.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Each script in one configuration, a few cases of each property, and what needs a build of its own not at all.
    Quick,
    /// Everything.
    Whole,
}

/// What tests are told so that they try a few cases only.
const QUICK: [(&str, &str); 4] = [
    ("PELTON_SCRIPT_CONFIGURATIONS", "1"),
    ("PELTON_PROPERTY_CASES", "8"),
    ("PELTON_SIMULATION_SEEDS", "100"),
    ("PELTON_ADAPT_SEEDS", "1"),
];

/// Runs all checks; the first that fails ends the run.
pub fn test(root: &Path, extent: Extent, bless: bool) -> Result<(), String> {
    let start = Instant::now();
    let cargo = |arguments: &'static str| {
        move || {
            let mut command = cargo(root);
            command.args(arguments.split(' '));
            if bless {
                command.env("BLESS", "1");
            }
            if extent == Extent::Quick {
                command.envs(QUICK);
            }
            run(&mut command).map(|()| String::new())
        }
    };
    step("format", cargo("fmt --all -- --check"))?;
    step("house rules", || rules::check(root))?;
    step("lint", cargo("clippy --workspace --all-targets --quiet -- -D warnings"))?;
    step("tests", cargo("test --workspace --all-targets --quiet"))?;
    if extent == Extent::Quick {
        println!("\nthe quick checks passed in {}", seconds(start.elapsed()));
        return Ok(());
    }
    step("races", cargo("test --package pelton-runtime --features loom --lib --quiet race"))?;
    step("races of whole runs", cargo("test --package pelton-runtime --features shuttle --lib --quiet race"))?;
    step("S3", cargo("test --package pelton-connectors --features s3 --test s3 --quiet"))?;
    step("fuzz targets", || fuzz_targets(root).map(|()| String::new()))?;
    step("documentation tests", cargo("test --workspace --doc --quiet"))?;
    step("examples", || examples::run_all(root))?;
    step("python", || python::test(root, &[]))?;
    step("judge", || judge::run(root, &[]))?;
    println!("\nall checks passed in {}", seconds(start.elapsed()));
    Ok(())
}

/// Compiles what only a fuzzer links, beside the main workspace's libraries and with their versions.
fn fuzz_targets(root: &Path) -> Result<(), String> {
    let fuzz = root.join("fuzz");
    let [versions, copy] = [root, &fuzz].map(|folder| folder.join("Cargo.lock"));
    let modified = |path: &Path| std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    // One that is newer has the fuzzer's own libraries as well, which need not be looked up once more.
    if modified(&copy) < modified(&versions) {
        std::fs::copy(&versions, &copy).map_err(|error| format!("{}: {error}", copy.display()))?;
    }
    let mut command = cargo(root);
    command.args(["check", "--bins", "--quiet", "--manifest-path"]).arg(fuzz.join("Cargo.toml"));
    if std::env::var_os("CARGO_TARGET_DIR").is_none() {
        command.arg("--target-dir").arg(root.join("target"));
    }
    // Nothing is linked, so any file does for libFuzzer, which would have to be compiled by a C++ compiler.
    run(command.env("CUSTOM_LIBFUZZER_PATH", fuzz.join("Cargo.toml")))
}

/// Runs ten queries for ten minutes, or as many as are said.
pub fn soak(root: &Path, minutes: &[&str]) -> Result<(), String> {
    run(cargo(root)
        .args(["run", "--release", "--quiet", "--package", "pelton-bench", "--example", "soak", "--"])
        .args(minutes))
}

/// Runs one check: what it returns is said beside its time.
fn step(name: &str, check: impl FnOnce() -> Result<String, String>) -> Result<(), String> {
    println!("── {name} ──");
    let start = Instant::now();
    let said = check().map_err(|problem| format!("{problem}\n\n{name}: FAILED after {}", seconds(start.elapsed())))?;
    let separator = if said.is_empty() { "" } else { "; " };
    println!("   {name}: ok, {}{separator}{said}", seconds(start.elapsed()));
    Ok(())
}

fn seconds(elapsed: Duration) -> String {
    format!("{:.1} s", elapsed.as_secs_f64())
}
