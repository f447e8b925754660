//! Dictionary-coded strings: a predicate is decided once for each distinct value, then looked up by code.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    ArrowDictionaryKeyType, DataType, Int8Type, Int16Type, Int32Type, UInt8Type, UInt16Type, UInt32Type,
};

use pelton_state::vector::Level;

use super::level::at_level;
use super::mask::{WordBytes, clear_invalid, refine, word_of};
use super::range::{Range, refine_ranges};

/// Clears the bits of the rows `first..end` whose code is not in `set`, one bit a code, or that hold NULL.
///
/// # Panics
/// Where the array is not dictionary-coded, it or the mask is shorter than `end`, or a code is beyond the set.
pub(super) fn refine_codes(level: Level, array: &dyn Array, set: &[u64], first: usize, end: usize, mask: &mut [u64]) {
    let DataType::Dictionary(codes, _) = array.data_type() else { panic!("the column is not dictionary-coded") };
    match **codes {
        DataType::Int8 => refine_typed::<Int8Type, u8>(level, array, set, first, end, mask),
        DataType::UInt8 => refine_typed::<UInt8Type, u8>(level, array, set, first, end, mask),
        DataType::Int16 => refine_typed::<Int16Type, u16>(level, array, set, first, end, mask),
        DataType::UInt16 => refine_typed::<UInt16Type, u16>(level, array, set, first, end, mask),
        DataType::Int32 => refine_typed::<Int32Type, u32>(level, array, set, first, end, mask),
        DataType::UInt32 => refine_typed::<UInt32Type, u32>(level, array, set, first, end, mask),
        ref other => panic!("no block holds dictionary codes of type {other}"),
    }
    // The code of a NULL means nothing.
    clear_invalid(array, first, end, mask);
}

/// `Code` is the unsigned integer as wide as `K`'s: codes are not negative.
fn refine_typed<K: ArrowDictionaryKeyType, Code: Unsigned>(
    level: Level,
    array: &dyn Array,
    set: &[u64],
    first: usize,
    end: usize,
    mask: &mut [u64],
) {
    let codes = array.as_dictionary::<K>().keys().values();
    assert!(end <= codes.len() && end <= mask.len() * 64);
    debug_assert_eq!(size_of::<K::Native>(), size_of::<Code>());
    if let Some((low, span)) = run(set) {
        let range = Range { low: Code::from_code(low), span: Code::from_code(span) };
        let codes = codes.as_ptr().cast();
        // SAFETY: there are at least `end` codes, of this width.
        return unsafe { refine_ranges::<Code, false>(level, codes, &[range], false, (first, end), mask) };
    }
    // SAFETY: both are integers of the same width, and a code is not negative.
    let codes: &[Code] = unsafe { std::slice::from_raw_parts(codes.as_ptr().cast(), codes.len()) };
    at_level!(level, refine_set::<Code: Unsigned>(codes: &[Code], set: &[u64], first: usize, end: usize, mask: &mut [u64]));
}

/// An unsigned integer that a code may be.
trait Unsigned: super::range::Bits {
    fn from_code(code: usize) -> Self;
    fn code(self) -> usize;
}

macro_rules! unsigned {
    ($($type:ty)*) => {
        $(impl Unsigned for $type {
            fn from_code(code: usize) -> $type {
                // A set may have bits beyond the largest code, which no row has.
                <$type>::try_from(code).unwrap_or(<$type>::MAX)
            }

            #[inline(always)]
            fn code(self) -> usize {
                self as usize
            }
        })*
    };
}

unsigned!(u8 u16 u32);

/// The first code of a set and the distance to the last, where all between are in it.
fn run(set: &[u64]) -> Option<(usize, usize)> {
    let count: usize = set.iter().map(|word| word.count_ones() as usize).sum();
    let first = set.iter().position(|&word| word != 0)?;
    let low = first * 64 + set[first].trailing_zeros() as usize;
    let last = low + count - 1;
    let contains = |code: usize| set.get(code / 64).is_some_and(|word| word >> (code % 64) & 1 == 1);
    (low..=last).all(contains).then_some((low, count - 1))
}

#[inline(always)]
fn refine_set<Code: Unsigned>(codes: &[Code], set: &[u64], first: usize, end: usize, mask: &mut [u64]) {
    // NULLs may have any code: what is beyond the set is in no set.
    let contains = |code: Code| {
        let code = code.code();
        set.get(code / 64).is_some_and(|word| word >> (code % 64) & 1 == 1)
    };
    let full = |start: usize, bits: &mut WordBytes| {
        let codes = &codes[start..start + 64];
        *bits = word_of(|row| contains(codes[row]));
    };
    refine(mask, first, end, 0, full, |row| contains(codes[row]));
}
