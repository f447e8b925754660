//! What code costs, made up, so that what is tried, kept and undone does not depend on the machine: for tests.

use std::str::FromStr;

use pelton_state::kernel::{Kernel, Tier};
use pelton_state::profile::PredicateOrder;

/// Kinds of code, as they are written.
const KINDS: [&str; 4] = ["compiled", "interpreted", "reordered", "fetch-ahead"];

/// Phases that there may be.
const PHASES_MAX: usize = 4;

/// Nanoseconds a row by kind of code, in the order of [`KINDS`].
type OfKinds = [u64; KINDS.len()];

/// What a row costs by the code that computes it, in phases that each begin with a row of the pipeline.
///
/// Written as `compiled 3, interpreted 2; from 400000: interpreted 9`: kinds are `compiled`, `interpreted`, `reordered` (compiled, with predicates in another order than
/// planned) and `fetch-ahead`. What is not named costs what it did before, and a nanosecond in the first phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs([(u64, OfKinds); PHASES_MAX]);

impl Costs {
    /// Nanoseconds that a row costs this code, when the pipeline has computed so many rows.
    pub(super) fn nanos_per_row(&self, kernel: &dyn Kernel, rows: u64) -> u64 {
        let phase = self.0.iter().rev().find(|(first, _)| *first <= rows);
        let (_, [compiled, interpreted, reordered, fetch_ahead]) = *phase.expect("the first phase begins with row 0");
        if kernel.tier() == Tier::Interpreted {
            interpreted
        } else if kernel.fetches_ahead() {
            fetch_ahead
        } else if kernel.order() != PredicateOrder::planned(kernel.predicates()) {
            reordered
        } else {
            compiled
        }
    }
}

impl FromStr for Costs {
    type Err = ();

    fn from_str(text: &str) -> Result<Costs, ()> {
        let mut phases: Vec<(u64, OfKinds)> = Vec::new();
        for part in text.split(';') {
            let (first, costs) = match part.trim().strip_prefix("from ") {
                Some(later) => {
                    let (first, costs) = later.split_once(':').ok_or(())?;
                    (first.trim().parse().map_err(|_| ())?, costs)
                }
                None => (0, part),
            };
            let mut of_kinds = phases.last().map_or([1; KINDS.len()], |(_, before)| *before);
            for cost in costs.split(',') {
                let (kind, nanos) = cost.trim().rsplit_once(' ').ok_or(())?;
                let kind = KINDS.iter().position(|known| *known == kind.trim()).ok_or(())?;
                of_kinds[kind] = nanos.parse().map_err(|_| ())?;
            }
            let is_in_order = phases.last().map_or(first == 0, |(before, _)| *before < first);
            if !is_in_order || phases.len() == PHASES_MAX {
                return Err(());
            }
            phases.push((first, of_kinds));
        }
        let last = *phases.last().ok_or(())?;
        phases.resize(PHASES_MAX, last);
        phases.try_into().map(Costs).map_err(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_read_phase_by_phase() {
        let costs: Costs = "compiled 3, interpreted 2; from 400: fetch-ahead 9; from 500: compiled 1".parse().unwrap();
        let last = (500, [1, 2, 1, 9]);
        assert_eq!(costs.0, [(0, [3, 2, 1, 1]), (400, [3, 2, 1, 9]), last, last]);
        for wrong in [
            "",
            "compiled",
            "compiled x",
            "generic 3",
            "from 3: compiled 1",
            "compiled 1; from 0: compiled 2",
            "compiled 1; from: compiled 2",
        ] {
            assert_eq!(wrong.parse::<Costs>(), Err(()), "{wrong}");
        }
    }
}
