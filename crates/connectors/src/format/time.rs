//! Dates and timestamps in text: days and ticks since 1970-01-01, in the Gregorian calendar without an end.

use super::value::{Wrong, integer};

/// How timestamps are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum TimestampFormat {
    /// `2013-01-31 08:15:00.5`. Reading also takes the ISO form.
    #[default]
    Sql,
    /// `2013-01-31T08:15:00.5`. Reading also takes the SQL form.
    Iso8601,
    /// A whole number of these since 1970-01-01T00:00:00Z.
    Epoch {
        /// 1, 1000 or 1,000,000.
        ticks_per_second: i64,
    },
}

/// Their names in options.
pub(crate) const TIMESTAMP_FORMATS: &[(&str, TimestampFormat)] = &[
    ("SQL", TimestampFormat::Sql),
    ("ISO-8601", TimestampFormat::Iso8601),
    ("EPOCH-SECONDS", TimestampFormat::Epoch { ticks_per_second: 1 }),
    ("EPOCH-MILLIS", TimestampFormat::Epoch { ticks_per_second: 1_000 }),
    ("EPOCH-MICROS", TimestampFormat::Epoch { ticks_per_second: 1_000_000 }),
];

/// Largest number of digits a year may have: what 64 bits of seconds would need is cut here.
const YEAR_DIGITS_MAX: usize = 7;

/// Days from 1970-01-01 to a date of the proleptic Gregorian calendar, or `None` where there is no such date.
fn days_from_date(year: i64, month: u8, day: u8) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u8::from(is_leap),
        _ => return None,
    };
    if day == 0 || day > length {
        return None;
    }
    // Years begin in March here, so that the leap day is a year's last; cycles of 400 years have 146,097 days.
    let year = year - i64::from(month <= 2);
    let cycle = year.div_euclid(400);
    let year_of_cycle = year.rem_euclid(400);
    let month = (i64::from(month) + 9) % 12;
    let day_of_year = (153 * month + 2) / 5 + i64::from(day) - 1;
    let day_of_cycle = year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year;
    // 719,468 days lie between 0000-03-01 and 1970-01-01.
    Some(cycle * 146_097 + day_of_cycle - 719_468)
}

/// The inverse of [`days_from_date`]: year, month, day.
fn date_from_days(days: i64) -> (i64, u8, u8) {
    let days = days + 719_468;
    let cycle = days.div_euclid(146_097);
    let day_of_cycle = days.rem_euclid(146_097);
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month + 2) / 5 + 1) as u8;
    let month = if month < 10 { month + 3 } else { month - 9 } as u8;
    (cycle * 400 + year_of_cycle + i64::from(month <= 2), month, day)
}

/// Two digits as a number; anything else gives more than 99.
#[inline]
fn two_digits(text: &[u8]) -> u8 {
    let (tens, ones) = (text[0].wrapping_sub(b'0'), text[1].wrapping_sub(b'0'));
    if tens <= 9 && ones <= 9 { tens * 10 + ones } else { u8::MAX }
}

/// Days since 1970-01-01 of the date at the start of `text`, and what follows it.
#[inline]
fn leading_date(text: &[u8]) -> Option<(i64, &[u8])> {
    let signed = matches!(text.first()?, b'-' | b'+');
    let year_length = match text.get(4)? {
        b'-' if !signed => 4,
        _ => usize::from(signed) + text[usize::from(signed)..].iter().take_while(|byte| byte.is_ascii_digit()).count(),
    };
    let (year_text, rest) = text.split_at(year_length);
    if !(4..=YEAR_DIGITS_MAX + 1).contains(&year_length) || rest.len() < 6 || rest[0] != b'-' || rest[3] != b'-' {
        return None;
    }
    let year = integer(year_text).ok()?;
    let days = days_from_date(year, two_digits(&rest[1..3]), two_digits(&rest[4..6]))?;
    Some((days, &rest[6..]))
}

/// A date, `2013-01-31`, as days since 1970-01-01.
#[inline]
pub(crate) fn date(text: &[u8]) -> Result<i32, Wrong> {
    let (days, rest) = leading_date(text).ok_or(Wrong::Form)?;
    if !rest.is_empty() {
        return Err(Wrong::Form);
    }
    i32::try_from(days).map_err(|_| Wrong::Range)
}

