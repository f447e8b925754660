//! Windows against their definitions: any stream, windows and aggregates; interpreted and compiled, on one worker and two, in blocks of any
//! size.
//!
//! `PELTON_PROPERTY_CASES` sets how many random streams are tried.

use std::collections::BTreeMap;
use std::ops::Range;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use pelton::{PushSource, Query, Session};
use pelton_data::block::ticks;
use pelton_testkit::rows::row_lines;
use pelton_testkit::script::engine::session;
use pelton_testkit::script::run::Configuration;
use pelton_testkit::windows::{AGGREGATES, Aggregate, Group, Kind, Reported, Row, Windows};
use proptest::prelude::*;

use crate::streams;

fn config() -> ProptestConfig {
    let cases = std::env::var("PELTON_PROPERTY_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64);
    ProptestConfig { cases, max_shrink_iters: 500, ..ProptestConfig::with_source_file("windows") }
}

/// A stream and what is asked of it.
#[derive(Debug, Clone)]
struct Case {
    rows: Vec<Row>,
    windows: Windows,
    is_keyed: bool,
    key: KeyForm,
    aggregates: Vec<Aggregate>,
    configuration: Configuration,
    /// Rows pushed at a time.
    batch_rows: usize,
}

/// What is grouped by in place of the integer `k`: something that tells the same groups apart.
#[derive(Debug, Clone, Copy)]
struct KeyForm {
    /// Each column, computed from `k`.
    columns: &'static [&'static str],
    /// What `k` is, computed from the first of them, `g0`.
    back: &'static str,
}

/// Integers, strings that entries hold and longer ones, decimals, and combinations.
const KEY_FORMS: [KeyForm; 6] = [
    KeyForm { columns: &["k"], back: "g0" },
    KeyForm { columns: &["CAST(k AS STRING)"], back: "CAST(g0 AS BIGINT)" },
    KeyForm { columns: &["CONCAT('so many bytes: ', CAST(k AS STRING))"], back: "CAST(SUBSTRING(g0, 16) AS BIGINT)" },
    KeyForm { columns: &["CAST(k AS DECIMAL(30, 2))"], back: "CAST(g0 AS BIGINT)" },
    KeyForm { columns: &["k", "CAST(MOD(k, 100) AS INT)"], back: "g0" },
    KeyForm { columns: &["k", "CAST(k AS STRING)", "k > 1", "CAST(k AS DOUBLE)"], back: "g0" },
];

impl KeyForm {
    /// The names of its columns.
    fn names(self) -> String {
        let names: Vec<String> = (0..self.columns.len()).map(|number| format!("g{number}")).collect();
        names.join(", ")
    }

    /// A view of the table `t` that has its columns.
    fn view(self) -> String {
        let columns = self.columns.iter().enumerate().map(|(number, column)| format!("{column} AS g{number}"));
        format!("CREATE VIEW keyed AS SELECT *, {} FROM t", columns.collect::<Vec<_>>().join(", "))
    }
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        (1i64..40).prop_map(|size| Kind::Tumble { size }),
        (1i64..12, 1i64..60).prop_map(|(slide, size)| Kind::Hop { slide, size }),
        (1i64..8, 2i64..20).prop_map(|(slide, count)| Kind::Hop { slide, size: slide * count }),
        (1i64..12, 1i64..9).prop_map(|(step, steps)| Kind::Cumulate { step, steps }),
        (1i64..40).prop_map(|gap| Kind::Session { gap }),
        (1i64..40).prop_map(|gap| Kind::Session { gap }),
        (1i64..12, any::<bool>()).prop_map(|(size, by_key)| Kind::Rows { slide: size, size, by_key }),
        (1i64..12, 1i64..60, any::<bool>()).prop_map(|(slide, size, by_key)| Kind::Rows { slide, size, by_key }),
    ]
}

/// Gaps now and then.
fn rows() -> impl Strategy<Value = Vec<Row>> {
    let step = prop_oneof![5 => 0i64..4, 3 => Just(0), 1 => 10i64..40, 1 => 300i64..500];
    streams::rows(step, "[a-c]{1,3}|a long string of more than [1-3]0 bytes")
}

