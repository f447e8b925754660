//! What passing time does while no rows come: a clock whose hands the test turns.

use std::sync::Arc;
use std::time::Duration;

use pelton::arrow::array::{AsArray, Int64Array, RecordBatch, TimestampMillisecondArray};
use pelton::arrow::datatypes::{Int64Type, TimestampMillisecondType};
use pelton::{PushSource, Query, Session};
use pelton_runtime::clock::{Clock, Hands};

use crate::shown;

/// Turns the hands until `found` finds something, which it must: each step is longer than any idle timeout here.
fn turn<T>(hands: &Hands, mut found: impl FnMut() -> Option<T>) -> T {
    for _ in 0..10_000 {
        if let Some(found) = found() {
            return found;
        }
        hands.advance(Duration::from_secs(61));
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("time has passed, and nothing has happened");
}

/// Waits, without a turn of the hands.
fn wait_until(mut reached: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if reached() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("what was waited for has not come");
}

fn session(hands: &Arc<Hands>) -> Session {
    let session = Session::with_clock(Clock::Manual(hands.clone()));
    session.set("table.exec.source.idle-timeout", "1 min").unwrap();
    session
}

/// One that reports windows a second after rows have come for them, and corrects them for so long.
fn early_session(hands: &Arc<Hands>, workers: &str, lateness: &str) -> Session {
    let session = session(hands);
    session.set("pelton.workers", workers).unwrap();
    session.set("table.exec.emit.early-fire.enabled", "true").unwrap();
    session.set("table.exec.emit.early-fire.delay", "1 s").unwrap();
    session.set("table.exec.emit.allow-lateness", lateness).unwrap();
    session
}

fn push_table(session: &Session, name: &str) -> PushSource {
    session.push_table(name, "at TIMESTAMP(3) NOT NULL, v BIGINT NOT NULL, WATERMARK FOR at AS at").unwrap()
}

fn push(source: &PushSource, rows: &[(i64, i64)]) {
    let at = TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.0 * 1000));
    let values = Int64Array::from_iter_values(rows.iter().map(|row| row.1));
    let rows = RecordBatch::try_new(source.schema().clone(), vec![Arc::new(at), Arc::new(values)]).unwrap();
    source.push_blocking(rows).unwrap();
}

const SUMS_OF_TEN_SECONDS: &str = "SELECT SUM(v) AS total FROM TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '10' SECOND)
    GROUP BY window_start, window_end";

fn totals(batch: &RecordBatch) -> Vec<i64> {
    batch.column(0).as_primitive::<Int64Type>().values().to_vec()
}

fn next(query: &mut Query) -> Vec<i64> {
    totals(&query.next_batch().unwrap().unwrap())
}

fn is_at(query: &Query, seconds: i64) -> bool {
    query.progress().operators[0].watermark == Some(seconds * 1_000_000)
}

/// What `SHOW PROGRESS` says the first window waits for, and what of its input is idle.
fn shown(session: &Session) -> [String; 2] {
    shown_in(session, ["waits for", "idle"])
}

/// What some columns of the first row of `SHOW PROGRESS` say.
fn shown_in<const N: usize>(session: &Session, columns: [&str; N]) -> [String; N] {
    shown::shown(session, "SHOW PROGRESS VERBOSE", columns).remove(0)
}

#[test]
fn an_idle_input_does_not_hold_windows_open() {
    for workers in ["1", "2"] {
        let hands = Arc::new(Hands::default());
        let session = session(&hands);
        session.set("pelton.workers", workers).unwrap();
        let (quiet, busy) = (push_table(&session, "quiet"), push_table(&session, "busy"));
        let mut query = session
            .sql(&format!("CREATE VIEW t AS SELECT * FROM quiet UNION ALL SELECT * FROM busy; {SUMS_OF_TEN_SECONDS}"))
            .unwrap();
        push(&quiet, &[(5, 1)]);
        push(&busy, &[(6, 2), (25, 4)]);
        wait_until(|| is_at(&query, 5));
        assert_eq!(shown(&session), ["quiet, partition 0, which is at 1970-01-01 00:00:05.000", ""]);
        assert!(query.try_next_batch().unwrap().is_none(), "the quiet one holds the window open");
        // Both become idle, in any order: time goes to where the one has come that was ahead, and stands still.
        let first = turn(&hands, || query.try_next_batch().unwrap());
        assert_eq!(totals(&first), [3]);
        turn(&hands, || (query.progress().run().stateful[0].idle.len() == 2).then_some(()));
        let idle = "quiet, partition 0; busy, partition 0";
        assert_eq!(shown(&session), ["rows of any input: all of it is idle, quiet, partition 0 too", idle]);
        // Only what the one row does is awake: the window waits for no other.
        push(&busy, &[(31, 8)]);
        assert_eq!(next(&mut query), [4]);
        // Its rows are late where windows have closed, and it holds time back again.
        push(&quiet, &[(19, 16), (32, 32)]);
        wait_until(|| query.progress().operators[0].late_rows == 1);
        push(&busy, &[(45, 64)]);
        wait_until(|| is_at(&query, 32));
        push(&quiet, &[(41, 128)]);
        assert_eq!(next(&mut query), [40]);
        drop((quiet, busy));
        assert_eq!(query.collect().unwrap().iter().flat_map(totals).collect::<Vec<_>>(), [192]);
    }
}

