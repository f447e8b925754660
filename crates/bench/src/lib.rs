//! How fast the engine is: the benchmark runner, the loops it is measured against, and the soak.
//!
//! `bench/*.bench` are text; each case runs in alternation with its reference. In reading order: [`mod@file`] (a benchmark as text), [`loops`] (the hand-written loops by name, and the
//! blocks they read), [`reference`] (these loops), `bare` (a kernel without the engine), `duckdb`, [`measure`] (one measurement), `stream` (a stream against its references), [`files`], [`waits`], [`resident`], [`pause`],
//! [`latency`], [`idle`], [`state`], [`queries`], [`modes`] and [`course`] (the other kinds), `partials` (the slices that sliding windows retain), `plot` (their figures), [`report`] (what was
//! measured). [`soak`] runs many queries for a long time.

mod arguments;

mod error;

pub mod file;

pub mod loops;

pub mod reference;

mod bare;

pub mod measure;

pub mod files;

pub mod waits;

pub mod resident;

pub mod pause;

pub mod latency;

mod live;

mod ad_hoc;

pub mod idle;

pub mod state;

pub mod queries;

pub mod modes;

pub mod course;

mod duckdb;

mod stream;

mod partials;

mod plot;

pub mod report;

pub mod soak;

use std::io::Write;
use std::path::Path;

pub use arguments::Arguments;
pub use error::BenchError;
use file::{Benchmark, Case, Kind};
use report::Figure;

/// Runs benchmarks of `folder` and reports each case when it is done.
///
/// # Errors
/// [`BenchError`]; what was measured before has been reported.
pub fn run(arguments: &Arguments, folder: &Path, output: &mut dyn Write) -> Result<(), BenchError> {
    let benchmarks = read_all(folder)?;
    for name in &arguments.names {
        check_name(name, &benchmarks)?;
    }
    for benchmark in &benchmarks {
        let is_wanted = |name: &String| name.split('/').next() == Some(benchmark.name.as_str());
        let is_wanted = arguments.names.is_empty() || arguments.names.iter().any(is_wanted);
        if let Some(file) = benchmark.needs.as_ref().filter(|file| is_wanted && !Path::new(file).exists()) {
            eprintln!("{}: skipped, as there is no file '{file}' here", benchmark.name);
            continue;
        }
        // The cases of a picture are measured together, which the first stands for.
        let cases = if matches!(benchmark.kind, Kind::Course | Kind::Modes) { 1 } else { benchmark.cases.len() };
        let mut crowds = Vec::new();
        for case in &benchmark.cases[..cases] {
            let wanted = |name: &String| *name == benchmark.name || *name == full_name(benchmark, case);
            if arguments.names.is_empty() || arguments.names.iter().any(wanted) {
                for figure in measure_case(benchmark, case, arguments)? {
                    if let (Kind::Queries, Figure::Crowd(crowd)) = (benchmark.kind, &figure) {
                        crowds.push((case, crowd.clone()));
                    }
                    let text = if arguments.json { figure.json() } else { figure.text() };
                    let written = writeln!(output, "{text}").and_then(|()| output.flush());
                    written.map_err(|error| BenchError::File { place: "the report".to_string(), error })?;
                }
            }
        }
        if let Some(folder) = arguments.plots.as_ref().filter(|_| !crowds.is_empty()) {
            queries::draw(benchmark, &crowds, folder)?;
        }
    }
    Ok(())
}

/// How a case is named on the command line.
fn full_name(benchmark: &Benchmark, case: &Case) -> String {
    format!("{}/{}", benchmark.name, case.name)
}

/// Whether there is a benchmark, or a case of one, of this name.
fn check_name(name: &str, benchmarks: &[Benchmark]) -> Result<(), BenchError> {
    let benchmark = benchmarks.iter().find(|benchmark| name.split('/').next() == Some(benchmark.name.as_str()));
    let known: Vec<String> = match benchmark {
        None => benchmarks.iter().map(|benchmark| benchmark.name.clone()).collect(),
        Some(benchmark) if name == benchmark.name => return Ok(()),
        Some(benchmark) => benchmark.cases.iter().map(|case| full_name(benchmark, case)).collect(),
    };
    if known.iter().any(|known| known == name) {
        return Ok(());
    }
    Err(BenchError::Unknown { name: name.to_string(), known: known.join(", ") })
}

fn read_all(folder: &Path) -> Result<Vec<Benchmark>, BenchError> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => BenchError::Folder(folder.display().to_string()),
        _ => BenchError::File { place: folder.display().to_string(), error },
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "bench"));
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let place = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| BenchError::File { place: place.clone(), error })?;
        Benchmark::parse(&text).map_err(|error| BenchError::Text { place, error })
    };
    paths.iter().map(read).collect()
}

fn measure_case(benchmark: &Benchmark, case: &Case, arguments: &Arguments) -> Result<Vec<Figure>, BenchError> {
    match benchmark.kind {
        Kind::Stream => stream::measure(benchmark, case, arguments),
        Kind::Files => files::measure(benchmark, case, arguments),
        Kind::Start => waits::measure(benchmark, case, arguments),
        Kind::Resident => resident::measure(benchmark, case, arguments),
        Kind::Pause => pause::measure(benchmark, case, arguments),
        Kind::Latency => latency::measure(benchmark, case, arguments),
        Kind::Idle => idle::measure(benchmark, case, arguments),
        Kind::State => state::measure(benchmark, case, arguments),
        Kind::Queries => queries::measure(benchmark, case, arguments),
        Kind::Live => live::measure(benchmark, case, arguments),
        Kind::AdHoc => ad_hoc::measure(benchmark, case, arguments),
        Kind::Modes => modes::measure(benchmark, arguments),
        Kind::Course => course::measure(benchmark, arguments),
    }
}
