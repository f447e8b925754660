//! Java's patterns of dates and times, such as `yyyy-MM-dd HH:mm:ss.SSS`.

use std::fmt::Write;

use chrono::{Datelike, NaiveDate, NaiveDateTime, NaiveTime, Timelike};
use datafusion_common::{Result, exec_err};

/// A pattern, ready to format and parse with.
#[derive(Debug)]
pub(super) struct Pattern {
    items: Vec<Item>,
}

#[derive(Debug)]
enum Item {
    Literal(String),
    /// A field and how many letters stand for it.
    Field(Field, usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Year,
    Month,
    MonthName,
    Day,
    DayOfYear,
    WeekdayName,
    Hour,
    HourOfHalf,
    Half,
    Minute,
    Second,
    Fraction,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// What a text said of a time; what it did not say is that of 1970-01-01 00:00:00.
#[derive(Debug, Default)]
struct Parts {
    year: Option<i32>,
    month: Option<u32>,
    day: Option<u32>,
    day_of_year: Option<u32>,
    hour: Option<u32>,
    hour_of_half: Option<u32>,
    is_afternoon: bool,
    minute: u32,
    second: u32,
    nanos: u32,
}

impl Pattern {
    pub fn new(text: &str) -> Result<Pattern> {
        let mut items = Vec::new();
        let mut rest = text.chars().peekable();
        while let Some(letter) = rest.next() {
            if letter == '\'' {
                literal(&mut items, &quoted(&mut rest, text)?);
                continue;
            }
            if !letter.is_ascii_alphabetic() {
                literal(&mut items, letter.encode_utf8(&mut [0; 4]));
                continue;
            }
            let mut count = 1;
            while rest.next_if_eq(&letter).is_some() {
                count += 1;
            }
            let Some(field) = Field::of(letter, count) else {
                return exec_err!(
                    "'{text}' is no pattern of times: the letter {letter} ({count} times) is not known; use y, M, d, H, h, m, s, S, a, E and D, and put words in quotes"
                );
            };
            items.push(Item::Field(field, count));
        }
        Ok(Pattern { items })
    }

    pub fn format(&self, time: NaiveDateTime) -> String {
        let mut text = String::new();
        for item in &self.items {
            match item {
                Item::Literal(literal) => text.push_str(literal),
                Item::Field(field, count) => field.format(*count, time, &mut text),
            }
        }
        text
    }

    /// The time a text denotes; `None` where it does not have this form, or is no time.
    pub fn parse(&self, text: &str) -> Option<NaiveDateTime> {
        let mut rest = text;
        let mut parts = Parts::default();
        for (at, item) in self.items.iter().enumerate() {
            match item {
                Item::Literal(literal) => rest = rest.strip_prefix(literal.as_str())?,
                Item::Field(field, count) => {
                    let is_before_number =
                        matches!(self.items.get(at + 1), Some(Item::Field(next, _)) if next.is_number());
                    rest = field.parse(*count, is_before_number, rest, &mut parts)?;
                }
            }
        }
        if rest.is_empty() { parts.time() } else { None }
    }
}

/// Neighbouring literals are one.
fn literal(items: &mut Vec<Item>, text: &str) {
    match items.last_mut() {
        Some(Item::Literal(before)) => before.push_str(text),
        _ => items.push(Item::Literal(text.to_string())),
    }
}

/// The text up to the closing quote; two quotes stand for one.
fn quoted(rest: &mut std::iter::Peekable<std::str::Chars>, pattern: &str) -> Result<String> {
    let mut text = String::new();
    if rest.next_if_eq(&'\'').is_some() {
        return Ok("'".to_string());
    }
    loop {
        match rest.next() {
            Some('\'') if rest.next_if_eq(&'\'').is_some() => text.push('\''),
            Some('\'') => return Ok(text),
            Some(letter) => text.push(letter),
            None => return exec_err!("'{pattern}' is no pattern of times: a quote is not closed"),
        }
    }
}

impl Field {
    fn of(letter: char, count: usize) -> Option<Field> {
        Some(match (letter, count) {
            ('y' | 'u', 1..=9) => Field::Year,
            ('M' | 'L', 1..=2) => Field::Month,
            ('M' | 'L', 3..=4) => Field::MonthName,
            ('d', 1..=2) => Field::Day,
            ('D', 1..=3) => Field::DayOfYear,
            ('E', 1..=4) => Field::WeekdayName,
            ('H', 1..=2) => Field::Hour,
            ('h', 1..=2) => Field::HourOfHalf,
            ('a', 1) => Field::Half,
            ('m', 1..=2) => Field::Minute,
            ('s', 1..=2) => Field::Second,
            ('S', 1..=9) => Field::Fraction,
            _ => return None,
        })
    }

    fn is_number(self) -> bool {
        !matches!(self, Field::MonthName | Field::WeekdayName | Field::Half)
    }

    fn format(self, count: usize, time: NaiveDateTime, text: &mut String) {
        let name = |name: &'static str| if count == 4 { name } else { &name[..3] };
        let number = match self {
            Field::Year if count == 2 => time.year().rem_euclid(100) as u32,
            Field::Year if time.year() < 0 => {
                text.push('-');
                time.year().unsigned_abs()
            }
            Field::Year => time.year().unsigned_abs(),
            Field::Month => time.month(),
            Field::Day => time.day(),
            Field::DayOfYear => time.ordinal(),
            Field::Hour => time.hour(),
            Field::HourOfHalf => time.hour12().1,
            Field::Minute => time.minute(),
            Field::Second => time.second(),
            Field::Fraction => time.nanosecond() / 10_u32.pow(9 - count as u32),
            Field::MonthName => return text.push_str(name(MONTHS[time.month0() as usize])),
            Field::WeekdayName => return text.push_str(name(WEEKDAYS[time.weekday().num_days_from_monday() as usize])),
            Field::Half => return text.push_str(if time.hour12().0 { "PM" } else { "AM" }),
        };
        write!(text, "{number:0count$}").expect("writing to a string");
    }

    /// Takes the field's letters from the front of `text` and returns the rest.
    fn parse<'a>(self, count: usize, is_before_number: bool, text: &'a str, parts: &mut Parts) -> Option<&'a str> {
        if !self.is_number() {
            return self.parse_name(text, parts);
        }
        let is_open = count == 1 || (self == Field::Year && count > 2);
        let most = if is_open && !is_before_number { 9 } else { count };
        let digits = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
        if digits < count {
            return None;
        }
        let number: u32 = text[..digits].parse().ok()?;
        match self {
            Field::Year if count == 2 => parts.year = Some(2000 + number as i32),
            Field::Year => parts.year = Some(i32::try_from(number).ok()?),
            Field::Month => parts.month = Some(number),
            Field::Day => parts.day = Some(number),
            Field::DayOfYear => parts.day_of_year = Some(number),
            Field::Hour => parts.hour = Some(number),
            Field::HourOfHalf => parts.hour_of_half = Some(number),
            Field::Minute => parts.minute = number,
            Field::Second => parts.second = number,
            Field::Fraction => parts.nanos = number * 10_u32.pow(9 - digits as u32),
            Field::MonthName | Field::WeekdayName | Field::Half => unreachable!("names are read above"),
        }
        Some(&text[digits..])
    }

