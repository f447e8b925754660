//! A predicate over one column, ready to run on any block.

use std::cmp::Ordering;

use arrow::array::{Array, AsArray, StringViewArray};
use arrow::datatypes::{DataType, Decimal128Type};
use datafusion_common::ScalarValue;
use pelton_data::column::values_ptr;

use super::codes::refine_codes;
use super::mask::{clear_invalid, refine_by_bits, refine_each, words};
use super::multiple::{Residue, Word, refine_residue};
use super::range::{Range, ordered_f32, ordered_f64, refine_ranges};
use super::strings::{StringTest, refine_strings};
use pelton_state::vector::Level;

/// How two values compare. Floats are in total order, but zeros are equal whatever their sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Comparison {
    /// The same comparison with its sides exchanged.
    pub fn exchanged(self) -> Comparison {
        match self {
            Comparison::Equal | Comparison::NotEqual => self,
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        }
    }

    /// Whether the comparison is true of values in this order.
    pub fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// A predicate over one column that primitives know.
#[derive(Debug, Clone, PartialEq)]
pub struct Selector {
    pub(super) test: Test,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Test {
    /// Integers, dates, times and floats of 1, 2, 4 or 8 bytes: the values in one of these ranges (or with `negate` in none), which are
    /// numbers with a sign that order as the values do, both inclusive.
    Ranges { kind: Kind, ranges: Vec<(i128, i128)>, negate: bool },
    /// Integers of 4 bytes that leave a remainder, or with `negate` do not.
    Residue32 { residue: Residue<u32>, negate: bool },
    /// Integers of 8 bytes, likewise.
    Residue64 { residue: Residue<u64>, negate: bool },
    /// Decimals, likewise.
    Wide { low: i128, high: i128, negate: bool },
    /// Booleans that are this.
    Boolean(bool),
    /// Strings, plain or dictionary-coded.
    Strings(StringTest),
    /// `IS NULL`, or with `false` `IS NOT NULL`, of any type.
    Null(bool),
    /// No row.
    Never,
}

/// How a value's bits are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Signed(u8),
    Unsigned(u8),
    Float(u8),
}

impl Kind {
    fn of(data_type: &DataType) -> Option<Kind> {
        use DataType::*;
        Some(match data_type {
            Int8 => Kind::Signed(1),
            Int16 => Kind::Signed(2),
            Int32 | Date32 | Time32(_) => Kind::Signed(4),
            Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) => Kind::Signed(8),
            UInt8 => Kind::Unsigned(1),
            UInt16 => Kind::Unsigned(2),
            UInt32 => Kind::Unsigned(4),
            UInt64 => Kind::Unsigned(8),
            Float32 => Kind::Float(4),
            Float64 => Kind::Float(8),
            _ => return None,
        })
    }

    /// The smallest and largest number.
    fn bounds(self) -> (i128, i128) {
        match self {
            Kind::Signed(width) | Kind::Float(width) => {
                let half = 1 << (8 * u32::from(width) - 1);
                (-half, half - 1)
            }
            Kind::Unsigned(width) => (0, (1 << (8 * u32::from(width))) - 1),
        }
    }
}

/// The values for which a comparison with `constant` is true: between two bounds, of which there may be none, or with `true` not between
/// them. An open end is the smallest or largest number there is.
pub(crate) fn between(comparison: Comparison, constant: i128) -> (Option<(i128, i128)>, bool) {
    match comparison {
        Comparison::Equal => (Some((constant, constant)), false),
        Comparison::NotEqual => (Some((constant, constant)), true),
        Comparison::Less => (constant.checked_sub(1).map(|high| (i128::MIN, high)), false),
        Comparison::LessOrEqual => (Some((i128::MIN, constant)), false),
        Comparison::Greater => (constant.checked_add(1).map(|low| (low, i128::MAX)), false),
        Comparison::GreaterOrEqual => (Some((constant, i128::MAX)), false),
    }
}

impl Selector {
    /// `column comparison constant`, for a column of `data_type` (that of the block: dictionary-coded or not) and a constant of the same
    /// SQL type. `None` where primitives do not know the type.
    pub fn compare(data_type: &DataType, comparison: Comparison, constant: &ScalarValue) -> Option<Selector> {
        if constant.is_null() {
            return is_known(data_type).then_some(Selector { test: Test::Never });
        }
        let test = if Kind::of(data_type).is_some() || matches!(data_type, DataType::Decimal128(..)) {
            let (range, negate) = between(comparison, with_one_zero(data_type, number(data_type, constant)?));
            let range = range.map(|range| with_both_zeros(data_type, range));
            return Selector::ranges(data_type, range.as_slice(), negate);
        } else if *data_type == DataType::Boolean {
            let ScalarValue::Boolean(Some(constant)) = constant else { return None };
            match [false, true].map(|value| comparison.holds(value.cmp(constant))) {
                [true, true] => Test::Null(false),
                [false, false] => Test::Never,
                [_, value] => Test::Boolean(value),
            }
        } else if is_string(data_type) {
            Test::Strings(StringTest::Compare(comparison, string(constant)?.to_vec()))
        } else {
            return None;
        };
        Some(Selector { test })
    }

