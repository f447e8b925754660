//! How a query fares: whether its rows wait longer and longer, and from what on its operators are worth a worker (Enjima, equations 3 and 5).

/// Pending work from which on an operator is worth a worker, in nanoseconds: to begin with, at most, and the most by which that changes at once.
///
/// The paper counts rows, a thousand to begin with, of which each costs its system hundreds of nanoseconds. Here rows cost from a fraction of one
/// to hundreds, and to give an operator to a worker costs about as much as this begins with.
const WORK_THRESHOLD_NS: Bounds = Bounds { first: 1e3, most: 1e4, step: 1e3 };

/// How long an operator is left alone that has less, in nanoseconds. The paper's is ten times as long at first, and up to a hundred: so long
/// results waited for their output while inputs were read.
const IDLE_THRESHOLD_NS: Bounds = Bounds { first: 1e5, most: 1e6, step: 1e5 };

/// Longer than this no operator waits for others that are more urgent.
pub(crate) const WAIT_NS_MAX: u64 = 100_000_000;

struct Bounds {
    first: f64,
    most: f64,
    step: f64,
}

/// The state of one query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Load {
    /// Time that workers have spent on it, as [`crate::scheduler::pool`] counts it.
    pub served_ns: u64,
    /// More than 1 where its rows wait longer and longer: equation 3.
    pub weight: f64,
    pub thresholds: Thresholds,
    /// Before they were changed last.
    thresholds_before: Thresholds,
    gradient_before: f64,
    /// The turn in which a walk over all operators began.
    pub walk_began: u64,
    /// Of rows that were done with since the last look.
    latency_sum_ns: f64,
    latency_count: u64,
    /// At the last look that had any.
    latency_ns: Option<f64>,
}

/// From what on an operator is worth a worker.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Thresholds {
    /// What waits takes so long,
    pub work_ns: f64,
    /// or it has not run for so long.
    pub idle_ns: f64,
}

/// What a query has done, at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mark {
    pub at_ns: u64,
    pub rows_in: u64,
    pub rows_out: u64,
    pub busy_ns: u64,
}

/// What a query has done of late: in the last second or two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rates {
    before: Mark,
    last: Mark,
}

/// Marks are so far apart at least.
const MARK_INTERVAL_NS: u64 = 1_000_000_000;

impl Rates {
    /// Of a query that begins then.
    pub fn new(at_ns: u64) -> Rates {
        let mark = Mark { at_ns, ..Mark::default() };
        Rates { before: mark, last: mark }
    }

    pub fn mark(&mut self, now: Mark) {
        if now.at_ns.saturating_sub(self.last.at_ns) >= MARK_INTERVAL_NS {
            (self.before, self.last) = (self.last, now);
        }
    }

    /// Rows that came, rows that left, and nanoseconds of workers, a second; `ran_ns` is when a worker has done something for it last.
    pub fn a_second(&self, now: Mark, ran_ns: u64) -> [f64; 3] {
        // Nobody marks a query that nobody runs: what it did before it stalled is not of late.
        if now.at_ns.saturating_sub(ran_ns) >= 2 * MARK_INTERVAL_NS {
            return [0.0; 3];
        }
        let seconds = now.at_ns.saturating_sub(self.before.at_ns).max(1) as f64 / 1e9;
        let of = |now: u64, before: u64| (now - before) as f64 / seconds;
        let before = &self.before;
        [of(now.rows_in, before.rows_in), of(now.rows_out, before.rows_out), of(now.busy_ns, before.busy_ns)]
    }
}

impl Load {
    /// Of a query that has not begun.
    pub fn new() -> Load {
        let thresholds = Thresholds { work_ns: WORK_THRESHOLD_NS.first, idle_ns: IDLE_THRESHOLD_NS.first };
        Load {
            served_ns: 0,
            weight: 1.0,
            thresholds,
            thresholds_before: thresholds,
            gradient_before: 0.0,
            walk_began: 0,
            latency_sum_ns: 0.0,
            latency_count: 0,
            latency_ns: None,
        }
    }

