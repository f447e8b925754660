//! Joins of rows in the same window against their definition: any two streams, windows, time zone, kind of join and condition; rows, parts of a UNION ALL, rows
//! that an outer join has put together, and results of other windows; interpreted and compiled, on one worker and two, in blocks of any size, from snapshots of any
//! moment.
//!
//! `PELTON_PROPERTY_CASES` sets how many random pairs of streams are tried.

use std::collections::{BTreeMap, BTreeSet};

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

/// Lengths in milliseconds that divide half an hour: windows of them are the same by the clocks of a time zone.
const DIVISORS: [i64; 14] = [1, 2, 3, 5, 8, 9, 10, 12, 20, 25, 50, 100, 150, 200];

/// Time zones, and what their clocks are ahead of UTC by in the first days of 1970, in milliseconds.
const ZONES: [(&str, i64); 3] = [("UTC", 0), ("Asia/Kolkata", 19_800_000), ("America/New_York", -18_000_000)];

/// What is joined. All shapes but `Rows` have a column `e`, which is a bound of a window, though not of the window that the row is joined in, or not in all rows. It is
/// compared as well: with `e` of the right side where this has one, else with the end of the right side's window.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    /// Rows.
    Rows,
    /// On the left side, each row once for each row of the left side in the same window that has the same key and a larger `i`, with the end of its window; once with NULL
    /// where there is none.
    Padded,
    /// On the left side, a UNION ALL of the rows whose `i` is not negative, with the end of their window, and the others, with its start.
    Union,
    /// The least `i` and `f` of each key in smaller windows of this length, and the ends of these.
    Results { size: i64 },
}

