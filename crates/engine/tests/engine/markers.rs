//! Latency of queries that have no rows to measure it by: of every source a block in 50 ms marks it, and its mark goes where its rows would. And
//! latency by event time, of results and of marks.

use std::sync::Arc;
use std::time::Duration;

use pelton::arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMillisecondArray};
use pelton::arrow::compute::cast;
use pelton::{PushSource, Query, Session};
use pelton_runtime::clock::{Clock, Hands};
use pelton_runtime::pool::{ManualWorkers, Pool};

use crate::shown::shown;

/// Checks latencies by event time, which are in milliseconds, ascending, to three digits.
fn check_behind(query: &Query, expected_ms: &[u64], what: &str) {
    let behind_us = query.progress().run().latency().event_time_us;
    let all = behind_us.iter_recorded();
    let found = all.flat_map(|value| vec![value.value_iterated_to(); value.count_at_value() as usize]);
    let found: Vec<u64> = found.collect();
    let is_near = |(found, expected): (&u64, &u64)| found.abs_diff(expected * 1_000) <= *expected;
    let are_near = found.len() == expected_ms.len() && found.iter().zip(expected_ms).all(is_near);
    assert!(are_near, "{what}: {found:?} µs are not {expected_ms:?} ms");
}

/// Queries of which no row of the table comes out: none passes, or none of the hour's windows ends.
const QUERIES: [&str; 6] = [
    "SELECT v, ts FROM a WHERE v < 0",
    "SELECT v, ts FROM a WHERE v < 0 UNION ALL SELECT v + 1, ts FROM a WHERE v < 0",
    "SELECT window_end, SUM(v) AS s FROM TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '1' HOUR)
     GROUP BY window_start, window_end",
    "SELECT window_end, SUM(v) AS s FROM TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '1' SECOND) WHERE v < 0
     GROUP BY window_start, window_end",
    "WITH w AS (SELECT window_time AS at, v, COUNT(*) AS n FROM TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '1' SECOND)
                GROUP BY window_start, window_end, window_time, v)
     SELECT window_end, SUM(n) AS n FROM TUMBLE(TABLE w, DESCRIPTOR(at), INTERVAL '1' HOUR)
     GROUP BY window_start, window_end",
    "SELECT SUM(v) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM a WHERE v < 0",
];

struct Engine {
    hands: Arc<Hands>,
    workers: ManualWorkers,
    session: Session,
    source: PushSource,
    query: Query,
}

const COLUMNS: &str = "v BIGINT NOT NULL, ts TIMESTAMP(3) NOT NULL, WATERMARK FOR ts AS ts";

impl Engine {
    /// One that runs a query.
    fn new(sql: &str, data_passing: &str) -> Engine {
        Engine::with_table(COLUMNS, sql, data_passing)
    }

    /// One that runs a query of a table with such columns.
    fn with_table(columns: &str, sql: &str, data_passing: &str) -> Engine {
        let hands = Arc::new(Hands::default());
        let (pool, workers) = Pool::manual(1, Clock::Manual(hands.clone()));
        let session = Session::with_pool(pool);
        session.set("pelton.data-passing", data_passing).unwrap();
        let source = session.push_table("a", columns).unwrap();
        let query = session.sql(sql).unwrap();
        Engine { hands, workers, session, source, query }
    }

    /// Turns the hands to that many milliseconds after 1970.
    fn turn_to(&self, millis: u64) {
        let now = Duration::from_nanos(Clock::Manual(self.hands.clone()).nanos());
        self.hands.advance(Duration::from_millis(millis) - now);
    }

    /// As [`Engine::compute`], where nothing comes out.
    fn push(&mut self, second: i64) {
        self.compute(second);
        assert!(self.query.try_next_batch().unwrap().is_none());
    }

    /// Has a row of a second read at once, and computed with seven milliseconds later; there is one of each second.
    fn compute(&mut self, second: i64) {
        self.compute_nth(second, second as u64);
    }