fn cases() -> impl Strategy<Value = Case> {
    let lateness = prop_oneof![Just(0), 1i64..60];
    let windows = (kinds(), -30i64..30, 0i64..40, lateness).prop_map(|(kind, offset, delay, lateness)| {
        let size = match kind {
            Kind::Tumble { size } | Kind::Hop { size, .. } => size,
            Kind::Cumulate { step, steps } => step * steps,
            Kind::Session { .. } | Kind::Rows { .. } => 1,
        };
        let is_corrected = !matches!(kind, Kind::Rows { .. });
        Windows { kind, offset: offset % size, delay, lateness: if is_corrected { lateness } else { 0 } }
    });
    // Half of the time only what can be subtracted.
    let aggregates =
        prop_oneof![prop::sample::subsequence(&AGGREGATES[..8], 1..=3), prop::sample::subsequence(AGGREGATES, 1..=6)];
    let configuration = streams::configurations();
    let keys = (any::<bool>(), prop::sample::select(&KEY_FORMS[..]));
    (rows(), windows, keys, aggregates, configuration, 10usize..200).prop_map(
        |(rows, windows, (is_keyed, key), aggregates, configuration, batch_rows)| Case {
            rows,
            windows,
            is_keyed,
            key,
            aggregates,
            configuration: configuration.in_turn(batch_rows),
            batch_rows,
        },
    )
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn windows_have_the_rows_of_their_definitions(case in cases()) {
        let (mut expected, late) = expected(&case);
        let (mut found, found_late) = found(&case);
        let is_by_key = matches!(case.windows.kind, Kind::Rows { by_key: true, .. });
        let order = |lines: &[Line]| {
            let mut order: Vec<_> = lines.iter().map(|line| (line.0.2.filter(|_| is_by_key), line.0.0, line.1.clone())).collect();
            order.sort_by_key(|line| line.0);
            order
        };
        prop_assert_eq!(order(&found), order(&expected), "windows leave in the order of their ends, or those of each key do, and are then corrected");
        expected.sort();
        found.sort();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(found_late, late);
    }

    #[test]
    fn results_are_grouped_by_their_windows_once_more(mut case in cases()) {
        case.windows.lateness = 0;
        if let Kind::Rows { by_key, .. } = &mut case.windows.kind {
            *by_key = false;
        }
        let (inner, _) = case.windows.reported(&case.rows, case.is_keyed);
        let mut groups: BTreeMap<(i64, i64), (usize, usize)> = BTreeMap::new();
        for one in &inner {
            let (results, rows) = groups.entry((one.group.0, one.group.1)).or_default();
            (*results, *rows) = (*results + 1, *rows + one.rows.len());
        }
        let line = |((end, start), (results, rows)): (&(i64, i64), &(usize, usize))| format!("{end} | {start} | {results} | {rows}");
        let expected: Vec<String> = groups.iter().map(line).collect();
        let mut found = found_once_more(&case);
        // Sessions that end at one instant leave in no order.
        if matches!(case.windows.kind, Kind::Session { .. }) {
            let order = |line: &String| line.split(" | ").take(2).map(|bound| bound.parse().unwrap()).collect::<Vec<i64>>();
            prop_assert!(found.is_sorted_by_key(|line| order(line)[0]), "{:?}", found);
            found.sort_by_key(order);
        }
        prop_assert_eq!(found, expected);
    }
}

/// How many results each window has, and how many rows these have.
fn found_once_more(case: &Case) -> Vec<String> {
    let session = session(case.configuration);
    let source = streams::table(&session, case.windows.delay);
    let sql = format!(
        "SELECT CAST(window_end AS BIGINT), CAST(window_start AS BIGINT), COUNT(*), SUM(n) FROM (
         SELECT window_start, window_end, COUNT(*) AS n FROM {} GROUP BY window_start, window_end{})
         GROUP BY window_start, window_end",
        case.windows.sql("t", "ts", case.is_keyed.then_some("k")),
        if case.is_keyed { ", k" } else { "" },
    );
    let mut query = session.sql(&sql).unwrap();
    let renews = case.batch_rows.is_multiple_of(2);
    let lines =
        streams::run(&mut query, source, (&case.rows, case.batch_rows), renews, |batch| row_lines(batch).unwrap());
    query.wait().unwrap();
    lines
}

/// Group, kind, values.
type Line = (Group, String, String);

/// A query of each kind of operator that has state.
fn stateful_queries() -> [String; 6] {
    let windowed = |table: &str| format!("SELECT COUNT(*) FROM {table} GROUP BY window_start, window_end");
    let by_key = |table: &str| format!("SELECT k, COUNT(*) FROM {table} GROUP BY window_start, window_end, k");
    [
        windowed("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)"),
        by_key("HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '9' SECOND)"),
        by_key("SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' SECOND)"),
        by_key("HOP_ROWS(TABLE t PARTITION BY k, 2, 4)"),
        "SELECT SUM(i) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM t".to_string(),
        "SELECT k, i FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY i) AS place
         FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)) WHERE place <= 3"
            .to_string(),
    ]
}

