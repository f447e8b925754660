//! How idle workers sleep and who wakes them.
//!
//! An event count: a worker notes the count, looks for work, and sleeps only while the count is still the same. Whoever
//! makes work raises the count first, so that no wake-up is lost. Raising it takes no lock while nobody sleeps.
//!
//! Each run has counts of its own in front of the one that all share: what a worker found to do in a run is known to
//! all, and the run is not looked at again, until something happens in it. A run in which nothing happens for a while becomes dormant: workers leave it out
//! of what they go through, so that a choice takes no longer however many there are.

mod awaited;

#[cfg(feature = "loom")]
use loom::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
};
#[cfg(feature = "loom")]
use loom::thread::{self, Thread};
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
use std::hint::spin_loop;
#[cfg(not(feature = "loom"))]
use std::sync::Arc;

use std::time::{Duration, Instant};

pub use self::awaited::Awaited;
use crate::scheduler::fairness::Service;
use crate::scheduler::policy::Rank;
#[cfg(not(feature = "loom"))]
use crate::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
    thread::{self, Thread},
};

/// So long a worker looks whether something happens before it sleeps, unless that is set.
pub const SPIN_DEFAULT: Duration = Duration::from_micros(20);

/// So many times as long some do, the watchers: what others are at work on, or whoever feeds the engine, mostly has more to do for them sooner than a thread
/// wakes up.
const SPINS_OF_WATCHER: u32 = 10;

/// So often it does before it looks at the clock: less than a microsecond.
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
const SPINS_AT_ONCE: u32 = 16;

/// So often one after the other spinning must have been in vain until it is no more expected to be of use.
const PATIENCE_MAX: u8 = 8;

/// A run that has nothing to do for so long may become dormant.
const DORMANT_NS_MIN: u64 = 100_000_000;

/// With a dormant run in which there is something to do those are awakened in which there is so soon after.
const AWAKENED_NS: u64 = 50_000_000;

/// As long as spinning takes the place of a wake-up once in so many times and one, it is worth its time.
const IN_VAIN: u8 = 2;

/// What a worker expects of spinning: nothing, where it had nothing to do for longer nearly always. Then it would only use the core up.
#[derive(Debug)]
pub(crate) struct Patience(u8);

impl Patience {
    /// Of a worker of which nothing is known.
    pub fn new() -> Patience {
        Patience(PATIENCE_MAX)
    }

    fn spins(&self) -> bool {
        self.0 > 0
    }

    fn learn(&mut self, was_short: bool) {
        self.0 = if was_short { (self.0 + IN_VAIN).min(PATIENCE_MAX) } else { self.0.saturating_sub(1) };
    }
}

/// Where the workers of a pool sleep. Clones are the same place.
#[derive(Debug, Clone)]
pub(crate) struct Rest(Arc<EventCount>);

#[derive(Debug)]
struct EventCount {
    /// Who may rest here.
    workers: usize,
    /// Of all runs.
    events: AtomicU64,
    /// How often something has happened in a dormant run, or may be to be done there.
    awakenings: AtomicU64,
    /// When there is next something to do in a dormant run, or earlier; the largest number where there is nothing.
    dormant_until_ns: AtomicU64,
    sleepers: AtomicUsize,
    /// Who does not sleep yet, and sees when something happens.
    spinners: AtomicUsize,
    /// Who spins for longer.
    watchers: AtomicUsize,
    beds: Mutex<Beds>,
    /// The first of these instants; the largest number where there is none.
    first_until_ns: AtomicU64,
    /// See [`Rest::spin`].
    spin_ns: AtomicU64,
}

/// Those who sleep, in the order in which they went to bed.
#[derive(Debug, Default)]
struct Beds {
    beds: Vec<Bed>,
    next_ticket: u64,
}

#[derive(Debug)]
struct Bed {
    ticket: u64,
    /// In nanoseconds of the engine's clock.
    until_ns: u64,
    /// It has been woken, and has not got up yet.
    is_woken: bool,
    /// Who sleeps there, where that is a thread.
    thread: Option<Thread>,
}

