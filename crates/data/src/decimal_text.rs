//! Numbers as they are written: 12, -.5 or 1.5e-3.

/// A number as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecimalText<'a> {
    /// Whether a minus stands before it.
    pub is_negative: bool,
    /// The digits before the point.
    pub whole: &'a [u8],
    /// The digits behind the point.
    pub fraction: &'a [u8],
    /// The power of ten that it is multiplied by; the largest and smallest stand for those beyond them.
    pub exponent: i64,
}

impl<'a> DecimalText<'a> {
    /// `None` where the text is no number.
    pub fn parse(text: &'a [u8]) -> Option<DecimalText<'a>> {
        let (is_negative, unsigned) = signed(text);
        let (mantissa, exponent) = match unsigned.iter().position(|byte| matches!(byte, b'e' | b'E')) {
            Some(at) => (&unsigned[..at], exponent(&unsigned[at + 1..])?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = match mantissa.iter().position(|&byte| byte == b'.') {
            Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
            None => (mantissa, &[][..]),
        };
        let is_number = mantissa.len() > usize::from(whole.len() < mantissa.len())
            && whole.iter().chain(fraction).all(u8::is_ascii_digit);
        is_number.then_some(DecimalText { is_negative, whole, fraction, exponent })
    }

    /// Its size times `10^scale` without a fraction, and whether that is a half or more; `None` where it is too large.
    pub fn rounded_down(&self, scale: i8) -> Option<(i128, bool)> {
        let mut digits = self.whole.iter().chain(self.fraction).map(|digit| i128::from(digit - b'0'));
        // So many digits stand before the place that is rounded to.
        let kept = (self.whole.len() as i64).saturating_add(self.exponent).saturating_add(i64::from(scale));
        let mut value = 0i128;
        for _ in 0..kept.max(0) {
            let digit = digits.next();
            if value == 0 && digit.is_none() {
                break;
            }
            value = value.checked_mul(10)?.checked_add(digit.unwrap_or(0))?;
        }
        Some((value, kept >= 0 && digits.next().is_some_and(|digit| digit >= 5)))
    }

    /// It times `10^scale`, the half rounded away from zero; `None` where it is too large.
    pub fn rounded(&self, scale: i8) -> Option<i128> {
        let (size, is_upper_half) = self.rounded_down(scale)?;
        let size = size.checked_add(i128::from(is_upper_half))?;
        Some(if self.is_negative { -size } else { size })
    }
}

fn signed(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}

fn exponent(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = signed(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |value: i64, digit: &u8| value.saturating_mul(10).saturating_add(i64::from(digit - b'0'));
    let size = digits.iter().fold(0, add);
    Some(if is_negative { -size } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_that_are_written() {
        for (text, scale, digits) in [
            ("0", 0, Some(0)),
            ("-0.0", 2, Some(0)),
            ("12", 2, Some(1_200)),
            ("+1.005", 2, Some(101)),
            ("-1.005", 2, Some(-101)),
            ("1.00499", 2, Some(100)),
            (".5", 0, Some(1)),
            ("5.", 1, Some(50)),
            ("1e3", 1, Some(10_000)),
            ("1.5E-3", 3, Some(2)),
            ("1.4e-3", 3, Some(1)),
            ("5e-3", 2, Some(1)),
            ("5e-4", 2, Some(0)),
            ("99.5", 0, Some(100)),
            ("00012", 0, Some(12)),
            ("0e2000000000", 38, Some(0)),
            ("1e-2000000000", 38, Some(0)),
            ("1e-99999999999999999999", 38, Some(0)),
            ("1e38", 0, Some(10_i128.pow(38))),
            ("1e39", 0, None),
            ("1e2000000000", 0, None),
            ("1e99999999999999999999", 0, None),
            ("", 0, None),
            (".", 0, None),
            ("-", 0, None),
            ("1e", 0, None),
            ("1e+", 0, None),
            ("1.2.3", 0, None),
            ("0x10", 0, None),
            ("inf", 0, None),
            ("NaN", 0, None),
        ] {
            let found = DecimalText::parse(text.as_bytes()).and_then(|number| number.rounded(scale));
            assert_eq!(found, digits, "{text} with {scale}");
        }
    }
}
