//! A thread for each operator of a run: it does nothing but its operator's tasks, and sleeps where there is none.
//!
//! The threads of the pool do no tasks then. They look at what can run when something happens outside, and say so to the threads whose
//! operators can; after a task, its own thread does.

mod work;

pub(crate) use self::work::start;
use crate::scheduler::wake::Rest;

/// Where the threads of a run's operators sleep, one by one, in the order of the operators.
pub(crate) struct OperatorThreads(Vec<Rest>);

impl OperatorThreads {
    /// For so many operators.
    pub fn new(operators: usize) -> OperatorThreads {
        OperatorThreads(std::iter::repeat_with(|| Rest::new(1)).take(operators).collect())
    }

    /// Says that these operators can run.
    pub fn wake(&self, operators: &[usize]) {
        operators.iter().for_each(|&operator| self.0[operator].wake());
    }

    /// Says that the run has ended.
    pub fn wake_all(&self) {
        self.0.iter().for_each(Rest::wake_all);
    }
}
