//! Functions of numbers.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array};
use arrow::compute::{binary, cast};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type};
use datafusion_common::Result;

use crate::decimal::DIGITS_MAX;
use crate::definition::{Definition, Evaluate, Parameter, always};

/// `SQRT(number)`: NaN of a negative one, as in Flink.
pub(super) fn sqrt(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let numbers = arguments[0].as_primitive::<Float64Type>();
    let roots: Float64Array = numbers.unary(|number| number.sqrt() + 0.0);
    Ok(Arc::new(roots))
}

/// `LOG2(number)`, by natural logarithms, as in Flink.
pub(super) fn log2(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let logarithms: Float64Array =
        arguments[0].as_primitive::<Float64Type>().unary(|number| number.ln() / std::f64::consts::LN_2);
    Ok(Arc::new(logarithms))
}

/// `LOG(base, number)`, likewise.
pub(super) fn log(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let [bases, numbers] = [0, 1].map(|at| arguments[at].as_primitive::<Float64Type>());
    Ok(Arc::new(binary::<_, _, _, Float64Type>(bases, numbers, |base, number| number.ln() / base.ln())?))
}

/// POWER: infinite where there is no number, as in Flink. Java's, which that is, knows no value where an exponent is none, and none of 1 and -1 where it
/// is infinite.
pub(super) const POWER: Definition = Definition {
    name: "power",
    parameters: &[Parameter::Double, Parameter::Double],
    required: 2,
    repeats: false,
    returns: |_| DataType::Float64,
    is_nullable: always,
    evaluate: Evaluate::Arrays(|arguments| {
        let [bases, exponents] = [0, 1].map(|at| arguments[at].as_primitive::<Float64Type>());
        let power = |base: f64, exponent: f64| match exponent.is_nan() || exponent.is_infinite() && base.abs() == 1.0 {
            true => f64::NAN,
            false => base.powf(exponent) + 0.0,
        };
        Ok(Arc::new(binary::<_, _, _, Float64Type>(bases, exponents, power)?))
    }),
};

/// ABS of a whole number: the smallest of its type is its own, as in Flink.
pub(super) const ABSOLUTE: Definition = Definition {
    name: "abs",
    parameters: &[Parameter::Any],
    required: 1,
    repeats: false,
    returns: |types| types[0].clone(),
    is_nullable: always,
    evaluate: Evaluate::Arrays(|arguments| {
        let numbers = &arguments[0];
        Ok(match numbers.data_type() {
            DataType::Int8 => Arc::new(numbers.as_primitive::<Int8Type>().unary::<_, Int8Type>(i8::wrapping_abs)),
            DataType::Int16 => Arc::new(numbers.as_primitive::<Int16Type>().unary::<_, Int16Type>(i16::wrapping_abs)),
            DataType::Int32 => Arc::new(numbers.as_primitive::<Int32Type>().unary::<_, Int32Type>(i32::wrapping_abs)),
            _ => Arc::new(numbers.as_primitive::<Int64Type>().unary::<_, Int64Type>(i64::wrapping_abs)),
        })
    }),
};

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
