//! What aggregate functions mean: each is computed from all rows of its group.

use std::collections::{BTreeMap, BTreeSet};

use super::Row;
use crate::rows::value_text;

/// An aggregate function of a row's column.
#[derive(Debug, Clone, Copy)]
pub struct Aggregate {
    /// In SQL.
    pub sql: &'static str,
    /// Its value over the rows of a group, as rows are written down.
    pub value: fn(&[&Row]) -> String,
}

impl Aggregate {
    /// The same OVER rows: of what is computed from a call, the call is.
    pub fn over(&self, clause: &str) -> String {
        let Some(inner) = self.sql.strip_prefix("ROUND(") else { return format!("{} {clause}", self.sql) };
        let mut open = 0;
        let is_end = |(_, letter): &(usize, char)| {
            open += i32::from(*letter == '(') - i32::from(*letter == ')');
            *letter == ')' && open == 0
        };
        let (end, _) = inner.char_indices().find(is_end).expect("what is rounded is computed from a call");
        let (call, rest) = inner.split_at(end + 1);
        format!("ROUND({call} {clause}{rest}")
    }
}

fn word(value: Option<&String>) -> String {
    value.cloned().unwrap_or_else(|| "NULL".to_string())
}

/// Rows whose float is greater than zero, in the total order, in which NaN is greater than all else.
fn positive<'r>(rows: &'r [&'r Row]) -> impl DoubleEndedIterator<Item = &'r Row> + 'r {
    rows.iter().copied().filter(|row| row.float.is_some_and(|float| float.is_nan() || float > 0.0))
}

fn floats<'r>(rows: &'r [&Row]) -> impl Iterator<Item = f64> + 'r {
    rows.iter().filter_map(|row| row.float)
}

/// Integers of the rows, in their order.
fn integers<'r>(rows: &'r [&Row]) -> impl DoubleEndedIterator<Item = i64> + 'r {
    rows.iter().filter_map(|row| row.integer)
}

fn texts<'r>(rows: &'r [&Row]) -> impl DoubleEndedIterator<Item = &'r String> + 'r {
    rows.iter().filter_map(|row| row.text.as_ref())
}

fn distinct<T: Ord>(values: impl Iterator<Item = T>) -> BTreeSet<T> {
    values.collect()
}

/// Each float once, NaN among them.
fn distinct_floats(rows: &[&Row]) -> Vec<f64> {
    distinct(floats(rows).map(f64::to_bits)).into_iter().map(f64::from_bits).collect()
}

/// Each value once, where it came first.
fn firsts<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    values.fold(Vec::new(), |mut firsts, value| {
        if !firsts.contains(&value) {
            firsts.push(value);
        }
        firsts
    })
}

/// A value between two where the fraction points between them.
fn continuous(values: impl Iterator<Item = f64>, fraction: f64) -> Option<f64> {
    between(values, |last| last * fraction)
}

/// The same, counted from the largest.
fn continuous_descending(values: impl Iterator<Item = f64>, fraction: f64) -> Option<f64> {
    between(values, |last| last - last * fraction)
}

/// The value at a rank, or between the two next to it, given the rank of the last.
fn between(values: impl Iterator<Item = f64>, rank: impl Fn(f64) -> f64) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let rank = rank(values.len().checked_sub(1)? as f64);
    let (low, high) = (values[rank.floor() as usize], values[rank.ceil() as usize]);
    // Equal ones may be infinite.
    Some(if low.total_cmp(&high).is_eq() { low } else { low + (high - low) * (rank - rank.floor()) })
}

/// The first value whose share of all up to it reaches the fraction.
fn discrete<T: Ord>(values: impl Iterator<Item = T>, fraction: f64) -> Option<T> {
    let mut values: Vec<T> = values.collect();
    values.sort();
    let count = values.len() as f64;
    let place = (1..=values.len()).find(|&place| place as f64 / count >= fraction)?;
    values.into_iter().nth(place - 1)
}

/// The value that there is most of, the smallest of several.
fn mode<T: Ord>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    let most = counts.values().max().copied()?;
    counts.into_iter().find(|(_, count)| *count == most).map(|(value, _)| value)
}

fn spread(rows: &[&Row]) -> Option<i64> {
    let values: BTreeSet<i64> = positive(rows).filter_map(|row| row.integer).collect();
    Some(values.last()? - values.first()?)
}

