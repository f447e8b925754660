//! The workers of an engine: they serve all of its runs, and end when neither the engine nor a run has them any more.

mod manual;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pelton_data::BLOCK_ROWS_DEFAULT;

use crate::clock::Clock;
use crate::data_passing::DataPassing;
use crate::late::LateLog;
use crate::memory::budget::{Budget, Unread};
#[cfg(all(target_os = "linux", not(miri)))]
use crate::memory::pages;
use crate::options::RunOptions;
use crate::scheduler::attendants::{Patience, Step};
use crate::scheduler::crew::Crew;
use crate::scheduler::policy::PolicyName;
use crate::scheduler::threads;
use crate::scheduler::wake::Waker;
use crate::scheduler::worker::PoolWorker;
pub use crate::scheduler::worker::panic_text;
use crate::shared::Shared;
use crate::sync::thread;

pub use self::manual::ManualWorkers;

/// A fixed number of threads that work on any number of runs. Clones are the same threads.
#[derive(Clone)]
pub struct Pool(Arc<Threads>);

struct Threads {
    crew: Arc<Crew>,
    handles: Vec<thread::JoinHandle<()>>,
}

impl Pool {
    /// Starts so many threads, which know the time from that clock.
    pub fn new(workers: usize, clock: Clock) -> Pool {
        #[cfg(all(target_os = "linux", not(miri)))]
        pages::start();
        let crew = Crew::new(workers, clock, false);
        let handles = (0..workers).map(|index| {
            let worker = PoolWorker::new(crew.clone(), index);
            let thread = thread::Builder::new().name(format!("pelton-worker-{index}"));
            thread.spawn(move || worker.work()).expect("the system can start a thread")
        });
        let handles = handles.collect();
        Pool(Arc::new(Threads { crew, handles }))
    }

    /// A pool without threads: its workers do something when they are told to, in the order in which they are told.
    pub fn manual(workers: usize, clock: Clock) -> (Pool, ManualWorkers) {
        let crew = Crew::new(workers, clock, true);
        let manual = ManualWorkers::new((0..workers).map(|index| PoolWorker::new(crew.clone(), index)));
        (Pool(Arc::new(Threads { crew, handles: Vec::new() })), manual)
    }

    /// How many threads there are.
    pub fn workers(&self) -> usize {
        self.0.crew.workers
    }

    /// What its workers know the time from.
    pub fn clock(&self) -> &Clock {
        &self.0.crew.clock
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
            self.0.crew.runs().iter().for_each(|run| threads::start(&self.0.crew, run));
            self.look_again();
        }
    }

    /// Has workers look again what runs have to do: what was found has the rank that it had, and there may be more.
    pub fn look_again(&self) {
        self.0.crew.runs().iter().for_each(|run| run.waker.progressed());
    }

    /// Has priorities hold for so long, which is not nothing.
    pub fn set_epoch(&self, epoch: Duration) {
        self.0.crew.epoch_ns.store((epoch.as_nanos() as u64).max(1), Ordering::Relaxed);
    }

    /// Has idle workers look for work for so long before they sleep.
    pub fn set_spin(&self, spin: Duration) {
        self.0.crew.rest.set_spin(spin);
    }

    /// Has each worker stay on one of the cores that the thread which made the pool could use, or run on any of them, where the system can do that.
    pub fn set_pinned(&self, is_pinned: bool) {
        if self.0.crew.is_pinned.swap(is_pinned, Ordering::SeqCst) != is_pinned {
            self.0.crew.rest.wake_all();
        }
    }

    /// Has something done that no run waits for, such as compiling, behind what was brought before. It may be left undone.
    pub fn background(&self, work: impl FnOnce() + Send + 'static) {
        self.0.crew.background.leave(work);
    }

    /// Has something done beside a run, step by step until it has ended, by a thread of that name.
    ///
    /// # Errors
    /// Where the system has no thread.
    pub fn attend(&self, name: &str, step: impl FnMut(Patience) -> Step + Send + 'static) -> io::Result<()> {
        self.0.crew.attendants.begin(name, step)
    }

    pub(crate) fn crew(&self) -> &Arc<Crew> {
        &self.0.crew
    }

    /// Serves a run from now on.
    pub(crate) fn take(&self, run: Arc<Shared>) {
        self.0.crew.take(run.clone());
        threads::start(&self.0.crew, &run);
    }

    /// How a run is run that this pool works on, where nothing else is said.
    pub fn run_options(&self) -> RunOptions {
        RunOptions {
            workers: self.workers(),
            block_rows: BLOCK_ROWS_DEFAULT,
            clock: self.clock().clone(),
            waker: self.waker(),
            late: LateLog::new(),
            budget: Budget::default(),
            held: Vec::new(),
            unread: Unread::default(),
            holds_ends: false,
            data_passing: DataPassing::default(),
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.crew.is_closed.store(true, Ordering::SeqCst);
        self.crew.rest.wake_all();
        let current = thread::current().id();
        for handle in self.handles.drain(..).filter(|handle| handle.thread().id() != current) {
            // A worker that panicked has said so already; there is nobody left to tell.
            drop(handle.join());
        }
    }
}

#[cfg(all(test, feature = "shuttle"))]
mod race;
