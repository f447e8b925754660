//! A session from outside: scripts, results, rows pushed by the program, stopping.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use pelton::arrow::array::{AsArray, Int64Array, RecordBatch, TimestampMillisecondArray};
use pelton::arrow::datatypes::Int64Type;
use pelton::{Error, Outcome, Query, Session};

fn numbers(batches: &[RecordBatch], column: usize) -> Vec<i64> {
    let values = batches.iter().flat_map(|batch| batch.column(column).as_primitive::<Int64Type>().values().to_vec());
    values.collect()
}

const COUNT_TO_FIVE: &str = "CREATE TABLE n (i BIGINT NOT NULL) WITH ('connector' = 'datagen',
    'number-of-rows' = '5', 'pace' = 'flat-out',
    'fields.i.kind' = 'sequence', 'fields.i.start' = '1', 'fields.i.end' = '5');";

#[test]
fn windows_over_a_generated_stream_hold_every_row() {
    let query = Session::new().sql(
        "CREATE TABLE bid (WATERMARK FOR dateTime AS dateTime)
           WITH ('connector' = 'nexmark', 'table' = 'bid', 'rows' = '92000', 'pace' = 'flat-out');
         SELECT window_start, COUNT(*) AS bids FROM TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '5' SECOND)
         GROUP BY window_start, window_end",
    );
    assert_eq!(numbers(&query.unwrap().collect().unwrap(), 1), [46_000, 46_000]);
}

#[test]
fn a_script_ends_in_the_query_whose_rows_are_wanted() {
    let session = Session::new();
    let query = session.sql(&format!("{COUNT_TO_FIVE} SELECT i * 2 AS twice FROM n WHERE i > 3")).unwrap();
    assert_eq!(numbers(&query.collect().unwrap(), 0), [8, 10]);
    assert!(matches!(session.sql("SHOW TABLES"), Err(Error::Usage(_))));
    assert!(matches!(session.sql("SELECT j FROM n"), Err(Error::Plan(_))));
}

#[tokio::test]
async fn results_are_an_async_stream() {
    let query = Session::new().sql(&format!("{COUNT_TO_FIVE} SELECT i FROM n")).unwrap();
    let batches: Vec<_> = query.map(Result::unwrap).collect().await;
    assert_eq!(numbers(&batches, 0), [1, 2, 3, 4, 5]);
}

#[test]
fn an_error_comes_after_the_rows_before_it() {
    let session = Session::new();
    session.set("pelton.block-rows", "1").unwrap();
    let mut query = session.sql(&format!("{COUNT_TO_FIVE} SELECT 10 / (i - 3) AS q FROM n")).unwrap();
    let mut rows = Vec::new();
    let error = loop {
        match query.next_batch() {
            Ok(Some(batch)) => rows.push(batch),
            Ok(None) => panic!("the third row cannot be divided by"),
            Err(error) => break error,
        }
    };
    assert_eq!(numbers(&rows, 0), [-5, -10]);
    assert!(error.to_string().contains("division by zero"), "{error}");
}

#[test]
fn an_error_waits_for_a_slow_reader() {
    let session = Session::new();
    session.set("pelton.block-rows", "1").unwrap();
    let mut query = session
        .sql(
            "CREATE TABLE n (i BIGINT NOT NULL) WITH ('connector' = 'datagen',
                'fields.i.kind' = 'sequence', 'fields.i.start' = '1', 'fields.i.end' = '200');
             SELECT 10 / (i - 70) AS q FROM n",
        )
        .unwrap();
    // More rows than the reader's channel holds, so that some still wait when the error comes.
    let control = query.control();
    while control.progress().pipelines[0].rows < 70 {
        std::thread::yield_now();
    }
    let mut count = 0;
    while let Ok(Some(batch)) = query.next_batch() {
        count += batch.num_rows();
    }
    assert_eq!(count, 69, "all rows before the one that cannot be computed");
}

fn pushed(session: &Session) -> (pelton::PushSource, Query) {
    let source = session
        .push_table(
            "clicks",
            "at TIMESTAMP(3) NOT NULL, v BIGINT NOT NULL, WATERMARK FOR at AS at - INTERVAL '1' SECOND",
        )
        .unwrap();
    let query = session.sql(
        "SELECT SUM(v) AS total FROM TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '10' SECOND)
         GROUP BY window_start, window_end",
    );
    (source, query.unwrap())
}

fn clicks(source: &pelton::PushSource, rows: &[(i64, i64)]) -> RecordBatch {
    let at = TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.0));
    let values = Int64Array::from_iter_values(rows.iter().map(|row| row.1));
    RecordBatch::try_new(source.schema().clone(), vec![Arc::new(at), Arc::new(values)]).unwrap()
}

