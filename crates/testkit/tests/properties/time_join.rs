//! Joins of rows that are near each other in time, with the nearest row, and with the version of a time, against their definition: any two streams, bounds, kind of join and condition;
//! interpreted and compiled, on one worker and two, in blocks of any size, from snapshots of any moment.
//!
//! `PELTON_PROPERTY_CASES` sets how many random pairs of streams are tried.

use arrow::array::{Array, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use pelton_testkit::script::engine::session;
use pelton_testkit::script::run::Configuration;
use pelton_testkit::windows::Row;
use proptest::prelude::*;

use crate::streams;

fn config() -> ProptestConfig {
    let cases = std::env::var("PELTON_PROPERTY_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64);
    ProptestConfig { cases, max_shrink_iters: 500, ..ProptestConfig::with_source_file("time_join") }
}

/// Which times match.
#[derive(Debug, Clone, Copy)]
enum Time {
    /// The left time less the right time, in milliseconds, is one of these.
    Between(i64, i64),
    /// The nearest right row before the left row, or after it.
    Nearest { is_backward: bool, is_strict: bool },
}

/// Two streams and how they are joined.
#[derive(Debug, Clone)]
struct Case {
    left: Vec<Row>,
    right: Vec<Row>,
    /// What the watermarks of both trail their largest times by, in milliseconds.
    delays: [i64; 2],
    time: Time,
    /// `INNER`, `LEFT`, `RIGHT` or `FULL`; `SEMI` for EXISTS, and `ANTI` for NOT EXISTS.
    join: &'static str,
    is_keyed: bool,
    /// Whether `l.i < r.i` must be true as well, or of versions `l.i = r.i`.
    has_residual: bool,
    /// Whether the latest right row before a left row is the version of its time: FOR SYSTEM_TIME AS OF.
    is_version: bool,
    configuration: Configuration,
    /// Rows pushed at a time.
    batch_rows: usize,
    renews: bool,
}

/// The numbers of the rows of both sides, which are in the column `f`.
type Pair = (Option<i64>, Option<i64>);

fn cases() -> impl Strategy<Value = Case> {
    let between = (-60i64..60, 0i64..80, prop::sample::select(vec!["INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"]));
    let between = between.prop_map(|(lower, length, join)| (Time::Between(lower, lower + length), join));
    let nearest = (any::<bool>(), any::<bool>(), prop::sample::select(vec!["INNER", "LEFT"]));
    let nearest = nearest.prop_map(|(is_backward, is_strict, join)| (Time::Nearest { is_backward, is_strict }, join));
    let how = (prop_oneof![between, nearest], prop::bool::weighted(0.8), any::<bool>(), any::<bool>(), any::<bool>());
    let delays = [0i64..40, 0i64..40];
    let rows = (streams::numbered_rows(), streams::numbered_rows());
    (rows, delays, how, streams::configurations(), 10usize..200).prop_map(
        |((left, mut right), delays, how, configuration, batch_rows)| {
            let ((time, join), is_keyed, has_residual, is_version, renews) = how;
            let is_version =
                is_version && is_keyed && matches!(time, Time::Nearest { is_backward: true, is_strict: false });
            if is_version {
                // The PRIMARY KEY is never NULL.
                right.iter_mut().for_each(|row| row.key = row.key.or(Some(0)));
            }
            let configuration = configuration.in_turn(batch_rows);
            Case {
                left,
                right,
                delays,
                time,
                join,
                is_keyed,
                has_residual,
                is_version,
                configuration,
                batch_rows,
                renews,
            }
        },
    )
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn rows_are_joined_by_their_times_by_definition(case in cases()) {
        prop_assert_eq!(found(&case), expected(&case));
    }
}

/// The rows that are not before the watermark that those before them have reached, and how many are.
fn in_time(rows: &[Row], delay: i64) -> (Vec<&Row>, u64) {
    let mut watermark = i64::MIN;
    let is_in_time = |row: &&Row| {
        let is_in_time = row.time >= watermark;
        watermark = watermark.max(row.time - delay);
        is_in_time
    };
    let in_time: Vec<&Row> = rows.iter().filter(is_in_time).collect();
    let late = (rows.len() - in_time.len()) as u64;
    (in_time, late)
}

fn number(row: &Row) -> Option<i64> {
    row.float.map(|float| float as i64)
}

impl Case {
    /// The rows of the right side that a row of the left side is paired with.
    fn matches<'r>(&self, left: &Row, rights: &[&'r Row]) -> Vec<&'r Row> {
        let is_equal = |right: &&&Row| !self.is_keyed || left.key.is_some() && left.key == right.key;
        let equal = rights.iter().filter(is_equal).copied();
        let meets = |right: &&Row| {
            let integers = left.integer.zip(right.integer);
            let is_met = |(left, right)| if self.is_version { left == right } else { left < right };
            !self.has_residual || integers.is_some_and(is_met)
        };
        match self.time {
            Time::Between(lower, upper) => {
                let near = equal.filter(|right| (lower..=upper).contains(&(left.time - right.time)));
                near.filter(meets).collect()
            }
            Time::Nearest { is_backward, is_strict } => {
                let distance = |right: &Row| if is_backward { left.time - right.time } else { right.time - left.time };
                let on_side: Vec<&Row> = equal.filter(|right| distance(right) >= i64::from(is_strict)).collect();
                // Of rows of one time the last that came.
                let nearest = on_side.into_iter().rev().min_by_key(|right| distance(right));
                nearest.into_iter().filter(meets).collect()
            }
        }
    }

    fn condition(&self) -> String {
        let keys = if self.is_keyed { "a.k = b.k AND " } else { "" };
        let residual = if self.has_residual { " AND a.i < b.i" } else { "" };
        let time = match self.time {
            Time::Between(lower, upper) => {
                let length = |millis: i64| {
                    format!("INTERVAL '{}0.{:03}' SECOND", if millis < 0 { "-" } else { "" }, millis.abs())
                };
                format!("a.ts BETWEEN b.ts + {} AND b.ts + {}", length(lower), length(upper))
            }
            Time::Nearest { is_backward, is_strict } => {
                let comparison = if is_backward { ">" } else { "<" };
                format!("a.ts {comparison}{} b.ts", if is_strict { "" } else { "=" })
            }
        };
        format!("{keys}{time}{residual}")
    }

    fn sql(&self) -> String {
        if self.is_version {
            let residual = if self.has_residual { " AND a.i = b.i" } else { "" };
            return format!(
                "SELECT CAST(a.f AS BIGINT), CAST(b.f AS BIGINT)
                 FROM l AS a {} JOIN r FOR SYSTEM_TIME AS OF a.ts AS b ON a.k = b.k{residual}",
                self.join
            );
        }
        let condition = self.condition();
        let pair = "SELECT CAST(a.f AS BIGINT), CAST(b.f AS BIGINT) FROM l AS a";
        match (self.time, self.join) {
            (Time::Nearest { .. }, "INNER") => format!("{pair} ASOF JOIN r AS b ON {condition}"),
            (Time::Nearest { .. }, join) => format!("{pair} ASOF {join} JOIN r AS b ON {condition}"),
            (Time::Between(..), join @ ("SEMI" | "ANTI")) => format!(
                "SELECT CAST(a.f AS BIGINT), CAST(NULL AS BIGINT) FROM l AS a
                 WHERE {}EXISTS (SELECT 1 FROM r AS b WHERE {condition})",
                if join == "ANTI" { "NOT " } else { "" }
            ),
            (Time::Between(..), join) => format!("{pair} {join} JOIN r AS b ON {condition}"),
        }
    }
}

