//! Two columns compared, row by row.

use arrow::array::{Array, AsArray};
use arrow::datatypes::DataType;
use pelton_data::column::values_ptr;

use pelton_state::vector::Level;

use super::level::at_level;
use super::mask::{WordBytes, clear_invalid, refine, refine_each, word_of};
use super::range::{ordered_f32, ordered_f64};
use super::selector::Comparison;

/// Clears the bits of the rows `first..end` for which `left comparison right` is not true. `false` where primitives do not compare
/// columns of these types: the mask is as it was.
///
/// # Panics
/// Where a column or the mask is shorter than `end`.
pub fn compare_columns(
    level: Level,
    comparison: Comparison,
    left: &dyn Array,
    right: &dyn Array,
    first: usize,
    end: usize,
    mask: &mut [u64],
) -> bool {
    assert!(end <= left.len() && end <= right.len() && end <= mask.len() * 64);
    if left.data_type() != right.data_type() {
        return false;
    }
    // `>` and `>=` are `<` and `<=` the other way round; `>=` is not `<`.
    let (left, right, comparison) = match comparison {
        Comparison::Greater => (right, left, Comparison::Less),
        Comparison::LessOrEqual => (right, left, Comparison::GreaterOrEqual),
        other => (left, right, other),
    };
    let rows = RowRange { first, end };
    let test = match comparison {
        Comparison::Equal => Test { less: false, negate: false },
        Comparison::NotEqual => Test { less: false, negate: true },
        Comparison::Less => Test { less: true, negate: false },
        _ => Test { less: true, negate: true },
    };
    if !compare_typed(level, test, left, right, rows, mask) {
        return false;
    }
    clear_invalid(left, first, end, mask);
    clear_invalid(right, first, end, mask);
    true
}

#[derive(Clone, Copy)]
struct RowRange {
    first: usize,
    end: usize,
}

/// Less or equal, or not so.
#[derive(Clone, Copy)]
struct Test {
    less: bool,
    negate: bool,
}

fn compare_typed(
    level: Level,
    test: Test,
    left: &dyn Array,
    right: &dyn Array,
    rows: RowRange,
    mask: &mut [u64],
) -> bool {
    use DataType::*;
    macro_rules! compare {
        ($type:ty) => {{
            // SAFETY: values of the type just matched are laid out as this type, and both arrays have at least `end`.
            let (left, right) = unsafe { (values::<$type>(left), values::<$type>(right)) };
            compare_values(level, test, left, right, rows, mask)
        }};
    }
    match left.data_type() {
        Int8 => compare!(i8),
        Int16 => compare!(i16),
        Int32 | Date32 | Time32(_) => compare!(i32),
        Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) => compare!(i64),
        UInt8 => compare!(u8),
        UInt16 => compare!(u16),
        UInt32 => compare!(u32),
        UInt64 => compare!(u64),
        Float32 => compare!(f32),
        Float64 => compare!(f64),
        Decimal128(..) => compare!(i128),
        Boolean => {
            let (left, right) = (left.as_boolean(), right.as_boolean());
            let one = |row: usize| test.holds(&left.value(row), &right.value(row));
            refine_each(mask, rows.first, rows.end, one);
        }
        Utf8View => {
            let (left, right) = (left.as_string_view(), right.as_string_view());
            let valid = |row: usize| left.is_valid(row) && right.is_valid(row);
            refine_each(mask, rows.first, rows.end, |row| valid(row) && test.holds(left.value(row), right.value(row)));
        }
        _ => return false,
    }
    true
}

impl Test {
    fn holds<T: Ord + ?Sized>(self, left: &T, right: &T) -> bool {
        (if self.less { left < right } else { left == right }) != self.negate
    }
}

/// The values of an array.
///
/// # Safety
/// They must be laid out as values of type `T`.
unsafe fn values<T>(array: &dyn Array) -> &[T] {
    // SAFETY: the caller's promise; an array has as many values as its length, and is borrowed.
    unsafe { std::slice::from_raw_parts(values_ptr(array).cast(), array.len()) }
}

/// Values that order as something the processor compares.
trait Ordered: Copy {
    type Key: Ord;
    fn key(self) -> Self::Key;
}

macro_rules! ordered {
    ($($type:ty => $key:ty, |$value:ident| $make:expr;)*) => {
        $(impl Ordered for $type {
            type Key = $key;
            #[inline(always)]
            fn key(self) -> $key {
                let $value = self;
                $make
            }
        })*
    };
}

ordered! {
    i8 => i8, |value| value;
    i16 => i16, |value| value;
    i32 => i32, |value| value;
    i64 => i64, |value| value;
    i128 => i128, |value| value;
    u8 => u8, |value| value;
    u16 => u16, |value| value;
    u32 => u32, |value| value;
    u64 => u64, |value| value;
    // The zeros are equal: in total order -0.0 is next to 0.0.
    f32 => i32, |value| { let key = ordered_f32(value); key + i32::from(key == -1) };
    f64 => i64, |value| { let key = ordered_f64(value); key + i64::from(key == -1) };
}

fn compare_values<T: Ordered>(level: Level, test: Test, left: &[T], right: &[T], rows: RowRange, mask: &mut [u64]) {
    let negate = test.negate;
    if test.less {
        at_level!(level, refine_less::<T: Ordered>(left: &[T], right: &[T], rows: RowRange, negate: bool, mask: &mut [u64]));
    } else {
        at_level!(level, refine_equal::<T: Ordered>(left: &[T], right: &[T], rows: RowRange, negate: bool, mask: &mut [u64]));
    }
}

#[inline(always)]
fn refine_less<T: Ordered>(left: &[T], right: &[T], rows: RowRange, negate: bool, mask: &mut [u64]) {
    refine_pairs(left, right, rows, negate, mask, |left, right| left.key() < right.key());
}

#[inline(always)]
fn refine_equal<T: Ordered>(left: &[T], right: &[T], rows: RowRange, negate: bool, mask: &mut [u64]) {
    refine_pairs(left, right, rows, negate, mask, |left, right| left.key() == right.key());
}

#[inline(always)]
fn refine_pairs<T: Copy>(
    left: &[T],
    right: &[T],
    rows: RowRange,
    negate: bool,
    mask: &mut [u64],
    holds: impl Fn(T, T) -> bool,
) {
    let flip = if negate { u64::MAX } else { 0 };
    let full = |start: usize, bits: &mut WordBytes| {
        let (left, right) = (&left[start..start + 64], &right[start..start + 64]);
        *bits = word_of(|row| holds(left[row], right[row]));
    };
    refine(mask, rows.first, rows.end, flip, full, |row| holds(left[row], right[row]) != negate);
}
