//! Rows that were read and wait: how many they are, and how large.

use arrow::array::RecordBatch;
use pelton_data::column::row_bytes;

use crate::events::{Item, Passing};
use crate::state::{SinkState, State};

impl State {
    /// Rows that were read and wait for a worker, or for those in front of them.
    pub fn rows_waiting(&self) -> u64 {
        let blocks = self.pipelines.iter().flat_map(|node| &node.queue).map(|(_, block)| block.rows() as u64);
        let ordered =
            self.overs.iter().flat_map(|node| &node.queue).map(|(_, arriving)| arriving.rows.num_rows() as u64);
        let written = self.sinks.iter().flat_map(|node| &node.queue).map(|(rows, _)| rows.num_rows() as u64);
        let passing = self.passing.iter().map(|node| node.waiting().0);
        blocks.chain(ordered).chain(written).chain(passing).sum()
    }

    /// Bytes of these rows, as [`pelton_data::Block::bytes`] counts them.
    pub fn bytes_waiting(&self) -> usize {
        let blocks = self.pipelines.iter().flat_map(|node| &node.queue).map(|(_, block)| block.bytes());
        let ordered = self.overs.iter().flat_map(|node| &node.queue).map(|(_, arriving)| bytes_of(&arriving.rows));
        let written = self.sinks.iter().flat_map(|node| &node.queue).map(|(rows, _)| bytes_of(rows));
        let passing = self.passing.iter().flat_map(Passing::items).map(|item| match item {
            Item::Block(_, block) => block.bytes(),
            Item::Batch(rows, _) => bytes_of(rows),
        });
        blocks.chain(ordered).chain(written).chain(passing).sum()
    }
}

impl SinkState {
    /// Whether no row comes any more, or none is wanted.
    pub fn must_end(&self) -> bool {
        self.closed || self.open_inputs == 0 && self.passing == 0
    }

    /// Batches that wait for it.
    pub fn waiting(&self) -> usize {
        self.queue.len() + self.passing
    }

    /// Takes no row from now on.
    pub fn close(&mut self) {
        self.closed = true;
        self.queue.clear();
    }
}

fn bytes_of(rows: &RecordBatch) -> usize {
    row_bytes(rows.columns()) * rows.num_rows()
}