    fn parse_name<'a>(self, text: &'a str, parts: &mut Parts) -> Option<&'a str> {
        if self == Field::Half {
            let half = text.get(..2)?;
            parts.is_afternoon = half.eq_ignore_ascii_case("PM");
            return (parts.is_afternoon || half.eq_ignore_ascii_case("AM")).then(|| &text[2..]);
        }
        let names: &[&str] = if self == Field::MonthName { &MONTHS } else { &WEEKDAYS };
        let starts_with = |name: &str| text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
        let (at, length) = names.iter().enumerate().find_map(|(at, name)| {
            let long = starts_with(name).then_some((at, name.len()));
            long.or_else(|| starts_with(&name[..3]).then_some((at, 3)))
        })?;
        if self == Field::MonthName {
            parts.month = Some(at as u32 + 1);
        }
        Some(&text[length..])
    }
}

impl Parts {
    fn time(&self) -> Option<NaiveDateTime> {
        let year = self.year.unwrap_or(1970);
        let date = match self.day_of_year {
            Some(day) => NaiveDate::from_yo_opt(year, day)?,
            None => NaiveDate::from_ymd_opt(year, self.month.unwrap_or(1), self.day.unwrap_or(1))?,
        };
        let hour = match (self.hour, self.hour_of_half) {
            (Some(hour), _) => hour,
            (None, Some(hour @ 1..=12)) => hour % 12 + if self.is_afternoon { 12 } else { 0 },
            (None, Some(_)) => return None,
            (None, None) => 0,
        };
        Some(date.and_time(NaiveTime::from_hms_nano_opt(hour, self.minute, self.second, self.nanos)?))
    }
}

/// Reads `2020-01-31`, optionally followed by a blank or `T` and a time with any number of fractional digits; leading zeros may be
/// left out.
pub(super) fn parse_plain(text: &str) -> Option<NaiveDateTime> {
    let text = text.trim();
    let (date, time) = match text.split_once([' ', 'T']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let mut fields = date.splitn(3, '-');
    let mut field = || fields.next().filter(|digits| (1..=9).contains(&digits.len()))?.parse::<u32>().ok();
    let (year, month, day) = (field()?, field()?, field()?);
    let date = NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day)?;
    let Some(time) = time else { return Some(date.into()) };
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut fields = time.splitn(3, ':');
    let mut field = || fields.next().filter(|digits| (1..=2).contains(&digits.len()))?.parse::<u32>().ok();
    let (hour, minute, second) = (field()?, field()?, field()?);
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    let nanos = digits.fold(0, |nanos, digit| 10 * nanos + u32::from(digit - b'0'));
    Some(date.and_time(NaiveTime::from_hms_nano_opt(hour, minute, second, nanos)?))
}
