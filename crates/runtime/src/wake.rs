//! How idle workers sleep and who wakes them.
//!
//! An event count: a worker notes the count, looks for work, and sleeps only while the count is still the same. Whoever
//! makes work raises the count first, so that no wake-up is lost. Raising it takes no lock while nobody sleeps.

#[cfg(feature = "loom")]
use loom::sync::{
    Arc, Condvar, Mutex,
    atomic::{AtomicU64, AtomicUsize, Ordering, fence},
};
#[cfg(not(feature = "loom"))]
use std::sync::{
    Arc, Condvar, Mutex,
    atomic::{AtomicU64, AtomicUsize, Ordering, fence},
};

use std::time::Duration;

/// Wakes the workers of one run. Clones wake the same workers.
#[derive(Debug, Clone)]
pub struct Waker(Arc<EventCount>);

#[derive(Debug)]
struct EventCount {
    /// All events.
    events: AtomicU64,
    /// Those of them that came from outside the workers.
    outside: AtomicU64,
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    condition: Condvar,
}

/// The counts of events when a worker began to look for work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    events: u64,
    /// Events from outside the workers. What waits for the outside is asked again when this has changed.
    pub(crate) outside: u64,
}

impl Waker {
    /// A waker of no workers yet.
    pub fn new() -> Waker {
        Waker(Arc::new(EventCount {
            events: AtomicU64::new(0),
            outside: AtomicU64::new(0),
            sleepers: AtomicUsize::new(0),
            lock: Mutex::new(()),
            condition: Condvar::new(),
        }))
    }

    /// Says from outside the workers that there may be work: input arrived, an output has room again, a stop was asked for.
    pub fn wake(&self) {
        self.0.outside.fetch_add(1, Ordering::SeqCst);
        self.progressed();
    }

    /// Says from inside that a task has made others possible.
    pub(crate) fn progressed(&self) {
        self.0.events.fetch_add(1, Ordering::SeqCst);
        // Pairs with the fence in `sleep`: either the sleeper sees the new count, or this sees the sleeper.
        fence(Ordering::SeqCst);
        if self.0.sleepers.load(Ordering::SeqCst) > 0 {
            let _guard = self.0.lock.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            self.0.condition.notify_all();
        }
    }

    /// To be called before looking for work.
    pub fn seen(&self) -> Seen {
        let outside = self.0.outside.load(Ordering::SeqCst);
        Seen { events: self.0.events.load(Ordering::SeqCst), outside }
    }

    /// Sleeps until something happened after `seen`, at most for `at_most`.
    pub fn sleep(&self, seen: Seen, at_most: Option<Duration>) {
        let guard = self.0.lock.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        self.0.sleepers.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.0.events.load(Ordering::SeqCst) == seen.events {
            self.wait(guard, at_most);
        }
        self.0.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    #[cfg(not(feature = "loom"))]
    fn wait(&self, guard: std::sync::MutexGuard<'_, ()>, at_most: Option<Duration>) {
        // A spurious wake-up costs one look for work.
        match at_most {
            Some(duration) => drop(self.0.condition.wait_timeout(guard, duration)),
            None => drop(self.0.condition.wait(guard)),
        }
    }

    #[cfg(feature = "loom")]
    fn wait(&self, guard: loom::sync::MutexGuard<'_, ()>, _at_most: Option<Duration>) {
        drop(self.0.condition.wait(guard));
    }
}

impl Default for Waker {
    fn default() -> Self {
        Waker::new()
    }
}

#[cfg(all(test, feature = "loom"))]
mod race {
    use super::*;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    #[test]
    fn no_wake_up_is_lost() {
        loom::model(|| {
            let waker = Waker::new();
            let work = Arc::new(AtomicBool::new(false));
            let producer = {
                let (waker, work) = (waker.clone(), work.clone());
                thread::spawn(move || {
                    work.store(true, Ordering::SeqCst);
                    waker.wake();
                })
            };
            loop {
                let seen = waker.seen();
                if work.load(Ordering::SeqCst) {
                    break;
                }
                // A lost wake-up would sleep for ever here, which loom reports as a deadlock.
                waker.sleep(seen, None);
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
        let waker = Waker::new();
        let seen = waker.seen();
        waker.wake();
        waker.sleep(seen, None);
    }
}
