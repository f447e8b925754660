//! Two variants of a pipeline's code side by side: is the new one better by more than noise?
//!
//! Tasks run one and the other in turns, so that what else changes meanwhile, the data or the machine, meets both alike: pairs of samples are compared. A
//! trial ends as soon as it is certain that the new code is better, or that it is not; as long as it may be, it costs nothing to go on.

use super::Specialisation;
use super::samples::{Samples, median};

/// A comparison.
#[derive(Debug)]
pub(super) struct Trial {
    /// The variant that is tried.
    pub challenger: usize,
    /// What it is tried for.
    pub specialisation: Option<Specialisation>,
    /// Tasks that were given out.
    given: usize,
    present: Samples,
    tried: Samples,
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

/// Fewest pairs of samples that say anything. They end a trial where the new code is so many times slower even at its best: it must not run longer.
const PAIRS_SLOW: usize = 3;
const SLOW: f64 = 1.5;

/// Fewest pairs that decide if nearly all say the same: the new code has won all and gains this share, or none, or costs this share more and has won one in so many.
const PAIRS_CLEAR: usize = 6;
const GAIN_CLEAR: f64 = 0.1;
const PAIRS_PER_WIN: usize = 4;

/// Pairs behind which small gains are looked for, again with twice as many as long as there may be one, and at last.
const PAIRS_FIRST: usize = 16;
const PAIRS_MAX: usize = 256;

/// A gain that is no noise: this share at least, so many standard errors of the median, and so many standard deviations more wins than half of all pairs: of
/// sixteen fourteen, by chance once in 478 times.
const GAIN_MIN: f64 = 0.02;
const STANDARD_ERRORS_MIN: f64 = 3.0;
const WIN_DEVIATIONS_MIN: f64 = 3.0;

impl Trial {
    pub fn new(challenger: usize, specialisation: Option<Specialisation>) -> Trial {
        Trial { challenger, specialisation, given: 0, present: Samples::default(), tried: Samples::default() }
    }

    /// Whether the next task runs the new code. Of two pairs it comes first in one, so that nothing that comes with every second task decides.
    pub fn next(&mut self) -> bool {
        self.given += 1;
        matches!(self.given % 4, 2 | 3)
    }

    /// Takes in what a task has cost.
    pub fn add(&mut self, is_challenger: bool, rows: u64, nanos: u64) {
        let side = if is_challenger { &mut self.tried } else { &mut self.present };
        side.add(rows, nanos);
    }

