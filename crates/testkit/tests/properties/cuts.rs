//! Runs that are cut: what they were at the cut is what another run goes on from, and nothing else changes by it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pelton::{PushSource, Query, Session};
use pelton_data::column::sql_name;
use pelton_runtime::checkpoint::RunSnapshot;
use pelton_testkit::rows::row_lines;
use pelton_testkit::script::engine::session;
use pelton_testkit::script::run::Configuration;
use pelton_testkit::windows::Row;
use proptest::prelude::*;

use crate::live::{KINDS, TABLES};
use crate::streams;

/// Queries whose rows do not depend on which of two tables is read first.
const OTHERS: &[&str] = &[
    "SELECT k, i FROM t LIMIT 7",
    "SELECT window_start, window_end, k, AVG(i), STDDEV_POP(i), COUNT(DISTINCT s), FIRST_VALUE(f), LAST_VALUE(s)
     FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '0.010' SECOND, INTERVAL '0.050' SECOND)) GROUP BY window_start, window_end, k",
    "SELECT k, SUM(i) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '0.050' SECOND PRECEDING AND CURRENT ROW), LAG(f) OVER (PARTITION BY k ORDER BY ts) FROM u",
    "SELECT t.f, u.f FROM t LEFT JOIN u ON t.k = u.k AND t.ts BETWEEN u.ts - INTERVAL '0.030' SECOND AND u.ts + INTERVAL '0.010' SECOND",
    "SELECT window_start, MAX(n), COUNT(*) FROM TABLE(HOP((SELECT window_time AS at, k, SUM(i) AS n
     FROM TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '0.010' SECOND)) GROUP BY window_start, window_end, window_time, k), DESCRIPTOR(at), INTERVAL '0.020' SECOND, INTERVAL '0.040' SECOND))
     GROUP BY window_start, window_end",
];

#[derive(Debug, Clone)]
struct Case {
    sql: &'static str,
    rows: [Vec<Row>; 2],
    /// Rows that are pushed at once.
    batch_rows: usize,
    delay: i64,
    /// A run is cut when about so many rows were pushed, and then gives way to another, which is cut in turn.
    cuts: Vec<usize>,
    /// Of each run.
    configurations: Vec<Configuration>,
}

fn cases() -> impl Strategy<Value = Case> {
    let queries: Vec<&'static str> = KINDS.iter().map(|kind| kind.sql).chain(OTHERS.iter().copied()).collect();
    let rows = [streams::numbered_rows(), streams::numbered_rows()];
    let cuts = prop::collection::vec(0usize..200, 1..4);
    let configurations = prop::collection::vec(streams::configurations(), 4);
    (prop::sample::select(queries), rows, 1usize..40, 0i64..40, cuts, configurations).prop_map(
        |(sql, rows, batch_rows, delay, cuts, configurations)| Case {
            sql,
            rows,
            batch_rows,
            delay,
            cuts,
            configurations,
        },
    )
}

/// Tables that are filled with what follows the rows that a run had read.
struct Running {
    _session: Session,
    sources: [Option<PushSource>; 2],
    pushed: [usize; 2],
    /// Rows that runs before this one have written.
    written_before: u64,
    query: Query,
}

impl Running {
    fn start(case: &Case, configuration: Configuration, from: Option<&RunSnapshot>) -> Running {
        let session = session(configuration);
        let sources = TABLES.map(|table| streams::table_named(&session, table, case.delay));
        let query = match from {
            Some(snapshot) => session.sql_from(case.sql, snapshot).unwrap(),
            None => session.sql(case.sql).unwrap(),
        };
        let read = |table: usize| {
            let sources = from.iter().flat_map(|snapshot| &snapshot.sources);
            let mut rows =
                sources.filter(|source| source.name == TABLES[table]).map(|source| source.stream.rows as usize);
            let first = rows.next().unwrap_or(0);
            assert!(rows.all(|other| other == first), "a table that is read twice is cut at one place");
            first
        };
        let pushed = [read(0), read(1)];
        let written_before = from.map_or(0, |snapshot| snapshot.sinks[0].rows);
        Running { written_before, _session: session, sources: sources.map(Some), pushed, query }
    }

    /// Pushes rows, cuts the run, and ends it. Returns the rows before the cut; without a cut the run had ended by itself, with all rows that it wants.
    fn until_cut(mut self, case: &Case, count: usize) -> (Vec<String>, Option<RunSnapshot>) {
        let control = self.query.control();
        let (snapshot, mut lines) = (Mutex::new(None), Vec::new());
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let Running { sources, pushed, query, .. } = &mut self;
            let (cut, control, has_ended) = (&snapshot, &control, &has_ended);
            scope.spawn(move || {
                for (table, source) in sources.iter().enumerate() {
                    let end = case.rows[table].len().min(pushed[table].saturating_add(count));
                    push(case, (table, source.as_ref().unwrap()), &case.rows[table][pushed[table]..end], has_ended);
                }
                *cut.lock().unwrap() = control.run().cut().ok();
                control.abort();
            });
            while let Some(batch) = query.next_batch().unwrap() {
                lines.extend(row_lines(&batch).unwrap());
            }
            has_ended.store(true, Ordering::SeqCst);
        });
        let snapshot: Option<RunSnapshot> = snapshot.into_inner().unwrap();
        if let Some(snapshot) = &snapshot {
            let written = (snapshot.sinks[0].rows - self.written_before) as usize;
            assert!(lines.len() >= written, "rows that were written are there");
            lines.truncate(written);
        }
        (lines, snapshot)
    }

    fn until_end(mut self, case: &Case) -> Vec<String> {
        let mut lines = Vec::new();
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let Running { sources, pushed, query, .. } = &mut self;
            for (table, source) in sources.iter_mut().enumerate() {
                let (source, rows, has_ended) =
                    (source.take().unwrap(), &case.rows[table][pushed[table]..], &has_ended);
                scope.spawn(move || push(case, (table, &source), rows, has_ended));
            }
            while let Some(batch) = query.next_batch().unwrap() {
                lines.extend(row_lines(&batch).unwrap());
            }
            has_ended.store(true, Ordering::SeqCst);
        });
        lines
    }
}

