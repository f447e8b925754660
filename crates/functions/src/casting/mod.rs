//! CAST as in Flink, where Arrow's has another meaning or none.
//!
//! A query's own casts follow Flink where a value does not fit: whole numbers wrap, floating-point numbers end at the last whole number, decimals with too many digits
//! are NULL. Strict casts fail there: those of queries, where the session asks for that, and those that nobody wrote, such as the ones of INSERT.

mod from_text;

mod nested_text;

mod number;

mod to_text;

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, FieldRef, Int64Type, TimeUnit};
use arrow::error::ArrowError;
use datafusion_common::{Result, ScalarValue};
use pelton_data::time::{coarser, instant_ticks, ticks_per_second};

pub(super) use from_text::double;
pub(super) use nested_text::nested_texts;

use crate::definition::{Arguments, Definition, Evaluate, Parameter, always, second};
use crate::time::zoned::{self, Zones};

/// A cast to the type of the second argument, by the clocks of the zone that the third names. No query calls it: the planner does.
pub(super) const CAST_AS: Definition =
    Definition { is_nullable: may_be_null, ..definition("cast_as", |arguments| computed(arguments, Misfits::Flink)) };

/// The same, NULL where a value has no form in the other type.
pub(super) const TRY_CAST_AS: Definition = definition("try_cast_as", |arguments| computed(arguments, Misfits::Null));

/// The same, which fails where a value does not fit.
pub(super) const STRICT_CAST_AS: Definition = Definition {
    is_nullable: may_be_null,
    ..definition("strict_cast_as", |arguments| computed(arguments, Misfits::Fail))
};

/// What becomes of values that do not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Misfits {
    /// What Flink makes of them; what it makes nothing of fails.
    Flink,
    /// The same, and NULL in place of failing.
    Null,
    /// All of them fail.
    Fail,
}

const fn definition(name: &'static str, evaluate: fn(&Arguments<'_>) -> Result<ArrayRef>) -> Definition {
    let parameters = &[Parameter::Any; 3];
    let evaluate = Evaluate::Arguments(evaluate);
    Definition { name, parameters, required: 2, repeats: false, returns: second, is_nullable: always, evaluate }
}

/// Whether a cast that fails where a value does not fit may be NULL all the same. The second argument is, and stands for its type.
fn may_be_null(arguments: &[FieldRef]) -> bool {
    let [value, target] = [0, 1].map(|index| &arguments[index]);
    value.is_nullable() || makes_null(value.data_type(), target.data_type())
}

/// Whether a cast of Flink's makes NULL of some values: not all numbers are instants, nor have decimals room for all of them.
pub fn makes_null(from: &DataType, to: &DataType) -> bool {
    match to {
        DataType::Timestamp(_, Some(_)) => from.is_integer(),
        DataType::Decimal128(..) => {
            from.is_floating()
                || (from.is_integer() || matches!(from, DataType::Decimal128(..))) && is_flink_cast(from, to)
        }
        _ => false,
    }
}

fn computed(arguments: &Arguments<'_>, misfits: Misfits) -> Result<ArrayRef> {
    let target = arguments.get(1)?.expect("the target is given");
    let target = target.values.data_type();
    let Some(zone) = arguments.get(2)? else { return Ok(cast_as(&arguments.column(0)?, target, misfits)?) };
    let zone = Zones::new(Some(&zone.values)).at(0)?.expect("the planner names a zone");
    zoned::cast(&arguments.column(0)?, target, misfits == Misfits::Null, zone)
}

/// Whether Arrow's cast between two types is not Flink's, and the one here is, whatever becomes of values that do not fit.
pub fn is_own_cast(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Timestamp(from, _), DataType::Timestamp(to, _)) => ticks_per_second(*from) > ticks_per_second(*to),
        (_, DataType::Timestamp(_, Some(_))) => from.is_integer(),
        (_, DataType::Timestamp(_, None)) => from.is_string(),
        (DataType::Boolean, _) => to.is_string() || matches!(to, DataType::Decimal128(..)),
        (_, DataType::Boolean) => from.is_string(),
        (_, DataType::Decimal128(..)) => from.is_string() || from.is_floating(),
        (DataType::Interval(_) | DataType::Duration(_), _) => to.is_string(),
        (DataType::List(_) | DataType::Struct(_) | DataType::Map(..), _) => to.is_string(),
        _ => from.is_floating() && to.is_string(),
    }
}

