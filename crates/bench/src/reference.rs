//! The best hand-written loops we know for what the benchmarks ask, over the same blocks as the engine reads.
//!
//! Each knows its query, its types and the range of its keys, which the engine has to find out; each is checked against a
//! straightforward computation. In reading order: [`select`] (rows that pass, by SIMD), [`ysb`], [`count`] (the same by windows that count events), [`nexmark`], [`sums`] (by key, any
//! number of them), [`places`] (by keys that are places, by several threads together), [`functions`] (six of them by key), [`hop`] (windows that overlap), [`hop_groups`] (the same by several keys), [`session`] (sessions by key), [`over`] and [`over_values`] (functions of the rows before each row), [`sliding`] and [`sliding_many`] (what the
//! literature does there, for one window and for several), [`window_join`], [`interval_join`] and [`table_join`] (two streams, or one and a table), [`scan`] (what the machine's memory can deliver at all).

pub mod select;

pub mod ysb;

pub mod count;

pub mod nexmark;

pub mod sums;

pub mod places;

pub mod functions;

pub mod hop;

pub mod hop_groups;

pub mod session;

pub mod over;

pub mod over_values;

pub mod sliding;

pub mod sliding_many;

pub mod window_join;

pub mod interval_join;

pub mod table_join;

pub mod scan;

use std::borrow::Cow;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Float64Type, Int8Type, Int32Type, Int64Type, UInt8Type};
use pelton_data::{Block, Micros, time};

/// The values of a column of 64-bit integers or timestamps as they lie in memory, event times without their shift.
///
/// # Panics
/// Where the column has another type or holds a NULL: the benchmarks' inputs do not.
pub fn integers(block: &Block, column: usize) -> &[i64] {
    let array = &block.raw_columns()[column];
    assert_eq!(array.null_count(), 0, "the reference loops know no NULLs");
    match array.data_type() {
        DataType::Int64 => array.as_primitive::<Int64Type>().values(),
        DataType::Timestamp(unit, _) => {
            use arrow::datatypes::{TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampSecondType};
            match unit {
                TimeUnit::Second => array.as_primitive::<TimestampSecondType>().values(),
                TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().values(),
                TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().values(),
                TimeUnit::Nanosecond => panic!("blocks hold no nanoseconds"),
            }
        }
        other => panic!("a column of 64-bit integers was expected, not {other}"),
    }
}

/// The values of a column of doubles as they lie in memory.
fn floats(block: &Block, column: usize) -> &[f64] {
    let array = &block.raw_columns()[column];
    assert_eq!(array.null_count(), 0, "the reference loops know no NULLs");
    array.as_primitive::<Float64Type>().values()
}

/// The values of a column of doubles, or those of one of 32-bit integers as doubles.
fn doubles(block: &Block, column: usize) -> Cow<'_, [f64]> {
    match block.raw_columns()[column].as_primitive_opt::<Int32Type>() {
        Some(array) => {
            assert_eq!(array.null_count(), 0, "the reference loops know no NULLs");
            array.values().iter().map(|&value| f64::from(value)).collect()
        }
        None => Cow::Borrowed(floats(block, column)),
    }
}

/// One byte a row for what happened, and the byte that means `view`: dictionary codes, or the numbers of LightSaber's variant.
///
/// # Panics
/// Where the column has neither form.
pub fn event_types(block: &Block, column: usize) -> (&[u8], u8) {
    let array = &block.raw_columns()[column];
    if let Some(numbers) = array.as_primitive_opt::<Int8Type>() {
        return (&numbers.values().inner().as_slice()[..block.rows()], 0);
    }
    let array = array.as_dictionary::<UInt8Type>();
    let words = array.values().as_string_view();
    let code = words.iter().position(|word| word == Some("view")).expect("the dictionary holds 'view'");
    (array.keys().values(), u8::try_from(code).expect("codes have 8 bits"))
}

/// Runs of a block's rows that lie in one window: its start, and the rows. One run where the block's times say so, which costs
/// nothing; otherwise the rows' own times decide.
fn windows(block: &Block, size: Micros, mut visit: impl FnMut(Micros, std::ops::Range<usize>)) {
    let (Some(range), Some(column)) = (block.time_range(), block.time_column()) else { return };
    let (first, last) = (time::slice_start(range.min, size, 0), time::slice_start(range.max, size, 0));
    if first == last {
        return visit(first, 0..block.rows());
    }
    let shift = block.time_shift_ticks();
    let starts: Vec<Micros> = integers(block, column.index)
        .iter()
        .map(|ticks| time::slice_start((ticks + shift) * column.micros_per_tick, size, 0))
        .collect();
    let mut begin = 0;
    for run in starts.chunk_by(|a, b| a == b) {
        visit(run[0], begin..begin + run.len());
        begin += run.len();
    }
}

/// Goes through windows of rows in order of time, one after the other: `add` takes rows of the one that is open, with the `columns` of their block, and
/// `close` its start when there are no more.
fn each_window<'a, Columns, State>(
    (blocks, size): (&'a [Block], Micros),
    columns: impl Fn(&'a Block) -> Columns,
    state: &mut State,
    add: impl Fn(&mut State, &Columns, std::ops::Range<usize>),
    mut close: impl FnMut(&mut State, Micros),
) {
    let mut open = None;
    for block in blocks {
        let columns = columns(block);
        windows(block, size, |start, rows| {
            if let Some(closed) = open.replace(start).filter(|open| *open != start) {
                close(state, closed);
            }
            add(state, &columns, rows);
        });
    }
    if let Some(closed) = open {
        close(state, closed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMillisecondArray};
    use pelton_data::{Block, TimeColumn};

    /// A block of rows of a time in milliseconds, a key and a value.
    pub(super) fn block_of(rows: &[(i64, i64, i64)]) -> Block {
        let columns: [(&str, ArrayRef); 3] = [
            ("ts", Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.0)))),
            ("k", Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1)))),
            ("v", Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.2)))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let time = TimeColumn::new(0, batch.column(0).data_type());
        Block::new(batch, time).unwrap()
    }
}
