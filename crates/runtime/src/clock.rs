//! The engine's only way to know the time.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pelton_data::Micros;

use crate::scheduler::wake::Waker;
use crate::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

/// Where the time comes from: the machine, or a test that turns the hands itself.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The machine's clocks: monotonic for intervals, anchored once to the calendar.
    System {
        /// When the clock was made, on the monotonic clock.
        start: Instant,
        /// The same instant in microseconds since 1970.
        start_micros: Micros,
    },
    /// Hands that only their owner turns.
    Manual(Arc<Hands>),
}

/// The hands of a clock that a test turns. Whoever sleeps until later is woken to look again.
#[derive(Debug, Default)]
pub struct Hands {
    /// Since 1970.
    nanos: AtomicU64,
    sleepers: Mutex<Vec<Waker>>,
}

impl Hands {
    /// FairShare the hands forward.
    pub fn advance(&self, by: Duration) {
        self.nanos.fetch_add(by.as_nanos() as u64, Ordering::SeqCst);
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(Waker::wake);
    }
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Clock {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock::System { start: Instant::now(), start_micros: since_epoch.as_micros() as Micros }
    }

    /// Has workers woken for a run when the hands are turned.
    pub(crate) fn wakes(&self, waker: &Waker) {
        if let Clock::Manual(hands) = self {
            hands.sleepers.lock().unwrap_or_else(PoisonError::into_inner).push(waker.clone());
        }
    }

    /// Nanoseconds since the clock was made (of a manual clock: since 1970).
    pub fn nanos(&self) -> u64 {
        match self {
            Clock::System { start, .. } => start.elapsed().as_nanos() as u64,
            Clock::Manual(hands) => hands.nanos.load(Ordering::SeqCst),
        }
    }

    /// Nanoseconds that the calling thread has computed for, not counting when others had its core: between two such instants lies what work has
    /// cost. Where the system does not tell, and of a manual clock, as [`Clock::nanos`].
    pub fn thread_nanos(&self) -> u64 {
        match self {
            Clock::System { .. } => system_thread_nanos().unwrap_or_else(|| self.nanos()),
            Clock::Manual(_) => self.nanos(),
        }
    }

    /// Calendar time in microseconds. Never goes back.
    pub fn micros(&self) -> Micros {
        self.micros_at(self.nanos())
    }

    /// Calendar time in microseconds at an instant that [`Clock::nanos`] has told.
    pub fn micros_at(&self, nanos: u64) -> Micros {
        match self {
            Clock::System { start_micros, .. } => start_micros + (nanos / 1_000) as Micros,
            Clock::Manual(_) => (nanos / 1_000) as Micros,
        }
    }
}

#[cfg(target_os = "linux")]
fn system_thread_nanos() -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the system fills the time.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    (failed == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(not(target_os = "linux"))]
fn system_thread_nanos() -> Option<u64> {
    None
}

impl Default for Clock {
    fn default() -> Self {
        Clock::system()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_that_waits_costs_nothing() {
        let clock = Clock::system();
        let begun = (clock.nanos(), clock.thread_nanos());
        std::thread::sleep(Duration::from_millis(50));
        let took = (clock.nanos() - begun.0, clock.thread_nanos() - begun.1);
        assert!(took.0 >= 50_000_000 && took.1 < 25_000_000, "{took:?}");
        // What is computed counts.
        let begun = clock.thread_nanos();
        while clock.thread_nanos() < begun + 1_000_000 {}
    }

    #[test]
    fn what_a_test_turns_is_the_cost_as_well() {
        let hands = Arc::new(Hands::default());
        let clock = Clock::Manual(hands.clone());
        hands.advance(Duration::from_nanos(7));
        assert_eq!((clock.nanos(), clock.thread_nanos()), (7, 7));
    }
}
