//! Rows at a rate: how many are due by now, on the monotonic clock.

use std::time::{Duration, Instant};

/// Rows become due this often, so that fast streams still come in worthwhile numbers and no row waits long.
const TICK: Duration = Duration::from_millis(1);

/// Releases numbered rows at a constant rate from the first time it is asked.
///
/// A reader that falls behind finds the rows it missed due at once: the rate holds on average, whoever is slow.
#[derive(Debug)]
pub(crate) struct Pacer {
    rows: u64,
    per: Duration,
    started: Option<Instant>,
}

impl Pacer {
    /// `rows` rows every `per`. Neither is zero.
    pub(crate) fn new(rows: u64, per: Duration) -> Pacer {
        assert!(rows > 0 && !per.is_zero(), "a rate has a size");
        Pacer { rows, per, started: None }
    }

    /// How many of the rows from `row` on may leave now, at most `rows_max`; where none may, how long to wait.
    pub(crate) fn release(&mut self, row: u64, rows_max: u64) -> Result<u64, Duration> {
        let now = Instant::now();
        let started = *self.started.get_or_insert(now);
        self.release_after(now.duration_since(started), row, rows_max)
    }

    fn release_after(&self, elapsed: Duration, row: u64, rows_max: u64) -> Result<u64, Duration> {
        let ticks = elapsed.as_nanos() / TICK.as_nanos();
        // The first row is due at once, so that slow streams show signs of life.
        let due = ticks * TICK.as_nanos() * u128::from(self.rows) / self.per.as_nanos() + 1;
        let released = due.saturating_sub(u128::from(row)).min(u128::from(rows_max));
        if released > 0 {
            return Ok(released as u64);
        }
        let due_ns = (u128::from(row) * self.per.as_nanos()).div_ceil(u128::from(self.rows));
        let due_tick_ns = due_ns.div_ceil(TICK.as_nanos()) * TICK.as_nanos();
        let wait_ns = due_tick_ns.saturating_sub(elapsed.as_nanos()).min(u128::from(u64::MAX));
        Err(Duration::from_nanos(wait_ns as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_due_at_the_rate_and_waits_end_when_one_is() {
        let pacer = Pacer::new(10, Duration::from_secs(1));
        let at = |ms: u64, row, rows_max| pacer.release_after(Duration::from_millis(ms), row, rows_max);
        assert_eq!(at(0, 0, 100), Ok(1));
        assert_eq!(at(0, 1, 100), Err(Duration::from_millis(100)));
        assert_eq!(at(99, 1, 100), Err(Duration::from_millis(1)));
        assert_eq!(at(100, 1, 100), Ok(1));
        assert_eq!(at(1_000, 1, 100), Ok(10));
        assert_eq!(at(1_000, 1, 3), Ok(3));
        // However slow the reader is and however it cuts, after a second of ten rows the eleventh is due.
        assert_eq!(at(1_000, 11, 3), Err(Duration::from_millis(100)));
    }

    #[test]
    fn waits_end_at_ticks() {
        let pacer = Pacer::new(3_000_000, Duration::from_secs(1));
        let elapsed = Duration::from_micros(1_500);
        assert_eq!(pacer.release_after(elapsed, 0, u64::MAX), Ok(3_001));
        assert_eq!(pacer.release_after(elapsed, 3_001, u64::MAX), Err(Duration::from_micros(500)));
    }
}
