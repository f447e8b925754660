//! Reads times by a pattern as Java's `SimpleDateFormat` does: numbers may have fewer or more digits, blanks may stand in front of them, what follows
//! the time does not matter, and the 30th of February is in March.

use chrono::{NaiveDate, NaiveDateTime, TimeDelta};

use super::strict::Parts;
use super::{Field, Item, MONTHS, Pattern, WEEKDAYS};

/// Years of two digits are those from 80 years ago on. Counted from the present they would mean another time each year.
const FIRST_SHORT_YEAR: i64 = 46;

impl Pattern {
    /// The time that a text denotes, generously; `None` where it does not begin with this form.
    pub fn parse_leniently(&self, text: &str) -> Option<NaiveDateTime> {
        let mut rest = text;
        let mut parts = Parts::default();
        for (at, item) in self.items.iter().enumerate() {
            rest = match item {
                Item::Literal(literal) => rest.strip_prefix(literal.as_str())?,
                Item::Field(field, count) => {
                    let text = rest.trim_start_matches([' ', '\t']);
                    // Fields without anything between have as many digits as letters.
                    let is_fixed = matches!(self.items.get(at + 1), Some(Item::Field(..)));
                    match field.is_number() {
                        true => parts.read_number(*field, *count, is_fixed, text)?,
                        false => parts.read_any_name(*field, text)?,
                    }
                }
            };
        }
        parts.lenient_time()
    }
}

impl Parts {
    fn read_number<'a>(&mut self, field: Field, count: usize, is_fixed: bool, text: &'a str) -> Option<&'a str> {
        if is_fixed && text.len() < count {
            return None;
        }
        let most = if is_fixed { count } else { usize::MAX };
        let digits = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
        let number: i64 = text[..digits].parse::<u32>().ok()?.into();
        let part = match field {
            Field::Year if count <= 2 && digits == 2 => {
                let century = if number < FIRST_SHORT_YEAR { 2000 } else { 1900 };
                self.year = Some(century + number);
                return Some(&text[digits..]);
            }
            Field::Year => &mut self.year,
            Field::Month => &mut self.month,
            Field::Day => &mut self.day,
            Field::DayOfYear => &mut self.day_of_year,
            Field::Hour => &mut self.hour,
            Field::HourOfHalf => &mut self.hour_of_half,
            Field::Minute => &mut self.minute,
            Field::Second => &mut self.second,
            // It counts milliseconds, however many digits there are.
            Field::Fraction => &mut self.nanos,
            Field::MonthName | Field::WeekdayName | Field::Half => unreachable!("names are no numbers"),
        };
        *part = Some(if field == Field::Fraction { number * 1_000_000 } else { number });
        Some(&text[digits..])
    }

    /// Takes a name in any case, long or short, from the front of a text, and returns the rest.
    fn read_any_name<'a>(&mut self, field: Field, text: &'a str) -> Option<&'a str> {
        let names: &[&str] = match field {
            Field::MonthName => &MONTHS,
            Field::WeekdayName => &WEEKDAYS,
            _ => &["AM", "PM"],
        };
        let starts_with = |name: &str| text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
        let found = names.iter().enumerate().find_map(|(at, name)| {
            let written = [name, name.get(..3).unwrap_or(name)].into_iter().find(|written| starts_with(written));
            written.map(|written| (at, written.len()))
        });
        let (at, length) = found?;
        match field {
            Field::MonthName => self.month = Some(at as i64 + 1),
            Field::WeekdayName => self.weekday = Some(at as i64),
            _ => self.is_afternoon = Some(at == 1),
        }
        Some(&text[length..])
    }

    fn lenient_time(&self) -> Option<NaiveDateTime> {
        let months = self.month.unwrap_or(1) - 1;
        let year = i32::try_from(self.year.unwrap_or(1970) + months.div_euclid(12)).ok()?;
        let first = match self.day_of_year {
            Some(_) => NaiveDate::from_ymd_opt(year, 1, 1)?,
            None => NaiveDate::from_ymd_opt(year, months.rem_euclid(12) as u32 + 1, 1)?,
        };
        let days = self.day_of_year.or(self.day).unwrap_or(1) - 1;
        let half =
            self.hour_of_half.map(|hour| hour % 12).unwrap_or(0) + 12 * i64::from(self.is_afternoon == Some(true));
        let hours = self.hour.unwrap_or(half);
        let [minutes, seconds, nanos] = [self.minute, self.second, self.nanos].map(|part| part.unwrap_or(0));
        let since = TimeDelta::try_days(days)?
            + TimeDelta::try_hours(hours)?
            + TimeDelta::try_minutes(minutes)?
            + TimeDelta::try_seconds(seconds)?
            + TimeDelta::nanoseconds(nanos);
        NaiveDateTime::from(first).checked_add_signed(since)
    }
}
