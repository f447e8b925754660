//! Java's patterns of dates and times, such as `yyyy-MM-dd HH:mm:ss.SSS`.

use std::fmt::Write;

use chrono::{Datelike, NaiveDateTime, Timelike};
use datafusion_common::{Result, exec_err};

mod lenient;

mod plain;

mod strict;

pub(super) use plain::{parse_date, parse_plain, parse_timestamp};

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
                    "'{text}' is not a valid datetime pattern: the letter {letter} ({count} times) is not known; use y, M, d, H, h, m, s, S, a, E and D, and put words in quotes"
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
            None => return exec_err!("'{pattern}' is not a valid datetime pattern: a quote is not closed"),
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
}