#[test]
fn an_idle_input_does_not_hold_windows_of_windows_open() {
    let hands = Arc::new(Hands::default());
    let session = session(&hands);
    let (quiet, busy) = (push_table(&session, "quiet"), push_table(&session, "busy"));
    let counts = |view: &str, table: &str| {
        format!(
            "CREATE VIEW {view} AS SELECT window_time AS at, COUNT(*) AS n
             FROM TUMBLE(TABLE {table}, DESCRIPTOR(at), INTERVAL '10' SECOND) GROUP BY window_start, window_end, window_time;"
        )
    };
    let sql = "SELECT SUM(n) AS total FROM TUMBLE((SELECT at, n FROM a UNION ALL SELECT at, n FROM b), DESCRIPTOR(at), INTERVAL '20' SECOND)
               GROUP BY window_start, window_end";
    let mut query = session.sql(&[&counts("a", "quiet"), &counts("b", "busy"), sql].concat()).unwrap();
    push(&quiet, &[(1, 0), (2, 0), (11, 0)]);
    push(&busy, &[(3, 0), (45, 0)]);
    wait_until(|| query.progress().run().stateful.iter().any(|window| window.watermark == 45_000_000));
    assert!(query.try_next_batch().unwrap().is_none());
    assert_eq!(totals(&turn(&hands, || query.try_next_batch().unwrap())), [3]);
    // The window of the quiet input from 10 to 20 has not ended, and comes too late.
    drop((quiet, busy));
    assert_eq!(next(&mut query), [1]);
    assert_eq!(query.wait().unwrap().late_rows(), 1);
}

