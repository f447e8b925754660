//! What batches take in memory that are kept together.

use std::collections::HashSet;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::Buffer;
use arrow::compute::concat;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;

use crate::column::{bytes_of_nested, is_nested, row_bytes};

/// Batches that are kept, and what they take: strings that several of them share are counted once.
#[derive(Debug, Default)]
pub struct Kept {
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
    /// Where the strings are that have been counted.
    counted: HashSet<usize>,
}

impl Kept {
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
    pub fn into_batches(self) -> Vec<RecordBatch> {
        self.batches
    }

    /// Bytes of all.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that [`Kept::into_one`] takes beside them: of the widest column.
    pub fn bytes_beside(&self) -> usize {
        let width = |column: &ArrayRef| row_bytes([column]);
        let widest = self.batches.first().and_then(|batch| batch.columns().iter().map(width).max());
        widest.unwrap_or_default() * self.rows
    }

    /// All rows in one batch. Each column is let go of when it has been copied: all rows never are there twice.
    ///
    /// # Errors
    /// Where the batches do not fit the schema.
    pub fn into_one(self, schema: SchemaRef) -> Result<RecordBatch, ArrowError> {
        let Some(first) = self.batches.first() else { return Ok(RecordBatch::new_empty(schema)) };
        let mut parts: Vec<Vec<ArrayRef>> = vec![Vec::with_capacity(self.batches.len()); first.num_columns()];
        for batch in self.batches {
            let (_, columns, _) = batch.into_parts();
            columns.into_iter().zip(&mut parts).for_each(|(column, parts)| parts.push(column));
        }
        let joined = |parts: Vec<ArrayRef>| concat(&parts.iter().map(|part| part.as_ref()).collect::<Vec<_>>());
        let columns = parts.into_iter().map(joined).collect::<Result<Vec<_>, _>>()?;
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(self.rows));
        RecordBatch::try_new_with_options(schema, columns, &options)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringViewArray};

    use super::*;

    #[test]
    fn what_batches_share_is_counted_once_and_all_rows_come_together() {
        let words: ArrayRef = Arc::new(StringViewArray::from(vec!["x".repeat(2_000), "y".repeat(2_000)]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let all = RecordBatch::try_from_iter([("s", words), ("n", numbers)]).unwrap();
        let mut kept = Kept::default();
        kept.push(all.slice(0, 1));
        let one = kept.bytes();
        assert!((4_024..65_536).contains(&one), "{one}");
        kept.push(all.slice(1, 1));
        assert_eq!((kept.bytes(), kept.rows, kept.bytes_beside()), (one + 24, 2, 32));
        assert_eq!(kept.into_one(all.schema()).unwrap(), all);
        assert_eq!(Kept::default().into_one(all.schema()).unwrap().num_rows(), 0);
    }
}
