//! Casts of texts.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BooleanArray, Date32Array, Float32Array, Float64Array, Int64Array, TimestampMicrosecondArray,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use chrono::{Datelike, NaiveDate};
use pelton_data::float_text::is_java_number;

use super::of_type;
use crate::pattern::{parse_date, parse_plain};

/// Times as they are written, which a TIMESTAMP has no zone for.
pub(super) fn times(texts: &ArrayRef, to: &DataType, is_try: bool) -> Result<ArrayRef, ArrowError> {
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
    super::cast(&(Arc::new(micros) as ArrayRef), to, is_try)
}

/// Words for truth, in any case: these, whole, and no others.
pub(super) fn truths(texts: &ArrayRef, is_try: bool) -> Result<ArrayRef, ArrowError> {
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

/// Whole numbers in texts: a fraction is left out. What is no number, or does not fit, fails, or is NULL.
pub(super) fn whole_numbers(texts: &ArrayRef, to: &DataType, is_try: bool) -> Result<ArrayRef, ArrowError> {
    let bits = to.primitive_width().unwrap_or(8) * 8;
    let limit = 1_i128 << (bits - 1);
    let numbers = parsed(texts, to, is_try, |text| {
        whole_number(text).filter(|number| (-limit..limit).contains(&i128::from(*number)))
    })?;
    let numbers: Int64Array = numbers.into_iter().collect();
    cast_with_options(&numbers, to, &CastOptions::default())
}

fn whole_number(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = whole.strip_prefix(['-', '+']).unwrap_or(whole);
    if !digits.bytes().chain(fraction.bytes()).all(|digit| digit.is_ascii_digit()) || digits.len() + fraction.len() == 0
    {
        return None;
    }
    if digits.is_empty() { Some(0) } else { whole.parse().ok() }
}

/// FLOAT and DOUBLE in texts, in Java's words where they are no numbers; what is too large is infinite.
pub(super) fn floats(texts: &ArrayRef, to: &DataType, is_try: bool) -> Result<ArrayRef, ArrowError> {
    Ok(match to {
        DataType::Float32 => Arc::new(Float32Array::from(parsed(texts, to, is_try, float)?)),
        _ => Arc::new(Float64Array::from(parsed(texts, to, is_try, double)?)),
    })
}

/// The number in a text: digits with a point and an exponent, NaN or Infinity, and not the other words that Rust has for these.
pub(crate) fn double(text: &str) -> Option<f64> {
    is_java_number(text).then(|| text.parse().ok()).flatten()
}

fn float(text: &str) -> Option<f32> {
    is_java_number(text).then(|| text.parse().ok()).flatten()
}

/// Dates in texts: month and day may be left out, and what follows behind a blank does not count.
pub(super) fn dates(texts: &ArrayRef, is_try: bool) -> Result<ArrayRef, ArrowError> {
    let days = parsed(texts, &DataType::Date32, is_try, |text| parse_date(text).map(days_of))?;
    Ok(Arc::new(Date32Array::from(days)))
}

fn days_of(date: NaiveDate) -> i32 {
    date.num_days_from_ce() - NaiveDate::from_ymd_opt(1970, 1, 1).expect("it is a day").num_days_from_ce()
}

/// What a parser makes of texts without the blanks around them.
fn parsed<T>(
    texts: &ArrayRef,
    to: &DataType,
    is_try: bool,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Vec<Option<T>>, ArrowError> {
    let texts = of_type(texts, &DataType::Utf8View)?;
    let values = texts.as_string_view().iter().map(|text| {
        let Some(text) = text else { return Ok(None) };
        match parse(text.trim_ascii()) {
            None if !is_try => Err(ArrowError::CastError(format!("Cannot cast string '{text}' to value of {to} type"))),
            value => Ok(value),
        }
    });
    values.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_lose_their_fractions() {
        for (text, number) in [
            ("12", Some(12)),
            ("+12", Some(12)),
            ("-1.9", Some(-1)),
            (".9", Some(0)),
            ("9.", Some(9)),
            (".", None),
            ("", None),
            ("-", None),
            ("1e3", None),
            ("1.x", None),
            ("0x10", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(whole_number(text), number, "{text}");
        }
    }
}
