//! What queries do while nothing happens: next to nothing.
#![cfg(unix)]

use std::io::{PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::util::display::array_value_to_string;
use pelton::{Query, Session};

/// A query over pipes, and the ends of the pipes that are written.
fn over_pipes<const N: usize>(tables: [(&str, &str); N], query: &str) -> (Session, Query, [PipeWriter; N]) {
    over_pipes_with(&[], tables, query)
}

/// The same, with settings.
fn over_pipes_with<const N: usize>(
    settings: &[(&str, &str)],
    tables: [(&str, &str); N],
    query: &str,
) -> (Session, Query, [PipeWriter; N]) {
    let session = Session::new();
    session.set("pelton.workers", "2").unwrap();
    settings.iter().for_each(|(name, value)| session.set(name, value).unwrap());
    let pipes = tables.map(|(name, columns)| {
        let (read, write) = std::io::pipe().unwrap();
        let path = format!("/dev/fd/{}", read.as_raw_fd());
        let table = format!(
            "CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"
        );
        session.execute(&session.prepare(&table).unwrap().remove(0)).unwrap();
        (read, write)
    });
    let query = session.sql(query).unwrap();
    // They are opened by then: they have been found to have nothing.
    std::thread::sleep(Duration::from_millis(100));
    (session, query, pipes.map(|(_, write)| write))
}

/// A query over one, `t`.
fn over_a_pipe(columns: &str, query: &str) -> (Session, Query, PipeWriter) {
    let (session, query, [write]) = over_pipes([("t", columns)], query);
    (session, query, write)
}

/// The values of each row.
fn texts(batch: &RecordBatch) -> Vec<String> {
    let text = |row: usize| {
        let values = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
        values.collect::<Vec<_>>().join(" ")
    };
    (0..batch.num_rows()).map(text).collect()
}

/// How often workers are given something to do in half a second in which nothing happens: the least of three where others have the machine, so
/// that what has happened before is still done.
fn decisions(query: &Query) -> u64 {
    let count = |_| {
        let before = query.progress().run().load.decisions;
        std::thread::sleep(Duration::from_millis(500));
        query.progress().run().load.decisions - before
    };
    let mut counts = (0..3).map(count);
    let first = counts.next().unwrap_or_default();
    if first <= 4 { first } else { counts.fold(first, u64::min) }
}

#[test]
fn a_pipe_in_which_nothing_comes_is_not_asked_again_and_again() {
    let (_session, mut query, mut write) = over_a_pipe("v BIGINT", "SELECT v FROM t");
    assert!(decisions(&query) <= 4);
    let mut fastest = Duration::MAX;
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(10));
        let began = Instant::now();
        write.write_all(b"7\n").unwrap();
        assert_eq!(query.next_batch().unwrap().unwrap().num_rows(), 1);
        fastest = fastest.min(began.elapsed());
    }
    assert!(fastest < Duration::from_millis(2), "the fastest of twenty rows takes {fastest:?}");
    drop(write);
    assert!(query.next_batch().unwrap().is_none());
}

#[test]
fn windows_by_the_clock_wait_for_their_ends() {
    let count = |window: &str| format!("SELECT COUNT(*) AS n FROM {window} GROUP BY window_start, window_end");
    let tumbling = count("TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' SECOND)");
    let session = count("SESSION(TABLE t, DESCRIPTOR(at), INTERVAL '50' MILLISECOND)");
    for sql in [tumbling, session] {
        let (_session, mut query, mut write) = over_a_pipe("v BIGINT, at AS PROCTIME()", &sql);
        assert!(decisions(&query) <= 4, "there is no row: {sql}");
        write.write_all(b"7\n").unwrap();
        assert_eq!(query.next_batch().unwrap().unwrap().num_rows(), 1, "the window ends by itself: {sql}");
        assert!(decisions(&query) <= 12, "its rows have left: {sql}");
        drop(write);
        assert!(query.next_batch().unwrap().is_none());
    }
}

