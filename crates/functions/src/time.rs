//! Functions over dates and timestamps. Where a session's time zone decides, it is UTC here; `zoned` has the same for others.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, DurationMicrosecondArray, Int32Array, Int64Array, StringViewArray,
};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Int64Type, TimeUnit, TimestampMicrosecondType};
use arrow::util::display::FormatOptions;
use chrono::{DateTime, Datelike, Days, Months, NaiveDate, NaiveDateTime, TimeDelta, Timelike};
use datafusion_common::{Result, exec_datafusion_err, exec_err};

use crate::casting;
use crate::definition::{Argument, Arguments};
use crate::pattern::{Pattern, parse_date, parse_timestamp};
use crate::time_unit::{Length, Unit};

pub(crate) mod instants;

pub(crate) mod zoned;

/// Times of any type, one by one.
struct Times(ArrayRef);

impl Times {
    fn new(array: &ArrayRef) -> Result<Times> {
        Ok(Times(cast(array, &DataType::Timestamp(TimeUnit::Microsecond, None))?))
    }

    fn at(&self, row: usize) -> Option<NaiveDateTime> {
        let values = self.0.as_primitive::<TimestampMicrosecondType>();
        let micros = values.is_valid(row).then(|| values.value(row))?;
        DateTime::from_timestamp_micros(micros).map(|time| time.naive_utc())
    }
}

/// Times as an array of this type.
fn times(values: impl Iterator<Item = Option<NaiveDateTime>>, data_type: &DataType) -> Result<ArrayRef> {
    let micros: Int64Array = values.map(|time| Some(time?.and_utc().timestamp_micros())).collect();
    let micros = cast(&micros, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
    Ok(casting::cast(&micros, data_type, true)?)
}

/// What `CAST(time AS STRING)` gives: a blank before the time of day, and as many digits as the type has.
pub(super) fn to_string(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let format = match arguments[0].data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => "%Y-%m-%d %H:%M:%S",
        DataType::Timestamp(TimeUnit::Millisecond, _) => "%Y-%m-%d %H:%M:%S%.3f",
        _ => "%Y-%m-%d %H:%M:%S%.6f",
    };
    let formats = FormatOptions::new().with_timestamp_format(Some(format)).with_timestamp_tz_format(Some(format));
    let options = CastOptions { safe: false, format_options: formats };
    Ok(cast_with_options(&arguments[0], &DataType::Utf8View, &options)?)
}

fn text_at(array: &ArrayRef, row: usize) -> Option<&str> {
    let values: &StringViewArray = array.as_string_view();
    values.is_valid(row).then(|| values.value(row))
}

/// The pattern of each row; consecutive rows mostly have the same.
struct Patterns<'a> {
    texts: Option<&'a ArrayRef>,
    last: Option<(String, Pattern)>,
}

