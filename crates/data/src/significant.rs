//! Numbers by their first eight bits that count: what is kept of them where a percentile need not be exact.
//!
//! A number is rounded to the nearest that has eight significant bits: it stays within [`RELATIVE_ERROR_MAX`] of itself, and whole numbers
//! up to 256 stay what they are. There are 128 such numbers from each power of two to the next, so that counting them takes little
//! memory, and counts of several parts of a stream add up to those of the whole in whatever order. (The logarithmic buckets of
//! DDSketch, Masson, Rim and Lee, 2019, section 2, with the linear interpolation between powers of two of its section 2.2.)

/// Bits of a number's fraction that are kept.
const KEPT_BITS: u32 = 7;

const DROPPED_BITS: u32 = f64::MANTISSA_DIGITS - 1 - KEPT_BITS;

/// What a number is changed by at most, in parts of itself. Numbers below 1e-305 may be changed by more.
pub const RELATIVE_ERROR_MAX: f64 = 1.0 / (2u32 << KEPT_BITS) as f64;

/// The rounded number as an integer: of the same order as the numbers themselves, NaN the largest.
#[inline]
pub fn rounded(value: f64) -> i32 {
    if value.is_nan() {
        return (f64::NAN.to_bits() >> DROPPED_BITS) as i32;
    }
    let bits = value.abs().to_bits();
    let nearest = (bits + (1 << (DROPPED_BITS - 1))) >> DROPPED_BITS;
    let largest = if value.is_finite() { f64::MAX } else { f64::INFINITY };
    let rounded = nearest.min(largest.to_bits() >> DROPPED_BITS) as i32;
    if value < 0.0 { -rounded } else { rounded }
}

/// The number that [`rounded`] made this integer of.
pub fn value(rounded: i32) -> f64 {
    let magnitude = f64::from_bits(u64::from(rounded.unsigned_abs()) << DROPPED_BITS);
    if rounded < 0 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_what_they_nearly_are() {
        let mut number = 1e-300;
        while number < 1e300 {
            for signed in [number, -number] {
                let kept = value(rounded(signed));
                assert!((kept - signed).abs() <= RELATIVE_ERROR_MAX * number, "{signed} became {kept}");
            }
            number *= 1.003_7;
        }
        for whole in -256..=256 {
            assert_eq!(value(rounded(f64::from(whole))), f64::from(whole));
        }
        for special in [0.0, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(value(rounded(special)), special);
        }
        assert!(value(rounded(f64::MAX)).is_finite());
        assert_eq!(rounded(-0.0), rounded(0.0));
    }

    #[test]
    fn numbers_keep_their_order() {
        let ascending =
            [f64::NEG_INFINITY, f64::MIN, -2.0, -1.5, -1e-320, 0.0, 5e-310, 0.1, 7.0, f64::MAX, f64::INFINITY];
        let kept = ascending.map(rounded);
        assert!(kept.is_sorted(), "{kept:?}");
        assert!(rounded(f64::NAN) > rounded(f64::INFINITY) && rounded(-f64::NAN) == rounded(f64::NAN));
        assert!(value(rounded(f64::NAN)).is_nan());
    }
}
