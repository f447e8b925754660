//! Whether entries side by side are worth another attempt, by what became of those before.

/// After a failure, slices go by hash until there is another attempt: one, then twice as many each time, up to two to this power.
const WAIT_DOUBLINGS_MAX: u16 = 6;

/// What has failed is forgotten when keys have suited in so many times as many slices in a row: keys that suit in most of them suit in too few.
const SUITED_PER_WAIT: u16 = 4;

/// What became of entries side by side in the slices so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::table) struct Attempts {
    /// Slices that had to go over to hashes, since enough in a row had suitable keys.
    failures: u16,
    /// Slices that go by hash before the next attempt.
    waits: u16,
    /// Slices in a row whose keys suited.
    suited: u16,
}

/// What became of them in a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Entries lay side by side at its end, or might have by the keys that came.
    Suited,
    /// They did not.
    NotSuited,
    /// They had to go over to hashes.
    Failed,
}

impl Attempts {
    /// Whether there may be one.
    pub(super) fn is_due(self) -> bool {
        self.waits == 0
    }

    /// What is known when a slice has ended.
    pub(super) fn after(self, outcome: Outcome) -> Attempts {
        let waits = self.waits.saturating_sub(1);
        match outcome {
            Outcome::Failed => {
                let failures = (self.failures + 1).min(WAIT_DOUBLINGS_MAX + 1);
                Attempts { failures, waits: waits_after(failures), suited: 0 }
            }
            Outcome::NotSuited => Attempts { waits, suited: 0, ..self },
            Outcome::Suited if self.suited + 1 >= SUITED_PER_WAIT * waits_after(self.failures) => Attempts::default(),
            Outcome::Suited => Attempts { waits, suited: self.suited + 1, ..self },
        }
    }
}

/// How many slices go by hash after so many failures.
fn waits_after(failures: u16) -> u16 {
    failures.checked_sub(1).map_or(0, |doublings| 1 << doublings)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In which of so many slices there is an attempt, where keys suit in some of them.
    fn attempts(slices: usize, suits: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut known = Attempts::default();
        let mut made = Vec::new();
        for slice in 0..slices {
            let outcome = match (suits(slice), known.is_due()) {
                (true, _) => Outcome::Suited,
                (false, true) => Outcome::Failed,
                (false, false) => Outcome::NotSuited,
            };
            if known.is_due() {
                made.push(slice);
            }
            known = known.after(outcome);
        }
        made
    }

    #[test]
    fn each_failure_waits_twice_as_long() {
        assert_eq!(attempts(200, |_| false), [0, 2, 5, 10, 19, 36, 69, 134, 199]);
    }

    #[test]
    fn keys_that_suit_now_and_then_are_left_alone() {
        for good in 1..4 {
            let made = attempts(1_000, |slice| slice % (good + 1) > 0);
            assert!(made.len() < 100, "{good}: {made:?}");
        }
    }

    #[test]
    fn what_has_failed_is_forgotten_when_keys_suit_again() {
        let made = attempts(1_000, |slice| slice > 100);
        assert_eq!(made.iter().filter(|slice| **slice >= 134).count(), 1_000 - 134);
        // And a failure long ago makes none of today's longer.
        assert_eq!(attempts(1_000, |slice| slice != 3 && slice != 500).len(), 1_000 - 2);
    }
}
