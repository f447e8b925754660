//! ROUND of whole numbers, and ROUND and TRUNCATE of FLOAT and DOUBLE: of the decimal that a DOUBLE is written as, and of a FLOAT the DOUBLE that it is, as in Flink, whatever their size.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type};
use datafusion_common::Result;

use crate::definition::{Arguments, Definition, Evaluate, Parameter, always};

/// ROUND of FLOAT and DOUBLE. The planner puts it in the place of DataFusion's, which numbers of other types keep.
pub(super) const ROUND: Definition = definition("round", |arguments| evaluate(arguments, f64::round, rounded));

/// TRUNCATE, which DataFusion calls so, likewise.
pub(super) const TRUNCATE: Definition = definition("trunc", |arguments| evaluate(arguments, f64::trunc, truncated));

/// ROUND of a whole number: before the point, the half away from zero, with the last bits of what does not fit, as in Flink.
pub(super) const ROUND_INTEGER: Definition = definition("round", |arguments| {
    let numbers = arguments.column(0)?;
    let Some(digits) = arguments.get(1)? else { return Ok(numbers) };
    let wide = cast(&numbers, &DataType::Int64)?;
    let wide = wide.as_primitive::<Int64Type>();
    let all_digits = digits.values.as_primitive::<Int64Type>();
    let rounded = wide.iter().enumerate().map(|(row, number)| {
        let place = digits.place(row);
        if all_digits.is_null(place) {
            return None;
        }
        Some(rounded_integer(number?, all_digits.value(place)))
    });
    let rounded: Int64Array = rounded.collect();
    Ok(match numbers.data_type() {
        DataType::Int8 => Arc::new(rounded.unary::<_, Int8Type>(|number| number as i8)),
        DataType::Int16 => Arc::new(rounded.unary::<_, Int16Type>(|number| number as i16)),
        DataType::Int32 => Arc::new(rounded.unary::<_, Int32Type>(|number| number as i32)),
        _ => Arc::new(rounded),
    })
});

fn rounded_integer(number: i64, digits: i64) -> i64 {
    // No whole number has 20 digits.
    let places = if digits >= 0 { 0 } else { digits.unsigned_abs().min(20) as u32 };
    let unit = 10_i128.pow(places);
    let (number, half) = (i128::from(number), unit / 2);
    ((number + number.signum() * half) / unit * unit) as i64
}

const fn definition(name: &'static str, evaluate: fn(&Arguments<'_>) -> Result<ArrayRef>) -> Definition {
    Definition {
        name,
        parameters: &[Parameter::Any, Parameter::Integer],
        required: 1,
        repeats: false,
        returns: |types| types[0].clone(),
        is_nullable: always,
        evaluate: Evaluate::Arguments(evaluate),
    }
}

/// The values of a call: by `to_whole` where no digits behind the point are asked for, else by `to_place`.
fn evaluate(
    arguments: &Arguments<'_>,
    to_whole: fn(f64) -> f64,
    to_place: fn(f64, DecimalPlace) -> f64,
) -> Result<ArrayRef> {
    let numbers = arguments.column(0)?;
    let digits = arguments.get(1)?;
    let wide = cast(&numbers, &DataType::Float64)?;
    let wide = wide.as_primitive::<Float64Type>();
    let digits = digits.as_ref().map(|digits| (digits.is_constant, digits.values.as_primitive::<Int64Type>()));
    let values: Float64Array = match digits {
        None => wide.unary(|number| to_whole(number) + 0.0),
        Some((true, digits)) if digits.is_valid(0) && digits.value(0) == 0 => {
            wide.unary(|number| to_whole(number) + 0.0)
        }
        Some((true, digits)) if digits.is_valid(0) => {
            let place = DecimalPlace::of(digits.value(0));
            wide.unary(|number| to_place(number, place))
        }
        Some((true, _)) => Float64Array::new_null(wide.len()),
        Some((false, digits)) => {
            let rows = wide.iter().zip(digits);
            rows.map(|(number, digits)| Some(to_place(number?, DecimalPlace::of(digits?)))).collect()
        }
    };
    Ok(cast(&(Arc::new(values) as ArrayRef), numbers.data_type())?)
}

/// The decimal place down to which digits are left.
#[derive(Debug, Clone, Copy)]
struct DecimalPlace {
    /// Of ten, infinite where that is no DOUBLE.
    power: f64,
    is_behind_point: bool,
}

/// From this size on all numbers are whole, and below it all whole numbers are there.
const WHOLE_MIN: f64 = (1_u64 << 53) as f64;

/// A DOUBLE stands for no other decimal of so many digits, so that these tell numbers of units below this apart.
const EXACT_END: f64 = 1e15;

impl DecimalPlace {
    fn of(digits: i64) -> DecimalPlace {
        // As text: products of smaller powers are not the nearest to those from 10^23 on. No DOUBLE has 400 digits.
        let zeros = digits.unsigned_abs().min(400) as u16;
        let power = [b'1', b'e', digit(zeros / 100), digit(zeros / 10), digit(zeros)];
        let power = str::from_utf8(&power).ok().and_then(|power| power.parse().ok()).unwrap_or(f64::INFINITY);
        DecimalPlace { power, is_behind_point: digits >= 0 }
    }

    /// How many units of the place a number has.
    fn units(self, number: f64) -> f64 {
        if self.is_behind_point { number * self.power } else { number / self.power }
    }