    /// Values in one of `ranges` (both bounds inclusive), or with `negate` in none, and not NULL: integers, unscaled decimals, ticks of dates
    /// and times, floats as they order. `None` for types other than these, and for decimals with more than one range.
    pub(crate) fn ranges(data_type: &DataType, ranges: &[(i128, i128)], negate: bool) -> Option<Selector> {
        let test = match (Kind::of(data_type), ranges) {
            (Some(kind), ranges) => {
                let (minimum, maximum) = kind.bounds();
                let cut = ranges.iter().map(|&(low, high)| (low.max(minimum), high.min(maximum)));
                Test::Ranges { kind, ranges: cut.filter(|(low, high)| low <= high).collect(), negate }
            }
            (None, _) if !matches!(data_type, DataType::Decimal128(..)) => return None,
            (None, []) if negate => Test::Null(false),
            (None, []) => Test::Never,
            (None, &[(low, high)]) => Test::Wide { low, high, negate },
            (None, _) => return None,
        };
        Some(Selector { test })
    }

    /// `column BETWEEN low AND high`, both inclusive, as [`Selector::compare`]. `None` also for types other than numbers, dates and times.
    pub fn between(data_type: &DataType, low: &ScalarValue, high: &ScalarValue) -> Option<Selector> {
        if Kind::of(data_type).is_none() && !matches!(data_type, DataType::Decimal128(..)) {
            return None;
        }
        if low.is_null() || high.is_null() {
            return Some(Selector { test: Test::Never });
        }
        let one_zero = |constant| Some(with_one_zero(data_type, number(data_type, constant)?));
        let range = with_both_zeros(data_type, (one_zero(low)?, one_zero(high)?));
        let ranges = if range.0 <= range.1 { std::slice::from_ref(&range) } else { &[] };
        Selector::ranges(data_type, ranges, false)
    }

