//! Values of a column at rows in any order.

use arrow::array::{Array, ArrayData, ArrayRef, UInt32Array, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::ArrowNativeType;
use pelton_data::column::Layout;

use super::UNMATCHED;
use crate::vector::prefetch;

/// Columns of fewer bytes stay in the second-level cache, and are not prefetched.
const CACHED_BYTES: usize = 1 << 20;

/// How many rows before it is read a value is prefetched.
const ROWS_AHEAD: usize = 64;

/// The values of a column at `rows`, NULL for a row that is [`UNMATCHED`]. Numbers of large columns are prefetched.
///
/// # Panics
/// Where another row is out of range.
pub fn gather(column: &dyn Array, rows: &[u32]) -> ArrayRef {
    let has_unmatched = rows.iter().fold(false, |any, &row| any | (row == UNMATCHED));
    let matched = has_unmatched.then(|| BooleanBuffer::collect_bool(rows.len(), |at| rows[at] != UNMATCHED));
    let Some(values) = gather_values(column, rows, has_unmatched) else {
        let rows = UInt32Array::new(rows.to_vec().into(), matched.map(NullBuffer::new));
        return take(column, &rows, None).expect("rows are those of the column");
    };
    let nulls = match column.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => matched.map(NullBuffer::new),
        Some(nulls) => {
            let is_valid = |row: u32| row != UNMATCHED && nulls.is_valid(row as usize);
            Some(NullBuffer::new(BooleanBuffer::collect_bool(rows.len(), |at| is_valid(rows[at]))))
        }
    };
    let data = ArrayData::builder(column.data_type().clone()).len(rows.len()).add_buffer(values).nulls(nulls);
    make_array(data.build().expect("values are those of an array of the type"))
}

/// The values at rows, any for those that are unmatched; `None` where they are no numbers.
fn gather_values(column: &dyn Array, rows: &[u32], has_unmatched: bool) -> Option<Buffer> {
    let Some(Layout::Fixed { width }) = Layout::of(column.data_type()) else { return None };
    let data = column.to_data();
    macro_rules! gather {
        ($type:ty) => {{
            let values = ScalarBuffer::<$type>::new(data.buffers()[0].clone(), data.offset(), data.len());
            match has_unmatched {
                false => gather_each(&values, rows, |row| values[row as usize]),
                true => gather_each(&values, rows, |row| match row {
                    UNMATCHED => <$type>::default(),
                    row => values[row as usize],
                }),
            }
        }};
    }
    Some(match width {
        1 => gather!(i8),
        2 => gather!(i16),
        4 => gather!(i32),
        8 => gather!(i64),
        _ => gather!(i128),
    })
}

#[inline(always)]
fn gather_each<T: ArrowNativeType>(values: &[T], rows: &[u32], value: impl Fn(u32) -> T) -> Buffer {
    if size_of_val(values) <= CACHED_BYTES {
        return rows.iter().map(|&row| value(row)).collect::<Vec<T>>().into();
    }
    let ask = |row: u32| prefetch(values.as_ptr().wrapping_add(row as usize).cast());
    rows.iter().take(ROWS_AHEAD).for_each(|&row| ask(row));
    let each = rows.iter().enumerate().map(|(at, &row)| {
        if let Some(&ahead) = rows.get(at + ROWS_AHEAD) {
            ask(ahead);
        }
        value(row)
    });
    each.collect::<Vec<T>>().into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        AsArray, BooleanArray, Decimal128Array, Int8Array, Int16Array, Int32Array, Int64Array, StringViewArray,
        TimestampMillisecondArray,
    };
    use arrow::datatypes::Int64Type;

    use super::*;

    #[test]
    fn values_of_all_types_are_those_that_arrow_takes() {
        let number = |row: i64| (row % 3 > 0).then_some(row);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int8Array::from_iter((0..9).map(|row| Some(row as i8)))),
            Arc::new(Int16Array::from_iter((0..9).map(|row| number(row).map(|value| value as i16)))),
            Arc::new(Int32Array::from_iter((0..9).map(|row| number(row).map(|value| value as i32)))),
            Arc::new(Int64Array::from_iter((0..9).map(number))),
            Arc::new(TimestampMillisecondArray::from_iter((0..9).map(Some)).with_timezone("UTC")),
            Arc::new(Decimal128Array::from_iter((0..9).map(|row| number(row).map(i128::from)))),
            Arc::new(BooleanArray::from_iter((0..9).map(|row| Some(row % 2 == 0)))),
            Arc::new(StringViewArray::from_iter((0..9).map(|row| Some(format!("a text that is long: {row}"))))),
        ];
        for rows in [vec![8, 0, 3, 3, 1], vec![UNMATCHED, 2, 1, UNMATCHED, 0], Vec::new()] {
            let numbers = UInt32Array::from_iter(rows.iter().map(|&row| (row != UNMATCHED).then_some(row)));
            for column in &columns {
                assert_eq!(&gather(column, &rows), &take(column, &numbers, None).unwrap());
                let slice = column.slice(0, 9).slice(0, 9);
                assert_eq!(&gather(&slice, &rows), &take(&slice, &numbers, None).unwrap());
            }
            let (column, in_slice) = (&columns[3], rows.iter().map(|&row| row.min(5).max(row / 6 * 5)));
            let in_slice: Vec<u32> = in_slice.filter(|&row| row < 6).collect();
            let expected: Vec<_> = in_slice.iter().map(|&row| number(i64::from(row) + 3)).collect();
            assert_eq!(&gather(&column.slice(3, 6), &in_slice), &(Arc::new(Int64Array::from(expected)) as ArrayRef));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "many rows")]
    fn large_columns_are_prefetched_and_the_same() {
        let column = Int64Array::from_iter_values((0..200_000).map(|row| row * 3));
        for count in [0, 1, 63, 64, 65, 1_000] {
            let rows: Vec<u32> = (0..count).map(|at| at * 7_919 % 200_000).collect();
            let expected = rows.iter().map(|&row| i64::from(row) * 3);
            assert!(gather(&column, &rows).as_primitive::<Int64Type>().values().iter().copied().eq(expected));
        }
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn rows_are_those_of_the_column() {
        gather(&Int64Array::from(vec![1, 2]), &[2]);
    }
}
