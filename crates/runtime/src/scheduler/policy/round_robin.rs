//! Every operator in turn, one block each.

use super::rank::{Candidate, Policy, Rank};
use crate::scheduler::statistics::NodeStatistics;

pub(super) struct RoundRobin;

impl Policy for RoundRobin {
    fn rank(&self, candidate: &Candidate<'_>) -> Rank {
        Rank::number(candidate.operator.turn)
    }

    fn rows_max(&self, _: &NodeStatistics, _: u64) -> u64 {
        1
    }
}
