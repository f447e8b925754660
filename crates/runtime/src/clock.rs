//! The engine's only way to know the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use pelton_data::Micros;

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
    /// Nanoseconds since 1970 that only the owner moves.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Clock {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock::System { start: Instant::now(), start_micros: since_epoch.as_micros() as Micros }
    }

    /// Nanoseconds since the clock was made (of a manual clock: since 1970).
    pub fn nanos(&self) -> u64 {
        match self {
            Clock::System { start, .. } => start.elapsed().as_nanos() as u64,
            Clock::Manual(nanos) => nanos.load(Ordering::Relaxed),
        }
    }

    /// Calendar time in microseconds. Never goes back.
    pub fn micros(&self) -> Micros {
        match self {
            Clock::System { start, start_micros } => start_micros + start.elapsed().as_micros() as Micros,
            Clock::Manual(nanos) => (nanos.load(Ordering::Relaxed) / 1_000) as Micros,
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::system()
    }
}
