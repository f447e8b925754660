//! Locks that are held for a microsecond, by many in turn.

use std::hint::spin_loop;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// So often whoever finds a lock taken looks again before it sleeps, with so many pauses between: for some ten microseconds in all.
const LOOKS: u32 = 64;
const PAUSES_PER_LOOK: u32 = 4;

/// Waits for a lock that nobody holds for long. To sleep costs tens of microseconds, until it is woken; it is worth that only where whoever holds the
/// lock does not run.
pub(crate) fn lock_soon<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for _ in 0..LOOKS {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => (0..PAUSES_PER_LOOK).for_each(|_| spin_loop()),
        }
    }
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
