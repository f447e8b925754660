//! Casts and functions of instants by the clocks of a time zone. The planner puts them where the session's zone is not UTC.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringViewArray};
use arrow::compute;
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use arrow::error::ArrowError;
use chrono::{DateTime, NaiveDateTime};
use datafusion_common::{Result, exec_datafusion_err};
use pelton_data::Micros;
use pelton_data::time::micros_per_tick;
use pelton_data::zone::Zone;

use super::{MICROS_PER_SECOND, Units, ceil, floor, format, parse, text_at, to_string};
use crate::casting;
use crate::definition::{Arguments, Definition, Evaluate, Parameter, always};
use crate::pattern::{Pattern, parse_plain};
use crate::time_unit::Unit;

/// `FROM_UNIXTIME(seconds, pattern)` in a zone.
pub(crate) const FROM_UNIXTIME: Definition = Definition {
    name: "from_unixtime_in_zone",
    parameters: &[Parameter::Integer, Parameter::Text, Parameter::Text],
    required: 3,
    repeats: false,
    returns: |_| DataType::Utf8View,
    is_nullable: always,
    evaluate: Evaluate::Arrays(from_unixtime),
};

/// `UNIX_TIMESTAMP(text, pattern)` in a zone.
pub(crate) const UNIX_TIMESTAMP: Definition = Definition {
    name: "unix_timestamp_in_zone",
    parameters: &[Parameter::Text, Parameter::Text, Parameter::Text],
    required: 3,
    repeats: false,
    returns: |_| DataType::Int64,
    is_nullable: always,
    evaluate: Evaluate::Arrays(unix_timestamp),
};

/// `FLOOR(instant TO unit)` in a zone.
pub(crate) const FLOOR: Definition = rounding("floor_in_zone", |arguments| round(arguments, floor));

/// `CEIL(instant TO unit)` in a zone.
pub(crate) const CEIL: Definition = rounding("ceil_in_zone", |arguments| round(arguments, ceil));

const fn rounding(name: &'static str, evaluate: fn(&Arguments<'_>) -> Result<ArrayRef>) -> Definition {
    Definition {
        name,
        parameters: &[Parameter::Text, Parameter::Time, Parameter::Text],
        required: 3,
        repeats: false,
        returns: |types| types[1].clone(),
        is_nullable: always,
        evaluate: Evaluate::Arguments(evaluate),
    }
}

/// The zone of each row; consecutive rows mostly have the same.
pub(crate) struct Zones<'a> {
    names: Option<&'a ArrayRef>,
    last: Option<(String, Zone)>,
}