#[test]
fn an_idle_input_does_not_hold_functions_over_rows_back() {
    let hands = Arc::new(Hands::default());
    let session = session(&hands);
    let (quiet, busy) = (push_table(&session, "quiet"), push_table(&session, "busy"));
    let mut query = session
        .sql(
            "CREATE VIEW t AS SELECT * FROM quiet UNION ALL SELECT * FROM busy;
             SELECT SUM(n) AS total
             FROM TUMBLE((SELECT at, SUM(v) OVER (ORDER BY at ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS n FROM t),
                         DESCRIPTOR(at), INTERVAL '10' SECOND)
             GROUP BY window_start, window_end",
        )
        .unwrap();
    push(&quiet, &[(5, 1)]);
    push(&busy, &[(6, 2), (25, 4)]);
    wait_until(|| is_at(&query, 5));
    assert_eq!(totals(&turn(&hands, || query.try_next_batch().unwrap())), [4]);
    drop((quiet, busy));
    assert_eq!(query.collect().unwrap().iter().flat_map(totals).collect::<Vec<_>>(), [7]);
}

#[test]
fn rows_that_wait_for_their_time_are_shown() {
    let hands = Arc::new(Hands::default());
    let session = session(&hands);
    let (quiet, busy) = (push_table(&session, "quiet"), push_table(&session, "busy"));
    let mut query = session
        .sql(
            "CREATE VIEW t AS SELECT * FROM quiet UNION ALL SELECT * FROM busy;
             SELECT SUM(v) OVER (ORDER BY at ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS total FROM t",
        )
        .unwrap();
    push(&quiet, &[(5, 1)]);
    push(&busy, &[(6, 2), (25, 4)]);
    let has_come = |query: &Query, seconds: i64| {
        let progress = query.progress();
        let over = &progress.run().stateful[0];
        over.watermark == seconds * 1_000_000 && over.has_kept_up
    };
    wait_until(|| has_come(&query, 5));
    let columns = ["window", "next end", "watermark", "waits for"];
    let time = "1970-01-01 00:00:05.000";
    let waits_for = format!("quiet, partition 0, which is at {time}");
    assert_eq!(shown_in(&session, columns), ["over 0", "none: 3 rows wait for their time", time, &waits_for]);
    push(&quiet, &[(26, 8)]);
    // Rows of different blocks may leave in batches of their own.
    let mut found = next(&mut query);
    while found.len() < 2 {
        found.extend(next(&mut query));
    }
    assert_eq!(found, [1, 3]);
    wait_until(|| has_come(&query, 25));
    assert_eq!(shown_in(&session, ["next end"]), ["none: 2 rows wait for their time"]);
    drop((quiet, busy));
    assert_eq!(query.collect().unwrap().iter().flat_map(totals).collect::<Vec<_>>(), [7, 15]);
}

#[test]
fn without_a_timeout_no_input_is_idle() {
    let hands = Arc::new(Hands::default());
    let session = session(&hands);
    session.set("table.exec.source.idle-timeout", "0").unwrap();
    let (quiet, busy) = (push_table(&session, "quiet"), push_table(&session, "busy"));
    let mut query = session
        .sql(&format!("CREATE VIEW t AS SELECT * FROM quiet UNION ALL SELECT * FROM busy; {SUMS_OF_TEN_SECONDS}"))
        .unwrap();
    push(&busy, &[(6, 2), (25, 4)]);
    for _ in 0..20 {
        hands.advance(Duration::from_secs(61));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(query.try_next_batch().unwrap().is_none() && query.progress().run().stateful[0].idle.is_empty());
    drop((quiet, busy));
}

#[test]
fn windows_of_processing_time_close_by_the_clock() {
    let hands = Arc::new(Hands::default());
    let session = session(&hands);
    let source = session.push_table("t", "v BIGINT NOT NULL, at AS PROCTIME()").unwrap();
    let mut query = session.sql(SUMS_OF_TEN_SECONDS).unwrap();
    let rows =
        |v: i64| RecordBatch::try_new(source.schema().clone(), vec![Arc::new(Int64Array::from(vec![v]))]).unwrap();
    source.push_blocking(rows(1)).unwrap();
    wait_until(|| query.progress().pipelines[0].rows == 1);
    assert_eq!(totals(&turn(&hands, || query.try_next_batch().unwrap())), [1]);
}

/// Start in seconds, total and kind of each row.
fn reported(batch: &RecordBatch) -> Vec<(i64, i64, String)> {
    let starts = batch.column(0).as_primitive::<TimestampMillisecondType>();
    let kinds = batch.column(2).as_string_view();
    let rows = (0..batch.num_rows()).map(|row| {
        (starts.value(row) / 1000, batch.column(1).as_primitive::<Int64Type>().value(row), kinds.value(row).to_owned())
    });
    rows.collect()
}

#[test]
fn windows_are_reported_before_their_time_when_rows_have_come_for_them() {
    for workers in ["1", "2"] {
        let hands = Arc::new(Hands::default());
        let session = early_session(&hands, workers, "5 s");
        // Else what late rows correct comes when the source is idle.
        session.set("table.exec.source.idle-timeout", "0").unwrap();
        let source = push_table(&session, "t");
        let mut query = session
            .sql(
                "SELECT window_start, SUM(v) AS total, RESULT_KIND() AS kind
                 FROM HOP(TABLE t, DESCRIPTOR(at), INTERVAL '10' SECOND, INTERVAL '20' SECOND) GROUP BY window_start, window_end",
            )
            .unwrap();
        let rows = |query: &mut Query, hands: &Hands| {
            let mut found = turn(hands, || query.try_next_batch().unwrap().map(|batch| reported(&batch)));
            while let Some(batch) = query.try_next_batch().unwrap() {
                found.extend(reported(&batch));
            }
            found
        };
        let expected =
            |rows: &[(i64, i64, &str)]| rows.iter().map(|row| (row.0, row.1, row.2.to_owned())).collect::<Vec<_>>();
        push(&source, &[(1, 1), (12, 2)]);
        wait_until(|| query.progress().run().stateful[0].rows == 1);
        // From -10 to 10 has ended at 12, before the clock has moved at all.
        assert_eq!(reported(&query.next_batch().unwrap().unwrap()), expected(&[(-10, 1, "final")]));
        assert_eq!(rows(&mut query, &hands), expected(&[(0, 3, "early"), (10, 2, "early")]));
        // Nothing new is nothing to report, however long it lasts.
        hands.advance(Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(5));
        assert!(query.try_next_batch().unwrap().is_none());
        push(&source, &[(14, 4), (9, 8)]);
        assert_eq!(rows(&mut query, &hands), expected(&[(0, 15, "early"), (10, 6, "early")]));
        drop(source);
        let rest: Vec<_> = query.collect().unwrap().iter().flat_map(reported).collect();
        assert_eq!(rest, expected(&[(-10, 9, "correction"), (0, 15, "final"), (10, 6, "final")]));
    }
}

#[test]
fn what_late_rows_correct_comes_when_their_source_is_idle() {
    let sums = "SELECT window_start, SUM(v) AS total, RESULT_KIND() AS kind
         FROM TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '10' SECOND) GROUP BY window_start, window_end";
    let largest = "SELECT window_start, v AS total, kind
         FROM (SELECT *, ROW_NUMBER() OVER w AS n, RESULT_KIND() OVER w AS kind FROM TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '10' SECOND)
               WINDOW w AS (PARTITION BY window_start, window_end ORDER BY v DESC)) WHERE n <= 1";
    for (sql, workers, totals) in [(sums, "1", [1, 9, 25]), (sums, "2", [1, 9, 25]), (largest, "1", [1, 8, 16])] {
        let hands = Arc::new(Hands::default());
        let session = session(&hands);
        session.set("pelton.workers", workers).unwrap();
        session.set("table.exec.emit.allow-lateness", "5 s").unwrap();
        let source = push_table(&session, "t");
        let mut query = session.sql(sql).unwrap();
        let expected = |total: i64, kind: &str| vec![(0, total, kind.to_owned())];
        push(&source, &[(1, 1), (12, 2)]);
        assert_eq!(reported(&query.next_batch().unwrap().unwrap()), expected(totals[0], "final"));
        for (late, total) in [(8, totals[1]), (16, totals[2])] {
            push(&source, &[(9, late)]);
            wait_until(|| query.progress().pipelines[0].rows as i64 == 2 + late / 8);
            std::thread::sleep(Duration::from_millis(5));
            assert!(query.try_next_batch().unwrap().is_none(), "the next row may move time on");
            let corrected = turn(&hands, || query.try_next_batch().unwrap());
            assert_eq!(reported(&corrected), expected(total, "correction"));
        }
        // Time has not moved on for rows: neither of them is late.
        push(&source, &[(12, 4)]);
        drop(source);
        let rest: Vec<_> = query.collect().unwrap().iter().flat_map(reported).collect();
        assert_eq!(rest, [(10, if sql == sums { 6 } else { 4 }, "final".to_owned())]);
    }
}

#[test]
fn rows_of_an_input_that_was_idle_correct_what_others_have_closed() {
    let by = |windows: &str| {
        format!(
            "SELECT window_start, SUM(v) AS total, RESULT_KIND() AS kind FROM {windows} GROUP BY window_start, window_end"
        )
    };
    let tumbling = "TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '10' SECOND)";
    let first = format!(
        "SELECT window_start, v AS total, kind
         FROM (SELECT *, ROW_NUMBER() OVER w AS n, RESULT_KIND() OVER w AS kind FROM {tumbling}
               WINDOW w AS (PARTITION BY window_start, window_end ORDER BY v DESC)) WHERE n <= 1"
    );
    // At 25 the window to 10 is final, and that from 10 to 20 is not; of sessions, that of 5 and 6 is final, and that of 18 by itself would not be.
    let cases = [
        (by(tumbling), [(0, 3), (10, 16), (20, 4), (30, 32), (40, 64)]),
        (by("SESSION(TABLE t, DESCRIPTOR(at), INTERVAL '4' SECOND)"), [(5, 3), (18, 16), (25, 4), (31, 32), (40, 64)]),
        (first, [(0, 2), (10, 16), (20, 4), (30, 32), (40, 64)]),
    ];
    for ((sql, expected), workers) in cases.iter().flat_map(|case| [(case, "1"), (case, "2")]) {
        let kinds = ["final", "correction", "final", "final", "final"];
        let expected: Vec<_> = expected.iter().zip(kinds).map(|(row, kind)| (row.0, row.1, kind.to_owned())).collect();
        let hands = Arc::new(Hands::default());
        let session = session(&hands);
        session.set("pelton.workers", workers).unwrap();
        session.set("table.exec.emit.allow-lateness", "10 s").unwrap();
        let (quiet, busy) = (push_table(&session, "quiet"), push_table(&session, "busy"));
        let mut query =
            session.sql(&format!("CREATE VIEW t AS SELECT * FROM quiet UNION ALL SELECT * FROM busy; {sql}")).unwrap();
        let have_come = |query: &Query, rows: u64| {
            wait_until(|| query.progress().pipelines.iter().map(|pipeline| pipeline.rows).sum::<u64>() == rows);
        };
        push(&quiet, &[(5, 1)]);
        push(&busy, &[(6, 2), (25, 4)]);
        have_come(&query, 3);
        assert_eq!(reported(&turn(&hands, || query.try_next_batch().unwrap())), expected[..1]);
        turn(&hands, || (query.progress().run().stateful[0].idle.len() == 2).then_some(()));
        // 7 comes at 25, as far as time has come without it; so does 18.
        push(&quiet, &[(7, 8), (18, 16)]);
        have_come(&query, 5);
        push(&busy, &[(31, 32)]);
        have_come(&query, 6);
        assert!(query.try_next_batch().unwrap().is_none(), "the quiet one holds time back, and with it the correction");
        push(&quiet, &[(40, 64)]);
        drop((quiet, busy));
        let mut rest = Vec::new();
        while let Some(batch) = query.next_batch().unwrap() {
            rest.extend(reported(&batch));
        }
        assert_eq!(rest, expected[1..]);
        assert_eq!(query.wait().unwrap().late_rows(), 1);
    }
}

#[test]
fn a_window_whose_time_has_passed_without_rows_is_corrected_and_not_early() {
    let hands = Arc::new(Hands::default());
    let session = early_session(&hands, "1", "20 s");
    let source = push_table(&session, "t");
    let mut query = session
        .sql(
            "SELECT window_start, SUM(v) AS total, RESULT_KIND() AS kind
             FROM TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '10' SECOND) GROUP BY window_start, window_end",
        )
        .unwrap();
    let row = |start: i64, total: i64, kind: &str| vec![(start, total, kind.to_owned())];
    push(&source, &[(1, 1), (25, 2)]);
    assert_eq!(reported(&query.next_batch().unwrap().unwrap()), row(0, 1, "final"));
    assert_eq!(reported(&turn(&hands, || query.try_next_batch().unwrap())), row(20, 2, "early"));
    // The window from 10 to 20 has ended, and no row has closed it.
    push(&source, &[(15, 4)]);
    assert_eq!(reported(&turn(&hands, || query.try_next_batch().unwrap())), row(20, 2, "early"));
    push(&source, &[(26, 8)]);
    assert_eq!(reported(&query.next_batch().unwrap().unwrap()), row(10, 4, "correction"));
    assert_eq!(reported(&turn(&hands, || query.try_next_batch().unwrap())), row(20, 10, "early"));
    drop(source);
    let rest: Vec<_> = query.collect().unwrap().iter().flat_map(reported).collect();
    assert_eq!(rest, row(20, 10, "final"));
}

