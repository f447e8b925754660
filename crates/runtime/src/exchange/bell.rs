//! Wakes all subscribers of an exchange.

use std::sync::{Arc, PoisonError};
use std::task::Wake;

use crate::sync::Mutex;
use crate::wake::Waker;

/// Wakes all subscribers of an exchange. It is there before the source is, which rings it when there is something to read. Clones are the same bell.
#[derive(Clone, Default)]
pub struct Bell(Arc<Wakers>);

/// The wakers of subscribers, by their slots.
#[derive(Default)]
struct Wakers(Mutex<Vec<Option<Waker>>>);

impl Bell {
    /// Rings the bell when it is woken.
    pub fn waker(&self) -> std::task::Waker {
        self.0.clone().into()
    }

    pub(super) fn add(&self, slot: usize, waker: Waker) {
        let mut wakers = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if wakers.len() <= slot {
            wakers.resize_with(slot + 1, || None);
        }
        wakers[slot] = Some(waker);
    }

    pub(super) fn remove(&self, slot: usize) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)[slot] = None;
    }

    /// Wakes one subscriber.
    pub(super) fn wake(&self, slot: usize) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)[slot].iter().for_each(Waker::wake);
    }
}

impl Wake for Wakers {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().flatten().for_each(Waker::wake);
    }
}
