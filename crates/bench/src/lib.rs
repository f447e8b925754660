//! How fast the engine is: the benchmark runner, the loops it is measured against, and the soak.
//!
//! `bench/*.bench` are text; each case runs in alternation with its reference. In reading order: [`mod@file`] (a benchmark as text), [`loops`] (the hand-written loops by name, and the
//! blocks they read), [`reference`] (these loops), `bare` (a kernel without the engine), [`measure`] (one measurement of a stream), [`files`], [`waits`], [`resident`], [`pause`],
//! [`latency`], [`idle`], [`state`], [`queries`], [`modes`] and [`course`] (the other kinds), `partials` (the slices that sliding windows retain), `plot` (their figures), [`report`] (what was
//! measured). [`soak`] runs many queries for a long time.

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

pub mod idle;

pub mod state;

pub mod queries;

pub mod modes;

pub mod course;

mod partials;

mod plot;

pub mod report;

pub mod soak;

use std::io::Write;
use std::path::{Path, PathBuf};

use file::{Benchmark, Case, Kind, Statements};
use loops::{Input, Loop};
use pelton_data::column::row_bytes;
use report::{Figure, Line, Samples};

/// What to measure, and how often.
#[derive(Debug, Clone)]
pub struct Arguments {
    /// Names of benchmarks, or `NAME/CASE`; all where there are none.
    pub names: Vec<String>,
    /// Threads.
    pub workers: usize,
    /// How long each measurement takes.
    pub seconds: f64,
    /// Measurements of each thing.
    pub repeat: usize,
    /// Whether the report is for programs: one JSON object a line.
    pub json: bool,
    /// Where pictures are written, if any are.
    pub plots: Option<PathBuf>,
}

/// Why a benchmark did not run.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A file that cannot be read, or a report that cannot be written.
    #[error("{place}: {error}")]
    File {
        /// Which.
        place: String,
        /// What happened.
        error: std::io::Error,
    },
    /// There are no benchmarks where they were looked for.
    #[error("there is no folder '{0}': run it in a clone of the repository, or say where the folder is with --folder")]
    Folder(String),
    /// A benchmark's text.
    #[error("{place}, {error}")]
    Text {
        /// Which file.
        place: String,
        /// What is wrong.
        error: file::BenchmarkError,
    },
    /// No benchmark, or no case of one, has the name.
    #[error("there is no benchmark '{name}'; there are {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The engine refuses or fails.
    #[error(transparent)]
    Engine(#[from] pelton::Error),
    /// What a benchmark reads or names does not fit.
    #[error("{0}")]
    Input(String),
    /// A process that was measured.
    #[error("the measured process: {0}")]
    Process(String),
}

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
        Kind::Stream => measure_stream(benchmark, case, arguments),
        Kind::Files => files::measure(benchmark, case, arguments),
        Kind::Start => waits::measure(benchmark, case, arguments),
        Kind::Resident => resident::measure(benchmark, case, arguments),
        Kind::Pause => pause::measure(benchmark, case, arguments),
        Kind::Latency => latency::measure(benchmark, case, arguments),
        Kind::Idle => idle::measure(benchmark, case, arguments),
        Kind::State => state::measure(benchmark, case, arguments),
        Kind::Queries => queries::measure(benchmark, case, arguments),
        Kind::Modes => modes::measure(benchmark, arguments),
        Kind::Course => course::measure(benchmark, arguments),
    }
}

/// What a stream is measured against.
enum Reference {
    Loop(Loop),
    /// Another case of the benchmark, compiled where it does not say how it runs.
    Case(Box<Prepared>),
}

/// How a stream is run, what that is called, and what was measured.
struct Way {
    engine: &'static str,
    tier: &'static str,
    windows: &'static str,
    /// The way that it is compared with, and what that is called then; the references where there is none.
    against: Option<(usize, &'static str)>,
    samples: Samples,
}

/// The ways to run a case: as its parameter `tier` says, or compiled and interpreted.
fn ways(benchmark: &Benchmark, case: &Case) -> Vec<Way> {
    let way = |engine, tier| Way { engine, tier, windows: "slices", against: None, samples: Samples::default() };
    let mut ways = match tier_of(case) {
        Some("interpret") => vec![way("interpreted", "interpret")],
        Some("auto") => vec![way("auto", "auto")],
        Some(_) => vec![way("compiled", "compile")],
        None => vec![way("compiled", "compile"), way("interpreted", "interpret")],
    };
    if benchmark.with_auto {
        ways.push(Way { against: Some((1, "interpreted")), ..way("auto", "auto") });
    }
    if let Some(windows) = benchmark.with_windows {
        ways.push(Way { windows, against: Some((0, "slices")), ..way(windows, "compile") });
    }
    ways
}

fn tier_of(case: &Case) -> Option<&str> {
    case.parameters.get("tier").map(String::as_str)
}

/// A case whose files are there.
struct Prepared {
    statements: Statements,
    tier: &'static str,
    /// The files last as long.
    _folder: files::Folder,
}

impl Prepared {
    fn new(benchmark: &Benchmark, case: &Case, seconds: f64) -> Result<Prepared, BenchError> {
        let folder = files::Folder::new(&format!("{}-{}", benchmark.name, case.name))?;
        let statements = benchmark.statements(case, seconds, &folder.text());
        files::prepare(&statements.setup, &statements.prepare)?;
        Ok(Prepared { statements, tier: ways(benchmark, case)[0].tier, _folder: folder })
    }