#[test]
fn a_window_over_pushed_rows_closes_when_the_watermark_passes() {
    let session = Session::new();
    let (source, mut query) = pushed(&session);
    source.push_blocking(clicks(&source, &[(1_000, 1), (9_000, 2), (10_500, 4)])).unwrap();
    source.push_blocking(clicks(&source, &[(9_999, 8), (11_000, 16), (500, 32)])).unwrap();
    let first = query.next_batch().unwrap().unwrap();
    assert_eq!(numbers(&[first], 0), [11]);
    drop(source);
    assert_eq!(numbers(&[query.next_batch().unwrap().unwrap()], 0), [20]);
    assert!(query.next_batch().unwrap().is_none());
    assert_eq!(query.wait().unwrap().operators[0].late_rows, 1);
}

fn shown(session: &Session) -> Vec<Vec<String>> {
    let statement = session.prepare("SHOW PROGRESS VERBOSE").unwrap().remove(0);
    let Outcome::Rows(rows) = session.execute(&statement).unwrap() else { panic!("SHOW shows rows") };
    let text = |row: usize| rows.columns().iter().map(move |column| column.as_string_view().value(row).to_owned());
    (0..rows.num_rows()).map(|row| text(row).collect()).collect()
}

#[test]
fn progress_says_what_a_window_waits_for() {
    let session = Session::new();
    let (source, mut query) = pushed(&session);
    let nothing = ["1: result", "window 0", "none is open", "none yet", "rows of clicks, partition 0", "", "0"];
    assert_eq!(shown(&session), [nothing]);
    source.push_blocking(clicks(&source, &[(1_000, 1), (9_000, 2), (10_500, 4)])).unwrap();
    while query.progress().run().stateful[0].watermark < 9_500_000 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let waiting = "clicks, partition 0, which is at 1970-01-01 00:00:09.500";
    let open = ["1: result", "window 0", "1970-01-01 00:00:10.000", "1970-01-01 00:00:09.500", waiting, "", "0"];
    assert_eq!(shown(&session), [open]);
    source.push_blocking(clicks(&source, &[(11_000, 8)])).unwrap();
    assert_eq!(numbers(&[query.next_batch().unwrap().unwrap()], 0), [3]);
    assert_eq!(shown(&session)[0][2..4], ["1970-01-01 00:00:20.000", "1970-01-01 00:00:10.000"]);
    drop((source, query));
    assert!(shown(&session).is_empty());
}