/// Two streams and how they are joined.
#[derive(Debug, Clone)]
struct Case {
    left: Vec<Row>,
    right: Vec<Row>,
    shape: Shape,
    /// Of both sides, whose watermarks trail alike.
    windows: Windows,
    /// By whose clocks, and how far these are ahead.
    zone: (&'static str, i64),
    /// Whether the end of a window is read from `window_time`.
    reads_time: bool,
    /// `INNER`, `LEFT`, `RIGHT` or `FULL`; `SEMI` for EXISTS, and `ANTI` for NOT EXISTS.
    join: &'static str,
    is_keyed: bool,
    /// Whether `l.i < r.i` must be true as well.
    has_residual: bool,
    configuration: Configuration,
    /// Rows pushed at a time.
    batch_rows: usize,
    renews: bool,
    /// Whether pairs leave before their window ends.
    reports_early: bool,
}

/// A window, as start and end, a row that counts in it, and its `e`.
type Windowed = ((i64, i64), Row, Option<i64>);

/// Both sides of what leaves, and the end of the window: the numbers of rows, which are in the column `f`.
type Pair = (i64, Option<i64>, Option<i64>);

/// The largest of the divisors that is not larger.
fn divisor(length: i64) -> i64 {
    DIVISORS.into_iter().filter(|divisor| *divisor <= length).max().unwrap_or(1)
}

fn cases() -> impl Strategy<Value = Case> {
    let kinds = prop_oneof![
        2 => (1i64..200).prop_map(|size| Kind::Tumble { size }),
        1 => (1i64..12, 1i64..60).prop_map(|(slide, size)| Kind::Hop { slide, size }),
        1 => (1i64..12, 1i64..9).prop_map(|(step, steps)| Kind::Cumulate { step, steps }),
    ];
    let shapes = prop_oneof![
        4 => Just(Shape::Rows),
        1 => Just(Shape::Padded),
        1 => Just(Shape::Union),
        1 => (1i64..30).prop_map(|size| Shape::Results { size }),
    ];
    let zones = prop_oneof![3 => Just(0usize), 1 => Just(1), 1 => Just(2)].prop_map(|zone| ZONES[zone]);
    let sides = (shapes, kinds, 0i64..40, zones, any::<bool>()).prop_map(|(shape, kind, delay, zone, reads_time)| {
        let (mut shape, mut kind) = (shape, kind);
        if zone.1 != 0 {
            kind = match kind {
                Kind::Hop { slide, size } => Kind::Hop { slide: divisor(slide), size },
                Kind::Cumulate { step, steps } => Kind::Tumble { size: divisor(step * steps) },
                Kind::Tumble { size } => Kind::Tumble { size: divisor(size) },
                other => other,
            };
        }
        match (&mut shape, kind) {
            (Shape::Results { size }, _) => *size = divisor(*size),
            (_, Kind::Tumble { .. }) if zone.1 == 0 => {}
            // The end of a row's window is known to the join alone.
            (shape, _) => *shape = Shape::Rows,
        }
        (shape, Windows { kind, offset: 0, delay, lateness: 0 }, zone, reads_time)
    });
    let join = prop::sample::select(vec!["INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"]);
    let how = (join, prop::bool::weighted(0.8), any::<bool>(), any::<bool>(), prop::bool::weighted(0.3));
    (streams::numbered_rows(), streams::numbered_rows(), sides, how, streams::configurations(), 10usize..200).prop_map(
        |(left, right, sides, (join, is_keyed, has_residual, renews, reports_early), configuration, batch_rows)| {
            let (shape, windows, zone, reads_time) = sides;
            let reports_early =
                reports_early && !matches!(join, "SEMI" | "ANTI") && !matches!(shape, Shape::Results { .. });
            let configuration = configuration.in_turn(batch_rows);
            Case {
                left,
                right,
                shape,
                windows,
                zone,
                reads_time,
                join,
                is_keyed,
                has_residual,
                configuration,
                batch_rows,
                renews,
                reports_early,
            }
        },
    )
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn rows_in_the_same_window_are_joined_by_definition(case in cases()) {
        prop_assert_eq!(found(&case), expected(&case));
    }
}

/// The rows of a side with the windows that they count in, those that end after the watermark before them; and how many are late for all of theirs.
fn windowed(windows: &Windows, rows: &[Row]) -> (Vec<Windowed>, u64) {
    let (mut watermark, mut late) = (i64::MIN, 0);
    let mut windowed = Vec::new();
    for row in rows {
        let holding = windows.holding(row.time);
        let counting: Vec<(i64, i64)> = holding.iter().copied().filter(|(_, end)| *end > watermark).collect();
        late += u64::from(!holding.is_empty() && counting.is_empty());
        windowed.extend(counting.into_iter().map(|window| (window, row.clone(), None)));
        watermark = watermark.max(row.time - windows.delay);
    }
    (windowed, late)
}

fn is_equal(left: &Row, right: &Row) -> bool {
    left.key.is_some() && left.key == right.key
}

fn is_less(left: &Row, right: &Row) -> bool {
    left.integer.zip(right.integer).is_some_and(|(left, right)| left < right)
}

/// The results of smaller windows in these, and how many rows are late.
fn results(windows: &Windows, size: i64, rows: &[Row]) -> (Vec<Windowed>, u64) {
    let (rows, late) = windowed(&Windows { kind: Kind::Tumble { size }, ..*windows }, rows);
    let mut groups: BTreeMap<(i64, Option<i64>), Vec<Row>> = BTreeMap::new();
    for ((_, end), row, _) in rows {
        groups.entry((end, row.key)).or_default().push(row);
    }
    let result = |((end, key), rows): ((i64, Option<i64>), Vec<Row>)| {
        let integer = rows.iter().filter_map(|row| row.integer).min();
        let row = Row { time: end - 1, key, integer, float: rows[0].float, text: None };
        let windows = windows.holding(row.time).into_iter();
        windows.map(|window| (window, row.clone(), Some(end))).collect::<Vec<_>>()
    };
    (groups.into_iter().flat_map(result).collect(), late)
}

impl Case {
    /// What the left side has.
    fn lefts(&self) -> (Vec<Windowed>, u64) {
        let (rows, late) = match self.shape {
            Shape::Results { size } => return results(&self.windows, size, &self.left),
            _ => windowed(&self.windows, &self.left),
        };
        let with_ends = rows.iter().flat_map(|(window, row, _)| {
            let ends = match self.shape {
                Shape::Union if row.integer.is_some_and(|integer| integer >= 0) => vec![Some(window.1)],
                Shape::Union => vec![Some(window.0)],
                Shape::Padded => {
                    let others = rows
                        .iter()
                        .filter(|(of, other, _)| of == window && is_equal(row, other) && is_less(row, other));
                    let ends: Vec<Option<i64>> = others.map(|(of, ..)| Some(of.1)).collect();
                    if ends.is_empty() { vec![None] } else { ends }
                }
                Shape::Rows | Shape::Results { .. } => vec![None],
            };
            ends.into_iter().map(|end| (*window, row.clone(), end))
        });
        (with_ends.collect(), late)
    }

