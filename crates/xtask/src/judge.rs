//! `cargo xtask judge`: DuckDB computes what examples compute, from the same data, and both must agree.
//!
//! An example with a line `-- data: NAME` reads `data/…` in its working directory, which `judge.py` prepares from the raw files;
//! `examples/judge/EXAMPLE.sql` is the same question in DuckDB's SQL over the raw files.
//! An example with a line `-- dumped: TABLE, …` generates these tables: the engine writes all of their rows to `data/EXAMPLE/TABLE.csv`, which DuckDB reads.
//! A line `-- judged: the last row of each COLUMN, …` is for windows that late rows correct: only the last report of each counts.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::examples::{self, Example};
use crate::processes;

/// Where the real data lies, relative to the workspace. It is too large, and some of it too unclear in its licence, to ship.
const DATA: &str = "../shared/data";
const DUCKDB: &str = "duckdb==1.4.2";

/// Judges the named examples, or all.
///
/// # Errors
/// Where an example fails, or its rows differ from DuckDB's.
pub fn run(root: &Path, names: &[&str]) -> Result<String, String> {
    let data = root.join(DATA);
    if !data.is_dir() {
        return Ok(format!("skipped: there is no {DATA}"));
    }
    let examples = examples::list(root)?;
    if let Some(unknown) = names.iter().find(|name| !examples.iter().any(|example| example.name == **name)) {
        return Err(format!("there is no examples/{unknown}.sql"));
    }
    let place = processes::target_directory()?.join("judge");
    let (python, pelton) = (python(&place)?, examples::pelton(root)?);
    let mut judged = 0;
    for example in &examples {
        if example.is_judged() && (names.is_empty() || names.contains(&example.name.as_str())) {
            judge(root, example, [&python, &pelton], &place, &data)?;
            judged += 1;
        }
    }
    Ok(format!("{judged} examples agree with DuckDB"))
}

fn judge(
    root: &Path,
    example: &Example,
    [python, pelton]: [&Path; 2],
    place: &Path,
    data: &Path,
) -> Result<(), String> {
    let script = root.join("crates/xtask/judge.py");
    let ask = |action: &str| {
        let mut command = Command::new(python);
        command.current_dir(place).arg(&script).arg(action).arg(&example.path).arg(data);
        command
    };
    if example.needs_data {
        processes::run(&mut ask("prepare"))?;
    }
    // What it has written before.
    let folder = place.join("data").join(&example.name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    for table in &example.dumped {
        dump(example, table, pelton, place)?;
    }
    let result = place.join(format!("{}.csv", example.name));
    write_rows(example, &example.path, pelton, place, &result)?;
    processes::run(ask("compare").arg(&result))
}

/// Has the engine write all rows of a table that an example creates, as the statement `CREATE TABLE` there says.
fn dump(example: &Example, table: &str, pelton: &Path, place: &Path) -> Result<(), String> {
    let text =
        std::fs::read_to_string(&example.path).map_err(|error| format!("{}: {error}", example.path.display()))?;
    let begin = text.find(&format!("CREATE TABLE {table} "));
    let statement = begin.and_then(|begin| text[begin..].split_once(";\n"));
    let (statement, _) =
        statement.ok_or_else(|| format!("examples/{}.sql: there is no CREATE TABLE {table}", example.name))?;
    let folder = place.join("data").join(&example.name);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let script = folder.join(format!("{table}.sql"));
    std::fs::write(&script, format!("{statement};\nSELECT * FROM {table};\n"))
        .map_err(|error| format!("{}: {error}", script.display()))?;
    write_rows(example, &script, pelton, place, &folder.join(format!("{table}.csv")))
}

/// Writes the rows of a script to a file.
fn write_rows(example: &Example, script: &Path, pelton: &Path, place: &Path, result: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", example.name);
    let rows = std::fs::File::create(result).map_err(failed)?;
    let mut command = Command::new(pelton);
    command.current_dir(place).args(["run", "--format", "csv"]).arg(script).stdout(rows);
    let output = command.stderr(Stdio::piped()).spawn().and_then(Child::wait_with_output).map_err(failed)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("examples/{}.sql: {}", example.name, String::from_utf8_lossy(&output.stderr))),
    }
}

/// A Python that has DuckDB, in an environment of its own under the target directory.
fn python(place: &Path) -> Result<PathBuf, String> {
    let python = place.join("venv/bin/python");
    let ready = place.join(DUCKDB);
    if !ready.exists() {
        std::fs::create_dir_all(place).map_err(|error| format!("{}: {error}", place.display()))?;
        processes::run(Command::new("python3").args(["-m", "venv"]).arg(place.join("venv")))?;
        processes::run(Command::new(&python).args(["-m", "pip", "install", "--quiet", DUCKDB]))?;
        std::fs::write(&ready, "").map_err(|error| format!("{}: {error}", ready.display()))?;
    }
    Ok(python)
}
