//! Prices: log-uniform between 1.00 and 1,000,000.00, in cents.

use crate::random::Draw;

/// Distinct values of ten bits.
const STEPS: usize = 1 << 10;
const STEP_MASK: u32 = STEPS as u32 - 1;

/// Decades that prices span.
const DECADES: f64 = 6.0;

/// `round(100 * 10^(6u))` for `u` of 30 uniform bits.
///
/// The power is a product over three groups of ten bits of `u`: two looked up, the last so small that three terms of its
/// series are exact. Only sums and products are used, so that all machines agree on every price.
#[derive(Debug)]
pub(super) struct Prices {
    coarse: Box<[f64; STEPS]>,
    fine: Box<[f64; STEPS]>,
}

impl Prices {
    pub(super) fn new() -> Prices {
        let powers = |exponent: f64| Box::new(std::array::from_fn(|step| exp10(exponent * step as f64)));
        let coarse_step = DECADES / STEPS as f64;
        Prices { coarse: powers(coarse_step), fine: powers(coarse_step / STEPS as f64) }
    }

    /// The price of a draw, in cents. Uses the high 30 bits.
    #[inline(always)]
    pub(super) fn at(&self, draw: Draw) -> i64 {
        let bits = (draw.0 >> 34) as u32;
        let last = (bits & STEP_MASK) as i32;
        let rest = f64::from(last) * (DECADES * std::f64::consts::LN_10 / (1u64 << 30) as f64);
        let power = self.coarse[(bits >> 20 & STEP_MASK) as usize] * self.fine[(bits >> 10 & STEP_MASK) as usize];
        round(100.0 * power * (1.0 + rest + 0.5 * rest * rest))
    }
}

/// Rounds a non-negative number below 2^51: at 2^52 doubles are whole numbers, and the number is their low bits.
#[inline(always)]
fn round(value: f64) -> i64 {
    const WHOLE: f64 = (1u64 << 52) as f64;
    (value + WHOLE).to_bits() as i64 - WHOLE.to_bits() as i64
}

/// 10 to the power of `exponent`, between 0 and 6, by its series at a 64th of the exponent, squared six times.
fn exp10(exponent: f64) -> f64 {
    let x = exponent * std::f64::consts::LN_10 / 64.0;
    let series = (1..=18).rev().fold(1.0, |sum, term| 1.0 + sum * x / f64::from(term));
    (0..6).fold(series, |power, _| power * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_the_rounded_powers() {
        let prices = Prices::new();
        assert_eq!(prices.at(Draw(0)), 100);
        assert_eq!(prices.at(Draw(u64::MAX)), 99_999_999);
        for bits in (0..1u64 << 30).step_by(99_991) {
            let exact = 100.0 * 10f64.powf(6.0 * bits as f64 / (1u64 << 30) as f64);
            let price = prices.at(Draw(bits << 34)) as f64;
            assert!((price - exact).abs() <= 0.5 + 1e-6, "{bits}: {price} is not {exact} rounded");
        }
    }
}