    /// The same, of whatever seconds, with as many rows in all.
    fn compute_nth(&mut self, second: i64, rows_so_far: u64) {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![second]));
        let times = TimestampMillisecondArray::from(vec![second * 1_000]);
        let times = cast(&times, self.source.schema().field(1).data_type()).unwrap();
        let rows = RecordBatch::try_new(self.source.schema().clone(), vec![values, times]).unwrap();
        self.source.push_blocking(rows).unwrap();
        while self.query.progress().sources[0].rows < rows_so_far {
            assert!(self.workers.step(0));
        }
        self.hands.advance(Duration::from_millis(7));
        while self.workers.step(0) {}
    }

    /// How many latencies are known, and the largest, in whole milliseconds.
    fn latencies(&self) -> (u64, u64) {
        let latency_ns = self.query.progress().run().latency().processing_ns;
        (latency_ns.len(), latency_ns.max() / 1_000_000)
    }

    /// Latency that `SHOW QUERIES` shows: the median, and the percentiles by event time.
    fn shown(&self) -> [String; 4] {
        let columns = ["p50 ms", "event time p50", "event time p99", "event time p99.9"];
        shown(&self.session, "SHOW QUERIES VERBOSE", columns).remove(0)
    }
}

#[test]
fn a_query_without_results_has_a_latency() {
    for (sql, data_passing) in QUERIES.iter().flat_map(|sql| ["blocks", "queues"].map(|passing| (sql, passing))) {
        let mut engine = Engine::new(sql, data_passing);
        assert_eq!(engine.latencies(), (0, 0), "{sql}");
        engine.push(1);
        // Of a table that is read twice each reading has marks of its own.
        let (marks, latency_ms) = engine.latencies();
        assert!(marks > 0 && latency_ms == 7, "{sql}, {data_passing}: {marks} marks, {latency_ms} ms");
        engine.hands.advance(Duration::from_millis(42));
        engine.push(2);
        assert_eq!(engine.latencies(), (marks, 7), "{sql}, {data_passing}: it is 49 ms since the last mark");
        engine.push(3);
        assert_eq!(engine.latencies(), (2 * marks, 7), "{sql}, {data_passing}: it is 56 ms since the last mark");
    }
}

#[test]
fn where_there_are_results_latency_is_theirs() {
    let windows = "SELECT window_end, SUM(v) AS s FROM TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '1' SECOND)
                   GROUP BY window_start, window_end";
    for (sql, results) in [("SELECT v FROM a", 3), (windows, 2)] {
        let mut engine = Engine::new(sql, "blocks");
        for second in 1..=3 {
            engine.compute(second);
            engine.hands.advance(Duration::from_millis(60));
        }
        assert_eq!(engine.latencies(), (results, 7), "{sql}");
        let batches = (0..results).filter(|_| engine.query.try_next_batch().unwrap().is_some()).count();
        assert_eq!(batches as u64, results, "{sql}");
    }
}

