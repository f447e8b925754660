//! Casts of numbers to numbers.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Builder, Int64Array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type};
use arrow::error::ArrowError;
use pelton_data::decimal_text::DecimalText;
use pelton_data::float_text::write_double;

use super::{Misfits, of_type};

/// Whole numbers of a narrower type, as Java makes them: by their last bits. Floating-point numbers end at the least and greatest INT or BIGINT first, decimals lose
/// their fractions.
pub(super) fn whole_numbers(values: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let is_long = *to == DataType::Int64;
    let whole: Int64Array = match values.data_type() {
        data_type if data_type.is_floating() => {
            let doubles = of_type(values, &DataType::Float64)?;
            let whole = |number: f64| if is_long { number as i64 } else { i64::from(number as i32) };
            doubles.as_primitive::<Float64Type>().unary(whole)
        }
        DataType::Decimal128(_, scale) => {
            let unit = 10_i128.pow(scale.unsigned_abs().into());
            values.as_primitive::<Decimal128Type>().unary(|units| (units / unit) as i64)
        }
        _ => of_type(values, &DataType::Int64)?.as_primitive::<Int64Type>().clone(),
    };
    Ok(match to {
        DataType::Int8 => Arc::new(whole.unary::<_, Int8Type>(|number| number as i8)),
        DataType::Int16 => Arc::new(whole.unary::<_, Int16Type>(|number| number as i16)),
        DataType::Int32 => Arc::new(whole.unary::<_, Int32Type>(|number| number as i32)),
        _ => Arc::new(whole),
    })
}

/// Decimals of whole numbers and of other decimals, the half rounded away from zero; NULL where there is no room.
pub(super) fn fitting_decimals(values: &ArrayRef, (precision, scale): (u8, i8)) -> Result<ArrayRef, ArrowError> {
    let options = CastOptions { safe: true, ..CastOptions::default() };
    cast_with_options(values, &DataType::Decimal128(precision, scale), &options)
}

/// Strings, truth as 0 or 1, and the decimals that numbers are written as, a FLOAT as the DOUBLE that it is.
pub(super) fn decimals(
    values: &ArrayRef,
    (precision, scale): (u8, i8),
    misfits: Misfits,
) -> Result<ArrayRef, ArrowError> {
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
        let number = DecimalText::parse(text.trim_ascii().as_bytes());
        let digits = number.and_then(|number| number.rounded(scale)).filter(|digits| digits.unsigned_abs() < limit);
        let fails = match misfits {
            Misfits::Null => false,
            Misfits::Fail => true,
            // A finite number with too many digits is NULL.
            Misfits::Flink => is_text || !plain.as_primitive::<Float64Type>().value(row).is_finite(),
        };
        if digits.is_none() && fails {
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
