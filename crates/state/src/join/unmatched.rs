//! Rows of a bounded table that no row of a stream has found.

use std::cell::Cell;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::{cast, take};
use arrow::datatypes::{Int64Type, SchemaRef};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, SortField};
use pelton_data::column::logical_type;

use super::bucket::Bucket;
use crate::kernel::KernelError;
use crate::snapshot::{Reader, Snapshot, SnapshotError, Writer};
use crate::table::hash::{hash_bytes, hash_pair};

/// Rows of a table whose bytes are there at a time while it is hashed.
const CHUNK_ROWS: usize = 1 << 13;

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
    /// The hash of the bucket's rows, once a snapshot has asked for it.
    fingerprint: Cell<Option<u64>>,
}

impl UnmatchedRows {
    /// None has been found. Rows that leave have these columns, each a column of the bucket, or NULL.
    pub fn new(bucket: Arc<Bucket>, columns: Vec<Option<usize>>, schema: SchemaRef) -> UnmatchedRows {
        let found = vec![0; bucket.columns().num_rows().div_ceil(64)];
        UnmatchedRows { bucket, columns, schema, found, row_next: 0, fingerprint: Cell::new(None) }
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

    /// A hash of the bucket's rows in their order: found rows are known by their numbers.
    fn fingerprint(&self) -> Result<u64, SnapshotError> {
        let known = self.fingerprint.get().map_or_else(|| fingerprint(self.bucket.columns()), Ok);
        let known = known.map_err(|error| SnapshotError::NoForm(error.to_string()))?;
        self.fingerprint.set(Some(known));
        Ok(known)
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
        out.number(self.fingerprint()?);
        out.number(self.row_next as u64);
        out.list(&self.found);
        Ok(())
    }

    fn read_from(&mut self, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let fingerprint = input.number("a hash of the table's rows")?;
        let is_same = fingerprint == self.fingerprint()?;
        input
            .expect(is_same, "the rows of the table as it is now", || "those of a table with other rows".to_owned())?;
        let row_next = input.number("rows that have left")? as usize;
        let found = input.list::<u64>("found rows")?;
        let is_of_table = row_next <= self.bucket.columns().num_rows() && found.len() == self.found.len();
        input.check(is_of_table, "as many rows as the table has")?;
        (self.row_next, self.found) = (row_next, found.to_vec());
        Ok(())
    }
}

/// A hash of rows that does not depend on whether columns are coded. Columns of types that have no order, such as maps, are left out.
fn fingerprint(rows: &RecordBatch) -> Result<u64, ArrowError> {
    let is_hashed =
        |column: &&ArrayRef| RowConverter::supports_fields(&[SortField::new(logical_type(column.data_type()).clone())]);
    let columns: Vec<&ArrayRef> = rows.columns().iter().filter(is_hashed).collect();
    let fields = columns.iter().map(|column| SortField::new(logical_type(column.data_type()).clone()));
    let converter = RowConverter::new(fields.collect())?;
    let mut hash = rows.num_rows() as u64;
    for first in (0..rows.num_rows()).step_by(CHUNK_ROWS) {
        let count = CHUNK_ROWS.min(rows.num_rows() - first);
        let chunk = columns.iter().map(|column| cast(&column.slice(first, count), logical_type(column.data_type())));
        let chunk = converter.convert_columns(&chunk.collect::<Result<Vec<_>, _>>()?)?;
        hash = chunk.iter().fold(hash, |hash, row| hash_pair(hash, hash_bytes(row.data())));
    }
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use arrow::array::{DictionaryArray, Int64Array, StringViewArray};
    use arrow::datatypes::UInt8Type;

    use super::*;
    use crate::snapshot::{restore, take};

    fn rows(numbers: &[Option<i64>], names: ArrayRef) -> UnmatchedRows {
        let numbers: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
        let batch = RecordBatch::try_from_iter_with_nullable([("i", numbers, true), ("name", names, true)]).unwrap();
        let schema = batch.schema();
        UnmatchedRows::new(Arc::new(Bucket::new(batch, &[0])), vec![Some(0), Some(1)], schema)
    }

    fn names(names: &[&str]) -> ArrayRef {
        Arc::new(StringViewArray::from(names.to_vec()))
    }

    #[test]
    fn a_snapshot_is_of_a_table_with_the_same_rows() {
        let numbers = [Some(1), None, Some(3)];
        let mut state = rows(&numbers, names(&["a", "b", "a name of more than twelve bytes"]));
        let found: ArrayRef = Arc::new(Int64Array::from(vec![2]));
        let pair = RecordBatch::try_from_iter([("i", found.clone()), ("name", names(&["x"])), ("row", found)]).unwrap();
        state.pass(&pair);
        let bytes = take(&state).unwrap();
        let mut same = rows(&numbers, names(&["a", "b", "a name of more than twelve bytes"]));
        restore(&mut same, &bytes).unwrap();
        assert_eq!(same.next_unmatched(9).unwrap().unwrap().num_rows(), 2);
        // Coded strings are the same strings.
        let coded = DictionaryArray::<UInt8Type>::from_iter(["a", "b", "a name of more than twelve bytes"]);
        let coded = DictionaryArray::new(
            coded.keys().clone(),
            cast(coded.values(), &arrow::datatypes::DataType::Utf8View).unwrap(),
        );
        restore(&mut rows(&numbers, Arc::new(coded)), &bytes).unwrap();
        let others = [
            rows(&[Some(1), Some(0), Some(3)], names(&["a", "b", "a name of more than twelve bytes"])),
            rows(&[Some(3), None, Some(1)], names(&["a", "b", "a name of more than twelve bytes"])),
            rows(&numbers, names(&["a", "b", "a name of more than twelve byteS"])),
        ];
        for mut other in others {
            let error = restore(&mut other, &bytes).unwrap_err().to_string();
            assert!(error.contains("found those of a table with other rows"), "{error}");
        }
        let error = restore(&mut rows(&numbers[..2], names(&["a", "b"])), &bytes).unwrap_err().to_string();
        assert!(error.contains("found rows of 2"), "{error}");
    }
}
