//! Queries that are added and removed while rows flow: each has the rows that it has alone over what it should see.

use std::time::{Duration, Instant};

use pelton::{PushSource, Query, Session};
use pelton_testkit::rows::row_lines;
use pelton_testkit::script::engine::session;
use pelton_testkit::script::run::Configuration;
use pelton_testkit::windows::Row;
use proptest::prelude::*;

use crate::streams;

/// Tables, which all queries of a case share.
pub const TABLES: [&str; 2] = ["t", "u"];

/// Milliseconds between two rows of a session.
const GAP: i64 = 20;

/// A query that may be added.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub sql: &'static str,
    /// The tables that it reads.
    pub reads: &'static [usize],
    /// Its first column is the start of a window, in milliseconds.
    is_windowed: bool,
    /// Rows so long after those before may belong to windows that had begun.
    gap: i64,
}

const fn rows_of(sql: &'static str, reads: &'static [usize]) -> Kind {
    Kind { sql, reads, is_windowed: false, gap: 0 }
}

const fn windows_of(sql: &'static str, reads: &'static [usize]) -> Kind {
    Kind { sql, reads, is_windowed: true, gap: 0 }
}

pub const KINDS: &[Kind] = &[
    rows_of("SELECT k, i, s FROM t WHERE i > 0", &[0]),
    rows_of("SELECT f, CHAR_LENGTH(s) FROM u WHERE k IS NOT NULL", &[1]),
    rows_of("SELECT f FROM t UNION ALL SELECT f FROM u", &[0, 1]),
    rows_of("SELECT f, COUNT(i) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) FROM t", &[0]),
    rows_of("SELECT t.f, u.f FROM t JOIN u ON t.k = u.k AND t.ts BETWEEN u.ts - INTERVAL '0.010' SECOND AND u.ts", &[0, 1]),
    windows_of(
        "SELECT window_start, k, COUNT(*), SUM(i) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.030' SECOND)) GROUP BY window_start, window_end, k",
        &[0],
    ),
    windows_of(
        "SELECT window_start, COUNT(f), MIN(s) FROM TABLE(HOP(TABLE u, DESCRIPTOR(ts), INTERVAL '0.020' SECOND, INTERVAL '0.060' SECOND)) GROUP BY window_start, window_end",
        &[1],
    ),
    windows_of(
        "SELECT window_start, MAX(f) FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.010' SECOND, INTERVAL '0.040' SECOND)) GROUP BY window_start, window_end",
        &[0],
    ),
    Kind {
        sql: "SELECT window_start, k, COUNT(*) FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '0.020' SECOND)) GROUP BY window_start, window_end, k",
        reads: &[0],
        is_windowed: true,
        gap: GAP,
    },
    windows_of(
        "SELECT window_start, f, r FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY f) AS r
         FROM TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '0.050' SECOND))) WHERE r <= 2",
        &[1],
    ),
    windows_of(
        "SELECT l.window_start, l.f, r.f FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS l
         FULL JOIN TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS r
         ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end WHERE l.window_start IS NOT NULL",
        &[0, 1],
    ),
    windows_of(
        "SELECT window_start, COUNT(*), SUM(n) FROM TABLE(TUMBLE((SELECT window_time AS at, COUNT(*) AS n
         FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.020' SECOND)) GROUP BY window_start, window_end, window_time), DESCRIPTOR(at), INTERVAL '0.060' SECOND))
         GROUP BY window_start, window_end",
        &[0],
    ),
];

