//! The workers of an engine: they serve all of its runs, and end when neither the engine nor a run has them any more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use pelton_state::kernel::Scratch;

use crate::choose::{Look, Offer, Task, offer, take};
use crate::clock::Clock;
use crate::operator::Part;
use crate::policy::{Policy, PolicyName, Rank};
use crate::run::{RunError, Shared};
use crate::state::State;
use crate::task::Worker;
use crate::wake::{Rest, Waker};

/// A fixed number of threads that work on any number of runs. Clones are the same threads.
#[derive(Clone)]
pub struct Pool(Arc<Threads>);

struct Threads {
    crew: Arc<Crew>,
    handles: Vec<JoinHandle<()>>,
}

/// What the workers share.
pub(crate) struct Crew {
    pub workers: usize,
    pub clock: Clock,
    rest: Rest,
    /// Runs that have not ended.
    runs: Mutex<Vec<Arc<Shared>>>,
    /// Counts the changes of `runs`: workers have lists of their own.
    changes: AtomicU64,
    is_closed: AtomicBool,
    /// What the run that was chosen last had been served.
    served_ns: AtomicU64,
    /// Tasks taken.
    turns: AtomicU64,
    /// Who goes first.
    policy: AtomicUsize,
}

impl Pool {
    /// Starts so many threads, which know the time from that clock.
    pub fn new(workers: usize, clock: Clock) -> Pool {
        let crew = Arc::new(Crew {
            workers,
            clock,
            rest: Rest::new(),
            runs: Mutex::default(),
            changes: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            served_ns: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            policy: AtomicUsize::new(PolicyName::default().index()),
        });
        let handles = (0..workers).map(|index| {
            let (name, crew) = (format!("pelton-worker-{index}"), crew.clone());
            let worker = PoolWorker { crew, index, runs: Vec::new(), changes: 0, scratch: Scratch::default() };
            let thread = std::thread::Builder::new().name(name).spawn(move || worker.work());
            thread.expect("the system can start a thread")
        });
        let handles = handles.collect();
        Pool(Arc::new(Threads { crew, handles }))
    }

    /// How many threads there are.
    pub fn workers(&self) -> usize {
        self.0.crew.workers
    }

    /// Something for a run's connectors to wake the threads with.
    pub fn waker(&self) -> Waker {
        let waker = Waker::new(self.0.crew.rest.clone());
        self.0.crew.clock.wakes(&waker);
        waker
    }

    /// Has operators of all runs go in another order from now on.
    pub fn set_policy(&self, policy: PolicyName) {
        if self.0.crew.policy.swap(policy.index(), Ordering::SeqCst) != policy.index() {
            // What they offer has the rank that it had.
            self.0.crew.runs().iter().for_each(|run| run.waker.progressed());
        }
    }

    pub(crate) fn crew(&self) -> &Arc<Crew> {
        &self.0.crew
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.crew.is_closed.store(true, Ordering::SeqCst);
        self.crew.rest.wake();
        let current = std::thread::current().id();
        for handle in self.handles.drain(..).filter(|handle| handle.thread().id() != current) {
            // A worker that panicked has said so already; there is nobody left to tell.
            drop(handle.join());
        }
    }
}

impl Crew {
    /// Serves a run from now on.
    pub fn take(&self, run: Arc<Shared>) {
        run.served_ns.store(self.served_ns.load(Ordering::Relaxed), Ordering::Relaxed);
        self.runs().push(run);
        self.runs_changed();
    }

    /// Lets go of a run that has ended.
    pub fn leave(&self, run: &Shared) {
        self.runs().retain(|other| !std::ptr::eq(other.as_ref(), run));
        self.runs_changed();
    }

    fn runs_changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        // Workers that sleep hold ended runs in their lists, and do not know new ones.
        self.rest.wake();
    }

    fn runs(&self) -> MutexGuard<'_, Vec<Arc<Shared>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of the threads.
struct PoolWorker {
    crew: Arc<Crew>,
    /// Which of the workers, from 0.
    index: usize,
    /// The runs as of so many changes.
    runs: Vec<Arc<Shared>>,
    changes: u64,
    scratch: Scratch,
}

/// What a worker finds when it looks for work.
enum Found {
    Task(Arc<Shared>, Task, Part),
    /// Nothing before this instant, unless something happens.
    Nothing(u64),
}

impl PoolWorker {
    fn work(mut self) {
        loop {
            let seen = self.crew.rest.seen();
            if self.crew.is_closed.load(Ordering::SeqCst) {
                return;
            }
            self.know_runs();
            let now_ns = self.crew.clock.nanos();
            match self.look(now_ns) {
                Found::Task(run, task, part) => self.run(&run, task, part, now_ns),
                Found::Nothing(u64::MAX) => self.crew.rest.sleep(seen, None),
                Found::Nothing(until_ns) => {
                    self.crew.rest.sleep(seen, Some(Duration::from_nanos(until_ns - now_ns)));
                }
            }
        }
    }

