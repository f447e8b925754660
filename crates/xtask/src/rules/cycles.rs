//! Cycles of modules: files of a crate that use each other, directly or through others, can only be understood together.
//!
//! Of each crate the largest cycle has as many files as the table says: more are refused, and where there are fewer the table must say so. The aim
//! is at most eight.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::SourceFile;
use super::modules::{self, Uses};

/// The files of the largest cycle of each crate; 0 where there is no cycle. Numbers may only fall.
const LARGEST_CYCLES: [(&str, usize); 11] = [
    ("bench", 7),
    ("compiler", 5),
    ("connectors", 4),
    ("data", 2),
    ("engine", 2),
    ("functions", 7),
    ("plan", 6),
    ("runtime", 7),
    ("server", 3),
    ("state", 8),
    ("testkit", 5),
];

/// What differs from the table, and what cannot be read.
pub fn check(files: &[SourceFile]) -> Vec<String> {
    let mut folders: BTreeSet<&str> = LARGEST_CYCLES.iter().map(|(name, _)| *name).collect();
    folders.extend(files.iter().filter_map(|file| file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")));
    let mut violations = Vec::new();
    for name in folders {
        let folder = format!("crates/{name}/");
        match modules::uses(files, &folder) {
            Ok(uses) => violations.extend(compare(&folder, &uses, allowed(name))),
            Err(error) => violations.push(error),
        }
    }
    violations
}

/// One line that names every crate and the number of files of its largest cycle.
pub fn summary() -> String {
    let crates: Vec<String> = LARGEST_CYCLES.iter().map(|(name, files)| format!("{name} {files}")).collect();
    format!("files in the largest cycle of modules: {}", crates.join(", "))
}

fn allowed(name: &str) -> usize {
    LARGEST_CYCLES.iter().find(|(known, _)| *known == name).map_or(0, |(_, files)| *files)
}

fn compare(folder: &str, uses: &Uses, allowed: usize) -> Option<String> {
    let largest = largest_cycle(uses);
    let folder = folder.trim_end_matches('/');
    match largest.len() {
        files if files > allowed => Some(format!(
            "the largest cycle of modules in {folder} has {files} files, at most {allowed} are allowed: {}",
            shown(folder, &shortest_cycle(uses, &largest))
        )),
        files if files < allowed => Some(format!(
            "the largest cycle of modules in {folder} has {files} files, {allowed} are allowed: lower it to {files} in \
             crates/xtask/src/rules/cycles.rs"
        )),
        _ => None,
    }
}

/// The files of the largest strongly connected component that has more than one; none where no file uses itself through others.
fn largest_cycle<'a>(uses: &Uses<'a>) -> BTreeSet<&'a str> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = uses.keys().map(|file| (*file, reached(uses, file))).collect();
    let mut largest = BTreeSet::new();
    for (&file, from_here) in &reached {
        let cycle: BTreeSet<&str> = from_here.iter().copied().filter(|other| reached[other].contains(file)).collect();
        if cycle.len() > largest.len() {
            largest = cycle;
        }
    }
    largest
}

/// All files that a file uses, directly or through others.
fn reached<'a>(uses: &Uses<'a>, file: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = uses[file].iter().copied().collect();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(&uses[next]);
        }
    }
    reached
}

/// A cycle within a component that no other is shorter than.
fn shortest_cycle<'a>(uses: &Uses<'a>, component: &BTreeSet<&'a str>) -> Vec<&'a str> {
    component.iter().filter_map(|file| cycle_through(uses, file)).min_by_key(Vec::len).unwrap_or_default()
}

/// The shortest way from a file to itself.
fn cycle_through<'a>(uses: &Uses<'a>, file: &'a str) -> Option<Vec<&'a str>> {
    let mut before: BTreeMap<&str, &str> = BTreeMap::new();
    let mut open = VecDeque::from([file]);
    while let Some(user) = open.pop_front() {
        for &used in &uses[user] {
            if used == file {
                let mut cycle = vec![user];
                while let Some(earlier) = before.get(cycle[cycle.len() - 1]) {
                    cycle.push(earlier);
                }
                cycle.reverse();
                return Some(cycle);
            }
            if !before.contains_key(used) {
                before.insert(used, user);
                open.push_back(used);
            }
        }
    }
    None
}

/// The files of a cycle, the first once more at the end.
fn shown(folder: &str, cycle: &[&str]) -> String {
    let source = format!("{folder}/src/");
    let files = cycle.iter().chain(cycle.first()).map(|file| file.strip_prefix(&source).unwrap_or(file));
    files.collect::<Vec<_>>().join(" → ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare_one(files: &[(&str, &str)], allowed: usize) -> Option<String> {
        let file =
            |(path, text): &(&str, &str)| SourceFile { path: format!("crates/a/src/{path}"), text: (*text).into() };
        let files: Vec<SourceFile> = files.iter().map(file).collect();
        compare("crates/a/", &modules::uses(&files, "crates/a/").unwrap(), allowed)
    }

    const CYCLES: [(&str, &str); 6] = [
        ("lib.rs", "mod one; mod two; mod three; mod four; mod five;"),
        ("one.rs", "use crate::two::Two; pub struct One;"),
        ("two.rs", "use super::three::Three; pub struct Two; fn four() { crate::four::four() }"),
        ("three.rs", "use crate::one::One; pub struct Three;"),
        ("four.rs", "use crate::two::Two; pub fn four() {}"),
        ("five.rs", "use crate::four::four;"),
    ];

    #[test]
    fn a_larger_cycle_is_refused_and_a_short_one_named() {
        assert_eq!(compare_one(&CYCLES, 4), None);
        assert_eq!(
            compare_one(&CYCLES, 3).unwrap(),
            "the largest cycle of modules in crates/a has 4 files, at most 3 are allowed: four.rs → two.rs → four.rs"
        );
    }

    #[test]
    fn the_table_follows_a_smaller_cycle() {
        assert_eq!(
            compare_one(&CYCLES, 9).unwrap(),
            "the largest cycle of modules in crates/a has 4 files, 9 are allowed: lower it to 4 in \
             crates/xtask/src/rules/cycles.rs"
        );
        assert!(compare_one(&CYCLES[..1], 1).unwrap().contains("has 0 files"));
        assert_eq!(compare_one(&CYCLES[..1], 0), None);
    }

    #[test]
    fn a_new_crate_has_no_cycle() {
        let files = CYCLES.map(|(path, text)| SourceFile { path: format!("crates/new/src/{path}"), text: text.into() });
        let manifest = SourceFile { path: "crates/new/Cargo.toml".into(), text: String::new() };
        let violations = check(&files.into_iter().chain([manifest]).collect::<Vec<_>>());
        assert!(
            violations.iter().any(|line| line.starts_with("the largest cycle of modules in crates/new has 4 files"))
        );
    }
}