/// Aggregations by one key, which share partial results whatever their windows, predicates and functions.
const AGGREGATIONS: &[Kind] = &[
    windows_of(
        "SELECT window_start, k, COUNT(*), SUM(i), AVG(i) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.300' SECOND)) WHERE i > 0 GROUP BY window_start, window_end, k",
        &[0],
    ),
    windows_of(
        "SELECT window_start, k, COUNT(i), MIN(i), MAX(f) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.700' SECOND)) GROUP BY window_start, window_end, k",
        &[0],
    ),
    windows_of(
        "SELECT window_start, k, SUM(f), MAX(i), COUNT(*) FILTER (WHERE s = 'a') FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '0.100' SECOND, INTERVAL '0.400' SECOND)) WHERE i IS NULL OR i < 100 GROUP BY window_start, window_end, k",
        &[0],
    ),
    windows_of(
        "SELECT window_start, k, MIN(f) FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '0.200' SECOND, INTERVAL '0.500' SECOND)) WHERE i > 0 GROUP BY window_start, window_end, k",
        &[0],
    ),
    windows_of(
        "SELECT window_start, k, SUM(i + k), COUNT(s) FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.100' SECOND, INTERVAL '0.400' SECOND)) WHERE s <> 'b' GROUP BY window_start, window_end, k HAVING COUNT(*) > 1",
        &[0],
    ),
    windows_of(
        "SELECT window_start, COUNT(*), MIN(ts) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.200' SECOND)) WHERE k < 2 GROUP BY window_start, window_end",
        &[0],
    ),
    windows_of(
        "SELECT window_start, MAX(i), AVG(i) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.300' SECOND)) WHERE k < 2 GROUP BY window_start, window_end",
        &[0],
    ),
    windows_of(
        "SELECT window_start, SUM(n), MAX(n) FROM TABLE(TUMBLE((SELECT window_time AS at, k, COUNT(*) AS n
         FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.200' SECOND)) WHERE f < 100 GROUP BY window_start, window_end, window_time, k), DESCRIPTOR(at), INTERVAL '0.600' SECOND))
         GROUP BY window_start, window_end",
        &[0],
    ),
];

/// Joins by windows, which run once for all queries that have them, whatever columns and rows these select, and whatever comes behind them: ten of them are the same one.
const JOINS: &[Kind] = &[
    windows_of(
        "SELECT l.window_start, l.f, r.f FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS l
         JOIN TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS r
         ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end",
        &[0, 1],
    ),
    windows_of(
        "SELECT l.window_start, r.window_time, r.s, l.k FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS l
         JOIN TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS r
         ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end",
        &[0, 1],
    ),
    windows_of(
        "SELECT l.window_start, l.f + r.f FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS l
         JOIN TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS r
         ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end WHERE l.f < r.f",
        &[0, 1],
    ),
    windows_of(
        "SELECT l.window_start, l.f, r.f FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS l
         JOIN TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS r
         ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end WHERE l.i > 0",
        &[0, 1],
    ),
    windows_of(
        "SELECT l.window_start, l.f, r.f FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS l
         LEFT JOIN TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS r
         ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end",
        &[0, 1],
    ),
    windows_of(
        "SELECT l.window_start, l.f, r.f FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS l
         LEFT JOIN TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS r
         ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end WHERE l.i > 0",
        &[0, 1],
    ),
    windows_of(
        "SELECT l.window_start, r.s FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS l
         JOIN TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS r
         ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end WHERE r.i < 2 AND l.k > 0 AND l.f < r.f",
        &[0, 1],
    ),
    windows_of(
        "SELECT window_start, k, COUNT(*), MAX(f) FROM (
             SELECT l.window_start, l.window_end, l.k, r.f FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS l
             JOIN TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS r
             ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end WHERE l.f < r.f)
         GROUP BY window_start, window_end, k",
        &[0, 1],
    ),
    windows_of(
        "SELECT window_start, k, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, k) AS place FROM (
             SELECT l.window_start, l.window_end, l.k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS l
             JOIN TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS r
             ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end
             GROUP BY l.window_start, l.window_end, l.k)) WHERE place = 1",
        &[0, 1],
    ),
    windows_of(
        "SELECT window_start, COUNT(*), SUM(f) FROM TABLE(HOP((
             SELECT l.window_time AS at, l.f FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS l
             JOIN TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS r
             ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end), DESCRIPTOR(at), INTERVAL '0.040' SECOND, INTERVAL '0.120' SECOND))
         GROUP BY window_start, window_end",
        &[0, 1],
    ),
    windows_of(
        "SELECT window_start, COUNT(*) FROM (
             SELECT l.window_start, l.window_end, l.k FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS l
             JOIN TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS r
             ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end WHERE r.i > 0 OR l.i > 0)
         GROUP BY window_start, window_end UNION ALL
         SELECT window_start, SUM(k) FROM (
             SELECT l.window_start, l.window_end, l.k FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS l
             JOIN TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS r
             ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end)
         GROUP BY window_start, window_end",
        &[0, 1],
    ),
    windows_of(
        "SELECT l.window_start, l.f, r.f FROM TABLE(TUMBLE((SELECT f, k, ts FROM t WHERE i > 0), DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS l
         JOIN TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '0.040' SECOND)) AS r
         ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end",
        &[0, 1],
    ),
    windows_of(
        "SELECT l.window_start, l.f, r.f FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '0.020' SECOND, INTERVAL '0.060' SECOND)) AS l
         JOIN TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '0.020' SECOND, INTERVAL '0.060' SECOND)) AS r
         ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end",
        &[0],
    ),
];