    /// `column IN (constants)`, or with `negate` `column NOT IN (constants)`, for integers, floats, dates and times. `None` for others.
    pub fn among<'a>(
        data_type: &DataType,
        constants: impl IntoIterator<Item = &'a ScalarValue>,
        negate: bool,
    ) -> Option<Selector> {
        Kind::of(data_type)?;
        let mut ranges = Vec::new();
        for constant in constants {
            match constant.is_null() {
                // Nothing is known to differ from NULL; equal to it is nothing.
                true if negate => return Some(Selector { test: Test::Never }),
                true => {}
                false => ranges.push(number(data_type, constant).map(|value| (value, value))?),
            }
        }
        Selector::ranges(data_type, &ranges, negate)
    }

    /// `column % divisor = remainder`, or with `negate` `<>`, for integers of 4 or 8 bytes with a sign. `None` for others, and where the
    /// divisor is zero: that is an error, not a predicate.
    pub fn remainder(data_type: &DataType, divisor: i64, remainder: i64, negate: bool) -> Option<Selector> {
        if !matches!(data_type, DataType::Int32 | DataType::Int64) || divisor == 0 {
            return None;
        }
        let divisor = divisor.unsigned_abs();
        let value_max = if *data_type == DataType::Int32 { 1 << 31 } else { 1 << 63 };
        let test = if remainder.unsigned_abs() >= divisor {
            return Selector::ranges(data_type, &[], negate);
        } else if divisor > value_max {
            // No value is as large as the divisor: each is its own remainder.
            return Selector::ranges(data_type, &[(remainder.into(), remainder.into())], negate);
        } else if *data_type == DataType::Int32 {
            Test::Residue32 { residue: u32::residue(divisor, remainder), negate }
        } else {
            Test::Residue64 { residue: u64::residue(divisor, remainder), negate }
        };
        Some(Selector { test })
    }

    /// True where either of two predicates over the same column is. `None` where that is no primitive.
    pub(crate) fn or(self, other: Selector) -> Option<Selector> {
        match (self.test, other.test) {
            (Test::Never, test) | (test, Test::Never) => Some(Selector { test }),
            (Test::Ranges { kind, mut ranges, negate: false }, Test::Ranges { ranges: others, negate: false, .. }) => {
                ranges.extend(others);
                Some(Selector { test: Test::Ranges { kind, ranges, negate: false } })
            }
            _ => None,
        }
    }

    /// `column LIKE 'prefix%'`, or with `negate` `NOT LIKE`, for a column of strings, dictionary-coded or not. `None` for others.
    pub fn prefix(data_type: &DataType, prefix: &str, negate: bool) -> Option<Selector> {
        let test = Test::Strings(StringTest::Prefix { prefix: prefix.as_bytes().to_vec(), negate });
        is_string(data_type).then_some(Selector { test })
    }

    /// A column of booleans that is true, or with `false` one that is false; not NULL.
    pub fn boolean(value: bool) -> Selector {
        Selector { test: Test::Boolean(value) }
    }

    /// `column IS NULL`, or with `false` `column IS NOT NULL`.
    pub fn null(is_null: bool) -> Selector {
        Selector { test: Test::Null(is_null) }
    }

    /// Clears the bits of the rows `first..end` of `mask` for which the predicate is not true.
    ///
    /// # Panics
    /// Where the array is not of the selector's type, or it or the mask is shorter than `end`.
    pub fn refine(&self, level: Level, array: &dyn Array, first: usize, end: usize, mask: &mut [u64]) {
        assert!(end <= array.len() && end <= mask.len() * 64, "a mask and its column cover the rows");
        match &self.test {
            Test::Ranges { kind, ranges, negate } => {
                assert_eq!(Kind::of(array.data_type()), Some(*kind), "a selector is for columns of one type");
                refine_numbers(level, array, *kind, (ranges, *negate), (first, end), mask);
                clear_invalid(array, first, end, mask);
            }
            Test::Residue32 { residue, negate } => {
                assert_eq!(array.data_type(), &DataType::Int32, "a selector is for columns of one type");
                // SAFETY: the array has at least `end` integers of 32 bits.
                unsafe { refine_residue(level, values_ptr(array).cast(), residue, *negate, (first, end), mask) };
                clear_invalid(array, first, end, mask);
            }
            Test::Residue64 { residue, negate } => {
                assert_eq!(array.data_type(), &DataType::Int64, "a selector is for columns of one type");
                // SAFETY: the array has at least `end` integers of 64 bits.
                unsafe { refine_residue(level, values_ptr(array).cast(), residue, *negate, (first, end), mask) };
                clear_invalid(array, first, end, mask);
            }
            Test::Wide { low, high, negate } => {
                let values = array.as_primitive::<Decimal128Type>().values();
                refine_each(mask, first, end, |row| (*low..=*high).contains(&values[row]) != *negate);
                clear_invalid(array, first, end, mask);
            }
            Test::Boolean(value) => {
                refine_by_bits(mask, first, end, array.as_boolean().values(), !value);
                clear_invalid(array, first, end, mask);
            }
            Test::Strings(test) => match array.data_type() {
                DataType::Utf8View => refine_strings(level, array.as_string_view(), test, first, end, mask),
                DataType::BinaryView => refine_strings(level, array.as_binary_view(), test, first, end, mask),
                _ => refine_codes(level, array, &set_of_codes(array, test), first, end, mask),
            },
            Test::Null(is_null) => match array.logical_nulls() {
                Some(nulls) => refine_by_bits(mask, first, end, nulls.inner(), *is_null),
                None if *is_null => refine_each(mask, first, end, |_| false),
                None => {}
            },
            Test::Never => refine_each(mask, first, end, |_| false),
        }
    }
}

/// Where a float that is zero with a sign stands among numbers; zero without it is 0.
const NEGATIVE_ZERO: i128 = -1;

/// A float's number, that of zero without its sign.
fn with_one_zero(data_type: &DataType, number: i128) -> i128 {
    if data_type.is_floating() && number == NEGATIVE_ZERO { 0 } else { number }
}

/// A range of floats that begins with zero begins with both of them, and one that ends before zero ends before both.
fn with_both_zeros(data_type: &DataType, (low, high): (i128, i128)) -> (i128, i128) {
    if !data_type.is_floating() {
        return (low, high);
    }
    let low = if low == 0 { NEGATIVE_ZERO } else { low };
    (low, if high == NEGATIVE_ZERO { NEGATIVE_ZERO - 1 } else { high })
}

/// So many ranges need no list of their own.
const FEW_RANGES: usize = 4;

