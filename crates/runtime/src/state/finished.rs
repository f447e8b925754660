//! What a pipeline made of a block.

use arrow::array::RecordBatch;
use pelton_data::{Block, Micros, Stamp};

use crate::late::TooLate;

/// What a kernel made of one block. Of several that become rows for sinks only, it has the stamp of one.
pub(crate) struct Finished {
    pub stamp: Stamp,
    pub output: Output,
    /// Rows for pipelines that read them, in place of the output.
    pub blocks: Vec<Block>,
    /// What is added to the event times in the output, where these were passed on as they lie in memory.
    pub time_shift_ticks: i64,
    /// The event times of its first and its last row, in ticks, where it is known to be in their order.
    pub in_time_order: Option<(i64, i64)>,
    /// Rows that an operator has taken.
    pub rows_taken: u64,
    /// Late rows, by the operator that they came too late for.
    pub late: Vec<TooLate>,
    /// Rows that the operator that takes them has found late, beside those.
    pub late_rows: u64,
    /// When windows are corrected by some of its rows.
    pub corrections: Vec<Micros>,
    /// Slices that its rows went into.
    pub slices: usize,
    /// Rows of the block.
    pub rows: usize,
}

impl Finished {
    /// What a block becomes before it has been computed.
    pub fn new(block: &Block) -> Finished {
        Finished {
            stamp: block.stamp,
            output: Output::default(),
            blocks: Vec::new(),
            time_shift_ticks: 0,
            in_time_order: None,
            rows_taken: 0,
            late: Vec::new(),
            late_rows: 0,
            corrections: Vec::new(),
            slices: 0,
            rows: block.rows(),
        }
    }

    /// Rows of the output, or for pipelines that read them.
    pub fn output_rows(&self) -> usize {
        let output: usize = self.output.iter().map(RecordBatch::num_rows).sum();
        output + self.blocks.iter().map(Block::rows).sum::<usize>()
    }
}

/// Batches that a block became: seldom more than one, which takes no list.
#[derive(Debug, Default)]
pub(crate) struct Output {
    first: Option<RecordBatch>,
    more: Vec<RecordBatch>,
}

impl Output {
    pub fn push(&mut self, batch: RecordBatch) {
        match &self.first {
            None => self.first = Some(batch),
            Some(_) => self.more.push(batch),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &RecordBatch> {
        self.first.iter().chain(&self.more)
    }

    /// The batch, where there is one only.
    pub fn only(&self) -> Option<&RecordBatch> {
        self.first.as_ref().filter(|_| self.more.is_empty())
    }

    pub fn into_batches(self) -> impl Iterator<Item = RecordBatch> {
        self.first.into_iter().chain(self.more)
    }
}
