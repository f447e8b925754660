//! Rows of a bounded table that no row of a stream has found.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::{Int64Type, SchemaRef};

use super::bucket::Bucket;
use crate::kernel::KernelError;
use crate::snapshot::{Reader, Snapshot, SnapshotError, Writer};

/// Which rows of a bucket have been found, and the others as rows of a join.
#[derive(Debug)]
pub struct UnmatchedRows {
    bucket: Arc<Bucket>,
    /// The bucket's column that each column is; NULL without one.
    columns: Vec<Option<usize>>,
    schema: SchemaRef,
    /// A bit for each row of the bucket that has been found.
    found: Vec<u64>,
    /// Rows before this one have left, if they were not found.
    row_next: usize,
}

impl UnmatchedRows {
    /// None has been found. Rows that leave have these columns, each a column of the bucket, or NULL.
    pub fn new(bucket: Arc<Bucket>, columns: Vec<Option<usize>>, schema: SchemaRef) -> UnmatchedRows {
        let found = vec![0; bucket.columns().num_rows().div_ceil(64)];
        UnmatchedRows { bucket, columns, schema, found, row_next: 0 }
    }

    /// Takes the last column off pairs, which is the number of the row that was found, NULL for none.
    ///
    /// # Panics
    /// Where there is no such row.
    pub fn pass(&mut self, pairs: &RecordBatch) -> RecordBatch {
        let (numbers, columns) = pairs.columns().split_last().expect("the number of the row is there");
        for number in numbers.as_primitive::<Int64Type>().iter().flatten() {
            let row = usize::try_from(number).expect("rows are numbered from 0");
            self.found[row / 64] |= 1 << (row % 64);
        }
        self.batch(columns.to_vec(), pairs.num_rows())
    }

    /// The next rows that have not been found, so many at most; nothing where all have left.
    ///
    /// # Errors
    /// Where Arrow cannot take them from their columns.
    pub fn next_unmatched(&mut self, rows_max: usize) -> Result<Option<RecordBatch>, KernelError> {
        let is_unmatched = |row: &usize| self.found[row / 64] & (1 << (row % 64)) == 0;
        let rows = (self.row_next..self.bucket.columns().num_rows()).filter(is_unmatched);
        let rows: Vec<u32> = rows.take(rows_max.max(1)).map(|row| row as u32).collect();
        let Some(&last) = rows.last() else {
            self.row_next = self.bucket.columns().num_rows();
            return Ok(None);
        };
        self.row_next = last as usize + 1;
        let rows = UInt32Array::from(rows);
        let columns = self.columns.iter().zip(self.schema.fields()).map(|(column, field)| match column {
            Some(column) => take(self.bucket.columns().column(*column), &rows, None),
            None => Ok(new_null_array(field.data_type(), rows.len())),
        });
        let columns = columns.collect::<Result<_, _>>().map_err(|error| KernelError::State(error.to_string()))?;
        Ok(Some(self.batch(columns, rows.len())))
    }

    fn batch(&self, columns: Vec<ArrayRef>, rows: usize) -> RecordBatch {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).expect("columns have these types")
    }

    /// Bytes beside the bucket.
    pub fn bytes(&self) -> usize {
        size_of_val(self.found.as_slice())
    }
}

impl Snapshot for UnmatchedRows {
    fn description(&self) -> String {
        format!("found rows of {}", self.bucket.columns().num_rows())
    }

    fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        out.number(self.row_next as u64);
        out.list(&self.found);
        Ok(())
    }

    fn read_from(&mut self, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let row_next = input.number("rows that have left")? as usize;
        let found = input.list::<u64>("found rows")?;
        let is_of_table = row_next <= self.bucket.columns().num_rows() && found.len() == self.found.len();
        input.check(is_of_table, "as many rows as the table has")?;
        (self.row_next, self.found) = (row_next, found.to_vec());
        Ok(())
    }
}
