//! Decimals of up to 38 digits, held in 128 bits: sums that know when they have more, and doubles.

use std::io::Write;

use arrow::datatypes::i256;

/// The smallest number that has more digits than a decimal can have.
const LIMIT: u128 = 10_u128.pow(38);

/// Whether a decimal can have these digits.
pub const fn fits(digits: i128) -> bool {
    digits.unsigned_abs() < LIMIT
}

/// What a sum of decimals is, with the point left out; `None` where it has too many digits.
pub fn fitting(total: i256) -> Option<i128> {
    total.to_i128().filter(|&digits| fits(digits))
}

/// An exact sum of decimals, however large it is on the way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DecimalTotal {
    /// The sum without what does not fit 128 bits.
    low: i128,
    /// How often 2^128 is missing in it.
    carry: i64,
}

impl DecimalTotal {
    /// The sum of no decimals.
    pub const ZERO: DecimalTotal = DecimalTotal { low: 0, carry: 0 };

    /// The sum of both.
    #[must_use]
    #[inline]
    pub fn and(self, other: DecimalTotal) -> DecimalTotal {
        let sum = self.plus(other.low);
        DecimalTotal { carry: sum.carry + other.carry, ..sum }
    }

    /// What is left without the other, which is part of it.
    #[must_use]
    #[inline]
    pub fn without(self, other: DecimalTotal) -> DecimalTotal {
        let rest = self.minus(other.low);
        DecimalTotal { carry: rest.carry - other.carry, ..rest }
    }

    /// The sum with one decimal more.
    #[must_use]
    #[inline]
    pub fn plus(self, digits: i128) -> DecimalTotal {
        let (low, has_overflowed) = self.low.overflowing_add(digits);
        DecimalTotal { low, carry: self.carry + i64::from(has_overflowed) * sign(digits) }
    }

    /// The sum with one decimal less.
    #[must_use]
    #[inline]
    pub fn minus(self, digits: i128) -> DecimalTotal {
        let (low, has_overflowed) = self.low.overflowing_sub(digits);
        DecimalTotal { low, carry: self.carry - i64::from(has_overflowed) * sign(digits) }
    }

    /// The sum without what does not fit 128 bits, and how often 2^128 is missing in it.
    pub fn parts(self) -> (i128, i64) {
        (self.low, self.carry)
    }

    /// The sum that has these parts.
    pub fn of_parts(low: i128, carry: i64) -> DecimalTotal {
        DecimalTotal { low, carry }
    }

    /// Its digits; `None` where they do not fit 128 bits.
    #[inline]
    pub fn digits(self) -> Option<i128> {
        (self.carry == 0).then_some(self.low)
    }

    /// The sum.
    pub fn exact(self) -> i256 {
        i256::from_i128(self.low).wrapping_add(i256::from_parts(0, self.carry.into()))
    }
}

fn sign(digits: i128) -> i64 {
    if digits < 0 { -1 } else { 1 }
}

/// The upper half of a decimal's 128 bits: what [`total_of_halves`] wants to be summed beside the decimal.
#[inline]
pub fn upper_half(digits: i128) -> i64 {
    (digits >> 64) as i64
}

/// The sum of fewer than 2^63 decimals, from one that may have wrapped around in 128 bits and that of their upper halves.
///
/// The lower halves, which the sum of the upper ones leaves out, are none of them negative and come to less than 2^127. So what is missing
/// is known from its last 128 bits, and these from those of the sum.
pub fn total_of_halves(wrapped: i128, upper: i128) -> i256 {
    let lower = wrapped.wrapping_sub(upper << 64) as u128;
    (i256::from_i128(upper) << 64_u8).wrapping_add(i256::from_parts(lower, 0))
}

/// The largest power of ten that a double holds, as all below it, exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// Digits of which a double has all, whatever they are.
pub const DOUBLE_DIGITS: u8 = 15;

/// Whether all decimals of a type become the nearest double when their digits, as a double, are divided by a power of ten.
pub const fn divides_exactly(precision: u8, scale: i8) -> bool {
    precision <= DOUBLE_DIGITS && 0 <= scale && (scale as usize) < POWERS.len()
}

/// The double nearest to a decimal.
#[inline]
pub fn to_double(digits: i128, scale: i8) -> f64 {
    let power = usize::try_from(scale).ok().and_then(|scale| POWERS.get(scale));
    match power {
        // Both are exact, so that the quotient alone is rounded.
        Some(power) if digits.unsigned_abs() <= 1 << 53 => digits as f64 / power,
        _ => nearest_double(digits, scale),
    }
}

/// Reading text is what rounds correctly, whatever the number of digits.
fn nearest_double(digits: i128, scale: i8) -> f64 {
    let mut text = [0_u8; 48];
    let mut room = text.as_mut_slice();
    write!(room, "{digits}e{}", -i32::from(scale)).expect("a sign, 39 digits and an exponent of 4 letters");
    let length = 48 - room.len();
    let text = std::str::from_utf8(&text[..length]).expect("digits are ASCII");
    text.parse().expect("digits and an exponent are a number")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: i128 = 10_i128.pow(38) - 1;

    #[test]
    fn totals_come_back_from_beyond_128_bits() {
        let three = DecimalTotal::default().plus(MOST).plus(MOST).plus(MOST);
        assert_eq!(three.exact().to_string(), format!("2{}7", "9".repeat(37)));
        assert_eq!(three.digits(), None);
        assert_eq!(three.minus(MOST).minus(MOST).digits(), Some(MOST));
        let less = DecimalTotal::default().minus(MOST).minus(MOST).plus(-5);
        assert_eq!(less.exact().to_string(), format!("-2{}3", "0".repeat(37)));
        assert_eq!(less.plus(MOST).plus(MOST).digits(), Some(-5));
    }

    #[test]
    fn totals_of_halves_are_those_of_wholes() {
        let values = [MOST, MOST, -1, 0, 1, i128::from(u64::MAX), -i128::from(u64::MAX) - 1, MOST, MOST - 7];
        for negated in [1, -1] {
            let (mut total, mut wrapped, mut upper) = (DecimalTotal::default(), 0_i128, 0_i128);
            for value in values.map(|value| value * negated) {
                total = total.plus(value);
                wrapped = wrapped.wrapping_add(value);
                upper += i128::from(upper_half(value));
                assert_eq!(total_of_halves(wrapped, upper), total.exact());
            }
            assert_eq!(fitting(total.exact()), None);
        }
        assert_eq!(fitting(i256::from_i128(-MOST)), Some(-MOST));
        assert_eq!(fitting(i256::from_i128(MOST + 1)), None);
    }

    #[test]
    fn doubles_are_the_nearest() {
        assert_eq!(to_double(1, 1), 0.1);
        assert_eq!(to_double(-12_345, 2), -123.45);
        // 10^23 lies halfway between two doubles, the even one of which is below.
        assert_eq!(to_double(10_i128.pow(23), 0), 1e23);
        assert_eq!(to_double(123_456_789_012_345_678_901_234_567_890, 15), 123_456_789_012_345.67);
        assert_eq!(to_double(MOST, 38), 1.0);
        assert_eq!(to_double(1, 38), 1e-38);
        assert_eq!(to_double((1 << 53) + 1, 0), 9007199254740992.0);
        assert!((0..2000_i128).all(|digits| {
            let digits = digits * 7_919_191_919_191_919_191_919;
            to_double(digits, 15) == format!("{digits}e-15").parse::<f64>().unwrap()
        }));
    }
}
