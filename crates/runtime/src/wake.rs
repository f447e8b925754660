//! How idle workers sleep and who wakes them.
//!
//! An event count: a worker notes the count, looks for work, and sleeps only while the count is still the same. Whoever
//! makes work raises the count first, so that no wake-up is lost. Raising it takes no lock while nobody sleeps.
//!
//! Each run has counts of its own in front of the one that all share: what a worker found to do in a run is known to
//! all, and the run is not looked at again, until something happens in it.

#[cfg(feature = "loom")]
use loom::hint::spin_loop;
#[cfg(feature = "loom")]
use loom::sync::{
    Arc, Condvar, Mutex, MutexGuard,
    atomic::{AtomicU64, AtomicUsize, Ordering, fence},
};
#[cfg(not(feature = "loom"))]
use std::hint::spin_loop;
#[cfg(not(feature = "loom"))]
use std::sync::{
    Arc, Condvar, Mutex, MutexGuard,
    atomic::{AtomicU64, AtomicUsize, Ordering, fence},
};

use std::time::{Duration, Instant};

use crate::policy::Rank;

/// So long a worker looks whether something happens before it sleeps, unless that is set.
pub const SPIN_DEFAULT: Duration = Duration::from_micros(20);

/// So often it does before it looks at the clock: less than a microsecond.
const SPINS_AT_ONCE: u32 = 16;

/// Where the workers of a pool sleep. Clones are the same place.
#[derive(Debug, Clone)]
pub(crate) struct Rest(Arc<EventCount>);

#[derive(Debug)]
struct EventCount {
    /// Of all runs.
    events: AtomicU64,
    sleepers: AtomicUsize,
    beds: Mutex<Beds>,
    /// The first of these instants; the largest number where there is none.
    first_until_ns: AtomicU64,
    condition: Condvar,
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
}

impl Rest {
    /// A place of no workers yet.
    pub fn new() -> Rest {
        Rest(Arc::new(EventCount {
            events: AtomicU64::new(0),
            sleepers: AtomicUsize::new(0),
            beds: Mutex::new(Beds::default()),
            first_until_ns: AtomicU64::new(u64::MAX),
            condition: Condvar::new(),
            spin_ns: AtomicU64::new(SPIN_DEFAULT.as_nanos() as u64),
        }))
    }

    /// The count of events, to be read before looking for work.
    pub fn seen(&self) -> u64 {
        self.0.events.load(Ordering::SeqCst)
    }

    /// Wakes a worker, if all that could look sleep: it may find work, and wakes another one if it finds more than it takes.
    pub fn wake(&self) {
        self.ring(1, Condvar::notify_one);
    }

    /// Whether anyone sleeps who may have to be woken, which takes time.
    pub fn has_sleepers(&self) -> bool {
        self.0.sleepers.load(Ordering::Relaxed) > 0
    }

    /// Wakes all workers.
    pub fn wake_all(&self) {
        self.ring(usize::MAX, Condvar::notify_all);
    }

    fn ring(&self, count: usize, notify: impl FnOnce(&Condvar)) {
        self.0.events.fetch_add(1, Ordering::SeqCst);
        // Pairs with the fence in `sleep`: either the sleeper sees the new count, or this sees the sleeper.
        fence(Ordering::SeqCst);
        if self.0.sleepers.load(Ordering::SeqCst) > 0 {
            let mut beds = self.beds();
            beds.beds.iter_mut().filter(|bed| !bed.is_woken).take(count).for_each(|bed| bed.is_woken = true);
            notify(&self.0.condition);
        }
    }

    /// Has workers look for so long whether something happens before they sleep.
    pub fn set_spin(&self, spin: Duration) {
        let spin_ns = spin.as_nanos().try_into().unwrap_or(u64::MAX);
        if self.0.spin_ns.swap(spin_ns, Ordering::Relaxed) != spin_ns {
            // Who spins does so as long as it was told when it began.
            self.wake_all();
        }
    }

    /// Waits for a moment without sleeping, at most from now until that instant. Returns whether something happened after `seen`.
    ///
    /// To wake a thread takes the one that wakes it several microseconds, and the other one tens of them; where there is much to do the next
    /// thing happens sooner.
    pub fn spin(&self, seen: u64, now_ns: u64, until_ns: u64) -> bool {
        let spin_ns = self.0.spin_ns.load(Ordering::Relaxed).min(until_ns.saturating_sub(now_ns));
        if spin_ns == 0 {
            return false;
        }
        let (began, spin) = (Instant::now(), Duration::from_nanos(spin_ns));
        let has_happened = |_| {
            spin_loop();
            self.0.events.load(Ordering::Relaxed) != seen
        };
        loop {
            if (0..SPINS_AT_ONCE).any(has_happened) {
                return true;
            }
            if began.elapsed() >= spin {
                return false;
            }
        }
    }