    /// Notes how long ago rows were read that an operator is done with.
    pub fn passed(&mut self, latency_ns: u64) {
        self.latency_sum_ns += latency_ns as f64;
        self.latency_count += 1;
    }

    /// Looks at how latency has changed, and at what follows.
    pub fn adapt(&mut self) {
        if self.latency_count == 0 {
            return;
        }
        let latency_ns = self.latency_sum_ns / self.latency_count as f64;
        (self.latency_sum_ns, self.latency_count) = (0.0, 0);
        let Some(before_ns) = self.latency_ns.replace(latency_ns) else { return };
        let gradient = ((latency_ns - before_ns) / before_ns.max(1.0)).clamp(-1.0, 1.0);
        self.weight = gradient / 10.0 + 1.0;
        let now = self.thresholds;
        self.thresholds = if gradient > self.gradient_before && now != self.thresholds_before {
            self.thresholds_before
        } else {
            Thresholds {
                work_ns: WORK_THRESHOLD_NS.changed(now.work_ns, gradient),
                idle_ns: IDLE_THRESHOLD_NS.changed(now.idle_ns, gradient),
            }
        };
        self.thresholds_before = now;
        self.gradient_before = gradient;
    }
}

impl Bounds {
    /// Equation 5.
    fn changed(&self, threshold: f64, gradient: f64) -> f64 {
        let changed = threshold + (gradient * threshold).min(self.step);
        if changed > 0.0 && changed < self.most { changed } else { threshold }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(latencies_ns: &[u64]) -> Load {
        let mut load = Load::new();
        for &latency_ns in latencies_ns {
            load.passed(latency_ns);
            load.adapt();
        }
        load
    }

    #[test]
    fn the_weight_follows_the_latency_within_its_bounds() {
        assert_eq!(looks(&[100]).weight, 1.0, "there is nothing to compare with");
        assert!((looks(&[100, 150]).weight - 1.05).abs() < 1e-12);
        assert_eq!((looks(&[100, 10_000]).weight, looks(&[100, 100, 1]).weight), (1.1, 0.901));
        let quiet = Load::new();
        assert_eq!(
            Load { ..quiet },
            {
                let mut load = quiet;
                load.adapt();
                load
            },
            "without rows nothing is learnt"
        );
    }

    /// Equation 5.
    #[test]
    fn thresholds_grow_while_rows_wait_longer_and_shrink_otherwise() {
        assert_eq!(looks(&[100, 150]).thresholds, Thresholds { work_ns: 1_500.0, idle_ns: 1.5e5 });
        assert_eq!(looks(&[100, 50]).thresholds, Thresholds { work_ns: 500.0, idle_ns: 0.5e5 });
        // By a step at most, from 1000 to 2000 and to 3000, and not beyond 10000.
        assert_eq!(looks(&[100, 200, 380]).thresholds.work_ns, 3_000.0);
        let most = Thresholds { work_ns: 9_500.0, idle_ns: 9.5e5 };
        let mut grown = Load { thresholds: most, thresholds_before: most, ..looks(&[100]) };
        grown.passed(200);
        grown.adapt();
        assert_eq!(grown.thresholds, most);
    }

    #[test]
    fn rates_are_those_of_the_last_second_or_two() {
        let mark =
            |seconds: u64, rows_in: u64| Mark { at_ns: seconds * 1_000_000_000, rows_in, rows_out: 0, busy_ns: 0 };
        let mut rates = Rates::new(0);
        assert_eq!(rates.a_second(mark(1, 100), 1_000_000_000)[0], 100.0);
        for (seconds, rows) in [(1, 100), (2, 200), (3, 1_200)] {
            rates.mark(mark(seconds, rows));
        }
        assert_eq!(rates.a_second(mark(4, 2_200), 4_000_000_000)[0], 1_000.0);
        assert_eq!(rates.a_second(mark(6, 2_200), 4_000_000_000), [0.0; 3], "nothing moves");
    }

    #[test]
    fn a_change_that_makes_rows_wait_longer_is_taken_back() {
        let load = looks(&[100, 110, 220]);
        assert_eq!(load.thresholds, Load::new().thresholds);
        assert!(load.weight > 1.0);
    }
}
