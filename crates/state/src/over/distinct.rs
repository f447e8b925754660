//! Sums of the distinct values of a frame, out of which values are taken again without loss, and of their squares.

use pelton_data::decimal::DecimalTotal;
use pelton_data::exact_float::ExactFloat;
use pelton_data::square_sum::SquareSum;

use super::sum::WholeSum;
use super::value::{Total, Value};
use crate::aggregates::{Aggregate, FloatVariance, IntegerVariance, SumDecimal, Takes, Variance};

/// What sums, means and variances of distinct values are computed from.
pub(super) trait DistinctSums<T: Value>: std::fmt::Debug {
    /// Of no values. Variances can be asked for where they `have_variances`.
    fn new(have_variances: bool) -> Self;

    /// Takes a value that was not there.
    fn enter(&mut self, value: T);

    /// Takes a value out that was.
    fn leave(&mut self, value: T);

    /// The sum of all.
    fn total(&self) -> Total<T>;

    /// The variance of so many values: of a whole population, or the estimate from a sample. `None` where there are too few.
    fn variance(&self, count: u64, is_sample: bool) -> Option<f64>;

    /// Bytes of memory that they take.
    fn bytes(&self) -> usize {
        size_of_val(self)
    }
}

/// Of integers.
#[derive(Debug)]
pub(super) struct IntegerSums((i128, SquareSum));

impl DistinctSums<i64> for IntegerSums {
    fn new(_have_variances: bool) -> IntegerSums {
        IntegerSums(IntegerVariance::EMPTY)
    }

    fn enter(&mut self, value: i64) {
        self.0 = IntegerVariance::add(self.0, value);
    }

    fn leave(&mut self, value: i64) {
        self.0 = IntegerVariance::invert(self.0, IntegerVariance::of(value));
    }

    fn total(&self) -> i128 {
        self.0.0
    }

    fn variance(&self, count: u64, is_sample: bool) -> Option<f64> {
        IntegerVariance::finalize(self.0, count as i64, is_sample)
    }
}

impl DistinctSums<i128> for DecimalTotal {
    fn new(_have_variances: bool) -> DecimalTotal {
        SumDecimal::EMPTY
    }

    fn enter(&mut self, value: i128) {
        *self = SumDecimal::add(*self, value);
    }

    fn leave(&mut self, value: i128) {
        *self = SumDecimal::invert(*self, SumDecimal::of(value));
    }

    fn total(&self) -> i128 {
        SumDecimal::total(*self)
    }

    fn variance(&self, _count: u64, _is_sample: bool) -> Option<f64> {
        unreachable!("the variance of decimals is that of doubles")
    }
}

/// Of doubles.
#[derive(Debug)]
pub(super) struct FloatSums {
    sum: ExactFloat,
    /// Where they are asked for.
    squares: Option<Box<ExactFloat>>,
}

impl DistinctSums<f64> for FloatSums {
    fn new(have_variances: bool) -> FloatSums {
        FloatSums { sum: ExactFloat::default(), squares: have_variances.then(Box::default) }
    }

    fn enter(&mut self, value: f64) {
        self.sum.add(value);
        if let Some(squares) = &mut self.squares {
            squares.add_square(value);
        }
    }

    fn leave(&mut self, value: f64) {
        self.sum.subtract(value);
        if let Some(squares) = &mut self.squares {
            squares.subtract_square(value);
        }
    }

    fn total(&self) -> f64 {
        self.sum.sum().high
    }

    fn variance(&self, count: u64, is_sample: bool) -> Option<f64> {
        let squares = self.squares.as_ref().expect("squares are summed where variances are asked for");
        FloatVariance::finalize((self.sum.sum(), squares.sum()), count as i64, is_sample)
    }

    fn bytes(&self) -> usize {
        size_of_val(self) + self.squares.as_ref().map_or(0, |squares| size_of_val(&**squares))
    }
}
