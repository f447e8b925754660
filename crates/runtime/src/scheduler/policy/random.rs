//! Any order: the same one wherever the same has been done before. Results must not depend on it, and tests look for those that do.

use super::rank::{Candidate, Policy, Rank};
use crate::scheduler::statistics::NodeStatistics;

pub(super) struct Random;

impl Policy for Random {
    fn rank(&self, candidate: &Candidate<'_>) -> Rank {
        let Candidate { operator, load, .. } = *candidate;
        Rank::number(mixed([operator.position as u64, operator.turn, load.served_ns]) >> 8)
    }

    fn rows_max(&self, operator: &NodeStatistics, _: u64) -> u64 {
        if mixed([operator.turn, operator.position as u64, 1]).is_multiple_of(2) { 1 } else { u64::MAX }
    }
}

/// Numbers that show nothing of what they were made of.
fn mixed(parts: [u64; 3]) -> u64 {
    parts.into_iter().fold(0x9E37_79B9_7F4A_7C15, |mixed, part| {
        let mixed = (mixed ^ part).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^ mixed >> 29
    })
}
