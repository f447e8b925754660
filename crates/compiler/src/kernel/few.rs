//! Rows of several blocks in one batch, where few of each block are left: a batch would cost more than its rows.

use arrow::array::{Array, ArrayData, RecordBatch, make_array};
use arrow::buffer::MutableBuffer;
use arrow::datatypes::{ArrowNativeType, SchemaRef};
use pelton_data::column::{Layout, values_ptr};
use pelton_state::kernel::KernelError;

use super::call::Call;
use super::project::{Projected, Projection};
use crate::interpret::rows::Origin;

/// A block with more rows left than this makes a batch of its own.
const ROWS_OF_BLOCK_MAX: usize = 1024;

/// Rows that wait to become a batch. Only plain columns of fixed width are put together.
pub(crate) struct FewRows<'a> {
    schema: &'a SchemaRef,
    /// For each column of the batch, which of the block it is, the bytes of a value, and the values; nothing where some column is of
    /// another kind.
    columns: Option<Vec<Column>>,
    rows: usize,
    /// Blocks that may have rows still.
    blocks_left: usize,
}

struct Column {
    of_block: usize,
    width: u8,
    values: MutableBuffer,
}

impl<'a> FewRows<'a> {
    /// No rows yet, of at most `blocks` blocks.
    pub(crate) fn new(
        origins: &[Origin],
        projection: &Projection,
        schema: &'a SchemaRef,
        blocks: usize,
    ) -> FewRows<'a> {
        let columns = projection.columns.iter().zip(schema.fields()).map(|(projected, field)| {
            let Projected::Plain(column) = projected else { return None };
            let Origin::Block(of_block) = origins[*column] else { return None };
            let Some(Layout::Fixed { width }) = Layout::of(field.data_type()) else { return None };
            Some(Column { of_block, width, values: MutableBuffer::new(0) })
        });
        FewRows { schema, columns: columns.collect(), rows: 0, blocks_left: blocks }
    }

    /// Takes the rows of a call, unless they are many or hold NULLs; says whether it did.
    pub(crate) fn take(&mut self, call: &Call<'_>) -> bool {
        let blocks = self.blocks_left;
        self.blocks_left = blocks.saturating_sub(1);
        let (Some(columns), Some(selection)) = (&mut self.columns, &call.selection) else { return false };
        let (block, arrays) = (call.block, call.block.raw_columns());
        let fits = |(column, field): (&Column, &arrow::datatypes::FieldRef)| {
            let array = &arrays[column.of_block];
            array.data_type() == field.data_type() && array.null_count() == 0
        };
        if call.count > ROWS_OF_BLOCK_MAX || !columns.iter().zip(self.schema.fields()).all(fits) {
            return false;
        }
        for Column { of_block, width, values } in columns {
            let array = arrays[*of_block].as_ref();
            if self.rows == 0 {
                // Blocks are alike, not equal: with a quarter more, what was appended is hardly ever moved.
                values.reserve((call.count * blocks * 5 / 4 + 8) * usize::from(*width));
            }
            let is_time = block.time_column().is_some_and(|time| time.index == *of_block);
            let shift = if is_time { block.time_shift_ticks() } else { 0 };
            match width {
                1 => append::<u8>(array, selection, values, |value| value),
                2 => append::<u16>(array, selection, values, |value| value),
                4 => append::<u32>(array, selection, values, |value| value),
                8 => append::<i64>(array, selection, values, |value| value.wrapping_add(shift)),
                _ => append::<i128>(array, selection, values, |value| value),
            }
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
        let Some(columns) = self.columns.as_mut().filter(|_| rows > 0) else { return Ok(()) };
        let arrays = columns.iter_mut().zip(self.schema.fields()).map(|(column, field)| {
            let values = std::mem::replace(&mut column.values, MutableBuffer::new(0));
            let data = ArrayData::builder(field.data_type().clone()).len(rows).add_buffer(values.into());
            // SAFETY: the buffer holds a value of the type, which has the width, for each row, aligned as Arrow's own buffers are.
            make_array(unsafe { data.build_unchecked() })
        });
        let batch = RecordBatch::try_new(self.schema.clone(), arrays.collect());
        output.push(batch.map_err(|error| KernelError::Expression(error.to_string()))?);
        Ok(())
    }
}

/// Appends what `change` makes of the values at `rows`.
fn append<T: ArrowNativeType>(array: &dyn Array, rows: &[u32], values: &mut MutableBuffer, change: impl Fn(T) -> T) {
    assert_eq!(Layout::of(array.data_type()), Some(Layout::Fixed { width: size_of::<T>() as u8 }));
    // SAFETY: the array has as many values of this width as asserted, and is borrowed.
    let held = unsafe { std::slice::from_raw_parts(values_ptr(array).cast::<T>(), array.len()) };
    values.extend(rows.iter().map(|&row| change(held[row as usize])));
}
