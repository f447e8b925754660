//! How long after something what came of it was written: in all, and of late.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use pelton_data::Origin;
use pelton_data::time::WATERMARK_MIN;

use crate::clock::Clock;

/// What is recent is between one and two of these old.
const RECENT: Duration = Duration::from_secs(10);

/// Processing that takes longer counts as this: about two minutes.
const PROCESSING_NS_MAX: u64 = (1 << 37) - 1;

/// How long after something what came of it was written: to three digits, one value a batch.
#[derive(Debug, Clone)]
pub struct Latency {
    /// From reading the last input that a result needed to writing the result, in nanoseconds, up to two minutes.
    pub processing_ns: Histogram<u64>,
    /// From the newest event time of the rows, of windows' rows from the end of the window, to writing the result, by the machine's clock, in
    /// microseconds. Of rows from years ago, replayed, that is years; rows that are ahead of the clock count as 0, those without an event time not at all.
    pub event_time_us: Histogram<u64>,
}

impl Default for Latency {
    /// Of nothing so far.
    fn default() -> Latency {
        // They grow with what is recorded.
        let histogram = || Histogram::new(3).expect("the bounds are those of a histogram");
        Latency { processing_ns: histogram(), event_time_us: histogram() }
    }
}

impl Latency {
    pub(crate) fn add(&mut self, other: &Latency) {
        let grows = "the histogram grows";
        self.processing_ns.add(&other.processing_ns).expect(grows);
        self.event_time_us.add(&other.event_time_us).expect(grows);
    }

    /// Forgets what had been recorded when this was all.
    pub(crate) fn subtract(&mut self, earlier: &Latency) {
        let less = "what was recorded earlier is a part of what was since";
        self.processing_ns.subtract(&earlier.processing_ns).expect(less);
        self.event_time_us.subtract(&earlier.event_time_us).expect(less);
    }
}

/// Since a run began, and of late. Takes memory only for what was recorded: a process may have thousands of outputs that write next to nothing.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    all: Recorded,
    /// Since the last turn,
    now: Recorded,
    /// and from the turn before to that one.
    before: Recorded,
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
    pub fn all(&self) -> Latency {
        latency_of([&self.all])
    }

    /// At that instant of the clock, of the last ten seconds, and up to twenty.
    pub fn recent(&mut self, at_ns: u64) -> Latency {
        self.turn(at_ns);
        latency_of([&self.now, &self.before])
    }

    fn turn(&mut self, at_ns: u64) {
        let turns = at_ns.saturating_sub(self.turned_ns) / RECENT.as_nanos() as u64;
        if turns == 0 {
            return;
        }
        let now = std::mem::take(&mut self.now);
        self.before = if turns == 1 { now } else { Recorded::default() };
        self.turned_ns += turns * RECENT.as_nanos() as u64;
    }
}

/// What was recorded in some of the times together.
fn latency_of<const N: usize>(recorded: [&Recorded; N]) -> Latency {
    let mut latency = Latency::default();
    for Recorded { processing_ns, event_time_us } in recorded {
        processing_ns.add_to(&mut latency.processing_ns);
        event_time_us.add_to(&mut latency.event_time_us);
    }
    latency
}

/// What a [`Latency`] is made of.
#[derive(Debug, Default)]
struct Recorded {
    processing_ns: Counts,
    event_time_us: Counts,
}

impl Recorded {
    /// Notes that what comes from there was written at that instant of the clock.
    fn record(&mut self, origin: Origin, at_ns: u64, clock: &Clock) {
        self.processing_ns.record(at_ns.saturating_sub(origin.ingested_ns).min(PROCESSING_NS_MAX));
        if origin.event_time > WATERMARK_MIN {
            let behind_us = clock.micros_at(at_ns).saturating_sub(origin.event_time);
            self.event_time_us.record(behind_us.max(0) as u64);
        }
    }
}

/// How often there was each value, to three digits, in the buckets of a histogram of that precision: below 2 to [`DIGIT_BITS`] one for each value, and above that half as
/// many for each power of two. A histogram takes hundreds of kilobytes whatever it has counted; here it is a page for values that lie close together.
#[derive(Debug, Default)]
struct Counts(BTreeMap<usize, Box<[u64; PAGE_BUCKETS]>>);

