//! Rows as records: the bytes of their values, one behind the other, and columns that are put together from them.
//!
//! What values only point to does not move: the bytes of longer strings, words of dictionaries. Lists are not taken apart.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer};
use arrow::error::ArrowError;
use pelton_data::column::Layout;

/// The rows of a batch, to be written as records.
pub(crate) struct Records {
    rows: usize,
    /// Of each record.
    width: usize,
    fields: Vec<Field>,
}

/// A part of all records, side by side.
struct Field {
    bytes: Buffer,
    /// 1, 2, 4, 8 or 16.
    width: usize,
}

impl Records {
    pub fn of(batch: &RecordBatch) -> Records {
        let fields: Vec<Field> = batch.columns().iter().flat_map(fields_of).collect();
        Records { rows: batch.num_rows(), width: fields.iter().map(|field| field.width).sum(), fields }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of each record.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Writes a row's record, whose width `record` has.
    pub fn write(&self, row: usize, record: &mut [u8]) {
        let mut at = 0;
        for Field { bytes, width } in &self.fields {
            let (from, to) = (&bytes[row * width..], &mut record[at..]);
            copy(from, to, *width);
            at += width;
        }
    }
}

/// Copies that many bytes: of each width by one instruction.
fn copy(from: &[u8], to: &mut [u8], width: usize) {
    match width {
        1 => to[0] = from[0],
        2 => to[..2].copy_from_slice(&from[..2]),
        4 => to[..4].copy_from_slice(&from[..4]),
        8 => to[..8].copy_from_slice(&from[..8]),
        _ => to[..width].copy_from_slice(&from[..width]),
    }
}

/// Bytes of a value of this column in a record, without that which says whether it is NULL; `None` where values do not pass by themselves.
fn value_width(column: &ArrayRef) -> Option<usize> {
    Layout::of(column.data_type()).map(Layout::width)
}

/// Whether each value is there, where some are not, and the values.
fn fields_of(column: &ArrayRef) -> impl Iterator<Item = Field> {
    let fields = value_width(column).map(|width| {
        let valid = column.nulls().map(|nulls| Field { bytes: as_bytes(nulls.inner()), width: 1 });
        let bytes = match column.as_boolean_opt() {
            Some(booleans) => as_bytes(booleans.values()),
            None => {
                let data = column.to_data();
                data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width)
            }
        };
        valid.into_iter().chain([Field { bytes, width }])
    });
    fields.into_iter().flatten()
}

fn as_bytes(bits: &BooleanBuffer) -> Buffer {
    Buffer::from_vec(bits.iter().map(u8::from).collect::<Vec<u8>>())
}

/// The columns of records that were made of `original`, which has what they point to.
///
/// # Errors
/// Where they were not.
pub(crate) fn put_together(original: &RecordBatch, records: &[u8], rows: usize) -> Result<RecordBatch, ArrowError> {
    let record_width = records.len().checked_div(rows).unwrap_or(0);
    let mut at = 0;
    let mut next_field = |width: usize| {
        let mut bytes = MutableBuffer::from_len_zeroed(rows * width);
        for row in 0..rows {
            copy(&records[row * record_width + at..], &mut bytes[row * width..], width);
        }
        at += width;
        bytes
    };
    let columns = original.columns().iter().map(|column| {
        let Some(width) = value_width(column) else { return Ok(column.clone()) };
        let nulls = column.nulls().map(|_| NullBuffer::new(as_bits(&next_field(1))));
        let values = next_field(width);
        if column.as_boolean_opt().is_some() {
            return Ok(std::sync::Arc::new(BooleanArray::new(as_bits(&values), nulls)) as ArrayRef);
        }
        let data = column.to_data();
        let builder = arrow::array::ArrayData::builder(data.data_type().clone()).len(rows).nulls(nulls);
        let builder = builder.add_buffer(values.into()).add_buffers(data.buffers()[1..].to_vec());
        builder.child_data(data.child_data().to_vec()).build().map(make_array)
    });
    let columns = columns.collect::<Result<Vec<_>, ArrowError>>()?;
    RecordBatch::try_new_with_options(original.schema(), columns, &RecordBatchOptions::new().with_row_count(Some(rows)))
}

fn as_bits(bytes: &[u8]) -> BooleanBuffer {
    BooleanBuffer::collect_bool(bytes.len(), |row| bytes[row] != 0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{DictionaryArray, Int8Array, Int16Array, ListArray, StringViewArray};
    use arrow::datatypes::{Int8Type, Int32Type};

    use super::*;

    #[test]
    fn rows_arrive_as_they_left() {
        let long = "a string that no view holds itself";
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("small", Arc::new(Int16Array::from(vec![1, -2, 3, 4, 5]))),
            ("flag", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), Some(true), None]))),
            ("text", Arc::new(StringViewArray::from(vec![Some("short"), Some(long), None, Some(""), Some(long)]))),
            (
                "word",
                Arc::new(DictionaryArray::<Int8Type>::new(
                    Int8Array::from(vec![Some(1), Some(0), None, Some(1), Some(0)]),
                    Arc::new(StringViewArray::from(vec!["a", "b"])),
                )),
            ),
            (
                "list",
                Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([
                    Some(vec![Some(1)]),
                    None,
                    Some(vec![]),
                    Some(vec![Some(2), None]),
                    None,
                ])),
            ),
        ];
        let all = RecordBatch::try_from_iter(columns).unwrap();
        for batch in [all.slice(0, 0), all.slice(0, 5), all.slice(1, 3), all.project(&[]).unwrap()] {
            let records = Records::of(&batch);
            let mut bytes = vec![0; records.width() * records.rows()];
            for row in 0..records.rows() {
                records.write(row, &mut bytes[row * records.width()..][..records.width()]);
            }
            assert_eq!(put_together(&batch, &bytes, records.rows()).unwrap(), batch);
        }
    }
}
