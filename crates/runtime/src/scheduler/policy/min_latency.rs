//! Whose rows leave at the least cost goes first, always, and returns after one block (the same paper's ML). Where workers cannot keep up,
//! dear operators may never run.

use super::rank::{Candidate, Policy, Rank};
use crate::scheduler::statistics::NodeStatistics;

pub(super) struct MinLatency;

impl Policy for MinLatency {
    fn rank(&self, candidate: &Candidate<'_>) -> Rank {
        Rank::real(candidate.operator.output_cost_ns)
    }

    fn rows_max(&self, _: &NodeStatistics, _: u64) -> u64 {
        1
    }
}