#[test]
fn results_tell_how_far_they_are_behind_their_event_times() {
    let windows = "SELECT window_end, SUM(v) AS s FROM TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '1' SECOND)
                   GROUP BY window_start, window_end";
    let more = [" HAVING SUM(v) > 0", ", v LIMIT 100"].map(|end| format!("{windows}{end}"));
    let twice = "WITH w AS (SELECT window_time AS at, SUM(v) AS s
                            FROM TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '1' SECOND) GROUP BY window_start, window_end, window_time)
                 SELECT window_end, SUM(s) AS s FROM TUMBLE(TABLE w, DESCRIPTOR(at), INTERVAL '2' SECOND)
                 GROUP BY window_start, window_end";
    let [over_rows, over_time] = ["ROWS BETWEEN 1", "RANGE BETWEEN INTERVAL '1' SECOND"].map(|frame| {
        format!("SELECT v, ts, COUNT(*) OVER (ORDER BY ts {frame} PRECEDING AND CURRENT ROW) AS n FROM a")
    });
    let counted =
        "SELECT SUM(v) AS s, MAX(ts) AS newest FROM TABLE(TUMBLE_ROWS(TABLE a, 2)) GROUP BY window_start, window_end";
    // Rows of the seconds 1, 2 and 5 are written at 10.007, 11.007 and 12.007; then their input ends, at 13. Of windows the end counts, though the
    // watermark is past it, and where rows end before it does the newest of them; of rows by themselves their own time. Frames by time wait for
    // all rows of one time, those by rows do not.
    let all = [
        ("SELECT v, ts FROM a", vec![9_007, 9_007, 7_007]),
        ("SELECT v, ts FROM a WHERE v <> 2 UNION ALL SELECT v + 1, ts FROM a WHERE v = 2", vec![9_007, 9_007, 7_007]),
        (windows, vec![11_007 - 2_000, 12_007 - 3_000, 13_000 - 5_000]),
        (&more[0], vec![11_007 - 2_000, 12_007 - 3_000, 13_000 - 5_000]),
        (&more[1], vec![11_007 - 2_000, 12_007 - 3_000, 13_000 - 5_000]),
        (twice, vec![11_007 - 2_000, 12_007 - 4_000, 13_000 - 5_000]),
        (&over_rows, vec![9_007, 9_007, 7_007]),
        (&over_time, vec![11_007 - 1_000, 12_007 - 2_000, 13_000 - 5_000]),
        (counted, vec![11_007 - 2_000, 13_000 - 5_000]),
    ];
    for ((sql, mut expected_ms), data_passing) in
        all.into_iter().flat_map(|case| ["blocks", "queues"].map(|passing| (case.clone(), passing)))
    {
        let mut engine = Engine::new(sql, data_passing);
        for (row, second) in [1, 2, 5].into_iter().enumerate() {
            engine.turn_to(10_000 + row as u64 * 1_000);
            engine.compute_nth(second, row as u64 + 1);
        }
        engine.turn_to(13_000);
        let Engine { source, mut workers, query, .. } = engine;
        drop(source);
        while workers.step(0) {}
        expected_ms.sort_unstable();
        check_behind(&query, &expected_ms, &format!("{sql}, {data_passing}"));
    }
}

#[test]
fn marks_tell_how_far_they_are_behind_their_event_times() {
    for (sql, data_passing) in QUERIES.iter().flat_map(|sql| ["blocks", "queues"].map(|passing| (sql, passing))) {
        let mut engine = Engine::new(sql, data_passing);
        engine.turn_to(4_000);
        engine.push(1);
        let marks = engine.latencies().0 as usize;
        check_behind(&engine.query, &vec![3_007; marks], sql);
    }
}

#[test]
fn what_has_no_event_time_or_is_ahead_of_the_clock() {
    let none = "v BIGINT NOT NULL, ts TIMESTAMP(3) NOT NULL";
    let processing = "v BIGINT NOT NULL, ts TIMESTAMP(3) NOT NULL, at AS PROCTIME()";
    for columns in [none, processing, COLUMNS] {
        // Where an event time is declared, the query does not read it.
        let mut engine = Engine::with_table(columns, "SELECT v FROM a", "blocks");
        engine.compute(1);
        assert_eq!(
            (engine.latencies(), engine.shown()),
            ((1, 7), ["7.000", "", "", ""].map(str::to_owned)),
            "{columns}"
        );
    }
    let mut engine = Engine::new("SELECT v, ts FROM a", "blocks");
    engine.compute(1);
    check_behind(&engine.query, &[0], "a row of the second 1, at seven milliseconds");
    assert_eq!(engine.shown(), ["7.000", "0 µs", "0 µs", "0 µs"]);
}

#[test]
fn a_replay_of_old_rows_is_as_far_behind_as_they_are_old() {
    let mut engine = Engine::new("SELECT v, ts FROM a", "blocks");
    engine.turn_to(20_000 * 86_400_000);
    engine.compute(1);
    // To three digits: a part in a thousand is twenty days.
    let [processing, behind, ..] = engine.shown();
    let days: f64 = behind.strip_suffix(" d").unwrap().parse().unwrap();
    assert_eq!(processing, "7.000");
    assert!((days - 20_000.0).abs() < 20.0, "{behind}");
}
