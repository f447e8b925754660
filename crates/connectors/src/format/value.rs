//! Numbers and booleans in text.

use pelton_data::decimal_text::DecimalText;
use pelton_data::float_text::is_java_number;

/// Why a text is no value of its column's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// It is not written as the type is.
    Form,
    /// It is written as the type is, and too large or too small for it.
    Range,
    /// A decimal with more digits after the point than the type keeps.
    Digits,
    /// A decimal with more digits before the point than the type has, which is NULL unless values are read strictly.
    TooLarge,
    /// A timestamp with a time zone, in a column without one.
    Zone,
    /// Not UTF-8.
    Utf8,
    /// An object or array that is not written as JSON is.
    Json,
    /// An escape sequence that means nothing.
    Escape,
    /// NULL in a column that cannot be.
    Null,
    /// NULL in a part of a nested value that cannot be.
    NullPart,
    /// The row ends before it.
    Missing,
    /// An object has not the member.
    Member,
}

/// A decimal integer with an optional sign.
#[inline]
pub(crate) fn integer(text: &[u8]) -> Result<i64, Wrong> {
    let (negative, digits) = signed(text);
    if digits.is_empty() || digits.len() > 18 {
        return long_integer(negative, digits);
    }
    let mut value = 0i64;
    let mut is_digits = true;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        is_digits &= digit <= 9;
        // What is no digit may overflow; the value is then not used.
        value = value.wrapping_mul(10).wrapping_add(i64::from(digit));
    }
    match is_digits {
        true if negative => Ok(-value),
        true => Ok(value),
        false => Err(Wrong::Form),
    }
}

fn long_integer(negative: bool, digits: &[u8]) -> Result<i64, Wrong> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Wrong::Form);
    }
    let mut value = 0i128;
    for &digit in digits {
        value = value * 10 + i128::from(digit - b'0');
        if value > 1 << 64 {
            return Err(Wrong::Range);
        }
    }
    i64::try_from(if negative { -value } else { value }).map_err(|_| Wrong::Range)
}

#[inline]
fn signed(text: &[u8]) -> (bool, &[u8]) {
    match text.first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    }
}

/// The floating-point types, which differ in how many digits they hold exactly.
pub(crate) trait Float: Copy + std::str::FromStr + std::ops::Neg<Output = Self> {
    /// `digits / 10^power`, or `None` where either is not exact in this type: one division of exact numbers rounds once
    /// and therefore correctly.
    fn quotient(digits: u64, power: usize) -> Option<Self>;
}

impl Float for f64 {
    #[inline]
    fn quotient(digits: u64, power: usize) -> Option<f64> {
        const POWERS: [f64; 23] = [
            1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
            1e19, 1e20, 1e21, 1e22,
        ];
        (digits <= 1 << 53 && power < POWERS.len()).then(|| digits as f64 / POWERS[power])
    }
}

impl Float for f32 {
    #[inline]
    fn quotient(digits: u64, power: usize) -> Option<f32> {
        const POWERS: [f32; 11] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10];
        (digits <= 1 << 24 && power < POWERS.len()).then(|| digits as f32 / POWERS[power])
    }
}

/// A decimal or scientific number, `NaN`, or `Infinity` with a sign, rounded correctly.
#[inline]
pub(crate) fn float<F: Float>(text: &[u8]) -> Result<F, Wrong> {
    let (negative, rest) = signed(text);
    let mut digits = 0u64;
    let mut count = 0usize;
    let mut point = None;
    // Nineteen digits always fit 64 bits.
    if rest.len() <= 19 {
        for (at, &byte) in rest.iter().enumerate() {
            let digit = byte.wrapping_sub(b'0');
            if digit <= 9 {
                digits = digits * 10 + u64::from(digit);
                count += 1;
            } else if byte == b'.' && point.is_none() {
                point = Some(at);
            } else {
                count = 0;
                break;
            }
        }
    }
    let fraction = point.map_or(0, |at| rest.len() - at - 1);
    if count > 0
        && let Some(value) = F::quotient(digits, fraction)
    {
        return Ok(if negative { -value } else { value });
    }
    let text = std::str::from_utf8(text).ok().filter(|text| is_java_number(text));
    text.and_then(|text| text.parse().ok()).ok_or(Wrong::Form)
}

