//! Every operator in turn, one block each.

use super::rank::{Candidate, Policy, Rank};
use crate::operator::Operator;

pub(super) struct RoundRobin;

impl Policy for RoundRobin {
    fn rank(&self, candidate: &Candidate<'_>) -> Rank {
        Rank::number(candidate.operator.turn)
    }

    fn rows_max(&self, _: &Operator, _: u64) -> u64 {
        1
    }
}
