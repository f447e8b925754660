//! Rows of several batches, by their numbers.

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array, new_null_array};
use arrow::buffer::NullBuffer;
use arrow::compute::{interleave, take};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use pelton_data::column::align_bits;

use super::{BucketRow, UNMATCHED};

/// Numbered rows, as each column of their batches is taken.
pub(super) enum ChosenRows<'a> {
    /// So many, none of which is there.
    Unmatched(usize),
    OfOne(&'a RecordBatch, UInt32Array),
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
            [only] => ChosenRows::OfOne(only, row_numbers(rows)),
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
            ChosenRows::OfOne(batch, rows) => take(batch.column(column), rows, None)?,
            ChosenRows::OfSeveral { batches, rows, has_unmatched } => {
                let unmatched = has_unmatched.then(|| new_null_array(batches[0].column(column).data_type(), 1));
                let arrays = batches.iter().map(|batch| batch.column(column).as_ref()).chain(unmatched.as_deref());
                interleave(&arrays.collect::<Vec<&dyn Array>>(), rows)?
            }
        };
        Ok(align_bits(taken))
    }
}

/// Rows of one batch.
fn row_numbers(rows: &[BucketRow]) -> UInt32Array {
    let numbers: Vec<u32> = rows.iter().map(|row| row.row).collect();
    if !numbers.contains(&UNMATCHED) {
        return numbers.into();
    }
    let valid: NullBuffer = numbers.iter().map(|&row| row != UNMATCHED).collect();
    let numbers: Vec<u32> = numbers.into_iter().map(|row| if row == UNMATCHED { 0 } else { row }).collect();
    UInt32Array::new(numbers.into(), Some(valid))
}
