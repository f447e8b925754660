//! The workers of an engine: they serve all of its runs, and end when neither the engine nor a run has them any more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use pelton_state::kernel::Scratch;

use crate::clock::Clock;
use crate::policy::{Next, Task, next};
use crate::run::{RunError, Shared};
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
    Task(Arc<Shared>, Task),
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
                Found::Task(run, task) => self.run(&run, task, now_ns),
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

    /// Takes a task of the run that has been served least, of those that have one.
    fn look(&self, now_ns: u64) -> Found {
        loop {
            let mut until_ns = u64::MAX;
            let awake = self.runs.iter().filter(|run| match run.waker.quiet_until_ns(now_ns) {
                Some(quiet_until_ns) => {
                    until_ns = until_ns.min(quiet_until_ns);
                    false
                }
                None => true,
            });
            let Some(run) = awake.min_by_key(|run| run.served_ns.load(Ordering::Relaxed)) else {
                return Found::Nothing(until_ns);
            };
            let seen = run.waker.seen();
            let mut state = run.state();
            match next(&mut state, self.crew.workers, seen, &self.crew.clock) {
                Next::Task(task) => return Found::Task(run.clone(), task),
                Next::Wait(nanos) => {
                    let until_ns = nanos.map_or(u64::MAX, |nanos| now_ns.saturating_add(nanos));
                    run.waker.found_nothing(seen, until_ns);
                }
                Next::Finished => {
                    run.waker.found_nothing(seen, u64::MAX);
                    drop(state);
                    run.finish();
                }
            }
        }
    }

    fn run(&mut self, run: &Shared, task: Task, started_ns: u64) {
        // A run that had nothing to do for a while does not make up for it at the others' cost.
        let served_ns = run.served_ns.load(Ordering::Relaxed);
        let least_ns = self.crew.served_ns.fetch_max(served_ns, Ordering::Relaxed).max(served_ns);
        let mut worker = Worker { shared: run, index: self.index, scratch: &mut self.scratch };
        let result = catch_unwind(AssertUnwindSafe(|| worker.run(task)));
        run.served_ns.fetch_max(least_ns, Ordering::Relaxed);
        // By a clock that stands still tasks are counted.
        run.served_ns.fetch_add(self.crew.clock.nanos().saturating_sub(started_ns) + 1, Ordering::Relaxed);
        let mut state = run.state();
        state.tasks_running -= 1;
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
