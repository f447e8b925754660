//! Lists that a worker fills anew for each task, so that tasks allocate nothing once these have grown.

use std::collections::VecDeque;

use arrow::array::RecordBatch;
use pelton_data::{Block, Origin};
use pelton_state::kernel::{KernelError, KernelInput};
use pelton_state::slice::SliceRows;

use crate::counters::Counters;
use crate::state::finished::Finished;

/// Batches that a worker takes at once to write them: as long as it writes, they do not count as waiting.
pub(crate) const BATCHES_AT_ONCE_MAX: usize = 8;

/// What one worker uses. All lists are empty between two tasks.
#[derive(Default)]
pub(crate) struct TaskBuffers {
    /// Of no block.
    inputs: Vec<KernelInput<'static>>,
    /// What became of the blocks of a task, each with how many of them, one behind the other, that is of.
    pub results: Vec<(usize, Result<Finished, KernelError>)>,
    /// What a kernel has made.
    pub batches: Vec<RecordBatch>,
    /// Slices of a block.
    pub slices: Vec<SliceRows>,
    /// What is being written, with what its latency is measured from,
    pub written: VecDeque<(RecordBatch, Origin)>,
    /// when what has rows was,
    pub written_at_ns: Vec<(Origin, u64)>,
    /// and what marks latency.
    pub marked_at_ns: Vec<(Origin, u64)>,
    /// What the processor counts of the worker.
    pub counters: Counters,
}

impl TaskBuffers {
    /// The list of inputs, for a task's blocks.
    pub fn inputs<'a>(&mut self) -> Vec<KernelInput<'a>> {
        emptied(std::mem::take(&mut self.inputs))
    }

    /// Takes it back.
    pub fn take_back(&mut self, inputs: Vec<KernelInput<'_>>) {
        self.inputs = emptied(inputs);
    }
}

/// The same list, for inputs of other blocks: a list that is collected from one of elements of the same size stays where it is.
fn emptied<'a>(mut inputs: Vec<KernelInput<'_>>) -> Vec<KernelInput<'a>> {
    inputs.clear();
    inputs.into_iter().map(|_| unreachable!("the list is empty")).collect()
}

/// Lists that tasks were given and have emptied, for the next ones. There are never more than tasks that run at once.
#[derive(Default)]
pub(crate) struct SpareLists {
    pub blocks: Vec<Vec<(u64, Block)>>,
    /// A list for one block.
    pub one: Vec<Block>,
}
