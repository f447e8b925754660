//! Aggregates of pairs of numbers: covariance, correlation, and the line of least squares `y = slope * x + intercept`.
//!
//! Pairs with a NULL are skipped. All are computed from the number of pairs and five sums, of about 106 bits each: what is left of their
//! differences is as exact as the result is, wherever the values lie.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array};
use arrow::datatypes::{DataType, Float64Type};
use pelton_data::udaf::{Change, Definition, Merging};
use pelton_data::wide_float::{WideFloat, deviations};

use super::{restored_words, saved_words};

/// A function of `y`, its first argument, and `x`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PairFunction {
    Correlation,
    PopulationCovariance,
    SampleCovariance,
    Count,
    AverageX,
    AverageY,
    SquaresX,
    SquaresY,
    Products,
    Slope,
    Intercept,
    Determination,
}

/// All of them.
pub(super) const PAIR_FUNCTIONS: [PairFunction; 12] = {
    use PairFunction::*;
    [
        Correlation,
        PopulationCovariance,
        SampleCovariance,
        Count,
        AverageX,
        AverageY,
        SquaresX,
        SquaresY,
        Products,
        Slope,
        Intercept,
        Determination,
    ]
};

/// Sums over pairs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moments {
    count: i64,
    x: WideFloat,
    y: WideFloat,
    xx: WideFloat,
    yy: WideFloat,
    xy: WideFloat,
}

impl Moments {
    fn add(&mut self, y: f64, x: f64) {
        *self = self.plus(&Moments {
            count: 1,
            x: WideFloat::new(x),
            y: WideFloat::new(y),
            xx: WideFloat::square(x),
            yy: WideFloat::square(y),
            xy: WideFloat::product(x, y),
        });
    }

    fn plus(&self, other: &Moments) -> Moments {
        Moments {
            count: self.count + other.count,
            x: self.x.plus(other.x),
            y: self.y.plus(other.y),
            xx: self.xx.plus(other.xx),
            yy: self.yy.plus(other.yy),
            xy: self.xy.plus(other.xy),
        }
    }

    /// The sum of squares of what `x` deviates from its mean by.
    fn squares_x(&self) -> WideFloat {
        deviations(self.xx, [self.x, self.x], self.count, self.xx.high)
    }

    fn squares_y(&self) -> WideFloat {
        deviations(self.yy, [self.y, self.y], self.count, self.yy.high)
    }

    /// The sum of the products of what `x` and `y` deviate from their means by.
    fn products(&self) -> WideFloat {
        deviations(self.xy, [self.x, self.y], self.count, self.xx.high.sqrt() * self.yy.high.sqrt())
    }

    /// NULL where either is the same in all pairs.
    fn correlation(&self) -> Option<f64> {
        let (squares_x, squares_y) = (self.squares_x().high, self.squares_y().high);
        if squares_x == 0.0 || squares_y == 0.0 {
            return None;
        }
        let product = squares_x * squares_y;
        let root = if product.is_normal() { product.sqrt() } else { squares_x.sqrt() * squares_y.sqrt() };
        Some((self.products().high / root).clamp(-1.0, 1.0))
    }

    /// The share of the squares of `y` that the line explains.
    fn determination(&self) -> Option<f64> {
        match (self.squares_x().high, self.squares_y().high) {
            (0.0, _) => None,
            // The line goes through all of them.
            (_, 0.0) => Some(1.0),
            _ => self.correlation().map(|correlation| correlation * correlation),
        }
    }

    /// NULL where `x` is the same in all pairs.
    fn slope(&self) -> Option<WideFloat> {
        let squares = self.squares_x();
        (squares.high != 0.0).then(|| self.products().quotient(squares))
    }

    fn intercept(&self) -> Option<f64> {
        let rest = self.y.minus(self.x.times(self.slope()?));
        Some(rest.over(self.count as f64).high)
    }

    fn value(&self, function: PairFunction) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        let count = self.count as f64;
        match function {
            PairFunction::Correlation => self.correlation(),
            PairFunction::PopulationCovariance => Some(self.products().high / count),
            PairFunction::SampleCovariance => (self.count > 1).then(|| self.products().high / (count - 1.0)),
            PairFunction::Count => Some(count),
            PairFunction::AverageX => Some(self.x.over(count).high),
            PairFunction::AverageY => Some(self.y.over(count).high),
            PairFunction::SquaresX => Some(self.squares_x().high),
            PairFunction::SquaresY => Some(self.squares_y().high),
            PairFunction::Products => Some(self.products().high),
            PairFunction::Slope => self.slope().map(|slope| slope.high),
            PairFunction::Intercept => self.intercept(),
            PairFunction::Determination => self.determination(),
        }
    }
}

impl PairFunction {
    pub fn name(&self) -> &'static str {
        match self {
            PairFunction::Correlation => "corr",
            PairFunction::PopulationCovariance => "covar_pop",
            PairFunction::SampleCovariance => "covar_samp",
            PairFunction::Count => "regr_count",
            PairFunction::AverageX => "regr_avgx",
            PairFunction::AverageY => "regr_avgy",
            PairFunction::SquaresX => "regr_sxx",
            PairFunction::SquaresY => "regr_syy",
            PairFunction::Products => "regr_sxy",
            PairFunction::Slope => "regr_slope",
            PairFunction::Intercept => "regr_intercept",
            PairFunction::Determination => "regr_r2",
        }
    }
}

impl Definition for PairFunction {
    type State = Moments;

    fn name(&self) -> &str {
        PairFunction::name(self)
    }

