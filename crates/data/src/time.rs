//! Event time, watermarks and their one unit.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampSecondType,
};

/// Microseconds since 1970-01-01T00:00:00Z. Event times, watermarks and window bounds all have this unit inside the
/// engine; columns keep the unit of their SQL type.
pub type Micros = i64;

/// The watermark before any row: no time has passed.
pub const WATERMARK_MIN: Micros = Micros::MIN;

/// The watermark after the last row of a bounded input: all time has passed.
pub const WATERMARK_MAX: Micros = Micros::MAX;

/// The smallest and largest event time of a block's rows, both inclusive, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    /// Smallest event time, inclusive.
    pub min: Micros,
    /// Largest event time, inclusive.
    pub max: Micros,
}

/// Microseconds in one tick of a timestamp column, or `None` where the type is no timestamp of whole microseconds.
pub fn micros_per_tick(data_type: &DataType) -> Option<i64> {
    match data_type {
        DataType::Timestamp(TimeUnit::Second, _) => Some(1_000_000),
        DataType::Timestamp(TimeUnit::Millisecond, _) => Some(1_000),
        DataType::Timestamp(TimeUnit::Microsecond, _) => Some(1),
        _ => None,
    }
}

/// The times of a timestamp column in a coarser unit: what is finer is left out, so that no time gets later, those before 1970 neither. `None` where
/// the unit is not coarser.
pub fn coarser(times: &ArrayRef, unit: TimeUnit) -> Option<ArrayRef> {
    let DataType::Timestamp(finer, zone) = times.data_type() else { return None };
    let divisor = ticks_per_second(*finer) / ticks_per_second(unit);
    if divisor <= 1 {
        return None;
    }
    let ticks = cast(times, &DataType::Int64).expect("timestamps are 64-bit integers");
    let ticks: Int64Array = ticks.as_primitive::<Int64Type>().unary(|tick| tick.div_euclid(divisor));
    Some(match unit {
        TimeUnit::Second => {
            Arc::new(ticks.reinterpret_cast::<TimestampSecondType>().with_timezone_opt(zone.clone())) as ArrayRef
        }
        TimeUnit::Millisecond => {
            Arc::new(ticks.reinterpret_cast::<TimestampMillisecondType>().with_timezone_opt(zone.clone()))
        }
        _ => Arc::new(ticks.reinterpret_cast::<TimestampMicrosecondType>().with_timezone_opt(zone.clone())),
    })
}

/// The ticks since 1970 of all instants that a number can stand for.
pub fn instant_ticks(unit: TimeUnit) -> RangeInclusive<i64> {
    let per_second = ticks_per_second(unit);
    // As seconds: 0000-01-01 00:00:00, and 9999-12-31 23:59:59. Nanoseconds do not reach as far.
    let (first, last) = (-62_167_219_200_i64, 253_402_300_800_i64);
    first.saturating_mul(per_second)..=last.saturating_mul(per_second).saturating_sub(1)
}

/// Ticks of this unit in a second.
pub fn ticks_per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Start of the tumbling slice of `size` that holds `time`, for slices that begin at `offset` plus multiples of `size`.
///
/// Saturates at the ends of representable time.
pub fn slice_start(time: Micros, size: Micros, offset: Micros) -> Micros {
    debug_assert!(size > 0);
    if let Some(since) = time.checked_sub(offset) {
        return time.saturating_sub(since.rem_euclid(size));
    }
    let since = i128::from(time) - i128::from(offset);
    let start = since.div_euclid(i128::from(size)) * i128::from(size) + i128::from(offset);
    start.clamp(i128::from(Micros::MIN), i128::from(Micros::MAX)) as Micros
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_hold_negative_times_and_offsets() {
        assert_eq!(slice_start(0, 10, 0), 0);
        assert_eq!(slice_start(9, 10, 0), 0);
        assert_eq!(slice_start(10, 10, 0), 10);
        assert_eq!(slice_start(-1, 10, 0), -10);
        assert_eq!(slice_start(2, 10, 3), -7);
        assert_eq!(slice_start(3, 10, 3), 3);
        assert_eq!(slice_start(3, 10, -7), 3);
        assert_eq!(slice_start(Micros::MIN, 10, 3), Micros::MIN);
    }
}
