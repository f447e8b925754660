//! How long after something what came of it was written: in all, and of late.

use std::time::Duration;

use hdrhistogram::Histogram;
use pelton_data::Origin;
use pelton_data::time::WATERMARK_MIN;

use crate::clock::Clock;

/// What is recent is between one and two of these old.
const RECENT: Duration = Duration::from_secs(10);

/// How long after something what came of it was written: to three digits, one value a batch.
#[derive(Debug, Clone)]
pub struct Latency {
    /// From reading the last input that a result needed to writing the result, in nanoseconds, up to a minute and a half.
    pub processing_ns: Histogram<u64>,
    /// From the newest event time of the rows, of windows' rows from the end of the window, to writing the result, by the machine's clock, in
    /// microseconds. Of rows from years ago, replayed, that is years; rows that are ahead of the clock count as 0, those without an event time not at all.
    pub event_time_us: Histogram<u64>,
}

impl Default for Latency {
    /// Of nothing so far.
    fn default() -> Latency {
        let bounds = "the bounds are those of a histogram";
        Latency {
            processing_ns: Histogram::new_with_bounds(1, 100_000_000_000, 3).expect(bounds),
            // It grows: nobody knows how old rows are.
            event_time_us: Histogram::new(3).expect(bounds),
        }
    }
}

impl Latency {
    /// Notes that what comes from there was written at that instant of the clock.
    fn record(&mut self, origin: Origin, at_ns: u64, clock: &Clock) {
        self.processing_ns.saturating_record(at_ns.saturating_sub(origin.ingested_ns));
        if origin.event_time > WATERMARK_MIN {
            let behind_us = clock.micros_at(at_ns).saturating_sub(origin.event_time);
            self.event_time_us.record(behind_us.max(0) as u64).expect("the histogram grows");
        }
    }

    pub(crate) fn add(&mut self, other: &Latency) {
        // They have the same bounds, or none.
        self.processing_ns.add(&other.processing_ns).expect("a latency fits");
        self.event_time_us.add(&other.event_time_us).expect("the histogram grows");
    }

    /// Forgets what had been recorded when this was all.
    pub(crate) fn subtract(&mut self, earlier: &Latency) {
        let less = "what was recorded earlier is a part of what was since";
        self.processing_ns.subtract(&earlier.processing_ns).expect(less);
        self.event_time_us.subtract(&earlier.event_time_us).expect(less);
    }

    fn forget(&mut self) {
        // Memory of a histogram that nothing was recorded in has never been touched.
        if !self.processing_ns.is_empty() {
            self.processing_ns.reset();
            self.event_time_us.reset();
        }
    }
}

/// Since a run began, and of late.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    all: Latency,
    /// Since the last turn,
    now: Latency,
    /// and from the turn before to that one.
    before: Latency,
    turned_ns: u64,
}

impl Latencies {
    /// Notes that what comes from there was written at that instant of the clock.
    pub fn record(&mut self, origin: Origin, at_ns: u64, clock: &Clock) {
        self.turn(at_ns);
        self.all.record(origin, at_ns, clock);
        self.now.record(origin, at_ns, clock);
    }

    /// Since the run began.
    pub fn all(&self) -> &Latency {
        &self.all
    }

    /// At that instant of the clock, of the last ten seconds, and up to twenty.
    pub fn recent(&mut self, at_ns: u64) -> Latency {
        self.turn(at_ns);
        let mut recent = self.now.clone();
        recent.add(&self.before);
        recent
    }

    fn turn(&mut self, at_ns: u64) {
        let turns = at_ns.saturating_sub(self.turned_ns) / RECENT.as_nanos() as u64;
        if turns == 0 {
            return;
        }
        self.before.forget();
        if turns == 1 {
            std::mem::swap(&mut self.before, &mut self.now);
        } else {
            self.now.forget();
        }
        self.turned_ns += turns * RECENT.as_nanos() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recent_is_forgotten() {
        let clock = Clock::default();
        let mut latencies = Latencies::default();
        let origin = |ingested_ns| Origin { ingested_ns, event_time: WATERMARK_MIN };
        let second = 1_000_000_000_u64;
        latencies.record(origin(10), 1_010, &clock);
        latencies.record(origin(11 * second), 11 * second + 5_000, &clock);
        let recent = |latencies: &mut Latencies, at_s: u64| {
            let latency_ns = latencies.recent(at_s * second).processing_ns;
            (latency_ns.len(), latency_ns.max() / 1_000)
        };
        assert_eq!(recent(&mut latencies, 19), (2, 5));
        assert_eq!(recent(&mut latencies, 20), (1, 5), "the first is twenty seconds old");
        assert_eq!(recent(&mut latencies, 29), (1, 5));
        latencies.record(origin(29 * second), 29 * second + 7_000, &clock);
        assert_eq!(recent(&mut latencies, 100), (0, 0));
        latencies.record(origin(101 * second), 101 * second + 9_000, &clock);
        assert_eq!(recent(&mut latencies, 101), (1, 9));
        assert_eq!((latencies.all().processing_ns.len(), latencies.all().processing_ns.max()), (4, 9_000 + 7));
    }

    #[test]
    fn what_came_since_an_earlier_look_is_told_apart() {
        let clock = Clock::Manual(Default::default());
        let mut latencies = Latencies::default();
        let origin = Origin { ingested_ns: 0, event_time: 1 };
        latencies.record(origin, 4_000, &clock);
        let mut earlier = latencies.all().clone();
        latencies.record(origin, 9_000, &clock);
        let mut since = latencies.all().clone();
        since.subtract(&earlier);
        assert_eq!((since.processing_ns.len(), since.event_time_us.len()), (1, 1));
        assert_eq!(since.processing_ns.value_at_quantile(0.0) / 1_000, 9);
        earlier.subtract(&earlier.clone());
        assert!(earlier.processing_ns.is_empty());
    }

    #[test]
    fn latency_by_event_time_is_that_of_rows_which_have_one() {
        let clock = Clock::Manual(Default::default());
        let mut latency = Latency::default();
        // Milliseconds after 1970 at which a row's time is, if it has one, and it was read and written.
        for (event_ms, read_ms, written_ms) in [(Some(300), 500, 507), (None, 600, 609), (Some(2_000), 700, 711)] {
            let event_time = event_ms.map_or(WATERMARK_MIN, |ms| ms * 1_000);
            latency.record(Origin { ingested_ns: read_ms * 1_000_000, event_time }, written_ms * 1_000_000, &clock);
        }
        let ends = |histogram: &Histogram<u64>, unit: u64| {
            [histogram.len(), (histogram.min() + unit / 2) / unit, (histogram.max() + unit / 2) / unit]
        };
        assert_eq!(ends(&latency.processing_ns, 1_000_000), [3, 7, 11]);
        // What is ahead of the clock is not behind it.
        assert_eq!(ends(&latency.event_time_us, 1_000), [2, 0, 207]);
    }
}
