//! What a policy decides: who goes first, and how many rows a task takes.

use crate::scheduler::load::Load;
use crate::scheduler::statistics::NodeStatistics;

/// An operator that can run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<'a> {
    pub operator: &'a NodeStatistics,
    /// Rows that wait for it; of a source they are not known.
    pub pending_rows: Option<u64>,
    /// When the first of them was read; of a source, when it was asked last.
    pub waiting_since_ns: u64,
    /// Of its query.
    pub load: &'a Load,
    pub now_ns: u64,
    /// How long an epoch is.
    pub epoch_ns: u64,
}

/// Who goes first: the least. Equal ones go in the order of their queries' service in whole epochs, and within a query of that of their regions, so that a worker
/// stays with one, whose data it has in its cache, for so long; and within a region what is furthest downstream first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank(u64);

/// Ranks of a kind are all before those of the next one; within a kind they are in the order of numbers of so many bits.
const NUMBER_BITS: u32 = 61;

/// Chooses among operators.
pub(crate) trait Policy: Send + Sync {
    /// Where the operator stands.
    fn rank(&self, candidate: &Candidate<'_>) -> Rank;

    /// Rows that one task takes at most, if there are so many, when so much of the epoch is left; it takes whole blocks, and at least one.
    fn rows_max(&self, operator: &NodeStatistics, left_ns: u64) -> u64;

    /// Whether what has been served for much less time than others goes before them, whatever the ranks, and blocks are cut that would have others wait.
    fn is_fair(&self) -> bool {
        false
    }

    /// Whether each operator has a thread of its own, and the pool's run none.
    fn has_threads(&self) -> bool {
        false
    }
}

impl Rank {
    /// Nobody.
    pub const NONE: Rank = Rank(u64::MAX);

    /// Of what has been served for much less time than others: before all.
    pub const LAGGING: Rank = Rank(0);

    /// Before all that are not urgent, by a number or an instant.
    pub fn urgent(number: u64) -> Rank {
        Rank(number.min(Rank::NUMBER_MAX))
    }

    /// By a number or an instant.
    pub fn number(number: u64) -> Rank {
        Rank(1 << NUMBER_BITS | number.min(Rank::NUMBER_MAX))
    }

    /// By a number that is not negative.
    pub fn real(number: f64) -> Rank {
        // The bits of such numbers are in the order of the numbers, and the first of them is 0.
        Rank::number(number.max(0.0).to_bits() >> 2)
    }

    /// Behind those by numbers and instants, in the same order there.
    pub fn behind(self) -> Rank {
        self.of_kind(2)
    }

    /// Behind all others, in the same order there.
    pub fn last(self) -> Rank {
        self.of_kind(3)
    }

    pub fn of_kind(self, kind: u64) -> Rank {
        Rank(kind << NUMBER_BITS | (self.0 & Rank::NUMBER_MAX))
    }

    /// Whether it is before all that are not urgent.
    pub fn is_urgent(self) -> bool {
        self.0 <= Rank::NUMBER_MAX
    }

    const NUMBER_MAX: u64 = (1 << NUMBER_BITS) - 1;

    pub fn bits(self) -> u64 {
        self.0
    }

    pub fn from_bits(bits: u64) -> Rank {
        Rank(bits)
    }
}