impl<'a> Patterns<'a> {
    fn new(texts: Option<&'a ArrayRef>) -> Patterns<'a> {
        Patterns { texts, last: None }
    }

    /// `None` where the pattern is NULL; `default` where none is given.
    fn at(&mut self, row: usize, default: &str) -> Result<Option<&Pattern>> {
        let text = match self.texts {
            None => default,
            Some(texts) => match text_at(texts, row) {
                Some(text) => text,
                None => return Ok(None),
            },
        };
        if self.last.as_ref().is_none_or(|(known, _)| known != text) {
            self.last = Some((text.to_string(), Pattern::new(text)?));
        }
        Ok(self.last.as_ref().map(|(_, pattern)| pattern))
    }
}

/// What Flink writes times as unless told otherwise.
pub(crate) const PATTERN_DEFAULT: &str = "yyyy-MM-dd HH:mm:ss";

/// `DATE_FORMAT(time, pattern)`. A text is read as `yyyy-MM-dd HH:mm:ss`, and has no value where it is no time.
pub(super) fn date_format(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let rows = arguments[0].len();
    if arguments[0].data_type().is_string() {
        let times = parse(&arguments[..1], Pattern::parse_leniently)?;
        return format(rows, |row| times[row], arguments.get(1));
    }
    let times = Times::new(&arguments[0])?;
    format(rows, |row| times.at(row), arguments.get(1))
}

/// `FROM_UNIXTIME(seconds[, pattern])`
pub(super) fn from_unixtime(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let seconds = arguments[0].as_primitive::<Int64Type>();
    let time = |row: usize| {
        let seconds = seconds.is_valid(row).then(|| seconds.value(row))?;
        DateTime::from_timestamp(seconds, 0).map(|time| time.naive_utc())
    };
    format(arguments[0].len(), time, arguments.get(1))
}

fn format(rows: usize, time: impl Fn(usize) -> Option<NaiveDateTime>, pattern: Option<&ArrayRef>) -> Result<ArrayRef> {
    let mut patterns = Patterns::new(pattern);
    let texts = (0..rows).map(|row| match (time(row), patterns.at(row, PATTERN_DEFAULT)?) {
        (Some(time), Some(pattern)) => Ok(Some(pattern.format(time))),
        _ => Ok(None),
    });
    Ok(Arc::new(texts.collect::<Result<StringViewArray>>()?))
}

/// The times that texts denote by the patterns behind them, or by the default, `None` where they denote none.
fn parse(
    arguments: &[ArrayRef],
    read: fn(&Pattern, &str) -> Option<NaiveDateTime>,
) -> Result<Vec<Option<NaiveDateTime>>> {
    let texts = &arguments[0];
    let mut patterns = Patterns::new(arguments.get(1));
    let time = |row: usize| match (text_at(texts, row), patterns.at(row, PATTERN_DEFAULT)?) {
        (Some(text), Some(pattern)) => Ok(read(pattern, text)),
        _ => Ok(None),
    };
    (0..texts.len()).map(time).collect()
}

/// The times of texts, with patterns or without.
fn timestamps(arguments: &[ArrayRef]) -> Result<Vec<Option<NaiveDateTime>>> {
    if arguments.len() > 1 {
        return parse(arguments, Pattern::parse);
    }
    let texts = &arguments[0];
    Ok((0..texts.len()).map(|row| parse_timestamp(text_at(texts, row)?)).collect())
}

/// `TO_TIMESTAMP(text[, pattern])`: TIMESTAMP(3); NULL where the text has another form.
pub(super) fn to_timestamp(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    times(timestamps(arguments)?.into_iter(), &DataType::Timestamp(TimeUnit::Millisecond, None))
}

/// `TO_DATE(text[, pattern])`: NULL where the text has another form.
pub(super) fn to_date(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = &arguments[0];
    let dates: Vec<Option<NaiveDate>> = match arguments.len() {
        1 => (0..texts.len()).map(|row| parse_date(text_at(texts, row)?)).collect(),
        _ => parse(arguments, Pattern::parse_leniently)?.into_iter().map(|time| Some(time?.date())).collect(),
    };
    let days = dates.into_iter().map(|date| date.map(days_since_epoch));
    Ok(Arc::new(days.collect::<Date32Array>()))
}

/// `UNIX_TIMESTAMP(text[, pattern])`: whole seconds since 1970; NULL where the text has another form.
pub(super) fn unix_timestamp(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let micros = parse(arguments, Pattern::parse_leniently)?;
    let seconds = micros.into_iter().map(|time| Some(time?.and_utc().timestamp_micros() / MICROS_PER_SECOND));
    Ok(Arc::new(seconds.collect::<Int64Array>()))
}

const MICROS_PER_SECOND: i64 = 1_000_000;

fn days_since_epoch(date: NaiveDate) -> i32 {
    date.signed_duration_since(NaiveDate::default()).num_days() as i32
}

/// The units that a call's first argument names.
struct Units {
    names: Argument,
    /// One for each name.
    units: Vec<Option<Unit>>,
}

impl Units {
    fn new(arguments: &Arguments<'_>) -> Result<Units> {
        let names = arguments.get(0)?.expect("the unit is given");
        let unit = |row| {
            let Some(name) = text_at(&names.values, row) else { return Ok(None) };
            Unit::of_rounding(name).map(Some).ok_or_else(|| exec_datafusion_err!("{name} is not a valid unit of time"))
        };
        let units = (0..names.values.len()).map(unit).collect::<Result<_>>()?;
        Ok(Units { names, units })
    }

