//! Random rows, for the models of what is computed from them.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray};
use arrow::datatypes::DataType;
use pelton::query::QueryControl;
use pelton::{PushSource, Query, Session};
use pelton_runtime::policy::PolicyName;
use pelton_runtime::snapshot::SnapshotError;
use pelton_testkit::script::run::Configuration;
use pelton_testkit::windows::Row;
use proptest::prelude::*;

/// Interpreted or compiled, on one worker or two, in blocks of any size.
pub fn configurations() -> impl Strategy<Value = Configuration> {
    let configuration = (any::<bool>(), 1usize..=2, prop::sample::select(vec![None, Some(1), Some(3), Some(64)]));
    configuration.prop_map(|(is_compiled, workers, block_rows)| Configuration {
        tier: if is_compiled { "compile" } else { "interpret" },
        workers,
        block_rows,
        policy: PolicyName::default().name(),
        data_passing: "blocks",
    })
}

/// A time is the one before plus a step, less some disorder. Of doubles a few are infinite, or no numbers. Texts match the pattern.
pub fn rows(step: impl Strategy<Value = i64>, text: &'static str) -> impl Strategy<Value = Vec<Row>> {
    let disorder = prop_oneof![4 => Just(0), 2 => 0i64..10, 1 => 0i64..80];
    let key = prop::option::weighted(0.9, prop_oneof![4 => 0i64..3, 1 => any::<i64>()]);
    let integer = prop::option::weighted(0.8, prop_oneof![Just(0), -9i64..9, -1_000_000_000i64..1_000_000_000]);
    let float = prop::option::weighted(0.8, -1_000_000i32..1_000_000);
    let text = prop::option::weighted(0.8, text);
    let row = (step, disorder, key, integer, float, text);
    (-400i64..400, prop::collection::vec(row, 0..150)).prop_map(|(start, rows)| {
        let mut now = start;
        let row = |(step, disorder, key, integer, float, text): (i64, i64, _, _, Option<i32>, _)| {
            now += step;
            let float = float.map(|float| match float {
                float if float % 41 == 0 => f64::INFINITY,
                float if float % 43 == 0 => f64::NEG_INFINITY,
                float if float % 47 == 0 => f64::NAN,
                float => f64::from(float) / 4.0,
            });
            Row { time: now - disorder, key, integer, float, text }
        };
        rows.into_iter().map(row).collect()
    })
}

/// Rows whose doubles are their numbers, for joins: mostly near each other in time.
pub fn numbered_rows() -> impl Strategy<Value = Vec<Row>> {
    let step = prop_oneof![5 => 0i64..4, 3 => Just(0), 1 => 10i64..40, 1 => 300i64..500];
    rows(step, "[a-c]{1,3}").prop_map(|mut rows| {
        (0..).zip(&mut rows).for_each(|(number, row)| row.float = Some(f64::from(number)));
        rows
    })
}

/// The rows for a table that has their columns in their order.
pub fn batch(source: &PushSource, rows: &[Row]) -> RecordBatch {
    let times: TimestampMillisecondArray = rows.iter().map(|row| Some(row.time)).collect();
    let DataType::Timestamp(_, zone) = source.schema().field(0).data_type() else { panic!("rows begin with a time") };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(times.with_timezone_opt(zone.clone())),
        Arc::new(rows.iter().map(|row| row.key).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.integer).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.float).collect::<Float64Array>()),
        Arc::new(rows.iter().map(|row| row.text.clone()).collect::<StringViewArray>()),
    ];
    RecordBatch::try_new(source.schema().clone(), columns).unwrap()
}

/// A table `t` of such rows, whose watermark trails the largest time by so many milliseconds.
pub fn table(session: &Session, delay: i64) -> PushSource {
    table_named(session, "t", delay)
}

/// The same of another name.
pub fn table_named(session: &Session, name: &str, delay: i64) -> PushSource {
    table_with(session, name, ("TIMESTAMP(3)", ""), delay)
}

/// The same with times of a type, and with constraints.
pub fn table_with(session: &Session, name: &str, (times, constraints): (&str, &str), delay: i64) -> PushSource {
    let columns = format!(
        "ts {times} NOT NULL, k BIGINT, i BIGINT, f DOUBLE, s STRING,
         WATERMARK FOR ts AS ts - INTERVAL '0.{delay:03}' SECOND{constraints}"
    );
    session.push_table(name, &columns).unwrap()
}

/// Pushes rows, so many at a time, and reads what a query makes of them. Where it `renews`, it goes on from snapshots of its state after each batch.
pub fn run<L>(
    query: &mut Query,
    source: PushSource,
    (rows, batch_rows): (&[Row], usize),
    renews: bool,
    read: impl Fn(&RecordBatch) -> Vec<L>,
) -> Vec<L> {
    let batches: Vec<RecordBatch> = rows.chunks(batch_rows).map(|rows| batch(&source, rows)).collect();
    let control = query.control();
    let mut lines = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for batch in batches {
                source.push_blocking(batch).unwrap();
                if renews {
                    renew(&control);
                }
            }
        });
        while let Some(batch) = query.next_batch().unwrap() {
            lines.extend(read(&batch));
        }
    });
    lines
}

/// The same of two streams, which are pushed at the same time.
pub fn run_both<L>(
    query: &mut Query,
    sources: [PushSource; 2],
    (rows, batch_rows): ([&[Row]; 2], usize),
    renews: bool,
    read: impl Fn(&RecordBatch) -> Vec<L>,
) -> Vec<L> {
    let control = query.control();
    let mut lines = Vec::new();
    std::thread::scope(|scope| {
        for (source, rows) in sources.into_iter().zip(rows) {
            let control = &control;
            scope.spawn(move || {
                for rows in rows.chunks(batch_rows) {
                    source.push_blocking(batch(&source, rows)).unwrap();
                    if renews {
                        renew(control);
                    }
                }
            });
        }
        while let Some(batch) = query.next_batch().unwrap() {
            lines.extend(read(&batch));
        }
    });
    lines
}

/// Makes the state of all operators of a query anew, from snapshots. Returns how many; those that stay at something keep theirs.
pub fn renew(control: &QueryControl) -> usize {
    // What has come is mostly done soon.
    let renew = |operator| at_rest(10, || control.run().renew(operator)).is_some();
    control.run().stateful_operators().filter(|operator| renew(*operator)).count()
}

/// The snapshots of all operators of a query, of which nothing more comes.
pub fn snapshots(control: &QueryControl) -> Vec<(usize, Vec<u8>)> {
    let snapshot = |operator| {
        (operator, at_rest(5_000, || control.run().snapshot(operator)).expect("what has come is done one day"))
    };
    control.run().stateful_operators().map(snapshot).collect()
}

/// Lets the operators of a query that has not begun go on from the snapshots of another's.
pub fn restore(control: &QueryControl, snapshots: &[(usize, Vec<u8>)]) {
    assert_eq!(control.run().stateful_operators().count(), snapshots.len());
    snapshots.iter().for_each(|(operator, bytes)| control.run().restore(*operator, bytes).unwrap());
}

/// What is there once nothing is under way, if that is soon.
fn at_rest<R>(tries: usize, mut ask: impl FnMut() -> Result<R, SnapshotError>) -> Option<R> {
    for _ in 0..tries {
        match ask() {
            Ok(found) => return Some(found),
            Err(SnapshotError::UnderWay(_)) => std::thread::sleep(Duration::from_micros(200)),
            Err(error) => panic!("{error}"),
        }
    }
    None
}
