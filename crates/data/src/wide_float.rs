//! Floating-point numbers of about 106 bits: sums that lose nothing that matters.
//!
//! A variance is the small difference of two large sums. In 53 bits that difference is noise as soon as the mean is large beside the
//! deviation; in 106 bits it is exact to far more digits than the result has, in whatever order values came and tables were added.
//! (Dekker, A floating-point technique for extending the available precision, 1971; Knuth, TAOCP 2, section 4.2.2.)

/// `high + low`, where `low` is at most half a unit in the last place of `high`. Where `high` is not finite, `low` is zero.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[repr(C)]
pub struct WideFloat {
    /// The number, rounded.
    pub high: f64,
    /// What rounding left out.
    pub low: f64,
}

/// 2^27 + 1: multiplying by it splits a number's 53 bits into halves.
const SPLITTER: f64 = 134_217_729.0;

/// What the last bits of a sum of many numbers may be wrong by, relative to it: 2^-100.
const ROUNDING: f64 = 1.0 / (1_u128 << 100) as f64;

/// The rounded sum and what rounding left out.
fn two_sum(a: f64, b: f64) -> WideFloat {
    let high = a + b;
    let from_b = high - a;
    WideFloat { high, low: (a - (high - from_b)) + (b - from_b) }
}

/// The halves of a number's bits.
fn split(value: f64) -> (f64, f64) {
    let shifted = SPLITTER * value;
    let high = shifted - (shifted - value);
    (high, value - high)
}

/// The rounded product and what rounding left out.
fn two_product(a: f64, b: f64) -> WideFloat {
    let high = a * b;
    let ((a_high, a_low), (b_high, b_low)) = (split(a), split(b));
    WideFloat { high, low: ((a_high * b_high - high) + a_high * b_low + a_low * b_high) + a_low * b_low }.checked()
}

impl WideFloat {
    /// The number.
    pub fn new(value: f64) -> WideFloat {
        WideFloat { high: value, low: 0.0 }
    }

    /// With `low` zero where it means nothing.
    fn checked(self) -> WideFloat {
        if self.low.is_finite() { self } else { WideFloat::new(self.high) }
    }

    /// The sum of both: where that is not finite, what adding plain numbers gives.
    pub fn plus(self, other: WideFloat) -> WideFloat {
        let sum = two_sum(self.high, other.high);
        let rest = two_sum(self.low, other.low);
        let plain = sum.high;
        let sum = two_sum(sum.high, sum.low + rest.high);
        let sum = two_sum(sum.high, sum.low + rest.low);
        if sum.low.is_finite() { sum } else { WideFloat::new(plain) }
    }

    /// The difference.
    pub fn minus(self, other: WideFloat) -> WideFloat {
        self.plus(WideFloat { high: -other.high, low: -other.low })
    }

    /// The square of a number, exactly where it does not overflow.
    pub fn square(value: f64) -> WideFloat {
        two_product(value, value)
    }

    /// The product of two numbers, exactly where it does not overflow.
    pub fn product(a: f64, b: f64) -> WideFloat {
        two_product(a, b)
    }

    /// The product.
    pub fn times(self, other: WideFloat) -> WideFloat {
        let product = two_product(self.high, other.high);
        two_sum(product.high, product.low + (self.high * other.low + self.low * other.high)).checked()
    }

    /// The quotient by a plain number.
    pub fn over(self, divisor: f64) -> WideFloat {
        self.quotient(WideFloat::new(divisor))
    }

    /// The quotient.
    pub fn quotient(self, divisor: WideFloat) -> WideFloat {
        let first = self.high / divisor.high;
        let rest = self.minus(divisor.times(WideFloat::new(first)));
        two_sum(first, rest.high / divisor.high).checked()
    }
}

