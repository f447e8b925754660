//! What the thread of an operator does.

use std::sync::Arc;

use super::OperatorThreads;
use crate::graph::NodeRef;
use crate::scheduler::crew::Crew;
use crate::scheduler::dispatch::take_of;
use crate::scheduler::wake::Rest;
use crate::scheduler::worker::PoolWorker;
use crate::shared::Shared;
use crate::sync::thread;

/// Gives the operators of a run threads of their own, where the policy wants that. They end with the run.
pub(crate) fn start(crew: &Arc<Crew>, run: &Arc<Shared>) {
    if !crew.has_threads() {
        return;
    }
    let nodes: Vec<NodeRef> = run.unchanged_state().statistics.nodes().collect();
    let mut are_new = false;
    let threads = run.threads.get_or_init(|| {
        are_new = true;
        OperatorThreads::new(nodes.len())
    });
    // Only now: each finds the others.
    if !are_new {
        return;
    }
    for (node, rest) in nodes.into_iter().zip(&threads.0) {
        let (crew, run, rest) = (crew.clone(), run.clone(), rest.clone());
        let work = move || OperatorThread { worker: PoolWorker::new(crew, 0), run, node, rest }.work();
        let thread = thread::Builder::new().name(format!("pelton-{node:?}"));
        thread.spawn(work).expect("the system can start a thread");
    }
}

struct OperatorThread {
    /// As the first of the workers: an operator is never run by two threads, so that it needs to keep things apart for one only.
    worker: PoolWorker,
    run: Arc<Shared>,
    node: NodeRef,
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
        let OperatorThread { worker, run, node, .. } = self;
        let look = worker.look_of(run, now_ns);
        if !look.has_threads {
            return Err(u64::MAX);
        }
        // Since it was done with its last task it has slept, or begun anew.
        worker.waited_ns.set(0);
        let mut state = worker.state_of(run);
        let turn = worker.crew.next_turn();
        match take_of(&mut state, &look, *node, turn) {
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
