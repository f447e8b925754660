//! What the workers of a pool share: the runs that they serve, and what they sleep under.

use std::sync::{Arc, PoisonError};

use crate::clock::Clock;
use crate::scheduler::attendants::Attendants;
use crate::scheduler::background::Background;
use crate::scheduler::fairness::FairShare;
use crate::scheduler::policy::{EPOCH_DEFAULT, Policy, PolicyName};
use crate::scheduler::wake::Rest;
use crate::shared::Shared;
use crate::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

/// What the workers share.
pub(crate) struct Crew {
    pub workers: usize,
    pub clock: Clock,
    pub rest: Rest,
    /// Runs that have not ended.
    pub runs: Mutex<Vec<Arc<Shared>>>,
    /// Counts the changes of `runs`: workers have lists of their own.
    pub changes: AtomicU64,
    pub is_closed: AtomicBool,
    /// Whether each worker stays on one core.
    pub is_pinned: AtomicBool,
    /// Nothing runs but what a test tells to.
    pub is_manual: bool,
    /// Where work is done that no run waits for.
    pub background: Background,
    /// Where work beside runs is done as long as these last.
    pub attendants: Attendants,
    /// Of the runs.
    pub served: FairShare,
    /// Tasks taken.
    turns: AtomicU64,
    /// Who goes first,
    pub policy: AtomicUsize,
    /// and for how long that holds.
    pub epoch_ns: AtomicU64,
}

impl Crew {
    pub fn new(workers: usize, clock: Clock, is_manual: bool) -> Arc<Crew> {
        Arc::new(Crew {
            workers,
            clock,
            rest: Rest::new(workers),
            runs: Mutex::default(),
            changes: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            is_pinned: AtomicBool::new(false),
            is_manual,
            background: Background::new(is_manual),
            attendants: Attendants::new(is_manual),
            served: FairShare::default(),
            turns: AtomicU64::new(0),
            policy: AtomicUsize::new(PolicyName::default().index()),
            epoch_ns: AtomicU64::new(EPOCH_DEFAULT.as_nanos() as u64),
        })
    }

    pub fn epoch_ns(&self) -> u64 {
        self.epoch_ns.load(Ordering::Relaxed)
    }

    /// Serves a run from now on.
    pub fn take(&self, run: Arc<Shared>) {
        self.served.enter(run.waker.service(), self.epoch_ns());
        self.runs().push(run);
        self.runs_changed();
    }

    /// Whether operators are run by threads of their own.
    pub fn has_threads(&self) -> bool {
        !self.is_manual && self.policy().has_threads()
    }

    pub fn policy(&self) -> &'static dyn Policy {
        PolicyName::of_index(self.policy.load(Ordering::SeqCst)).policy()
    }

    /// The number of the task that is taken next.
    pub fn next_turn(&self) -> u64 {
        self.turns.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Lets go of a run that has ended.
    pub fn leave(&self, run: &Shared) {
        self.runs().retain(|other| !std::ptr::eq(other.as_ref(), run));
        self.runs_changed();
    }

    fn runs_changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        // Workers that sleep hold ended runs in their lists, and do not know new ones.
        self.rest.wake_all();
    }

    pub fn runs(&self) -> MutexGuard<'_, Vec<Arc<Shared>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
