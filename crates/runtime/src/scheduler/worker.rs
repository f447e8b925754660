//! A worker of a pool: it looks for work in all runs, and does it.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pelton_state::kernel::Scratch;

use crate::error::RunError;
use crate::graph::NodeRef;
use crate::scheduler::buffers::TaskBuffers;
use crate::scheduler::crew::Crew;
use crate::scheduler::dispatch::{Look, Offer, Taken, offer, take};
use crate::scheduler::fairness::Order;
#[cfg(target_os = "linux")]
use crate::scheduler::pinning::Cores;
use crate::scheduler::policy::Rank;
use crate::scheduler::task::Worker;
use crate::scheduler::wake::{Patience, Waker};
use crate::shared::Shared;
use crate::state::State;
use crate::sync::MutexGuard;

/// No run has this address.
const NO_RUN: usize = 0;

/// One of the threads.
pub(crate) struct PoolWorker {
    pub crew: Arc<Crew>,
    /// Which of the workers, from 0.
    index: usize,
    /// Of the run that it was on last.
    last: Option<Waker>,
    /// Where it was there last, where that has more than one.
    last_region: Option<usize>,
    /// The runs as of so many changes.
    runs: Vec<KnownRun>,
    changes: u64,
    /// Those of them that are not dormant, as of so many awakenings.
    awake: Vec<usize>,
    awakenings: u64,
    /// When it looked last for runs that become dormant.
    swept_ns: u64,
    scratch: Scratch,
    buffers: TaskBuffers,
    /// When it looked at all runs last.
    looked_ns: Cell<u64>,
    /// How long others have had what it wanted to look at, since it was done with a task.
    pub waited_ns: Cell<u64>,
    /// How long it has taken to wake others since then.
    waking_ns: Cell<u64>,
    /// The run of which it has a task, by its address.
    taken_of: Cell<usize>,
}

/// A run that it serves.
struct KnownRun {
    /// Knows what there is to do.
    waker: Waker,
    run: Arc<Shared>,
    /// [`Waker::quiet_at`] of an epoch ago.
    quiet_at: Option<u64>,
}

impl KnownRun {
    fn new(run: &Arc<Shared>) -> KnownRun {
        KnownRun { waker: run.waker.clone(), run: run.clone(), quiet_at: None }
    }

    /// Whether nothing has happened for an epoch, and nothing is to be done for long unless something does.
    fn falls_dormant(&mut self, now_ns: u64) -> bool {
        let quiet_at = self.waker.quiet_at(now_ns);
        let was_quiet = std::mem::replace(&mut self.quiet_at, quiet_at);
        quiet_at.is_some() && quiet_at == was_quiet && self.waker.falls_dormant(now_ns)
    }
}

/// Where a worker's thread runs.
#[derive(Default)]
struct Pinning {
    is_pinned: bool,
    /// Where it may, once it was pinned.
    #[cfg(target_os = "linux")]
    all: Option<Cores>,
}

impl Pinning {
    /// Has the worker stay on one core, or lets it go, where that is asked for and not so yet.
    fn pin(&mut self, worker: usize, is_pinned: bool) {
        if std::mem::replace(&mut self.is_pinned, is_pinned) == is_pinned {
            return;
        }
        #[cfg(target_os = "linux")]
        if let Some(all) = self.all.take().or_else(Cores::of_thread) {
            if is_pinned {
                all.one(worker).take_thread();
            } else {
                all.take_thread();
            }
            self.all = Some(all);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = worker;
    }
}

/// What a worker finds when it looks for work.
pub(crate) enum Found {
    Task(Arc<Shared>, Taken),
    /// Nothing before this instant, unless something happens.
    Nothing(u64),
}

impl PoolWorker {
    pub fn new(crew: Arc<Crew>, index: usize) -> PoolWorker {
        PoolWorker {
            crew,
            index,
            last: None,
            last_region: None,
            runs: Vec::new(),
            changes: 0,
            awake: Vec::new(),
            awakenings: 0,
            swept_ns: 0,
            scratch: Scratch::default(),
            buffers: TaskBuffers::default(),
            looked_ns: Cell::new(0),
            waited_ns: Cell::new(0),
            waking_ns: Cell::new(0),
            taken_of: Cell::new(NO_RUN),
        }
    }

