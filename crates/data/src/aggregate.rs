//! What groups are told apart by, and what is kept for each: the vocabulary that planning, compilation and state share.

use arrow::datatypes::{DataType, Decimal128Type, DecimalType, i256};

use crate::udaf::{Merging, UdafHandle};

/// What an accumulator does with the values that reach it. SQL's aggregates are computed from these when a window closes:
/// AVG is a sum and a count; a nullable SUM is a sum and a count of values that are not NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Accumulate {
    /// Counts rows (without an argument) or values that are not NULL. State: `u64`.
    Count,
    /// Sums integers with wrap-around. State: `i64`.
    SumInteger,
    /// Sums integers or decimals in 128 bits. State: `i128`.
    SumWide,
    /// Sums floating-point values. State: `f64`.
    SumFloat,
    /// Sums floating-point values in about 106 bits. State: [`crate::wide_float::WideFloat`].
    SumFloatWide,
    /// Sums the squares of floating-point values in about 106 bits. State: [`crate::wide_float::WideFloat`].
    SumSquares,
    /// Sums the squares of integers of up to 32 bits in 128 bits. State: `i128`.
    SumSquares128,
    /// Sums the squares of integers in 192 bits. State: [`crate::square_sum::SquareSum`].
    SumSquares192,
    /// The smallest value. State: the value's type. Floating-point values are in total order: NaN is the largest.
    Minimum,
    /// The largest value. State: the value's type. Floating-point values are in total order: NaN is the largest.
    Maximum,
    /// The value that came first. State: the position of its row (all bits set before there is one), then the value.
    First,
    /// The value that came last. State: the position of its row (zero before there is one), then the value.
    Last,
    /// Keeps each value. State: the number of a list beside the entries.
    Values,
    /// Keeps the position of each row whose value is not NULL, side by side with [`Accumulate::Values`]. State: as there.
    Arrivals,
    /// Keeps each distinct value once, and how often it came, so that it is known when the last of them has left. State: the number of a set beside
    /// the entries.
    Distinct {
        /// Whether the position where a value came first is kept in place of that.
        is_ordered: bool,
    },
    /// Keeps each distinct value once, and how often it came. State: the number of a set beside the entries.
    Frequencies,
    /// Keeps what it takes to estimate how many distinct values there are. State: the number of a sketch beside the entries.
    DistinctSketch,
    /// What [`Accumulator::function`] says. State: the number of a group in a store beside the entries.
    Udaf(Merging),
}

impl Accumulate {
    /// Whether it keeps distinct values, each of which is looked for where they are put together with others.
    pub fn keeps_sets(self) -> bool {
        matches!(self, Accumulate::Distinct { .. } | Accumulate::Frequencies)
    }

    /// Whether what it keeps lies beside the entries.
    pub fn has_store(self) -> bool {
        use Accumulate::{Arrivals, Distinct, DistinctSketch, Frequencies, Udaf, Values};
        matches!(self, Values | Arrivals | Distinct { .. } | Frequencies | DistinctSketch | Udaf(_))
    }
}

/// What is computed of all values of a group, or all distinct ones, when its window closes.
#[derive(Debug, Clone, PartialEq)]
pub enum Holistic {
    /// How many there are, or about how many where a sketch is kept.
    Count,
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// Their variance or standard deviation.
    Variance {
        /// Whether the values are a sample, and not the whole population.
        is_sample: bool,
        /// Whether it is the standard deviation.
        is_root: bool,
    },
    /// The value that a fraction of the values does not come behind.
    Percentile {
        /// Which, from 0 to 1.
        fraction: f64,
        /// Whether it may lie between two values.
        is_continuous: bool,
        /// Whether values are counted from the largest.
        is_descending: bool,
    },
    /// As a percentile that does not lie between two values, of the frequencies of numbers as [`crate::significant`] rounds them.
    RoundedPercentile {
        /// Which, from 0 to 1.
        fraction: f64,
    },
    /// The value that there is most of; the smallest of several.
    Mode,
    /// An array of them, in the order of their arrival.
    Array {
        /// Whether each value stands there once, and NULL.
        is_distinct: bool,
    },
    /// A string of them, in the order of their arrival.
    Joined {
        /// What stands between two.
        delimiter: String,
    },
}

/// Inputs of one aggregation whose rows can be told apart by position.
pub const POSITION_INPUTS_MAX: usize = 1 << 8;

