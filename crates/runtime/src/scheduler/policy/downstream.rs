//! The query that has been served least goes first, and in each region of it what is furthest downstream: rows leave before new ones enter.

use super::rank::{Candidate, Policy, Rank};
use crate::scheduler::statistics::NodeStatistics;

pub(super) struct Downstream;

impl Policy for Downstream {
    fn rank(&self, candidate: &Candidate<'_>) -> Rank {
        Rank::number(candidate.load.served_ns)
    }

    fn rows_max(&self, _: &NodeStatistics, _: u64) -> u64 {
        u64::MAX
    }
}