fn refine_numbers(
    level: Level,
    array: &dyn Array,
    kind: Kind,
    (ranges, negate): (&[(i128, i128)], bool),
    rows: (usize, usize),
    mask: &mut [u64],
) {
    let values = values_ptr(array);
    macro_rules! refine {
        ($type:ty, $float:literal) => {{
            let range = |&(low, high): &(i128, i128)| Range { low: low as $type, span: (high - low) as $type };
            let (mut few, many);
            let ranges = if ranges.len() <= FEW_RANGES {
                few = [Range { low: 0, span: 0 }; FEW_RANGES];
                few.iter_mut().zip(ranges).for_each(|(few, given)| *few = range(given));
                &few[..ranges.len()]
            } else {
                many = ranges.iter().map(range).collect::<Vec<Range<$type>>>();
                &many
            };
            // SAFETY: the array has at least as many values as there are rows, of this width as their kind says.
            unsafe { refine_ranges::<$type, $float>(level, values.cast(), ranges, negate, rows, mask) }
        }};
    }
    match kind {
        Kind::Signed(1) | Kind::Unsigned(1) => refine!(u8, false),
        Kind::Signed(2) | Kind::Unsigned(2) => refine!(u16, false),
        Kind::Signed(4) | Kind::Unsigned(4) => refine!(u32, false),
        Kind::Signed(_) | Kind::Unsigned(_) => refine!(u64, false),
        Kind::Float(4) => refine!(u32, true),
        Kind::Float(_) => refine!(u64, true),
    }
}

/// Which codes of a dictionary-coded column have a value that passes, one bit a code.
pub(super) fn set_of_codes(array: &dyn Array, test: &StringTest) -> Vec<u64> {
    let values = array.as_any_dictionary().values();
    let mut set = vec![0; words(values.len()).max(1)];
    let mut add = |code: usize, value: &str| {
        if !values.is_null(code) && test.holds(value.as_bytes()) {
            set[code / 64] |= 1 << (code % 64);
        }
    };
    match values.data_type() {
        DataType::Utf8View => {
            let strings: &StringViewArray = values.as_string_view();
            (0..strings.len()).for_each(|code| add(code, strings.value(code)));
        }
        DataType::Utf8 => {
            let strings = values.as_string::<i32>();
            (0..strings.len()).for_each(|code| add(code, strings.value(code)));
        }
        other => panic!("no block holds dictionaries of type {other}"),
    }
    set
}

fn is_string(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8View | DataType::BinaryView => true,
        DataType::Dictionary(_, value) => matches!(**value, DataType::Utf8 | DataType::Utf8View),
        _ => false,
    }
}

fn is_known(data_type: &DataType) -> bool {
    Kind::of(data_type).is_some()
        || is_string(data_type)
        || matches!(data_type, DataType::Boolean | DataType::Decimal128(..))
}

/// A constant of `data_type` as a number that orders as its values do: of a decimal, its digits. `None` where it is of another type, or NULL.
pub(crate) fn number(data_type: &DataType, constant: &ScalarValue) -> Option<i128> {
    use ScalarValue::*;
    let is_same = match (data_type, constant) {
        (DataType::Decimal128(_, scale), Decimal128(_, _, other)) => scale == other,
        _ => constant.data_type() == *data_type,
    };
    if !is_same {
        return None;
    }
    Some(match *constant {
        Decimal128(Some(value), ..) => value,
        Int8(Some(value)) => i128::from(value),
        Int16(Some(value)) => i128::from(value),
        Int32(Some(value)) | Date32(Some(value)) | Time32Second(Some(value)) | Time32Millisecond(Some(value)) => {
            i128::from(value)
        }
        Int64(Some(value))
        | Date64(Some(value))
        | Time64Microsecond(Some(value))
        | Time64Nanosecond(Some(value))
        | TimestampSecond(Some(value), _)
        | TimestampMillisecond(Some(value), _)
        | TimestampMicrosecond(Some(value), _)
        | TimestampNanosecond(Some(value), _)
        | DurationSecond(Some(value))
        | DurationMillisecond(Some(value))
        | DurationMicrosecond(Some(value))
        | DurationNanosecond(Some(value)) => i128::from(value),
        UInt8(Some(value)) => i128::from(value),
        UInt16(Some(value)) => i128::from(value),
        UInt32(Some(value)) => i128::from(value),
        UInt64(Some(value)) => i128::from(value),
        Float32(Some(value)) => i128::from(ordered_f32(value)),
        Float64(Some(value)) => i128::from(ordered_f64(value)),
        _ => return None,
    })
}

fn string(constant: &ScalarValue) -> Option<&[u8]> {
    match constant {
        ScalarValue::Utf8View(Some(value)) | ScalarValue::Utf8(Some(value)) | ScalarValue::LargeUtf8(Some(value)) => {
            Some(value.as_bytes())
        }
        ScalarValue::BinaryView(Some(value)) | ScalarValue::Binary(Some(value)) => Some(value),
        ScalarValue::Dictionary(_, value) => string(value),
        _ => None,
    }
}
