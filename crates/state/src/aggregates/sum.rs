//! SUM.

use pelton_data::decimal::DecimalTotal;
use pelton_data::wide_float::WideFloat;

use super::{Aggregate, Takes};

/// The sum of integers in 64 bits. It wraps around.
#[derive(Debug)]
pub struct SumInteger;

impl Aggregate for SumInteger {
    type State = i64;

    const EMPTY: i64 = 0;

    const IS_EXACT: bool = true;

    const IS_INVERTIBLE: bool = true;

    #[inline]
    fn combine(older: i64, younger: i64) -> i64 {
        older.wrapping_add(younger)
    }

    #[inline]
    fn invert(all: i64, leaving: i64) -> i64 {
        all.wrapping_sub(leaving)
    }
}

impl Takes<i64> for SumInteger {
    #[inline]
    fn of(value: i64) -> i64 {
        value
    }
}

/// The sum of integers or decimals in 128 bits, which hold as many integers as there may be. It wraps around.
#[derive(Debug)]
pub struct SumWide;

impl Aggregate for SumWide {
    type State = i128;

    const EMPTY: i128 = 0;

    const IS_EXACT: bool = true;

    const IS_INVERTIBLE: bool = true;

    #[inline]
    fn combine(older: i128, younger: i128) -> i128 {
        older.wrapping_add(younger)
    }

    #[inline]
    fn invert(all: i128, leaving: i128) -> i128 {
        all.wrapping_sub(leaving)
    }

    /// Only one addition waits for the one before it.
    #[inline]
    fn slide(all: i128, entering: i128, leaving: i128) -> i128 {
        all.wrapping_add(entering.wrapping_sub(leaving))
    }
}

impl<V: Into<i128>> Takes<V> for SumWide {
    #[inline]
    fn of(value: V) -> i128 {
        value.into()
    }
}

/// The sum of decimals, exact also where it does not fit 128 bits.
#[derive(Debug)]
pub struct SumDecimal;

impl Aggregate for SumDecimal {
    type State = DecimalTotal;

    const EMPTY: DecimalTotal = DecimalTotal::ZERO;

    const IS_EXACT: bool = true;

    const IS_INVERTIBLE: bool = true;

    #[inline]
    fn combine(older: DecimalTotal, younger: DecimalTotal) -> DecimalTotal {
        older.and(younger)
    }

    #[inline]
    fn invert(all: DecimalTotal, leaving: DecimalTotal) -> DecimalTotal {
        all.without(leaving)
    }
}

impl Takes<i128> for SumDecimal {
    #[inline]
    fn of(value: i128) -> DecimalTotal {
        DecimalTotal::of_parts(value, 0)
    }
}

/// The sum of floating-point values. Nothing is subtracted from it: it would drift.
#[derive(Debug)]
pub struct SumFloat;

impl Aggregate for SumFloat {
    type State = f64;

    const EMPTY: f64 = 0.0;

    const IS_EXACT: bool = false;

    const IS_INVERTIBLE: bool = false;

    #[inline]
    fn combine(older: f64, younger: f64) -> f64 {
        older + younger
    }
}

impl<V: Into<f64>> Takes<V> for SumFloat {
    #[inline]
    fn of(value: V) -> f64 {
        value.into()
    }
}

/// The sum of floating-point values in about 106 bits.
#[derive(Debug)]
pub struct SumFloatWide;

impl Aggregate for SumFloatWide {
    type State = WideFloat;

    const EMPTY: WideFloat = WideFloat { high: 0.0, low: 0.0 };

    const IS_EXACT: bool = false;

    const IS_INVERTIBLE: bool = false;

    #[inline]
    fn combine(older: WideFloat, younger: WideFloat) -> WideFloat {
        older.plus(younger)
    }
}

impl Takes<f64> for SumFloatWide {
    #[inline]
    fn of(value: f64) -> WideFloat {
        WideFloat::new(value)
    }
}