    /// Serves runs until the pool is closed. A panic outside of tasks, which is a fault of ours, ends all runs instead of leaving them without a worker.
    pub fn work(mut self) {
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.serve())) {
            self.fail_runs(panic.as_ref());
        }
    }

    fn fail_runs(&mut self, panic: &(dyn std::any::Any + Send)) {
        let runs: Vec<Arc<Shared>> = self.crew.runs().clone();
        let taken_of = self.taken_of.replace(NO_RUN);
        for run in &runs {
            let mut state = run.state();
            state.fail(RunError::Internal(panic_text(panic).unwrap_or("a worker panicked").to_owned()));
            // Nobody does a task that was taken when the worker panicked.
            state.tasks_running -= usize::from(Arc::as_ptr(run).addr() == taken_of);
            run.waker.wake();
        }
    }

    fn serve(&mut self) {
        let mut now_ns = self.crew.clock.nanos();
        let (mut place, mut patience) = (Pinning::default(), Patience::new());
        loop {
            let seen = self.crew.rest.seen();
            if self.crew.is_closed.load(Ordering::SeqCst) {
                return;
            }
            place.pin(self.index, self.crew.is_pinned.load(Ordering::SeqCst));
            self.know_runs(now_ns);
            now_ns = match self.look(now_ns) {
                Found::Task(run, taken) => {
                    let mut next = Some(taken);
                    while let Some(taken) = next {
                        (now_ns, next) = self.run(&run, taken, now_ns);
                        place.pin(self.index, self.crew.is_pinned.load(Ordering::SeqCst));
                    }
                    now_ns
                }
                Found::Nothing(until_ns) => {
                    self.crew.rest.wait(&mut patience, seen, now_ns, until_ns);
                    // It begins anew: so does what it waits for.
                    self.waited_ns.set(0);
                    self.crew.clock.nanos()
                }
            }
        }
    }

    /// Learns which runs there are, and which of them are dormant.
    pub fn know_runs(&mut self, now_ns: u64) {
        let changes = self.crew.changes.load(Ordering::SeqCst);
        let have_changed = std::mem::replace(&mut self.changes, changes) != changes;
        if have_changed {
            self.runs = self.crew.runs().iter().map(KnownRun::new).collect();
        }
        if now_ns >= self.crew.rest.dormant_until_ns() {
            self.crew.rest.awaken_due(self.crew.runs().iter().map(|run| &run.waker), now_ns);
        }
        let awakenings = self.crew.rest.awakenings();
        if std::mem::replace(&mut self.awakenings, awakenings) != awakenings || have_changed {
            self.awake.clear();
            self.awake.extend((0..self.runs.len()).filter(|&run| !self.runs[run].waker.is_dormant()));
        }
        if now_ns.saturating_sub(self.swept_ns) >= self.crew.epoch_ns() {
            self.swept_ns = now_ns;
            let runs = &mut self.runs;
            self.awake.retain(|&run| !runs[run].falls_dormant(now_ns));
        }
    }

    /// The runs that are not dormant.
    fn awake(&self) -> impl Iterator<Item = (&Waker, &Arc<Shared>)> {
        self.awake.iter().map(|&run| (&self.runs[run].waker, &self.runs[run].run))
    }

    /// Takes the task of the lowest rank of all runs; of those of one rank, that of the run that has been served for fewest epochs, of these that of the one
    /// that it was on last.
    pub fn look(&self, now_ns: u64) -> Found {
        let has_threads = self.crew.has_threads();
        self.looked_ns.set(now_ns);
        loop {
            let (mut until_ns, mut best, mut runs) = (self.crew.rest.dormant_until_ns(), None, 0);
            for (waker, run) in self.awake() {
                let (rank, known_until_ns) =
                    waker.known(now_ns).unwrap_or_else(|| self.look_at(run, self.state_of(run), now_ns));
                if has_threads {
                    // They have been told, and know the time.
                    continue;
                }
                if rank == Rank::NONE {
                    until_ns = until_ns.min(known_until_ns);
                    continue;
                }
                runs += 1;
                let order = self.order_of(waker, rank);
                if best.is_none_or(|(least, _)| order < least) {
                    best = Some((order, run));
                }
            }
            let Some((_, run)) = best else { return Found::Nothing(until_ns) };
            let look = self.look_of(run, now_ns);
            if let Some(taken) = self.take_found(run, self.state_of(run), &look, (runs > 1, until_ns)) {
                return Found::Task(run.clone(), taken);
            }
        }
    }

    /// Takes what was found in a run, and wakes another worker where there is more: in other runs there is, or will be at that instant.
    fn take_found(
        &self,
        run: &Shared,
        mut state: MutexGuard<'_, State>,
        look: &Look<'_>,
        (has_others, until_ns): (bool, u64),
    ) -> Option<Taken> {
        self.taken_of.set(std::ptr::from_ref(run).addr());
        let taken = take(&mut state, look, self.crew.next_turn());
        if taken.is_none() {
            self.taken_of.set(NO_RUN);
        }
        drop(state);
        // What is left is to be looked for anew; so it is where another worker was faster.
        run.waker.returned();
        if let Some(taken) = &taken {
            self.wake_others(taken, has_others, until_ns);
        }
        taken
    }

    /// Wakes another worker, if there is more to do than it takes, or something before anyone awake would look.
    fn wake_others(&self, taken: &Taken, has_others: bool, until_ns: u64) {
        let began_ns = self.crew.rest.has_sleepers().then(|| self.crew.clock.nanos());
        if has_others || taken.has_others {
            self.crew.rest.wake();
        } else {
            self.crew.rest.wake_by(until_ns.min(taken.until_ns));
        }
        if let Some(began_ns) = began_ns {
            self.waking_ns.set(self.waking_ns.get() + self.crew.clock.nanos().saturating_sub(began_ns));
        }
    }

    /// Where a task of this rank stands among those of all runs: the least goes first.
    fn order_of(&self, waker: &Waker, rank: Rank) -> Order {
        let (is_last, is_fair) = (self.was_on(waker), self.crew.policy().is_fair());
        self.crew.served.order(waker.service(), rank, is_last, self.crew.epoch_ns(), is_fair)
    }

    /// Whether this is the run that it was on last.
    fn was_on(&self, waker: &Waker) -> bool {
        self.last.as_ref() == Some(waker)
    }

    /// Whether what other workers are on is left to them, but for a look at all of it in each epoch.
    fn leaves_to_others(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.looked_ns.get()) < self.crew.epoch_ns()
    }

    /// Whether a task of this rank in one of its runs goes first, as far as that is known of all, and then whether other runs have any, or when they will.
    fn goes_first(&self, run: &Shared, rank: Rank, now_ns: u64) -> Option<(bool, u64)> {
        let are_known = || {
            self.crew.changes.load(Ordering::SeqCst) == self.changes && self.crew.rest.awakenings() == self.awakenings
        };
        if !self.leaves_to_others(now_ns) || !are_known() {
            return None;
        }
        let order = self.order_of(&run.waker, rank);
        let (mut is_here, mut has_others, mut until_ns) = (false, false, self.crew.rest.dormant_until_ns());
        for (waker, other) in self.awake() {
            if std::ptr::eq(other.as_ref(), run) {
                is_here = true;
                continue;
            }
            match waker.known(now_ns) {
                None if waker.service().is_under_way() => {}
                Some((Rank::NONE, known_until_ns)) => until_ns = until_ns.min(known_until_ns),
                Some((rank, _)) if order <= self.order_of(waker, rank) => has_others = true,
                _ => return None,
            }
        }
        is_here.then_some((has_others, until_ns))
    }

    /// For looking. Notes for how long somebody else had it meanwhile: where nobody has, no clock is looked at.
    pub fn state_of<'a>(&self, run: &'a Shared) -> MutexGuard<'a, State> {
        if let Ok(state) = run.state.try_lock() {
            return state;
        }
        let began_ns = self.crew.clock.nanos();
        let state = run.unchanged_state();
        self.waited_ns.set(self.waited_ns.get() + (self.crew.clock.nanos() - began_ns));
        state
    }

    /// Looks at what there is to do in a run, and tells all workers, and the threads of the operators that can run.
    pub fn look_at(&self, run: &Shared, mut state: MutexGuard<'_, State>, now_ns: u64) -> (Rank, u64) {
        let look = Look { leaves_to_others: false, ..self.look_of(run, now_ns) };
        let offer = self.offer_of(run, &mut state, &look);
        self.tell(run, state, &look, offer)
    }

    fn offer_of(&self, run: &Shared, state: &mut State, look: &Look<'_>) -> Offer {
        state.load.served_ns = run.waker.service().ns();
        offer(state, look)
    }

    /// Tells what was found.
    fn tell(&self, run: &Shared, mut state: MutexGuard<'_, State>, look: &Look<'_>, offer: Offer) -> (Rank, u64) {
        let (rank, until_ns) = match offer {
            Offer::Rank(rank, until_ns) => (rank, until_ns),
            Offer::Finished => (Rank::NONE, u64::MAX),
        };
        run.waker.found(look.seen, rank, until_ns);
        let can_run = std::mem::take(&mut state.can_run);
        drop(state);
        if let Some(threads) = run.threads.get() {
            threads.wake(&can_run);
        }
        if offer == Offer::Finished {
            run.finish();
        }
        (rank, until_ns)
    }

    pub fn look_of<'a>(&'a self, run: &Shared, now_ns: u64) -> Look<'a> {
        let policy = self.crew.policy();
        let has_threads = !self.crew.is_manual && policy.has_threads();
        Look {
            policy,
            epoch_ns: self.crew.epoch_ns(),
            has_threads,
            workers: self.crew.workers,
            has_runs: self.runs.len() > 1,
            has_idle: self.crew.rest.has_idle(),
            last_region: self.last_region.filter(|_| self.was_on(&run.waker)),
            leaves_to_others: self.leaves_to_others(now_ns),
            seen: run.waker.seen(),
            clock: &self.crew.clock,
            now_ns,
        }
    }

    /// Does what was found by looking from that instant on. Returns when it was done, and what it has taken next in the same run, where no other is known
    /// to have something more urgent: then it is taken before anyone else looks.
    pub fn run(&mut self, run: &Shared, taken: Taken, looked_ns: u64) -> (u64, Option<Taken>) {
        let started_ns = self.crew.clock.nanos();
        self.crew.served.begin(run.waker.service(), self.crew.epoch_ns());
        if !self.was_on(&run.waker) {
            (self.last, self.last_region) = (Some(run.waker.clone()), None);
        }
        let PoolWorker { scratch, buffers, .. } = self;
        let mut worker = Worker { shared: run, index: self.index, started_ns, scratch, buffers };
        let result = catch_unwind(AssertUnwindSafe(|| worker.run(taken.task)));
        let ended_ns = self.crew.clock.nanos();
        let busy_ns = ended_ns.saturating_sub(started_ns);
        // By a clock that stands still tasks are counted.
        run.waker.service().end(busy_ns + 1);
        let (waited_ns, waking_ns) = (self.waited_ns.take(), self.waking_ns.take());
        let mut state = self.state_of(run);
        state.next = None;
        state.tasks_running -= 1;
        self.taken_of.set(NO_RUN);
        state.decisions += 1;
        state.deciding_ns += started_ns.saturating_sub(looked_ns).saturating_sub(waited_ns + waking_ns);
        state.waited_ns += waited_ns;
        state.waking_ns += waking_ns;
        let index = state.statistics.index(taken.node);
        state.regions.end(index, busy_ns + 1);
        // What writes is nowhere, and the worker still where it was.
        self.last_region = state.regions.region(index).or(self.last_region);
        let operator = &mut state.statistics.all[index];
        operator.done.busy_ns += busy_ns;
        operator.last_run_ns = ended_ns;
        if let Err(panic) = result {
            // What it has left in lists is of no use to others.
            self.buffers = TaskBuffers::default();
            if let NodeRef::Sink(sink) = taken.node {
                // Nothing more can be written to it.
                state.sinks[sink].close();
                (state.sinks[sink].ended, state.sinks[sink].writing) = (true, false);
            }
            state.fail(RunError::Internal(panic_text(panic.as_ref()).unwrap_or("a worker panicked").to_owned()));
        }
        if state.is_awaited() || (state.must_stop() && (state.is_held || state.holds_ends)) {
            run.awaited.notify_all();
        }
        // It looks for what this has made possible itself, and wakes others if there is more than one thing.
        run.waker.returned();
        let look = self.look_of(run, ended_ns);
        let offer = self.offer_of(run, &mut state, &look);
        if let Offer::Rank(rank, _) = offer
            && rank != Rank::NONE
            && !look.has_threads
            && let Some(others) = self.goes_first(run, rank, ended_ns)
        {
            return (ended_ns, self.take_found(run, state, &look, others));
        }
        self.tell(run, state, &look, offer);
        (ended_ns, None)
    }
}

/// What a panic says, if that is text.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> Option<&str> {
    panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied())
}

#[cfg(test)]
mod tests;
