//! What an operator is given for a task.

use pelton_data::Micros;
use pelton_state::kernel::{KernelCall, KernelError, KernelInput, Scratch};

use crate::clock::Clock;
use crate::memory::budget::{Account, Budget};
use crate::scheduler::buffers::TaskBuffers;
use crate::state::finished::Output;

/// What operators know of the run that they belong to.
#[derive(Clone, Copy)]
pub(crate) struct RunContext<'a> {
    /// Where state is charged.
    pub account: &'a Account,
    pub budget: &'a Budget,
    pub clock: &'a Clock,
    /// Rows of a block.
    pub block_rows: usize,
    /// Threads that work on the run.
    pub workers: usize,
    /// Of the sources that feed the operator, see [`Source::began_behind`](crate::source::Source::began_behind).
    pub began_behind: Micros,
}

/// A worker on a task of an operator.
pub(crate) struct TaskContext<'a> {
    pub run: RunContext<'a>,
    /// Which of the workers, from 0: windows have a slice store for each.
    pub worker: usize,
    pub scratch: &'a mut Scratch,
    pub buffers: &'a mut TaskBuffers,
}

impl TaskContext<'_> {
    /// Computes the rows of one block.
    pub fn emit(
        &mut self,
        kernel: KernelCall<'_>,
        input: KernelInput<'_>,
        output: &mut Output,
    ) -> Result<(), KernelError> {
        let emitted = kernel.emit(&[input], &mut self.buffers.batches, self.scratch);
        self.buffers.batches.drain(..).for_each(|batch| output.push(batch));
        emitted
    }
}
