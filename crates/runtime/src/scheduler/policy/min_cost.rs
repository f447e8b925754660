//! The fewest calls: the operators of a query are walked from its sources to its outputs, again and again, and each takes all that waits
//! (Carney and others, "Operator scheduling in a data stream manager", MC).

use super::rank::{Candidate, Policy, Rank};
use crate::scheduler::statistics::NodeStatistics;

pub(super) struct MinCost;

impl Policy for MinCost {
    fn rank(&self, candidate: &Candidate<'_>) -> Rank {
        let was_visited = candidate.operator.turn > candidate.load.walk_began;
        Rank::number(u64::from(was_visited) << 32 | candidate.operator.position as u64)
    }

    fn rows_max(&self, _: &NodeStatistics, _: u64) -> u64 {
        u64::MAX
    }
}
