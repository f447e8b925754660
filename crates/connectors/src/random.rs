//! Random numbers that depend on a seed and a position only, so that any worker can draw any of them; and those that tell names apart.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// Odd, close to 2^64 divided by the golden ratio: neighbouring positions become far apart.
const STRIDE: u64 = 0x9E37_79B9_7F4A_7C15;

/// A number that no other call has returned, here or in another process, with all likelihood.
pub(crate) fn unique() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A sequence of independent, uniform 64-bit numbers, each computed from its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    key: u64,
}

impl Stream {
    /// The stream called `name` among those of `seed`: one for each thing that is drawn.
    pub fn new(seed: u64, name: &str) -> Stream {
        let named = name.bytes().fold(mix(seed.wrapping_add(STRIDE)), |key, byte| mix(key ^ u64::from(byte)));
        Stream { key: named }
    }

    /// The number at `position`.
    #[inline(always)]
    pub fn at(self, position: u64) -> Draw {
        Draw(mix(self.key.wrapping_add(position.wrapping_mul(STRIDE))))
    }
}

/// 64 random bits. The high and the low half are independent of each other, so that one draw serves two choices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw(pub u64);

impl Draw {
    /// Uniform in `[0, bound)`, from the high half. No bound is favoured by more than one in 2^32 / `bound`.
    #[inline(always)]
    pub fn below(self, bound: u32) -> u32 {
        (((self.0 >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// Uniform in `[0, bound)`, from the low half.
    #[inline(always)]
    pub fn low_below(self, bound: u32) -> u32 {
        (((self.0 & 0xFFFF_FFFF) * u64::from(bound)) >> 32) as u32
    }

    /// Uniform in `[0, 1)`, with 53 bits.
    #[inline(always)]
    pub fn unit(self) -> f64 {
        (self.0 >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in `[0, bound)` for large bounds, from all bits.
    #[inline(always)]
    pub fn below_wide(self, bound: u64) -> u64 {
        ((u128::from(self.0) * u128::from(bound)) >> 64) as u64
    }
}

/// The finaliser of SplitMix64: a bijection in which each input bit flips each output bit half of the time.
#[inline(always)]
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// Division of numbers below 2^63 by one divisor, as a multiplication: several times as fast as the instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Divisor {
    divisor: u64,
    reciprocal: u64,
    shift: u32,
}

impl Divisor {
    /// # Panics
    /// Where the divisor is zero or 2^63 or more.
    pub fn new(divisor: u64) -> Divisor {
        assert!(divisor > 0 && divisor < 1 << 63, "the divisor {divisor} is out of range");
        // With 2^shift the power of two at or above the divisor, the reciprocal, rounded up, exceeds 2^(63+shift)/divisor
        // by less than 2^shift/divisor; times a dividend below 2^63 that is too little to reach the next quotient.
        let shift = divisor.next_power_of_two().trailing_zeros();
        let reciprocal = (1u128 << (63 + shift)).div_ceil(u128::from(divisor));
        Divisor { divisor, reciprocal: reciprocal as u64, shift: 63 + shift }
    }

    /// The divisor.
    pub fn get(self) -> u64 {
        self.divisor
    }

    /// `dividend` div the divisor.
    #[inline(always)]
    pub fn quotient(self, dividend: u64) -> u64 {
        debug_assert!(dividend < 1 << 63);
        ((u128::from(dividend) * u128::from(self.reciprocal)) >> self.shift) as u64
    }

    /// `dividend` mod the divisor.
    #[inline(always)]
    pub fn remainder(self, dividend: u64) -> u64 {
        dividend - self.quotient(dividend) * self.divisor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_uniform_and_independent() {
        let (first, second) = (Stream::new(1, "a"), Stream::new(1, "b"));
        assert_ne!(first, second);
        assert_ne!(first, Stream::new(2, "a"));
        let rows = 300_000u64;
        let mut counts = [[0u32; 3]; 3];
        for position in 0..rows {
            let draw = first.at(position);
            counts[draw.below(3) as usize][draw.low_below(3) as usize] += 1;
            assert!(second.at(position).below_wide(7) < 7);
            assert!((0.0..1.0).contains(&draw.unit()));
        }
        let expected = rows as f64 / 9.0;
        for count in counts.into_iter().flatten() {
            // Five standard deviations of a binomial count.
            assert!((f64::from(count) - expected).abs() < 5.0 * expected.sqrt(), "{counts:?}");
        }
    }

    #[test]
    fn reciprocals_divide_exactly() {
        let dividends = [0, 1, 2, 49, 50, 51, 953, (1 << 32) - 1, 1 << 32, (1 << 63) - 2, (1 << 63) - 1];
        let divisors = [1, 2, 3, 7, 46, 50, 1 << 20, 1_000_003, (1 << 62) + 1, (1 << 63) - 1];
        for divisor in divisors {
            let by = Divisor::new(divisor);
            let multiples = (0..64).map(|power| (divisor << power.min(divisor.leading_zeros() - 1)) & ((1 << 63) - 1));
            for dividend in dividends.into_iter().chain(multiples.flat_map(|m| [m, m.saturating_sub(1)])) {
                assert_eq!(by.quotient(dividend), dividend / divisor, "{dividend} / {divisor}");
                assert_eq!(by.remainder(dividend), dividend % divisor, "{dividend} % {divisor}");
            }
        }
    }
}