#[test]
fn rows_over_the_clock_leave_by_themselves() {
    let sql = "SELECT SUM(v) OVER (ORDER BY at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM t";
    let (_session, mut query, mut write) = over_a_pipe("v BIGINT, at AS PROCTIME()", sql);
    for _ in 0..3 {
        write.write_all(b"7\n").unwrap();
        assert_eq!(query.next_batch().unwrap().unwrap().num_rows(), 1);
    }
    assert!(decisions(&query) <= 4);
    drop(write);
    assert!(query.next_batch().unwrap().is_none());
}

#[test]
fn rows_by_event_time_do_not_wait_for_the_clock_that_others_wait_for() {
    let count = |table: &str, time: &str| {
        format!(
            "SELECT COUNT(*) AS n FROM TUMBLE(TABLE {table}, DESCRIPTOR({time}), INTERVAL '1' HOUR) GROUP BY window_start, window_end"
        )
    };
    let by_event_time = ("by_event_time", "ts TIMESTAMP(3), WATERMARK FOR ts AS ts");
    let by_clock = ("by_clock", "v BIGINT, at AS PROCTIME()");
    let sql = format!("{} UNION ALL {}", count("by_event_time", "ts"), count("by_clock", "at"));
    let (_session, mut query, [mut rows, mut clocked]) = over_pipes([by_event_time, by_clock], &sql);
    rows.write_all(b"2020-01-01 00:30:00\n").unwrap();
    clocked.write_all(b"7\n").unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert!(decisions(&query) <= 4, "the hour of the clock lasts, and no event says that the other is over");
    rows.write_all(b"2020-01-01 01:00:00\n").unwrap();
    assert_eq!(query.next_batch().unwrap().unwrap().num_rows(), 1);
}

#[test]
fn what_late_rows_correct_does_not_wait_for_a_source_that_is_idle() {
    let settings = [("table.exec.source.idle-timeout", "20 ms"), ("table.exec.emit.allow-lateness", "1 h")];
    let columns = "v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts";
    let count = |window: &str| {
        format!("SELECT COUNT(*) AS n, RESULT_KIND() AS kind FROM {window} GROUP BY window_start, window_end")
    };
    let tumbling = count("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)");
    let session = count("SESSION(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)");
    for sql in [tumbling, session] {
        let (_session, mut query, [mut write]) = over_pipes_with(&settings, [("t", columns)], &sql);
        let mut results = |rows: &[u8]| {
            write.write_all(rows).unwrap();
            texts(&query.next_batch().unwrap().expect("the pipe is open"))
        };
        assert_eq!(results(b"1,2020-01-01 00:00:00.1\n2,2020-01-01 00:00:09\n"), ["1 final"], "{sql}");
        // Nothing else comes.
        assert_eq!(results(b"3,2020-01-01 00:00:00.2\n"), ["2 correction"], "{sql}");
        assert_eq!(results(b"4,2020-01-01 00:00:00.3\n"), ["3 correction"], "{sql}");
        assert!(decisions(&query) <= 4, "all has left: {sql}");
        drop(write);
        // The last window.
        assert_eq!(query.next_batch().unwrap().unwrap().num_rows(), 1, "{sql}");
        assert!(query.next_batch().unwrap().is_none(), "{sql}");
    }
}

#[test]
fn an_idle_source_ends_no_session_before_its_time() {
    let settings = [("table.exec.source.idle-timeout", "20 ms"), ("table.exec.emit.allow-lateness", "1 h")];
    let columns = "k BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts";
    let sql = "SELECT k, COUNT(*) AS n, RESULT_KIND() AS kind
        FROM SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' SECOND) GROUP BY window_start, window_end, k";
    let (_session, mut query, [mut write]) = over_pipes_with(&settings, [("t", columns)], sql);
    // Time has come to where the first session ends, and to where its next row is still in time.
    write.write_all(b"1,2020-01-01 00:00:00\n2,2020-01-01 00:00:01\n").unwrap();
    // The source becomes idle.
    std::thread::sleep(Duration::from_millis(200));
    write.write_all(b"1,2020-01-01 00:00:01\n3,2020-01-01 00:00:09\n").unwrap();
    drop(write);
    let mut results = Vec::new();
    while let Some(batch) = query.next_batch().unwrap() {
        results.extend(texts(&batch));
    }
    results.sort_unstable();
    assert_eq!(results, ["1 2 final", "2 1 final", "3 1 final"]);
}
