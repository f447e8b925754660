//! Predicates over rows that are listed: a few of a block.
//!
//! Looking at 64 rows at a time is lost on a block of which few rows are left: their values alone are looked at then.

use arrow::array::{Array, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::*;

use super::range::{Bits, Range};
use super::selector::{Kind, Selector, Test, set_of_codes};
use super::strings::bytes;

/// What a row takes whose value is a number, a string, a code, in nanoseconds, about.
const NUMBER_ROW_NS: f64 = 1.0;
const STRING_ROW_NS: f64 = 4.0;
const CODE_ROW_NS: f64 = 1.5;

/// What 64 rows take for each byte that a value has, in nanoseconds, about.
const WORD_NS_PER_BYTE: f64 = 0.8;

impl Selector {
    /// Keeps those of `rows` for which the predicate is true, in their order.
    ///
    /// # Panics
    /// Where the array is not of the selector's type, or has not all of the rows.
    pub fn keep(&self, array: &dyn Array, rows: &mut Vec<u32>) {
        // A NULL passes nothing but a test for it.
        if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0)
            && !matches!(self.test, Test::Null(_))
        {
            keep(rows, |row| nulls.is_valid(row));
        }
        match &self.test {
            Test::Ranges { kind, ranges, negate } => keep_numbers(array, *kind, ranges, *negate, rows),
            Test::Residue32 { residue, negate } => {
                let values = array.as_primitive::<Int32Type>().values();
                keep(rows, |row| residue.has(values[row] as u32) != *negate);
            }
            Test::Residue64 { residue, negate } => {
                let values = array.as_primitive::<Int64Type>().values();
                keep(rows, |row| residue.has(values[row] as u64) != *negate);
            }
            Test::Wide { low, high, negate } => {
                let values = array.as_primitive::<Decimal128Type>().values();
                keep(rows, |row| (*low..=*high).contains(&values[row]) != *negate);
            }
            Test::Boolean(value) => {
                let values = array.as_boolean().values();
                keep(rows, |row| values.value(row) == *value);
            }
            Test::Strings(test) => match array.data_type() {
                DataType::Utf8View => {
                    let strings = array.as_string_view();
                    keep(rows, |row| test.holds(bytes(strings, row)));
                }
                DataType::BinaryView => {
                    let strings = array.as_binary_view();
                    keep(rows, |row| test.holds(bytes(strings, row)));
                }
                _ => keep_codes(array, &set_of_codes(array, test), rows),
            },
            Test::Null(is_null) => match array.logical_nulls() {
                Some(nulls) => keep(rows, |row| nulls.is_null(row) == *is_null),
                None if *is_null => rows.clear(),
                None => {}
            },
            Test::Never => rows.clear(),
        }
    }

    /// What 64 rows side by side take, and what a row takes that is listed, in nanoseconds, about, for a column of `data_type`.
    pub(crate) fn cost_ns(&self, data_type: &DataType) -> (f64, f64) {
        let width = data_type.primitive_width().unwrap_or(1) as f64;
        match &self.test {
            Test::Ranges { ranges, .. } => {
                (WORD_NS_PER_BYTE * width * ranges.len().max(1) as f64, NUMBER_ROW_NS * ranges.len().max(1) as f64)
            }
            Test::Residue32 { .. } | Test::Residue64 { .. } => (2.0 * WORD_NS_PER_BYTE * width, NUMBER_ROW_NS),
            Test::Wide { .. } => (64.0 * NUMBER_ROW_NS, NUMBER_ROW_NS),
            Test::Strings(_) => match data_type {
                DataType::Dictionary(code, _) => {
                    (WORD_NS_PER_BYTE * code.primitive_width().unwrap_or(1) as f64, CODE_ROW_NS)
                }
                _ => (64.0 * STRING_ROW_NS, STRING_ROW_NS),
            },
            Test::Boolean(_) | Test::Null(_) | Test::Never => (WORD_NS_PER_BYTE / 8.0, NUMBER_ROW_NS),
        }
    }
}

