//! `tests/sql/**/*.slt`.

use std::path::{Path, PathBuf};

use pelton_testkit::script::parse::Script;

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

fn all_scripts() -> Vec<PathBuf> {
    scripts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sql"))
}

#[test]
fn every_script_is_written_back_as_it_was() {
    let scripts = all_scripts();
    assert!(!scripts.is_empty());
    for path in scripts {
        let text = std::fs::read_to_string(&path).unwrap();
        let script = Script::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(script.to_string(), text, "{}", path.display());
    }
}
