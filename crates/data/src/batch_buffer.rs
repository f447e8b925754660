//! What batches take in memory that are kept together.

use std::collections::HashSet;

use arrow::array::{AsArray, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;

use crate::column::{bytes_of_nested, is_nested, row_bytes};

/// Batches that are kept, and what they take: strings that several of them share are counted once.
#[derive(Debug, Default)]
pub struct BatchBuffer {
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
    /// Where the strings are that have been counted.
    counted: HashSet<usize>,
}

impl BatchBuffer {
    /// Keeps one more.
    pub fn push(&mut self, batch: RecordBatch) {
        self.rows += batch.num_rows();
        self.bytes += row_bytes(batch.columns()) * batch.num_rows();
        for column in batch.columns() {
            match column.data_type() {
                DataType::Utf8View => self.count(column.as_string_view().data_buffers()),
                DataType::BinaryView => self.count(column.as_binary_view().data_buffers()),
                data_type if is_nested(data_type) => self.bytes += bytes_of_nested(column),
                _ => {}
            }
        }
        self.batches.push(batch);
    }

    fn count(&mut self, buffers: &[Buffer]) {
        for buffer in buffers {
            if self.counted.insert(buffer.data_ptr().as_ptr() as usize) {
                self.bytes += buffer.capacity();
            }
        }
    }

    /// The batches, in their order.
    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// The same, no more kept together.
    pub fn into_batches(self) -> Vec<RecordBatch> {
        self.batches
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of all.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringViewArray};

    use super::*;

    #[test]
    fn what_batches_share_is_counted_once() {
        let words: ArrayRef = Arc::new(StringViewArray::from(vec!["x".repeat(2_000), "y".repeat(2_000)]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let all = RecordBatch::try_from_iter([("s", words), ("n", numbers)]).unwrap();
        let mut kept = BatchBuffer::default();
        kept.push(all.slice(0, 1));
        let one = kept.bytes();
        assert!((4_024..65_536).contains(&one), "{one}");
        kept.push(all.slice(1, 1));
        assert_eq!((kept.bytes(), kept.rows()), (one + 24, 2));
    }
}
