//! Rows of several batches, by their numbers.

use arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow::compute::interleave;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use pelton_data::column::align_bits;

use super::{BucketRow, gather};

/// Numbered rows, as each column of their batches is taken.
pub(super) enum ChosenRows<'a> {
    /// So many, none of which is there.
    Unmatched(usize),
    /// [`super::UNMATCHED`] is a NULL.
    OfOne(&'a RecordBatch, Vec<u32>),
    OfSeveral {
        batches: &'a [RecordBatch],
        /// Batch and row; the batch behind all others is a NULL.
        rows: Vec<(usize, usize)>,
        has_unmatched: bool,
    },
}

impl<'a> ChosenRows<'a> {
    /// These rows of batches with the same columns; [`BucketRow::UNMATCHED`] is none.
    pub fn new(batches: &'a [RecordBatch], rows: &[BucketRow]) -> ChosenRows<'a> {
        match batches {
            [] => ChosenRows::Unmatched(rows.len()),
            [only] => ChosenRows::OfOne(only, rows.iter().map(|row| row.row).collect()),
            several => {
                let place = |row: &BucketRow| match *row {
                    BucketRow::UNMATCHED => (several.len(), 0),
                    BucketRow { bucket, row } => (bucket as usize, row as usize),
                };
                let has_unmatched = rows.contains(&BucketRow::UNMATCHED);
                ChosenRows::OfSeveral { batches, rows: rows.iter().map(place).collect(), has_unmatched }
            }
        }
    }

    /// The values of a column, which has this type: NULL for rows that are none.
    ///
    /// # Errors
    /// Where Arrow cannot put values of the type together.
    pub fn column(&self, column: usize, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
        let taken = match self {
            ChosenRows::Unmatched(count) => new_null_array(data_type, *count),
            ChosenRows::OfOne(batch, rows) => gather(batch.column(column), rows),
            ChosenRows::OfSeveral { batches, rows, has_unmatched } => {
                let unmatched = has_unmatched.then(|| new_null_array(batches[0].column(column).data_type(), 1));
                let arrays = batches.iter().map(|batch| batch.column(column).as_ref()).chain(unmatched.as_deref());
                interleave(&arrays.collect::<Vec<&dyn Array>>(), rows)?
            }
        };
        Ok(align_bits(taken))
    }
}
