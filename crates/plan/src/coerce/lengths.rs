//! Lengths of time in expressions: intervals, and what lies between two times.
//!
//! Days and what is finer have one form, in which they are compared: a day has 24 hours, as in Flink. DataFusion counts the days of an interval apart from
//! the rest of it, and what lies between two times in no days at all.

use arrow::datatypes::{DataType, IntervalMonthDayNano, TimeUnit};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::{Expr, ExprSchemable, Operator, cast, lit};
use pelton_data::Micros;
use pelton_data::time::ticks_per_second;

use crate::errors::{PlanError, external};

const NANOSECONDS_PER_DAY: i64 = 86_400_000_000_000;

const MICROS_PER_DAY: Micros = 86_400_000_000;

const MONTHS_PER_YEAR: i32 = 12;

/// The same length without days, where it is less than 292 years. The rest of an interval has no room for more: it keeps as many whole days as it has, which
/// are compared first.
pub(crate) fn of_equal_days(length: IntervalMonthDayNano) -> IntervalMonthDayNano {
    let day = i128::from(NANOSECONDS_PER_DAY);
    let all = i128::from(length.days) * day + i128::from(length.nanoseconds);
    if let Ok(nanoseconds) = i64::try_from(all) {
        return IntervalMonthDayNano::new(length.months, 0, nanoseconds);
    }
    match (i32::try_from(all.div_euclid(day)), i64::try_from(all.rem_euclid(day))) {
        (Ok(days), Ok(rest)) => IntervalMonthDayNano::new(length.months, days, rest),
        _ => length,
    }
}

/// Makes a written length of days one in ticks of this unit, where it is so many of them: what lies between two times may be longer than nanoseconds can tell.
pub(crate) fn as_difference(length: &mut Expr, unit: TimeUnit) {
    let Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(written)), _) = length else { return };
    let nanoseconds = i128::from(written.days) * i128::from(NANOSECONDS_PER_DAY) + i128::from(written.nanoseconds);
    let per_tick = i128::from(NANOSECONDS_PER_DAY / 86_400 / ticks_per_second(unit));
    let Ok(ticks) = i64::try_from(nanoseconds / per_tick) else { return };
    if written.months == 0 && nanoseconds % per_tick == 0 {
        let ticks = Some(ticks);
        *length = lit(match unit {
            TimeUnit::Second => ScalarValue::DurationSecond(ticks),
            TimeUnit::Millisecond => ScalarValue::DurationMillisecond(ticks),
            TimeUnit::Microsecond => ScalarValue::DurationMicrosecond(ticks),
            TimeUnit::Nanosecond => ScalarValue::DurationNanosecond(ticks),
        });
    }
}

/// Gives a time as fine a unit as a length has that is added to it or taken from it, so that no fraction of a second is lost.
pub(crate) fn refine_time(operator: Operator, left: &mut Expr, right: &mut Expr, schema: &DFSchema) {
    if !matches!(operator, Operator::Plus | Operator::Minus) {
        return;
    }
    let is_time_left = matches!(left.get_type(schema), Ok(DataType::Timestamp(..)));
    let (time, length) = if is_time_left { (left, &*right) } else { (right, &*left) };
    let Ok(DataType::Timestamp(unit, zone)) = time.get_type(schema) else { return };
    if let Some(finest) = unit_of_length(length, schema).filter(|finest| *finest > unit) {
        *time = cast(std::mem::take(time), DataType::Timestamp(finest, zone));
    }
}

/// The coarsest unit of times that holds a length; milliseconds where that is not known before it is computed, as Flink's lengths have them. `None` where it is no length.
fn unit_of_length(length: &Expr, schema: &DFSchema) -> Option<TimeUnit> {
    match length {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(written)), _) => Some(match written.nanoseconds {
            whole if whole % 1_000_000_000 == 0 => TimeUnit::Second,
            millis if millis % 1_000_000 == 0 => TimeUnit::Millisecond,
            _ => TimeUnit::Microsecond,
        }),
        Expr::Negative(length) => unit_of_length(length, schema),
        other => match (other.get_type(schema).ok()?, other) {
            (DataType::Duration(unit), _) => Some(unit.min(TimeUnit::Microsecond)),
            (DataType::Interval(_), Expr::BinaryExpr(sum)) => {
                unit_of_length(&sum.left, schema).max(unit_of_length(&sum.right, schema))
            }
            (DataType::Interval(_), _) => Some(TimeUnit::Millisecond),
            _ => None,
        },
    }
}

/// Refuses to compare months with days, of which none have always as many.
pub(crate) fn check_lengths(left: &Expr, right: &Expr, schema: &DFSchema) -> Result<()> {
    match (has_months(left, schema), has_months(right, schema)) {
        (Some(left), Some(right)) if left != right => {
            let error = PlanError::invalid(None, "an INTERVAL of months or years cannot be compared with one of days");
            let hint =
                "months vary in length: compare with days, or TIMESTAMPDIFF(MONTH, earlier, later) with a number";
            Err(external(error.with_hint(hint)))
        }
        _ => Ok(()),
    }
}

