//! What a new query waits for: its kernels' compilation, its first result, the whole life of a process.

use std::process::{Command, Stdio};
use std::time::Instant;

use super::file::{Benchmark, Case, Statements};
use super::files::{Folder, prepare};
use super::report::{Figure, Samples, Wait};
use super::{Arguments, BenchError, measure};

/// Each in turn, so that a noisy moment does not hit one of them only.
pub(super) fn measure(benchmark: &Benchmark, case: &Case, arguments: &Arguments) -> Result<Vec<Figure>, BenchError> {
    let folder = Folder::new(&benchmark.name)?;
    let statements = benchmark.statements(case, arguments.seconds, &folder.text());
    prepare(&statements.setup, &statements.prepare)?;
    let workers = arguments.workers;
    let [mut compilation, mut first, mut process] = [const { Samples(Vec::new()) }; 3];
    for _ in 0..arguments.repeat.max(1) {
        compilation.0.push(compilation_ms(&statements, workers)?);
        first.0.push(first_result_ms(&statements, workers)?);
        process.0.push(process_ms(&statements, workers)?);
    }
    let wait = |waited_for: &str, samples_ms| {
        let (bench, case) = (benchmark.name.clone(), case.name.clone());
        Figure::Wait(Wait { bench, case, waited_for: waited_for.to_owned(), workers, samples_ms })
    };
    Ok(vec![wait("compilation", compilation), wait("first result", first), wait("process", process)])
}

/// The pipeline that takes longest to compile.
fn compilation_ms(statements: &Statements, workers: usize) -> Result<f64, BenchError> {
    let query = measure::start(&statements.setup, &statements.query, &[("pelton.tier", "compile")], workers)?;
    let longest = query.progress().pipelines.iter().map(|pipeline| pipeline.code.preparation).max().unwrap_or_default();
    query.collect()?;
    Ok(longest.as_secs_f64() * 1e3)
}

/// From SQL text to the first rows, in a session that is new.
fn first_result_ms(statements: &Statements, workers: usize) -> Result<f64, BenchError> {
    let start = Instant::now();
    let mut query = measure::start(&statements.setup, &statements.query, &[("pelton.tier", "auto")], workers)?;
    let first = query.next_batch()?;
    let elapsed = start.elapsed();
    first.ok_or_else(|| BenchError::Input("the benchmark's query has no result".into()))?;
    query.collect()?;
    Ok(elapsed.as_secs_f64() * 1e3)
}

/// From the start of the program, asked to run the statements, to its end.
fn process_ms(statements: &Statements, workers: usize) -> Result<f64, BenchError> {
    let start = Instant::now();
    let output = run(statements, workers)?.stdout(Stdio::null()).stderr(Stdio::piped()).output();
    let output = output.map_err(|error| BenchError::Process(error.to_string()))?;
    let elapsed = start.elapsed();
    match output.status.success() {
        true => Ok(elapsed.as_secs_f64() * 1e3),
        false => Err(BenchError::Process(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

/// The program as `pelton run -e STATEMENTS`. It was built into the folder of this one.
pub(super) fn run(statements: &Statements, workers: usize) -> Result<Command, BenchError> {
    let bench = std::env::current_exe().map_err(|error| BenchError::Process(error.to_string()))?;
    let program = bench.with_file_name("pelton").with_extension(std::env::consts::EXE_EXTENSION);
    if !program.is_file() {
        let problem = format!("{} does not exist: build it with `cargo build --release`", program.display());
        return Err(BenchError::Process(problem));
    }
    let mut command = Command::new(program);
    let text = format!("{};\n{}", statements.setup, statements.query);
    command.args(["run", "--workers", &workers.to_string(), "-e", &text]).stdin(Stdio::null());
    Ok(command)
}
