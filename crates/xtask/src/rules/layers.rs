//! Who may use whom: section "The crates" of `ARCHITECTURE.md` as a table.

use super::SourceFile;

/// A crate's folder, the workspace crates it may depend on, and the libraries it must not see.
struct Layer {
    folder: &'static str,
    uses: &'static [&'static str],
    never: &'static [&'static str],
}

const SQL: &str = "sqlparser";
const PLANNER: &str = "datafusion";
const CODE_GENERATOR: &str = "cranelift";
const ASYNC: &str = "tokio";

const LAYERS: [Layer; 13] = [
    Layer { folder: "data", uses: &[], never: &[SQL, PLANNER, CODE_GENERATOR, ASYNC] },
    Layer { folder: "functions", uses: &["data"], never: &[SQL, CODE_GENERATOR, ASYNC] },
    Layer { folder: "plan", uses: &["data", "functions"], never: &[CODE_GENERATOR, ASYNC] },
    Layer { folder: "state", uses: &["data"], never: &[SQL, PLANNER, CODE_GENERATOR, ASYNC] },
    Layer { folder: "compiler", uses: &["data", "plan", "state"], never: &[SQL, ASYNC] },
    Layer { folder: "runtime", uses: &["data", "state"], never: &[SQL, PLANNER, CODE_GENERATOR] },
    Layer { folder: "connectors", uses: &["data", "runtime"], never: &[SQL, PLANNER, CODE_GENERATOR] },
    Layer {
        folder: "engine",
        uses: &["data", "functions", "plan", "state", "compiler", "runtime", "connectors"],
        never: &[CODE_GENERATOR],
    },
    Layer { folder: "testkit", uses: &["data", "runtime", "engine"], never: &[SQL, PLANNER, CODE_GENERATOR] },
    Layer {
        folder: "bench",
        uses: &["data", "plan", "state", "compiler", "runtime", "connectors", "engine"],
        never: &[SQL, PLANNER, CODE_GENERATOR],
    },
    Layer { folder: "server", uses: &["engine"], never: &[SQL, PLANNER, CODE_GENERATOR] },
    Layer { folder: "python", uses: &["engine"], never: &[SQL, PLANNER, CODE_GENERATOR, ASYNC] },
    Layer { folder: "xtask", uses: &[], never: &[SQL, PLANNER, CODE_GENERATOR, ASYNC] },
];

/// A crate whose code must not name some things outside of its tests.
struct Pure {
    folder: &'static str,
    never: &'static [&'static str],
    why: &'static str,
}

/// The compiler has no threads, no clock and no files. State has no locks either: one thread at a time owns it, and the runtime says which.
const PURE: [Pure; 2] = [
    Pure {
        folder: "crates/compiler/src/",
        never: &["std::thread", "std::time", "std::fs", "std::net", "Instant::now", "SystemTime::now"],
        why: "no threads, clock or files here",
    },
    Pure {
        folder: "crates/state/src/",
        never: &[
            "std::thread",
            "thread::",
            "std::time",
            "std::fs",
            "std::net",
            "Instant",
            "SystemTime",
            "Mutex",
            "RwLock",
            "Condvar",
            "mpsc",
            "Atomic",
        ],
        why: "no threads, locks, clock or files here",
    },
];

/// A file, and what it may name all the same.
const EXCEPTIONS: [(&str, &str); 1] = [
    // Memory is the whole process's: a thread of the runtime prepares huge pages, and a table takes some when it doubles. The lock is held while lists
    // of pages change, and not while the system maps them.
    ("crates/state/src/table/stock.rs", "Mutex"),
];

/// Compares every `Cargo.toml` with the table, and the pure crates' code with what they must not name.
pub fn check(files: &[SourceFile]) -> Vec<String> {
    let mut violations = Vec::new();
    for file in files {
        if let Some(folder) = file.path.strip_prefix("crates/").and_then(|path| path.strip_suffix("/Cargo.toml")) {
            match LAYERS.iter().find(|layer| layer.folder == folder) {
                Some(layer) => violations.extend(check_manifest(layer, file)),
                None => violations.push(format!("{}: not in the table of crates/xtask/src/rules/layers.rs", file.path)),
            }
        }
        if let Some(pure) = PURE.iter().find(|pure| file.path.starts_with(pure.folder)) {
            violations.extend(check_purity(pure, file));
        }
    }
    violations
}

fn check_manifest(layer: &Layer, file: &SourceFile) -> Vec<String> {
    let mut violations = Vec::new();
    for dependency in dependencies(&file.text) {
        let own = match dependency.name {
            "pelton" => Some("engine"),
            name => name.strip_prefix("pelton-"),
        };
        let allowed = match own {
            // Tests of any crate may use the reference model and what feeds it.
            Some("testkit") if dependency.for_tests => true,
            // A crate's tests may turn on its own features.
            Some(own) if dependency.for_tests && own == layer.folder => true,
            Some(own) => layer.uses.contains(&own),
            None => !layer.never.iter().any(|library| dependency.name.starts_with(library)),
        };
        if !allowed {
            violations.push(format!(
                "{}:{}: '{}' must not use '{}' (see ARCHITECTURE.md, \"The crates\")",
                file.path, dependency.line, layer.folder, dependency.name
            ));
        }
    }
    violations
}

struct Dependency<'a> {
    name: &'a str,
    line: usize,
    for_tests: bool,
}