#[test]
fn progress_is_that_of_each_window_where_they_share_slices() {
    let session = Session::new();
    let columns = "at TIMESTAMP(3) NOT NULL, v BIGINT NOT NULL, WATERMARK FOR at AS at";
    let source = session.push_table("clicks", columns).unwrap();
    let part = |lengths: &str| format!("SELECT SUM(v) AS total FROM {lengths} GROUP BY window_start, window_end");
    let tens = part("TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '10' SECOND)");
    let thirties = part("TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '30' SECOND)");
    let mut query = session.sql(&format!("{tens} UNION ALL {thirties}")).unwrap();
    let push = |rows: &[(i64, i64)], reached_ms: i64| {
        source.push_blocking(clicks(&source, rows)).unwrap();
        while query.progress().run().stateful[1].watermark < reached_ms * 1_000 {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    push(&[(1_000, 1), (9_500, 2)], 9_500);
    let ends = |session: &Session| shown(session).iter().map(|row| row[1..4].join(" ")).collect::<Vec<_>>();
    let (ten, thirty) = ("1970-01-01 00:00:10.000", "1970-01-01 00:00:30.000");
    let reached = "1970-01-01 00:00:09.500";
    assert_eq!(ends(&session), [format!("window 0 {ten} {reached}"), format!("window 1 {thirty} {reached}")]);
    let shared: Vec<bool> = query.progress().run().windows().map(|(_, open)| open.is_shared).collect();
    assert_eq!(shared, [false, false, true]);
    push(&[(21_000, 4)], 21_000);
    assert_eq!(numbers(&[query.next_batch().unwrap().unwrap()], 0), [3]);
    assert_eq!(
        ends(&session),
        [format!("window 0 {thirty} 1970-01-01 00:00:21.000"), format!("window 1 {thirty} 1970-01-01 00:00:21.000")]
    );
    drop(source);
    let mut rest = Vec::new();
    while let Some(batch) = query.next_batch().unwrap() {
        rest.extend(numbers(&[batch], 0));
    }
    rest.sort_unstable();
    assert_eq!(rest, [4, 7]);
}

#[test]
fn progress_says_how_late_rows_may_be_that_a_window_waits_for() {
    let session = Session::new();
    session.set("table.exec.emit.allow-lateness", "5 s").unwrap();
    let columns = "at TIMESTAMP(3) NOT NULL, v BIGINT NOT NULL, WATERMARK FOR at AS at";
    let source = session.push_table("clicks", columns).unwrap();
    // Windows that are read again are not corrected, but wait for late rows, and what reads them waits with them.
    let mut query = session
        .sql(
            "CREATE VIEW tens AS SELECT window_time AS at, SUM(v) AS v
             FROM TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '10' SECOND) GROUP BY window_start, window_end, window_time;
             SELECT SUM(v) AS total FROM TUMBLE(TABLE tens, DESCRIPTOR(at), INTERVAL '20' SECOND)
             GROUP BY window_start, window_end",
        )
        .unwrap();
    let push = |rows: &[(i64, i64)], reached_s: [i64; 2]| {
        source.push_blocking(clicks(&source, rows)).unwrap();
        let reached = || query.progress().run().stateful.iter().map(|window| window.watermark).collect::<Vec<_>>();
        while reached() != reached_s.map(|seconds| seconds * 1_000_000) {
            std::thread::sleep(Duration::from_millis(1));
        }
        shown(&session).into_iter().map(|row| row[2..5].to_vec()).collect::<Vec<_>>()
    };
    let at = |seconds: u32| format!("1970-01-01 00:00:{seconds:02}.000");
    let behind =
        |seconds| format!("clicks, partition 0, which is at {}, and whose rows may be 5.00 s late", at(seconds));
    let no_row = vec!["none is open".to_owned(), at(7), "rows of clicks, partition 0".to_owned()];
    assert_eq!(push(&[(1_000, 1), (12_000, 2)], [7, 7]), [vec![at(10), at(7), behind(12)], no_row]);
    let open = |until, seconds| vec![at(20), at(until), behind(seconds)];
    assert_eq!(push(&[(9_999, 4), (16_000, 8)], [11, 11]), [open(11, 16), open(11, 16)]);
    // Time goes on behind windows where one of them ends.
    let at_22 = push(&[(22_000, 16)], [17, 11]);
    assert_eq!(at_22, [open(17, 22), open(11, 22)], "rows of the first twenty seconds may come");
    source.push_blocking(clicks(&source, &[(25_000, 32)])).unwrap();
    assert_eq!(numbers(&[query.next_batch().unwrap().unwrap()], 0), [15]);
}

#[test]
fn draining_processes_what_was_read_and_reports_no_open_window() {
    let session = Session::new();
    let (source, query) = pushed(&session);
    source.push_blocking(clicks(&source, &[(1_000, 1), (2_000, 2)])).unwrap();
    while query.progress().pipelines[0].rows < 2 {
        std::thread::sleep(Duration::from_millis(1));
    }
    query.control().drain();
    let summary = query.wait().unwrap();
    assert_eq!((summary.sinks[0].rows, summary.operators[0].unreported), (0, 1));
}

#[test]
fn dropping_a_query_stops_it() {
    let session = Session::new();
    let (source, query) = pushed(&session);
    drop(query);
    let rows = clicks(&source, &[(1_000, 1)]);
    assert!(matches!(source.push_blocking(rows), Err(Error::Usage(_))));
}

#[test]
fn views_are_nested_as_deep_as_they_may_be_in_a_thread_with_a_small_stack() {
    let work = || {
        let session = Session::new();
        let execute = |sql: &str| {
            for statement in session.prepare(sql).unwrap() {
                session.execute(&statement).map(drop)?;
            }
            Ok::<(), pelton::Error>(())
        };
        execute("CREATE VIEW v0 AS SELECT CAST(0 AS BIGINT) AS x").unwrap();
        let mut read = "v0".to_string();
        for number in 1..64 {
            let view = format!("v{number}");
            execute(&format!("CREATE VIEW {view} AS SELECT x + 1 AS x FROM {read}")).unwrap();
            read = view;
        }
        execute("DESCRIBE v63").unwrap();
        execute("EXPLAIN SELECT x FROM v63").unwrap();
        let rows = session.sql("SELECT x FROM v63").unwrap().collect().unwrap();
        let built = session.table("v63").unwrap().run().unwrap().collect().unwrap();
        let error = execute("CREATE VIEW v64 AS SELECT x FROM v63").unwrap_err().to_string();
        (numbers(&rows, 0), numbers(&built, 0), error)
    };
    let small = std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap();
    let (rows, built, error) = small.join().unwrap();
    assert_eq!((rows, built), (vec![63], vec![63]));
    assert!(error.contains("the view v0 reads itself, or lies more than 64 views deep"), "{error}");
}

#[test]
fn an_input_that_ends_leaves_no_session_open() {
    let session = Session::new();
    // Sessions are more than are closed at a time.
    session.set("pelton.block-rows", "1").unwrap();
    let source = session.push_table("clicks", "at TIMESTAMP(3) NOT NULL, v BIGINT NOT NULL, WATERMARK FOR at AS at");
    let source = source.unwrap();
    let query = session.sql(
        "SELECT v, COUNT(*) AS n FROM SESSION(TABLE clicks PARTITION BY v, DESCRIPTOR(at), INTERVAL '1' SECOND)
         GROUP BY window_start, window_end, v",
    );
    let mut query = query.unwrap();
    let rows: Vec<(i64, i64)> = (0..64).map(|v| (1_000, v)).collect();
    source.push_blocking(clicks(&source, &rows)).unwrap();
    drop(source);
    let mut rows = Vec::new();
    while let Some(batch) = query.next_batch().unwrap() {
        rows.push(batch);
    }
    assert_eq!(numbers(&rows, 1), [1; 64]);
    assert_eq!(query.wait().unwrap().operators[0].unreported, 0);
}