#[test]
fn pairs_of_joined_windows_leave_early_and_once() {
    for workers in ["1", "2"] {
        let hands = Arc::new(Hands::default());
        let session = early_session(&hands, workers, "0 s");
        let (left, right) = (push_table(&session, "l"), push_table(&session, "r"));
        let window = |table: &str| {
            format!("TABLE(HOP(TABLE {table}, DESCRIPTOR(at), INTERVAL '10' SECOND, INTERVAL '20' SECOND))")
        };
        let sql = format!(
            "SELECT COALESCE(EXTRACT(SECOND FROM b.at), -1) FROM {} AS a LEFT JOIN {} AS b
             ON a.v = b.v AND a.window_start = b.window_start AND a.window_end = b.window_end WHERE a.at >= TIMESTAMP '1970-01-01 00:00:10'",
            window("l"),
            window("r")
        );
        let mut query = session.sql(&sql).unwrap();
        let all = |query: &mut Query, count: usize| {
            let mut found: Vec<i64> = Vec::new();
            while found.len() < count {
                found.extend(totals(&turn(&hands, || query.try_next_batch().unwrap())));
            }
            found
        };
        push(&left, &[(11, 1), (12, 2)]);
        push(&right, &[(12, 1)]);
        // In both windows that have the rows.
        assert_eq!(all(&mut query, 2), [12, 12]);
        push(&right, &[(13, 1), (14, 3)]);
        assert_eq!(all(&mut query, 2), [13, 13]);
        push(&left, &[(14, 1)]);
        assert_eq!(all(&mut query, 4), [12, 13, 12, 13]);
        // The windows that end at 20 and 30 s end, with the row that has no match.
        push(&left, &[(55, 9)]);
        push(&right, &[(55, 8)]);
        assert_eq!(all(&mut query, 2), [-1, -1]);
        drop((left, right));
        assert_eq!(all(&mut query, 2), [-1, -1], "of the row at 55 s");
        assert!(query.next_batch().unwrap().is_none());
    }
}
