//! Two variants of a pipeline's code side by side: is the new one better by more than noise?
//!
//! Tasks run one and the other in alternation, so that what else changes meanwhile, the data or the machine, meets both alike.

use super::Specialisation;

/// A comparison.
#[derive(Debug)]
pub(super) struct Trial {
    /// The variant that is tried.
    pub challenger: usize,
    /// What it is tried for.
    pub specialisation: Option<Specialisation>,
    sides: [Side; 2],
}

#[derive(Debug, Default)]
struct Side {
    /// Tasks that were given to it.
    given: usize,
    /// Of the sample that is being collected.
    rows: u64,
    nanos: u64,
    /// Nanoseconds a row.
    samples: Vec<f64>,
}

/// What came of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Verdict {
    /// Whether the new code is better.
    pub is_better: bool,
    /// By which share its rows cost less.
    pub gain: f64,
    /// Nanoseconds a row of the code that runs on.
    pub nanos_per_row: f64,
}

/// Tasks are put together until they have so many rows.
const SAMPLE_ROWS_MIN: u64 = 8 * 1024;

/// So many pairs of samples decide, or fewer where all say the same.
const PAIRS_MAX: usize = 16;

/// Fewer decide where the new code is so many times slower in each of them: it must not run longer.
const PAIRS_SLOW: usize = 2;
const SLOW: f64 = 1.5;

/// Fewer decide where the new code is slower by this share and in nearly all of them.
const PAIRS_SLOWER: usize = 3;
const LOSSES_PER_WIN: usize = 3;

/// Fewer decide where one is better in each of them, the new code by this share at least.
const PAIRS_CLEAR: usize = 6;
const GAIN_CLEAR: f64 = 0.1;

/// A gain that is no noise: this share at least, so many standard errors, and better in so many of all pairs (by chance once in 94 times).
const GAIN_MIN: f64 = 0.02;
const STANDARD_ERRORS_MIN: f64 = 2.0;
const WINS_MIN: usize = 13;

impl Trial {
    pub fn new(challenger: usize, specialisation: Option<Specialisation>) -> Trial {
        Trial { challenger, specialisation, sides: Default::default() }
    }

    /// Whether the next task runs the new code.
    pub fn next(&mut self) -> bool {
        let is_challenger = self.sides[1].given < self.sides[0].given;
        self.sides[usize::from(is_challenger)].given += 1;
        is_challenger
    }

    /// Takes in what a task has cost.
    pub fn add(&mut self, is_challenger: bool, rows: u64, nanos: u64) {
        let side = &mut self.sides[usize::from(is_challenger)];
        side.rows += rows;
        side.nanos += nanos;
        if side.rows >= SAMPLE_ROWS_MIN && side.samples.len() < PAIRS_MAX {
            side.samples.push(side.nanos as f64 / side.rows as f64);
            (side.rows, side.nanos) = (0, 0);
        }
    }

    /// What came of it, once that is certain.
    pub fn verdict(&self) -> Option<Verdict> {
        let [present, challenger] = &self.sides;
        let pairs = present.samples.len().min(challenger.samples.len());
        let compared = || present.samples.iter().zip(&challenger.samples);
        let wins = compared().filter(|(present, challenger)| challenger < present).count();
        let slow = compared().filter(|(present, challenger)| **challenger > SLOW * **present).count();
        let (before, after) = (median(&present.samples[..pairs]), median(&challenger.samples[..pairs]));
        // A clock that stands still measures nothing.
        let gain = if before > 0.0 { 1.0 - after / before } else { 0.0 };
        let is_better = match pairs {
            PAIRS_SLOW..PAIRS_CLEAR if slow == pairs => false,
            PAIRS_SLOWER.. if gain <= -GAIN_CLEAR && wins * (LOSSES_PER_WIN + 1) <= pairs => false,
            PAIRS_CLEAR.. if wins == pairs && gain >= GAIN_CLEAR => true,
            PAIRS_CLEAR.. if wins == 0 => false,
            PAIRS_MAX.. => {
                wins >= WINS_MIN && gain >= GAIN_MIN.max(STANDARD_ERRORS_MIN * standard_error(&present.samples, before))
            }
            _ => return None,
        };
        Some(Verdict { is_better, gain, nanos_per_row: if is_better { after } else { before } })
    }
}

/// The standard error of the difference between two medians of samples like these, as a share of the median: from the median absolute
/// deviation, as if samples were normally distributed.
fn standard_error(samples: &[f64], median_of_samples: f64) -> f64 {
    let deviations: Vec<f64> = samples.iter().map(|sample| (sample - median_of_samples).abs()).collect();
    let deviation = 1.4826 * median(&deviations) / median_of_samples.max(f64::MIN_POSITIVE);
    let of_a_median = 1.2533 * deviation / (samples.len().max(1) as f64).sqrt();
    of_a_median * std::f64::consts::SQRT_2
}

fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs tasks of 8192 rows that take so long, in pairs, until the trial is over. Returns the verdict and the pairs it took.
    fn trial(nanos: impl Fn(usize) -> (u64, u64)) -> (Verdict, usize) {
        let mut trial = Trial::new(1, None);
        for pair in 0..PAIRS_MAX {
            for _ in 0..2 {
                let is_challenger = trial.next();
                let (present, challenger) = nanos(pair);
                trial.add(is_challenger, 8192, if is_challenger { challenger } else { present });
            }
            if let Some(verdict) = trial.verdict() {
                return (verdict, pair + 1);
            }
        }
        panic!("a trial ends")
    }

    #[test]
    fn clear_cases_end_soon() {
        let (verdict, pairs) = trial(|_| (8192 * 4, 8192 * 2));
        assert_eq!((verdict, pairs), (Verdict { is_better: true, gain: 0.5, nanos_per_row: 2.0 }, 6));
        let (verdict, pairs) = trial(|_| (8192 * 2, 8192 * 4));
        assert_eq!((verdict, pairs), (Verdict { is_better: false, gain: -1.0, nanos_per_row: 2.0 }, 2));
        let (verdict, pairs) = trial(|_| (8192 * 20, 8192 * 21));
        assert_eq!((verdict.is_better, pairs), (false, 6));
        let (verdict, pairs) = trial(|_| (8192 * 20, 8192 * 26));
        assert_eq!((verdict.is_better, pairs), (false, 3));
        // One stroke of luck does not help.
        let (verdict, pairs) = trial(|pair| (8192 * 20, 8192 * if pair == 1 { 18 } else { 26 }));
        assert_eq!((verdict.is_better, pairs), (false, 4));
    }

    #[test]
    fn small_gains_must_be_certain() {
        // Better in all pairs by a little.
        assert_eq!(trial(|_| (8192 * 100, 8192 * 95)), (trial(|_| (8192 * 100, 8192 * 95)).0, 16));
        assert!(trial(|_| (8192 * 100, 8192 * 95)).0.is_better);
        // Better by chance: in every second pair.
        assert!(
            !trial(|pair| if pair % 2 == 0 { (8192 * 100, 8192 * 90) } else { (8192 * 90, 8192 * 100) }).0.is_better
        );
        // Better, but by less than a gain.
        assert!(!trial(|_| (8192 * 1000, 8192 * 990)).0.is_better);
        // Nothing was measured.
        assert!(!trial(|_| (0, 0)).0.is_better);
    }

    #[test]
    fn small_tasks_are_put_together() {
        let mut trial = Trial::new(1, None);
        for _ in 0..2 * 8192 {
            let is_challenger = trial.next();
            trial.add(is_challenger, 1, 1);
        }
        assert_eq!(trial.sides.map(|side| side.samples.len()), [1, 1]);
    }
}
