//! Functions over dates and timestamps. Text is read and written in the session's time zone, UTC.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Date32Array, Int64Array, StringViewArray};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Int64Type, TimeUnit, TimestampMicrosecondType};
use arrow::util::display::FormatOptions;
use chrono::{DateTime, Datelike, Days, Months, NaiveDate, NaiveDateTime, TimeDelta, Timelike};
use datafusion_common::{Result, exec_datafusion_err};

use crate::casting;
use crate::definition::{Argument, Arguments};
use crate::pattern::{Pattern, parse_plain};
use crate::time_unit::{Length, Unit};

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
const PATTERN_DEFAULT: &str = "yyyy-MM-dd HH:mm:ss";

/// `DATE_FORMAT(time, pattern)`
pub(super) fn date_format(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let times = Times::new(&arguments[0])?;
    format(arguments[0].len(), |row| times.at(row), arguments.get(1))
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

/// The times that texts denote, `None` where they denote none.
fn parse(arguments: &[ArrayRef]) -> Result<Vec<Option<NaiveDateTime>>> {
    let texts = &arguments[0];
    if arguments.len() == 1 {
        return Ok((0..texts.len()).map(|row| parse_plain(text_at(texts, row)?)).collect());
    }
    let mut patterns = Patterns::new(arguments.get(1));
    let time = |row: usize| match (text_at(texts, row), patterns.at(row, PATTERN_DEFAULT)?) {
        (Some(text), Some(pattern)) => Ok(pattern.parse(text)),
        _ => Ok(None),
    };
    (0..texts.len()).map(time).collect()
}

/// `TO_TIMESTAMP(text[, pattern])`: TIMESTAMP(3); NULL where the text has another form.
pub(super) fn to_timestamp(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    times(parse(arguments)?.into_iter(), &DataType::Timestamp(TimeUnit::Millisecond, None))
}

/// `TO_DATE(text[, pattern])`: NULL where the text has another form.
pub(super) fn to_date(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let days = parse(arguments)?.into_iter().map(|time| Some(days_since_epoch(time?.date())));
    Ok(Arc::new(days.collect::<Date32Array>()))
}

/// `UNIX_TIMESTAMP(text[, pattern])`: whole seconds since 1970; NULL where the text has another form.
pub(super) fn unix_timestamp(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let seconds = parse(arguments)?.into_iter().map(|time| Some(time?.and_utc().timestamp()));
    Ok(Arc::new(seconds.collect::<Int64Array>()))
}

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
            Unit::named(name).map(Some).ok_or_else(|| exec_datafusion_err!("{name} is no unit of time"))
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
    round(arguments, |time, unit| {
        let start = floor(time, unit)?;
        if start == time { Some(time) } else { add(start, unit, 1) }
    })
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
    let start = match unit {
        Unit::Year => NaiveDate::from_ymd_opt(date.year(), 1, 1)?,
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

/// `TIMESTAMPDIFF(unit, from, to)`: how many whole units lie between.
pub(super) fn timestamp_diff(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let units = Units::new(arguments)?;
    let (from, to) = (Times::new(&arguments.column(1)?)?, Times::new(&arguments.column(2)?)?);
    let value = |row: usize| difference(units.at(row)?, from.at(row)?, to.at(row)?);
    Ok(Arc::new((0..arguments.rows).map(value).collect::<Int64Array>()))
}

fn difference(unit: Unit, from: NaiveDateTime, to: NaiveDateTime) -> Option<i64> {
    match unit.length() {
        Length::Micros(micros) => Some((to - from).num_microseconds()? / i64::try_from(micros).ok()?),
        Length::Months(per_unit) => {
            let (early, late, sign) = if from <= to { (from, to, 1) } else { (to, from, -1) };
            let months =
                i64::from(late.year() - early.year()) * 12 + i64::from(late.month()) - i64::from(early.month());
            let is_whole = (late.day(), late.time()) >= (early.day(), early.time());
            Some(sign * ((months - i64::from(!is_whole)) / i64::try_from(per_unit).ok()?))
        }
    }
}
