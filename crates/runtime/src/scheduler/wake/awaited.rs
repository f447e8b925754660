//! Whether somebody waits for a change that is made without a lock.

#[cfg(not(feature = "loom"))]
use crate::sync::atomic::{AtomicBool, Ordering, fence};
#[cfg(feature = "loom")]
use loom::sync::atomic::{AtomicBool, Ordering, fence};

/// Says to whoever changes something whether somebody has looked for the change in vain, so that nobody is woken otherwise.
///
/// One looks, says that it waits ([`Awaited::ask`]), and looks again. The other makes the change, and asks whether somebody is to be told
/// ([`Awaited::must_tell`]). Either the first one sees the change then, or the other one sees that it waits.
#[derive(Debug, Default)]
pub struct Awaited(AtomicBool);

impl Awaited {
    /// Has whoever makes the next change tell of it. Look again behind this whether it has been made.
    pub fn ask(&self) {
        self.0.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Whether somebody has asked to be told of the change that has just been made. It is told once.
    pub fn must_tell(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::SeqCst)
    }

    /// Whether somebody waits who has not been told of a change.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
