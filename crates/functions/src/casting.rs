//! CAST as in Flink, where Arrow's has another meaning or none: numbers and strings to DECIMAL, strings to times and truth, times to fewer digits, and numbers and truth to strings.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Builder, StringViewBuilder, TimestampMicrosecondArray,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type, Int64Type, TimeUnit};
use arrow::error::ArrowError;
use datafusion_common::{Result, ScalarValue};
use pelton_data::float_text::{write_double, write_float};
use pelton_data::time::{coarser, instant_ticks, ticks_per_second};

use crate::definition::{Arguments, Definition, Evaluate, Parameter, always, second};
use crate::pattern::parse_plain;
use crate::time::zoned::{self, Zones};

/// A cast to the type of the second argument, by the clocks of the zone that the third names. No query calls it: the planner does.
pub(super) const CAST_AS: Definition =
    Definition { is_nullable: may_be_null, ..definition("cast_as", |arguments| computed(arguments, false)) };

/// The same, NULL where a value does not fit.
pub(super) const TRY_CAST_AS: Definition = definition("try_cast_as", |arguments| computed(arguments, true));

const fn definition(name: &'static str, evaluate: fn(&Arguments<'_>) -> Result<ArrayRef>) -> Definition {
    let parameters = &[Parameter::Any; 3];
    let evaluate = Evaluate::Arguments(evaluate);
    Definition { name, parameters, required: 2, returns: second, is_nullable: always, evaluate }
}

/// Whether a cast that fails where a value does not fit may be NULL all the same. The second argument is, and stands for its type; not all numbers are instants.
fn may_be_null(arguments: &[FieldRef]) -> bool {
    let [value, target] = [0, 1].map(|index| &arguments[index]);
    value.is_nullable()
        || value.data_type().is_integer() && matches!(target.data_type(), DataType::Timestamp(_, Some(_)))
}

fn computed(arguments: &Arguments<'_>, is_try: bool) -> Result<ArrayRef> {
    let target = arguments.get(1)?.expect("the target is given");
    let target = target.values.data_type();
    let Some(zone) = arguments.get(2)? else { return Ok(cast(&arguments.column(0)?, target, is_try)?) };
    let zone = Zones::new(Some(&zone.values)).at(0)?.expect("the planner names a zone");
    zoned::cast(&arguments.column(0)?, target, is_try, zone)
}

/// Whether Arrow's cast between two types is not Flink's, and the one here is.
pub fn is_own_cast(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Timestamp(from, _), DataType::Timestamp(to, _)) => ticks_per_second(*from) > ticks_per_second(*to),
        (_, DataType::Timestamp(_, Some(_))) => from.is_integer(),
        (_, DataType::Timestamp(_, None)) => from.is_string(),
        (DataType::Boolean, _) => to.is_string() || matches!(to, DataType::Decimal128(..)),
        (_, DataType::Boolean) => from.is_string(),
        (_, DataType::Decimal128(..)) => from.is_string() || from.is_floating(),
        _ => from.is_floating() && to.is_string(),
    }
}

/// A constant as a value of another type.
///
/// # Errors
/// Where it does not fit, and this is not to be tried only.
pub fn cast_literal(value: &ScalarValue, to: &DataType, is_try: bool) -> Result<ScalarValue> {
    ScalarValue::try_from_array(&cast(&value.to_array()?, to, is_try)?, 0)
}

/// Values as those of another type. What does not fit is NULL where it `is_try`.
pub(super) fn cast(values: &ArrayRef, to: &DataType, is_try: bool) -> Result<ArrayRef, ArrowError> {
    let options = CastOptions { safe: is_try, ..CastOptions::default() };
    if !is_own_cast(values.data_type(), to) {
        return cast_with_options(values, to, &options);
    }
    let made = match to {
        DataType::Timestamp(unit, _) if values.data_type().is_integer() => instants(values, *unit)?,
        DataType::Timestamp(..) if values.data_type().is_string() => times_of(values, to, is_try)?,
        DataType::Boolean => return truths(values, is_try),
        DataType::Timestamp(unit, _) => coarser(values, *unit).expect("the unit is coarser"),
        DataType::Decimal128(precision, scale) => decimals(values, (*precision, *scale), is_try)?,
        _ => texts(values)?,
    };
    cast_with_options(&made, to, &options)
}

/// Ticks that are instants of the years 0 to 9999; others are NULL, as in Flink.
fn instants(ticks: &ArrayRef, unit: TimeUnit) -> Result<ArrayRef, ArrowError> {
    let ticks = of_type(ticks, &DataType::Int64)?;
    let known = instant_ticks(unit);
    Ok(Arc::new(
        ticks.as_primitive::<Int64Type>().unary_opt::<_, Int64Type>(|tick| known.contains(&tick).then_some(tick)),
    ))
}

/// Times as they are written, which a TIMESTAMP has no zone for.
fn times_of(texts: &ArrayRef, to: &DataType, is_try: bool) -> Result<ArrayRef, ArrowError> {
    let texts = of_type(texts, &DataType::Utf8View)?;
    let micros = texts.as_string_view().iter().map(|text| {
        let Some(text) = text else { return Ok(None) };
        match parse_plain(text) {
            Some(time) => Ok(Some(time.and_utc().timestamp_micros())),
            None if is_try => Ok(None),
            // As Arrow has it, which is told in other words.
            None => Err(ArrowError::ParseError(format!("Error parsing timestamp from '{text}': error parsing date"))),
        }
    });
    let micros: TimestampMicrosecondArray = micros.collect::<Result<_, _>>()?;
    cast(&(Arc::new(micros) as ArrayRef), to, is_try)
}

