//! What groups are told apart by, and what is kept for each: the vocabulary that planning, compilation and state share.

use arrow::datatypes::DataType;

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