/// `true` or `false`, in any case.
#[inline]
pub(crate) fn boolean(text: &[u8]) -> Result<bool, Wrong> {
    match text.len() {
        4 if text.eq_ignore_ascii_case(b"true") => Ok(true),
        5 if text.eq_ignore_ascii_case(b"false") => Ok(false),
        _ => Err(Wrong::Form),
    }
}

/// `true` in any case, and false for every other text, as in Flink.
pub(crate) fn loose_boolean(text: &[u8]) -> bool {
    text.eq_ignore_ascii_case(b"true")
}

/// A number as an integer, without its fraction.
pub(crate) fn truncated(text: &[u8]) -> Result<i64, Wrong> {
    let number = number(text)?;
    let (kept, _) = number.rounded_down(0).ok_or(Wrong::Range)?;
    i64::try_from(if number.is_negative { -kept } else { kept }).map_err(|_| Wrong::Range)
}

/// A decimal number as its value times `10^scale`, the half rounded away from zero.
pub(crate) fn rounded_decimal(text: &[u8], precision: u8, scale: i8) -> Result<i128, Wrong> {
    let value = number(text)?.rounded(scale).ok_or(Wrong::Range)?;
    if value.unsigned_abs() >= 10u128.pow(u32::from(precision)) {
        return Err(Wrong::Range);
    }
    Ok(value)
}

fn number(text: &[u8]) -> Result<DecimalText<'_>, Wrong> {
    DecimalText::parse(text).ok_or(Wrong::Form)
}

/// An exact decimal number as its value times `10^scale`. Scientific notation is understood.
pub(crate) fn decimal(text: &[u8], precision: u8, scale: i8) -> Result<i128, Wrong> {
    let DecimalText { is_negative: negative, whole, fraction, exponent } = number(text)?;
    // Zeros at the end of the fraction say nothing, however many there are.
    let fraction = &fraction[..fraction.iter().rposition(|&digit| digit != b'0').map_or(0, |at| at + 1)];
    let mut value = 0i128;
    for &digit in whole.iter().chain(fraction) {
        value = value.checked_mul(10).and_then(|v| v.checked_add(i128::from(digit - b'0'))).ok_or(Wrong::Range)?;
    }
    let shift = i64::from(scale).saturating_sub(fraction.len() as i64).saturating_add(exponent);
    let value = scaled(value, shift)?;
    if value >= 10i128.pow(u32::from(precision)) {
        return Err(Wrong::Range);
    }
    Ok(if negative { -value } else { value })
}

