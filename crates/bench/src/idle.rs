//! How long the processor is busy with queries for which nothing comes.
//!
//! The tables `by_event_time (v BIGINT NOT NULL, ts TIMESTAMP(3) NOT NULL, WATERMARK FOR ts AS ts)` and `by_clock (v BIGINT NOT NULL, ts TIMESTAMP(3) NOT NULL, at AS PROCTIME())`
//! get one row at first, so that windows are open, and none after that. The statement set of the benchmark runs for the whole time. What a second takes is
//! the processor time of all threads of the process, the one that measures among them, which sleeps.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMillisecondArray};
use pelton::Session;

use super::file::{Benchmark, Case};
use super::measure::start_in;
use super::report::{Figure, Samples, Wait};
use super::{Arguments, BenchError};

/// Between the first row and what is measured: code is compiled, and what the row means is done.
const BEFORE: Duration = Duration::from_millis(500);

/// Of each second so many milliseconds.
pub(super) fn measure(benchmark: &Benchmark, case: &Case, arguments: &Arguments) -> Result<Vec<Figure>, BenchError> {
    let statements = benchmark.statements(case, arguments.seconds, "");
    let session = Session::new();
    let table = |name: &str, time: &str| {
        session.push_table(name, &format!("v BIGINT NOT NULL, ts TIMESTAMP(3) NOT NULL, {time}"))
    };
    let tables = [table("by_event_time", "WATERMARK FOR ts AS ts")?, table("by_clock", "at AS PROCTIME()")?];
    let query = start_in(&session, &statements.setup, &statements.query, arguments.workers)?;
    let row: [ArrayRef; 2] =
        [Arc::new(Int64Array::from(vec![1])), Arc::new(TimestampMillisecondArray::from(vec![1_000]))];
    for table in &tables {
        let row = RecordBatch::try_new(table.schema().clone(), row.to_vec());
        table.push_blocking(row.expect("the columns are those of the table"))?;
    }
    std::thread::sleep(BEFORE);
    let mut busy_ms = Samples::default();
    for _ in 0..arguments.repeat.max(1) {
        let (began, before) = (Instant::now(), processor_seconds()?);
        std::thread::sleep(Duration::from_secs_f64(arguments.seconds));
        busy_ms.0.push((processor_seconds()? - before) / began.elapsed().as_secs_f64() * 1e3);
    }
    query.control().abort();
    let (bench, case) = (benchmark.name.clone(), case.name.clone());
    let waited_for = "busy in a second".to_owned();
    Ok(vec![Figure::Wait(Wait { bench, case, waited_for, workers: arguments.workers, samples_ms: busy_ms })])
}

/// What all threads of the process have taken, as Linux says.
fn processor_seconds() -> Result<f64, BenchError> {
    let failed = |error: std::io::Error| BenchError::Process(error.to_string());
    let mut nanos = 0.0;
    for thread in std::fs::read_dir("/proc/self/task").map_err(failed)? {
        let times = std::fs::read_to_string(thread.map_err(failed)?.path().join("schedstat"));
        // A thread that has ended meanwhile has nothing more to say.
        let times = times.unwrap_or_default();
        nanos += times.split_whitespace().next().and_then(|nanos| nanos.parse::<f64>().ok()).unwrap_or_default();
    }
    Ok(nanos / 1e9)
}
