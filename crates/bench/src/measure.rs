//! One measurement: how many records a second the engine, a loop, or the memory gets through.

use std::time::{Duration, Instant};

use pelton::{Outcome, Query, Session};
use pelton_data::Block;

use super::BenchError;
use super::loops::Loop;
use crate::reference::scan;

/// Records a second of the engine, counted at the sources `tables`, from the first block taken to the end. Loading the input does not count.
///
/// # Errors
/// Where the engine refuses or fails.
pub fn engine(
    setup: &str,
    query: &str,
    tables: &[&str],
    settings: &[(&str, &str)],
    workers: usize,
) -> Result<f64, BenchError> {
    let summary = start(setup, query, settings, workers)?.wait()?;
    let rows = |table: &&str| {
        let read = summary.sources.iter().find(|source| source.name == *table);
        let read = read.ok_or_else(|| BenchError::Input(format!("the query does not read table '{table}'")))?;
        Ok(read.rows as f64)
    };
    let rows: f64 = tables.iter().map(rows).sum::<Result<f64, BenchError>>()?;
    Ok(rows / summary.elapsed.as_secs_f64())
}

/// Starts a query in a session of its own.
///
/// # Errors
/// Where the engine refuses.
pub fn start(setup: &str, query: &str, settings: &[(&str, &str)], workers: usize) -> Result<Query, BenchError> {
    let session = Session::new();
    settings.iter().try_for_each(|(key, value)| session.set(key, value))?;
    start_in(&session, setup, query, workers)
}

/// As [`start`], in a session that may have something the statements need.
///
/// # Errors
/// As there.
pub fn start_in(session: &Session, setup: &str, query: &str, workers: usize) -> Result<Query, BenchError> {
    session.set("pelton.workers", &workers.to_string())?;
    for statement in session.prepare(setup)? {
        session.execute(&statement)?;
    }
    let statements = session.prepare(query)?;
    let statement = statements.first().ok_or_else(|| BenchError::Input("the benchmark has no query".to_string()))?;
    match session.execute(statement)? {
        Outcome::Running(query) => Ok(query),
        _ => Err(BenchError::Input("the benchmark's query is none".to_string())),
    }
}

/// Records a second of a loop by so many threads, again and again.
pub fn reference(blocks: &[Block], run: &Loop, workers: usize, seconds: f64) -> f64 {
    match run {
        Loop::Each(run) => in_shares(blocks, run, workers, seconds),
        Loop::Together(run) => in_shares(blocks, &|blocks| run(blocks, workers), 1, seconds),
    }
}

/// Records a second of a loop that each of `workers` threads runs over its own share of the blocks, again and again.
fn in_shares(blocks: &[Block], loop_: &(dyn Fn(&[Block]) + Sync), workers: usize, seconds: f64) -> f64 {
    let share = blocks.len().div_ceil(workers).max(1);
    let limit = Duration::from_secs_f64(seconds);
    std::thread::scope(|scope| {
        let threads: Vec<_> = blocks
            .chunks(share)
            .map(|blocks| {
                scope.spawn(move || {
                    let rows: usize = blocks.iter().map(Block::rows).sum();
                    let start = Instant::now();
                    let mut done = 0;
                    while done == 0 || start.elapsed() < limit {
                        loop_(blocks);
                        done += rows;
                    }
                    done as f64 / start.elapsed().as_secs_f64()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a reference loop does not panic")).sum()
    })
}

/// Records a second at which the columns can be read at all.
pub fn bandwidth(blocks: &[Block], columns: &[usize], workers: usize, seconds: f64) -> f64 {
    let read = |blocks: &[Block]| {
        std::hint::black_box(scan::read(blocks, columns));
    };
    in_shares(blocks, &read, workers, seconds)
}
