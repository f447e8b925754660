//! `TO_TIMESTAMP_LTZ`: numbers and texts as instants.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit};
use datafusion_common::{Result, exec_err};
use pelton_data::time::instant_ticks;

use super::timestamps;
use crate::casting;
use crate::time::zoned::Zones;

/// TIMESTAMP_LTZ(3)
pub(crate) fn millis(_: &[DataType]) -> DataType {
    DataType::Timestamp(TimeUnit::Millisecond, Some("+00:00".into()))
}

/// TIMESTAMP_LTZ(6)
pub(crate) fn micros(_: &[DataType]) -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()))
}

/// The most digits of a second that an instant has.
const PRECISION_MAX: i64 = 6;

/// `TO_TIMESTAMP_LTZ(number[, precision])` and `TO_TIMESTAMP_LTZ(text[, pattern[, zone]])`. Numbers count seconds (0) to microseconds (6), milliseconds unless
/// told otherwise; texts are in UTC unless told otherwise. NULL where a text is no time, or a number no instant of the years 0 to 9999.
pub(crate) fn to_instant(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let target = match arguments.get(1) {
        Some(precision) if precision.data_type().is_integer() && is_fine(precision) => micros(&[]),
        _ => millis(&[]),
    };
    let instants = match arguments[0].data_type().is_string() {
        true => of_texts(arguments)?,
        false => of_numbers(&arguments[0], arguments.get(1))?,
    };
    let instants = cast(&instants, &micros(&[]))?;
    Ok(casting::cast(&instants, &target, true)?)
}

/// Whether numbers are finer than milliseconds; all rows have the same precision, which is a literal.
fn is_fine(precision: &ArrayRef) -> bool {
    let precision = cast(precision, &DataType::Int64).expect("integers are 64-bit ones");
    let precision = precision.as_primitive::<Int64Type>();
    precision.iter().next().flatten().is_some_and(|digits| digits > 3)
}

fn of_texts(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let times = timestamps(&arguments[..arguments.len().min(2)])?;
    let mut zones = Zones::new(arguments.get(2));
    let micros = times.into_iter().enumerate().map(|(row, time)| {
        let Some(zone) = zones.at(row)? else { return Ok(None) };
        Ok(time.map(|time| zone.instant(time.and_utc().timestamp_micros())))
    });
    Ok(Arc::new(micros.collect::<Result<Int64Array>>()?))
}

fn of_numbers(numbers: &ArrayRef, precisions: Option<&ArrayRef>) -> Result<ArrayRef> {
    let precisions = precisions.map(|precisions| cast(precisions, &DataType::Int64)).transpose()?;
    let precision = |row: usize| match &precisions {
        None => Ok(Some(3)),
        Some(precisions) if precisions.is_null(row) => Ok(None),
        Some(precisions) => match precisions.as_primitive::<Int64Type>().value(row) {
            digits @ 0..=PRECISION_MAX => Ok(Some(digits as u32)),
            other => exec_err!("the precision of TO_TIMESTAMP_LTZ is a number from 0 to 6, not {other}"),
        },
    };
    let known = instant_ticks(TimeUnit::Microsecond);
    let checked = |micros: Option<i64>| micros.filter(|micros| known.contains(micros));
    let rows = 0..numbers.len();
    let micros: Result<Int64Array> = if numbers.data_type().is_floating() {
        let numbers = cast(numbers, &DataType::Float64)?;
        let numbers = numbers.as_primitive::<Float64Type>();
        let micros = |row: usize, digits: u32| {
            // Coarse numbers have a fraction, down to milliseconds.
            let ticks = numbers.value(row) * 10_f64.powi(3_i32.saturating_sub(digits as i32).max(0));
            let per_tick = 10_i64.pow(6 - digits.max(3));
            ticks.is_finite().then(|| (ticks.floor() as i64).checked_mul(per_tick)).flatten()
        };
        let value =
            |row: usize| Ok(precision(row)?.filter(|_| numbers.is_valid(row)).and_then(|p| checked(micros(row, p))));
        rows.map(value).collect()
    } else {
        let whole = match numbers.data_type() {
            DataType::Decimal128(_, scale) => whole_part(numbers, *scale),
            _ => cast(numbers, &DataType::Int64)?,
        };
        let whole = whole.as_primitive::<Int64Type>();
        let micros = |row: usize, digits: u32| whole.value(row).checked_mul(10_i64.pow(6 - digits));
        let value =
            |row: usize| Ok(precision(row)?.filter(|_| whole.is_valid(row)).and_then(|p| checked(micros(row, p))));
        rows.map(value).collect()
    };
    Ok(Arc::new(micros?))
}

/// Decimals without what stands behind the point; NULL where they are too large for instants.
fn whole_part(decimals: &ArrayRef, scale: i8) -> ArrayRef {
    let one = 10_i128.pow(scale.unsigned_abs().into());
    let decimals = decimals.as_primitive::<arrow::datatypes::Decimal128Type>();
    let whole = decimals.iter().map(|decimal| i64::try_from(decimal? / one).ok());
    Arc::new(whole.collect::<Int64Array>())
}
