//! FLOAT and DOUBLE as text, as Java's `toString` writes them and `parseDouble` reads them, and Flink with it.

use std::fmt::Write;

/// Appends a FLOAT.
pub fn write_float(value: f32, text: &mut String) {
    write(f64::from(value), &format!("{value:e}"), text);
}

/// Appends a DOUBLE.
pub fn write_double(value: f64, text: &mut String) {
    write(value, &format!("{value:e}"), text);
}

/// Whether a text may be a FLOAT or DOUBLE: digits with a point and an exponent, NaN or Infinity with a sign, and not the other words that Rust has for these.
pub fn is_java_number(text: &str) -> bool {
    match text.strip_prefix(['-', '+']).unwrap_or(text) {
        "NaN" | "Infinity" => true,
        digits => digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'-' | b'+')),
    }
}

/// Plain between a thousandth and ten million, else with an exponent; always with a fraction.
fn write(value: f64, scientific: &str, text: &mut String) {
    if !value.is_finite() {
        return text.push_str(match value {
            f64::INFINITY => "Infinity",
            f64::NEG_INFINITY => "-Infinity",
            _ => "NaN",
        });
    }
    let (mantissa, exponent) = scientific.split_once('e').expect("scientific notation has an exponent");
    let exponent: i32 = exponent.parse().expect("exponents are whole numbers");
    let (sign, digits) = match mantissa.strip_prefix('-') {
        Some(digits) => ("-", digits.replace('.', "")),
        None => ("", mantissa.replace('.', "")),
    };
    if value == 0.0 {
        text.push_str(sign);
        return text.push_str("0.0");
    }
    let point = 1 + usize::try_from(exponent).unwrap_or(0);
    let written = match exponent {
        -3..0 => write!(text, "{sign}0.{}{digits}", "0".repeat(-exponent as usize - 1)),
        0..7 if digits.len() > point => write!(text, "{sign}{}.{}", &digits[..point], &digits[point..]),
        0..7 => write!(text, "{sign}{digits}{}.0", "0".repeat(point - digits.len())),
        _ if digits.len() > 1 => write!(text, "{sign}{}.{}E{exponent}", &digits[..1], &digits[1..]),
        _ => write!(text, "{sign}{digits}.0E{exponent}"),
    };
    written.expect("strings take all text");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_java_does() {
        // As `Double.toString` and `Float.toString` have them.
        for (value, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-2.5, "-2.5"),
            (1e-3, "0.001"),
            (9.99e-4, "9.99E-4"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (-1.25e20, "-1.25E20"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
        ] {
            let mut text = String::new();
            write_double(value, &mut text);
            assert_eq!(text, expected);
        }
        let mut text = String::new();
        write_float(0.1, &mut text);
        write_float(16_777_216.0, &mut text);
        assert_eq!(text, "0.11.6777216E7");
    }
}
