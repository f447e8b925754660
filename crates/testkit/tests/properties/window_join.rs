//! Joins of rows in the same window against their definition: any two streams, windows, kind of join and condition; interpreted and compiled, on one worker and
//! two, in blocks of any size, from snapshots of any moment.
//!
//! `PELTON_PROPERTY_CASES` sets how many random pairs of streams are tried.

use std::collections::BTreeSet;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Int64Type, TimestampMillisecondType};
use pelton_testkit::script::engine::session;
use pelton_testkit::script::run::Configuration;
use pelton_testkit::windows::{Kind, Row, Windows};
use proptest::prelude::*;

use crate::streams;

fn config() -> ProptestConfig {
    let cases = std::env::var("PELTON_PROPERTY_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64);
    ProptestConfig { cases, max_shrink_iters: 500, ..ProptestConfig::with_source_file("window_join") }
}

/// Two streams and how they are joined.
#[derive(Debug, Clone)]
struct Case {
    left: Vec<Row>,
    right: Vec<Row>,
    /// Of both sides, whose watermarks trail alike.
    windows: Windows,
    /// `INNER`, `LEFT`, `RIGHT` or `FULL`; `SEMI` for EXISTS, and `ANTI` for NOT EXISTS.
    join: &'static str,
    is_keyed: bool,
    /// Whether `l.i < r.i` must be true as well.
    has_residual: bool,
    configuration: Configuration,
    /// Rows pushed at a time.
    batch_rows: usize,
    renews: bool,
}

/// A window, as start and end, and a row that counts in it.
type Windowed<'r> = ((i64, i64), &'r Row);

/// Both sides of what leaves, and the end of the window: the numbers of rows, which are in the column `f`.
type Pair = (i64, Option<i64>, Option<i64>);

fn cases() -> impl Strategy<Value = Case> {
    let kinds = prop_oneof![
        (1i64..200).prop_map(|size| Kind::Tumble { size }),
        (1i64..12, 1i64..60).prop_map(|(slide, size)| Kind::Hop { slide, size }),
        (1i64..12, 1i64..9).prop_map(|(step, steps)| Kind::Cumulate { step, steps }),
    ];
    let windows = (kinds, 0i64..40).prop_map(|(kind, delay)| Windows { kind, offset: 0, delay, lateness: 0 });
    let join = prop::sample::select(vec!["INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"]);
    let how = (join, prop::bool::weighted(0.8), any::<bool>(), any::<bool>());
    (streams::numbered_rows(), streams::numbered_rows(), windows, how, streams::configurations(), 10usize..200)
        .prop_map(|(left, right, windows, (join, is_keyed, has_residual, renews), configuration, batch_rows)| Case {
            left,
            right,
            windows,
            join,
            is_keyed,
            has_residual,
            configuration: configuration.in_turn(batch_rows),
            batch_rows,
            renews,
        })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn rows_in_the_same_window_are_joined_by_definition(case in cases()) {
        prop_assert_eq!(found(&case), expected(&case));
    }
}

/// The rows of a side with the windows that they count in, those that end after the watermark before them; and how many are late for all of theirs.
fn windowed<'r>(windows: &Windows, rows: &'r [Row]) -> (Vec<Windowed<'r>>, u64) {
    let (mut watermark, mut late) = (i64::MIN, 0);
    let mut windowed = Vec::new();
    for row in rows {
        let holding = windows.holding(row.time);
        let counting: Vec<(i64, i64)> = holding.iter().copied().filter(|(_, end)| *end > watermark).collect();
        late += u64::from(!holding.is_empty() && counting.is_empty());
        windowed.extend(counting.into_iter().map(|window| (window, row)));
        watermark = watermark.max(row.time - windows.delay);
    }
    (windowed, late)
}

