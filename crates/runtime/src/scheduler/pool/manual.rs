//! Workers that a test moves.

use std::sync::Arc;

use crate::scheduler::dispatch::Taken;
use crate::scheduler::worker::{Found, PoolWorker};
use crate::shared::Shared;

/// Workers without threads, so that any order in which things can happen happens in one thread, and again.
pub struct ManualWorkers(Vec<ManualWorker>);

struct ManualWorker {
    worker: PoolWorker,
    /// What it has taken and not done yet, and when it looked for it.
    held: Option<(Arc<Shared>, Taken, u64)>,
    /// What it sleeps under, if it does.
    ticket: Option<u64>,
}

impl ManualWorkers {
    pub(super) fn new(workers: impl Iterator<Item = PoolWorker>) -> ManualWorkers {
        ManualWorkers(workers.map(|worker| ManualWorker { worker, held: None, ticket: None }).collect())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Does the next of what no run waits for ([`super::Pool::background`]). Returns whether there was any.
    pub fn step_background(&mut self) -> bool {
        // All have the same crew.
        self.0.first().is_some_and(|first| first.worker.crew.background.step())
    }

    /// Does a step of all that is done beside runs ([`super::Pool::attend`]). Returns whether there was anything to do.
    pub fn step_attendants(&mut self) -> bool {
        self.0.first().is_some_and(|first| first.worker.crew.attendants.step())
    }

    /// Has a worker take a task, or, where it has taken one, do it; one that finds none sleeps from then on until it is woken. Returns whether
    /// there was any: where all workers sleep none comes before something happens outside, or time passes.
    pub fn step(&mut self, worker: usize) -> bool {
        let ManualWorker { worker, held, ticket } = &mut self.0[worker];
        if let Some((run, taken, looked_ns)) = held.take() {
            let (done_ns, next) = worker.run(&run, taken, looked_ns);
            *held = next.map(|next| (run, next, done_ns));
            return true;
        }
        let now_ns = worker.crew.clock.nanos();
        if ticket.is_some_and(|ticket| !worker.crew.rest.wakes_up(ticket, now_ns)) {
            return false;
        }
        let seen = worker.crew.rest.seen();
        worker.know_runs(now_ns);
        *ticket = None;
        match worker.look(now_ns) {
            Found::Task(run, taken) => *held = Some((run, taken, now_ns)),
            Found::Nothing(until_ns) => {
                *ticket = worker.crew.rest.falls_asleep(seen, until_ns);
                return ticket.is_none();
            }
        }
        true
    }
}