    fn rights(&self) -> (Vec<Windowed>, u64) {
        match self.shape {
            Shape::Results { size } => results(&self.windows, size, &self.right),
            _ => windowed(&self.windows, &self.right),
        }
    }

    fn is_match(&self, (window, left, end): &Windowed, (of, right, other_end): &Windowed) -> bool {
        let is_same_end = match self.shape {
            Shape::Rows => true,
            Shape::Padded | Shape::Union => *end == Some(of.1),
            Shape::Results { .. } => end == other_end,
        };
        of == window
            && is_same_end
            && (!self.is_keyed || is_equal(left, right))
            && (!self.has_residual || is_less(left, right))
    }

    /// Views that the query reads.
    fn views(&self) -> String {
        let Shape::Results { size } = self.shape else { return String::new() };
        let view = |name: &str| {
            let smaller = Windows { kind: Kind::Tumble { size }, ..self.windows }.sql(name, "ts", None);
            format!(
                "CREATE VIEW {name}s AS SELECT k, MIN(i) AS i, MIN(f) AS f, window_end AS e, window_time AS wt
                 FROM {smaller} GROUP BY k, window_start, window_end, window_time;\n"
            )
        };
        ["l", "r"].map(view).concat()
    }

    /// Both sides in SQL, and what is compared beside their windows.
    fn sides(&self) -> ([String; 2], &'static str) {
        let [left, right] = ["l", "r"].map(|name| self.windows.sql(name, "ts", None));
        match self.shape {
            Shape::Rows => ([left, right], ""),
            Shape::Results { .. } => (["ls", "rs"].map(|name| self.windows.sql(name, "wt", None)), " AND a.e = b.e"),
            Shape::Union => {
                let left = format!(
                    "(SELECT *, window_end AS e FROM {left} WHERE i >= 0
                      UNION ALL SELECT *, window_start AS e FROM {left} WHERE i < 0 OR i IS NULL)"
                );
                ([left, right], " AND a.e = b.window_end")
            }
            Shape::Padded => {
                let left = format!(
                    "(SELECT x.*, y.window_end AS e FROM {left} AS x LEFT JOIN {left} AS y
                      ON x.k = y.k AND x.window_start = y.window_start AND x.window_end = y.window_end AND x.i < y.i)"
                );
                ([left, right], " AND a.e = b.window_end")
            }
        }
    }

    fn sql(&self) -> String {
        let ([left, right], end_of_other) = self.sides();
        let keys = if self.is_keyed { "a.k = b.k AND " } else { "" };
        let residual = if self.has_residual { " AND a.i < b.i" } else { "" };
        let end = if self.reads_time { "window_time" } else { "window_end" };
        let end = match self.join {
            "FULL" => format!("COALESCE(a.{end}, b.{end})"),
            "RIGHT" => format!("b.{end}"),
            _ => format!("a.{end}"),
        };
        let condition =
            format!("{keys}a.window_start = b.window_start AND a.window_end = b.window_end{end_of_other}{residual}");
        let query = match self.join {
            "SEMI" | "ANTI" => format!(
                "SELECT CAST({end} AS TIMESTAMP(3)), CAST(a.f AS BIGINT), CAST(NULL AS BIGINT) FROM {left} AS a
                 WHERE {}EXISTS (SELECT 1 FROM {right} AS b WHERE {condition})",
                if self.join == "ANTI" { "NOT " } else { "" }
            ),
            join => format!(
                "SELECT CAST({end} AS TIMESTAMP(3)), CAST(a.f AS BIGINT), CAST(b.f AS BIGINT)
                 FROM {left} AS a {join} JOIN {right} AS b ON {condition}"
            ),
        };
        format!("{}{query}", self.views())
    }
}