impl<'a> Zones<'a> {
    /// Those of these names; UTC where none are given.
    pub fn new(names: Option<&'a ArrayRef>) -> Zones<'a> {
        Zones { names, last: None }
    }

    /// `None` where the name is NULL.
    pub fn at(&mut self, row: usize) -> Result<Option<Zone>> {
        let name = match self.names {
            None => "UTC",
            Some(names) => match text_at(names, row) {
                Some(name) => name,
                None => return Ok(None),
            },
        };
        if let Some((_, zone)) = self.last.as_ref().filter(|(known, _)| known == name) {
            return Ok(Some(*zone));
        }
        let zone = Zone::named(name).ok_or_else(|| {
            exec_datafusion_err!(
                "'{name}' is not a valid time zone (write a name such as 'Europe/Berlin', 'UTC' or 'GMT+8')"
            )
        })?;
        self.last = Some((name.to_string(), zone));
        Ok(Some(zone))
    }
}

/// Whether values are what clocks show.
fn is_clock(data_type: &DataType) -> bool {
    data_type.is_string() || matches!(data_type, DataType::Timestamp(_, None) | DataType::Date32 | DataType::Date64)
}

/// A cast by the clocks of a zone, where one side is an instant.
pub(crate) fn cast(values: &ArrayRef, to: &DataType, is_try: bool, zone: Zone) -> Result<ArrayRef> {
    let shown = |unit: TimeUnit| DataType::Timestamp(unit, None);
    match (values.data_type(), to) {
        (DataType::Timestamp(unit, Some(_)), to) if is_clock(to) => {
            let clocks = compute::cast(&moved(values, |instant| zone.clock(instant))?, &shown(*unit))?;
            if !to.is_string() {
                return Ok(casting::cast(&clocks, to, is_try)?);
            }
            Ok(compute::cast(&to_string(&[clocks])?, to)?)
        }
        (from, DataType::Timestamp(unit, Some(_))) if is_clock(from) => {
            if from.is_string() {
                let instants = instants_of(values, is_try, zone)?;
                return Ok(casting::cast(&instants, to, is_try)?);
            }
            let clocks = casting::cast(values, &shown(*unit), is_try)?;
            Ok(compute::cast(&moved(&clocks, |clock| zone.instant(clock))?, to)?)
        }
        (from, to) if from.is_nested() && to.is_string() => {
            Ok(compute::cast(&casting::nested_texts(values, Some(zone))?, to)?)
        }
        _ => Ok(casting::cast(values, to, is_try)?),
    }
}

/// Times, as ticks of their unit, moved by whole seconds.
fn moved(times: &ArrayRef, target: impl Fn(Micros) -> Micros) -> Result<Int64Array, ArrowError> {
    let per_tick = micros_per_tick(times.data_type()).unwrap_or(1);
    let ticks = compute::cast(times, &DataType::Int64)?;
    Ok(ticks.as_primitive::<Int64Type>().unary(|tick| match tick.checked_mul(per_tick) {
        Some(micros) => tick.saturating_add(target(micros).saturating_sub(micros) / per_tick),
        None => tick,
    }))
}

/// The instants, in microseconds, that texts denote by the clocks of a zone unless they name another.
fn instants_of(texts: &ArrayRef, is_try: bool, zone: Zone) -> Result<ArrayRef> {
    let texts = compute::cast(texts, &DataType::Utf8View)?;
    let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
    let plain = texts.as_string_view().iter().map(|text| parse_plain(text?));
    let plain: Vec<Option<NaiveDateTime>> = plain.collect();
    // What names a zone is read as in UTC, and so is what is no time at all, which fails.
    let others = texts.as_string_view().iter().zip(&plain).map(|(text, plain)| text.filter(|_| plain.is_none()));
    let others: StringViewArray = others.collect();
    let others = casting::cast(&(Arc::new(others) as ArrayRef), &zoned, is_try)?;
    let others = compute::cast(&others, &DataType::Int64)?;
    let others = others.as_primitive::<Int64Type>();
    let instants = plain.into_iter().enumerate().map(|(row, plain)| match plain {
        Some(clock) => Some(zone.instant(clock.and_utc().timestamp_micros())),
        None => others.is_valid(row).then(|| others.value(row)),
    });
    Ok(compute::cast(&instants.collect::<Int64Array>(), &zoned)?)
}

fn from_unixtime(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let seconds = arguments[0].as_primitive::<Int64Type>();
    let mut zones = Zones::new(arguments.get(2));
    let times = (0..seconds.len()).map(|row| {
        let Some(zone) = zones.at(row)?.filter(|_| seconds.is_valid(row)) else { return Ok(None) };
        let micros = seconds.value(row).checked_mul(MICROS_PER_SECOND);
        let shown = micros.and_then(|micros| DateTime::from_timestamp_micros(zone.clock(micros)));
        Ok(shown.map(|shown| shown.naive_utc()))
    });
    let times = times.collect::<Result<Vec<Option<NaiveDateTime>>>>()?;
    format(seconds.len(), |row| times[row], arguments.get(1))
}

fn unix_timestamp(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let mut zones = Zones::new(arguments.get(2));
    let times = parse(&arguments[..2], Pattern::parse_leniently)?;
    let seconds = times.into_iter().enumerate().map(|(row, time)| {
        let Some(zone) = zones.at(row)? else { return Ok(None) };
        Ok(time.map(|time| zone.last_instant(time.and_utc().timestamp_micros()) / MICROS_PER_SECOND))
    });
    Ok(Arc::new(seconds.collect::<Result<Int64Array>>()?))
}

/// `CONVERT_TZ(text, from, to)`: what the clocks of one zone show when those of another show the time that a text denotes; NULL where it denotes none.
pub(crate) fn convert_tz(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let (mut from, mut to) = (Zones::new(arguments.get(1)), Zones::new(arguments.get(2)));
    let times = parse(&arguments[..1], Pattern::parse_leniently)?;
    let times = times.into_iter().enumerate().map(|(row, time)| {
        let (Some(from), Some(to), Some(time)) = (from.at(row)?, to.at(row)?, time) else { return Ok(None) };
        let instant = from.last_instant(time.and_utc().timestamp_micros());
        Ok(DateTime::from_timestamp_micros(to.clock(instant)).map(|shown| shown.naive_utc()))
    });
    let times = times.collect::<Result<Vec<Option<NaiveDateTime>>>>()?;
    format(times.len(), |row| times[row], None)
}

/// Rounds instants by the clocks of a zone: days and what is coarser begin when clocks first show it, what is finer goes by the clock as it is set then.
fn round(arguments: &Arguments<'_>, rounded: fn(NaiveDateTime, Unit) -> Option<NaiveDateTime>) -> Result<ArrayRef> {
    let (units, column) = (Units::new(arguments)?, arguments.column(1)?);
    let names = arguments.column(2)?;
    let mut zones = Zones::new(Some(&names));
    let micros = DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
    let instants = compute::cast(&compute::cast(&column, &micros)?, &DataType::Int64)?;
    let instants = instants.as_primitive::<Int64Type>();
    let values = (0..arguments.rows).map(|row| {
        let (Some(zone), Some(unit)) = (zones.at(row)?.filter(|_| instants.is_valid(row)), units.at(row)) else {
            return Ok(None);
        };
        let instant = instants.value(row);
        let clock = zone.clock(instant);
        let shown = DateTime::from_timestamp_micros(clock).and_then(|shown| rounded(shown.naive_utc(), unit));
        let shown = shown.map(|shown| shown.and_utc().timestamp_micros());
        Ok(shown.map(|shown| match unit {
            _ if shown == clock => instant,
            unit if unit <= Unit::Day => zone.first(shown),
            _ => shown - (clock - instant),
        }))
    });
    let values = values.collect::<Result<Int64Array>>()?;
    Ok(casting::cast(&compute::cast(&values, &micros)?, column.data_type(), true)?)
}
