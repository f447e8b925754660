//! MIN and MAX of values that are not strings. Floating-point values are in total order: NaN is the largest.

use std::fmt::Debug;
use std::marker::PhantomData;

use arrow::array::ArrowNativeTypeOp;
use arrow::datatypes::{ArrowNativeType, ArrowPrimitiveType, DataType, Float16Type, ToByteSlice};

use super::{Aggregate, STATE_BYTES_MAX, Takes, Visitor};

/// Whether a value comes before another, of floating-point values in total order.
///
/// Integers are compared as they are: that becomes vector instructions, which a comparison of three outcomes does not. Of floating-point values the last
/// one is a NaN, which has no order beside itself; so the compiler knows for each type which of the two it is.
#[inline(always)]
fn is_less<V: ArrowNativeTypeOp>(one: V, other: V) -> bool {
    let is_total = V::MAX_TOTAL_ORDER.partial_cmp(&V::MAX_TOTAL_ORDER).is_some();
    if is_total { one < other } else { one.is_lt(other) }
}

/// The smallest value: at first the largest that there is.
#[derive(Debug)]
pub struct Minimum<V>(PhantomData<V>);

/// The largest value: at first the smallest that there is.
#[derive(Debug)]
pub struct Maximum<V>(PhantomData<V>);

impl<V: ArrowNativeTypeOp> Aggregate for Minimum<V> {
    type State = V;

    const EMPTY: V = V::MAX_TOTAL_ORDER;

    fn empty_bytes() -> [u8; STATE_BYTES_MAX] {
        bytes_of(Self::EMPTY)
    }

    const IS_EXACT: bool = true;

    const IS_INVERTIBLE: bool = false;

    #[inline(always)]
    fn combine(older: V, younger: V) -> V {
        if is_less(younger, older) { younger } else { older }
    }
}

impl<V: ArrowNativeTypeOp> Takes<V> for Minimum<V> {
    #[inline(always)]
    fn of(value: V) -> V {
        value
    }
}

impl<V: ArrowNativeTypeOp> Aggregate for Maximum<V> {
    type State = V;

    const EMPTY: V = V::MIN_TOTAL_ORDER;

    fn empty_bytes() -> [u8; STATE_BYTES_MAX] {
        bytes_of(Self::EMPTY)
    }

    const IS_EXACT: bool = true;

    const IS_INVERTIBLE: bool = false;

    #[inline(always)]
    fn combine(older: V, younger: V) -> V {
        if is_less(older, younger) { younger } else { older }
    }
}

impl<V: ArrowNativeTypeOp> Takes<V> for Maximum<V> {
    #[inline(always)]
    fn of(value: V) -> V {
        value
    }
}

/// Whether all of some booleans are true, each a byte.
#[derive(Debug)]
struct All;

impl Aggregate for All {
    type State = u8;

    const EMPTY: u8 = 1;

    fn empty_bytes() -> [u8; STATE_BYTES_MAX] {
        bytes_of(Self::EMPTY)
    }

    const IS_EXACT: bool = true;

    const IS_INVERTIBLE: bool = false;

    #[inline]
    fn combine(older: u8, younger: u8) -> u8 {
        older.min(younger)
    }
}

/// The bytes of a value, then zeros.
fn bytes_of<V: ArrowNativeType>(value: V) -> [u8; STATE_BYTES_MAX] {
    let mut bytes = [0; STATE_BYTES_MAX];
    bytes[..size_of::<V>()].copy_from_slice([value].to_byte_slice());
    bytes
}

/// Hands the type that holds values of an SQL type to an expression; `None` where that is a string.
macro_rules! with_native {
    ($data_type:expr, $visitor:ident, $aggregate:ident) => {{
        use DataType::{BinaryView, Boolean, Float16, Float32, Float64, UInt8, UInt16, UInt32, UInt64, Utf8View};
        match ($data_type, $data_type.primitive_width()) {
            (Utf8View | BinaryView, _) => None,
            (Float64, _) => Some($visitor.visit::<$aggregate<f64>>()),
            (Float32, _) => Some($visitor.visit::<$aggregate<f32>>()),
            (Float16, _) => Some($visitor.visit::<$aggregate<<Float16Type as ArrowPrimitiveType>::Native>>()),
            (Boolean | UInt8, _) => Some($visitor.visit::<$aggregate<u8>>()),
            (UInt16, _) => Some($visitor.visit::<$aggregate<u16>>()),
            (UInt32, _) => Some($visitor.visit::<$aggregate<u32>>()),
            (UInt64, _) => Some($visitor.visit::<$aggregate<u64>>()),
            (_, Some(1)) => Some($visitor.visit::<$aggregate<i8>>()),
            (_, Some(2)) => Some($visitor.visit::<$aggregate<i16>>()),
            (_, Some(4)) => Some($visitor.visit::<$aggregate<i32>>()),
            (_, Some(8)) => Some($visitor.visit::<$aggregate<i64>>()),
            (_, Some(16)) => Some($visitor.visit::<$aggregate<i128>>()),
            (other, _) => unreachable!("no accumulator holds an extreme of type {other}"),
        }
    }};
}

/// Hands the minimum of values of a type to a visitor; `None` of strings.
pub(super) fn visit_minimum<R: Visitor>(data_type: &DataType, visitor: R) -> Option<R::Output> {
    if *data_type == DataType::Boolean {
        return Some(visitor.visit::<All>());
    }
    with_native!(data_type, visitor, Minimum)
}

/// The same of the maximum.
pub(super) fn visit_maximum<R: Visitor>(data_type: &DataType, visitor: R) -> Option<R::Output> {
    with_native!(data_type, visitor, Maximum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nan_is_the_largest_and_zeros_differ() {
        let nan = f64::NAN;
        assert!(Maximum::combine(1.0, nan).is_nan() && Maximum::combine(nan, 1.0).is_nan());
        assert_eq!((Minimum::combine(1.0, nan), Minimum::combine(nan, 1.0)), (1.0, 1.0));
        assert!(
            Minimum::combine(0.0, -0.0_f64).is_sign_negative() && Maximum::combine(-0.0, 0.0_f64).is_sign_positive()
        );
        assert!(Minimum::combine(nan, -nan).is_sign_negative());
        assert_eq!((Minimum::combine(3_i64, -7), Maximum::combine(3_u8, 200)), (-7, 200));
        let all = |value| Minimum::combine(Minimum::<i128>::EMPTY, value);
        assert_eq!(
            (all(i128::MAX), all(0), Maximum::combine(Maximum::<i32>::EMPTY, i32::MIN)),
            (i128::MAX, 0, i32::MIN)
        );
    }
}
