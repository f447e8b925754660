//! Who makes most rows leave in the time it takes goes first, and returns after one block (Sharaf and others, "Algorithms and metrics for
//! processing multiple heterogeneous continuous queries", HR). Where workers cannot keep up, others may never run.

use super::rank::{Candidate, Policy, Rank};
use crate::scheduler::statistics::NodeStatistics;

pub(super) struct HighestRate;

impl Policy for HighestRate {
    fn rank(&self, candidate: &Candidate<'_>) -> Rank {
        Rank::real(1.0 / candidate.operator.output_rate)
    }

    fn rows_max(&self, _: &NodeStatistics, _: u64) -> u64 {
        1
    }
}
