//! Functions of numbers.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type};
use datafusion_common::Result;

use crate::decimal::DIGITS_MAX;

/// `SQRT(number)`: NaN of a negative one, as in Flink.
pub(super) fn sqrt(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let numbers = arguments[0].as_primitive::<Float64Type>();
    let roots: Float64Array = numbers.unary(|number| number.sqrt() + 0.0);
    Ok(Arc::new(roots))
}

/// The type of SIGN: the number's own, but that of a decimal has a digit before the point.
pub(super) fn sign_type(types: &[DataType]) -> DataType {
    match types[0] {
        DataType::Decimal128(precision, scale) if i8::try_from(precision) == Ok(scale) => {
            DataType::Decimal128((precision + 1).min(DIGITS_MAX), scale.min(DIGITS_MAX as i8 - 1))
        }
        ref other => other.clone(),
    }
}

/// `SIGN(number)`: -1, 0 or 1.
pub(super) fn sign(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let numbers = &arguments[0];
    let data_type = &sign_type(&[numbers.data_type().clone()]);
    let signs: ArrayRef = match data_type {
        DataType::Decimal128(precision, scale) => {
            let one = 10_i128.pow(scale.unsigned_abs().into());
            let numbers = numbers.as_primitive::<Decimal128Type>();
            let signs = numbers.unary::<_, Decimal128Type>(|number| number.signum() * one);
            return Ok(Arc::new(signs.with_precision_and_scale(*precision, *scale)?));
        }
        integer if integer.is_integer() => {
            let signs: Int64Array = cast(numbers, &DataType::Int64)?.as_primitive::<Int64Type>().unary(i64::signum);
            Arc::new(signs)
        }
        _ => {
            // Zero has no sign, nor has NaN.
            let sign = |number: f64| if number.abs() > 0.0 { number.signum() } else { number + 0.0 };
            let signs: Float64Array = cast(numbers, &DataType::Float64)?.as_primitive::<Float64Type>().unary(sign);
            Arc::new(signs)
        }
    };
    Ok(cast(&signs, data_type)?)
}
