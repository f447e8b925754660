//! Event time, watermarks and their one unit.

use arrow::datatypes::{DataType, TimeUnit};

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