fn expected(case: &Case) -> (Vec<Pair>, Option<u64>) {
    let number = |row: &Row| row.float.map(|float| float as i64);
    let ((lefts, left_late), (rights, right_late)) = (case.lefts(), case.rights());
    let (mut pairs, mut with_match) = (Vec::new(), [BTreeSet::new(), BTreeSet::new()]);
    for (at, left) in lefts.iter().enumerate() {
        for (other, right) in rights.iter().enumerate().filter(|(_, right)| case.is_match(left, right)) {
            pairs.push((left.0.1, number(&left.1), number(&right.1)));
            with_match[0].insert(at);
            with_match[1].insert(other);
        }
    }
    let alone = |side: usize, rows: &[Windowed]| {
        let alone = rows.iter().enumerate().filter(|(at, _)| !with_match[side].contains(at));
        alone.map(|(_, (window, row, _))| (window.1, number(row))).collect::<Vec<_>>()
    };
    let has_pairs = !matches!(case.join, "SEMI" | "ANTI");
    pairs.retain(|_| has_pairs);
    if case.join == "SEMI" {
        let matched = with_match[0].iter().map(|at| &lefts[*at]);
        pairs.extend(matched.map(|(window, row, _)| (window.1, number(row), None)));
    }
    if matches!(case.join, "LEFT" | "FULL" | "ANTI") {
        pairs.extend(alone(0, &lefts).into_iter().map(|(end, row)| (end, row, None)));
    }
    if matches!(case.join, "RIGHT" | "FULL") {
        pairs.extend(alone(1, &rights).into_iter().map(|(end, row)| (end, None, row)));
    }
    pairs.sort_unstable();
    (pairs, late_rows(case, left_late + right_late))
}

/// A row is late for each operator, and each part of a UNION ALL, that it comes to: they are not counted where there are several.
fn late_rows(case: &Case, late_rows: u64) -> Option<u64> {
    matches!(case.shape, Shape::Rows | Shape::Results { .. }).then_some(late_rows)
}

fn found(case: &Case) -> (Vec<Pair>, Option<u64>) {
    let session = session(case.configuration);
    let (zone, ahead) = case.zone;
    session.set("table.local-time-zone", zone).unwrap();
    if case.reports_early {
        session.set("table.exec.emit.early-fire.enabled", "true").unwrap();
        session.set("table.exec.emit.early-fire.delay", "1 ms").unwrap();
    }
    let times = if ahead == 0 { "TIMESTAMP(3)" } else { "TIMESTAMP_LTZ(3)" };
    let sides = ["l", "r"].map(|name| streams::table_with(&session, name, (times, ""), case.windows.delay));
    let mut query = session.sql(&case.sql()).unwrap();
    let rows = ([case.left.as_slice(), &case.right], case.batch_rows);
    let mut pairs = streams::run_both(&mut query, sides, rows, case.renews, read);
    // What clocks show of the window's end, or of its last millisecond.
    let shown = ahead - i64::from(case.reads_time);
    pairs.iter_mut().for_each(|(end, ..)| *end -= shown);
    pairs.sort_unstable();
    (pairs, late_rows(case, query.wait().unwrap().late_rows()))
}

fn read(batch: &RecordBatch) -> Vec<Pair> {
    let ends = batch.column(0).as_primitive::<TimestampMillisecondType>();
    let [left, right] = [1, 2].map(|column| batch.column(column).as_primitive::<Int64Type>());
    let value = |column: &arrow::array::Int64Array, row: usize| column.is_valid(row).then(|| column.value(row));
    (0..batch.num_rows()).map(|row| (ends.value(row), value(left, row), value(right, row))).collect()
}
