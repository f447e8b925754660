//! In which order operators that can run do run, and how many rows each takes: one small file for each policy.
//!
//! Policies see operators, what waits for them and how their query fares. They know no tasks, and cannot make anything wait: where only
//! one operator can run it runs, whatever its rank.

use std::time::Duration;

mod rank;

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

pub(crate) use self::rank::{Candidate, Policy, Rank};

/// For how long priorities hold by the engine's clock, unless told otherwise. Enjima has one millisecond (section 4), of threads that run events one by one;
/// five are faster here at the same latency (`bench epoch`), because a worker stays with a query for so long.
pub const EPOCH_DEFAULT: Duration = Duration::from_millis(5);

/// The same in nanoseconds.
#[cfg(test)]
pub(crate) const EPOCH_NS: u64 = EPOCH_DEFAULT.as_nanos() as u64;

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
