//! Numbers of JSON as text.

/// A number as Java's BigDecimal writes it: with the digits that it has, and an exponent where the point is far from them.
pub(super) fn number_text(number: &str) -> String {
    let (sign, size) = number.strip_prefix('-').map_or(("", number), |size| ("-", size));
    let (mantissa, exponent) = size.split_once(['e', 'E']).unwrap_or((size, "0"));
    let is_whole = !size.contains(['.', 'e', 'E']);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let digits = match all.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    let sign = if digits == "0" { "" } else { sign };
    // How many of the digits are behind the point. An exponent that no number has is left as it is written.
    let Ok(exponent) = exponent.parse::<i64>() else { return number.to_string() };
    let scale = (fraction.len() as i64).saturating_sub(exponent);
    let power = (digits.len() as i64 - 1).saturating_sub(scale);
    if is_whole || scale == 0 {
        return format!("{sign}{digits}");
    }
    if scale < 0 || power < -6 {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        return format!("{sign}{first}{point}{rest}E{power:+}");
    }
    let digits = format!("{digits:0>width$}", width = scale as usize + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale as usize);
    format!("{sign}{whole}.{fraction}")
}

/// A number that is an INT: without a fraction and an exponent.
pub(super) fn whole_number(number: &str) -> Option<i32> {
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_digits() {
        for (number, text) in [
            ("12345678901234567890123", "12345678901234567890123"),
            ("-0", "0"),
            ("0.10", "0.10"),
            ("1.50", "1.50"),
            ("1e7", "1E+7"),
            ("12E+3", "1.2E+4"),
            ("100E-2", "1.00"),
            ("1E400", "1E+400"),
            ("1.5e-10", "1.5E-10"),
            ("-0.0", "0.0"),
            ("0e10", "0E+10"),
            ("1e-7", "1E-7"),
            ("0.000001", "0.000001"),
            ("0.0000001", "1E-7"),
            ("-123456789.123456789", "-123456789.123456789"),
            ("1e400000", "1E+400000"),
        ] {
            assert_eq!(number_text(number), text, "{number}");
        }
    }
}