/// Where a row stands among all rows that an aggregation gets: neither zero nor all bits set.
///
/// Rows of one input stand in the order in which they arrived, whatever blocks they came in; those of different inputs (the parts of a
/// `UNION ALL`) in the order of the inputs. `row` counts the rows of the input from 0. Inputs beyond [`POSITION_INPUTS_MAX`] have the positions of
/// others: planning refuses aggregates that would ask for these.
pub fn position(input: usize, row: u64) -> u64 {
    (((input % POSITION_INPUTS_MAX) as u64) << 56) + row + 1
}

/// One thing that is kept for each group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accumulator {
    /// What it does.
    pub accumulate: Accumulate,
    /// Type of the argument, or `None` for counting rows.
    pub argument_type: Option<DataType>,
    /// Whether the argument may be NULL; NULLs change no accumulator.
    pub argument_nullable: bool,
    /// The function of [`Accumulate::Udaf`].
    pub function: Option<UdafHandle>,
}

impl Accumulator {
    /// Counts rows.
    pub fn counting_rows() -> Accumulator {
        Accumulator::new(Accumulate::Count, None, false)
    }

    /// Whether it counts all rows of a group.
    pub fn counts_rows(&self) -> bool {
        self.accumulate == Accumulate::Count && !self.argument_nullable
    }

    /// Whether its state refers to something beside the entry: a string, or what a store keeps.
    pub fn has_reference(&self) -> bool {
        use Accumulate::{First, Last, Maximum, Minimum};
        let is_string = matches!(self.argument_type, Some(DataType::Utf8View | DataType::BinaryView));
        let holds_value = matches!(self.accumulate, Minimum | Maximum | First | Last);
        self.accumulate.has_store() || holds_value && is_string
    }

    /// Any but those with a function of their own.
    pub fn new(accumulate: Accumulate, argument_type: Option<DataType>, argument_nullable: bool) -> Accumulator {
        Accumulator { accumulate, argument_type, argument_nullable, function: None }
    }

    /// A function over rows of its arguments, which are the fields of `argument_type`; rows that are NULL themselves do not count.
    pub fn own(function: UdafHandle, argument_type: DataType, argument_nullable: bool) -> Accumulator {
        let accumulate = Accumulate::Udaf(function.0.merging());
        Accumulator { accumulate, argument_type: Some(argument_type), argument_nullable, function: Some(function) }
    }
}

/// Type and nullability of one key column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyColumn {
    /// The SQL-level type: dictionary-coded strings count as `Utf8View`.
    pub data_type: DataType,
    /// Whether NULLs occur; they form one group.
    pub nullable: bool,
}

/// The variance of `count` integers from their sum and the sum of their squares: of a whole population, or the estimate from a sample. Rounded once
/// only, so it is the same whatever the order of the integers was. `None` where there are too few.
pub fn integer_variance(sum: i128, squares: i256, count: i64, is_sample: bool) -> Option<f64> {
    let divisor = count - i64::from(is_sample);
    if divisor <= 0 {
        return None;
    }
    // Sums of fewer than 2^63 integers have no more than 126 bits, those of their squares 189.
    let [sum, count] = [sum, count.into()].map(i256::from_i128);
    let deviations = squares.wrapping_mul(count).wrapping_sub(sum.wrapping_mul(sum));
    let both = i256::from_i128(divisor.into()).wrapping_mul(count);
    Some(float(deviations) / float(both))
}

/// 2^128: the least number that has more bits.
const TWO_TO_128: f64 = u128::MAX as f64;

/// The nearest number, but for the last bit.
fn float(integer: i256) -> f64 {
    let (low, high) = integer.to_parts();
    high as f64 * TWO_TO_128 + low as f64
}

/// The mean of `count` decimals from their sum, with `digits` more decimal places than they have, the half rounded away from zero;
/// `None` where it has more than `precision` digits.
pub fn decimal_mean(sum: i128, count: i64, digits: i8, precision: u8) -> Option<i128> {
    let scaled = i256::from_i128(sum).checked_mul(i256::from_i128(10_i128.checked_pow(digits.try_into().ok()?)?))?;
    let count = i256::from_i128(count.into());
    let (mean, rest) = (scaled.checked_div(count)?.to_i128()?, scaled.checked_rem(count)?);
    // The rest is less than the count, which has 64 bits.
    let is_half = rest.wrapping_abs() >= count.wrapping_sub(rest.wrapping_abs());
    let mean = if is_half { mean.checked_add(if sum < 0 { -1 } else { 1 })? } else { mean };
    Decimal128Type::is_valid_decimal_precision(mean, precision).then_some(mean)
}