/// Starts a query, and pushes rows of these seconds.
fn start(session: &Session, sql: &str, seconds: Range<i64>, snapshots: &[(usize, Vec<u8>)]) -> (PushSource, Query) {
    let columns = "ts TIMESTAMP(3) NOT NULL, k BIGINT, i BIGINT, f DOUBLE, s STRING, WATERMARK FOR ts AS ts";
    let source = session.push_table("t", columns).unwrap();
    let query = session.sql(sql).unwrap();
    if !snapshots.is_empty() {
        streams::restore(&query.control(), snapshots);
    }
    let row =
        |second| Row { time: 700 * second, key: Some(second % 3), integer: Some(second), float: None, text: None };
    source.push_blocking(streams::batch(&source, &seconds.map(row).collect::<Vec<_>>())).unwrap();
    (source, query)
}

/// What other properties do to state whenever it is at rest happens: of each kind of operator.
#[test]
fn state_at_rest_is_made_anew() {
    for sql in stateful_queries() {
        let session = Session::new();
        let (_source, query) = start(&session, &sql, 0..9, &[]);
        let control = query.control();
        let operators = control.run().stateful_operators().count();
        assert!(operators > 0 && (0..5_000).any(|_| streams::renew(&control) == operators), "{sql}");
    }
}

#[test]
fn runs_go_on_from_the_snapshots_of_others() {
    let rest = |query: &mut Query| {
        let mut lines = Vec::new();
        while let Some(batch) = query.next_batch().unwrap() {
            lines.extend(row_lines(&batch).unwrap());
        }
        lines
    };
    // Rows come every 0.7 seconds, of three keys in turn. After 29 of them time is 19.6: windows up to 19 have been reported, sessions up to that of 18.2,
    // the windows of keys with 10, 10 and 9 rows, and all rows but the last.
    for (sql, come) in stateful_queries().iter().zip([19, 2 + 18 * 3, 27, 4 + 4 + 3, 28, 28]) {
        let sessions = [(); 3].map(|()| Session::new());
        sessions[1].set("pelton.workers", "1").unwrap();
        let (source, mut query) = start(&sessions[0], sql, 0..50, &[]);
        drop(source);
        let mut expected = rest(&mut query);

        let (_source, mut query) = start(&sessions[1], sql, 0..29, &[]);
        let mut found = Vec::new();
        while found.len() < come {
            found.extend(row_lines(&query.next_batch().unwrap().unwrap()).unwrap());
        }
        let snapshots = streams::snapshots(&query.control());
        let (source, mut query) = start(&sessions[2], sql, 29..50, &snapshots);
        drop(source);
        found.extend(rest(&mut query));
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{sql}");
    }
}

fn expected(case: &Case) -> (Vec<Line>, u64) {
    let (reported, late) = case.windows.reported(&case.rows, case.is_keyed);
    let line = |one: Reported<'_>| {
        let values = case.aggregates.iter().map(|aggregate| (aggregate.value)(&one.rows));
        let kind = if one.is_correction { "correction" } else { "final" };
        (one.group, kind.to_owned(), values.collect::<Vec<_>>().join(" | "))
    };
    (reported.into_iter().map(line).collect(), late)
}

fn found(case: &Case) -> (Vec<Line>, u64) {
    let session = session(case.configuration);
    let source = streams::table(&session, case.windows.delay);
    let aggregates: Vec<&str> = case.aggregates.iter().map(|aggregate| aggregate.sql).collect();
    let names = case.key.names();
    let (key, by_key) = match case.is_keyed {
        true => (case.key.back, format!(", {names}")),
        false => ("CAST(NULL AS BIGINT)", String::new()),
    };
    let sql = format!(
        "{}; SELECT window_end, window_start, {key}, RESULT_KIND(), {} FROM {} GROUP BY window_start, window_end{by_key}",
        case.key.view(),
        aggregates.join(", "),
        case.windows.sql("keyed", "ts", case.is_keyed.then_some(&names))
    );
    session.set("table.exec.emit.allow-lateness", &format!("{} ms", case.windows.lateness)).unwrap();
    let mut query = session.sql(&sql).unwrap();
    // Half of all queries go on from snapshots of their state after each batch.
    let renews = case.batch_rows.is_multiple_of(2);
    let lines = streams::run(&mut query, source, (&case.rows, case.batch_rows), renews, read);
    let late = query.wait().unwrap().late_rows();
    (lines, late)
}

fn read(batch: &RecordBatch) -> Vec<Line> {
    let instants = |column: usize| ticks(batch.column(column));
    let (ends, starts) = (instants(0), instants(1));
    let keys = batch.column(2).as_primitive::<Int64Type>();
    let kinds = batch.column(3).as_string_view();
    let values: Vec<usize> = (4..batch.num_columns()).collect();
    let lines = row_lines(&batch.project(&values).unwrap()).unwrap();
    let groups = ends.values().iter().zip(starts.values()).zip(keys).map(|((end, start), key)| (*end, *start, key));
    groups.zip(kinds).zip(lines).map(|((group, kind), line)| (group, kind.unwrap().to_owned(), line)).collect()
}