fn scaled(value: i128, shift: i64) -> Result<i128, Wrong> {
    let power = u32::try_from(shift.unsigned_abs()).ok().and_then(|shift| 10i128.checked_pow(shift));
    match power {
        _ if value == 0 => Ok(0),
        Some(power) if shift >= 0 => value.checked_mul(power).ok_or(Wrong::Range),
        Some(power) if value % power == 0 => Ok(value / power),
        _ if shift >= 0 => Err(Wrong::Range),
        _ => Err(Wrong::Digits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn integers_keep_every_digit_or_say_that_they_do_not_fit() {
        for (text, value) in [
            ("0", Ok(0)),
            ("-1", Ok(-1)),
            ("+7", Ok(7)),
            ("0071", Ok(71)),
            ("9223372036854775807", Ok(i64::MAX)),
            ("-9223372036854775808", Ok(i64::MIN)),
            ("9223372036854775808", Err(Wrong::Range)),
            ("99999999999999999999999999999999999999999999", Err(Wrong::Range)),
            ("00000000000000000000000000000000000000000001", Ok(1)),
            ("", Err(Wrong::Form)),
            ("-", Err(Wrong::Form)),
            ("1.0", Err(Wrong::Form)),
            ("1e3", Err(Wrong::Form)),
            ("12a4567890123456789012", Err(Wrong::Form)),
        ] {
            assert_eq!(integer(text.as_bytes()), value, "{text}");
        }
    }

    #[test]
    fn decimals_are_exact() {
        for (text, value) in [
            ("1.5", Ok(150)),
            ("-1.5", Ok(-150)),
            (".25", Ok(25)),
            ("3.", Ok(300)),
            ("1.230000000000000000000000000000000000000000000000", Ok(123)),
            ("1.235", Err(Wrong::Digits)),
            ("99999999.99", Ok(9_999_999_999)),
            ("100000000", Err(Wrong::Range)),
            ("1e2", Ok(10_000)),
            ("1.5E-1", Ok(15)),
            ("1e-3", Err(Wrong::Digits)),
            ("1e99999999999", Err(Wrong::Range)),
            ("0e99", Ok(0)),
            (".", Err(Wrong::Form)),
            ("abc", Err(Wrong::Form)),
            ("1_0", Err(Wrong::Form)),
            ("", Err(Wrong::Form)),
        ] {
            assert_eq!(decimal(text.as_bytes(), 10, 2), value, "{text}");
        }
        assert_eq!(decimal(b"99999999999999999999999999999999999999", 38, 0), Ok(10i128.pow(38) - 1));
    }

    #[test]
    fn decimals_are_rounded_where_their_types_keep_fewer_digits() {
        for (text, value) in [
            ("1.005", Ok(101)),
            ("-1.005", Ok(-101)),
            ("1.00499", Ok(100)),
            ("99999999.994", Ok(9_999_999_999)),
            ("99999999.995", Err(Wrong::Range)),
            ("1e-3", Ok(0)),
            ("5e-3", Ok(1)),
            ("5e-99999999999", Ok(0)),
            ("1e99999999999", Err(Wrong::Range)),
            ("0e99999999999", Ok(0)),
            ("x", Err(Wrong::Form)),
        ] {
            assert_eq!(rounded_decimal(text.as_bytes(), 10, 2), value, "{text}");
        }
        for (text, value) in [
            ("1.9", Ok(1)),
            ("-1.9", Ok(-1)),
            ("1e2", Ok(100)),
            ("9.3e18", Err(Wrong::Range)),
            ("0.1e1", Ok(1)),
            ("", Err(Wrong::Form)),
        ] {
            assert_eq!(truncated(text.as_bytes()), value, "{text}");
        }
    }

    #[test]
    fn words_for_what_is_no_number_are_those_of_java() {
        for text in ["NaN", "Infinity", "-Infinity", "+Infinity", "-NaN"] {
            assert!(float::<f64>(text.as_bytes()).is_ok() && float::<f32>(text.as_bytes()).is_ok(), "{text}");
        }
        for text in ["nan", "Nan", "NAN", "inf", "Inf", "-inf", "infinity", "INFINITY", "", "-", "e", "1e"] {
            assert_eq!(float::<f64>(text.as_bytes()), Err(Wrong::Form), "{text}");
        }
    }

    proptest! {
        #[test]
        fn floats_are_those_of_the_standard_library(text in "[+-]?[0-9]{0,20}\\.?[0-9]{0,20}([eE][+-]?[0-9]{1,3})?") {
            let expected: Option<f64> = text.parse().ok();
            prop_assert_eq!(float::<f64>(text.as_bytes()).ok().map(f64::to_bits), expected.map(f64::to_bits));
            let expected: Option<f32> = text.parse().ok();
            prop_assert_eq!(float::<f32>(text.as_bytes()).ok().map(f32::to_bits), expected.map(f32::to_bits));
        }

        #[test]
        fn integers_are_those_of_the_standard_library(text in "[+-]?[0-9a]{0,21}") {
            prop_assert_eq!(integer(text.as_bytes()).ok(), text.parse::<i64>().ok());
        }
    }
}
