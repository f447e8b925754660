//! How long other rows wait while a query closes large windows.
//!
//! A row is due in the table `probe (due_ns BIGINT NOT NULL)` every millisecond. The benchmark's statement set applies the
//! function `waited(due_ns)` to them, which keeps how long ago they were due: a row that could not be sent or read in time has
//! waited all the same.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Int64Type};
use pelton::{PushSource, Session};

use super::file::{Benchmark, Case, Statements};
use super::measure::start_in;
use super::report::{Figure, Samples, Wait};
use super::stream::Prepared;
use super::{Arguments, BenchError};

const PROBE_INTERVAL: Duration = Duration::from_millis(1);

/// Runs the case several times; each time gives a median, a 99th percentile and a longest wait.
pub(super) fn measure(benchmark: &Benchmark, case: &Case, arguments: &Arguments) -> Result<Vec<Figure>, BenchError> {
    let prepared = Prepared::new(benchmark, case, arguments.seconds)?;
    let quantiles = [("median of others", 0.5), ("p99 of others", 0.99), ("longest of others", 1.0)];
    let mut samples = quantiles.map(|_| Samples::default());
    for _ in 0..arguments.repeat.max(1) {
        let mut waits_ns = waits_ns(&prepared.statements, arguments)?;
        waits_ns.sort_unstable();
        let last = waits_ns.len().checked_sub(1);
        let last =
            last.ok_or_else(|| BenchError::Input("the benchmark's query does not call waited(due_ns)".into()))?;
        for ((_, quantile), samples) in quantiles.iter().zip(&mut samples) {
            samples.0.push(waits_ns[(quantile * last as f64).round() as usize] as f64 / 1e6);
        }
    }
    let figure = |((waited_for, _), samples_ms): ((&'static str, f64), Samples)| {
        let (bench, case) = (benchmark.name.clone(), case.name.clone());
        Figure::Wait(Wait { bench, case, waited_for: waited_for.to_owned(), workers: arguments.workers, samples_ms })
    };
    Ok(quantiles.into_iter().zip(samples).map(figure).collect())
}

/// Runs the query for the time that its other inputs are replayed.
fn waits_ns(statements: &Statements, arguments: &Arguments) -> Result<Vec<u64>, BenchError> {
    let (session, start) = (Session::new(), Instant::now());
    session.set("pelton.tier", "compile")?;
    let waits_ns: Arc<Mutex<Vec<u64>>> = Arc::default();
    let kept = waits_ns.clone();
    session.register_function("waited", vec![DataType::Int64], DataType::Int64, move |arguments: &[ArrayRef]| {
        let now_ns = start.elapsed().as_nanos() as i64;
        let due_ns = arguments[0].as_primitive::<Int64Type>();
        let waited_ns = due_ns.values().iter().map(|due_ns| now_ns.saturating_sub(*due_ns).max(0) as u64);
        kept.lock().unwrap_or_else(PoisonError::into_inner).extend(waited_ns);
        Ok(arguments[0].clone())
    });
    let probe = session.push_table("probe", "due_ns BIGINT NOT NULL")?;
    let query = start_in(&session, &statements.setup, &statements.query, arguments.workers)?;
    send(probe, start, Duration::from_secs_f64(arguments.seconds))?;
    query.wait()?;
    Ok(std::mem::take(&mut waits_ns.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// Sends each row when it is due, or as soon after as there is room.
fn send(probe: PushSource, start: Instant, duration: Duration) -> Result<(), BenchError> {
    let first = start.elapsed();
    for number in 1.. {
        let due = first + PROBE_INTERVAL * number;
        if due > first + duration {
            break;
        }
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        let row: ArrayRef = Arc::new(Int64Array::from(vec![due.as_nanos() as i64]));
        let rows = RecordBatch::try_new(probe.schema().clone(), vec![row]);
        probe.push_blocking(rows.expect("a probe is one number"))?;
    }
    Ok(())
}