    fn know_runs(&mut self) {
        let changes = self.crew.changes.load(Ordering::SeqCst);
        if changes != self.changes {
            self.runs = self.crew.runs().clone();
            self.changes = changes;
        }
    }

    /// Takes the task of the lowest rank of all runs; of those of one rank, that of the run that has been served least.
    fn look(&self, now_ns: u64) -> Found {
        let policy = PolicyName::of_index(self.crew.policy.load(Ordering::SeqCst)).policy();
        loop {
            let (mut until_ns, mut best) = (u64::MAX, None);
            for run in &self.runs {
                let (rank, known_until_ns) =
                    run.waker.known(now_ns).unwrap_or_else(|| self.look_at(run, policy, now_ns));
                let served_ns = run.served_ns.load(Ordering::Relaxed);
                if rank == Rank::NONE {
                    until_ns = until_ns.min(known_until_ns);
                } else if best.is_none_or(|(least, least_served_ns, _)| (rank, served_ns) < (least, least_served_ns)) {
                    best = Some((rank, served_ns, run));
                }
            }
            let Some((_, _, run)) = best else { return Found::Nothing(until_ns) };
            let look = self.look_of(run, policy, now_ns);
            let mut state = run.state();
            let turn = self.crew.turns.fetch_add(1, Ordering::Relaxed) + 1;
            match take(&mut state, &look, turn) {
                Some((task, part)) => {
                    publish(run, &mut state, &look);
                    return Found::Task(run.clone(), task, part);
                }
                // Another worker has taken it, or the policy has changed.
                None => run.waker.returned(),
            }
        }
    }

    fn look_at(&self, run: &Shared, policy: &dyn Policy, now_ns: u64) -> (Rank, u64) {
        let look = self.look_of(run, policy, now_ns);
        let mut state = run.state();
        let offer = publish(run, &mut state, &look);
        drop(state);
        match offer {
            Offer::Rank(rank, until_ns) => (rank, until_ns),
            Offer::Finished => {
                run.finish();
                (Rank::NONE, u64::MAX)
            }
        }
    }

    fn look_of<'a>(&'a self, run: &Shared, policy: &'a dyn Policy, now_ns: u64) -> Look<'a> {
        Look { policy, workers: self.crew.workers, seen: run.waker.seen(), clock: &self.crew.clock, now_ns }
    }

    fn run(&mut self, run: &Shared, task: Task, part: Part, started_ns: u64) {
        // A run that had nothing to do for a while does not make up for it at the others' cost.
        let served_ns = run.served_ns.load(Ordering::Relaxed);
        let least_ns = self.crew.served_ns.fetch_max(served_ns, Ordering::Relaxed).max(served_ns);
        let mut worker = Worker { shared: run, index: self.index, scratch: &mut self.scratch };
        let result = catch_unwind(AssertUnwindSafe(|| worker.run(task)));
        let ended_ns = self.crew.clock.nanos();
        let busy_ns = ended_ns.saturating_sub(started_ns);
        run.served_ns.fetch_max(least_ns, Ordering::Relaxed);
        // By a clock that stands still tasks are counted.
        run.served_ns.fetch_add(busy_ns + 1, Ordering::Relaxed);
        let mut state = run.state();
        state.tasks_running -= 1;
        let operator = state.operators.of_part(part);
        operator.done.busy_ns += busy_ns;
        operator.last_run_ns = ended_ns;
        let changed = result.unwrap_or_else(|panic| {
            state.fail(RunError::Internal(panic_message(panic.as_ref())));
            true
        });
        drop(state);
        if changed {
            run.waker.progressed();
        } else {
            run.waker.returned();
        }
    }
}

/// Tells all workers what there is to do in a run.
fn publish(run: &Shared, state: &mut State, look: &Look<'_>) -> Offer {
    state.load.served_ns = run.served_ns.load(Ordering::Relaxed);
    let offer = offer(state, look);
    match offer {
        Offer::Rank(rank, until_ns) => run.waker.found(look.seen, rank, until_ns),
        Offer::Finished => run.waker.found(look.seen, Rank::NONE, u64::MAX),
    }
    offer
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a worker panicked").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_end_with_the_last_who_has_them() {
        let pool = Pool::new(2, Clock::system());
        let crew = Arc::downgrade(pool.crew());
        let other = pool.clone();
        drop(pool);
        assert!(crew.upgrade().is_some());
        drop(other);
        assert!(crew.upgrade().is_none(), "each thread holds what they share");
    }
}