/// Whether Flink makes something else than Arrow of values that do not fit, or reads texts that Arrow does not.
pub fn is_flink_cast(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Decimal128(p1, s1), DataType::Decimal128(p2, s2)) => {
            let whole = |precision: u8, scale: i8| i16::from(precision) - i16::from(scale);
            // What is rounded may have one digit more.
            whole(*p1, *s1) + i16::from(s1 > s2) > whole(*p2, *s2)
        }
        (from, DataType::Decimal128(precision, scale)) if from.is_integer() => {
            i16::from(digits_of_integer(from)) + i16::from(*scale) > i16::from(*precision)
        }
        (from, DataType::Decimal128(..)) => from.is_floating(),
        (DataType::Decimal128(..), to) => to.is_signed_integer(),
        (from, to) if to.is_signed_integer() => {
            from.is_string()
                || from.is_floating()
                || from.is_signed_integer() && from.primitive_width() > to.primitive_width()
        }
        (from, DataType::Float32 | DataType::Float64 | DataType::Date32) => from.is_string(),
        _ => false,
    }
}

/// Decimal digits of a type of whole numbers.
fn digits_of_integer(data_type: &DataType) -> u8 {
    match data_type {
        DataType::Int8 => 3,
        DataType::Int16 => 5,
        DataType::Int32 => 10,
        _ => 19,
    }
}

/// Whether a cast of Flink's has a value, or NULL, for every value.
pub fn always_casts(from: &DataType, to: &DataType) -> bool {
    let is_exact =
        |data_type: &DataType| data_type.is_signed_integer() || matches!(data_type, DataType::Decimal128(..));
    is_flink_cast(from, to) && (is_exact(from) || from.is_floating() && to.is_signed_integer())
}

/// A constant as a value of another type.
///
/// # Errors
/// Where it does not fit, and this is not to be tried only.
pub fn cast_literal(value: &ScalarValue, to: &DataType, is_try: bool) -> Result<ScalarValue> {
    let misfits = if is_try { Misfits::Null } else { Misfits::Flink };
    ScalarValue::try_from_array(&cast_as(&value.to_array()?, to, misfits)?, 0)
}

/// The same, which fails where Flink would make another value of it.
///
/// # Errors
/// Where it does not fit.
pub fn strict_cast_literal(value: &ScalarValue, to: &DataType) -> Result<ScalarValue> {
    ScalarValue::try_from_array(&cast_as(&value.to_array()?, to, Misfits::Fail)?, 0)
}

/// Values as those of another type. What does not fit is NULL where it `is_try`.
pub(super) fn cast(values: &ArrayRef, to: &DataType, is_try: bool) -> Result<ArrayRef, ArrowError> {
    cast_as(values, to, if is_try { Misfits::Null } else { Misfits::Flink })
}

fn cast_as(values: &ArrayRef, to: &DataType, misfits: Misfits) -> Result<ArrayRef, ArrowError> {
    let options = CastOptions { safe: misfits == Misfits::Null, ..CastOptions::default() };
    let from = values.data_type();
    if misfits != Misfits::Fail
        && is_flink_cast(from, to)
        && let Some(made) = flink(values, to, misfits)?
    {
        return Ok(made);
    }
    if !is_own_cast(from, to) {
        return cast_with_options(values, to, &options);
    }
    let is_try = misfits == Misfits::Null;
    let made = match to {
        DataType::Timestamp(unit, _) if from.is_integer() => instants(values, *unit)?,
        DataType::Timestamp(..) if from.is_string() => from_text::times(values, to, is_try)?,
        DataType::Boolean => return from_text::truths(values, is_try),
        DataType::Timestamp(unit, _) => coarser(values, *unit).expect("the unit is coarser"),
        DataType::Decimal128(precision, scale) => number::decimals(values, (*precision, *scale), misfits)?,
        _ if from.is_nested() => nested_texts(values, None)?,
        _ => to_text::texts(values)?,
    };
    cast_with_options(&made, to, &options)
}

/// A cast for which [`is_flink_cast`] holds, and [`is_own_cast`] does not.
fn flink(values: &ArrayRef, to: &DataType, misfits: Misfits) -> Result<Option<ArrayRef>, ArrowError> {
    let is_try = misfits == Misfits::Null;
    let from = values.data_type();
    Ok(Some(match to {
        DataType::Date32 => from_text::dates(values, is_try)?,
        to if from.is_string() && to.is_signed_integer() => from_text::whole_numbers(values, to, is_try)?,
        DataType::Float32 | DataType::Float64 => from_text::floats(values, to, is_try)?,
        DataType::Decimal128(precision, scale) if !from.is_floating() => {
            number::fitting_decimals(values, (*precision, *scale))?
        }
        DataType::Decimal128(..) => return Ok(None),
        to => number::whole_numbers(values, to)?,
    }))
}

/// Ticks that are instants of the years 0 to 9999; others are NULL, as in Flink.
fn instants(ticks: &ArrayRef, unit: TimeUnit) -> Result<ArrayRef, ArrowError> {
    let ticks = of_type(ticks, &DataType::Int64)?;
    let known = instant_ticks(unit);
    Ok(Arc::new(
        ticks.as_primitive::<Int64Type>().unary_opt::<_, Int64Type>(|tick| known.contains(&tick).then_some(tick)),
    ))
}

fn of_type(values: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    cast_with_options(values, data_type, &CastOptions { safe: false, ..CastOptions::default() })
}