/// Values of so many bits are told apart: three digits.
const DIGIT_BITS: u32 = 11;

/// Buckets of a page.
const PAGE_BUCKETS: usize = 128;

impl Counts {
    fn record(&mut self, value: u64) {
        let bucket = bucket_of(value);
        let page = self.0.entry(bucket / PAGE_BUCKETS).or_insert_with(|| Box::new([0; PAGE_BUCKETS]));
        page[bucket % PAGE_BUCKETS] += 1;
    }

    fn add_to(&self, histogram: &mut Histogram<u64>) {
        for (page, counts) in &self.0 {
            for (index, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                let value = least_of(page * PAGE_BUCKETS + index);
                histogram.record_n(value, count).expect("the histogram grows");
            }
        }
    }
}

/// The bucket of a value.
fn bucket_of(value: u64) -> usize {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(DIGIT_BITS);
    ((shift as usize) << (DIGIT_BITS - 1)) + (value >> shift) as usize
}

/// The least value of a bucket.
fn least_of(bucket: usize) -> u64 {
    let shift = (bucket >> (DIGIT_BITS - 1)).saturating_sub(1);
    ((bucket - (shift << (DIGIT_BITS - 1))) as u64) << shift
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
        let mut earlier = latencies.all();
        latencies.record(origin, 9_000, &clock);
        let mut since = latencies.all();
        since.subtract(&earlier);
        assert_eq!((since.processing_ns.len(), since.event_time_us.len()), (1, 1));
        assert_eq!(since.processing_ns.value_at_quantile(0.0) / 1_000, 9);
        earlier.subtract(&earlier.clone());
        assert!(earlier.processing_ns.is_empty());
    }

    #[test]
    fn latency_by_event_time_is_that_of_rows_which_have_one() {
        let clock = Clock::Manual(Default::default());
        let mut latencies = Latencies::default();
        // Milliseconds after 1970 at which a row's time is, if it has one, and it was read and written.
        for (event_ms, read_ms, written_ms) in [(Some(300), 500, 507), (None, 600, 609), (Some(2_000), 700, 711)] {
            let event_time = event_ms.map_or(WATERMARK_MIN, |ms| ms * 1_000);
            latencies.record(Origin { ingested_ns: read_ms * 1_000_000, event_time }, written_ms * 1_000_000, &clock);
        }
        let latency = latencies.all();
        let ends = |histogram: &Histogram<u64>, unit: u64| {
            [histogram.len(), (histogram.min() + unit / 2) / unit, (histogram.max() + unit / 2) / unit]
        };
        assert_eq!(ends(&latency.processing_ns, 1_000_000), [3, 7, 11]);
        // What is ahead of the clock is not behind it.
        assert_eq!(ends(&latency.event_time_us, 1_000), [2, 0, 207]);
    }

    #[test]
    fn values_are_in_the_buckets_of_a_histogram() {
        let mut expected = Histogram::<u64>::new(3).unwrap();
        let mut counts = Counts::default();
        let around = (0..60).flat_map(|bits| [-1, 0, 1, 777].map(|more| (1_i64 << bits) + more));
        for value in around.chain(0..5_000).chain([PROCESSING_NS_MAX as i64]).map(|value| value as u64) {
            let bucket = bucket_of(value);
            assert!(least_of(bucket) <= value && value < least_of(bucket + 1), "{value}");
            expected.record(value).unwrap();
            counts.record(value);
        }
        let mut counted = Histogram::<u64>::new(3).unwrap();
        counts.add_to(&mut counted);
        let quantiles = (0..=1_000).map(|thousandths| f64::from(thousandths) / 1_000.0);
        for quantile in quantiles {
            assert_eq!(counted.value_at_quantile(quantile), expected.value_at_quantile(quantile), "{quantile}");
        }
        let figures = |histogram: &Histogram<u64>| (histogram.len(), histogram.min(), histogram.max());
        assert_eq!((figures(&counted), counted.mean()), (figures(&expected), expected.mean()));
    }
}
