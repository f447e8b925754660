//! Work beside a run that is done step by step as long as the run lasts, such as taking its checkpoints: on a thread of its own. Beside workers without threads a step is
//! done when a test says.

use std::io;
use std::sync::PoisonError;

use crate::sync::{Mutex, thread};

/// What a step has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Something was done.
    Done,
    /// There was nothing to do.
    Idle,
    /// There will be nothing to do any more.
    Ended,
}

/// Whether a step that has nothing to do waits until there may be something. It must not wait for long: others may end what it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// It waits.
    Waits,
    /// It returns at once.
    None,
}

/// Work that is done step by step.
type Attendant = Box<dyn FnMut(Patience) -> Step + Send>;

/// Where such work is done.
pub(crate) enum Attendants {
    /// By threads.
    Threads,
    /// By whoever asks for it, the oldest first.
    Manual(Mutex<Vec<Attendant>>),
}

impl Attendants {
    pub fn new(is_manual: bool) -> Attendants {
        if is_manual { Attendants::Manual(Mutex::default()) } else { Attendants::Threads }
    }

    /// Has it done until it has ended, by a thread of that name.
    ///
    /// # Errors
    /// Where the system has no thread.
    pub fn begin(&self, name: &str, mut step: impl FnMut(Patience) -> Step + Send + 'static) -> io::Result<()> {
        match self {
            Attendants::Threads => {
                let thread = thread::Builder::new().name(name.to_owned());
                thread.spawn(move || while step(Patience::Waits) != Step::Ended {}).map(drop)
            }
            Attendants::Manual(all) => {
                all.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(step));
                Ok(())
            }
        }
    }

    /// Does a step of each. Whether one of them had anything to do.
    pub fn step(&self) -> bool {
        let Attendants::Manual(all) = self else { return false };
        let lock = || all.lock().unwrap_or_else(PoisonError::into_inner);
        // A step may begin others.
        let mut stepped = std::mem::take(&mut *lock());
        let mut had_any = false;
        stepped.retain_mut(|attendant| {
            let step = attendant(Patience::None);
            had_any |= step != Step::Idle;
            step != Step::Ended
        });
        lock().splice(..0, stepped);
        had_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::mpsc::channel;

    #[test]
    fn steps_are_done_by_a_thread_or_when_asked_for() {
        for is_manual in [false, true] {
            let attendants = Attendants::new(is_manual);
            let (sender, receiver) = channel();
            let mut steps = [Step::Done, Step::Idle, Step::Ended].into_iter();
            let step = move |patience| {
                let step = steps.next().expect("nothing is done behind the end");
                sender.send((patience, step)).expect("somebody waits");
                step
            };
            attendants.begin("attendant", step).unwrap();
            let patience = if is_manual { Patience::None } else { Patience::Waits };
            if is_manual {
                assert_eq!(
                    [attendants.step(), attendants.step(), attendants.step(), attendants.step()],
                    [true, false, true, false]
                );
            }
            let done: Vec<_> = receiver.iter().collect();
            assert_eq!(done, [Step::Done, Step::Idle, Step::Ended].map(|step| (patience, step)));
        }
    }
}
