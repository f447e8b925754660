//! How many bids came and how long their results took, over time.

use std::collections::VecDeque;
use std::time::Duration;

use pelton::progress::Progress;

use crate::print::short;

/// How often a sample is taken.
const INTERVAL: Duration = Duration::from_millis(500);

/// Samples kept: more than a chart has room for.
const SAMPLES_MAX: usize = 256;

/// Samples so far, oldest first.
#[derive(Debug, Default)]
pub struct History {
    /// Bids a second.
    pub bids_per_s: VecDeque<u64>,
    /// The 99th percentile of the time from a window's last bid to its result, in microseconds.
    pub p99_us: VecDeque<u64>,
    /// What had been done when the last sample was taken.
    last: Option<Progress>,
}

impl History {
    /// Takes a sample where it is time for one.
    pub fn note(&mut self, progress: &Progress) {
        let before = self.last.as_ref();
        let elapsed = progress.elapsed.saturating_sub(before.map_or(Duration::ZERO, |before| before.elapsed));
        if elapsed < INTERVAL {
            return;
        }
        let new_bids = bids(progress) - before.map_or(0, bids);
        let bids_per_s = (new_bids as f64 / elapsed.as_secs_f64()) as u64;
        let p99 = p99_us(progress, before).or(self.p99_us.back().copied());
        push(&mut self.bids_per_s, bids_per_s);
        push(&mut self.p99_us, p99.unwrap_or(0));
        self.last = Some(progress.clone());
    }

    /// As last sampled; before the first sample, since the query began.
    pub fn bids_per_s(&self, progress: &Progress) -> f64 {
        let average = || bids(progress) as f64 / progress.elapsed.as_secs_f64().max(1e-3);
        self.bids_per_s.back().map_or_else(average, |sample| *sample as f64)
    }

    /// The latency of the last results, in words.
    pub fn latency_text(&self, progress: &Progress) -> String {
        let sample = self.p99_us.back().copied().filter(|us| *us > 0);
        text(sample.or_else(|| p99_us(progress, None)))
    }
}

/// The latency of all results so far, in words.
pub fn latency_text(progress: &Progress) -> String {
    text(p99_us(progress, None))
}

/// Microseconds or milliseconds, in words.
pub fn duration(us: u64) -> String {
    if us < 1000 { format!("{us} µs") } else { format!("{} ms", short_ms(us)) }
}

fn short_ms(us: u64) -> String {
    if us < 100_000 { format!("{:.1}", us as f64 / 1e3) } else { short(us as f64 / 1e3) }
}

fn text(p99_us: Option<u64>) -> String {
    p99_us.map_or("no result yet".to_owned(), |us| format!("results {} after the last bid (p99)", duration(us)))
}

fn p99_us(progress: &Progress, since: Option<&Progress>) -> Option<u64> {
    let latency = since.map_or_else(|| progress.latency(), |since| progress.latency_since(since));
    latency.processing(0.99).map(|p99| (p99.as_micros() as u64).max(1))
}

fn bids(progress: &Progress) -> u64 {
    progress.sources.iter().map(|source| source.rows).sum()
}

fn push(samples: &mut VecDeque<u64>, sample: u64) {
    if samples.len() == SAMPLES_MAX {
        samples.pop_front();
    }
    samples.push_back(sample);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit_that_suits_them() {
        assert_eq!([250, 1_250, 2_000_000].map(duration), ["250 µs", "1.2 ms", "2.0 k ms"]);
    }

    #[test]
    fn old_samples_go() {
        let mut samples = VecDeque::new();
        (0..SAMPLES_MAX as u64 + 3).for_each(|sample| push(&mut samples, sample));
        assert_eq!((samples.len(), samples.front(), samples.back()), (SAMPLES_MAX, Some(&3), Some(&258)));
    }
}
