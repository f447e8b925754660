//! Variances and standard deviations: the small difference of two large sums, of values and of their squares (see `pelton_data::wide_float`).

use std::fmt::Debug;
use std::marker::PhantomData;

use pelton_data::aggregate::integer_variance;
use pelton_data::square_sum::SquareSum;
use pelton_data::wide_float::{WideFloat, variance};

use super::{Aggregate, SumFloatWide, SumWide, Takes};

/// The sum of the squares of floating-point values in about 106 bits.
#[derive(Debug)]
pub struct SumSquares;

impl Aggregate for SumSquares {
    type State = WideFloat;

    const EMPTY: WideFloat = SumFloatWide::EMPTY;

    const IS_EXACT: bool = false;

    const IS_INVERTIBLE: bool = false;

    #[inline]
    fn combine(older: WideFloat, younger: WideFloat) -> WideFloat {
        older.plus(younger)
    }
}

impl Takes<f64> for SumSquares {
    #[inline]
    fn of(value: f64) -> WideFloat {
        WideFloat::square(value)
    }
}

/// The sum of the squares of integers of up to 32 bits.
#[derive(Debug)]
pub struct SumSquares128;

impl Aggregate for SumSquares128 {
    type State = i128;

    const EMPTY: i128 = 0;

    const IS_EXACT: bool = true;

    const IS_INVERTIBLE: bool = true;

    #[inline]
    fn combine(older: i128, younger: i128) -> i128 {
        SumWide::combine(older, younger)
    }

    #[inline]
    fn invert(all: i128, leaving: i128) -> i128 {
        SumWide::invert(all, leaving)
    }
}

impl Takes<i64> for SumSquares128 {
    #[inline]
    fn of(value: i64) -> i128 {
        i128::from(value * value)
    }
}

/// The sum of the squares of integers.
#[derive(Debug)]
pub struct SumSquares192;

impl Aggregate for SumSquares192 {
    type State = SquareSum;

    const EMPTY: SquareSum = SquareSum::ZERO;

    const IS_EXACT: bool = true;

    const IS_INVERTIBLE: bool = true;

    #[inline]
    fn combine(older: SquareSum, younger: SquareSum) -> SquareSum {
        older.plus(younger)
    }

    #[inline]
    fn invert(all: SquareSum, leaving: SquareSum) -> SquareSum {
        all.minus(leaving)
    }
}

impl Takes<i64> for SumSquares192 {
    #[inline]
    fn of(value: i64) -> SquareSum {
        SquareSum::square(value)
    }
}

/// An aggregate that variances are computed from.
pub trait Variance: Aggregate {
    /// The variance of so many values: of a whole population, or the estimate from a sample. `None` where there are too few.
    fn finalize(state: Self::State, count: i64, is_sample: bool) -> Option<f64>;
}

/// The sum of values and that of their squares.
#[derive(Debug)]
pub struct Powers<S, Q>(PhantomData<(S, Q)>);

/// Of integers, exact.
pub type IntegerVariance = Powers<SumWide, SumSquares192>;

/// Of floating-point values.
pub type FloatVariance = Powers<SumFloatWide, SumSquares>;

impl<S: Aggregate, Q: Aggregate> Aggregate for Powers<S, Q> {
    type State = (S::State, Q::State);

    const EMPTY: (S::State, Q::State) = (S::EMPTY, Q::EMPTY);

    const IS_EXACT: bool = S::IS_EXACT && Q::IS_EXACT;

    const IS_INVERTIBLE: bool = S::IS_INVERTIBLE && Q::IS_INVERTIBLE;

    #[inline]
    fn combine(older: Self::State, younger: Self::State) -> Self::State {
        (S::combine(older.0, younger.0), Q::combine(older.1, younger.1))
    }

    #[inline]
    fn invert(all: Self::State, leaving: Self::State) -> Self::State {
        (S::invert(all.0, leaving.0), Q::invert(all.1, leaving.1))
    }
}

impl<V: Copy, S: Takes<V>, Q: Takes<V>> Takes<V> for Powers<S, Q> {
    #[inline]
    fn of(value: V) -> Self::State {
        (S::of(value), Q::of(value))
    }
}

impl Variance for IntegerVariance {
    fn finalize((sum, squares): (i128, SquareSum), count: i64, is_sample: bool) -> Option<f64> {
        integer_variance(sum, squares.exact(), count, is_sample)
    }
}

impl Variance for FloatVariance {
    fn finalize((sum, squares): (WideFloat, WideFloat), count: i64, is_sample: bool) -> Option<f64> {
        variance(sum, squares, count, is_sample)
    }
}

/// The variance of decimals, of which there is none: planning makes doubles of those whose variance is asked for.
#[derive(Debug)]
pub struct NoVariance;

impl Aggregate for NoVariance {
    type State = ();

    const EMPTY: () = ();

    const IS_EXACT: bool = true;

    const IS_INVERTIBLE: bool = true;

    fn combine(_older: (), _younger: ()) {}
}

impl Takes<i128> for NoVariance {
    fn of(_value: i128) {
        unreachable!("the variance of decimals is that of doubles")
    }
}

impl Variance for NoVariance {
    fn finalize(_state: (), _count: i64, _is_sample: bool) -> Option<f64> {
        None
    }
}