    /// Wakes a worker, if all that could look then sleep for longer than until that instant.
    pub fn wake_by(&self, until_ns: u64) {
        if until_ns < self.0.first_until_ns.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Sleeps until something happened after `seen` for which it is woken, at most from now until that instant.
    pub fn sleep(&self, seen: u64, now_ns: u64, until_ns: u64) {
        let Some((ticket, beds)) = self.go_to_bed(seen, until_ns) else { return };
        let at_most = (until_ns != u64::MAX).then(|| Duration::from_nanos(until_ns.saturating_sub(now_ns)));
        // A spurious wake-up costs one look for work.
        self.get_up(&mut self.wait(beds, at_most), ticket);
    }

    /// The first half of [`Rest::sleep`], for a worker that has no thread of its own: a ticket where it sleeps now.
    pub fn falls_asleep(&self, seen: u64, until_ns: u64) -> Option<u64> {
        self.go_to_bed(seen, until_ns).map(|(ticket, _)| ticket)
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

    fn go_to_bed(&self, seen: u64, until_ns: u64) -> Option<(u64, MutexGuard<'_, Beds>)> {
        let mut beds = self.beds();
        self.0.sleepers.fetch_add(1, Ordering::SeqCst);
        let ticket = beds.next_ticket;
        beds.next_ticket += 1;
        beds.beds.push(Bed { ticket, until_ns, is_woken: false });
        self.note_first(&beds);
        fence(Ordering::SeqCst);
        if self.0.events.load(Ordering::SeqCst) == seen {
            return Some((ticket, beds));
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

    #[cfg(not(feature = "loom"))]
    fn wait<'a>(&self, beds: MutexGuard<'a, Beds>, at_most: Option<Duration>) -> MutexGuard<'a, Beds> {
        let condition = &self.0.condition;
        match at_most {
            Some(at_most) => condition.wait_timeout(beds, at_most).unwrap_or_else(|poisoned| poisoned.into_inner()).0,
            None => condition.wait(beds).unwrap_or_else(|poisoned| poisoned.into_inner()),
        }
    }

    #[cfg(feature = "loom")]
    fn wait<'a>(&self, beds: MutexGuard<'a, Beds>, _at_most: Option<Duration>) -> MutexGuard<'a, Beds> {
        self.0.condition.wait(beds).unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Wakes the workers of a pool for one run. Clones wake them for the same run.
#[derive(Debug, Clone)]
pub struct Waker {
    run: Arc<RunEvents>,
    rest: Rest,
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
    /// Time that workers have spent on it, and more where others were served while it had nothing to do.
    served_ns: AtomicU64,
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
            served_ns: AtomicU64::new(0),
        };
        Waker { run: Arc::new(run), rest }
    }

    /// Says from outside the workers that there may be work: input arrived, an output has room again, a stop was asked for.
    pub fn wake(&self) {
        self.run.outside.fetch_add(1, Ordering::SeqCst);
        self.progressed();
    }

    /// Says from inside that a task has made others possible before it is done.
    pub(crate) fn progressed(&self) {
        self.returned();
        self.rest.wake();
    }

    /// Says that a worker has taken a task, or is done with it and looks for another one itself.
    pub(crate) fn returned(&self) {
        self.run.events.fetch_add(1, Ordering::SeqCst);
    }

    /// To be called before looking for work in the run.
    pub(crate) fn seen(&self) -> Seen {
        let outside = self.run.outside.load(Ordering::SeqCst);
        Seen { events: self.run.events.load(Ordering::SeqCst), outside }
    }

    /// Says what there is to do until something happens after `seen`, or that instant of the engine's clock. Only one worker at a time
    /// looks at what there is to do in a run.
    pub(crate) fn found(&self, seen: Seen, rank: Rank, until_ns: u64) {
        self.run.known_until_ns.store(until_ns, Ordering::SeqCst);
        self.run.rank.store(rank.bits(), Ordering::SeqCst);
        self.run.known_at.store(seen.events, Ordering::SeqCst);
    }

    /// See [`RunEvents::served_ns`].
    pub(crate) fn served_ns(&self) -> u64 {
        self.run.served_ns.load(Ordering::Relaxed)
    }

