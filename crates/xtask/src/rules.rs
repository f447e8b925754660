//! The house rules that a program can check. `CONTRIBUTING.md` says what they are for.
//!
//! In reading order: [`source_file`] (what rules look at), [`scan`] (which bytes of a Rust file are code), [`text`] (rules over single lines), [`layers`] (which crate may use which),
//! [`modules`] and [`cycles`] (files that use each other), [`length`] (functions, files and documents), [`ratchet`] (what is too long may not grow), [`commits`] (subjects of commits).

mod source_file;

mod scan;

mod text;

mod layers;

mod modules;

mod cycles;

mod length;

mod ratchet;

mod commits;

use std::path::Path;
use std::process::Command;

use ratchet::Ratchet;

pub use source_file::SourceFile;

const RATCHET_FILE: &str = "crates/xtask/ratchet.txt";

/// Checks every file that git tracks or would track. What comes back says how large cycles of modules are.
///
/// # Errors
/// All violations, one a line.
pub fn check(root: &Path) -> Result<String, String> {
    let files = tracked_files(root)?;
    let mut violations = line_rules(&files);
    violations.extend(layers::check(&files));
    violations.extend(cycles::check(&files));
    violations.extend(crate::docs::check(root));
    let ratchet = Ratchet::parse(&read_ratchet(root)?)?;
    violations.extend(ratchet.compare(&length::measure(&files)));
    violations.extend(commits::check(root)?);
    if violations.is_empty() { Ok(cycles::summary()) } else { Err(violations.join("\n")) }
}

/// Writes down what has become shorter or was mended. Growth is never recorded.
///
/// # Errors
/// Where files cannot be read or written.
pub fn record(root: &Path) -> Result<(), String> {
    let files = tracked_files(root)?;
    let ratchet = Ratchet::parse(&read_ratchet(root)?)?;
    let tightened = ratchet.tightened(&length::measure(&files));
    std::fs::write(root.join(RATCHET_FILE), tightened.to_string()).map_err(|error| format!("{RATCHET_FILE}: {error}"))
}

fn read_ratchet(root: &Path) -> Result<String, String> {
    std::fs::read_to_string(root.join(RATCHET_FILE)).map_err(|error| format!("{RATCHET_FILE}: {error}"))
}

fn line_rules(files: &[SourceFile]) -> Vec<String> {
    let mut violations = Vec::new();
    for file in files {
        violations.extend(text::machine_paths(file));
        if file.path.ends_with(".rs") {
            let scanned = scan::scan(&file.text);
            violations.extend(text::open_ends(file, &scanned));
            violations.extend(text::allows(file, &scanned));
            violations.extend(text::unsafe_places(file, &scanned));
            violations.extend(text::forbidden_names(file, &scanned));
        }
        if file.path == "Cargo.toml" {
            violations.extend(text::program_profiles(file));
        }
        if file.path.ends_with(".md") {
            violations.extend(text::dead_links(file, files));
        }
    }
    violations
}

fn tracked_files(root: &Path) -> Result<Vec<SourceFile>, String> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("git ls-files: {error}"))?;
    if !listed.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr)));
    }
    let mut files = Vec::new();
    for path in String::from_utf8_lossy(&listed.stdout).lines() {
        // A file that is not text has no lines to check; one that is gone was deleted but is still in the index.
        if let Ok(text) = std::fs::read_to_string(root.join(path)) {
            files.push(SourceFile { path: path.to_string(), text });
        }
    }
    Ok(files)
}
