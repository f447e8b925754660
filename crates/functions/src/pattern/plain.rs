//! Reads times that are written without a pattern: as casts take them, as `TO_TIMESTAMP` and `TO_DATE` do, and as `java.sql` writes them.

use chrono::{NaiveDate, NaiveDateTime, TimeDelta};

use super::strict::Parts;

/// Digits behind the point in nanoseconds.
const NANO_DIGITS: usize = 9;

/// Reads a time as casts do: as [`parse_timestamp`], and also with `T` in place of the blank, with blanks around, and with any number of fractional
/// digits.
pub(crate) fn parse_plain(text: &str) -> Option<NaiveDateTime> {
    timestamp(text.trim(), &[' ', 'T'], usize::MAX)
}

/// Reads `2020-1-31 3:04:05.6` and `2020-01-31` exactly, without blanks around, as `TO_TIMESTAMP` does. Days that a month does not have become its last,
/// and 24:00:00 is the next day.
pub(crate) fn parse_timestamp(text: &str) -> Option<NaiveDateTime> {
    timestamp(text, &[' '], NANO_DIGITS)
}

fn timestamp(text: &str, separators: &[char], fraction_digits_max: usize) -> Option<NaiveDateTime> {
    let (date, time) = match text.split_once(separators) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let [year, month, day] = numbers(date, '-', [4..=4, 1..=2, 1..=2])?;
    let mut parts = Parts { year, month, day, ..Parts::default() };
    if let Some(time) = time {
        let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
        [parts.hour, parts.minute, parts.second] = numbers(time, ':', [1..=2, 1..=2, 1..=2])?;
        parts.nanos = Some(fraction_nanos(fraction, fraction_digits_max)?);
    }
    parts.time()
}

/// Reads times as `java.sql.Timestamp` and `java.sql.Date` do: `2020-1-31 03:04:05.6` and `2020-01-31`, with blanks around. Days and hours that there are
/// not are counted on.
pub(super) fn parse_java_sql(text: &str) -> Option<NaiveDateTime> {
    let text = text.trim();
    let (date, time) = match text.split_once(' ') {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let [year, month, day] = numbers(date, '-', [4..=4, 1..=2, 1..=2])?;
    let (year, month, day) = (year? as i32, month? as u32, day?);
    let first = NaiveDate::from_ymd_opt(year, month, 1).filter(|_| (1..=31).contains(&day))?;
    let mut since = TimeDelta::days(day - 1);
    if let Some(time) = time {
        let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
        let [hours, minutes, seconds] = numbers(time, ':', [1..=9, 1..=9, 1..=9])?;
        let nanos = fraction_nanos(fraction, NANO_DIGITS).filter(|_| !fraction.is_empty())?;
        since += TimeDelta::hours(hours?) + TimeDelta::minutes(minutes?) + TimeDelta::seconds(seconds?);
        since += TimeDelta::nanoseconds(nanos);
    }
    NaiveDateTime::from(first).checked_add_signed(since)
}

/// Reads a date as casts and `TO_DATE` do: `2020-1-31`, `2020-1` or `2020`, with blanks around each number, and with whatever behind a blank.
pub(crate) fn parse_date(text: &str) -> Option<NaiveDate> {
    let date = match text.find(' ') {
        Some(blank @ 1..) => &text[..blank],
        _ => text,
    };
    let mut fields = date.splitn(3, '-').map(|field| {
        let field = field.trim();
        let is_number = (1..=9).contains(&field.len()) && field.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { field.parse::<u32>().ok() } else { None }
    });
    let year = fields.next()??;
    let [month, day] = [fields.next(), fields.next()].map(|field| field.unwrap_or(Some(1)));
    NaiveDate::from_ymd_opt(year as i32, month?, day?).filter(|_| year <= 9999)
}

/// Three numbers of so many digits with something between.
fn numbers(text: &str, between: char, lengths: [std::ops::RangeInclusive<usize>; 3]) -> Option<[Option<i64>; 3]> {
    let mut fields = text.split(between);
    let numbers = lengths.map(|length| {
        let field = fields.next().filter(|field| length.contains(&field.len()))?;
        let is_number = field.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { field.parse().ok() } else { None }
    });
    (fields.next().is_none() && numbers.iter().all(Option::is_some)).then_some(numbers)
}

/// The nanoseconds of digits behind the point.
fn fraction_nanos(digits: &str, digits_max: usize) -> Option<i64> {
    let is_fraction = digits.len() <= digits_max && digits.bytes().all(|byte| byte.is_ascii_digit());
    let padded = digits.bytes().chain(std::iter::repeat(b'0')).take(NANO_DIGITS);
    is_fraction.then(|| padded.fold(0, |nanos, digit| 10 * nanos + i64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_need_a_year_alone() {
        for (text, expected) in [
            ("2024-01-02", Some((2024, 1, 2))),
            ("2024-1-2", Some((2024, 1, 2))),
            ("2024-01-02 03:04:05", Some((2024, 1, 2))),
            ("2024", Some((2024, 1, 1))),
            ("2024-02", Some((2024, 2, 1))),
            ("24-01-02", Some((24, 1, 2))),
            ("2024-02-30", None),
            ("2024-13-01", None),
            ("20240102", None),
            ("12024-01-02", None),
            ("-2024-01-02", None),
            ("2024-01-02x", None),
            ("2024-01-02T03:04:05", None),
            ("2024/01/02", None),
            ("2024 -01-02", Some((2024, 1, 1))),
            ("2024-\t1-2", Some((2024, 1, 2))),
            (" 2024-01-02", Some((2024, 1, 2))),
            (" 2024-01-02 03", None),
            ("2024-01-02-03", None),
            ("", None),
        ] {
            let expected = expected.and_then(|(year, month, day)| NaiveDate::from_ymd_opt(year, month, day));
            assert_eq!(parse_date(text), expected, "{text}");
        }
    }
}