    fn at(&self, row: usize) -> Option<Unit> {
        self.units[self.names.place(row)]
    }
}

/// `FLOOR(time TO unit)`, written `floor_to(unit, time)`. Weeks begin on Sunday.
pub(super) fn floor_to(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    round(arguments, floor)
}

/// `CEIL(time TO unit)`, written `ceil_to(unit, time)`. Weeks begin on Sunday.
pub(super) fn ceil_to(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    round(arguments, ceil)
}

fn ceil(time: NaiveDateTime, unit: Unit) -> Option<NaiveDateTime> {
    let start = floor(time, unit)?;
    if start == time { Some(time) } else { add(start, unit, 1) }
}

fn round(
    arguments: &Arguments<'_>,
    rounded: impl Fn(NaiveDateTime, Unit) -> Option<NaiveDateTime>,
) -> Result<ArrayRef> {
    let (units, column) = (Units::new(arguments)?, arguments.column(1)?);
    let values = Times::new(&column)?;
    let value = |row: usize| rounded(values.at(row)?, units.at(row)?);
    times((0..arguments.rows).map(value), column.data_type())
}

fn floor(time: NaiveDateTime, unit: Unit) -> Option<NaiveDateTime> {
    let date = time.date();
    let first_day = |year: i32| NaiveDate::from_ymd_opt(year, 1, 1);
    let start = match unit {
        // The year 2000 is the last of its century and millennium, and the first of its decade.
        Unit::Millennium => first_day((date.year() - 1).div_euclid(1_000) * 1_000 + 1)?,
        Unit::Century => first_day((date.year() - 1).div_euclid(100) * 100 + 1)?,
        Unit::Decade => first_day(date.year().div_euclid(10) * 10)?,
        Unit::Year => first_day(date.year())?,
        Unit::Quarter => NaiveDate::from_ymd_opt(date.year(), date.month0() / 3 * 3 + 1, 1)?,
        Unit::Month => date.with_day(1)?,
        Unit::Week => date.checked_sub_days(Days::new(u64::from(date.weekday().num_days_from_sunday())))?,
        Unit::Day => date,
        Unit::Hour => return date.and_hms_opt(time.hour(), 0, 0),
        Unit::Minute => return date.and_hms_opt(time.hour(), time.minute(), 0),
        Unit::Second => return time.with_nanosecond(0),
        Unit::Millisecond => return time.with_nanosecond(time.nanosecond() / 1_000_000 * 1_000_000),
        Unit::Microsecond => return time.with_nanosecond(time.nanosecond() / 1_000 * 1_000),
    };
    Some(start.into())
}

fn add(time: NaiveDateTime, unit: Unit, count: i64) -> Option<NaiveDateTime> {
    match unit.length() {
        Length::Months(months) => {
            let months = i64::try_from(months).ok()?.checked_mul(count)?;
            let length = Months::new(u32::try_from(months.unsigned_abs()).ok()?);
            if months < 0 { time.checked_sub_months(length) } else { time.checked_add_months(length) }
        }
        Length::Micros(micros) => {
            let micros = i64::try_from(micros).ok()?.checked_mul(count)?;
            time.checked_add_signed(TimeDelta::microseconds(micros))
        }
    }
}

/// `TIMESTAMPADD(unit, count, time)` for days and coarser units, of the time's type; a day that the month does not have
/// becomes the month's last.
pub(super) fn add_days(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    sums(arguments, DataType::clone)
}

/// `TIMESTAMPADD(unit, count, time)` for units finer than days: a DATE becomes a TIMESTAMP(3).
pub(super) fn add_time(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    sums(arguments, |data_type| match data_type {
        DataType::Date32 => DataType::Timestamp(TimeUnit::Millisecond, None),
        other => other.clone(),
    })
}

/// `returns` gives the sums' type by that of the times.
fn sums(arguments: &Arguments<'_>, returns: fn(&DataType) -> DataType) -> Result<ArrayRef> {
    let (units, counts, column) = (Units::new(arguments)?, arguments.column(1)?, arguments.column(2)?);
    let counts = counts.as_primitive::<Int64Type>();
    let values = Times::new(&column)?;
    let value = |row: usize| {
        let count = counts.is_valid(row).then(|| counts.value(row))?;
        add(values.at(row)?, units.at(row)?, count)
    };
    times((0..arguments.rows).map(value), &returns(column.data_type()))
}

/// `TIMESTAMPDIFF(unit, from, to)`: how many whole units lie between, an INT.
pub(super) fn timestamp_diff(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let units = Units::new(arguments)?;
    let (from, to) = (Times::new(&arguments.column(1)?)?, Times::new(&arguments.column(2)?)?);
    let value = |row: usize| {
        let (Some(unit), Some(from), Some(to)) = (units.at(row), from.at(row), to.at(row)) else { return Ok(None) };
        match i32::try_from(difference(unit, from, to)) {
            Ok(difference) => Ok(Some(difference)),
            Err(_) => exec_err!(
                "TIMESTAMPDIFF({}, …) from {from} to {to} is not a valid INT (use a coarser unit, or MICROSECOND, which is BIGINT)",
                unit.name()
            ),
        }
    };
    Ok(Arc::new((0..arguments.rows).map(value).collect::<Result<Int32Array>>()?))
}

/// `TIMESTAMPDIFF(MICROSECOND, from, to)`, a BIGINT.
pub(super) fn timestamp_diff_micros(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let (from, to) = (Times::new(&arguments.column(1)?)?, Times::new(&arguments.column(2)?)?);
    let value = |row: usize| Some(difference(Unit::Microsecond, from.at(row)?, to.at(row)?));
    Ok(Arc::new((0..arguments.rows).map(value).collect::<Int64Array>()))
}

/// `(to - from) DAY`, as a length of time in the unit of the finer time.
pub(super) fn length_between(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let (to, from) = (Times::new(&arguments[0])?, Times::new(&arguments[1])?);
    let micros = |row: usize| Some(difference(Unit::Microsecond, from.at(row)?, to.at(row)?));
    let lengths: DurationMicrosecondArray = (0..arguments[0].len()).map(micros).collect();
    let types = [arguments[0].data_type().clone(), arguments[1].data_type().clone()];
    Ok(cast(&lengths, &length_type(&types))?)
}

/// The type of a length between two times.
pub(super) fn length_type(types: &[DataType]) -> DataType {
    let unit = |data_type: &DataType| match data_type {
        DataType::Timestamp(unit, _) => *unit,
        _ => TimeUnit::Second,
    };
    DataType::Duration(types.iter().map(unit).max().unwrap_or(TimeUnit::Second))
}

/// How many whole units lie between two times.
fn difference(unit: Unit, from: NaiveDateTime, to: NaiveDateTime) -> i64 {
    match unit.length() {
        Length::Micros(micros) => {
            let between = (to.and_utc().timestamp_micros() - from.and_utc().timestamp_micros()) as i128;
            (between / micros) as i64
        }
        Length::Months(per_unit) => months_between(from, to) / per_unit as i64,
    }
}

/// How many months must be added to `from` so that it is not after `to`, by the day. Where both then are of the same day, one less if it is later then, also
/// where `to` is before `from`: as in Flink.
fn months_between(from: NaiveDateTime, to: NaiveDateTime) -> i64 {
    let months = if to.date() < from.date() {
        -whole_months(to.date(), from.date())
    } else {
        whole_months(from.date(), to.date())
    };
    let is_of_same_day = plus_months(from.date(), months) == Some(to.date());
    months - i64::from(is_of_same_day && to.time() < from.time())
}

/// The most months that can be added to the earlier date without passing the later one; a day that a month does not have is its last.
fn whole_months(earlier: NaiveDate, later: NaiveDate) -> i64 {
    let months = i64::from(later.year() - earlier.year()) * 12 + i64::from(later.month()) - i64::from(earlier.month());
    let is_passed = plus_months(earlier, months).is_none_or(|date| date > later);
    months - i64::from(is_passed)
}

fn plus_months(date: NaiveDate, months: i64) -> Option<NaiveDate> {
    let length = Months::new(u32::try_from(months.unsigned_abs()).ok()?);
    if months < 0 { date.checked_sub_months(length) } else { date.checked_add_months(length) }
}
