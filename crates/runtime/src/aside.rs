//! Work that no run waits for, such as compiling: each on a thread of its own, or, of workers without threads, when a test says.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Work that is done once.
type Work = Box<dyn FnOnce() + Send>;

/// Where such work is done.
pub(crate) enum Aside {
    /// By threads.
    Threads,
    /// By whoever asks for it.
    Waiting(Mutex<VecDeque<Work>>),
}

impl Aside {
    pub fn new(is_manual: bool) -> Aside {
        if is_manual { Aside::Waiting(Mutex::default()) } else { Aside::Threads }
    }

    /// Has it done. Without a thread it is not, so that it must be work that can be left.
    pub fn leave(&self, name: &str, work: impl FnOnce() + Send + 'static) {
        match self {
            Aside::Threads => drop(std::thread::Builder::new().name(name.to_owned()).spawn(work)),
            Aside::Waiting(waiting) => {
                waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(Box::new(work));
            }
        }
    }

    /// Does what has waited longest. Whether there was any.
    pub fn step(&self) -> bool {
        let Aside::Waiting(waiting) = self else { return false };
        let work = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        work.map(|work| work()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn what_waits_is_done_in_its_order_when_asked_for() {
        let (aside, done) = (Aside::new(true), Arc::new(AtomicUsize::new(0)));
        for number in 1..=2 {
            let done = done.clone();
            aside.leave("work", move || {
                done.compare_exchange(number - 1, number, Ordering::SeqCst, Ordering::SeqCst).expect("in order");
            });
        }
        assert_eq!(done.load(Ordering::SeqCst), 0);
        assert!(aside.step() && aside.step() && !aside.step());
        assert_eq!(done.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn threads_need_not_be_asked() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let aside = Aside::new(false);
        aside.leave("work", move || sender.send(()).expect("somebody waits"));
        receiver.recv().expect("it is done");
        assert!(!aside.step());
    }
}