fn expected(case: &Case) -> (Vec<Pair>, u64) {
    let (lefts, left_late) = in_time(&case.left, case.delays[0]);
    let (rights, right_late) = in_time(&case.right, case.delays[1]);
    let (mut pairs, mut matched) = (Vec::new(), Vec::new());
    for left in &lefts {
        let matches = case.matches(left, &rights);
        matched.extend(matches.iter().map(|right| number(right)));
        match case.join {
            "SEMI" | "ANTI" if matches.is_empty() != (case.join == "ANTI") => {}
            "SEMI" | "ANTI" => pairs.push((number(left), None)),
            "LEFT" | "FULL" if matches.is_empty() => pairs.push((number(left), None)),
            _ => pairs.extend(matches.iter().map(|right| (number(left), number(right)))),
        }
    }
    if matches!(case.join, "RIGHT" | "FULL") {
        let unmatched = rights.iter().map(|right| number(right)).filter(|right| !matched.contains(right));
        pairs.extend(unmatched.map(|right| (None, right)));
    }
    pairs.sort_unstable();
    (pairs, left_late + right_late)
}

fn found(case: &Case) -> (Vec<Pair>, u64) {
    let session = session(case.configuration);
    let [left, right] = case.delays;
    let key = if case.is_version { ", PRIMARY KEY (k) NOT ENFORCED" } else { "" };
    let sides =
        [streams::table_named(&session, "l", left), streams::table_with(&session, "r", ("TIMESTAMP(3)", key), right)];
    let mut query = session.sql(&case.sql()).unwrap();
    let rows = ([case.left.as_slice(), &case.right], case.batch_rows);
    let mut pairs = streams::run_both(&mut query, sides, rows, case.renews, read);
    pairs.sort_unstable();
    (pairs, query.wait().unwrap().late_rows())
}

fn read(batch: &RecordBatch) -> Vec<Pair> {
    let [left, right] = [0, 1].map(|column| batch.column(column).as_primitive::<Int64Type>());
    let value = |column: &Int64Array, row: usize| column.is_valid(row).then(|| column.value(row));
    (0..batch.num_rows()).map(|row| (value(left, row), value(right, row))).collect()
}