/// An array, or NULL where it would have no element.
fn array(elements: Vec<String>) -> String {
    if elements.is_empty() { "NULL".to_string() } else { format!("[{}]", elements.join(", ")) }
}

fn joined(values: Vec<&String>, delimiter: &str) -> String {
    let values: Vec<&str> = values.into_iter().map(String::as_str).collect();
    if values.is_empty() { "NULL".to_string() } else { values.join(delimiter) }
}

fn sum(rows: &[&Row]) -> Option<f64> {
    floats(rows).reduce(|sum, value| sum + value)
}

/// Of a column that has small integers.
fn small<'r>(rows: &'r [&Row]) -> impl Iterator<Item = i64> + 'r {
    integers(rows).map(|integer| integer % 100)
}

/// From exact sums; `lacking` as of [`variance`].
fn integer_variance(values: impl Iterator<Item = i64>, lacking: i64) -> Option<f64> {
    let (count, sum, squares) = values.fold((0, 0, 0), |(count, sum, squares): (i64, i64, i64), value| {
        (count + 1, sum + value, squares + value * value)
    });
    (count > lacking).then(|| (count * squares - sum * sum) as f64 / (count * (count - lacking)) as f64)
}

/// Without its fraction.
fn whole(value: f64) -> i32 {
    value as i32
}

/// In two passes; `lacking` is 1 of a sample, and 0 of a population.
fn variance(values: impl Iterator<Item = f64>, lacking: usize) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    if values.len() <= lacking { None } else { Some(squares / (values.len() - lacking) as f64) }
}

/// Of pairs that both have, the sums of the products of what they deviate from their means by: of the first with itself, of both, of the second with
/// itself.
fn deviations(rows: &[&Row], second: fn(&Row) -> Option<f64>) -> Option<(f64, [f64; 3])> {
    let first = |row: &Row| Some((row.integer? % 100) as f64);
    let pairs: Vec<(f64, f64)> = rows.iter().filter_map(|row| first(row).zip(second(row))).collect();
    let count = pairs.len() as f64;
    let means =
        (pairs.iter().map(|pair| pair.0).sum::<f64>() / count, pairs.iter().map(|pair| pair.1).sum::<f64>() / count);
    let sum = |product: fn(f64, f64) -> f64| pairs.iter().map(|(a, b)| product(a - means.0, b - means.1)).sum::<f64>();
    (!pairs.is_empty()).then(|| (count, [sum(|a, _| a * a), sum(|a, b| a * b), sum(|_, b| b * b)]))
}

/// Of a column that has few integers.
fn few(row: &Row) -> Option<f64> {
    row.integer.map(|integer| (integer % 7) as f64)
}

fn text_length(row: &Row) -> Option<f64> {
    row.text.as_ref().map(|text| text.chars().count() as f64)
}

/// The rows in an order; equal ones stay in theirs.
fn sorted<'r, K: Ord>(rows: &[&'r Row], key: impl Fn(&Row) -> K) -> Vec<&'r Row> {
    let mut sorted = rows.to_vec();
    sorted.sort_by_key(|row| key(row));
    sorted
}

/// To six digits. What is added keeps simple fractions such as 127/128 off the middle between two results, where the last bit of the value decides.
fn rounded(value: f64) -> f64 {
    ((value + 2.71e-7) * 1e6).round() / 1e6
}

/// Without its fraction, as integers are divided.
fn integer_mean(sum: i64, count: usize) -> Option<i64> {
    if count == 0 { None } else { Some(sum / count as i64) }
}

fn mean(sum: f64, count: usize) -> Option<f64> {
    if count == 0 { None } else { Some(sum / count as f64) }
}

