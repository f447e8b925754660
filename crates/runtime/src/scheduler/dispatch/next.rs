//! What could be done next, and what of it is.

use crate::graph::NodeRef;
use crate::scheduler::policy::Rank;

/// Less work than this is done sooner by a worker that is busy for no longer than this than by one that has to be woken.
pub(super) const WORTH_WAKING_NS: f64 = 2e4;

/// A task that could be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    Write(usize),
    Advance(usize),
    Report(usize),
    Compute(usize),
    Read(usize, usize),
    /// With the operator whose rows these are.
    Send(usize, NodeRef),
    /// With the operator that they are for.
    Receive(usize, NodeRef),
}

impl Choice {
    pub fn node(self) -> NodeRef {
        match self {
            Choice::Write(sink) => NodeRef::Sink(sink),
            Choice::Advance(operator) | Choice::Report(operator) => NodeRef::Operator(operator),
            Choice::Compute(pipeline) => NodeRef::Pipeline(pipeline),
            Choice::Read(source, _) => NodeRef::Source(source),
            Choice::Send(_, node) | Choice::Receive(_, node) => node,
        }
    }
}

/// The task that goes first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Next {
    pub(super) rank: Rank,
    pub(super) choice: Choice,
    /// How long it may take; of what nobody knows before, a read, for ever.
    pub(super) work_ns: f64,
    /// The same of all others, if there are any.
    pub(super) others_ns: Option<f64>,
}

impl Next {
    /// Whether another worker may be done with the others, or begin with them, sooner than the one that takes it.
    pub fn has_others(&self) -> bool {
        self.others_ns.is_some_and(|others_ns| others_ns.max(self.work_ns) >= WORTH_WAKING_NS)
    }

    /// Beside another one that may take so long. What reads find nobody knows: that there are several is nothing to wake anyone for.
    pub fn with_other(self, other: Choice, work_ns: f64) -> Next {
        if let (Choice::Read(..), Choice::Read(..)) = (self.choice, other) {
            return self;
        }
        Next { others_ns: Some(self.others_ns.unwrap_or_default() + work_ns), ..self }
    }

    /// Before another one.
    pub fn before(self, other: Option<Next>) -> Next {
        let Some(other) = other else { return self };
        Next { others_ns: other.with_other(self.choice, other.work_ns).others_ns, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_worker_is_woken_where_what_is_left_is_done_sooner_by_it() {
        let of = |choice, work_ns| Next { rank: Rank::from_bits(0), choice, work_ns, others_ns: None };
        let (alone, close) = (|work_ns: f64| of(Choice::Write(0), work_ns), Choice::Advance(0));
        let (short_ns, long_ns) = (WORTH_WAKING_NS * 0.6, WORTH_WAKING_NS);
        assert!(!alone(long_ns).has_others());
        assert!(!alone(short_ns).with_other(close, short_ns).has_others());
        let many = alone(short_ns).with_other(close, short_ns).with_other(close, short_ns);
        assert!(many.has_others() && alone(0.0).before(Some(many)).has_others(), "there is much to do");
        assert!(alone(long_ns).with_other(close, 0.0).has_others(), "it would have to wait");
        let read = of(Choice::Read(0, 0), f64::INFINITY);
        assert!(read.with_other(close, 0.0).has_others() && alone(0.0).before(Some(read)).has_others());
        let reads = read.with_other(Choice::Read(1, 0), f64::INFINITY);
        assert!(
            !reads.has_others() && !read.before(Some(reads)).has_others(),
            "nobody knows whether anything is there"
        );
    }
}
