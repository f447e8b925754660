//! The binary form of `numeric`: digits to the base of 10,000.

use bytes::{BufMut, BytesMut};

/// Decimal digits in one digit of the form.
const DIGITS: u32 = 4;
const BASE: u128 = 10_u128.pow(DIGITS);

const POSITIVE: u16 = 0x0000;
const NEGATIVE: u16 = 0x4000;

/// Writes `unscaled` / 10^`scale`.
pub fn put(unscaled: i128, scale: i8, out: &mut BytesMut) {
    // The last digit is filled up with zeros, so that the point lies between two digits.
    let scale = u32::from(scale.max(0).unsigned_abs());
    let filling = (DIGITS - scale % DIGITS) % DIGITS;
    let magnitude = unscaled.unsigned_abs();
    let low = 10_u128.pow(DIGITS - filling);
    // In two parts: with the zeros the number may have more than 128 bits.
    let (mut rest, last) = match filling {
        0 => (magnitude, None),
        _ => (magnitude / low, Some(magnitude % low * 10_u128.pow(filling))),
    };
    let mut digits: Vec<i16> = last.into_iter().map(digit).collect();
    while rest > 0 {
        digits.push(digit(rest % BASE));
        rest /= BASE;
    }
    let behind_point = (scale + filling) / DIGITS;
    let mut weight = digits.len() as i32 - behind_point as i32 - 1;
    while digits.last() == Some(&0) {
        digits.pop();
        weight -= 1;
    }
    let zeros = digits.iter().take_while(|digit| **digit == 0).count();
    let digits = &digits[zeros..];
    let weight = if digits.is_empty() { 0 } else { weight };
    out.put_i16(digits.len() as i16);
    out.put_i16(weight as i16);
    out.put_u16(if unscaled < 0 { NEGATIVE } else { POSITIVE });
    out.put_u16(scale as u16);
    digits.iter().rev().for_each(|digit| out.put_i16(*digit));
}

fn digit(value: u128) -> i16 {
    i16::try_from(value).expect("a digit is less than the base")
}

/// The text of a `numeric` in its binary form; `None` where it is none, or no finite number.
pub fn read(bytes: &[u8]) -> Option<String> {
    let number = |index: usize| Some(i16::from_be_bytes(bytes.get(2 * index..2 * index + 2)?.try_into().ok()?));
    let (count, weight, sign, scale) = (number(0)?, i32::from(number(1)?), number(2)? as u16, number(3)?);
    if sign != POSITIVE && sign != NEGATIVE {
        return None;
    }
    let digit = |power: i32| match usize::try_from(weight - power) {
        Ok(index) if index < usize::try_from(count).unwrap_or(0) => number(4 + index),
        _ => Some(0),
    };
    let mut whole = String::new();
    for power in (0..=weight.max(0)).rev() {
        whole.push_str(&format!("{:04}", digit(power)?));
    }
    let whole = whole.trim_start_matches('0');
    let mut fraction = String::new();
    let scale = usize::try_from(scale).ok()?;
    for power in 1..=scale.div_ceil(DIGITS as usize) {
        fraction.push_str(&format!("{:04}", digit(-(power as i32))?));
    }
    fraction.truncate(scale);
    let sign = if sign == NEGATIVE { "-" } else { "" };
    let whole = if whole.is_empty() { "0" } else { whole };
    Some(if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(unscaled: i128, scale: i8) -> Vec<i16> {
        let mut out = BytesMut::new();
        put(unscaled, scale, &mut out);
        out.chunks(2).map(|pair| i16::from_be_bytes([pair[0], pair[1]])).collect()
    }

    #[test]
    fn digits_are_those_of_postgres() {
        // Count, weight, sign, scale and the digits.
        assert_eq!(digits(12_345_678, 2), [3, 1, 0, 2, 12, 3456, 7800]);
        assert_eq!(digits(-1, 1), [1, -1, 0x4000, 1, 1000]);
        assert_eq!(digits(1, 5), [1, -2, 0, 5, 1000]);
        assert_eq!(digits(0, 2), [0, 0, 0, 2]);
        assert_eq!(digits(100_000_000, 0), [1, 2, 0, 0, 1]);
        assert_eq!(digits(10_000, 4), [1, 0, 0, 4, 1]);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let largest = 10_i128.pow(38) - 1;
        for (unscaled, scale, expected) in [
            (0, 0, "0"),
            (0, 2, "0.00"),
            (5, 3, "0.005"),
            (-12_345, 2, "-123.45"),
            (70_000, 0, "70000"),
            (largest, 0, "99999999999999999999999999999999999999"),
            (-largest, 37, "-9.9999999999999999999999999999999999999"),
            (largest, 38, "0.99999999999999999999999999999999999999"),
        ] {
            let mut out = BytesMut::new();
            put(unscaled, scale, &mut out);
            assert_eq!(read(&out).as_deref(), Some(expected));
        }
        assert_eq!(read(&[0, 1]), None);
    }
}
