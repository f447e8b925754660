//! Columns of the rows that are alive, as Arrow arrays.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::ArrayData;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer};
use arrow::datatypes::{DataType, Int64Type};
use pelton_data::abi::OutputPointer;
use pelton_state::kernel::KernelError;

use super::call::{Bound, Call, Loop, Shared};
use super::multiply::multiply;
use crate::interpret::expression::Expression;
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

    /// The columns. There is at least one row.
    ///
    /// # Errors
    /// Where an expression fails.
    pub(crate) fn evaluate(&self, call: &Call<'_>) -> Result<Vec<ArrayRef>, KernelError> {
        let written = match &self.code {
            Some(code) => write(call, code)?,
            None => Vec::new(),
        };
        let mut rows = None;
        let column = |projected: &Projected| match projected {
            Projected::Plain(column) => Ok(rows.get_or_insert_with(|| call.rows()).column(*column)),
            Projected::Written(index) => Ok(written[*index].clone()),
            Projected::Product { node, column, factor } => {
                let integers = rows.get_or_insert_with(|| call.rows()).column(*column);
                Ok(product(&integers, *factor, &call.shared.graph.node(*node).data_type))
            }
            Projected::Computed(index) => call.computed(*index, &mut rows),
            Projected::Interpreted(expression) => expression.evaluate_array(rows.get_or_insert_with(|| call.rows())),
        };
        self.columns.iter().map(column).collect()
    }
}

/// One output column while machine code writes it.
struct Column {
    node: NodeId,
    values: MutableBuffer,
    width: usize,
    validity: Option<MutableBuffer>,
}

fn write(call: &Call<'_>, code: &Loop) -> Result<Vec<ArrayRef>, KernelError> {
    let Effect::Write { outputs } = &code.effect else { unreachable!("the loop writes columns") };
    let bound = call.bind(code)?;
    let recipe = code.recipe(call.shared, bound.variant);
    let mut columns: Vec<Column> = outputs
        .iter()
        .map(|&Written { node, .. }| {
            let width = output_width(&call.shared.graph, node);
            let validity = (!recipe.never_null(node)).then(|| MutableBuffer::with_capacity(call.count));
            Column { node, values: MutableBuffer::with_capacity(call.count * width), width, validity }
        })
        .collect();
    let pointers: Vec<OutputPointer> = columns
        .iter_mut()
        .map(|column| OutputPointer {
            values: column.values.as_mut_ptr(),
            validity: column.validity.as_mut().map_or(std::ptr::null_mut(), MutableBuffer::as_mut_ptr),
        })
        .collect();
    let mut frame = call.frame(&bound, 0, call.count);
    frame.outputs = pointers.as_ptr();
    // SAFETY: there is an output for each written node, with room for a value of its width, and for a validity byte
    // where it can be NULL, at each position.
    unsafe { call.run(code, &bound, &mut frame)? };
    for column in &mut columns {
        // SAFETY: the loop has written a value at each position, and a validity byte where there is room for it.
        unsafe {
            column.values.set_len(call.count * column.width);
            if let Some(validity) = &mut column.validity {
                validity.set_len(call.count);
            }
        }
    }
    Ok(columns.into_iter().map(|column| column.finish(call.shared, &bound, call.count)).collect())
}

/// A decimal column of the digits of integers times a constant. All products fit: the planner has looked.
fn product(integers: &ArrayRef, factor: i64, data_type: &DataType) -> ArrayRef {
    let integers = integers.as_primitive::<Int64Type>();
    let products = multiply(Level::best(), integers.values(), factor);
    let decimals = Decimal128Array::new(products.into(), integers.nulls().cloned());
    Arc::new(decimals.with_data_type(data_type.clone()))
}

impl Column {
    fn finish(self, shared: &Shared, bound: &Bound, rows: usize) -> ArrayRef {
        let node = shared.graph.node(self.node);
        let nulls = self.validity.map(|bytes| NullBuffer::new(packed(&bytes)));
        if node.data_type == DataType::Boolean {
            return Arc::new(BooleanArray::new(packed(&self.values), nulls));
        }
        let mut data = ArrayData::builder(node.data_type.clone()).len(rows).add_buffer(self.values.into()).nulls(nulls);
        data = match node.bytes {
            None | Some(Bytes::Inside) => data,
            Some(Bytes::Constant) => data.add_buffer(Buffer::from(shared.graph.strings.as_slice())),
            Some(Bytes::Of(column)) => {
                data.add_buffers(bound.array(column).as_string_view().data_buffers().iter().cloned())
            }
        };
        // SAFETY: the buffer holds a value of the type for each row, aligned as Arrow's own buffers are; views are of strings that lie
        // inside them, or in the buffers just added, at the places where they name them.
        make_array(unsafe { data.build_unchecked() })
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
