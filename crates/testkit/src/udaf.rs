//! Aggregate functions of a program's own, one of each kind, so that scripts and random windows have some.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, StringViewArray};
use arrow::datatypes::{DataType, Int64Type};
use pelton::Session;
use pelton::function::AggregateFunction;

/// Registers the functions of this module.
pub fn register(session: &Session) {
    session.register_aggregate(total());
    session.register_aggregate(spread());
    session.register_aggregate(trail());
    session.register_aggregate(refusing());
}

fn integers(array: &ArrayRef) -> impl Iterator<Item = Option<i64>> + '_ {
    array.as_primitive::<Int64Type>().iter()
}

/// `OWN_TOTAL(x, y)`: the sum of `x * y`, which combines and is subtracted; NULLs count as 1.
fn total() -> AggregateFunction<i64> {
    let arguments = vec![DataType::Int64, DataType::Int64];
    AggregateFunction::new(
        "own_total",
        arguments,
        DataType::Int64,
        || 0,
        |total: &mut i64, arguments| {
            let pairs = integers(&arguments[0]).zip(integers(&arguments[1]));
            pairs.for_each(|(x, y)| {
                *total = total.wrapping_add(x.unwrap_or(1).wrapping_mul(y.unwrap_or(1)));
            });
            Ok(())
        },
        |totals| Ok(Arc::new(Int64Array::from_iter_values(totals.iter().map(|total| **total)))),
    )
    .with_combine(|total: &mut i64, other| {
        *total = total.wrapping_add(*other);
        Ok(())
    })
    .with_subtract(|total: &mut i64, other| {
        *total = total.wrapping_sub(*other);
        Ok(())
    })
    .with_snapshot(
        DataType::Int64,
        |totals| Ok(Arc::new(Int64Array::from_iter_values(totals.iter().map(|total| **total)))),
        |saved| Ok(saved.as_primitive::<Int64Type>().values().to_vec()),
    )
}

/// `OWN_SPREAD(x)`: how far the smallest and the largest value are apart, which combines.
fn spread() -> AggregateFunction<Option<(i64, i64)>> {
    let join = |known: Option<(i64, i64)>, (low, high): (i64, i64)| {
        let (known_low, known_high) = known.unwrap_or((low, high));
        Some((known_low.min(low), known_high.max(high)))
    };
    AggregateFunction::new(
        "own_spread",
        vec![DataType::Int64],
        DataType::Int64,
        || None,
        move |spread, arguments| {
            integers(&arguments[0]).flatten().for_each(|value| *spread = join(*spread, (value, value)));
            Ok(())
        },
        |spreads| {
            let values = spreads.iter().map(|spread| spread.map(|(low, high)| high - low));
            Ok(Arc::new(values.collect::<Int64Array>()))
        },
    )
    .with_combine(move |spread, other| {
        *spread = other.map_or(*spread, |other| join(*spread, other));
        Ok(())
    })
    .with_snapshot(
        DataType::Utf8View,
        |spreads| {
            let words = spreads.iter().map(|spread| spread.map(|(low, high)| format!("{low} {high}")));
            Ok(Arc::new(words.collect::<StringViewArray>()))
        },
        |saved| {
            let pair = |words: &str| -> Option<(i64, i64)> {
                let (low, high) = words.split_once(' ')?;
                Some((low.parse().ok()?, high.parse().ok()?))
            };
            let spread = |words: Option<&str>| match words {
                None => Ok(None),
                Some(words) => pair(words).map(Some).ok_or_else(|| format!("'{words}' is no pair of numbers")),
            };
            saved.as_string_view().iter().map(spread).collect()
        },
    )
}

/// `OWN_TRAIL(s)`: strings in the order of their arrival, which needs all rows of a window at once.
fn trail() -> AggregateFunction<String> {
    AggregateFunction::new(
        "own_trail",
        vec![DataType::Utf8View],
        DataType::Utf8View,
        String::new,
        |trail, arguments| {
            for text in arguments[0].as_string_view() {
                trail.push_str(text.unwrap_or("-"));
                trail.push('>');
            }
            Ok(())
        },
        trails,
    )
    .with_snapshot(DataType::Utf8View, trails, |saved| {
        Ok(saved.as_string_view().iter().map(|trail| trail.unwrap_or_default().to_string()).collect())
    })
}

fn trails(trails: &[&String]) -> Result<ArrayRef, String> {
    Ok(Arc::new(StringViewArray::from_iter_values(trails)))
}

/// `OWN_REFUSING(x)`: refuses what is negative.
fn refusing() -> AggregateFunction<()> {
    AggregateFunction::new(
        "own_refusing",
        vec![DataType::Int64],
        DataType::Int64,
        || (),
        |(), arguments| match integers(&arguments[0]).flatten().find(|value| *value < 0) {
            Some(value) => Err(format!("{value} is negative")),
            None => Ok(()),
        },
        |states| Ok(Arc::new(Int64Array::from(vec![1; states.len()]))),
    )
    .with_combine(|(), ()| Ok(()))
}
