//! Columns of the rows that are alive, as Arrow arrays.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use arrow::array::ArrayData;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, PrimitiveArray, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    DataType, Decimal128Type, Float64Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType,
};
use pelton_data::abi::OutputPointer;
use pelton_data::column::Layout;
use pelton_state::join::gather;
use pelton_state::kernel::KernelError;

use super::call::{Bound, Call};
use super::few::append_rows;
use super::loops::Loop;
use super::multiply::multiply;
use crate::interpret::expression::Expression;
use crate::interpret::rows::Origin;
use crate::lower::function::{Effect, Written, output_width};
use crate::lower::graph::{Bytes, Graph, NodeId};
use crate::select::Level;

/// How one column is made.
#[derive(Debug)]
pub(crate) enum Projected {
    /// It is a column of the pipeline.
    Plain(usize),
    /// Output of the projection's loop.
    Written(usize),
    /// A decimal whose digits are those of a column of 64-bit integers of the block times a constant.
    Product {
        /// It, for people.
        node: NodeId,
        /// The column.
        column: usize,
        /// The constant.
        factor: i64,
    },
    /// A foreign column.
    Computed(usize),
    /// By DataFusion.
    Interpreted(Expression),
}

/// Makes columns, one value for each row that is alive.
pub(crate) struct Projection {
    /// How, column by column.
    pub(crate) columns: Vec<Projected>,
    /// Computes those that machine code computes.
    pub(crate) code: Option<Loop>,
}

impl Projection {
    /// The foreign columns that are needed.
    pub(crate) fn foreign(&self, graph: &Graph) -> BTreeSet<usize> {
        let read = self.code.as_ref().map(|code| code.foreign(graph)).unwrap_or_default();
        let computed = self.columns.iter().filter_map(|projected| match projected {
            Projected::Computed(index) => Some(*index),
            _ => None,
        });
        read.into_iter().chain(computed).collect()
    }

    /// Appends the columns to `evaluated`. There is at least one row.
    ///
    /// # Errors
    /// Where an expression fails.
    pub(crate) fn evaluate(&self, call: &Call<'_>, evaluated: &mut Vec<ArrayRef>) -> Result<(), KernelError> {
        let mut written = std::mem::take(&mut call.spare.borrow_mut().written);
        let bound = self.code.as_ref().map(|code| write(call, code, &mut written)).transpose()?;
        let mut rows = None;
        let mut column = |projected: &Projected| match projected {
            Projected::Plain(column) => {
                Ok(plain_column(call, *column)
                    .unwrap_or_else(|| rows.get_or_insert_with(|| call.rows()).column(*column)))
            }
            Projected::Written(index) => {
                let bound = bound.as_ref().expect("a loop has written it");
                Ok(written[*index].array(call, bound))
            }
            Projected::Product { node, column, factor } => {
                let integers = rows.get_or_insert_with(|| call.rows()).column(*column);
                Ok(product(&integers, *factor, &call.shared.graph.node(*node).data_type))
            }
            Projected::Computed(index) => call.computed(*index, &mut rows),
            Projected::Interpreted(expression) => expression.evaluate_array(rows.get_or_insert_with(|| call.rows())),
        };
        for projected in &self.columns {
            evaluated.push(column(projected)?);
        }
        written.clear();
        call.spare.borrow_mut().written = written;
        Ok(())
    }
}

/// The values of a column where they need only be copied, or not even that.
fn plain_column(call: &Call<'_>, column: usize) -> Option<ArrayRef> {
    let of_block = match call.shared.origins[column] {
        Origin::Block(column) => column,
        Origin::Lookup { lookup, .. } => return Some(gather(&**call.column(column), &call.matches[lookup])),
    };
    let Some(selection) = &call.selection else {
        return (call.count == call.block.rows()).then(|| call.block.column(of_block).into_owned());
    };
    let array = &call.block.raw_columns()[of_block];
    let Some(Layout::Fixed { width }) = Layout::of(array.data_type()) else { return None };
    if array.null_count() > 0 {
        return None;
    }
    let mut values = MutableBuffer::with_capacity(selection.len() * usize::from(width));
    append_rows(call.block, of_block, width, selection, &mut values);
    // SAFETY: the buffer holds a value of the type, which has the width, for each row, aligned as Arrow's own buffers are.
    Some(unsafe { array_of(array.data_type(), selection.len(), values, None) })
}

/// One output column while machine code writes it, and then as an array.
pub(crate) struct WrittenColumn {
    node: NodeId,
    values: MutableBuffer,
    width: usize,
    validity: Option<MutableBuffer>,
    array: Option<ArrayRef>,
}

