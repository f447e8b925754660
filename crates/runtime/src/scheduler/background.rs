//! Work that no run waits for, such as compiling: one after the other on a thread of its own, so that a hundred queries that start at once leave the cores
//! to those that run. Of workers without threads it is done when a test says.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;

use crate::sync::{
    Mutex,
    mpsc::{Sender, channel},
    thread,
};

/// Work that is done once.
type Work = Box<dyn FnOnce() + Send>;

/// Where such work is done.
pub(crate) enum Background {
    /// By a thread, which begins with the first work and ends behind the last, once nobody can bring more.
    Thread(Mutex<Option<Sender<Work>>>),
    /// By whoever asks for it.
    Queue(Mutex<VecDeque<Work>>),
}

impl Background {
    pub fn new(is_manual: bool) -> Background {
        if is_manual { Background::Queue(Mutex::default()) } else { Background::Thread(Mutex::default()) }
    }

    /// Has it done. Where the system gives no thread it is not, so that it must be work that can be left.
    pub fn leave(&self, work: impl FnOnce() + Send + 'static) {
        match self {
            Background::Thread(sender) => {
                let mut sender = sender.lock().unwrap_or_else(PoisonError::into_inner);
                if sender.is_none() {
                    *sender = start_thread();
                }
                // It receives as long as there is a sender.
                if let Some(sender) = sender.as_ref() {
                    drop(sender.send(Box::new(work)));
                }
            }
            Background::Queue(waiting) => {
                waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(Box::new(work));
            }
        }
    }

    /// Does what has waited longest. Whether there was any.
    pub fn step(&self) -> bool {
        let Background::Queue(waiting) = self else { return false };
        let work = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        work.map(|work| work()).is_some()
    }
}

fn start_thread() -> Option<Sender<Work>> {
    let (sender, receiver) = channel::<Work>();
    let work_off = move || {
        for work in receiver {
            // It has said so already, and what comes behind it has nothing to do with it.
            drop(catch_unwind(AssertUnwindSafe(work)));
        }
    };
    thread::Builder::new().name("pelton-background".to_owned()).spawn(work_off).ok().map(|_| sender)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn what_waits_is_done_in_its_order_when_asked_for() {
        let (background, done) = (Background::new(true), Arc::new(AtomicUsize::new(0)));
        for number in 1..=2 {
            let done = done.clone();
            background.leave(move || {
                done.compare_exchange(number - 1, number, Ordering::SeqCst, Ordering::SeqCst).expect("in order");
            });
        }
        assert_eq!(done.load(Ordering::SeqCst), 0);
        assert!(background.step() && background.step() && !background.step());
        assert_eq!(done.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn one_thread_does_all_of_it_even_behind_work_that_panics() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let background = Background::new(false);
        for number in 0..3 {
            let sender = sender.clone();
            background.leave(move || {
                sender.send((number, thread::current().id())).expect("somebody waits");
                assert_ne!(number, 1, "work that fails");
            });
        }
        assert!(!background.step());
        // Nobody can bring more, and what was brought is done.
        drop((background, sender));
        let done: Vec<_> = receiver.iter().collect();
        assert_eq!(done.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(done.iter().all(|(_, thread)| *thread == done[0].1 && *thread != thread::current().id()));
    }
}