/// The microseconds that a constant length is, where it is not one of months. `purpose` names what it is for.
///
/// # Errors
/// Where it is longer than times can be apart.
pub(crate) fn micros_of_length(length: &ScalarValue, purpose: &str) -> std::result::Result<Option<Micros>, PlanError> {
    let (days, micros) = match length {
        ScalarValue::IntervalMonthDayNano(Some(length)) if length.months == 0 => {
            (length.days, length.nanoseconds / 1_000)
        }
        ScalarValue::IntervalDayTime(Some(length)) => (length.days, i64::from(length.milliseconds) * 1_000),
        _ => return Ok(None),
    };
    let micros = i64::from(days).checked_mul(MICROS_PER_DAY).and_then(|of_days| of_days.checked_add(micros));
    let too_long = || PlanError::invalid(None, format!("{purpose} is longer than 292,000 years"));
    micros.map(Some).ok_or_else(too_long)
}

/// Whether a length is one of months; `None` where it is none, or not known before it is computed.
fn has_months(expression: &Expr, schema: &DFSchema) -> Option<bool> {
    match expression {
        // Nothing is as long in months as in days.
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(length)), _) if *length == IntervalMonthDayNano::ZERO => {
            None
        }
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(length)), _) => Some(length.months != 0),
        Expr::Negative(length) => has_months(length, schema),
        other => matches!(other.get_type(schema), Ok(DataType::Duration(_))).then_some(false),
    }
}

/// `EXTRACT` of a length: what a clock has in this field that has counted it up from zero, or down, in whole numbers. `None` where the arguments are others, or the field
/// is none that lengths of this kind have.
pub(crate) fn field_of_length(arguments: &[Expr], schema: &DFSchema) -> Option<Expr> {
    let [Expr::Literal(field, _), length] = arguments else { return None };
    let field = field.try_as_str().flatten()?.to_ascii_uppercase();
    if let Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(length)), _) = length
        && length.months != 0
    {
        return Some(lit(match field.as_str() {
            "YEAR" => i64::from(length.months / MONTHS_PER_YEAR),
            "MONTH" => i64::from(length.months % MONTHS_PER_YEAR),
            _ => return None,
        }));
    }
    let (ticks, unit) = match length.get_type(schema).ok()? {
        DataType::Duration(unit) => (cast(length.clone(), DataType::Int64), unit),
        DataType::Interval(_) => {
            let unit = TimeUnit::Nanosecond;
            (cast(cast(length.clone(), DataType::Duration(unit)), DataType::Int64), unit)
        }
        _ => return None,
    };
    let per_second = ticks_per_second(unit);
    // Each field counts from 0 to where the next coarser one that it knows of goes up.
    let (field, coarser) = match field.as_str() {
        "DAY" => return Some(ticks / lit(86_400 * per_second)),
        "HOUR" => (3_600 * per_second, 86_400 * per_second),
        "MINUTE" => (60 * per_second, 3_600 * per_second),
        "SECOND" => (per_second, 60 * per_second),
        // As of times, these contain the seconds.
        "MILLISECOND" | "MICROSECOND" | "NANOSECOND" => {
            let per_second_now = match field.as_str() {
                "MILLISECOND" => 1_000,
                "MICROSECOND" => 1_000_000,
                _ => 1_000_000_000,
            };
            let of_minute = ticks % lit(60 * per_second);
            return Some(match per_second_now / per_second {
                0 => of_minute / lit(per_second / per_second_now),
                finer => of_minute * lit(finer),
            });
        }
        _ => return None,
    };
    Some(ticks % lit(coarser) / lit(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_centuries_have_one_form_as_well() {
        let form = |days, nanoseconds| {
            let length = of_equal_days(IntervalMonthDayNano::new(0, days, nanoseconds));
            (length.days, length.nanoseconds)
        };
        let day = NANOSECONDS_PER_DAY;
        assert_eq!(form(1, 5), (0, day + 5));
        assert_eq!(form(106_751, 0), (0, 106_751 * day));
        assert_eq!(form(-106_751, -5), (0, -106_751 * day - 5));
        assert_eq!(form(106_752, 0), (106_752, 0));
        assert_eq!(form(106_751, day), (106_752, 0));
        assert_eq!(form(200_000, 3 * day + 5), (200_003, 5));
        assert_eq!(form(200_000, -1), (199_999, day - 1));
        assert_eq!(form(-200_000, -5), (-200_001, day - 5));
        assert_eq!(form(i32::MAX, 2 * day), (i32::MAX, 2 * day));
    }
}
