//! The first rows of windows against their definition: any stream, windows and order; interpreted and compiled, on one worker and two, in
//! blocks of any size.
//!
//! `PELTON_PROPERTY_CASES` sets how many random streams are tried.

use std::collections::BTreeMap;

use pelton_testkit::ranking::{OrderColumn, first_rows};
use pelton_testkit::rows::{row_lines, value_text};
use pelton_testkit::script::engine::session;
use pelton_testkit::script::run::Configuration;
use pelton_testkit::windows::{Kind, Reported, Row, Windows};
use proptest::prelude::*;

use crate::streams;

fn config() -> ProptestConfig {
    let cases = std::env::var("PELTON_PROPERTY_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64);
    ProptestConfig { cases, max_shrink_iters: 500, ..ProptestConfig::with_source_file("ranking") }
}

/// A stream and what is asked of it.
#[derive(Debug, Clone)]
struct Case {
    rows: Vec<Row>,
    windows: Windows,
    is_keyed: bool,
    order: Vec<OrderColumn>,
    /// Ranks that are asked for.
    first: usize,
    last: usize,
    configuration: Configuration,
    /// Rows pushed at a time.
    batch_rows: usize,
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let step = prop_oneof![5 => 0i64..4, 3 => Just(0), 1 => 10i64..40, 1 => 300i64..500];
    streams::rows(step, "[a-c]{1,3}|a long string of more than [1-3]0 bytes")
}

fn cases() -> impl Strategy<Value = Case> {
    let kinds = prop_oneof![
        (1i64..200).prop_map(|size| Kind::Tumble { size }),
        (1i64..12, 1i64..60).prop_map(|(slide, size)| Kind::Hop { slide, size }),
        (1i64..12, 1i64..9).prop_map(|(step, steps)| Kind::Cumulate { step, steps }),
        (1i64..40).prop_map(|gap| Kind::Session { gap }),
        (1i64..12, 1i64..30, any::<bool>()).prop_map(|(slide, size, by_key)| Kind::Rows { slide, size, by_key }),
    ];
    let lateness = prop_oneof![Just(0), 1i64..60];
    let windows = (kinds, 0i64..40, lateness);
    let windows = windows.prop_map(|(kind, delay, lateness)| {
        let is_corrected = !matches!(kind, Kind::Rows { .. });
        Windows { kind, offset: 0, delay, lateness: if is_corrected { lateness } else { 0 } }
    });
    let column = (prop::sample::select(vec!["i", "f", "s"]), any::<bool>(), any::<bool>());
    let column = column.prop_map(|(name, is_descending, nulls_first)| OrderColumn { name, is_descending, nulls_first });
    let order = prop::collection::vec(column, 1..3);
    let ranks = (prop_oneof![3 => Just(1usize), 1 => 1usize..4], 0usize..12);
    let configuration = streams::configurations();
    (rows(), windows, any::<bool>(), order, ranks, configuration, 10usize..200).prop_map(
        |(rows, windows, is_keyed, order, (first, more), configuration, batch_rows)| Case {
            rows,
            windows,
            is_keyed,
            order,
            first,
            last: first + more,
            configuration: configuration.in_turn(batch_rows),
            batch_rows,
        },
    )
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_first_rows_of_windows_are_those_of_their_definition(case in cases()) {
        let (expected, late) = expected(&case);
        let (mut found, found_late) = found(&case);
        // Keys leave in the order of their bytes, which the model does not know.
        found.sort();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(found_late, late);
    }
}

fn expected(case: &Case) -> (Vec<String>, u64) {
    let (reported, late) = case.windows.reported(&case.rows, case.is_keyed);
    let (mut lines, mut known) = (Vec::new(), BTreeMap::new());
    for Reported { group, is_correction, rows } in reported {
        let (end, start, _) = group;
        let kind = if is_correction { "correction" } else { "final" };
        let first = first_rows(&rows, &case.order, &[], case.last);
        let ranked = (1..).zip(first).skip(case.first - 1).map(|(rank, row)| {
            let text = row.text.clone().unwrap_or_else(|| "NULL".to_string());
            let (key, integer, float) = (value_text(row.key), value_text(row.integer), value_text(row.float));
            format!("{rank} | {key} | {integer} | {float} | {text}")
        });
        let ranked: Vec<String> = ranked.collect();
        // Rows that are not among the first correct nothing, but where a session becomes longer.
        let is_session = matches!(case.windows.kind, Kind::Session { .. });
        if is_session || known.insert(group, ranked.clone()).is_none_or(|before| before != ranked) {
            lines.extend(ranked.iter().map(|row| format!("{end} | {start} | {kind} | {row}")));
        }
    }
    lines.sort();
    (lines, late)
}

fn found(case: &Case) -> (Vec<String>, u64) {
    let session = session(case.configuration);
    let source = streams::table(&session, case.windows.delay);
    let by_key = if case.is_keyed { ", k" } else { "" };
    let order: Vec<String> = case.order.iter().map(OrderColumn::sql).collect();
    let sql = format!(
        "SELECT CAST(window_end AS BIGINT), CAST(window_start AS BIGINT), kind, n, k, i, f, s
         FROM (SELECT *, RESULT_KIND() OVER w AS kind, ROW_NUMBER() OVER w AS n FROM {}
               WINDOW w AS (PARTITION BY window_start, window_end{by_key} ORDER BY {}))
         WHERE n BETWEEN {} AND {}",
        case.windows.sql("t", "ts", case.is_keyed.then_some("k")),
        order.join(", "),
        case.first,
        case.last
    );
    session.set("table.exec.emit.allow-lateness", &format!("{} ms", case.windows.lateness)).unwrap();
    let mut query = session.sql(&sql).unwrap();
    // Half of all queries go on from snapshots of their state after each batch.
    let renews = case.batch_rows.is_multiple_of(2);
    let lines =
        streams::run(&mut query, source, (&case.rows, case.batch_rows), renews, |batch| row_lines(batch).unwrap());
    let late = query.wait().unwrap().late_rows();
    (lines, late)
}
