//! Functions OVER rows against their definitions: any stream, frames and functions; interpreted and compiled, on one worker and two, in
//! blocks of any size.
//!
//! `PELTON_PROPERTY_CASES` sets how many random streams are tried.

use pelton_testkit::over::{Frame, in_order};
use pelton_testkit::rows::row_lines;
use pelton_testkit::script::engine::session;
use pelton_testkit::script::run::Configuration;
use pelton_testkit::windows::{AGGREGATES, Aggregate, Row};
use proptest::prelude::*;

use crate::streams;

fn config() -> ProptestConfig {
    let cases = std::env::var("PELTON_PROPERTY_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64);
    ProptestConfig { cases, max_shrink_iters: 500, ..ProptestConfig::with_source_file("over") }
}

/// A function, and what it is computed over.
#[derive(Debug, Clone)]
struct Call {
    aggregate: Aggregate,
    frame: Frame,
    is_keyed: bool,
}

/// A stream and what is asked of it.
#[derive(Debug, Clone)]
struct Case {
    rows: Vec<Row>,
    delay: i64,
    calls: Vec<Call>,
    configuration: Configuration,
    /// Rows pushed at a time.
    batch_rows: usize,
}

/// Of those of windows.
const FUNCTIONS: [&str; 54] = [
    "COUNT(*)",
    "COUNT(i)",
    "COUNT(s)",
    "SUM(i)",
    "SUM(i) FILTER (WHERE f > 0)",
    "AVG(i)",
    "MIN(i)",
    "MAX(i)",
    "MIN(s)",
    "MAX(s)",
    "SUM(f)",
    "AVG(f)",
    "VAR_POP(MOD(i, 100))",
    "STDDEV_SAMP(MOD(i, 100))",
    "ROUND(VAR_POP(CAST(MOD(i, 100) AS DOUBLE)) + 0.000000271, 6)",
    "ROUND(STDDEV_POP(f) / 7000 + 1 + 0.000000271, 6)",
    "ROUND(VAR_SAMP(f) / 7000000000 + 1 + 0.000000271, 6)",
    "MEDIAN(i)",
    "PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY f)",
    "PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY f DESC)",
    "PERCENTILE_DISC(i, 0.7)",
    "PERCENTILE_DISC(0.7) WITHIN GROUP (ORDER BY i DESC)",
    "PERCENTILE_DISC(s, 0.4)",
    "MODE(i)",
    "MODE(s)",
    "COUNT(DISTINCT i)",
    "COUNT(DISTINCT s) FILTER (WHERE i > 0)",
    "SUM(DISTINCT i)",
    "SUM(DISTINCT f)",
    "AVG(DISTINCT MOD(i, 10))",
    "VAR_POP(DISTINCT MOD(i, 100))",
    "ROUND(STDDEV_SAMP(DISTINCT f) / 7000 + 1 + 0.000000271, 6)",
    "MEDIAN(DISTINCT MOD(i, 10))",
    "PERCENTILE_DISC(DISTINCT s, 0.4)",
    "MODE(DISTINCT i)",
    "APPROX_COUNT_DISTINCT(MOD(i, 10))",
    "APPROX_PERCENTILE(MOD(i, 100), 0.7)",
    "ARRAY_AGG(i)",
    "ARRAY_AGG(i) FILTER (WHERE f > 0)",
    "ARRAY_AGG(DISTINCT s) FILTER (WHERE f > 0)",
    "ARRAY_AGG(DISTINCT i) IGNORE NULLS",
    "LISTAGG(s, '+')",
    "LISTAGG(DISTINCT s)",
    "BIT_XOR(i)",
    "BIT_AND(i)",
    "BIT_OR(i) FILTER (WHERE f > 0)",
    "BOOL_AND(i > 0)",
    "EVERY(i > 0) FILTER (WHERE f > 0)",
    "REGR_COUNT(i, f)",
    "ROUND(COVAR_POP(MOD(i, 100), CHAR_LENGTH(s)) + 0.000000271, 6) + 1",
    "ROUND(CORR(MOD(i, 100), MOD(i, 7)) + 0.000000271, 6) + 1",
    "OWN_TOTAL(i, k)",
    "OWN_SPREAD(i) FILTER (WHERE f > 0)",
    "OWN_TRAIL(s)",
];

/// What functions have in their names that hold all values of a frame.
const HELD: [&str; 4] = ["DISTINCT", "MEDIAN", "MODE", "PERCENTILE"];

/// LEAD, with the rows that it looks ahead: its value is that of the last row of a frame that has all of them.
const LEADS: [(Aggregate, usize); 3] = [
    (Aggregate { sql: "LEAD(i)", value: |rows| led(rows, 1, |row| row.integer.map(|value| value.to_string())) }, 1),
    (
        Aggregate {
            sql: "LEAD(s, 3, 'none')",
            value: |rows| match rows.len() {
                4 => led(rows, 3, |row| row.text.clone()),
                _ => "none".to_string(),
            },
        },
        3,
    ),
    (Aggregate { sql: "LEAD(k, 7)", value: |rows| led(rows, 7, |row| row.key.map(|value| value.to_string())) }, 7),
];

fn led(rows: &[&Row], ahead: usize, value: fn(&Row) -> Option<String>) -> String {
    rows.get(ahead).and_then(|row| value(row)).unwrap_or("NULL".to_string())
}

/// Rows of one time that are of several keys change places where those of a key wait for each other: what is computed over all keys would see it.
fn one_order(calls: Vec<Call>) -> Vec<Call> {
    let is_keyed = calls.iter().any(|call| call.is_keyed && call.frame.waits_for_rows());
    calls.into_iter().map(|call| Call { is_keyed: call.is_keyed || is_keyed, ..call }).collect()
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    streams::rows(prop_oneof![5 => 0i64..4, 3 => Just(0), 1 => 10i64..40], "[a-c]{1,3}")
}

fn cases() -> impl Strategy<Value = Case> {
    let frame = prop_oneof![
        prop::option::weighted(0.8, 0usize..40).prop_map(Frame::Rows),
        prop::option::weighted(0.8, 0i64..100).prop_map(Frame::Range),
        (prop::option::weighted(0.8, 0usize..20), 0usize..12).prop_map(|(rows, after)| Frame::RowsAround(rows, after)),
        (prop::option::weighted(0.8, 0i64..60), 0i64..60).prop_map(|(length, after)| Frame::RangeAround(length, after)),
    ];
    let functions: Vec<Aggregate> =
        AGGREGATES.iter().filter(|aggregate| FUNCTIONS.contains(&aggregate.sql)).copied().collect();
    assert_eq!(functions.len(), FUNCTIONS.len(), "each is one of windows");
    // Those of one column and frame are computed from one set of values.
    let is_held = |aggregate: &&Aggregate| HELD.iter().any(|name| aggregate.sql.contains(name));
    let held: Vec<Aggregate> = functions.iter().filter(is_held).copied().collect();
    let lead = prop::sample::select(LEADS.to_vec());
    let function = prop_oneof![2 => prop::sample::select(functions), 1 => prop::sample::select(held)];
    let calls = (prop::collection::vec(function, 1..5), frame, any::<bool>());
    let calls = calls.prop_map(|(aggregates, frame, is_keyed)| -> Vec<Call> {
        aggregates.into_iter().map(|aggregate| Call { aggregate, frame, is_keyed }).collect()
    });
    let leads = (lead, any::<bool>()).prop_map(|((aggregate, rows), is_keyed)| {
        vec![Call { aggregate, frame: Frame::RowsAround(Some(0), rows), is_keyed }]
    });
    let calls = prop_oneof![4 => calls, 1 => leads];
    let calls = prop::collection::vec(calls, 1..3).prop_map(|calls| one_order(calls.concat()));
    let configuration = streams::configurations();
    (rows(), 0i64..40, calls, configuration, 10usize..200).prop_map(
        |(rows, delay, calls, configuration, batch_rows)| Case {
            rows,
            delay,
            calls,
            configuration: configuration.in_turn(batch_rows),
            batch_rows,
        },
    )
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn functions_have_the_values_of_their_frames(case in cases()) {
        let (mut found, found_late) = found(&case);
        let (rows, late) = in_order(&case.rows, case.delay);
        let line = |row: usize| {
            let values = case.calls.iter().map(|call| (call.aggregate.value)(&call.frame.of(&rows, row, call.is_keyed)));
            values.collect::<Vec<_>>().join(" | ")
        };
        let mut expected: Vec<String> = (0..rows.len()).map(line).collect();
        if case.calls.iter().any(|call| call.is_keyed && call.frame.waits_for_rows()) {
            found.sort();
            expected.sort();
        }
        prop_assert_eq!(found, expected);
        prop_assert_eq!(found_late, late);
    }
}

fn found(case: &Case) -> (Vec<String>, u64) {
    let session = session(case.configuration);
    let source = streams::table(&session, case.delay);
    let calls = case.calls.iter().map(|call| call.aggregate.over(&call.frame.sql(call.is_keyed)));
    let calls: Vec<String> = calls.enumerate().map(|(number, call)| format!("{call} AS c{number}")).collect();
    let mut query = session.sql(&format!("SELECT {} FROM t", calls.join(", "))).unwrap();
    // Half of all queries go on from snapshots of their state after each batch.
    let renews = case.batch_rows.is_multiple_of(2);
    let lines =
        streams::run(&mut query, source, (&case.rows, case.batch_rows), renews, |batch| row_lines(batch).unwrap());
    // A chain of nodes counts a late row once: those behind the first get none.
    (lines, query.wait().unwrap().late_rows())
}
