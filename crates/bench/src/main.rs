//! `cargo run --release -p pelton-bench -- NAME…`: measures the engine against hand-written loops.

use std::io::stdout;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// That of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure the engine against hand-written loops
#[derive(Debug, Parser)]
#[command(name = "pelton-bench", version)]
struct Arguments {
    /// Benchmarks by name, or NAME/CASE; all where none is given
    names: Vec<String>,
    /// Threads that do the work
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// Seconds a measurement takes
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Measurements of each side
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// An object a line in place of text
    #[arg(long)]
    json: bool,
    /// Where pictures of courses are written
    #[arg(long)]
    plots: Option<PathBuf>,
    /// Where the benchmarks' files are
    #[arg(long, default_value = "bench")]
    folder: PathBuf,
}

fn main() -> ExitCode {
    let Arguments { names, workers, seconds, repeat, json, plots, folder } = Arguments::parse();
    let arguments = pelton_bench::Arguments { names, workers, seconds, repeat, json, plots };
    match pelton_bench::run(&arguments, &folder, &mut stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
