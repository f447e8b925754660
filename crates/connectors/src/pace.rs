//! Rows at a rate: how many are due by now, on the monotonic clock.

use std::time::{Duration, Instant};

use crate::ConnectorError;
use crate::options::{Options, parse_duration};

/// Rows become due this often, so that fast streams still come in worthwhile numbers and no row waits long.
const TICK: Duration = Duration::from_millis(1);

/// What becomes of rows that are due and not read, because the engine has more than it can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overload {
    /// They wait: all are read in the end, late.
    Wait,
    /// Those that are not read so long after they were due are dropped, and counted.
    Drop { delay_max: Duration },
}

impl Overload {
    /// `on-overload` [`wait`; or `drop`], and `on-overload.delay` [100 ms].
    ///
    /// # Errors
    /// Where an option makes no sense, or the rows have no pace: those that are made as they are read are never too late.
    pub(crate) fn of(options: &Options, has_pace: bool) -> Result<Overload, ConnectorError> {
        let drops = options.choice("on-overload", &[("wait", false), ("drop", true)])?.unwrap_or(false);
        let given = options.duration("on-overload.delay")?;
        match (drops, given) {
            (true, _) if !has_pace => {
                let problem = "is 'drop', which needs rows that come at a rate: 'pace' = 'real-time', or 'rows-per-second' of a replay";
                Err(ConnectorError::option("on-overload", problem))
            }
            (true, given) => {
                Ok(Overload::Drop { delay_max: options.or_default("on-overload.delay", given, parse_duration) })
            }
            (false, Some(_)) => Err(ConnectorError::option("on-overload.delay", "needs 'on-overload' = 'drop'")),
            (false, None) => Ok(Overload::Wait),
        }
    }
}

/// Rows that may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Release {
    /// So many are left out first.
    pub dropped: u64,
    /// The next so many may leave.
    pub rows: u64,
}

/// Releases numbered rows at a constant rate from the first time it is asked.
///
/// A reader that falls behind finds the rows it missed due at once, as far as they may still be read: the rate holds on average, whoever is slow.
#[derive(Debug)]
pub(crate) struct Pacer {
    rows: u64,
    per: Duration,
    overload: Overload,
    started: Option<Instant>,
}

impl Pacer {
    /// `rows` rows every `per`. Neither is zero.
    pub(crate) fn new(rows: u64, per: Duration, overload: Overload) -> Pacer {
        assert!(rows > 0 && !per.is_zero(), "a rate has a size");
        Pacer { rows, per, overload, started: None }
    }

    /// Has the rows before `row` count as released in time: the rate holds from now on.
    pub(crate) fn start_at(&mut self, row: u64) {
        let elapsed_ns = u128::from(row) * self.per.as_nanos() / u128::from(self.rows);
        let elapsed = Duration::from_nanos(u64::try_from(elapsed_ns).unwrap_or(u64::MAX));
        // No source has released rows for longer than there is a clock.
        self.started = Some(Instant::now().checked_sub(elapsed).unwrap_or_else(Instant::now));
    }

    /// How many of the `left` rows from `row` on may leave now; where none may, how long to wait.
    pub(crate) fn release(&mut self, row: u64, left: u64) -> Result<Release, Duration> {
        let now = Instant::now();
        let started = *self.started.get_or_insert(now);
        self.release_after(now.duration_since(started), row, left)
    }

    fn release_after(&self, elapsed: Duration, row: u64, left: u64) -> Result<Release, Duration> {
        let due = self.due_after(elapsed).saturating_sub(u128::from(row)).min(u128::from(left)) as u64;
        if due > 0 {
            let dropped = match self.overload {
                Overload::Wait => 0,
                Overload::Drop { delay_max } => elapsed.checked_sub(delay_max).map_or(0, |elapsed| {
                    let too_late = self.due_after(elapsed).saturating_sub(u128::from(row));
                    // The last one leaves: it says how far time has come, and how many were dropped before it.
                    too_late.min(u128::from(due - 1)) as u64
                }),
            };
            return Ok(Release { dropped, rows: due - dropped });
        }
        let due_ns = (u128::from(row) * self.per.as_nanos()).div_ceil(u128::from(self.rows));
        let due_tick_ns = due_ns.div_ceil(TICK.as_nanos()) * TICK.as_nanos();
        let wait_ns = due_tick_ns.saturating_sub(elapsed.as_nanos()).min(u128::from(u64::MAX));
        Err(Duration::from_nanos(wait_ns as u64))
    }

    /// How many rows are due after so long. The first is at once, so that slow streams show signs of life.
    fn due_after(&self, elapsed: Duration) -> u128 {
        let ticks = elapsed.as_nanos() / TICK.as_nanos();
        ticks * TICK.as_nanos() * u128::from(self.rows) / self.per.as_nanos() + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_due_at_the_rate_and_waits_end_when_one_is() {
        let pacer = Pacer::new(10, Duration::from_secs(1), Overload::Wait);
        let at = |ms: u64, row, left| {
            pacer.release_after(Duration::from_millis(ms), row, left).map(|release| {
                assert_eq!(release.dropped, 0);
                release.rows
            })
        };
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
        let pacer = Pacer::new(3_000_000, Duration::from_secs(1), Overload::Wait);
        let elapsed = Duration::from_micros(1_500);
        assert_eq!(pacer.release_after(elapsed, 0, u64::MAX), Ok(Release { dropped: 0, rows: 3_001 }));
        assert_eq!(pacer.release_after(elapsed, 3_001, u64::MAX), Err(Duration::from_micros(500)));
    }

    #[test]
    fn rows_that_are_read_too_late_are_dropped_but_for_the_last() {
        let overload = Overload::Drop { delay_max: Duration::from_millis(200) };
        let pacer = Pacer::new(10, Duration::from_secs(1), overload);
        let at = |ms: u64, row, left| pacer.release_after(Duration::from_millis(ms), row, left);
        assert_eq!(at(200, 1, 100), Ok(Release { dropped: 0, rows: 2 }));
        // After a second, rows 0 to 10 are due, and 0 to 8 have been for longer than 200 ms.
        assert_eq!(at(1_000, 0, 100), Ok(Release { dropped: 9, rows: 2 }));
        assert_eq!(at(1_000, 9, 100), Ok(Release { dropped: 0, rows: 2 }));
        assert_eq!(at(1_000, 11, 100), Err(Duration::from_millis(100)));
        assert_eq!(at(9_000, 5, 3), Ok(Release { dropped: 2, rows: 1 }));
    }
}
