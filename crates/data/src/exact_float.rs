//! Sums of doubles that lose nothing, so that values can be taken out again.
//!
//! A double is a whole number of units of 2^-1074. Sums of these are kept in limbs of 32 bits, as long as the range of doubles is wide, each in
//! 64 bits so that carries wait. What a sum is does not depend on the order in which values came and left.
//! (Neal, Fast exact summation using small and large superaccumulators, 2015.)

use crate::wide_float::WideFloat;

/// How many bits a limb has.
const LIMB_BITS: i32 = 32;

/// Which of a number's bits these are.
const LIMB_MASK: i64 = (1 << LIMB_BITS) - 1;

/// The lowest bit of any double: 2^-1074.
const LOWEST_BIT: i32 = -1074;

/// The 2098 bits of doubles, and 62 more for sums of many of them.
const LIMBS: usize = 2160_usize.div_ceil(LIMB_BITS as usize) + 1;

/// A limb takes less than 2^33 each time, and has room for 2^63.
const ADDITIONS_MAX: u32 = 1 << 29;

/// An exact sum of doubles. Those that are not finite are counted.
#[derive(Debug, Clone)]
pub struct ExactFloat {
    /// The lowest first; the highest has the sign.
    limbs: [i64; LIMBS],
    /// Additions since the limbs were carried.
    additions: u32,
    nans: i64,
    infinities: i64,
    negative_infinities: i64,
}

impl Default for ExactFloat {
    fn default() -> ExactFloat {
        ExactFloat { limbs: [0; LIMBS], additions: 0, nans: 0, infinities: 0, negative_infinities: 0 }
    }
}

impl ExactFloat {
    /// Takes a number in.
    pub fn add(&mut self, value: f64) {
        self.change(value, 1);
    }

    /// Takes a number out that was taken in.
    pub fn subtract(&mut self, value: f64) {
        self.change(value, -1);
    }

    /// Takes the square of a number in.
    pub fn add_square(&mut self, value: f64) {
        let WideFloat { high, low } = WideFloat::square(value);
        self.change(high, 1);
        self.change(low, 1);
    }

    /// Takes the square of a number out that was taken in.
    pub fn subtract_square(&mut self, value: f64) {
        let WideFloat { high, low } = WideFloat::square(value);
        self.change(high, -1);
        self.change(low, -1);
    }

    fn change(&mut self, value: f64, sign: i64) {
        if !value.is_finite() {
            let count = match value {
                f64::INFINITY => &mut self.infinities,
                f64::NEG_INFINITY => &mut self.negative_infinities,
                _ => &mut self.nans,
            };
            *count += sign;
            return;
        }
        let bits = value.to_bits();
        let (exponent, fraction) = ((bits >> 52) as usize & 0x7FF, bits as i64 & ((1 << 52) - 1));
        // Of the smallest numbers the first bit is written down, and their exponent is that of the next larger ones.
        let (mantissa, place) = if exponent == 0 { (fraction, 0) } else { (fraction | 1 << 52, exponent - 1) };
        let mantissa = if value.is_sign_negative() { -sign * mantissa } else { sign * mantissa };
        let (limb, shift) = (place / LIMB_BITS as usize, place % LIMB_BITS as usize);
        let shifted = i128::from(mantissa) << shift;
        self.limbs[limb] += shifted as i64 & LIMB_MASK;
        self.limbs[limb + 1] += (shifted >> LIMB_BITS) as i64 & LIMB_MASK;
        self.limbs[limb + 2] += (shifted >> (2 * LIMB_BITS)) as i64;
        self.additions += 1;
        if self.additions == ADDITIONS_MAX {
            carry(&mut self.limbs);
            self.additions = 0;
        }
    }

    /// The sum, in about 106 bits; not finite where it is not, or has none.
    pub fn sum(&self) -> WideFloat {
        match (self.nans, self.infinities, self.negative_infinities) {
            (0, 0, 0) => rounded(self.limbs),
            (0, _, 0) => WideFloat::new(f64::INFINITY),
            (0, 0, _) => WideFloat::new(f64::NEG_INFINITY),
            _ => WideFloat::new(f64::NAN),
        }
    }
}

/// Leaves each limb but the highest its own bits.
fn carry(limbs: &mut [i64; LIMBS]) {
    let mut carried = 0;
    let (highest, others) = limbs.split_last_mut().expect("there are limbs");
    for limb in others {
        *limb += carried;
        carried = *limb >> LIMB_BITS;
        *limb &= LIMB_MASK;
    }
    *highest += carried;
}

/// The number that limbs are, in 97 to 128 bits of them.
fn rounded(mut limbs: [i64; LIMBS]) -> WideFloat {
    carry(&mut limbs);
    let is_negative = limbs[LIMBS - 1] < 0;
    if is_negative {
        limbs.iter_mut().for_each(|limb| *limb = -*limb);
        carry(&mut limbs);
    }
    let highest = limbs.iter().rposition(|&limb| limb != 0).unwrap_or_default();
    let lowest = highest.saturating_sub(3);
    let bits = limbs[lowest..=highest].iter().rev().fold(0, |bits: u128, &limb| bits << LIMB_BITS | limb as u128);
    // Whatever is below says on which side of the middle between two doubles the number is.
    let bits = bits | u128::from(limbs[..lowest].iter().any(|&limb| limb != 0));
    let high = bits as f64;
    // What rounding added is less than the last of 53 bits.
    let low = bits.wrapping_sub(high as u128) as i128 as f64;
    let exponent = lowest as i32 * LIMB_BITS + LOWEST_BIT;
    let sign = if is_negative { -1.0 } else { 1.0 };
    let high = sign * scaled(high, exponent);
    if high.is_finite() { WideFloat { high, low: sign * scaled(low, exponent) } } else { WideFloat::new(high) }
}