fn expected(case: &Case) -> (Vec<Pair>, u64) {
    let number = |row: &Row| row.float.map(|float| float as i64);
    let (lefts, left_late) = windowed(&case.windows, &case.left);
    let (rights, right_late) = windowed(&case.windows, &case.right);
    let (mut pairs, mut with_match) = (Vec::new(), [BTreeSet::new(), BTreeSet::new()]);
    for (at, (window, left)) in lefts.iter().enumerate() {
        for (other, (_, right)) in rights.iter().enumerate().filter(|(_, (of, _))| of == window) {
            let is_keyed = !case.is_keyed || left.key.is_some() && left.key == right.key;
            let meets = !case.has_residual || left.integer.zip(right.integer).is_some_and(|(left, right)| left < right);
            if is_keyed && meets {
                pairs.push((window.1, number(left), number(right)));
                with_match[0].insert(at);
                with_match[1].insert(other);
            }
        }
    }
    let alone = |side: usize, rows: &[Windowed<'_>]| {
        let alone = rows.iter().enumerate().filter(|(at, _)| !with_match[side].contains(at));
        alone.map(|(_, (window, row))| (window.1, number(row))).collect::<Vec<_>>()
    };
    let has_pairs = !matches!(case.join, "SEMI" | "ANTI");
    pairs.retain(|_| has_pairs);
    if case.join == "SEMI" {
        let matched = with_match[0].iter().map(|at| &lefts[*at]);
        pairs.extend(matched.map(|(window, row)| (window.1, number(row), None)));
    }
    if matches!(case.join, "LEFT" | "FULL" | "ANTI") {
        pairs.extend(alone(0, &lefts).into_iter().map(|(end, row)| (end, row, None)));
    }
    if matches!(case.join, "RIGHT" | "FULL") {
        pairs.extend(alone(1, &rights).into_iter().map(|(end, row)| (end, None, row)));
    }
    pairs.sort_unstable();
    (pairs, left_late + right_late)
}

fn found(case: &Case) -> (Vec<Pair>, u64) {
    let session = session(case.configuration);
    let sides = ["l", "r"].map(|name| streams::table_named(&session, name, case.windows.delay));
    let [left, right] = ["l", "r"].map(|name| case.windows.sql(name, "ts", None));
    let keys = if case.is_keyed { "a.k = b.k AND " } else { "" };
    let residual = if case.has_residual { " AND a.i < b.i" } else { "" };
    let end = match case.join {
        "FULL" => "COALESCE(a.window_end, b.window_end)",
        "RIGHT" => "b.window_end",
        _ => "a.window_end",
    };
    let condition = format!("{keys}a.window_start = b.window_start AND a.window_end = b.window_end{residual}");
    let sql = match case.join {
        "SEMI" | "ANTI" => format!(
            "SELECT CAST(a.window_end AS TIMESTAMP(3)), CAST(a.f AS BIGINT), CAST(NULL AS BIGINT) FROM {left} AS a
             WHERE {}EXISTS (SELECT 1 FROM {right} AS b WHERE {condition})",
            if case.join == "ANTI" { "NOT " } else { "" }
        ),
        join => format!(
            "SELECT CAST({end} AS TIMESTAMP(3)), CAST(a.f AS BIGINT), CAST(b.f AS BIGINT)
             FROM {left} AS a {join} JOIN {right} AS b ON {condition}"
        ),
    };
    let mut query = session.sql(&sql).unwrap();
    let rows = ([case.left.as_slice(), &case.right], case.batch_rows);
    let mut pairs = streams::run_both(&mut query, sides, rows, case.renews, read);
    pairs.sort_unstable();
    (pairs, query.wait().unwrap().late_rows())
}

fn read(batch: &RecordBatch) -> Vec<Pair> {
    let ends = batch.column(0).as_primitive::<TimestampMillisecondType>();
    let [left, right] = [1, 2].map(|column| batch.column(column).as_primitive::<Int64Type>());
    let value = |column: &arrow::array::Int64Array, row: usize| column.is_valid(row).then(|| column.value(row));
    (0..batch.num_rows()).map(|row| (ends.value(row), value(left, row), value(right, row))).collect()
}