/// Keeps the rows that pass, without a branch for each.
#[inline(always)]
fn keep(rows: &mut Vec<u32>, passes: impl Fn(usize) -> bool) {
    let mut kept = 0;
    for index in 0..rows.len() {
        let row = rows[index];
        rows[kept] = row;
        kept += usize::from(passes(row as usize));
    }
    rows.truncate(kept);
}

fn keep_numbers(array: &dyn Array, kind: Kind, ranges: &[(i128, i128)], negate: bool, rows: &mut Vec<u32>) {
    /// The values of an array of any type that has this width.
    fn values<T: Copy>(array: &dyn Array) -> &[T] {
        assert_eq!(array.data_type().primitive_width(), Some(size_of::<T>()), "a selector is for columns of one type");
        // SAFETY: the array has as many values, of this width, and any bits are a value of `T`, which is an integer.
        unsafe { std::slice::from_raw_parts(pelton_data::column::values_ptr(array).cast(), array.len()) }
    }
    fn among<T: Bits, const FLOAT: bool>(values: &[T], ranges: &[Range<T>], negate: bool, rows: &mut Vec<u32>) {
        match *ranges {
            // Apart, so that the bounds of the only range stay in registers.
            [range] => keep(rows, |row| T::within::<FLOAT>(values[row], range) != negate),
            _ => keep(rows, |row| ranges.iter().any(|&range| T::within::<FLOAT>(values[row], range)) != negate),
        }
    }
    macro_rules! among {
        ($type:ty, $float:literal) => {{
            let range = |&(low, high): &(i128, i128)| Range { low: low as $type, span: (high - low) as $type };
            let ranges: Vec<Range<$type>> = ranges.iter().map(range).collect();
            among::<$type, $float>(values(array), &ranges, negate, rows)
        }};
    }
    match kind {
        Kind::Signed(1) | Kind::Unsigned(1) => among!(u8, false),
        Kind::Signed(2) | Kind::Unsigned(2) => among!(u16, false),
        Kind::Signed(4) | Kind::Unsigned(4) => among!(u32, false),
        Kind::Signed(_) | Kind::Unsigned(_) => among!(u64, false),
        Kind::Float(4) => among!(u32, true),
        Kind::Float(_) => among!(u64, true),
    }
}

/// Keeps rows whose code is in `set`, one bit a code. Codes of NULLs were left out before.
fn keep_codes(array: &dyn Array, set: &[u64], rows: &mut Vec<u32>) {
    fn typed<K: ArrowDictionaryKeyType + ArrowPrimitiveType>(
        array: &dyn Array,
        set: &[u64],
        rows: &mut Vec<u32>,
        code: impl Fn(K::Native) -> usize,
    ) {
        let codes: &PrimitiveArray<K> = array.as_dictionary::<K>().keys();
        let values = codes.values();
        keep(rows, |row| {
            let code = code(values[row]);
            set.get(code / 64).is_some_and(|word| word >> (code % 64) & 1 == 1)
        });
    }
    let DataType::Dictionary(codes, _) = array.data_type() else { panic!("the column is not dictionary-coded") };
    match **codes {
        DataType::Int8 => typed::<Int8Type>(array, set, rows, |code| code as usize),
        DataType::UInt8 => typed::<UInt8Type>(array, set, rows, usize::from),
        DataType::Int16 => typed::<Int16Type>(array, set, rows, |code| code as usize),
        DataType::UInt16 => typed::<UInt16Type>(array, set, rows, usize::from),
        DataType::Int32 => typed::<Int32Type>(array, set, rows, |code| code as usize),
        DataType::UInt32 => typed::<UInt32Type>(array, set, rows, |code| code as usize),
        ref other => panic!("no block holds dictionary codes of type {other}"),
    }
}
