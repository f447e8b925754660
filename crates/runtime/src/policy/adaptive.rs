//! Whose rows leave at the least cost goes first, in favour of queries whose rows wait longer and longer, if it is worth a worker
//! (Enjima, section 3.2).

use super::{Candidate, EPOCH_NS, Policy, Rank};
use crate::load::IDLE_THRESHOLD_NS_MAX;
use crate::operator::Operator;

pub(super) struct Adaptive;

impl Policy for Adaptive {
    /// The paper's eligibility decides who goes before whom, not whether a worker sleeps while rows wait: what is not worth a worker runs
    /// where nothing else does. And whoever has waited for longer than any idle threshold goes before all, however dear it is, so none starves.
    fn rank(&self, candidate: &Candidate<'_>) -> Rank {
        let Candidate { operator, load, now_ns, .. } = *candidate;
        let waiting_since_ns = candidate.waiting_since_ns.max(operator.last_run_ns);
        if now_ns.saturating_sub(waiting_since_ns) > IDLE_THRESHOLD_NS_MAX {
            return Rank::urgent(waiting_since_ns);
        }
        // One over the priority.
        let rank = Rank::real(operator.output_cost_ns / load.weight);
        let idle_ns = now_ns.saturating_sub(operator.last_run_ns) as f64;
        let is_eligible = candidate.pending_rows as f64 >= load.thresholds.rows || idle_ns > load.thresholds.idle_ns;
        if is_eligible { rank } else { rank.last() }
    }

    /// As many as fit until the epoch ends: equation 4, whose ratio is printed upside down.
    fn rows_max(&self, operator: &Operator, now_ns: u64) -> u64 {
        let left_ns = EPOCH_NS - now_ns % EPOCH_NS;
        (left_ns as f64 / operator.cost_ns) as u64
    }
}
