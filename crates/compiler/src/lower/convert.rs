//! Which casts machine code computes, and how.

use arrow::datatypes::DataType;
use pelton_data::time::{instant_ticks, ticks_per_second};
use pelton_plan::is_flink_cast;

use super::graph::{Bounds, Conversion, Literal, Machine, Misfit, Node, Operation, Rounding};

/// [`conversion`], [`own_conversion`], or [`flink_conversion`].
pub(crate) type Convert = fn(&Node, &DataType, Misfit) -> Option<(Conversion, Option<Bounds>)>;

/// How to cast the value of `from` to another type, and the bounds of the result; `None` where DataFusion must do it.
///
/// Results, and which values do not fit, are those of Arrow's cast kernel.
pub(crate) fn conversion(from: &Node, to: &DataType, misfit: Misfit) -> Option<(Conversion, Option<Bounds>)> {
    use DataType::*;
    let is_literal_null = from.operation == Operation::Constant(Literal::Null);
    if is_literal_null || Machine::of(to)? == Machine::View || from.machine == Machine::View {
        return None;
    }
    match (&from.data_type, to) {
        (Float32 | Float64, Float32 | Float64) => Some((Conversion::Float, None)),
        (Float32 | Float64, Boolean) => Some((Conversion::ToBoolean, None)),
        (Float32 | Float64, to) if to.is_integer() => Some((Conversion::FromFloat { misfit }, None)),
        (Float32 | Float64, _) => None,
        (Boolean, Float32 | Float64) => None,
        (from, Float32 | Float64) if from.is_integer() => Some((Conversion::ToFloat { divisor: 1f64.to_bits() }, None)),
        (Decimal128(_, scale), Float64) if from.machine != Machine::Wide => {
            Some((Conversion::ToFloat { divisor: 10f64.powi(i32::from(*scale)).to_bits() }, None))
        }
        (_, Float32 | Float64) => None,
        (from, Boolean) if from.is_integer() => Some((Conversion::ToBoolean, None)),
        (_, Boolean) => None,
        (Boolean, to) if to.is_integer() => scaled(from, to, 1, misfit),
        (a, b) if a.is_integer() && b.is_integer() => scaled(from, to, 1, misfit),
        (a, Decimal128(_, scale)) if a.is_integer() => scaled(from, to, power_of_ten(*scale)?, misfit),
        (Decimal128(precision, a), Decimal128(to_precision, b)) if a <= b => {
            // Arrow does not look at values where precisions promise that all fit.
            let trusted = i16::from(*precision) + i16::from(b - a) <= i16::from(*to_precision);
            let (conversion, bounds) = scaled(from, to, power_of_ten(b - a)?, misfit)?;
            match conversion {
                Conversion::Scale { multiplier, check: Some(_), .. } if trusted => {
                    let exact = from.bounds?.combine(Bounds { min: multiplier, max: multiplier }, i128::checked_mul)?;
                    Some((Conversion::Scale { multiplier, check: None, misfit }, Some(exact)))
                }
                _ => Some((conversion, bounds)),
            }
        }
        (Decimal128(precision, a), Decimal128(to_precision, b)) => {
            let trusted = i16::from(*precision) - i16::from(a - b) < i16::from(*to_precision);
            let (conversion, bounds) = divided(from, to, power_of_ten(a - b)?, Rounding::HalfAway, misfit)?;
            match conversion {
                Conversion::Divide { check: Some(_), .. } if trusted => None,
                _ => Some((conversion, bounds)),
            }
        }
        (Decimal128(_, scale), to) if to.is_integer() && *scale >= 0 => {
            divided(from, to, power_of_ten(*scale)?, Rounding::Truncate, misfit)
        }
        (Timestamp(..), Int64) | (Int64, Timestamp(..)) => scaled(from, to, 1, misfit),
        (Date32, Int32) | (Int32, Date32) => scaled(from, to, 1, misfit),
        (Timestamp(unit, from_zone), Timestamp(to_unit, to_zone)) if to_zone.is_none() || from_zone == to_zone => {
            let (a, b) = (ticks_per_second(*unit), ticks_per_second(*to_unit));
            match a > b {
                true => divided(from, to, (a / b).into(), Rounding::Truncate, misfit),
                false => scaled(from, to, (b / a).into(), misfit),
            }
        }
        (Timestamp(unit, None), Date32) => date_of_timestamp(from, ticks_per_second(*unit)),
        _ => None,
    }
}

