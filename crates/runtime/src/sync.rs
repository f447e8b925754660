//! Locks, atomics, channels and threads of what workers share: the standard library's, or, with the feature `shuttle`, a model of them that runs one thread
//! at a time and chooses at each call which one goes on.

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::{
    sync::{Condvar, Mutex, MutexGuard, atomic, mpsc},
    thread,
};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::{
    sync::{Condvar, Mutex, MutexGuard, atomic, mpsc},
    thread,
};