    fn run(&self, table: &str, tier: &str, windows: &str, workers: usize) -> Result<f64, BenchError> {
        let settings = [("pelton.tier", tier), ("pelton.windows", windows)];
        measure::engine(&self.statements.setup, &self.statements.query, table, &settings, workers)
    }
}

/// How many rows a loop goes over in one call.
fn call_rows(case: &Case) -> usize {
    case.number("call_rows").unwrap_or(loops::CALL_ROWS)
}

/// What a case is measured against, by name and without samples so far.
fn references(
    benchmark: &Benchmark,
    case: &Case,
    seconds: f64,
    prepared: &Prepared,
    input: &Input,
) -> Result<Vec<(String, Reference, Samples)>, BenchError> {
    if let Some(other) = benchmark.against(case) {
        let other_prepared = Box::new(Prepared::new(benchmark, other, seconds)?);
        return Ok(vec![(other.name.clone(), Reference::Case(other_prepared), Samples::default())]);
    }
    let named = |name: &String| {
        let run = match name.as_str() {
            "bare-kernel" => Loop::Together(bare::bare_kernel(&prepared.statements, call_rows(case))?),
            _ => loops::named(name, case, &prepared.statements.setup, input)?,
        };
        Ok((name.clone(), Reference::Loop(run), Samples::default()))
    };
    benchmark.references.iter().map(named).collect()
}

/// All ways to run a case and the references take turns, so that a noisy moment does not hit one of them only. Each time another way begins: the
/// first one after the references touches pages that the system has taken back meanwhile, which may cost more than what is measured.
fn measure_stream(benchmark: &Benchmark, case: &Case, arguments: &Arguments) -> Result<Vec<Figure>, BenchError> {
    let Arguments { workers, seconds, repeat, .. } = *arguments;
    let prepared = Prepared::new(benchmark, case, seconds)?;
    let setup = &prepared.statements.setup;
    let input = Input::load(setup, &benchmark.table)?;
    let passes = input.passes(call_rows(case));
    let columns: Vec<usize> = benchmark.columns.iter().map(|name| input.column(name)).collect();
    let mut references = references(benchmark, case, seconds, &prepared, &input)?;
    let (mut ways, mut scan) = (ways(benchmark, case), Samples::default());
    for turn in 0..repeat.max(1) {
        let mut all: Vec<_> = (0..ways.len() + references.len()).collect();
        all[..ways.len()].rotate_left(turn % ways.len());
        for index in all {
            if let Some(Way { tier, windows, samples, .. }) = ways.get_mut(index) {
                samples.0.push(prepared.run(&benchmark.table, tier, windows, workers)?);
                continue;
            }
            let (_, reference, samples) = &mut references[index - ways.len()];
            samples.0.push(match reference {
                Reference::Loop(run) => measure::reference(&passes, run, workers, seconds),
                Reference::Case(other) => other.run(&benchmark.table, other.tier, "slices", workers)?,
            });
        }
        scan.0.push(measure::bandwidth(&passes, &columns, workers, seconds.min(1.0)));
    }
    let line = |engine: &str, samples, reference| {
        Figure::Rate(Line {
            bench: benchmark.name.clone(),
            case: case.name.clone(),
            engine: engine.to_string(),
            workers,
            samples,
            bytes_per_record: bytes_per_record(&input, &columns),
            reference,
        })
    };
    let mut by_hand: Vec<(String, Samples)> =
        references.into_iter().map(|(name, _, samples)| (name, samples)).collect();
    by_hand.sort_by(|a, b| b.1.median().total_cmp(&a.1.median()));
    let fastest = by_hand.first().cloned();
    let reference = |way: &Way| match way.against {
        Some((other, name)) => Some((name.to_string(), ways[other].samples.clone())),
        None => fastest.clone(),
    };
    let mut lines: Vec<_> = ways.iter().map(|way| line(way.engine, way.samples.clone(), reference(way))).collect();
    lines.push(line("scan", scan, None));
    if by_hand.len() > 1 {
        lines.extend(by_hand.into_iter().map(|(name, samples)| line(&format!("loop {name}"), samples, None)));
    }
    lines.extend(partials::measure(benchmark, case, &input)?);
    Ok(lines)
}

fn bytes_per_record(input: &Input, columns: &[usize]) -> usize {
    let Some(block) = input.blocks.first() else { return 0 };
    row_bytes(columns.iter().map(|column| &block.raw_columns()[*column]))
}
