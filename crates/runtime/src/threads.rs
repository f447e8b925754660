//! A thread for each operator of a run: it does nothing but its operator's tasks, and sleeps where there is none.
//!
//! The threads of the pool do no tasks then. They look at what can run when something happens outside, and say so to the threads whose
//! operators can; after a task, its own thread does.

use std::sync::Arc;

use crate::choose::take_of;
use crate::graph::NodeRef;
use crate::pool::{Crew, PoolWorker};
use crate::run::Shared;
use crate::sync::thread;
use crate::wake::Rest;

/// Where the threads of a run's operators sleep, one by one, in the order of the operators.
pub(crate) struct OperatorThreads(Vec<Rest>);

impl OperatorThreads {
    /// For so many operators.
    pub fn new(operators: usize) -> OperatorThreads {
        OperatorThreads(std::iter::repeat_with(|| Rest::new(1)).take(operators).collect())
    }

    /// Starts them. They end with the run.
    pub fn start(&self, crew: &Arc<Crew>, run: &Arc<Shared>) {
        let parts: Vec<NodeRef> = run.unchanged_state().profile.nodes().collect();
        for (part, rest) in parts.into_iter().zip(&self.0) {
            let (crew, run, rest) = (crew.clone(), run.clone(), rest.clone());
            let work = move || OperatorThread { worker: PoolWorker::new(crew, 0), run, part, rest }.work();
            let thread = thread::Builder::new().name(format!("pelton-{part:?}"));
            thread.spawn(work).expect("the system can start a thread");
        }
    }

    /// Says that these operators can run.
    pub fn wake(&self, operators: &[usize]) {
        operators.iter().for_each(|&operator| self.0[operator].wake());
    }

    /// Says that the run has ended.
    pub fn wake_all(&self) {
        self.0.iter().for_each(Rest::wake_all);
    }
}

impl Shared {
    /// Says that a task has made others possible before it is done: of these operators.
    pub fn progressed(&self, parts: impl Iterator<Item = NodeRef>) {
        let Some(threads) = self.threads.get().filter(|_| self.crew.has_threads()) else {
            return self.waker.progressed();
        };
        self.waker.returned();
        let operators: Vec<usize> = parts.map(|part| self.unchanged_state().profile.index(part)).collect();
        threads.wake(&operators);
    }
}

struct OperatorThread {
    /// As the first of the workers: an operator is never run by two threads, so that it needs to keep things apart for one only.
    worker: PoolWorker,
    run: Arc<Shared>,
    part: NodeRef,
    rest: Rest,
}

impl OperatorThread {
    fn work(mut self) {
        loop {
            let seen = self.rest.seen();
            let now_ns = self.worker.crew.clock.nanos();
            if let Err(until_ns) = self.run_one(now_ns) {
                if self.run.has_ended() {
                    return;
                }
                self.rest.sleep(seen, now_ns, until_ns);
            }
        }
    }

    /// Does one task, or says when there is one, if nothing happens.
    fn run_one(&mut self, now_ns: u64) -> Result<(), u64> {
        let OperatorThread { worker, run, part, .. } = self;
        let look = worker.look_of(run, now_ns);
        if !look.has_threads {
            return Err(u64::MAX);
        }
        // Since it was done with its last task it has slept, or begun anew.
        worker.waited_ns.set(0);
        let mut state = worker.state_of(run);
        let turn = worker.crew.next_turn();
        match take_of(&mut state, &look, *part, turn) {
            Ok(taken) => {
                drop(state);
                run.waker.returned();
                drop(worker.run(run, taken, now_ns));
                Ok(())
            }
            Err(until_ns) => {
                // Time may have passed, or the run have come to its end.
                worker.look_at(run, state, now_ns);
                Err(until_ns)
            }
        }
    }
}
