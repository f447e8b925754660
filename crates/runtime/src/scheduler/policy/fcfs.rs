//! First come, first served: whose rows were read first goes first, and returns after one block.

use super::rank::{Candidate, Policy, Rank};
use crate::scheduler::statistics::NodeStatistics;

pub(super) struct FirstComeFirstServed;

impl Policy for FirstComeFirstServed {
    fn rank(&self, candidate: &Candidate<'_>) -> Rank {
        Rank::number(candidate.waiting_since_ns)
    }

    fn rows_max(&self, _: &NodeStatistics, _: u64) -> u64 {
        1
    }
}