impl Bed {
    /// Marks it, and says which thread is to be told.
    fn wake(&mut self) -> Option<Thread> {
        self.is_woken = true;
        self.thread.clone()
    }
}

impl Rest {
    /// A place of so many workers, all of which are at work.
    pub fn new(workers: usize) -> Rest {
        Rest(Arc::new(EventCount {
            workers,
            events: AtomicU64::new(0),
            awakenings: AtomicU64::new(0),
            dormant_until_ns: AtomicU64::new(u64::MAX),
            sleepers: AtomicUsize::new(0),
            spinners: AtomicUsize::new(0),
            watchers: AtomicUsize::new(0),
            beds: Mutex::new(Beds::default()),
            first_until_ns: AtomicU64::new(u64::MAX),
            spin_ns: AtomicU64::new(SPIN_DEFAULT.as_nanos() as u64),
        }))
    }

    /// The count of events, to be read before looking for work.
    pub fn seen(&self) -> u64 {
        self.0.events.load(Ordering::SeqCst)
    }

    /// How often something has happened in a dormant run, or is to be done there soon: after that the list of those that are not is to be made anew.
    pub fn awakenings(&self) -> u64 {
        self.0.awakenings.load(Ordering::SeqCst)
    }

    /// When there is next something to do in a dormant run, or earlier.
    pub fn dormant_until_ns(&self) -> u64 {
        self.0.dormant_until_ns.load(Ordering::SeqCst)
    }

