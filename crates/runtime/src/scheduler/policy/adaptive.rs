//! Whose rows leave at the least cost goes first, in favour of queries whose rows wait longer and longer, if it is worth a worker
//! (Enjima, section 3.2).

use super::rank::{Candidate, Policy, Rank};
use crate::scheduler::load::WAIT_NS_MAX;
use crate::scheduler::statistics::NodeStatistics;

pub(super) struct Adaptive;

impl Policy for Adaptive {
    /// The paper's eligibility decides who goes before whom, not whether a worker sleeps while rows wait: what is not worth a worker runs
    /// where nothing else does. Inputs are read when nothing else is worth a worker, those of the query first that has been served for fewer epochs: by its
    /// costs the cheapest query would be read for ever, for what an input holds is not known before it is read. And whoever has waited for
    /// too long goes before all, however dear it is, so none starves.
    fn rank(&self, candidate: &Candidate<'_>) -> Rank {
        let Candidate { operator, load, now_ns, .. } = *candidate;
        let waiting_since_ns = candidate.waiting_since_ns.max(operator.last_run_ns);
        if now_ns.saturating_sub(waiting_since_ns) > WAIT_NS_MAX {
            return Rank::urgent(waiting_since_ns);
        }
        let Some(pending_rows) = candidate.pending_rows else {
            return Rank::number(load.served_ns / candidate.epoch_ns).behind();
        };
        // One over the priority.
        let rank = Rank::real(operator.output_cost_ns / load.weight);
        let idle_ns = now_ns.saturating_sub(operator.last_run_ns) as f64;
        let work_ns = pending_rows as f64 * operator.cost_ns;
        let is_eligible = work_ns >= load.thresholds.work_ns || idle_ns > load.thresholds.idle_ns;
        if is_eligible { rank } else { rank.last() }
    }

    fn is_fair(&self) -> bool {
        true
    }

    /// As many as fit until the epoch ends: equation 4, whose ratio is printed upside down.
    fn rows_max(&self, operator: &NodeStatistics, left_ns: u64) -> u64 {
        (left_ns as f64 / operator.cost_ns) as u64
    }
}