    /// Says that a worker has spent so much time on the run, which begins at so much at least.
    pub(crate) fn served(&self, least_ns: u64, more_ns: u64) {
        self.run.served_ns.fetch_max(least_ns, Ordering::Relaxed);
        self.run.served_ns.fetch_add(more_ns, Ordering::Relaxed);
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
mod race {
    use super::*;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    /// Looks for work in one run as a worker of a pool does. A lost wake-up would sleep for ever here, which loom reports as a deadlock.
    fn work_until_done(rest: &Rest, waker: &Waker, looking: &Mutex<()>, work: &AtomicBool) {
        loop {
            let seen = rest.seen();
            if waker.known(0).is_none() {
                let seen = waker.seen();
                let guard = looking.lock().unwrap();
                if work.load(Ordering::SeqCst) {
                    drop(guard);
                    // There is more than it takes.
                    rest.wake();
                    return;
                }
                waker.found(seen, Rank::NONE, u64::MAX);
                continue;
            }
            rest.sleep(seen, 0, u64::MAX);
        }
    }

    /// All interleavings; of more than two threads, those in which at most two are interrupted: of the others there are too many.
    fn race(workers: usize) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = (workers > 1).then_some(2);
        model.check(move || {
            let rest = Rest::new();
            let waker = Waker::new(rest.clone());
            let (work, looking) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(())));
            let others: Vec<_> = (1..workers)
                .map(|_| {
                    let (rest, waker, work, looking) = (rest.clone(), waker.clone(), work.clone(), looking.clone());
                    thread::spawn(move || work_until_done(&rest, &waker, &looking, &work))
                })
                .collect();
            let producer = {
                let (waker, work) = (waker.clone(), work.clone());
                thread::spawn(move || {
                    work.store(true, Ordering::SeqCst);
                    waker.wake();
                })
            };
            work_until_done(&rest, &waker, &looking, &work);
            producer.join().unwrap();
            others.into_iter().for_each(|other| other.join().unwrap());
        });
    }

    #[test]
    fn no_wake_up_is_lost() {
        race(1);
    }

    #[test]
    fn a_run_in_which_one_worker_found_nothing_is_not_lost_on_another() {
        race(2);
    }

    #[test]
    fn an_event_of_one_run_is_not_lost_in_the_quiet_of_another() {
        loom::model(|| {
            let rest = Rest::new();
            let wakers = [Waker::new(rest.clone()), Waker::new(rest.clone())];
            let work = Arc::new(AtomicBool::new(false));
            let producer = {
                let (waker, work) = (wakers[1].clone(), work.clone());
                thread::spawn(move || {
                    work.store(true, Ordering::SeqCst);
                    waker.wake();
                })
            };
            'work: loop {
                let seen = rest.seen();
                for (run, waker) in wakers.iter().enumerate() {
                    if waker.known(0).is_none() {
                        let seen = waker.seen();
                        if run == 1 && work.load(Ordering::SeqCst) {
                            break 'work;
                        }
                        waker.found(seen, Rank::NONE, u64::MAX);
                    }
                }
                rest.sleep(seen, 0, u64::MAX);
            }
            producer.join().unwrap();
        });
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn an_event_between_looking_and_sleeping_is_not_slept_through() {
        let rest = Rest::new();
        let seen = rest.seen();
        Waker::new(rest.clone()).wake();
        rest.sleep(seen, 0, u64::MAX);
    }

    #[test]
    fn who_spins_sees_what_happens_and_stops_in_time() {
        let rest = Rest::new();
        rest.set_spin(Duration::from_millis(2));
        let began = Instant::now();
        assert!(!rest.spin(rest.seen(), 0, u64::MAX) && began.elapsed() >= Duration::from_millis(2));
        rest.set_spin(Duration::from_hours(1));
        let seen = rest.seen();
        assert!(!rest.spin(seen, 5, 5 + 1_000), "there is something to do then");
        rest.wake();
        assert!(rest.spin(seen, 0, u64::MAX));
        let seen = rest.seen();
        rest.set_spin(Duration::ZERO);
        assert!(rest.seen() != seen, "who spins is told that it is to spin for another time");
        assert!(!rest.spin(rest.seen(), 0, u64::MAX), "it sleeps at once, and does not then");
    }

    #[test]
    fn what_was_found_holds_until_something_happens_or_its_time_has_come() {
        let waker = Waker::new(Rest::new());
        assert_eq!(waker.known(0), None, "nobody has looked");
        waker.found(waker.seen(), Rank::NONE, 10);
        assert_eq!((waker.known(9), waker.known(10)), (Some((Rank::NONE, 10)), None));
        let seen = waker.seen();
        waker.returned();
        waker.found(seen, Rank::NONE, 20);
        assert_eq!(waker.known(9), None, "something has happened meanwhile");
    }
}
