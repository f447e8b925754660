//! Rules that a look at single lines can check.

use super::SourceFile;
use super::scan::Scanned;

/// Where `unsafe` may stand. Each use has its own proof, which clippy asks for.
const UNSAFE_PLACES: [&str; 15] = [
    "crates/data/src/column.rs",
    "crates/data/src/block.rs",
    "crates/state/src/table",
    "crates/state/src/join/",
    "crates/state/src/vector.rs",
    "crates/state/tests/table/",
    "crates/state/examples/table_speed.rs",
    "crates/compiler/src/",
    "crates/compiler/tests/",
    "crates/engine/tests/allocations.rs",
    "crates/engine/tests/memory.rs",
    "crates/runtime/src/clock.rs",
    "crates/runtime/src/scheduler/pinning.rs",
    "crates/bench/src/reference",
    "fuzz/",
];

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 5] = ["util", "utils", "common", "helpers", "manager"];

/// The package of the program.
const PROGRAM: &str = "pelton-server";

/// A section of the program's package in a profile: cargo then drops the profile's `strip`, and all symbols are in the program.
pub fn program_profiles(file: &SourceFile) -> Vec<String> {
    let mut violations = Vec::new();
    let mut section = "";
    for (number, line) in file.text.lines().enumerate() {
        if line.starts_with('[') {
            section = line;
        }
        let is_entry = section == "[profile.release.package]" && line.split(['=', '.', ' ']).next() == Some(PROGRAM);
        if is_entry || line.starts_with(&format!("[profile.release.package.{PROGRAM}]")) {
            violations.push(violation(
                file,
                number,
                &format!("a section for {PROGRAM} keeps its symbols in the program"),
            ));
        }
    }
    violations
}

/// Work that is left open without saying which issue it belongs to.
pub fn open_ends(file: &SourceFile, scanned: &Scanned) -> Vec<String> {
    let marks = ["TODO", "FIXME", "XXX"];
    let macros = ["todo!", "unimplemented!"];
    let mut violations = Vec::new();
    for (number, ((comment, code), line)) in
        scanned.comments.lines().zip(scanned.code.lines()).zip(file.text.lines()).enumerate()
    {
        let open = marks.into_iter().find(|mark| has_word(comment, mark));
        let open = open.or_else(|| macros.into_iter().find(|mark| has_word(code, mark)));
        if let Some(mark) = open
            && !names_issue(line)
        {
            violations.push(violation(file, number, &format!("{mark} without \"(issue N)\"")));
        }
    }
    violations
}

/// Lints that are switched off without a reason.
pub fn allows(file: &SourceFile, scanned: &Scanned) -> Vec<String> {
    let mut violations = Vec::new();
    for attribute in ["allow(", "expect("] {
        for (at, _) in scanned.code.match_indices(attribute) {
            let before = scanned.code[..at].trim_end();
            if !before.ends_with("#[") && !before.ends_with("#![") {
                continue;
            }
            let length = scanned.code[at..].find(']').unwrap_or(scanned.code.len() - at);
            if !scanned.code[at..at + length].contains("reason") {
                let number = scanned.code[..at].matches('\n').count();
                violations.push(violation(file, number, &format!("{attribute}…) without a reason")));
            }
        }
    }
    violations
}

/// `unsafe` outside the places that are made for it.
pub fn unsafe_places(file: &SourceFile, scanned: &Scanned) -> Vec<String> {
    if UNSAFE_PLACES.iter().any(|place| file.path.starts_with(place)) {
        return Vec::new();
    }
    let lines = scanned.code.lines().enumerate();
    lines
        .filter(|(_, line)| has_word(line, "unsafe"))
        .map(|(number, _)| {
            violation(file, number, "unsafe code here; see UNSAFE_PLACES in crates/xtask/src/rules/text.rs")
        })
        .collect()
}

/// Modules whose name says nothing.
pub fn forbidden_names(file: &SourceFile, scanned: &Scanned) -> Vec<String> {
    let mut violations = Vec::new();
    for (number, line) in scanned.code.lines().enumerate() {
        let words: Vec<&str> =
            line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty()).collect();
        let module = words.windows(2).find(|pair| pair[0] == "mod" && EMPTY_NAMES.contains(&pair[1]));
        if let Some(pair) = module {
            violations.push(violation(file, number, &format!("a module called '{}' says nothing", pair[1])));
        }
    }
    violations
}

/// Paths that exist on one machine only.
pub fn machine_paths(file: &SourceFile) -> Vec<String> {
    let homes = ["root", "home", "work", "farm", "Users"].map(|home| format!("/{home}/"));
    let mut violations = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        let found = homes.iter().any(|home| {
            line.match_indices(home.as_str()).any(|(at, _)| {
                let before = line[..at].chars().next_back();
                let after = line[at + home.len()..].chars().next();
                !before.is_some_and(|c| c.is_alphanumeric() || "_.-<>}*)".contains(c))
                    && after.is_some_and(|c| c.is_alphanumeric())
            })
        });
        if found {
            violations.push(violation(file, number, "the path of one machine"));
        }
    }
    violations
}