/// Words for truth, in any case: these, whole, and no others.
fn truths(texts: &ArrayRef, is_try: bool) -> Result<ArrayRef, ArrowError> {
    let texts = of_type(texts, &DataType::Utf8View)?;
    let is_one_of = |words: [&str; 5], text: &str| words.iter().any(|word| word.eq_ignore_ascii_case(text));
    let truths = texts.as_string_view().iter().map(|text| match text {
        Some(text) if is_one_of(["t", "true", "y", "yes", "1"], text) => Ok(Some(true)),
        Some(text) if is_one_of(["f", "false", "n", "no", "0"], text) => Ok(Some(false)),
        Some(text) if !is_try => {
            Err(ArrowError::CastError(format!("Cannot cast string '{text}' to value of Boolean type")))
        }
        _ => Ok(None),
    });
    Ok(Arc::new(truths.collect::<Result<BooleanArray, _>>()?))
}

/// Truth in capitals, numbers as Java writes them.
fn texts(values: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let mut texts = StringViewBuilder::with_capacity(values.len());
    let mut text = String::new();
    let plain = of_type(values, &DataType::Float64)?;
    for row in 0..values.len() {
        if values.is_null(row) {
            texts.append_null();
            continue;
        }
        text.clear();
        match values.data_type() {
            DataType::Boolean => text.push_str(if values.as_boolean().value(row) { "TRUE" } else { "FALSE" }),
            DataType::Float32 => write_float(values.as_primitive::<Float32Type>().value(row), &mut text),
            _ => write_double(plain.as_primitive::<Float64Type>().value(row), &mut text),
        }
        texts.append_value(&text);
    }
    Ok(Arc::new(texts.finish()))
}

/// Strings, truth as 0 or 1, and the decimals that numbers are written as, a FLOAT as the DOUBLE that it is.
fn decimals(values: &ArrayRef, (precision, scale): (u8, i8), is_try: bool) -> Result<ArrayRef, ArrowError> {
    let is_text = values.data_type().is_string();
    let plain = of_type(values, if is_text { &DataType::Utf8View } else { &DataType::Float64 })?;
    let limit = 10_u128.pow(precision.into());
    let mut decimals = Decimal128Builder::with_capacity(values.len());
    let mut text = String::new();
    for row in 0..values.len() {
        if values.is_null(row) {
            decimals.append_null();
            continue;
        }
        text.clear();
        match is_text {
            true => text.push_str(plain.as_string_view().value(row)),
            false => {
                write!(text, "{:e}", plain.as_primitive::<Float64Type>().value(row)).expect("strings take all text")
            }
        }
        let digits = digits_of(text.trim_ascii(), scale).filter(|digits| digits.unsigned_abs() < limit);
        if digits.is_none() && !is_try {
            let data_type = DataType::Decimal128(precision, scale);
            if !is_text {
                text.clear();
                write_double(plain.as_primitive::<Float64Type>().value(row), &mut text);
            }
            return Err(ArrowError::CastError(match is_text {
                true => format!("Cannot cast string '{text}' to value of {data_type} type"),
                false => format!("Can't cast value {text} to type {data_type}"),
            }));
        }
        decimals.append_option(digits);
    }
    Ok(Arc::new(decimals.finish().with_precision_and_scale(precision, scale)?))
}

fn of_type(values: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    cast_with_options(values, data_type, &CastOptions { safe: false, ..CastOptions::default() })
}

/// The digits of a number that is written as 12, -.5 or 1.5e-3, so many of them behind the point and the half rounded away from zero; `None`
/// where it is none, or too large for all decimals.
fn digits_of(text: &str, scale: i8) -> Option<i128> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits = whole.bytes().chain(fraction.bytes());
    let is_number = digits.clone().all(|digit| digit.is_ascii_digit()) && digits.clone().next().is_some();
    if !is_number {
        return None;
    }
    // So many digits stand before the place that is rounded to.
    let kept = i64::try_from(whole.len()).ok()? + i64::from(exponent) + i64::from(scale);
    if kept < 0 {
        return Some(0);
    }
    let mut value = 0_i128;
    for _ in 0..kept {
        let digit = digits.next();
        if value == 0 && digit.is_none() {
            return Some(0);
        }
        value = value.checked_mul(10)?.checked_add(i128::from(digit.map_or(0, |digit| digit - b'0')))?;
    }
    let is_upper_half = digits.next().is_some_and(|digit| digit >= b'5');
    let value = value.checked_add(i128::from(is_upper_half))?;
    Some(if text.starts_with('-') { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_that_are_written() {
        for (text, scale, digits) in [
            ("0", 0, Some(0)),
            ("-0.0", 2, Some(0)),
            ("12", 2, Some(1_200)),
            ("+1.005", 2, Some(101)),
            ("-1.005", 2, Some(-101)),
            ("1.00499", 2, Some(100)),
            (".5", 0, Some(1)),
            ("5.", 1, Some(50)),
            ("1e3", 1, Some(10_000)),
            ("1.5E-3", 3, Some(2)),
            ("1.4e-3", 3, Some(1)),
            ("5e-3", 2, Some(1)),
            ("5e-4", 2, Some(0)),
            ("99.5", 0, Some(100)),
            ("00012", 0, Some(12)),
            ("0e2000000000", 38, Some(0)),
            ("1e-2000000000", 38, Some(0)),
            ("1e38", 0, Some(10_i128.pow(38))),
            ("1e39", 0, None),
            ("1e2000000000", 0, None),
            ("1e99999999999", 0, None),
            ("", 0, None),
            (".", 0, None),
            ("-", 0, None),
            ("1e", 0, None),
            ("1.2.3", 0, None),
            ("0x10", 0, None),
            ("inf", 0, None),
            ("NaN", 0, None),
        ] {
            assert_eq!(digits_of(text, scale), digits, "{text} with {scale}");
        }
    }
}
