//! Reads times by a pattern as Java's `DateTimeFormatter` does: fields have as many digits as the pattern has letters, names are written as they are
//! printed, and days that a month does not have become its last.

use chrono::{Datelike, Days, NaiveDate, NaiveDateTime, NaiveTime};

use super::plain::parse_java_sql;
use super::{Field, Item, MONTHS, Pattern, WEEKDAYS};

/// The most digits of a number.
const DIGITS_MAX: usize = 19;

/// What a text says of a time.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub year: Option<i64>,
    pub month: Option<i64>,
    pub day: Option<i64>,
    pub day_of_year: Option<i64>,
    /// From 0 for Monday.
    pub weekday: Option<i64>,
    pub hour: Option<i64>,
    pub hour_of_half: Option<i64>,
    pub is_afternoon: Option<bool>,
    pub minute: Option<i64>,
    pub second: Option<i64>,
    pub nanos: Option<i64>,
}

impl Pattern {
    /// The time that a text denotes; what it does not say is that of 1970-01-01 00:00:00. A text of another form is read as `java.sql` writes times, as in
    /// Flink. `None` where it has neither form, or is no time.
    pub fn parse(&self, text: &str) -> Option<NaiveDateTime> {
        match self.parts(text).and_then(|parts| parts.time()) {
            Some(time) => Some(time),
            None => parse_java_sql(text),
        }
    }

    fn parts(&self, text: &str) -> Option<Parts> {
        let mut rest = text;
        let mut parts = Parts::default();
        for (at, item) in self.items.iter().enumerate() {
            rest = match item {
                Item::Literal(literal) => rest.strip_prefix(literal.as_str())?,
                Item::Field(field, count) if field.is_number() => {
                    let (number, length) = number(*field, *count, self.reserved(at), rest)?;
                    parts.set(*field, *count, number);
                    &rest[length..]
                }
                Item::Field(field, count) => parts.read_name(*field, *count, rest)?,
            };
        }
        rest.is_empty().then_some(parts)
    }

    /// The digits of the numbers of fixed length that follow an item without anything between.
    fn reserved(&self, at: usize) -> usize {
        let fixed = self.items[at + 1..].iter().map_while(|item| match item {
            Item::Field(field, count) if field.is_number() => field.fixed_length(*count),
            _ => None,
        });
        fixed.sum()
    }
}

impl Field {
    /// How many digits a number has that always has as many.
    fn fixed_length(self, count: usize) -> Option<usize> {
        match self {
            Field::Fraction => Some(count),
            Field::Year => (count == 2).then_some(2),
            _ => (count > 1).then_some(count),
        }
    }
}

/// A number at the front of a text, and its length. A year of more digits than letters has a sign in front.
fn number(field: Field, count: usize, reserved: usize, text: &str) -> Option<(i64, usize)> {
    let digits_of = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    if let Some(fixed) = field.fixed_length(count) {
        let digits = text.get(..fixed).filter(|digits| digits_of(digits) == fixed)?;
        return Some((digits.parse().ok()?, fixed));
    }
    let is_signed = field == Field::Year && count > 3 && text.starts_with('+');
    let digits = &text[usize::from(is_signed)..];
    let found = digits_of(digits).min(DIGITS_MAX + reserved);
    let length = found.saturating_sub(reserved).max(count);
    if length > found || length > DIGITS_MAX {
        return None;
    }
    if field == Field::Year && count > 3 && is_signed != (length > count) {
        return None;
    }
    Some((digits[..length].parse().ok()?, length + usize::from(is_signed)))
}

impl Parts {
    fn set(&mut self, field: Field, count: usize, number: i64) {
        match field {
            Field::Year if count == 2 => self.year = Some(2000 + number),
            Field::Year => self.year = Some(number),
            Field::Month => self.month = Some(number),
            Field::Day => self.day = Some(number),
            Field::DayOfYear => self.day_of_year = Some(number),
            Field::Hour => self.hour = Some(number),
            Field::HourOfHalf => self.hour_of_half = Some(number),
            Field::Minute => self.minute = Some(number),
            Field::Second => self.second = Some(number),
            Field::Fraction => self.nanos = Some(number * 10_i64.pow(9 - count as u32)),
            Field::MonthName | Field::WeekdayName | Field::Half => unreachable!("names are no numbers"),
        }
    }

