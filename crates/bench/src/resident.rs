//! The memory of a process while a long stream passes through it.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::file::{Benchmark, Case};
use super::report::{Figure, Resident, Samples};
use super::waits::run;
use super::{Arguments, BenchError};

/// How often the process is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Runs the case in a process of its own, which is looked at from outside.
pub(super) fn measure(benchmark: &Benchmark, case: &Case, arguments: &Arguments) -> Result<Vec<Figure>, BenchError> {
    let statements = benchmark.statements(case, arguments.seconds, "");
    let [mut peaks, mut growth] = [const { Samples(Vec::new()) }; 2];
    for _ in 0..arguments.repeat.max(1) {
        let mut command = run(&statements, arguments.workers)?;
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let looks = looks(child.map_err(|error| BenchError::Process(error.to_string()))?)?;
        let most = |from: f64, until: f64| {
            let end = looks.last().map_or(0.0, |look| look.0);
            let inside = looks.iter().filter(|look| (from * end..=until * end).contains(&look.0));
            inside.map(|look| look.1).fold(0.0, f64::max)
        };
        peaks.0.push(most(0.0, 1.0));
        growth.0.push(most(0.75, 1.0) / most(0.25, 0.5));
    }
    let (bench, case) = (benchmark.name.clone(), case.name.clone());
    Ok(vec![Figure::Resident(Resident { bench, case, workers: arguments.workers, peaks, growth })])
}

/// Seconds since its start, and bytes resident then, until the process ends.
fn looks(mut child: Child) -> Result<Vec<(f64, f64)>, BenchError> {
    let start = Instant::now();
    let mut looks = Vec::new();
    loop {
        if let Some(bytes) = resident_bytes(child.id()) {
            looks.push((start.elapsed().as_secs_f64(), bytes));
        }
        match child.try_wait() {
            Ok(None) => std::thread::sleep(LOOK_INTERVAL),
            Ok(Some(status)) if status.success() => return Ok(looks),
            Ok(Some(status)) => return Err(BenchError::Process(status.to_string())),
            Err(error) => return Err(BenchError::Process(error.to_string())),
        }
    }
}

/// What Linux says; `None` where the process has ended.
pub(crate) fn resident_bytes(process: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024.0)
}
