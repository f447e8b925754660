//! In which order operators that can run do run, and how many rows each takes: one small file for each policy.
//!
//! Policies see operators, what waits for them and how their query fares. They know no tasks, and cannot make anything wait: where only
//! one operator can run it runs, whatever its rank.

use std::time::Duration;

use crate::load::Load;
use crate::operator::Operator;

mod adaptive;

mod downstream;

mod fcfs;

mod highest_rate;

mod min_cost;

mod min_latency;

mod random;

mod round_robin;

mod threads;

#[cfg(test)]
mod model;

/// For how long priorities hold by the engine's clock, unless told otherwise. Enjima has one millisecond (section 4), of threads that run events one by one;
/// five are faster here at the same latency (`bench epoch`), because a worker stays with a query for so long.
pub const EPOCH_DEFAULT: Duration = Duration::from_millis(5);

/// The same in nanoseconds.
#[cfg(test)]
pub(crate) const EPOCH_NS: u64 = EPOCH_DEFAULT.as_nanos() as u64;

/// An operator that can run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<'a> {
    pub operator: &'a Operator,
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
    fn rows_max(&self, operator: &Operator, left_ns: u64) -> u64;

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
    fn urgent(number: u64) -> Rank {
        Rank(number.min(Rank::NUMBER_MAX))
    }

    /// By a number or an instant.
    fn number(number: u64) -> Rank {
        Rank(1 << NUMBER_BITS | number.min(Rank::NUMBER_MAX))
    }

    /// By a number that is not negative.
    fn real(number: f64) -> Rank {
        // The bits of such numbers are in the order of the numbers, and the first of them is 0.
        Rank::number(number.max(0.0).to_bits() >> 2)
    }

    /// Behind those by numbers and instants, in the same order there.
    fn behind(self) -> Rank {
        self.of_kind(2)
    }

    /// Behind all others, in the same order there.
    fn last(self) -> Rank {
        self.of_kind(3)
    }

    fn of_kind(self, kind: u64) -> Rank {
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

/// Names of the policies, and the policies.
const POLICIES: [(&str, &dyn Policy); 9] = [
    ("adaptive", &adaptive::Adaptive),
    ("downstream", &downstream::Downstream),
    ("fcfs", &fcfs::FirstComeFirstServed),
    ("highest-rate", &highest_rate::HighestRate),
    ("min-cost", &min_cost::MinCost),
    ("min-latency", &min_latency::MinLatency),
    ("random", &random::Random),
    ("round-robin", &round_robin::RoundRobin),
    ("threads", &threads::Threads),
];

/// A policy that there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyName(usize);

impl PolicyName {
    /// All there are.
    pub fn all() -> impl Iterator<Item = PolicyName> + Clone {
        (0..POLICIES.len()).map(PolicyName)
    }

    /// That of this name.
    pub fn named(name: &str) -> Option<PolicyName> {
        PolicyName::all().find(|policy| policy.name() == name)
    }

    /// What `SET 'pelton.policy'` takes.
    pub fn name(self) -> &'static str {
        POLICIES[self.0].0
    }

    pub(crate) fn index(self) -> usize {
        self.0
    }

    pub(crate) fn of_index(index: usize) -> PolicyName {
        PolicyName(index)
    }

    pub(crate) fn policy(self) -> &'static dyn Policy {
        POLICIES[self.0].1
    }
}

impl Default for PolicyName {
    fn default() -> PolicyName {
        PolicyName::named("adaptive").expect("it is one of them")
    }
}