    /// What came of it, once that is certain.
    pub fn verdict(&self) -> Option<Verdict> {
        let (present, tried) = (self.present.nanos_per_row(), self.tried.nanos_per_row());
        let pairs = present.len().min(tried.len());
        if pairs < PAIRS_SLOW || pairs > PAIRS_FIRST && !pairs.is_power_of_two() {
            return None;
        }
        let (present, tried) = (&present[..pairs], &tried[..pairs]);
        // A clock that stands still measures nothing.
        let ratio = |(present, tried): (&f64, &f64)| if *present > 0.0 { tried / present } else { 1.0 };
        let mut ratios: Vec<f64> = present.iter().zip(tried).map(ratio).collect();
        let wins = ratios.iter().filter(|ratio| **ratio < 1.0).count();
        let gain = 1.0 - median(&mut ratios);
        let least = tried.iter().copied().fold(f64::INFINITY, f64::min);
        let (before, after) = (median(&mut present.to_vec()), median(&mut tried.to_vec()));
        let is_lost = wins == 0 || gain <= -GAIN_CLEAR && wins * PAIRS_PER_WIN <= pairs;
        let is_better = match pairs {
            _ if least > SLOW * before => false,
            PAIRS_CLEAR.. if wins == pairs && gain >= GAIN_CLEAR => true,
            PAIRS_CLEAR.. if is_lost => false,
            PAIRS_FIRST.. => {
                let error = standard_error(&mut ratios, 1.0 - gain);
                let is_better = gain >= GAIN_MIN.max(STANDARD_ERRORS_MIN * error) && wins_are_certain(wins, pairs);
                if !is_better && gain + error >= GAIN_MIN && pairs < PAIRS_MAX {
                    return None;
                }
                is_better
            }
            _ => return None,
        };
        Some(Verdict { is_better, gain, nanos_per_row: if is_better { after } else { before } })
    }
}

/// Whether there are so many more wins than half that it is not chance.
fn wins_are_certain(wins: usize, pairs: usize) -> bool {
    let deviation = (pairs as f64).sqrt() / 2.0;
    wins as f64 >= pairs as f64 / 2.0 + WIN_DEVIATIONS_MIN * deviation
}

/// The standard error of the median of values like these: from the median absolute deviation, as if they were normally distributed.
fn standard_error(values: &mut [f64], median_of_values: f64) -> f64 {
    values.iter_mut().for_each(|value| *value = (*value - median_of_values).abs());
    1.2533 * 1.4826 * median(values) / (values.len().max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs tasks of 8192 rows that take so long, in pairs, until the trial is over. Returns the verdict and the pairs it took.
    fn trial(mut nanos: impl FnMut(usize, bool) -> u64) -> (Verdict, usize) {
        let mut trial = Trial::new(1, None);
        for pair in 0..PAIRS_MAX {
            for _ in 0..2 {
                let is_challenger = trial.next();
                trial.add(is_challenger, 8192, nanos(pair, is_challenger));
            }
            if let Some(verdict) = trial.verdict() {
                return (verdict, pair + 1);
            }
        }
        panic!("a trial ends")
    }

    /// The same where all tasks of a variant take as long.
    fn steady(present: u64, challenger: u64) -> (Verdict, usize) {
        trial(|_, is_challenger| 8192 * if is_challenger { challenger } else { present })
    }

    #[test]
    fn clear_cases_end_soon() {
        assert_eq!(steady(4, 2), (Verdict { is_better: true, gain: 0.5, nanos_per_row: 2.0 }, 6));
        assert_eq!(steady(2, 4), (Verdict { is_better: false, gain: -1.0, nanos_per_row: 2.0 }, 3));
        let (verdict, pairs) = steady(20, 21);
        assert_eq!((verdict.is_better, pairs), (false, 6));
        // One stroke of luck does not help.
        let (verdict, pairs) = trial(|pair, is_challenger| 8192 * if !is_challenger || pair == 1 { 20 } else { 26 });
        assert_eq!((verdict.is_better, pairs), (false, 6));
    }

    #[test]
    fn small_gains_must_be_certain() {
        // Better in all pairs by a little.
        let (verdict, pairs) = steady(100, 95);
        assert_eq!((verdict.is_better, pairs), (true, 16));
        // Better by chance: in every second pair.
        let (verdict, _) = trial(|pair, is_challenger| 8192 * if is_challenger == (pair % 2 == 0) { 90 } else { 100 });
        assert!(!verdict.is_better);
        // Better, but by less than a gain.
        let (verdict, pairs) = steady(1000, 990);
        assert_eq!((verdict.is_better, pairs), (false, 16));
        // Nothing was measured.
        assert!(!steady(0, 0).0.is_better);
    }

    #[test]
    fn what_comes_with_every_second_task_decides_nothing() {
        let mut task = 0;
        let (verdict, _) = trial(|_, _| {
            task += 1;
            8192 * if task % 2 == 0 { 5 } else { 15 }
        });
        assert!(!verdict.is_better);
    }

    /// Of so many trials on a machine with noise those in which the new code, which gains this share, is kept, and the most pairs that any has taken.
    fn kept(trials: usize, gain: f64) -> (usize, usize) {
        let mut state: u64 = 7;
        let mut chance = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let run = |_| {
            trial(|_, is_challenger| {
                // One nanosecond a row, give or take a twentieth; in one of ten tasks another program has the core for 4 ms.
                let of_noise = 0.95 + 0.1 * chance();
                let elsewhere = if chance() < 0.1 { 4e6 } else { 0.0 };
                (8192.0 * of_noise * if is_challenger { 1.0 - gain } else { 1.0 } + elsewhere) as u64
            })
        };
        let runs: Vec<_> = (0..trials).map(run).collect();
        (runs.iter().filter(|(verdict, _)| verdict.is_better).count(), runs.iter().map(|run| run.1).max().unwrap_or(0))
    }

    #[test]
    fn what_else_the_machine_does_decides_nothing() {
        // What gains nothing is kept in less than one of fifty trials,
        let (by_chance, _) = kept(1_000, 0.0);
        assert!(by_chance < 20, "{by_chance}");
        assert_eq!(kept(1_000, -0.03).0, 0);
        // four hundredths in nine of ten,
        let (small, _) = kept(1_000, 0.04);
        assert!(small >= 900, "{small}");
        // and what gains much in nearly all.
        let (clear, pairs) = kept(1_000, 0.5);
        assert!(clear >= 990 && pairs <= 64, "{clear} in {pairs} pairs");
        // What is half as fast is left soon, though others have the core meanwhile.
        let (slow, pairs) = kept(1_000, -1.0);
        assert!(slow == 0 && pairs <= 12, "{slow} in {pairs} pairs");
    }
}