/// Has machine code write columns, with what it has read.
fn write(call: &Call<'_>, code: &Loop, columns: &mut Vec<WrittenColumn>) -> Result<Rc<Bound>, KernelError> {
    let Effect::Write { outputs } = &code.effect else { unreachable!("the loop writes columns") };
    let bound = call.bind(code)?;
    let recipe = code.recipe(call.shared, bound.variant);
    columns.extend(outputs.iter().map(|&Written { node, .. }| {
        let width = output_width(&call.shared.graph, node);
        let validity = (!recipe.never_null(node)).then(|| MutableBuffer::with_capacity(call.count));
        let values = MutableBuffer::with_capacity(call.count * width);
        WrittenColumn { node, values, width, validity, array: None }
    }));
    let mut pointers = std::mem::take(&mut call.spare.borrow_mut().pointers);
    pointers.clear();
    pointers.extend(columns.iter_mut().map(|column| OutputPointer {
        values: column.values.as_mut_ptr(),
        validity: column.validity.as_mut().map_or(std::ptr::null_mut(), MutableBuffer::as_mut_ptr),
    }));
    let mut frame = call.frame(&bound, 0, call.count);
    frame.outputs = pointers.as_ptr();
    // SAFETY: there is an output for each written node, with room for a value of its width, and for a validity byte
    // where it can be NULL, at each position.
    unsafe { call.run(code, &bound, &mut frame)? };
    pointers.clear();
    call.spare.borrow_mut().pointers = pointers;
    for column in columns {
        // SAFETY: the loop has written a value at each position, and a validity byte where there is room for it.
        unsafe {
            column.values.set_len(call.count * column.width);
            if let Some(validity) = &mut column.validity {
                validity.set_len(call.count);
            }
        }
    }
    Ok(bound)
}

/// A decimal column of the digits of integers times a constant. All products fit: the planner has looked.
fn product(integers: &ArrayRef, factor: i64, data_type: &DataType) -> ArrayRef {
    let integers = integers.as_primitive::<Int64Type>();
    let products = multiply(Level::best(), integers.values(), factor);
    let decimals = Decimal128Array::new(products.into(), integers.nulls().cloned());
    Arc::new(decimals.with_data_type(data_type.clone()))
}

impl WrittenColumn {
    /// What was written.
    fn array(&mut self, call: &Call<'_>, bound: &Bound) -> ArrayRef {
        if self.array.is_none() {
            self.array = Some(self.finish(call, bound));
        }
        self.array.clone().expect("it was just made")
    }

    fn finish(&mut self, call: &Call<'_>, bound: &Bound) -> ArrayRef {
        let (graph, rows) = (&call.shared.graph, call.count);
        let node = graph.node(self.node);
        let nulls = self.validity.take().map(|bytes| NullBuffer::new(packed(&bytes)));
        if node.data_type == DataType::Boolean {
            return Arc::new(BooleanArray::new(packed(&self.values), nulls));
        }
        let values = std::mem::replace(&mut self.values, MutableBuffer::new(0));
        if node.bytes.is_none() {
            // SAFETY: the buffer holds a value of the type for each row, aligned as Arrow's own buffers are.
            return unsafe { array_of(&node.data_type, rows, values, nulls) };
        }
        let mut data = ArrayData::builder(node.data_type.clone()).len(rows).add_buffer(values.into()).nulls(nulls);
        data = match node.bytes {
            None | Some(Bytes::Inside) => data,
            Some(Bytes::Constant) => data.add_buffer(Buffer::from(graph.strings.as_slice())),
            Some(Bytes::Of(column)) => {
                data.add_buffers(call.read(bound, column).as_string_view().data_buffers().iter().cloned())
            }
        };
        // SAFETY: the buffer holds a value of the type for each row, aligned as Arrow's own buffers are; views are of strings that lie
        // inside them, or in the buffers just added, at the places where they name them.
        make_array(unsafe { data.build_unchecked() })
    }
}

/// An array of values of fixed width. The types that are common take no description of the array, which would be allocated beside it.
///
/// # Safety
/// The buffer must hold as many values of the type, aligned as Arrow's own buffers are.
pub(super) unsafe fn array_of(
    data_type: &DataType,
    rows: usize,
    values: MutableBuffer,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    let values = Buffer::from(values);
    macro_rules! array {
        ($type:ty) => {{
            let array = PrimitiveArray::<$type>::new(ScalarBuffer::new(values, 0, rows), nulls);
            Arc::new(array.with_data_type(data_type.clone()))
        }};
    }
    match data_type {
        DataType::Int32 => array!(Int32Type),
        DataType::Int64 => array!(Int64Type),
        DataType::Float64 => array!(Float64Type),
        DataType::Timestamp(TimeUnit::Millisecond, _) => array!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => array!(TimestampMicrosecondType),
        DataType::Decimal128(..) => array!(Decimal128Type),
        _ => {
            let data = ArrayData::builder(data_type.clone()).len(rows).add_buffer(values).nulls(nulls);
            // SAFETY: as the caller promises.
            make_array(unsafe { data.build_unchecked() })
        }
    }
}

/// Bits of bytes that are 0 or 1.
fn packed(bytes: &[u8]) -> BooleanBuffer {
    let mut bits = MutableBuffer::with_capacity(bytes.len().div_ceil(8));
    let (chunks, rest) = bytes.as_chunks::<8>();
    // One multiplication moves the lowest bit of byte `i` to bit `56 + i`.
    let pack = |chunk: [u8; 8]| (u64::from_le_bytes(chunk).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8;
    bits.extend(chunks.iter().map(|&chunk| pack(chunk)));
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        bits.push(pack(last));
    }
    BooleanBuffer::new(bits.into(), 0, bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_packed_in_order() {
        for length in [0, 1, 7, 8, 9, 64, 100] {
            let bytes: Vec<u8> = (0..length).map(|index| u8::from(index % 3 == 1 || index % 7 == 2)).collect();
            let bits: Vec<u8> = packed(&bytes).iter().map(u8::from).collect();
            assert_eq!(bits, bytes);
        }
    }
}