/// A timestamp in ticks since 1970-01-01T00:00:00Z. Digits below a tick are dropped. Without a zone it is taken as UTC;
/// a zone is an error unless the column is `zoned` (TIMESTAMP_LTZ).
#[inline]
pub(crate) fn timestamp(
    text: &[u8],
    format: TimestampFormat,
    ticks_per_second: i64,
    zoned: bool,
) -> Result<i64, Wrong> {
    if let TimestampFormat::Epoch { ticks_per_second: given } = format {
        let ticks = integer(text)?;
        return match ticks_per_second / given {
            0 => Ok(ticks.div_euclid(given / ticks_per_second)),
            factor => ticks.checked_mul(factor).ok_or(Wrong::Range),
        };
    }
    let (days, rest) = leading_date(text).ok_or(Wrong::Form)?;
    if rest.len() < 6 || !matches!(rest[0], b' ' | b'T' | b't') || rest[3] != b':' {
        return Err(Wrong::Form);
    }
    let (hour, minute) = (two_digits(&rest[1..3]), two_digits(&rest[4..6]));
    let (second, rest) = match rest.get(6) {
        Some(b':') if rest.len() >= 9 => (two_digits(&rest[7..9]), &rest[9..]),
        _ => (0, &rest[6..]),
    };
    if hour > 23 || minute > 59 || second > 59 {
        return Err(Wrong::Form);
    }
    let (fraction, rest) = fraction(rest, ticks_per_second)?;
    let offset_seconds = if rest.is_empty() { 0 } else { offset_seconds(rest)? };
    if !rest.is_empty() && !zoned {
        return Err(Wrong::Zone);
    }
    let second_of_day = i64::from(hour) * 3_600 + i64::from(minute) * 60 + i64::from(second);
    let seconds = days * 86_400 + second_of_day - offset_seconds;
    let ticks = i128::from(seconds) * i128::from(ticks_per_second) + i128::from(fraction);
    i64::try_from(ticks).map_err(|_| Wrong::Range)
}

/// Ticks of a fraction such as `.25` at the start of `text`, and what follows it.
#[inline]
fn fraction(text: &[u8], ticks_per_second: i64) -> Result<(i64, &[u8]), Wrong> {
    if text.first() != Some(&b'.') {
        return Ok((0, text));
    }
    let digits = text[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return Err(Wrong::Form);
    }
    let mut ticks = 0;
    let mut tick = ticks_per_second;
    for &digit in &text[1..=digits] {
        tick /= 10;
        ticks += i64::from(digit - b'0') * tick;
    }
    Ok((ticks, &text[1 + digits..]))
}

/// `Z`, `+01`, `+0100` or `+01:00`, after an optional blank.
fn offset_seconds(text: &[u8]) -> Result<i64, Wrong> {
    let text = text.strip_prefix(b" ").unwrap_or(text);
    let (sign, digits) = match text {
        b"Z" | b"z" | b"UTC" => return Ok(0),
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return Err(Wrong::Form),
    };
    let (hours, minutes) = match digits.len() {
        2 => (two_digits(digits), 0),
        4 => (two_digits(digits), two_digits(&digits[2..])),
        5 if digits[2] == b':' => (two_digits(digits), two_digits(&digits[3..])),
        _ => return Err(Wrong::Form),
    };
    if hours > 18 || minutes > 59 {
        return Err(Wrong::Form);
    }
    Ok(sign * (i64::from(hours) * 3_600 + i64::from(minutes) * 60))
}

/// Appends a date as [`date`] reads it.
pub(crate) fn write_date(out: &mut Vec<u8>, days: i64) {
    use std::io::Write;
    let (year, month, day) = date_from_days(days);
    let written = match year {
        0..=9999 => write!(out, "{year:04}-{month:02}-{day:02}"),
        _ => write!(out, "{year:+05}-{month:02}-{day:02}"),
    };
    written.expect("writing to memory succeeds");
}

