//! The scripts of `examples/`: each runs to its end.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::processes;

/// A script of `examples/`.
pub struct Example {
    /// File name without `.sql`.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Whether it reads `data/`, which only the judge prepares: its first lines say so.
    pub needs_data: bool,
    /// Generated tables that DuckDB reads as the engine writes them: a line `-- dumped: TABLE, …` names them.
    pub dumped: Vec<String>,
}

impl Example {
    /// Whether DuckDB can say what its rows are.
    pub fn is_judged(&self) -> bool {
        self.needs_data || !self.dumped.is_empty()
    }
}

/// All scripts, by name.
///
/// # Errors
/// Where a file cannot be read.
pub fn list(root: &Path) -> Result<Vec<Example>, String> {
    let folder = root.join("examples");
    let mut examples = Vec::new();
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "sql") {
            let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let dumped = text.lines().find_map(|line| line.strip_prefix("-- dumped: "));
            let dumped = dumped.into_iter().flat_map(|names| names.split(", ")).map(str::to_string).collect();
            examples.push(Example { name, path, needs_data: text.contains("\n-- data: "), dumped });
        }
    }
    examples.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(examples)
}

/// Runs every script that brings its own input.
///
/// # Errors
/// Where one fails; its output has been shown.
pub fn run_all(root: &Path) -> Result<String, String> {
    let (pelton, mut ran) = (pelton(root)?, 0);
    // Some write files.
    let place = processes::target_directory()?.join("examples-run");
    let failed = |error: std::io::Error| format!("{}: {error}", place.display());
    if place.exists() {
        std::fs::remove_dir_all(&place).map_err(failed)?;
    }
    std::fs::create_dir_all(&place).map_err(failed)?;
    for example in list(root)?.iter().filter(|example| !example.needs_data) {
        let output =
            Command::new(&pelton).current_dir(&place).args(["run", "--format", "csv"]).arg(&example.path).output();
        let output = output.map_err(|error| format!("{}: {error}", example.name))?;
        if !output.status.success() {
            return Err(format!("examples/{}.sql: {}", example.name, String::from_utf8_lossy(&output.stderr)));
        }
        ran += 1;
    }
    Ok(format!("{ran} scripts"))
}

/// The `pelton` command as the tests build it: a build of its own would compile the engine again, with other features.
///
/// # Errors
/// Where it cannot be built.
pub fn pelton(root: &Path) -> Result<PathBuf, String> {
    processes::run(processes::cargo(root).args(["build", "--quiet", "--workspace", "--all-targets"]))?;
    Ok(processes::target_directory()?.join("debug/pelton").with_extension(std::env::consts::EXE_EXTENSION))
}
