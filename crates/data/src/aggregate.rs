//! What groups are told apart by, and what is kept for each: the vocabulary that planning, compilation and state share.

use arrow::datatypes::{DataType, Decimal128Type, DecimalType, i256};

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
    /// The smallest value. State: the value's type. Floating-point values are in total order: NaN is the largest.
    Minimum,
    /// The largest value. State: the value's type. Floating-point values are in total order: NaN is the largest.
    Maximum,
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
}

/// Type and nullability of one key column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyColumn {
    /// The SQL-level type: dictionary-coded strings count as `Utf8View`.
    pub data_type: DataType,
    /// Whether NULLs occur; they form one group.
    pub nullable: bool,
}

/// The mean of `count` decimals from their sum, with `digits` more decimal places than they have, cut towards zero; `None` where it has
/// more than `precision` digits.
pub fn decimal_mean(sum: i128, count: i64, digits: i8, precision: u8) -> Option<i128> {
    let scaled = i256::from_i128(sum).checked_mul(i256::from_i128(10_i128.checked_pow(digits.try_into().ok()?)?))?;
    let mean = scaled.checked_div(i256::from_i128(count.into()))?.to_i128()?;
    Decimal128Type::is_valid_decimal_precision(mean, precision).then_some(mean)
}