/// The dependencies of a manifest, tests' and builds' included. Knows the subset of TOML that manifests here are written in.
fn dependencies(manifest: &str) -> Vec<Dependency<'_>> {
    let mut found = Vec::new();
    let mut section = "";
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        let for_tests = section.contains("dev-dependencies");
        if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = header;
            // [dependencies.NAME] is the same as NAME = { … } under [dependencies].
            if let Some((table, name)) = header.rsplit_once('.')
                && table.ends_with("dependencies")
            {
                found.push(Dependency { name, line: index + 1, for_tests: table.contains("dev-dependencies") });
            }
        } else if section.ends_with("dependencies") && !line.starts_with('#') {
            let name = line.split(['=', '.', ' ']).next().unwrap_or("").trim_matches('"');
            if !name.is_empty() && line.contains('=') {
                found.push(Dependency { name, line: index + 1, for_tests });
            }
        }
    }
    found
}

fn check_purity(pure: &Pure, file: &SourceFile) -> Vec<String> {
    if !file.path.ends_with(".rs") || file.path.ends_with("/tests.rs") {
        return Vec::new();
    }
    let scanned = super::scan::scan(&file.text);
    // Tests stand at the end of a file and may use what they need.
    let code = scanned.code.split("#[cfg(test)]\nmod ").next().unwrap_or("");
    let mut violations = Vec::new();
    let mut exceptions: Vec<&str> =
        EXCEPTIONS.iter().filter(|(path, _)| *path == file.path).map(|(_, name)| *name).collect();
    let allowed = exceptions.clone();
    for (index, line) in code.lines().enumerate() {
        for name in pure.never.iter().filter(|name| begins_word(line, name)) {
            exceptions.retain(|exception| exception != name);
            if !allowed.contains(name) {
                violations.push(format!("{}:{}: {}, so no {name}", file.path, index + 1, pure.why));
            }
        }
    }
    let stale = |name| format!("{}: names no {name} any more: take it off EXCEPTIONS in rules/layers.rs", file.path);
    violations.extend(exceptions.into_iter().map(stale));
    violations
}

/// Whether a word of the line begins with this.
fn begins_word(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_one(path: &str, text: &str) -> Vec<String> {
        check(&[SourceFile { path: path.to_string(), text: text.to_string() }])
    }

    #[test]
    fn arrows_point_one_way() {
        let runtime = "crates/runtime/Cargo.toml";
        assert!(check_one(runtime, "[dependencies]\npelton-state.workspace = true\ntokio.workspace = true").is_empty());
        let violations = check_one(runtime, "[dependencies]\npelton-plan.workspace = true\n");
        assert_eq!(violations.len(), 1);
        assert!(violations[0].starts_with("crates/runtime/Cargo.toml:2: 'runtime' must not use 'pelton-plan'"));
        assert_eq!(check_one(runtime, "[dependencies.pelton-compiler]\nworkspace = true").len(), 1);
        assert_eq!(check_one(runtime, "[dev-dependencies]\ndatafusion-sql = { workspace = true }").len(), 1);
        assert!(check_one(runtime, "[dev-dependencies]\npelton-testkit.workspace = true").is_empty());
        assert_eq!(check_one(runtime, "[dependencies]\npelton-testkit.workspace = true").len(), 1);
        assert!(
            check_one(runtime, "[package]\nname = \"pelton-plan\"\n[dependencies]\n# pelton-plan = 1\n").is_empty()
        );
    }

    #[test]
    fn a_crate_without_a_place_is_refused() {
        assert_eq!(check_one("crates/helpers/Cargo.toml", "").len(), 1);
    }

    #[test]
    fn the_compiler_has_no_clock() {
        let text = "use std::time::Instant;\n#[cfg(test)]\nmod tests { use std::thread; }";
        assert_eq!(check_one("crates/compiler/src/lib.rs", text).len(), 1);
        assert!(check_one("crates/compiler/src/tests.rs", text).is_empty());
        assert!(check_one("crates/runtime/src/lib.rs", text).is_empty());
    }

    #[test]
    fn state_has_no_locks() {
        let impure = [
            "use std::sync::Mutex;",
            "fn f(x: &RwLock<u8>) {}",
            "use std::sync::{Arc, Condvar};",
            "use std::thread;",
            "let x = thread::spawn(f);",
            "fn f(now: Instant) {}",
            "SystemTime::now()",
            "use std::fs::File;",
            "use std::net;",
            "use std::sync::mpsc::channel;",
            "static X: AtomicU64 = AtomicU64::new(0);",
        ];
        for text in impure {
            let violations = check_one("crates/state/src/a.rs", &format!("fn a() {{}}\n{text}"));
            let start = "crates/state/src/a.rs:2: no threads, locks, clock or files here, so no ";
            assert!(
                !violations.is_empty() && violations.iter().all(|line| line.starts_with(start)),
                "{text}: {violations:?}"
            );
        }
        let pure =
            "// Mutex\nfn f() { \"Mutex\"; NoMutex; NonAtomic; }\n#[cfg(test)]\nmod tests { use std::sync::Mutex; }";
        assert_eq!(check_one("crates/state/src/a.rs", pure), Vec::<String>::new());
        assert!(check_one("crates/compiler/src/a.rs", "use std::sync::Mutex;").is_empty());
    }

    #[test]
    fn an_exception_is_for_one_name_of_one_file() {
        let path = "crates/state/src/table/stock.rs";
        assert!(check_one(path, "struct A(Mutex<u8>);").is_empty());
        assert_eq!(check_one(path, "struct A(Mutex<u8>);\nstruct B(RwLock<u8>);").len(), 1);
        assert!(check_one(path, "struct A(u8);")[0].contains("names no Mutex any more"));
    }
}