/// Appends a timestamp as [`timestamp`] reads it, without zeros at the end of its fraction; a `zoned` one ends in `Z`.
/// `false` where its year has more digits than are read.
pub(crate) fn write_timestamp(
    out: &mut Vec<u8>,
    ticks: i64,
    format: TimestampFormat,
    ticks_per_second: i64,
    zoned: bool,
) -> bool {
    use std::io::Write;
    if let TimestampFormat::Epoch { ticks_per_second: wanted } = format {
        let ticks = match wanted / ticks_per_second {
            0 => Some(ticks.div_euclid(ticks_per_second / wanted)),
            factor => ticks.checked_mul(factor),
        };
        return ticks.is_some_and(|ticks| write!(out, "{ticks}").is_ok());
    }
    let (seconds, fraction) = (ticks.div_euclid(ticks_per_second), ticks.rem_euclid(ticks_per_second));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    if date_from_days(days).0.abs() >= 10i64.pow(YEAR_DIGITS_MAX as u32) {
        return false;
    }
    write_date(out, days);
    out.push(if format == TimestampFormat::Iso8601 { b'T' } else { b' ' });
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    write!(out, "{hour:02}:{minute:02}:{second:02}").expect("writing to memory succeeds");
    if fraction != 0 {
        let digits = ticks_per_second.ilog10() as usize;
        write!(out, ".{fraction:0digits$}").expect("writing to memory succeeds");
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
    if zoned {
        out.push(b'Z');
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn millis(text: &str, zoned: bool) -> Result<i64, Wrong> {
        timestamp(text.as_bytes(), TimestampFormat::Sql, 1_000, zoned)
    }

    #[test]
    fn timestamps_have_two_forms_and_zones_only_where_the_column_has_one() {
        for (text, zoned, value) in [
            ("1970-01-01 00:00:00", false, Ok(0)),
            ("2013-01-31 08:15:30.25", false, Ok(1_359_620_130_250)),
            ("2013-01-31T08:15:30.2509999", false, Ok(1_359_620_130_250)),
            ("2013-01-31T08:15", false, Ok(1_359_620_100_000)),
            ("1969-12-31 23:59:59.999", false, Ok(-1)),
            ("2012-02-22T16:46:28.9670320+00:00", true, Ok(1_329_929_188_967)),
            ("2013-01-31T08:15:30Z", true, Ok(1_359_620_130_000)),
            ("2013-01-31T08:15:30+01:30", true, Ok(1_359_614_730_000)),
            ("2013-01-31 08:15:30 -0130", true, Ok(1_359_625_530_000)),
            ("2013-01-31T08:15:30Z", false, Err(Wrong::Zone)),
            ("2013-02-29 00:00:00", false, Err(Wrong::Form)),
            ("2012-02-29 00:00:00", false, Ok(1_330_473_600_000)),
            ("1900-02-29 00:00:00", false, Err(Wrong::Form)),
            ("2000-02-29 24:00:00", false, Err(Wrong::Form)),
            ("2000-02-29 23:00:60", false, Err(Wrong::Form)),
            ("2000-02-29 23:00:00.", false, Err(Wrong::Form)),
            ("2000-02-29 23:00:00 UTC+1", true, Err(Wrong::Form)),
            ("2000-02-29", false, Err(Wrong::Form)),
            ("", false, Err(Wrong::Form)),
            ("20000-2-29 23:00:00", false, Err(Wrong::Form)),
            ("+9999999-01-01 00:00:00", false, Ok(315_507_321_244_800_000)),
        ] {
            assert_eq!(millis(text, zoned), value, "{text}");
        }
        let epoch = TimestampFormat::Epoch { ticks_per_second: 1_000 };
        assert_eq!(timestamp(b"-1", epoch, 1, false), Ok(-1));
        assert_eq!(timestamp(b"1500", epoch, 1_000_000, false), Ok(1_500_000));
        assert_eq!(timestamp(b"9223372036854775807", epoch, 1_000_000, false), Err(Wrong::Range));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(ticks in any::<i64>(), iso in any::<bool>(), zoned in any::<bool>(), power in 0u32..3) {
            let format = if iso { TimestampFormat::Iso8601 } else { TimestampFormat::Sql };
            let ticks_per_second = 1_000i64.pow(power);
            let mut text = Vec::new();
            if write_timestamp(&mut text, ticks, format, ticks_per_second, zoned) {
                prop_assert_eq!(timestamp(&text, format, ticks_per_second, zoned), Ok(ticks));
            } else {
                prop_assert!(ticks_per_second < 1_000_000);
            }
        }

        #[test]
        fn every_date_is_read_again(days in any::<i32>()) {
            let mut text = Vec::new();
            write_date(&mut text, i64::from(days));
            prop_assert_eq!(date(&text), Ok(days));
        }

        #[test]
        fn dates_are_those_of_the_calendar(days in -3_000_000i64..3_000_000) {
            let (year, month, day) = date_from_days(days);
            prop_assert_eq!(days_from_date(year, month, day), Some(days));
            let expected = chrono::DateTime::from_timestamp(days * 86_400, 0).unwrap();
            use chrono::Datelike;
            prop_assert_eq!((i64::from(expected.year()), expected.month(), expected.day()), (year, u32::from(month), u32::from(day)));
        }
    }
}
