//! Rows that were read and wait: how many they are, and how large.

use arrow::array::{ArrayRef, RecordBatch};
use pelton_data::column::Layout;

use crate::state::State;

impl State {
    /// Rows that were read and wait for a worker, or for those in front of them.
    pub fn rows_waiting(&self) -> u64 {
        let blocks = self.pipelines.iter().flat_map(|node| &node.queue).map(|(_, block)| block.rows() as u64);
        let ordered =
            self.overs.iter().flat_map(|node| &node.queue).map(|(_, arriving)| arriving.rows.num_rows() as u64);
        let written = self.sinks.iter().flat_map(|node| &node.queue).map(|(rows, _)| rows.num_rows() as u64);
        blocks.chain(ordered).chain(written).sum()
    }

    /// Bytes of these rows, as [`pelton_data::Block::bytes`] counts them.
    pub fn bytes_waiting(&self) -> usize {
        let blocks = self.pipelines.iter().flat_map(|node| &node.queue).map(|(_, block)| block.bytes());
        let ordered = self.overs.iter().flat_map(|node| &node.queue).map(|(_, arriving)| bytes_of(&arriving.rows));
        let written = self.sinks.iter().flat_map(|node| &node.queue).map(|(rows, _)| bytes_of(rows));
        blocks.chain(ordered).chain(written).sum()
    }
}

fn bytes_of(rows: &RecordBatch) -> usize {
    let width = |column: &ArrayRef| Layout::of(column.data_type()).map_or(0, Layout::width);
    rows.columns().iter().map(width).sum::<usize>() * rows.num_rows()
}