/// As [`conversion`], where Flink has other results than Arrow's kernel: those of `pelton_functions`.
pub(crate) fn own_conversion(from: &Node, to: &DataType, misfit: Misfit) -> Option<(Conversion, Option<Bounds>)> {
    use DataType::Timestamp;
    match (&from.data_type, to) {
        (DataType::Int64, Timestamp(unit, Some(_))) => {
            let known = instant_ticks(*unit);
            let known = Bounds { min: (*known.start()).into(), max: (*known.end()).into() };
            Some((Conversion::Scale { multiplier: 1, check: Some(known), misfit: Misfit::Null }, Some(known)))
        }
        (Timestamp(unit, from_zone), Timestamp(to_unit, to_zone))
            if ticks_per_second(*unit) > ticks_per_second(*to_unit) && (to_zone.is_none() || from_zone == to_zone) =>
        {
            let divisor = ticks_per_second(*unit) / ticks_per_second(*to_unit);
            divided(from, to, divisor.into(), Rounding::Floor, misfit)
        }
        _ => conversion(from, to, misfit),
    }
}

/// As [`own_conversion`], of a query's own casts: whole numbers that do not fit lose their first bits, and decimals are NULL.
pub(crate) fn flink_conversion(from: &Node, to: &DataType, misfit: Misfit) -> Option<(Conversion, Option<Bounds>)> {
    use DataType::{Decimal128, Float32, Float64};
    if !is_flink_cast(&from.data_type, to) {
        return own_conversion(from, to, misfit);
    }
    let (conversion, bounds) = conversion(from, to, Misfit::Null)?;
    Some(match (&from.data_type, conversion) {
        (_, conversion) if matches!(to, Decimal128(..)) => (conversion, bounds),
        (Float32 | Float64, Conversion::FromFloat { .. }) => (Conversion::FromFloatSaturating, None),
        (_, Conversion::Scale { multiplier, check: Some(_), misfit }) => {
            (Conversion::Scale { multiplier, check: None, misfit }, None)
        }
        (_, Conversion::Divide { divisor, rounding, check: Some(_), misfit }) => {
            (Conversion::Divide { divisor, rounding, check: None, misfit }, None)
        }
        (_, fitting) => (fitting, bounds),
    })
}

/// The days that Arrow's calendar reaches: from the year -262143 to the year 262142.
const CALENDAR_DAYS: Bounds = Bounds { min: -96465293, max: 95026236 };

fn date_of_timestamp(from: &Node, ticks_per_second: i64) -> Option<(Conversion, Option<Bounds>)> {
    let ticks_per_day = ticks_per_second * 86_400;
    let Bounds { min, max } = from.bounds?;
    let days = Bounds { min: min.div_euclid(ticks_per_day.into()), max: max.div_euclid(ticks_per_day.into()) };
    let conversion = Conversion::Divide {
        divisor: ticks_per_day,
        rounding: Rounding::Floor,
        check: (!days.fits(CALENDAR_DAYS)).then_some(CALENDAR_DAYS),
        misfit: Misfit::Fails,
    };
    Some((conversion, None))
}

fn scaled(from: &Node, to: &DataType, multiplier: i128, misfit: Misfit) -> Option<(Conversion, Option<Bounds>)> {
    let (values, limits) = (from.bounds?, Bounds::of(to)?);
    let exact = values.combine(Bounds { min: multiplier, max: multiplier }, i128::checked_mul);
    if let Some(exact) = exact.filter(|exact| exact.fits(limits)) {
        return Some((Conversion::Scale { multiplier, check: None, misfit }, Some(exact)));
    }
    // Towards zero from both sides: the largest operands whose product is within the limits.
    let check = Bounds { min: limits.min / multiplier, max: limits.max / multiplier };
    Some((Conversion::Scale { multiplier, check: Some(check), misfit }, None))
}

fn divided(
    from: &Node,
    to: &DataType,
    divisor: i128,
    rounding: Rounding,
    misfit: Misfit,
) -> Option<(Conversion, Option<Bounds>)> {
    let (values, limits) = (from.bounds?, Bounds::of(to)?);
    let divisor = i64::try_from(divisor).ok()?;
    if from.machine == Machine::Wide {
        return None;
    }
    let spare = i128::from(rounding != Rounding::Truncate);
    let quotients =
        Bounds { min: values.min / i128::from(divisor) - spare, max: values.max / i128::from(divisor) + spare };
    let fits = quotients.fits(limits);
    let check = (!fits).then_some(limits);
    Some((Conversion::Divide { divisor, rounding, check, misfit }, fits.then_some(quotients)))
}

fn power_of_ten(digits: i8) -> Option<i128> {
    10i128.checked_pow(u32::try_from(digits).ok()?)
}
