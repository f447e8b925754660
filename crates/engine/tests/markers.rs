//! Latency of queries that have no rows to measure it by: of every source a block in 50 ms marks it, and its mark goes where its rows would.

use std::sync::Arc;
use std::time::Duration;

use pelton::arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMillisecondArray};
use pelton::arrow::compute::cast;
use pelton::clock::{Clock, Hands};
use pelton::pool::{ManualWorkers, Pool};
use pelton::{PushSource, Query, Session};

/// Queries of which no row of the table comes out: none passes, or none of the hour's windows ends.
const QUERIES: [&str; 6] = [
    "SELECT v FROM a WHERE v < 0",
    "SELECT v FROM a WHERE v < 0 UNION ALL SELECT v + 1 FROM a WHERE v < 0",
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
    source: PushSource,
    query: Query,
}

impl Engine {
    /// One that runs a query.
    fn new(sql: &str, data_passing: &str) -> Engine {
        let hands = Arc::new(Hands::default());
        let (pool, workers) = Pool::manual(1, Clock::Manual(hands.clone()));
        let session = Session::with_pool(pool);
        session.set("pelton.data-passing", data_passing).unwrap();
        let columns = "v BIGINT NOT NULL, ts TIMESTAMP(3) NOT NULL, WATERMARK FOR ts AS ts";
        let source = session.push_table("a", columns).unwrap();
        Engine { hands, workers, source, query: session.sql(sql).unwrap() }
    }

    /// As [`Engine::compute`], where nothing comes out.
    fn push(&mut self, second: i64) {
        self.compute(second);
        assert!(self.query.try_next_batch().unwrap().is_none());
    }

    /// Has a row read at once, and computed with seven milliseconds later.
    fn compute(&mut self, second: i64) {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![second]));
        let times = TimestampMillisecondArray::from(vec![second * 1_000]);
        let times = cast(&times, self.source.schema().field(1).data_type()).unwrap();
        let rows = RecordBatch::try_new(self.source.schema().clone(), vec![values, times]).unwrap();
        self.source.push_blocking(rows).unwrap();
        while self.query.progress().sources[0].rows < second as u64 {
            assert!(self.workers.step(0));
        }
        self.hands.advance(Duration::from_millis(7));
        while self.workers.step(0) {}
    }

    /// How many latencies are known, and the largest, in whole milliseconds.
    fn latencies(&self) -> (u64, u64) {
        let latency_ns = self.query.progress().latency_ns();
        (latency_ns.len(), latency_ns.max() / 1_000_000)
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
