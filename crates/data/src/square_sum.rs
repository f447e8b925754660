//! Sums of squares of integers of 64 bits, exact whatever their order.

use arrow::datatypes::i256;

/// Such a sum in 192 bits, its lowest word first. A square has no more than 127 bits, so that those of 2^64 values fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct SquareSum {
    words: [u64; 3],
}

impl SquareSum {
    /// The sum of no squares.
    pub const ZERO: SquareSum = SquareSum { words: [0; 3] };

    /// The square of one value.
    #[inline]
    #[must_use]
    pub fn square(value: i64) -> SquareSum {
        let square = u128::from(value.unsigned_abs()).pow(2);
        SquareSum { words: [square as u64, (square >> 64) as u64, 0] }
    }

    /// The words above the lowest.
    #[inline]
    fn upper(self) -> u128 {
        u128::from(self.words[2]) << 64 | u128::from(self.words[1])
    }

    #[inline]
    fn of_parts(low: u64, upper: u128) -> SquareSum {
        SquareSum { words: [low, upper as u64, (upper >> 64) as u64] }
    }

    /// The sum of both.
    #[inline]
    #[must_use]
    pub fn plus(self, other: SquareSum) -> SquareSum {
        let (low, carries) = self.words[0].overflowing_add(other.words[0]);
        SquareSum::of_parts(low, self.upper().wrapping_add(other.upper()).wrapping_add(carries.into()))
    }

    /// What is left without the other, which is part of it.
    #[inline]
    #[must_use]
    pub fn minus(self, other: SquareSum) -> SquareSum {
        let (low, borrows) = self.words[0].overflowing_sub(other.words[0]);
        SquareSum::of_parts(low, self.upper().wrapping_sub(other.upper()).wrapping_sub(borrows.into()))
    }

    /// The sum as a number.
    pub fn exact(self) -> i256 {
        let [low, middle, high] = self.words;
        i256::from_parts(u128::from(middle) << 64 | u128::from(low), high.into())
    }

    /// What [`SquareSum::exact`] was made of.
    #[must_use]
    pub fn of_exact(total: i256) -> SquareSum {
        let (low, high) = total.to_parts();
        SquareSum { words: [low as u64, (low >> 64) as u64, high as u64] }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sum(values: &[i64]) -> SquareSum {
        values.iter().fold(SquareSum::default(), |sum, &value| sum.plus(SquareSum::square(value)))
    }

    #[test]
    fn carries_pass_all_words() {
        let large = sum(&[i64::MIN; 5]);
        assert_eq!(large.exact(), i256::from_parts(1 << 126, 1), "5 times 2^126");
        assert_eq!(large.minus(sum(&[i64::MIN; 4])), sum(&[i64::MIN]));
        let full = SquareSum { words: [u64::MAX, u64::MAX, 0] };
        let next = full.plus(SquareSum::square(1));
        assert_eq!(next, SquareSum { words: [0, 0, 1] });
        assert_eq!(next.minus(SquareSum::square(-1)), full);
    }

    proptest! {
        #[test]
        fn sums_are_those_of_wide_numbers(kept in any::<Vec<i64>>(), left in any::<Vec<i64>>()) {
            let square = |value: &i64| i256::from_i128(i128::from(*value).pow(2));
            let expected = kept.iter().map(square).fold(i256::ZERO, i256::wrapping_add);
            prop_assert_eq!(sum(&kept).exact(), expected);
            prop_assert_eq!(SquareSum::of_exact(expected), sum(&kept));
            prop_assert_eq!(sum(&kept).plus(sum(&left)).minus(sum(&left)).exact(), expected);
        }
    }
}