    /// Takes a name from the front of a text, and returns the rest.
    fn read_name<'a>(&mut self, field: Field, count: usize, text: &'a str) -> Option<&'a str> {
        let names: &[&str] = match field {
            Field::MonthName => &MONTHS,
            Field::WeekdayName => &WEEKDAYS,
            _ => &["AM", "PM"],
        };
        let written = |name: &'static str| if count == 4 || field == Field::Half { name } else { &name[..3] };
        let names = names.iter().copied().map(written).enumerate();
        let (at, rest) = names.filter_map(|(at, name)| Some((at, text.strip_prefix(name)?))).next()?;
        match field {
            Field::MonthName => self.month = Some(at as i64 + 1),
            Field::WeekdayName => self.weekday = Some(at as i64),
            _ => self.is_afternoon = Some(at == 1),
        }
        Some(rest)
    }

    pub(super) fn time(&self) -> Option<NaiveDateTime> {
        let (time, is_next_day) = self.time_of_day()?;
        let date = self.date()?;
        let date = if is_next_day { date.checked_add_days(Days::new(1))? } else { date };
        Some(date.and_time(time))
    }

    fn date(&self) -> Option<NaiveDate> {
        let year = within(self.year, 1..=i64::from(i32::MAX))?.map(|year| year as i32);
        let month = within(self.month, 1..=12)?.map(|month| month as u32);
        let day = within(self.day, 1..=31)?.map(|day| day as u32);
        let day_of_year = within(self.day_of_year, 1..=366)?.map(|day| day as u32);
        let whole = match (year, month, day, day_of_year) {
            (Some(year), Some(month), Some(day), _) => Some(clamped(year, month, day)?),
            (Some(year), _, _, Some(day_of_year)) => Some(NaiveDate::from_yo_opt(year, day_of_year)?),
            _ => None,
        };
        let Some(date) = whole else {
            return NaiveDate::from_ymd_opt(year.unwrap_or(1970), month.unwrap_or(1), day.unwrap_or(1));
        };
        let is_weekday = self.weekday.is_none_or(|day| day == i64::from(date.weekday().num_days_from_monday()));
        let is_day = day_of_year.is_none_or(|day| day == date.ordinal());
        (is_weekday && is_day).then_some(date)
    }

    /// The time of day, and whether it is that of the next day: 24:00:00 is its beginning.
    fn time_of_day(&self) -> Option<(NaiveTime, bool)> {
        let half = within(self.hour_of_half, 1..=12)?;
        // Without its half of the day an hour says nothing.
        let of_half = half.zip(self.is_afternoon).map(|(hour, is_afternoon)| hour % 12 + 12 * i64::from(is_afternoon));
        let hour = self.hour.or(of_half).unwrap_or(0);
        let [minute, second, nanos] = [self.minute, self.second, self.nanos].map(|part| part.unwrap_or(0));
        if (hour, minute, second, nanos) == (24, 0, 0, 0) {
            return Some((NaiveTime::MIN, true));
        }
        let known = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
        let time = NaiveTime::from_hms_nano_opt(hour as u32, minute as u32, second as u32, nanos as u32);
        time.filter(|_| known).map(|time| (time, false))
    }
}

/// A part that is within its bounds, or was not said; `None` where it is beyond them.
fn within(part: Option<i64>, bounds: std::ops::RangeInclusive<i64>) -> Option<Option<i64>> {
    part.is_none_or(|number| bounds.contains(&number)).then_some(part)
}

/// The day of a month, or its last where it has no such day.
fn clamped(year: i32, month: u32, day: u32) -> Option<NaiveDate> {
    (day.saturating_sub(3).max(1)..=day).rev().find_map(|day| NaiveDate::from_ymd_opt(year, month, day))
}