/// What the engine computes over columns `i` (integer), `f` (float) and `s` (text), those that can be subtracted first.
pub const AGGREGATES: &[Aggregate] = &[
    Aggregate { sql: "COUNT(*)", value: |rows| rows.len().to_string() },
    Aggregate { sql: "COUNT(i)", value: |rows| rows.iter().filter(|row| row.integer.is_some()).count().to_string() },
    Aggregate {
        sql: "SUM(i)",
        value: |rows| value_text(rows.iter().filter_map(|row| row.integer).reduce(|sum, value| sum + value)),
    },
    Aggregate {
        sql: "AVG(i)",
        value: |rows| {
            let values: Vec<i64> = rows.iter().filter_map(|row| row.integer).collect();
            value_text(integer_mean(values.iter().sum(), values.len()))
        },
    },
    Aggregate {
        sql: "SUM(i) FILTER (WHERE f > 0)",
        value: |rows| value_text(positive(rows).filter_map(|row| row.integer).reduce(|sum, value| sum + value)),
    },
    Aggregate { sql: "COUNT(s)", value: |rows| rows.iter().filter(|row| row.text.is_some()).count().to_string() },
    Aggregate {
        sql: "OWN_TOTAL(i, k)",
        value: |rows| {
            let products = rows.iter().map(|row| row.integer.unwrap_or(1).wrapping_mul(row.key.unwrap_or(1)));
            products.fold(0, i64::wrapping_add).to_string()
        },
    },
    Aggregate { sql: "BIT_XOR(i)", value: |rows| value_text(integers(rows).reduce(|bits, value| bits ^ value)) },
    Aggregate { sql: "BIT_AND(i)", value: |rows| value_text(integers(rows).reduce(|bits, value| bits & value)) },
    Aggregate {
        sql: "BIT_OR(i) FILTER (WHERE f > 0)",
        value: |rows| value_text(positive(rows).filter_map(|row| row.integer).reduce(|bits, value| bits | value)),
    },
    Aggregate { sql: "BOOL_AND(i > 0)", value: |rows| value_text(integers(rows).map(|value| value > 0).min()) },
    Aggregate { sql: "BOOL_OR(i > 0)", value: |rows| value_text(integers(rows).map(|value| value > 0).max()) },
    Aggregate {
        sql: "EVERY(i > 0) FILTER (WHERE f > 0)",
        value: |rows| value_text(positive(rows).filter_map(|row| row.integer).map(|value| value > 0).min()),
    },
    Aggregate {
        sql: "REGR_COUNT(i, f)",
        value: |rows| rows.iter().filter(|row| row.integer.is_some() && row.float.is_some()).count().to_string(),
    },
    Aggregate {
        sql: "ROUND(COVAR_POP(MOD(i, 100), CHAR_LENGTH(s)) + 0.000000271, 6) + 1",
        value: |rows| {
            value_text(deviations(rows, text_length).map(|(count, [_, both, _])| rounded(both / count) + 1.0))
        },
    },
    Aggregate {
        sql: "ROUND(CORR(MOD(i, 100), MOD(i, 7)) + 0.000000271, 6) + 1",
        value: |rows| {
            let sums = deviations(rows, few).filter(|(_, [y, _, x])| *y != 0.0 && *x != 0.0);
            value_text(sums.map(|(_, [y, both, x])| rounded(both / (y * x).sqrt()) + 1.0))
        },
    },
    Aggregate {
        sql: "ROUND(REGR_SLOPE(MOD(i, 100), MOD(i, 7)) + 0.000000271, 6) + 1",
        value: |rows| {
            let sums = deviations(rows, few).filter(|(_, [_, _, x])| *x != 0.0);
            value_text(sums.map(|(_, [_, both, x])| rounded(both / x) + 1.0))
        },
    },
    Aggregate {
        sql: "ARRAY_AGG(i ORDER BY MOD(i, 10) DESC, s)",
        value: |rows| {
            let rows = sorted(rows, |row| (std::cmp::Reverse(row.integer.map(|value| value % 10)), row.text.clone()));
            array(rows.iter().map(|row| value_text(row.integer)).collect())
        },
    },
    Aggregate {
        sql: "LISTAGG(s, '+') WITHIN GROUP (ORDER BY i)",
        value: |rows| joined(texts(&sorted(rows, |row| row.integer)).collect(), "+"),
    },
    Aggregate {
        sql: "LISTAGG(DISTINCT s ORDER BY s DESC)",
        value: |rows| {
            let texts = distinct(texts(rows));
            joined(texts.into_iter().rev().collect(), ",")
        },
    },
    Aggregate {
        sql: "FIRST_VALUE(i ORDER BY s)",
        value: |rows| value_text(integers(&sorted(rows, |row| row.text.clone())).next()),
    },
    Aggregate {
        sql: "LAST_VALUE(s ORDER BY MOD(i, 10)) FILTER (WHERE f > 0)",
        value: |rows| {
            let rows: Vec<&Row> = positive(rows).collect();
            word(texts(&sorted(&rows, |row| row.integer.map(|value| value % 10))).next_back())
        },
    },
    Aggregate { sql: "MIN(i)", value: |rows| value_text(rows.iter().filter_map(|row| row.integer).min()) },
    Aggregate { sql: "MAX(i)", value: |rows| value_text(rows.iter().filter_map(|row| row.integer).max()) },
    Aggregate { sql: "MIN(f)", value: |rows| value_text(floats(rows).min_by(f64::total_cmp)) },
    Aggregate { sql: "MAX(f)", value: |rows| value_text(floats(rows).max_by(f64::total_cmp)) },
    Aggregate { sql: "COUNT(DISTINCT f)", value: |rows| distinct_floats(rows).len().to_string() },
    Aggregate { sql: "SUM(f)", value: |rows| value_text(sum(rows)) },
    Aggregate {
        sql: "AVG(f)",
        value: |rows| {
            let count = rows.iter().filter(|row| row.float.is_some()).count();
            value_text(sum(rows).and_then(|sum| mean(sum, count)))
        },
    },
    Aggregate { sql: "VAR_POP(MOD(i, 100))", value: |rows| value_text(integer_variance(small(rows), 0).map(whole)) },
    Aggregate {
        sql: "STDDEV_SAMP(MOD(i, 100))",
        value: |rows| value_text(integer_variance(small(rows), 1).map(|variance| whole(variance.sqrt()))),
    },
    Aggregate {
        sql: "ROUND(VAR_POP(CAST(MOD(i, 100) AS DOUBLE)) + 0.000000271, 6)",
        value: |rows| value_text(variance(small(rows).map(|value| value as f64), 0).map(rounded)),
    },
    Aggregate {
        sql: "ROUND(STDDEV_POP(f) / 7000 + 1 + 0.000000271, 6)",
        value: |rows| value_text(variance(floats(rows), 0).map(|variance| rounded(variance.sqrt() / 7e3 + 1.0))),
    },
    Aggregate {
        sql: "ROUND(VAR_SAMP(f) / 7000000000 + 1 + 0.000000271, 6)",
        value: |rows| value_text(variance(floats(rows), 1).map(|variance| rounded(variance / 7e9 + 1.0))),
    },
    Aggregate { sql: "MIN(s)", value: |rows| word(rows.iter().filter_map(|row| row.text.as_ref()).min()) },
    Aggregate { sql: "MAX(s)", value: |rows| word(texts(rows).max()) },
    Aggregate { sql: "FIRST_VALUE(i)", value: |rows| value_text(integers(rows).next()) },
    Aggregate { sql: "FIRST_VALUE(s)", value: |rows| word(texts(rows).next()) },
    Aggregate { sql: "LAST_VALUE(i)", value: |rows| value_text(integers(rows).next_back()) },
    Aggregate {
        sql: "LAST_VALUE(s) FILTER (WHERE f > 0)",
        value: |rows| word(positive(rows).filter_map(|row| row.text.as_ref()).next_back()),
    },
    Aggregate {
        sql: "MEDIAN(i)",
        value: |rows| value_text(continuous(integers(rows).map(|integer| integer as f64), 0.5)),
    },
    Aggregate {
        sql: "PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY f)",
        value: |rows| value_text(continuous(floats(rows), 0.25)),
    },
    Aggregate {
        sql: "PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY f DESC)",
        value: |rows| value_text(continuous_descending(floats(rows), 0.25)),
    },
    Aggregate { sql: "PERCENTILE_DISC(i, 0.7)", value: |rows| value_text(discrete(integers(rows), 0.7)) },
    Aggregate {
        sql: "PERCENTILE_DISC(0.7) WITHIN GROUP (ORDER BY i DESC)",
        value: |rows| value_text(discrete(integers(rows).map(std::cmp::Reverse), 0.7).map(|value| value.0)),
    },
    Aggregate { sql: "PERCENTILE_DISC(s, 0.4)", value: |rows| word(discrete(texts(rows), 0.4)) },
    Aggregate { sql: "MODE(i)", value: |rows| value_text(mode(integers(rows))) },
    Aggregate { sql: "MODE(s)", value: |rows| word(mode(texts(rows))) },
    Aggregate { sql: "ARRAY_AGG(i)", value: |rows| array(rows.iter().map(|row| value_text(row.integer)).collect()) },
    Aggregate {
        sql: "ARRAY_AGG(i) FILTER (WHERE f > 0)",
        value: |rows| array(positive(rows).map(|row| value_text(row.integer)).collect()),
    },
    Aggregate {
        sql: "ARRAY_AGG(DISTINCT s) FILTER (WHERE f > 0)",
        value: |rows| array(firsts(positive(rows).map(|row| word(row.text.as_ref())))),
    },
    Aggregate {
        sql: "ARRAY_AGG(DISTINCT i) IGNORE NULLS",
        value: |rows| array(firsts(integers(rows)).into_iter().map(|integer| integer.to_string()).collect()),
    },
    Aggregate { sql: "LISTAGG(s, '+')", value: |rows| joined(texts(rows).collect(), "+") },
    Aggregate { sql: "LISTAGG(DISTINCT s)", value: |rows| joined(firsts(texts(rows)), ",") },
    Aggregate { sql: "COUNT(DISTINCT i)", value: |rows| distinct(integers(rows)).len().to_string() },
    Aggregate {
        sql: "COUNT(DISTINCT s) FILTER (WHERE i > 0)",
        value: |rows| {
            let passing = rows.iter().filter(|row| row.integer.is_some_and(|integer| integer > 0));
            distinct(passing.filter_map(|row| row.text.as_ref())).len().to_string()
        },
    },
    Aggregate {
        sql: "SUM(DISTINCT i)",
        value: |rows| value_text(distinct(integers(rows)).into_iter().reduce(|sum, value| sum + value)),
    },
    Aggregate {
        sql: "SUM(DISTINCT f)",
        value: |rows| value_text(distinct_floats(rows).into_iter().reduce(|sum, value| sum + value)),
    },
    Aggregate {
        sql: "AVG(DISTINCT MOD(i, 10))",
        value: |rows| {
            let values = distinct(integers(rows).map(|integer| integer % 10));
            value_text(integer_mean(values.iter().sum(), values.len()))
        },
    },
    Aggregate {
        sql: "VAR_POP(DISTINCT MOD(i, 100))",
        value: |rows| value_text(integer_variance(distinct(small(rows)).into_iter(), 0).map(whole)),
    },
    Aggregate {
        sql: "ROUND(STDDEV_SAMP(DISTINCT f) / 7000 + 1 + 0.000000271, 6)",
        value: |rows| {
            let variance = variance(distinct_floats(rows).into_iter(), 1);
            value_text(variance.map(|variance| rounded(variance.sqrt() / 7e3 + 1.0)))
        },
    },
    Aggregate {
        sql: "MEDIAN(DISTINCT MOD(i, 10))",
        value: |rows| {
            let values = distinct(integers(rows).map(|integer| integer % 10));
            value_text(continuous(values.into_iter().map(|integer| integer as f64), 0.5))
        },
    },
    Aggregate {
        sql: "PERCENTILE_DISC(DISTINCT s, 0.4)",
        value: |rows| word(discrete(distinct(texts(rows)).into_iter(), 0.4)),
    },
    Aggregate { sql: "MODE(DISTINCT i)", value: |rows| value_text(integers(rows).min()) },
    // Of so few values the estimate is exact, and integers up to 256 are rounded to nothing else.
    Aggregate {
        sql: "APPROX_COUNT_DISTINCT(MOD(i, 10))",
        value: |rows| distinct(integers(rows).map(|integer| integer % 10)).len().to_string(),
    },
    Aggregate {
        sql: "APPROX_PERCENTILE(MOD(i, 100), 0.7)",
        value: |rows| value_text(discrete(integers(rows).map(|integer| integer % 100), 0.7).map(|value| value as f64)),
    },
    Aggregate { sql: "OWN_SPREAD(i) FILTER (WHERE f > 0)", value: |rows| value_text(spread(rows)) },
    Aggregate {
        sql: "OWN_TRAIL(s)",
        value: |rows| rows.iter().map(|row| format!("{}>", row.text.as_deref().unwrap_or("-"))).collect(),
    },
];