/// The variance of `count` values from their sum and the sum of their squares: of a whole population, or the estimate from a sample.
/// `None` where there are too few values.
pub fn variance(sum: WideFloat, squares: WideFloat, count: i64, is_sample: bool) -> Option<f64> {
    let divisor = count - i64::from(is_sample);
    if divisor <= 0 {
        return None;
    }
    let deviations = deviations(squares, [sum, sum], count, squares.high).high;
    // A NaN stays.
    Some(if deviations < 0.0 { 0.0 } else { deviations / divisor as f64 })
}

/// The sum of the products of what two columns of `count` values deviate from their means by, from the sum of the products of the values and the sums
/// of both columns. What is less than the last digits of `scale`, which the products may reach, is rounding and becomes zero.
pub fn deviations(products: WideFloat, sums: [WideFloat; 2], count: i64, scale: f64) -> WideFloat {
    let [a, b] = sums;
    let deviations = products.minus(a.times(b).over(count as f64));
    if deviations.high.abs() <= scale * ROUNDING { WideFloat::default() } else { deviations }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(values: &[f64]) -> (WideFloat, WideFloat) {
        let zero = WideFloat::default();
        values.iter().fold((zero, zero), |(sum, squares), &value| {
            (sum.plus(WideFloat::new(value)), squares.plus(WideFloat::square(value)))
        })
    }

    fn population(values: &[f64]) -> Option<f64> {
        let (sum, squares) = sums(values);
        variance(sum, squares, values.len() as i64, false)
    }

    #[test]
    fn nothing_is_lost_between_large_and_small() {
        let values = [1e16, 1.0, -1e16, 1e-10];
        let (sum, _) = sums(&values);
        assert_eq!(sum.high + sum.low, 1.0 + 1e-10);
    }

    #[test]
    fn what_is_not_finite_adds_up_as_plain_numbers_do() {
        let sum = |values: &[f64]| sums(values).0.high;
        assert_eq!(sum(&[f64::INFINITY, 2.5, 3.5]), f64::INFINITY);
        assert_eq!(sum(&[2.5, f64::NEG_INFINITY, 3.5]), f64::NEG_INFINITY);
        assert_eq!(sum(&[f64::MAX, f64::MAX, 1.0]), f64::INFINITY);
        assert!(sum(&[f64::INFINITY, 1.0, f64::NEG_INFINITY]).is_nan());
        assert!(sum(&[1.0, f64::NAN, 1.0]).is_nan());
    }

    #[test]
    fn a_variance_does_not_depend_on_where_its_values_are() {
        let deviations = [4.0, 7.0, 13.0, 16.0];
        for offset in [0.0, 1e3, 1e9, -1e12, 1e15] {
            assert_eq!(population(&deviations.map(|deviation| deviation + offset)), Some(22.5), "{offset}");
        }
        let (sum, squares) = sums(&deviations);
        assert_eq!(variance(sum, squares, 4, true), Some(30.0));
    }

    #[test]
    fn a_variance_of_many_values_is_that_of_two_passes() {
        let values: Vec<f64> = (0..100_000).map(|row| 1e8 + f64::from(row * 7_919 % 1_009) / 7.0).collect();
        let mean = values.iter().map(|value| value - 1e8).sum::<f64>() / values.len() as f64;
        let squares = values.iter().map(|value| (value - 1e8 - mean).powi(2)).sum::<f64>();
        let expected = squares / values.len() as f64;
        assert!((population(&values).unwrap() / expected - 1.0).abs() < 1e-12);
    }

    #[test]
    fn too_few_values_and_values_without_a_variance() {
        assert_eq!(population(&[]), None);
        assert_eq!(population(&[3.5]), Some(0.0));
        let (sum, squares) = sums(&[3.5]);
        assert_eq!(variance(sum, squares, 1, true), None);
        assert!(population(&[1.0, f64::INFINITY]).unwrap().is_nan());
        assert!(population(&[1.0, f64::NAN, 2.0]).unwrap().is_nan());
        assert_eq!(population(&[0.1; 7]), Some(0.0));
    }
}