#[derive(Debug, Clone)]
enum Event {
    /// So many rows of a table.
    Push(usize, usize),
    Add(Kind),
    /// One of those that run, in turn.
    Remove(usize),
}

#[derive(Debug, Clone)]
struct Case {
    rows: [Vec<Row>; 2],
    events: Vec<Event>,
    delay: i64,
    configuration: Configuration,
}

fn cases(kinds: &'static [Kind], rows_at_once_max: usize) -> impl Strategy<Value = Case> {
    let event = prop_oneof![
        4 => (0usize..2, 1..rows_at_once_max).prop_map(|(table, rows)| Event::Push(table, rows)),
        3 => prop::sample::select(kinds).prop_map(Event::Add),
        1 => any::<usize>().prop_map(Event::Remove),
    ];
    let rows = [streams::numbered_rows(), streams::numbered_rows()];
    (rows, prop::collection::vec(event, 1..24), 0i64..40, streams::configurations())
        .prop_map(|(rows, events, delay, configuration)| Case { rows, events, delay, configuration })
}

/// An engine with the tables of a case.
struct Streams {
    session: Session,
    sources: [PushSource; 2],
}

/// A query that runs, and from which rows of each table on.
struct Live {
    kind: Kind,
    query: Query,
    from: [usize; 2],
    /// The largest time of rows that it has not seen.
    began_behind: Option<i64>,
    found: Vec<String>,
}

impl Streams {
    fn new(case: &Case) -> Streams {
        let session = session(case.configuration);
        let sources = TABLES.map(|table| streams::table_named(&session, table, case.delay));
        Streams { session, sources }
    }

    fn push(&self, table: usize, rows: &[Row]) {
        // A table that no query reads takes rows all the same, as many as wait.
        self.sources[table].push_blocking(streams::batch(&self.sources[table], rows)).unwrap();
    }
}

impl Live {
    /// Reads results until so many rows of its tables have been read.
    fn catch_up(&mut self, pushed: [usize; 2]) {
        let rows = |table: usize| (pushed[table] - self.from[table]) as u64;
        let expected: Vec<(&str, u64)> = self.kind.reads.iter().map(|&table| (TABLES[table], rows(table))).collect();
        let started = Instant::now();
        loop {
            while let Some(batch) = self.query.try_next_batch().unwrap() {
                self.found.extend(row_lines(&batch).unwrap());
            }
            let progress = self.query.progress();
            let has_read = |(table, rows): &(&str, u64)| {
                progress.sources.iter().filter(|source| source.name == *table).all(|source| source.rows == *rows)
            };
            if expected.iter().all(has_read) {
                return;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "{} has not read {expected:?}", self.kind.sql);
            std::thread::yield_now();
        }
    }

    /// All rows that it has reported, in an order of their own.
    fn end(mut self) -> Vec<String> {
        while let Some(batch) = self.query.next_batch().unwrap() {
            self.found.extend(row_lines(&batch).unwrap());
        }
        self.found.sort();
        self.found
    }

    /// What it reports alone over the rows that it should see, which end there, or at which it is told to end.
    fn alone(&self, case: &Case, until: [usize; 2], is_removed: bool) -> Vec<String> {
        let streams = Streams::new(case);
        let query = streams.session.sql(self.kind.sql).unwrap();
        let mut live = Live { kind: self.kind, query, found: Vec::new(), ..*self };
        for &table in self.kind.reads {
            for rows in case.rows[table][self.from[table]..until[table]].chunks(50) {
                streams.push(table, rows);
            }
        }
        if is_removed {
            live.catch_up(until);
            live.query.control().drain();
        }
        drop(streams);
        let mut found = live.end();
        if let (true, Some(time)) = (self.kind.is_windowed, self.began_behind) {
            found.retain(|line| millis(line) > time + self.kind.gap);
        }
        found
    }
}

