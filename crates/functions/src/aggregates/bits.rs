//! BIT_AND, BIT_OR and BIT_XOR of integers.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int8Type, Int16Type, Int32Type, Int64Type};
use pelton_data::udaf::{Change, Definition, Merging};

use super::{restored_words, saved_words};

/// How bits are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BitOperation {
    And,
    Or,
    Xor,
}

/// A function of integers of one type, which its values have as well.
#[derive(Debug)]
pub(super) struct Bits {
    pub operation: BitOperation,
    pub data_type: DataType,
}

/// The bits of the values so far, and how many values there are.
#[derive(Debug, Clone, Copy)]
pub(super) struct BitState {
    bits: i64,
    count: i64,
}

impl BitOperation {
    pub const ALL: [BitOperation; 3] = [BitOperation::And, BitOperation::Or, BitOperation::Xor];

    fn combine(self, a: i64, b: i64) -> i64 {
        match self {
            BitOperation::And => a & b,
            BitOperation::Or => a | b,
            BitOperation::Xor => a ^ b,
        }
    }

    /// The bits of no values, which change no others.
    fn neutral(self) -> i64 {
        if self == BitOperation::And { -1 } else { 0 }
    }
}

impl BitState {
    fn add<T: ArrowPrimitiveType<Native: Into<i64>>>(&mut self, operation: BitOperation, values: &ArrayRef) {
        for value in values.as_primitive::<T>().iter().flatten() {
            self.bits = operation.combine(self.bits, value.into());
            self.count += 1;
        }
    }
}

impl Definition for Bits {
    type State = BitState;

    fn name(&self) -> &str {
        match self.operation {
            BitOperation::And => "bit_and",
            BitOperation::Or => "bit_or",
            BitOperation::Xor => "bit_xor",
        }
    }

    fn merging(&self) -> Merging {
        // Combining the same bits once more takes them away.
        if self.operation == BitOperation::Xor { Merging::Invert } else { Merging::Combine }
    }

    fn saved_type(&self) -> Option<&DataType> {
        Some(&DataType::Binary)
    }

    fn initial(&self) -> Result<BitState, String> {
        Ok(BitState { bits: self.operation.neutral(), count: 0 })
    }

    fn accumulate(&self, state: &mut BitState, arguments: &[ArrayRef]) -> Result<(), String> {
        let (operation, values) = (self.operation, &arguments[0]);
        match values.data_type() {
            DataType::Int8 => state.add::<Int8Type>(operation, values),
            DataType::Int16 => state.add::<Int16Type>(operation, values),
            DataType::Int32 => state.add::<Int32Type>(operation, values),
            DataType::Int64 => state.add::<Int64Type>(operation, values),
            other => return Err(format!("its argument is {other} and not an integer")),
        }
        Ok(())
    }

    fn merge(
        &self,
        states: &mut [BitState],
        others: &[BitState],
        pairs: &[(u32, u32)],
        change: Change,
    ) -> Result<(), String> {
        for &(from, to) in pairs {
            let (state, other) = (&mut states[to as usize], &others[from as usize]);
            state.bits = self.operation.combine(state.bits, other.bits);
            state.count += if change == Change::Add { other.count } else { -other.count };
        }
        Ok(())
    }

    fn save(&self, states: &[&BitState]) -> Result<ArrayRef, String> {
        Ok(saved_words(states.iter().map(|state| [state.bits as u64, state.count as u64])))
    }

    fn restore(&self, saved: &ArrayRef) -> Result<Vec<BitState>, String> {
        let states = restored_words(saved)?.into_iter();
        Ok(states.map(|[bits, count]| BitState { bits: bits as i64, count: count as i64 }).collect())
    }

    fn finish(&self, states: &[&BitState]) -> Result<ArrayRef, String> {
        let values = states.iter().map(|state| (state.count > 0).then_some(state.bits));
        let values: ArrayRef = Arc::new(values.collect::<Int64Array>());
        // Operations on bits leave the sign's copies in the upper bits as they are in the type.
        cast(&values, &self.data_type).map_err(|error| error.to_string())
    }
}
