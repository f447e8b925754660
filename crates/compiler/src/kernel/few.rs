//! Rows of several blocks in one batch, where few of each block are left: a batch would cost more than its rows.

use std::mem::MaybeUninit;

use arrow::array::{Array, RecordBatch};
use arrow::buffer::MutableBuffer;
use arrow::datatypes::{ArrowNativeType, SchemaRef};
use pelton_data::Block;
use pelton_data::column::{Layout, values_ptr};
use pelton_state::kernel::KernelError;

use super::call::Call;
use super::project::{Projected, Projection, array_of};
use crate::interpret::rows::Origin;

/// A block with more rows left than this makes a batch of its own.
const ROWS_OF_BLOCK_MAX: usize = 1024;

/// Rows that wait to become a batch. Only plain columns of fixed width are put together.
pub(crate) struct FewRows<'a> {
    schema: &'a SchemaRef,
    /// For each column of the batch, which of the block it is, the bytes of a value, and the values.
    columns: Vec<FewColumn>,
    /// Whether all columns are of the kind.
    are_plain: bool,
    rows: usize,
    /// Blocks that may have rows still.
    blocks_left: usize,
}

/// A column of rows that wait.
pub(crate) struct FewColumn {
    of_block: usize,
    width: u8,
    values: MutableBuffer,
}

impl<'a> FewRows<'a> {
    /// No rows yet, of at most `blocks` blocks. `columns` is a list to be used.
    pub(crate) fn new(
        origins: &[Origin],
        projection: &Projection,
        schema: &'a SchemaRef,
        blocks: usize,
        mut columns: Vec<FewColumn>,
    ) -> FewRows<'a> {
        columns.clear();
        let plain = projection.columns.iter().zip(schema.fields()).map(|(projected, field)| {
            let Projected::Plain(column) = projected else { return None };
            let Origin::Block(of_block) = origins[*column] else { return None };
            let Some(Layout::Fixed { width }) = Layout::of(field.data_type()) else { return None };
            Some(FewColumn { of_block, width, values: MutableBuffer::new(0) })
        });
        let are_plain = plain.fold(true, |are_plain, column| {
            let is_plain = column.is_some();
            columns.extend(column);
            are_plain && is_plain
        });
        FewRows { schema, columns, are_plain, rows: 0, blocks_left: blocks }
    }

    /// The list that it was given.
    pub(crate) fn into_columns(self) -> Vec<FewColumn> {
        self.columns
    }

    /// Takes the rows of a call, unless they are many or hold NULLs; says whether it did.
    pub(crate) fn take(&mut self, call: &Call<'_>) -> bool {
        let blocks = self.blocks_left;
        self.blocks_left = blocks.saturating_sub(1);
        let Some(selection) = call.selection.as_ref().filter(|_| self.are_plain) else { return false };
        let (block, arrays) = (call.block, call.block.raw_columns());
        let fits = |(column, field): (&FewColumn, &arrow::datatypes::FieldRef)| {
            let array = &arrays[column.of_block];
            array.data_type() == field.data_type() && array.null_count() == 0
        };
        if call.count > ROWS_OF_BLOCK_MAX || !self.columns.iter().zip(self.schema.fields()).all(fits) {
            return false;
        }
        for FewColumn { of_block, width, values } in &mut self.columns {
            if self.rows == 0 {
                // Blocks are alike, not equal: with a quarter more, what was appended is hardly ever moved.
                values.reserve((call.count * blocks * 5 / 4 + 8) * usize::from(*width));
            }
            append_rows(block, *of_block, *width, selection, values);
        }
        self.rows += call.count;
        true
    }

    /// Makes a batch of the rows that wait, if any do.
    ///
    /// # Errors
    /// Where they do not fit the schema.
    pub(crate) fn finish(&mut self, output: &mut Vec<RecordBatch>) -> Result<(), KernelError> {
        let rows = std::mem::take(&mut self.rows);
        if rows == 0 {
            return Ok(());
        }
        let arrays = self.columns.iter_mut().zip(self.schema.fields()).map(|(column, field)| {
            let values = std::mem::replace(&mut column.values, MutableBuffer::new(0));
            // SAFETY: the buffer holds a value of the type, which has the width, for each row, aligned as Arrow's own buffers are.
            unsafe { array_of(field.data_type(), rows, values, None) }
        });
        let batch = RecordBatch::try_new(self.schema.clone(), arrays.collect());
        output.push(batch.map_err(|error| KernelError::Expression(error.to_string()))?);
        Ok(())
    }
}

/// Appends the values of a column of a block, which has this width and no NULLs, at `rows`.
pub(super) fn append_rows(block: &Block, of_block: usize, width: u8, rows: &[u32], values: &mut MutableBuffer) {
    let array = block.raw_columns()[of_block].as_ref();
    let is_time = block.time_column().is_some_and(|time| time.index == of_block);
    let shift = if is_time { block.time_shift_ticks() } else { 0 };
    match width {
        1 => append::<u8>(array, rows, values, |value| value),
        2 => append::<u16>(array, rows, values, |value| value),
        4 => append::<u32>(array, rows, values, |value| value),
        8 => append::<i64>(array, rows, values, |value| value.wrapping_add(shift)),
        _ => append::<i128>(array, rows, values, |value| value),
    }
}

/// Appends what `change` makes of the values at `rows`.
fn append<T: ArrowNativeType>(array: &dyn Array, rows: &[u32], values: &mut MutableBuffer, change: impl Fn(T) -> T) {
    assert_eq!(Layout::of(array.data_type()), Some(Layout::Fixed { width: size_of::<T>() as u8 }));
    // SAFETY: the array has as many values of this width as asserted, and is borrowed.
    let held = unsafe { std::slice::from_raw_parts(values_ptr(array).cast::<T>(), array.len()) };
    values.reserve(rows.len() * size_of::<T>());
    let end = values.len() + rows.len() * size_of::<T>();
    // Into a list that is long enough: to append value by value asks each time whether there is room, and takes twice as long.
    // SAFETY: there is room for as many values as rows. They are aligned, as buffers are, and what is in them before has the same width.
    let appended = unsafe {
        let first = values.as_mut_ptr().add(values.len()).cast::<MaybeUninit<T>>();
        std::slice::from_raw_parts_mut(first, rows.len())
    };
    for (value, &row) in appended.iter_mut().zip(rows) {
        value.write(change(held[row as usize]));
    }
    // SAFETY: all have been written.
    unsafe { values.set_len(end) };
}