/// The first column of a line: a time of the first days of 1970, or of the last of 1969, in milliseconds.
fn millis(line: &str) -> i64 {
    let time = line.split(" | ").next().unwrap().replace(' ', "T");
    let days = if time.starts_with("1969-12-31") { -1 } else { 0 };
    let (_, clock) = time.split_once('T').unwrap();
    let parts: Vec<f64> = clock.split(':').map(|part| part.parse().unwrap()).collect();
    days * 86_400_000 + ((parts[0] * 60.0 + parts[1]) * 60_000.0 + parts[2] * 1_000.0).round() as i64
}

fn config() -> ProptestConfig {
    let cases = std::env::var("PELTON_PROPERTY_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64);
    ProptestConfig { cases, max_shrink_iters: 200, ..ProptestConfig::with_source_file("live") }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn queries_that_come_and_go_have_the_rows_that_they_have_alone(case in cases(KINDS, 40)) {
        come_and_go(&case)?;
    }

    #[test]
    fn aggregations_that_share_partial_results_have_the_rows_that_they_have_alone(case in cases(AGGREGATIONS, 25)) {
        come_and_go(&case)?;
    }

    #[test]
    fn joins_that_run_once_for_several_queries_have_the_rows_that_they_have_alone(case in cases(JOINS, 25)) {
        come_and_go(&case)?;
    }
}

fn come_and_go(case: &Case) -> Result<(), TestCaseError> {
    let streams = Streams::new(case);
    // They read all rows, so that it is known which had been read when a query is added.
    let mut bases: Vec<Live> = [KINDS[0], KINDS[1]]
        .map(|kind| Live {
            query: streams.session.sql(kind.sql).unwrap(),
            kind,
            from: [0, 0],
            began_behind: None,
            found: Vec::new(),
        })
        .into();
    let (mut live, mut pushed): (Vec<Live>, [usize; 2]) = (Vec::new(), [0, 0]);
    for event in &case.events {
        match *event {
            Event::Push(table, rows) => {
                let end = case.rows[table].len().min(pushed[table] + rows);
                if end > pushed[table] {
                    streams.push(table, &case.rows[table][pushed[table]..end]);
                    pushed[table] = end;
                }
            }
            Event::Add(kind) => {
                bases.iter_mut().for_each(|base| base.catch_up(pushed));
                let before = kind.reads.iter().flat_map(|&table| &case.rows[table][..pushed[table]]);
                let began_behind = before.map(|row| row.time).max();
                let query = streams.session.sql(kind.sql).unwrap();
                live.push(Live { kind, query, from: pushed, began_behind, found: Vec::new() });
            }
            Event::Remove(number) if !live.is_empty() => {
                let mut removed = live.remove(number % live.len());
                removed.catch_up(pushed);
                removed.query.control().drain();
                let alone = removed.alone(case, pushed, true);
                let sql = removed.kind.sql;
                // How far a join has come that runs for others as well is not known: pairs may be missing, and there is none that should not be.
                let sources = removed.query.progress().sources;
                let reads_pairs = sources.iter().any(|source| source.name.starts_with("join of"));
                let mut found = removed.end().into_iter().peekable();
                let missing: Vec<String> = alone.into_iter().filter(|line| found.next_if_eq(line).is_none()).collect();
                prop_assert_eq!(
                    (found.next(), missing.is_empty() || reads_pairs),
                    (None, true),
                    "{}: {:?}",
                    sql,
                    missing
                );
            }
            Event::Remove(_) => {}
        }
    }
    drop(streams);
    for live in bases.into_iter().chain(live) {
        let (alone, sql) = (live.alone(case, pushed, false), live.kind.sql);
        prop_assert_eq!(live.end(), alone, "{}", sql);
    }
    Ok(())
}