/// Links from one document to a file or to a heading of a document that is not there.
pub fn dead_links(file: &SourceFile, files: &[SourceFile]) -> Vec<String> {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut violations = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        for target in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (name, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = if name.is_empty() { file.path.clone() } else { joined(folder, name) };
            let inside = format!("{path}/");
            let found = files.iter().chain([file]).find(|other| other.path == path);
            if found.is_none() && !files.iter().any(|other| other.path.starts_with(&inside)) {
                violations.push(violation(file, number, &format!("link to '{name}', which does not exist")));
            }
            let document = found.filter(|other| other.path.ends_with(".md") && !heading.is_empty());
            if document.is_some_and(|other| !anchors(&other.text).any(|anchor| anchor == heading)) {
                violations.push(violation(file, number, &format!("{path} has no heading '#{heading}'")));
            }
        }
    }
    violations
}

/// The anchors of a document's headings: lower case, blanks as hyphens, without punctuation.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    text.lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')))
        .map(|heading| {
            let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>().to_lowercase()
        })
}

fn joined(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn violation(file: &SourceFile, line_index: usize, problem: &str) -> String {
    format!("{}:{}: {problem}", file.path, line_index + 1)
}

fn names_issue(line: &str) -> bool {
    line.match_indices("(issue ").any(|(at, mark)| line[at + mark.len()..].starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether `word` stands in `line` and is not part of a longer word.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let part = |c: char| c.is_alphanumeric() || c == '_';
        !line[..at].chars().next_back().is_some_and(part) && !line[at + word.len()..].chars().next().is_some_and(part)
    })
}

#[cfg(test)]
mod tests {
    use super::super::scan::scan;
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_string(), text: text.to_string() }
    }

    #[test]
    fn open_ends_need_an_issue() {
        let check = |text: &str| open_ends(&file("a.rs", text), &scan(text)).len();
        let todo = ["TO", "DO"].concat();
        assert_eq!(check(&format!("// {todo}: later")), 1);
        assert_eq!(check(&format!("// {todo} (issue 7): later")), 0);
        assert_eq!(check(&format!("fn f() {{ {}!() }}", todo.to_lowercase())), 1);
        assert_eq!(check(&format!("let x = \"{todo}\"; // a {todo}S list")), 0);
    }

    #[test]
    fn the_program_has_no_profile_of_its_own() {
        let check = |text: &str| program_profiles(&file("Cargo.toml", text)).len();
        assert_eq!(check("[profile.release.package]\npelton-server = { opt-level = 3 }"), 1);
        assert_eq!(check("[profile.release.package.pelton-server]\nopt-level = 3"), 1);
        assert_eq!(
            check("[profile.release.package]\npelton-state = 1\n[workspace.dependencies]\npelton-server = 1"),
            0
        );
    }

    #[test]
    fn lints_are_switched_off_with_a_reason() {
        let check = |text: &str| allows(&file("a.rs", text), &scan(text)).len();
        assert_eq!(check("#[allow(dead_code)]\nfn f() {}"), 1);
        assert_eq!(check("#![allow(\n    dead_code,\n    reason = \"why\"\n)]"), 0);
        assert_eq!(check("x.expect(\"reason\"); // #[allow(x)]"), 0);
    }

    #[test]
    fn unsafe_stays_in_its_places() {
        let text = "unsafe { f() } // unsafe";
        let check = |path: &str, text: &str| unsafe_places(&file(path, text), &scan(text)).len();
        assert_eq!(check("crates/engine/src/lib.rs", text), 1);
        assert_eq!(check("crates/state/src/table/dense.rs", text), 0);
        assert_eq!(check("crates/engine/src/lib.rs", "// unsafe\n#![deny(unsafe_op_in_unsafe_fn)]"), 0);
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        let check = |text: &str| machine_paths(&file("a.md", text)).len();
        let home = ["/ro", "ot/"].concat();
        assert_eq!(check(&format!("see {home}x")), 1);
        assert_eq!(check(&format!("see ..{home}x, target{home}x and {home}")), 0);
    }

    #[test]
    fn links_lead_somewhere() {
        let files = [file("docs/a.md", "# An `A`, or B"), file("src/b.rs", "")];
        let check = |text: &str| dead_links(&file("docs/c.md", text), &files).len();
        assert_eq!(check("[a](a.md), [b](../src/b.rs#L1), [s](../src/), [w](https://x.org), [c](a.md#an-a-or-b)"), 0);
        assert_eq!(check("# Here\n[a](#here)"), 0);
        assert_eq!(check("[a](b.rs)"), 1);
        assert_eq!(check("[a](a.md#b)"), 1);
        assert_eq!(check("[a](#there)"), 1);
    }

    #[test]
    fn modules_say_what_they_hold() {
        let text = "mod utils;\nmod table; // mod common";
        assert_eq!(forbidden_names(&file("a.rs", text), &scan(text)).len(), 1);
    }
}