/// A number times a power of two, which may be beyond those that doubles have.
fn scaled(value: f64, exponent: i32) -> f64 {
    let half = exponent / 2;
    value * power_of_two(half) * power_of_two(exponent - half)
}

/// A power of two that is a normal number.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sum(values: &[f64]) -> f64 {
        let mut total = ExactFloat::default();
        values.iter().for_each(|&value| total.add(value));
        total.sum().high
    }

    #[test]
    fn nothing_is_lost() {
        assert_eq!(sum(&[]), 0.0);
        assert_eq!(sum(&[1e300, 1.0, -1e300, 1e-300]), 1.0);
        assert_eq!(sum(&[f64::MAX, f64::MAX, -f64::MAX]), f64::MAX);
        assert_eq!(sum(&[f64::MAX, f64::MAX]), f64::INFINITY);
        assert_eq!(sum(&[-f64::MAX, -f64::MAX]), f64::NEG_INFINITY);
        assert_eq!(sum(&[5e-324, 5e-324, -1.5e-323]), -5e-324);
        assert_eq!(sum(&[0.1; 10]), 1.0);
        assert_eq!(sum(&[-0.5, -0.25]), -0.75);
        let half_a_digit = f64::EPSILON / 2.0;
        assert_eq!(sum(&[1.0, half_a_digit]), 1.0);
        assert_eq!(sum(&[1.0, half_a_digit, 1e-200]), 1.0 + f64::EPSILON);
        assert_eq!(sum(&[1.0, half_a_digit, -1e-200]), 1.0);
    }

    #[test]
    fn what_is_not_finite_leaves_again() {
        let mut total = ExactFloat::default();
        [2.0, f64::INFINITY].into_iter().for_each(|value| total.add(value));
        assert_eq!(total.sum().high, f64::INFINITY);
        total.add(f64::NEG_INFINITY);
        assert!(total.sum().high.is_nan());
        total.subtract(f64::INFINITY);
        assert_eq!(total.sum().high, f64::NEG_INFINITY);
        total.add(f64::NAN);
        total.subtract(f64::NEG_INFINITY);
        assert!(total.sum().high.is_nan());
        total.subtract(f64::NAN);
        assert_eq!(total.sum().high, 2.0);
    }

    #[test]
    fn squares_leave_again_as_they_came() {
        let mut total = ExactFloat::default();
        let values = [3.0, 1.0 + f64::EPSILON, -1e200, 1e-170, 5e-324, -7.25];
        values.iter().for_each(|&value| total.add_square(value));
        assert_eq!(total.sum().high, f64::INFINITY);
        total.subtract_square(-1e200);
        let expected = 9.0 + (1.0 + f64::EPSILON) * (1.0 + f64::EPSILON) + 7.25 * 7.25;
        assert!((total.sum().high - expected).abs() <= f64::EPSILON * expected);
        [0, 1, 3, 4, 5].iter().for_each(|&left| total.subtract_square(values[left]));
        assert_eq!(total.sum(), WideFloat::default());
    }

    #[test]
    fn carries_wait_for_each_other() {
        let mut total = ExactFloat { additions: ADDITIONS_MAX - 3, ..ExactFloat::default() };
        let values = [1e10, -3.0, 7e-5, 2.0, -1e10, 1.0];
        values.iter().for_each(|&value| total.add(value));
        assert_eq!((total.sum().high, total.additions), (7e-5, 3));
    }

    /// Any number of bits, whose exponents are near each other.
    fn numbers() -> impl Strategy<Value = f64> {
        (any::<i64>(), -40..40_i32).prop_map(|(digits, exponent)| digits as f64 * 2_f64.powi(exponent))
    }

    proptest! {
        #[test]
        fn sums_are_those_of_whole_numbers(values in prop::collection::vec(numbers(), 0..40), left in 0_usize..40) {
            // In units of 2^-40, of which all have less than 2^143: two halves of 128 bits.
            let whole = |value: f64| {
                let units = value * 2_f64.powi(40);
                let upper = (units / 2_f64.powi(64)).trunc();
                (upper as i128, (units - upper * 2_f64.powi(64)) as i128)
            };
            let mut total = ExactFloat::default();
            values.iter().for_each(|&value| total.add(value));
            let left = left.min(values.len());
            values[..left].iter().for_each(|&value| total.subtract(value));
            let (upper, lower) =
                values[left..].iter().map(|&value| whole(value)).fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
            let (upper, lower) = (upper + (lower >> 64), lower & i128::from(u64::MAX));
            let unit = WideFloat::new(2_f64.powi(-40));
            let parts = [(upper >> 32) as f64 * 2_f64.powi(96), (upper & 0xFFFF_FFFF) as f64 * 2_f64.powi(64), (lower >> 32) as f64 * 2_f64.powi(32), (lower & 0xFFFF_FFFF) as f64];
            let expected = parts.into_iter().map(WideFloat::new).fold(WideFloat::default(), WideFloat::plus).times(unit);
            let found = total.sum();
            let scale = expected.high.abs().max(f64::MIN_POSITIVE);
            prop_assert!(found.minus(expected).high.abs() <= scale * 2_f64.powi(-90), "{found:?}, {expected:?}");
            values[left..].iter().for_each(|&value| total.subtract(value));
            prop_assert_eq!(total.sum(), WideFloat::default());
        }
    }
}