/// Whether a query reads a table.
fn reads(sql: &str, table: &str) -> bool {
    sql.split(|letter: char| !letter.is_alphanumeric()).any(|word| word == table)
}

/// Pushes rows, unless the query ends before, as one with a LIMIT may.
fn push(case: &Case, (table, source): (usize, &PushSource), rows: &[Row], has_ended: &AtomicBool) {
    if !reads(case.sql, TABLES[table]) {
        return;
    }
    for rows in rows.chunks(case.batch_rows) {
        while let Ok(false) = source.try_push(streams::batch(source, rows)) {
            if has_ended.load(Ordering::SeqCst) {
                return;
            }
            std::thread::yield_now();
        }
    }
}

/// The rows of runs that go on from each other, each cut after some rows.
fn cut_into_pieces(case: &Case) -> Vec<String> {
    let (mut lines, mut from) = (Vec::new(), None);
    for (&count, &configuration) in case.cuts.iter().zip(&case.configurations) {
        // What a store of checkpoints keeps is all that there is.
        let run = Running::start(case, configuration, from.as_ref());
        let (before, snapshot) = run.until_cut(case, count);
        lines.extend(before);
        match snapshot {
            Some(snapshot) => from = Some(stored(&snapshot)),
            None => return lines,
        }
    }
    lines.extend(Running::start(case, case.configurations[3], from.as_ref()).until_end(case));
    lines
}

/// The rows of a job that is altered to the query that it runs, each time when about so many rows were pushed.
fn altered(case: &Case) -> Vec<String> {
    let session = session(case.configurations[0]);
    let sources = TABLES.map(|table| streams::table_named(&session, table, case.delay));
    let schema = session.describe(&session.prepare(case.sql).unwrap()[0]).unwrap().expect("a query has columns");
    let columns = schema.fields().iter().enumerate();
    let columns = columns.map(|(number, field)| format!("c{number} {}", sql_name(field.data_type())));
    let mut out = session.pull_table("out", &columns.collect::<Vec<_>>().join(", ")).unwrap();
    let insert = format!("INSERT INTO out {}", case.sql);
    let mut job = session.sql(&insert).unwrap().detach().unwrap();
    let pushed = AtomicUsize::new(0);
    let never = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let batches = std::iter::from_fn(|| out.next_batch());
            batches.flat_map(|batch| row_lines(&batch).unwrap()).collect::<Vec<String>>()
        });
        for (table, source) in sources.into_iter().enumerate() {
            let (pushed, never) = (&pushed, &never);
            scope.spawn(move || {
                for row in &case.rows[table] {
                    push(case, (table, &source), std::slice::from_ref(row), never);
                    pushed.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let mut until = 0;
        for cut in &case.cuts {
            until = case.rows.iter().map(Vec::len).sum::<usize>().min(until + cut);
            while pushed.load(Ordering::SeqCst) < until {
                std::thread::yield_now();
            }
            let alter = &session.prepare(&format!("ALTER JOB '{}' AS {insert}", job.name())).unwrap()[0];
            match session.execute(alter) {
                Ok(_) => job = session.engine().job(job.name()).unwrap(),
                Err(error) => assert!(job.wait_for(std::time::Duration::from_secs(60)), "{error}"),
            }
        }
        job.wait().unwrap();
        reader.join().unwrap()
    })
}

/// A snapshot that was written and read again.
fn stored(snapshot: &RunSnapshot) -> RunSnapshot {
    let json = serde_json::to_string(snapshot).unwrap();
    let mut read: RunSnapshot = serde_json::from_str(&json).unwrap();
    for (read, operator) in read.operators.iter_mut().zip(&snapshot.operators) {
        read.state.clone_from(&operator.state);
    }
    assert_eq!(read, *snapshot);
    read
}

fn config() -> ProptestConfig {
    let cases = std::env::var("PELTON_PROPERTY_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64);
    ProptestConfig { cases, max_shrink_iters: 200, ..ProptestConfig::with_source_file("cuts") }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn runs_that_go_on_from_each_other_have_the_rows_of_one(case in cases()) {
        let mut expected = Running::start(&case, case.configurations[0], None).until_end(&case);
        let mut found = cut_into_pieces(&case);
        expected.sort();
        found.sort();
        prop_assert_eq!(found, expected, "{}", case.sql);
    }

    #[test]
    fn jobs_that_are_altered_to_the_same_have_the_rows_of_one(case in cases()) {
        // A limit counts anew.
        prop_assume!(!case.sql.contains("LIMIT"));
        let mut expected = Running::start(&case, case.configurations[0], None).until_end(&case);
        let mut found = altered(&case);
        expected.sort();
        found.sort();
        prop_assert_eq!(found, expected, "{}", case.sql);
    }
}