    /// Awakens those of these runs in which there is something to do soon.
    pub fn awaken_due<'a>(&self, runs: impl Iterator<Item = &'a Waker>, now_ns: u64) {
        self.0.dormant_until_ns.swap(u64::MAX, Ordering::SeqCst);
        for waker in runs.filter(|waker| waker.is_dormant()) {
            let until_ns = waker.run.known_until_ns.load(Ordering::SeqCst);
            if until_ns <= now_ns.saturating_add(AWAKENED_NS) {
                waker.awaken();
            } else {
                self.0.dormant_until_ns.fetch_min(until_ns, Ordering::SeqCst);
            }
        }
    }

    /// Wakes a worker, if all that could look sleep: it may find work, and wakes another one if it finds more than it takes.
    pub fn wake(&self) {
        // Who stops spinning before it has seen this looks at the count again before it sleeps.
        if !self.ring() || self.0.spinners.load(Ordering::SeqCst) > 0 {
            return;
        }
        // What the last one needs is most likely still in its cache.
        let woken = self.beds().beds.iter_mut().rev().find(|bed| !bed.is_woken).and_then(Bed::wake);
        // It looks at the beds when it wakes up, so that they must be free again.
        woken.iter().for_each(Thread::unpark);
    }

    /// Whether anyone sleeps who may have to be woken, which takes time.
    pub fn has_sleepers(&self) -> bool {
        self.0.sleepers.load(Ordering::Relaxed) > 0
    }

    /// Whether anyone has nothing to do.
    pub fn has_idle(&self) -> bool {
        self.has_sleepers() || self.0.spinners.load(Ordering::Relaxed) > 0
    }

    /// Wakes all workers.
    pub fn wake_all(&self) {
        if self.ring() {
            let woken: Vec<Thread> = self.beds().beds.iter_mut().filter_map(Bed::wake).collect();
            woken.iter().for_each(Thread::unpark);
        }
    }

    /// Counts an event. Returns whether anyone sleeps.
    fn ring(&self) -> bool {
        self.0.events.fetch_add(1, Ordering::SeqCst);
        // Pairs with the fence in `sleep`: either the sleeper sees the new count, or this sees the sleeper.
        fence(Ordering::SeqCst);
        self.0.sleepers.load(Ordering::SeqCst) > 0
    }

    /// Has workers look for so long whether something happens before they sleep.
    pub fn set_spin(&self, spin: Duration) {
        let spin_ns = spin.as_nanos().try_into().unwrap_or(u64::MAX);
        if self.0.spin_ns.swap(spin_ns, Ordering::Relaxed) != spin_ns {
            // Who spins does so as long as it was told when it began.
            self.wake_all();
        }
    }

    /// Spins, where that is worth it, and sleeps, as [`Rest::spin`] and [`Rest::sleep`] say.
    pub fn wait(&self, patience: &mut Patience, seen: u64, now_ns: u64, until_ns: u64) {
        let began = Instant::now();
        let has_happened = patience.spins() && self.spin(seen, now_ns, until_ns);
        if !has_happened {
            self.sleep(seen, now_ns, until_ns);
        }
        // Who slept could have seen it as a watcher.
        patience.learn(has_happened || began.elapsed() < SPINS_OF_WATCHER * self.spin_time());
    }

    fn spin_time(&self) -> Duration {
        Duration::from_nanos(self.0.spin_ns.load(Ordering::Relaxed))
    }

    /// Waits for a moment without sleeping, a watcher for a longer one, at most from now until that instant. Returns whether something happened after `seen`.
    ///
    /// To wake a thread takes the one that wakes it several microseconds, and the other one tens of them; where there is much to do the next
    /// thing happens sooner.
    pub fn spin(&self, seen: u64, now_ns: u64, until_ns: u64) -> bool {
        let (spin, left) = (self.spin_time(), Duration::from_nanos(until_ns.saturating_sub(now_ns)));
        if spin.min(left).is_zero() {
            return false;
        }
        self.0.spinners.fetch_add(1, Ordering::SeqCst);
        let mut has_happened = self.watch(seen, spin.min(left));
        if !has_happened && spin < left && self.becomes_watcher() {
            has_happened = self.watch(seen, ((SPINS_OF_WATCHER - 1) * spin).min(left - spin));
            self.0.watchers.fetch_sub(1, Ordering::Relaxed);
        }
        self.0.spinners.fetch_sub(1, Ordering::SeqCst);
        has_happened
    }

    /// Whether it may: half of those may who do not sleep, as the others may make work for them, and one always. So one core at most is taken by those who watch
    /// where the others have had nothing to do for a while.
    fn becomes_watcher(&self) -> bool {
        let awake = self.0.workers.saturating_sub(self.0.sleepers.load(Ordering::Relaxed));
        let is_too_many = self.0.watchers.fetch_add(1, Ordering::Relaxed) >= (awake / 2).max(1);
        if is_too_many {
            self.0.watchers.fetch_sub(1, Ordering::Relaxed);
        }
        !is_too_many
    }

    #[cfg(not(any(feature = "loom", feature = "shuttle")))]
    fn watch(&self, seen: u64, at_most: Duration) -> bool {
        let began = Instant::now();
        let has_happened = |_| {
            spin_loop();
            self.0.events.load(Ordering::Relaxed) != seen
        };
        loop {
            if (0..SPINS_AT_ONCE).any(has_happened) {
                return true;
            }
            if began.elapsed() >= at_most {
                return false;
            }
            // Whoever else wants the core, such as a reader of what was written last, need not wait until it is given up. Until it comes back others must be
            // woken, and what happens meanwhile is seen then.
            self.0.spinners.fetch_sub(1, Ordering::SeqCst);
            thread::yield_now();
            self.0.spinners.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A look is as good as many.
    #[cfg(any(feature = "loom", feature = "shuttle"))]
    fn watch(&self, seen: u64, _at_most: Duration) -> bool {
        self.0.events.load(Ordering::Relaxed) != seen
    }

    /// Wakes a worker, if all that could look then sleep for longer than until that instant.
    pub fn wake_by(&self, until_ns: u64) {
        if until_ns < self.0.first_until_ns.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Sleeps until something happened after `seen` for which it is woken, at most from now until that instant.
    pub fn sleep(&self, seen: u64, now_ns: u64, until_ns: u64) {
        let Some(ticket) = self.go_to_bed(seen, until_ns, Some(thread::current())) else { return };
        // A spurious wake-up costs one look for work.
        park((until_ns != u64::MAX).then(|| Duration::from_nanos(until_ns.saturating_sub(now_ns))));
        self.get_up(&mut self.beds(), ticket);
    }

    /// The first half of [`Rest::sleep`], for a worker that has no thread of its own: a ticket where it sleeps now.
    pub fn falls_asleep(&self, seen: u64, until_ns: u64) -> Option<u64> {
        self.go_to_bed(seen, until_ns, None)
    }

    /// The other half. Returns whether it has been woken, or it is time.
    pub fn wakes_up(&self, ticket: u64, now_ns: u64) -> bool {
        let mut beds = self.beds();
        let must_wake = beds.beds.iter().any(|bed| bed.ticket == ticket && (bed.is_woken || now_ns >= bed.until_ns));
        if must_wake {
            self.get_up(&mut beds, ticket);
        }
        must_wake
    }

    fn go_to_bed(&self, seen: u64, until_ns: u64, thread: Option<Thread>) -> Option<u64> {
        let mut beds = self.beds();
        self.0.sleepers.fetch_add(1, Ordering::SeqCst);
        let ticket = beds.next_ticket;
        beds.next_ticket += 1;
        beds.beds.push(Bed { ticket, until_ns, is_woken: false, thread });
        self.note_first(&beds);
        fence(Ordering::SeqCst);
        if self.0.events.load(Ordering::SeqCst) == seen {
            return Some(ticket);
        }
        self.get_up(&mut beds, ticket);
        None
    }

    fn get_up(&self, beds: &mut Beds, ticket: u64) {
        beds.beds.retain(|bed| bed.ticket != ticket);
        self.note_first(beds);
        self.0.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    fn beds(&self) -> MutexGuard<'_, Beds> {
        self.0.beds.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn note_first(&self, beds: &Beds) {
        let first_ns = beds.beds.iter().map(|bed| bed.until_ns).min().unwrap_or(u64::MAX);
        self.0.first_until_ns.store(first_ns, Ordering::SeqCst);
    }
}

#[cfg(not(feature = "loom"))]
fn park(at_most: Option<Duration>) {
    at_most.map_or_else(thread::park, thread::park_timeout);
}

#[cfg(feature = "loom")]
fn park(_at_most: Option<Duration>) {
    thread::park();
}

/// Wakes the workers of a pool for one run. Clones wake them for the same run.
#[derive(Debug, Clone)]
pub struct Waker {
    run: Arc<RunEvents>,
    rest: Rest,
}

/// Those of one run are equal.
impl PartialEq for Waker {
    fn eq(&self, other: &Waker) -> bool {
        Arc::ptr_eq(&self.run, &other.run)
    }
}

impl Eq for Waker {}

impl std::task::Wake for Waker {
    fn wake(self: std::sync::Arc<Self>) {
        Waker::wake(&self);
    }
}

/// What all workers read of a run whenever they look for work stands in lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct RunEvents {
    /// All events of the run.
    events: AtomicU64,
    /// Those of them that came from outside the workers.
    outside: AtomicU64,
    /// What there is to do is known while the count of events is this one,
    known_at: AtomicU64,
    /// before this instant:
    known_until_ns: AtomicU64,
    /// a task of this rank.
    rank: AtomicU64,
    /// Whether workers may leave it out until something happens in it.
    is_dormant: AtomicBool,
    /// How long workers have served it.
    service: Service,
}

/// The counts of a run's events when a worker began to look for work in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    events: u64,
    /// Events from outside the workers. What waits for the outside is asked again when this has changed.
    pub(crate) outside: u64,
}

impl Waker {
    /// For a run whose workers sleep there.
    pub(crate) fn new(rest: Rest) -> Waker {
        let run = RunEvents {
            events: AtomicU64::new(0),
            outside: AtomicU64::new(0),
            // It is not known yet.
            known_at: AtomicU64::new(u64::MAX),
            known_until_ns: AtomicU64::new(0),
            rank: AtomicU64::new(0),
            is_dormant: AtomicBool::new(false),
            service: Service::default(),
        };
        Waker { run: Arc::new(run), rest }
    }

    /// Says from outside the workers that there may be work: input arrived, an output has room again, a stop was asked for.
    pub fn wake(&self) {
        self.run.outside.fetch_add(1, Ordering::SeqCst);
        self.progressed();
    }

    /// The same for those who know nothing of runs.
    pub fn outside(&self) -> std::task::Waker {
        std::sync::Arc::new(self.clone()).into()
    }

    /// Says from inside that a task has made others possible before it is done.
    pub(crate) fn progressed(&self) {
        self.returned();
        self.rest.wake();
    }

    /// Says that a worker has taken a task, or is done with it and looks for another one itself.
    pub(crate) fn returned(&self) {
        self.run.events.fetch_add(1, Ordering::SeqCst);
        // Pairs with the fence in `falls_dormant`: either this sees that the run is dormant, or whoever says so sees the event.
        fence(Ordering::SeqCst);
        if self.run.is_dormant.load(Ordering::SeqCst) {
            self.awaken();
        }
    }

    fn awaken(&self) {
        if self.run.is_dormant.swap(false, Ordering::SeqCst) {
            self.rest.0.awakenings.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Whether workers may leave the run out. To be asked after [`Rest::awakenings`].
    pub(crate) fn is_dormant(&self) -> bool {
        self.run.is_dormant.load(Ordering::SeqCst)
    }

    /// The count of events, where there is nothing to do for long unless something happens, and nobody is on it.
    pub(crate) fn quiet_at(&self, now_ns: u64) -> Option<u64> {
        let events = self.run.events.load(Ordering::SeqCst);
        let is_quiet = self.quiet_until_ns(now_ns).is_some() && !self.run.service.is_under_way();
        is_quiet.then_some(events)
    }

    fn quiet_until_ns(&self, now_ns: u64) -> Option<u64> {
        let (_, until_ns) = self.known(now_ns).filter(|(rank, _)| *rank == Rank::NONE)?;
        (until_ns - now_ns >= DORMANT_NS_MIN).then_some(until_ns)
    }

    /// Says that workers may leave the run out, where there is nothing to do for long unless something happens; whether that is so.
    pub(crate) fn falls_dormant(&self, now_ns: u64) -> bool {
        self.run.is_dormant.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let until_ns = self.quiet_until_ns(now_ns);
        match until_ns {
            // Only now: whoever awakens those that are due sees that this one may be among them, or leaves the time that is noted here.
            Some(until_ns) => drop(self.rest.0.dormant_until_ns.fetch_min(until_ns, Ordering::SeqCst)),
            // Others may have left it out in the meantime.
            None => self.awaken(),
        }
        until_ns.is_some()
    }

    /// To be called before looking for work in the run.
    pub(crate) fn seen(&self) -> Seen {
        // In this order, as `wake` raises them in the other one: what is known as of all these events is known of no fewer from outside.
        let events = self.run.events.load(Ordering::SeqCst);
        Seen { events, outside: self.run.outside.load(Ordering::SeqCst) }
    }

    /// Says what there is to do until something happens after `seen`, or that instant of the engine's clock. Only one worker at a time
    /// looks at what there is to do in a run.
    pub(crate) fn found(&self, seen: Seen, rank: Rank, until_ns: u64) {
        self.run.known_until_ns.store(until_ns, Ordering::SeqCst);
        self.run.rank.store(rank.bits(), Ordering::SeqCst);
        self.run.known_at.store(seen.events, Ordering::SeqCst);
    }

    /// How long workers have served the run.
    pub(crate) fn service(&self) -> &Service {
        &self.run.service
    }

    /// What there is to do, and until when that holds if nothing happens; `None` where it is to be looked for.
    pub(crate) fn known(&self, now_ns: u64) -> Option<(Rank, u64)> {
        // In the other order than they are written: a rank is never taken for one that holds longer.
        let known_at = self.run.known_at.load(Ordering::SeqCst);
        let rank = Rank::from_bits(self.run.rank.load(Ordering::SeqCst));
        let until_ns = self.run.known_until_ns.load(Ordering::SeqCst);
        (known_at == self.run.events.load(Ordering::SeqCst) && now_ns < until_ns).then_some((rank, until_ns))
    }
}

#[cfg(all(test, feature = "loom"))]
mod race;

#[cfg(all(test, not(feature = "loom")))]
mod tests;