    /// The number that has so many units, which is the nearest DOUBLE to that decimal where the power of ten is exact.
    fn number(self, units: f64) -> f64 {
        match self.is_behind_point {
            true => units / self.power,
            false if units == 0.0 => 0.0,
            false => units * self.power,
        }
    }
}

/// The last digit of a number, as a letter.
fn digit(number: u16) -> u8 {
    b'0' + (number % 10) as u8
}

/// Half of a unit is rounded away from zero. How many units a number has is rounded itself: which side of the middle between two
/// whole numbers of units it lies on is told by the DOUBLE that stands for that middle, which has a digit more.
fn rounded(number: f64, place: DecimalPlace) -> f64 {
    nearest(number, place, |size, units| {
        let below = units.floor();
        let is_upper_half = match units < EXACT_END / 10.0 {
            true => size >= place.number(below + 0.5),
            false => units - below >= 0.5,
        };
        below + f64::from(u8::from(is_upper_half))
    })
}

/// What is behind the place is left out. A number that is written as a whole number of units has so many, whatever the product says.
fn truncated(number: f64, place: DecimalPlace) -> f64 {
    nearest(number, place, |size, units| {
        let below = units.floor();
        let is_more = units < EXACT_END && size >= place.number(below + 1.0);
        let is_less = units < EXACT_END && size < place.number(below);
        below + f64::from(u8::from(is_more)) - f64::from(u8::from(is_less))
    })
}

/// The number of `whole` units, given how large a number is and how many units it has.
fn nearest(number: f64, place: DecimalPlace, whole: impl Fn(f64, f64) -> f64) -> f64 {
    let size = number.abs();
    let units = place.units(size);
    if units < WHOLE_MIN {
        place.number(whole(size, units)).copysign(number) + 0.0
    } else {
        // It has no digit behind the place, or is no number.
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `how` makes of the decimal that a number is written as: by its digits.
    fn by_digits(number: f64, digits: i32, is_rounded: bool) -> f64 {
        // d.ddd…e±x, as few digits as read back as the same number.
        let text = format!("{:e}", number.abs());
        let (mantissa, exponent) = text.split_once('e').unwrap();
        let all: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).map(|digit| digit - b'0').collect();
        let exponent: i32 = exponent.parse().unwrap();
        // So many of its digits stand before the place.
        let kept = exponent + 1 + digits;
        let at = |index: i32| usize::try_from(index).ok().and_then(|index| all.get(index)).copied().unwrap_or(0);
        let whole = (0..kept.max(0)).fold(0_u128, |units, index| units * 10 + u128::from(at(index)));
        let whole = whole + u128::from(is_rounded && at(kept) >= 5);
        let size: f64 = format!("{whole}e{}", -digits).parse().unwrap();
        if number < 0.0 && size > 0.0 { -size } else { size }
    }

    #[test]
    fn numbers_are_rounded_as_the_decimals_that_they_are_written_as() {
        for (number, digits, round, truncate) in [
            (1.005, 2, 1.01, 1.0),
            (4.35, 2, 4.35, 4.35),
            (0.29, 2, 0.29, 0.29),
            (2.5, 0, 3.0, 2.0),
            (-2.5, 0, -3.0, -2.0),
            (-0.4, 0, 0.0, 0.0),
            (0.49999999999999994, 0, 0.0, 0.0),
            (150.0, -2, 200.0, 100.0),
            (149.99999999999997, -2, 100.0, 100.0),
            (1e300, 10, 1e300, 1e300),
            (f64::MAX, 15, f64::MAX, f64::MAX),
            (f64::MAX, -308, f64::INFINITY, 1e308),
            (f64::MAX, -309, 0.0, 0.0),
            (2.5, 400, 2.5, 2.5),
            (2.5, i64::MAX, 2.5, 2.5),
            (2.5, i64::MIN, 0.0, 0.0),
            (1.5e-20, 20, 2e-20, 1e-20),
            (f64::INFINITY, 2, f64::INFINITY, f64::INFINITY),
            (f64::NEG_INFINITY, -400, f64::NEG_INFINITY, f64::NEG_INFINITY),
            (450_359_962_737_049.06, 1, 450_359_962_737_049.1, 450_359_962_737_049.0),
        ] {
            let place = DecimalPlace::of(digits);
            assert_eq!((rounded(number, place), truncated(number, place)), (round, truncate), "{number} to {digits}");
        }
        let place = DecimalPlace::of(3);
        assert!(rounded(f64::NAN, place).is_nan() && truncated(f64::NAN, place).is_nan());
        assert!(rounded(-0.0, place).is_sign_positive() && truncated(-1e-9, place).is_sign_positive());
    }

    #[test]
    fn random_numbers_are_rounded_by_their_digits() {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..200_000 {
            // The places are such that at most 13 digits are left.
            let (units, scale) = (random(1 << 31) * 10 + 5, random(14) as i32 - 2);
            let digits = scale - 10 + random(13) as i32;
            let exact: f64 = format!("{units}e{}", -scale).parse().unwrap();
            // Decimals with few digits, many of them in the middle, and what lies beside them.
            for number in [exact, exact.next_up(), -exact.next_down()] {
                let place = DecimalPlace::of(digits.into());
                assert_eq!(rounded(number, place), by_digits(number, digits, true), "ROUND({number:?}, {digits})");
                assert_eq!(
                    truncated(number, place),
                    by_digits(number, digits, false),
                    "TRUNCATE({number:?}, {digits})"
                );
            }
        }
    }
}
