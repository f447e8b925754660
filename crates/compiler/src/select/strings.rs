//! Strings against constants.

use arrow::array::GenericByteViewArray;
use arrow::datatypes::ByteViewType;

use pelton_data::column::VIEW_INLINE_LENGTH_MAX;

use pelton_state::vector::Level;

use super::level::at_level;
use super::mask::{WordBytes, clear_invalid, refine, refine_each, word_of};
use super::selector::Comparison;

/// What a string is tested for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StringTest {
    /// How it compares with a constant, byte by byte.
    Compare(Comparison, Vec<u8>),
    /// Whether it begins with a constant (`LIKE 'abc%'`), or with `negate` does not.
    Prefix { prefix: Vec<u8>, negate: bool },
}

impl StringTest {
    /// Whether a string passes.
    pub(super) fn holds(&self, value: &[u8]) -> bool {
        match self {
            StringTest::Compare(comparison, constant) => comparison.holds(value.cmp(constant.as_slice())),
            StringTest::Prefix { prefix, negate } => value.starts_with(prefix) != *negate,
        }
    }
}

/// Clears the bits of the rows `first..end` whose string does not pass, or is NULL.
pub(super) fn refine_strings<T: ByteViewType>(
    level: Level,
    array: &GenericByteViewArray<T>,
    test: &StringTest,
    first: usize,
    end: usize,
    mask: &mut [u64],
) {
    // First, so that only values that are there are looked at: a NULL's view may lead nowhere.
    clear_invalid(array, first, end, mask);
    let views: &[u128] = array.views();
    match test {
        StringTest::Compare(comparison @ (Comparison::Equal | Comparison::NotEqual), constant) => {
            let wanted = *comparison == Comparison::Equal;
            if constant.len() <= VIEW_INLINE_LENGTH_MAX as usize {
                let view = inline_view(constant);
                at_level!(level, refine_inline(views: &[u128], view: u128, wanted: bool, first: usize, end: usize, mask: &mut [u64]));
            } else {
                // Length and prefix decide nearly always.
                let head = head(constant);
                refine_each(mask, first, end, |row| {
                    let equal = views[row] as u64 == head && bytes(array, row) == constant.as_slice();
                    equal == wanted
                });
            }
        }
        StringTest::Prefix { prefix, negate } if prefix.len() <= 4 => {
            // The first four bytes of every string lie in its view, zeros where there are fewer.
            let shift = 8 * (4 - prefix.len());
            let kept = if prefix.is_empty() { 0 } else { (u32::MAX >> shift) as u64 };
            let prefix = Prefix { bytes: head(prefix) >> 32, kept, length: prefix.len() as u32, negate: *negate };
            at_level!(level, refine_prefix(views: &[u128], prefix: Prefix, first: usize, end: usize, mask: &mut [u64]));
        }
        test => refine_each(mask, first, end, |row| test.holds(bytes(array, row))),
    }
}

#[inline(always)]
fn refine_inline(views: &[u128], view: u128, wanted: bool, first: usize, end: usize, mask: &mut [u64]) {
    let full = |start: usize, bits: &mut WordBytes| {
        let views = &views[start..start + 64];
        *bits = word_of(|row| (views[row] == view) == wanted);
    };
    refine(mask, first, end, 0, full, |row| (views[row] == view) == wanted);
}

#[derive(Clone, Copy)]
struct Prefix {
    bytes: u64,
    kept: u64,
    length: u32,
    negate: bool,
}

#[inline(always)]
fn refine_prefix(views: &[u128], prefix: Prefix, first: usize, end: usize, mask: &mut [u64]) {
    let starts = |view: u128| {
        let starts = (view as u64 >> 32 ^ prefix.bytes) & prefix.kept == 0 && view as u32 >= prefix.length;
        starts != prefix.negate
    };
    let full = |start: usize, bits: &mut WordBytes| {
        let views = &views[start..start + 64];
        *bits = word_of(|row| starts(views[row]));
    };
    refine(mask, first, end, 0, full, |row| starts(views[row]));
}

pub(super) fn bytes<T: ByteViewType>(array: &GenericByteViewArray<T>, row: usize) -> &[u8] {
    array.value(row).as_ref()
}

/// The view of a string that lies inside it.
fn inline_view(bytes: &[u8]) -> u128 {
    let mut view = [0; 16];
    view[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    view[4..4 + bytes.len()].copy_from_slice(bytes);
    u128::from_le_bytes(view)
}

/// Length and first four bytes, as the lower half of a view has them.
fn head(bytes: &[u8]) -> u64 {
    let mut head = [0; 8];
    head[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    let shown = bytes.len().min(4);
    head[4..4 + shown].copy_from_slice(&bytes[..shown]);
    u64::from_le_bytes(head)
}
