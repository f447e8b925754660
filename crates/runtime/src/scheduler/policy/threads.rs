//! Each operator has a thread of its own, which sleeps where there is nothing for it; the operating system says who goes first. Engines
//! without a scheduler work like this, and the others are compared with it.

use super::rank::{Candidate, Policy, Rank};
use crate::scheduler::statistics::NodeStatistics;

pub(super) struct Threads;

impl Policy for Threads {
    /// Nobody chooses between two operators, but where there are no threads at all.
    fn rank(&self, _: &Candidate<'_>) -> Rank {
        Rank::number(0)
    }

    fn rows_max(&self, _: &NodeStatistics, _: u64) -> u64 {
        u64::MAX
    }

    fn has_threads(&self) -> bool {
        true
    }
}