    fn merging(&self) -> Merging {
        // The sums are rounded: taking pairs away again would leave a rest, and nothing takes an infinity away.
        Merging::Combine
    }

    fn saved_type(&self) -> Option<&DataType> {
        Some(&DataType::Binary)
    }

    fn initial(&self) -> Result<Moments, String> {
        Ok(Moments::default())
    }

    fn accumulate(&self, state: &mut Moments, arguments: &[ArrayRef]) -> Result<(), String> {
        let [y, x] = [0, 1].map(|argument| arguments[argument].as_primitive::<Float64Type>());
        for row in 0..y.len() {
            if y.is_valid(row) && x.is_valid(row) {
                state.add(y.value(row), x.value(row));
            }
        }
        Ok(())
    }

    fn merge(
        &self,
        states: &mut [Moments],
        others: &[Moments],
        pairs: &[(u32, u32)],
        change: Change,
    ) -> Result<(), String> {
        assert!(change == Change::Add, "sums that are rounded are not taken away");
        for &(from, to) in pairs {
            states[to as usize] = states[to as usize].plus(&others[from as usize]);
        }
        Ok(())
    }

    fn save(&self, states: &[&Moments]) -> Result<ArrayRef, String> {
        Ok(saved_words(states.iter().map(|state| {
            let [x, y, xx, yy, xy] = [state.x, state.y, state.xx, state.yy, state.xy];
            let sums = [x.high, x.low, y.high, y.low, xx.high, xx.low, yy.high, yy.low, xy.high, xy.low];
            let mut words = [state.count as u64; 11];
            words[1..].iter_mut().zip(sums).for_each(|(word, sum)| *word = sum.to_bits());
            words
        })))
    }

    fn restore(&self, saved: &ArrayRef) -> Result<Vec<Moments>, String> {
        let states = restored_words::<11>(saved)?.into_iter().map(|words| {
            let sum = |at: usize| WideFloat { high: f64::from_bits(words[at]), low: f64::from_bits(words[at + 1]) };
            Moments { count: words[0] as i64, x: sum(1), y: sum(3), xx: sum(5), yy: sum(7), xy: sum(9) }
        });
        Ok(states.collect())
    }

    fn finish(&self, states: &[&Moments]) -> Result<ArrayRef, String> {
        Ok(match self {
            PairFunction::Count => Arc::new(Int64Array::from_iter_values(states.iter().map(|state| state.count))),
            _ => Arc::new(states.iter().map(|state| state.value(*self)).collect::<Float64Array>()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(pairs: &[(f64, f64)]) -> Moments {
        let mut moments = Moments::default();
        pairs.iter().for_each(|&(y, x)| moments.add(y, x));
        moments
    }

    #[test]
    fn results_do_not_depend_on_where_values_lie() {
        use PairFunction::{Correlation, Determination, Intercept, PopulationCovariance, SampleCovariance, Slope};
        for offset in [0.0, 1e3, -1e9, 1e12] {
            let pairs = [(1.0, 2.0), (3.0, 4.0), (2.0, 6.0), (6.0, 8.0)].map(|(y, x)| (y + offset, x + offset));
            let value = |function| moments(&pairs).value(function).unwrap();
            assert_eq!(value(PopulationCovariance), 3.5, "{offset}");
            assert_eq!(value(SampleCovariance), 14.0 / 3.0, "{offset}");
            assert_eq!(value(Slope), 0.7, "{offset}");
            assert_eq!(value(Intercept), -0.5 + 0.3 * offset, "{offset}");
            assert_eq!(value(Correlation), 14.0 / 280.0_f64.sqrt(), "{offset}");
            assert!((value(Determination) - 0.7).abs() < 1e-15, "{offset}");
        }
    }

    #[test]
    fn few_and_equal_pairs_have_no_line() {
        use PairFunction::{Correlation, Determination, SampleCovariance, Slope};
        assert!(PAIR_FUNCTIONS.iter().all(|&function| moments(&[]).value(function).is_none()));
        let one = moments(&[(1.0, 2.0)]);
        assert!([Correlation, Determination, SampleCovariance, Slope].iter().all(|&it| one.value(it).is_none()));
        let level = moments(&[(0.1, 1.0), (0.1, 2.0), (0.1, 4.0)]);
        assert_eq!(level.value(Slope), Some(0.0));
        assert_eq!(level.value(Determination), Some(1.0));
        assert_eq!(level.value(Correlation), None);
        let upright = moments(&[(1.0, 0.1), (2.0, 0.1), (4.0, 0.1)]);
        assert_eq!(upright.value(Slope), None);
    }

    #[test]
    fn what_is_not_finite_stays_so() {
        assert!(moments(&[(1.0, 2.0), (f64::NAN, 3.0)]).value(PairFunction::Slope).unwrap().is_nan());
        assert!(moments(&[(1.0, 2.0), (2.0, f64::INFINITY)]).value(PairFunction::Correlation).unwrap().is_nan());
        let large = moments(&[(1e100, 1e100), (2e100, 2e100), (4e100, 4e100)]);
        assert!((large.value(PairFunction::Correlation).unwrap() - 1.0).abs() < 1e-15);
    }

    #[test]
    fn states_are_read_as_they_were_written() {
        let one = moments(&[(0.1, 2.0), (3.0, 0.7)]);
        let saved = PairFunction::Slope.save(&[&one, &Moments::default()]).unwrap();
        let restored = PairFunction::Slope.restore(&saved).unwrap();
        assert_eq!(restored[0].value(PairFunction::Slope), one.value(PairFunction::Slope));
        assert_eq!(restored[1].count, 0);
    }
}
