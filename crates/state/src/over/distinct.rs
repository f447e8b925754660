//! Sums of the distinct values of a frame, out of which values are taken again without loss, and of their squares.

use pelton_data::decimal::DecimalTotal;
use pelton_data::exact_float::ExactFloat;
use pelton_data::wide_float::variance;

use super::sum::Exact;
use super::value::{Total, Value};
use super::variance::{IntegerPowers, Powers};

/// What sums, means and variances of distinct values are computed from.
pub(super) trait DistinctSums<T: Value>: Default + std::fmt::Debug {
    /// Takes a value that was not there.
    fn enter(&mut self, value: T);

    /// Takes a value out that was.
    fn leave(&mut self, value: T);

    /// The sum of all.
    fn total(&self) -> Total<T>;

    /// The variance of so many values: of a whole population, or the estimate from a sample. `None` where there are too few.
    fn variance(&self, count: u64, is_sample: bool) -> Option<f64>;
}

impl DistinctSums<i64> for IntegerPowers {
    fn enter(&mut self, value: i64) {
        *self = self.plus(value);
    }

    fn leave(&mut self, value: i64) {
        *self = self.minus(value);
    }

    fn total(&self) -> i128 {
        self.sum()
    }

    fn variance(&self, count: u64, is_sample: bool) -> Option<f64> {
        Powers::variance(*self, count, is_sample)
    }
}

impl DistinctSums<i128> for DecimalTotal {
    fn enter(&mut self, value: i128) {
        *self = self.plus(value);
    }

    fn leave(&mut self, value: i128) {
        *self = self.minus(value);
    }

    fn total(&self) -> i128 {
        Exact::total(*self)
    }

    fn variance(&self, _count: u64, _is_sample: bool) -> Option<f64> {
        unreachable!("the variance of decimals is that of doubles")
    }
}

/// Of doubles.
#[derive(Debug, Default)]
pub(super) struct FloatSums {
    sum: ExactFloat,
    /// Each is two numbers.
    squares: ExactFloat,
}

impl DistinctSums<f64> for FloatSums {
    fn enter(&mut self, value: f64) {
        self.sum.add(value);
        self.squares.add_square(value);
    }

    fn leave(&mut self, value: f64) {
        self.sum.subtract(value);
        self.squares.subtract_square(value);
    }

    fn total(&self) -> f64 {
        self.sum.sum().high
    }

    fn variance(&self, count: u64, is_sample: bool) -> Option<f64> {
        variance(self.sum.sum(), self.squares.sum(), count as i64, is_sample)
    }
}
