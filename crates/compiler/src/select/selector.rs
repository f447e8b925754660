//! A predicate over one column, ready to run on any block.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::datatypes::{DataType, Decimal128Type};
use datafusion_common::ScalarValue;
use pelton_data::column::values_ptr;

use super::codes::refine_codes;
use super::level::Level;
use super::mask::{clear_invalid, refine_by_bits, refine_each, words};
use super::range::{Range, ordered_f32, ordered_f64, refine_range};
use super::strings::{StringTest, refine_strings};

/// How two values compare. Floats are in total order, except that the zeros are equal, as DataFusion compares them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    test: Test,
}

#[derive(Debug, Clone, PartialEq)]
enum Test {
    /// Integers, dates, times and floats of 1, 2, 4 or 8 bytes: the values between two bounds, as numbers with a sign that order as
    /// the values do. No value passes where there is no range.
    Range { kind: Kind, range: Option<(i128, i128)>, negate: bool },
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
enum Kind {
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

/// The values for which a comparison with a constant is true: between two bounds, or with `true` not between them. All
/// values from `low` to `high` are equal to the constant.
fn between(comparison: Comparison, (low, high): (i128, i128), all: (i128, i128)) -> (Option<(i128, i128)>, bool) {
    let (minimum, maximum) = all;
    let below = || low.checked_sub(1).filter(|&high| high >= minimum).map(|high| (minimum, high));
    let above = || high.checked_add(1).filter(|&low| low <= maximum).map(|low| (low, maximum));
    match comparison {
        Comparison::Equal => (Some((low, high)), false),
        Comparison::NotEqual => (Some((low, high)), true),
        Comparison::Less => (below(), false),
        Comparison::LessOrEqual => (Some((minimum, high)), false),
        Comparison::Greater => (above(), false),
        Comparison::GreaterOrEqual => (Some((low, maximum)), false),
    }
}

impl Selector {
    /// `column comparison constant`, for a column of `data_type` (that of the block: dictionary-coded or not) and a constant of the same
    /// SQL type. `None` where primitives do not know the type.
    pub fn compare(data_type: &DataType, comparison: Comparison, constant: &ScalarValue) -> Option<Selector> {
        if constant.is_null() {
            return is_known(data_type).then_some(Selector { test: Test::Never });
        }
        let test = if let Some(kind) = Kind::of(data_type) {
            let (range, negate) = between(comparison, number(data_type, constant)?, kind.bounds());
            Test::Range { kind, range, negate }
        } else if let DataType::Decimal128(..) = data_type {
            match between(comparison, decimal(data_type, constant)?, (i128::MIN, i128::MAX)) {
                (Some((low, high)), negate) => Test::Wide { low, high, negate },
                (None, _) => Test::Never,
            }
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

    /// `column BETWEEN low AND high`, both inclusive, as [`Selector::compare`]. `None` also for types other than numbers, dates and times.
    pub fn between(data_type: &DataType, low: &ScalarValue, high: &ScalarValue) -> Option<Selector> {
        let wide = matches!(data_type, DataType::Decimal128(..));
        let kind = Kind::of(data_type);
        if !wide && kind.is_none() {
            return None;
        }
        if low.is_null() || high.is_null() {
            return Some(Selector { test: Test::Never });
        }
        let number = |constant| if wide { decimal(data_type, constant) } else { number(data_type, constant) };
        let ((low, _), (_, high)) = (number(low)?, number(high)?);
        let test = match kind {
            _ if low > high => Test::Never,
            Some(kind) => Test::Range { kind, range: Some((low, high)), negate: false },
            None => Test::Wide { low, high, negate: false },
        };
        Some(Selector { test })
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
            Test::Range { kind, range: Some((low, high)), negate } => {
                assert_eq!(Kind::of(array.data_type()), Some(*kind), "a selector is for columns of one type");
                refine_numbers(level, array, *kind, (*low, *high), *negate, (first, end), mask);
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
            Test::Range { range: None, .. } | Test::Never => refine_each(mask, first, end, |_| false),
        }
    }
}

fn refine_numbers(
    level: Level,
    array: &dyn Array,
    kind: Kind,
    (low, high): (i128, i128),
    negate: bool,
    (first, end): (usize, usize),
    mask: &mut [u64],
) {
    let values = values_ptr(array);
    macro_rules! refine {
        ($type:ty, $float:literal) => {{
            let range = Range { low: low as $type, span: (high - low) as $type, negate };
            // SAFETY: the array has at least `end` values, of this width as their kind says.
            unsafe { refine_range::<$type, $float>(level, values.cast(), range, first, end, mask) }
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
fn set_of_codes(array: &dyn Array, test: &StringTest) -> Vec<u64> {
    let values: ArrayRef = array.as_any_dictionary().values().clone();
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

/// The smallest and the largest of the numbers, which order as the values of `data_type` do, that are equal to a constant:
/// the zeros of floats are. `None` where it is of another type.
fn number(data_type: &DataType, constant: &ScalarValue) -> Option<(i128, i128)> {
    use ScalarValue::*;
    if constant.data_type() != *data_type {
        return None;
    }
    let number = match *constant {
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
        // In total order -0.0 is next to 0.0.
        Float32(Some(0.0)) | Float64(Some(0.0)) => return Some((-1, 0)),
        Float32(Some(value)) => i128::from(ordered_f32(value)),
        Float64(Some(value)) => i128::from(ordered_f64(value)),
        _ => return None,
    };
    Some((number, number))
}

/// As [`number`], the digits of a decimal constant of `data_type`'s scale.
fn decimal(data_type: &DataType, constant: &ScalarValue) -> Option<(i128, i128)> {
    match (data_type, constant) {
        (DataType::Decimal128(_, scale), ScalarValue::Decimal128(Some(value), _, other)) if scale == other => {
            Some((*value, *value))
        }
        _ => None,
    }
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
