//! What the generators share: numbered rows, cut into chunks that any worker can generate.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, TimestampMillisecondArray};
use arrow::datatypes::{Field, Schema, SchemaRef};
use chrono::{DateTime, NaiveDateTime, Utc};
use pelton_data::Micros;
use pelton_data::column::{logical_type, sql_name};
use pelton_data::time::WATERMARK_MIN;
use pelton_runtime::source::{Decoded, LeftOut, Position, Read, Source, SourceError};

use crate::options::Options;
use crate::pace::{Overload, Pacer, Release};
use crate::random::Divisor;
use crate::{ConnectorError, TableRequest};

/// 2015-07-15T00:00:00Z in milliseconds: where Nexmark's time begins, and ours by default.
pub(crate) const BASE_TIME_DEFAULT_MS: i64 = 1_436_918_400_000;

/// Rows whose values depend on their number alone.
pub(crate) trait Generator: Send + Sync {
    /// The wanted columns of the rows with these numbers.
    fn columns(&self, rows: Range<u64>) -> Vec<ArrayRef>;

    /// The largest event time of all rows before this one, where that is known without a look at them.
    fn times_before(&self, _row: u64) -> Option<Micros> {
        None
    }
}

/// A column of type BIGINT.
pub(crate) fn numbers(values: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

/// A column of type TIMESTAMP(3).
pub(crate) fn times(milliseconds: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(TimestampMillisecondArray::from_iter_values(milliseconds))
}

/// A source of generated rows.
pub(crate) struct GeneratedSource<G> {
    generator: Arc<G>,
    schema: SchemaRef,
    rows: Option<u64>,
    block_rows: u64,
    pacer: Option<Pacer>,
    next_row: u64,
}

impl<G: Generator> GeneratedSource<G> {
    /// `rows` rows, or rows without end, as fast as they are read or as `pacer` has it.
    pub(crate) fn new(
        generator: G,
        schema: SchemaRef,
        rows: Option<u64>,
        block_rows: usize,
        pacer: Option<Pacer>,
    ) -> GeneratedSource<G> {
        GeneratedSource {
            generator: Arc::new(generator),
            schema,
            rows,
            block_rows: block_rows as u64,
            pacer,
            next_row: 0,
        }
    }
}

impl<G: Generator + 'static> Source for GeneratedSource<G> {
    fn partitions(&self) -> usize {
        1
    }

    fn read(&mut self, _partition: usize) -> Result<Read, SourceError> {
        let left = self.rows.map_or(u64::MAX, |rows| rows - self.next_row);
        if left == 0 {
            return Ok(Read::End);
        }
        let release = self
            .pacer
            .as_mut()
            .map_or(Ok(Release { dropped: 0, rows: left }), |pacer| pacer.release(self.next_row, left));
        let Release { dropped, rows } = match release {
            Ok(release) => release,
            Err(wait) => return Ok(Read::Wait(wait)),
        };
        let first = self.next_row + dropped;
        let count = rows.min(self.block_rows);
        let rows = first..first + count;
        self.next_row = rows.end;
        let (generator, schema) = (self.generator.clone(), self.schema.clone());
        Ok(Read::Chunk(Box::new(move || {
            let row_count = RecordBatchOptions::new().with_row_count(Some(count as usize));
            let batch = RecordBatch::try_new_with_options(schema, generator.columns(rows), &row_count)
                .expect("generated columns fit the schema that was checked when the table was opened");
            let left_out = LeftOut { dropped_count: dropped, ..LeftOut::default() };
            Ok(Decoded { left_out, ..Decoded::batch(batch) })
        })))
    }

    fn position(&self, _partition: usize) -> Option<Position> {
        Some(Position::of_row(self.next_row))
    }

    fn times_before(&self, _partition: usize) -> Option<Micros> {
        self.generator.times_before(self.next_row)
    }

    fn seek(&mut self, _partition: usize, position: Position) {
        self.next_row = position.row;
        if let Some(pacer) = &mut self.pacer {
            pacer.start_at(position.row);
        }
    }
}

/// Where a column of a table comes from: the wanted columns of `request` among those that are `offered`, by name.
///
/// # Errors
/// Where the table declares a column that is not offered, or with another type.
pub(crate) fn match_columns(request: &TableRequest, offered: &Schema) -> Result<Vec<usize>, ConnectorError> {
    if let Some((&column, _)) = request.metadata.first_key_value() {
        let name = request.schema.field(column).name();
        return Err(ConnectorError::column(name, "is METADATA, and this connector has none"));
    }
    let all: Vec<usize> =
        request.schema.fields().iter().map(|field| match_column(field, offered)).collect::<Result<_, _>>()?;
    Ok(request.columns.iter().map(|&column| all[column]).collect())
}

fn match_column(field: &Field, offered: &Schema) -> Result<usize, ConnectorError> {
    let fields = offered.fields();
    let exact = fields.iter().position(|offer| offer.name() == field.name());
    let found = exact.or_else(|| fields.iter().position(|offer| offer.name().eq_ignore_ascii_case(field.name())));
    let Some(index) = found else {
        let names: Vec<String> = fields.iter().map(|offer| format!("'{}'", offer.name())).collect();
        let problem = format!("is not among those the table has: {}", names.join(", "));
        return Err(ConnectorError::column(field.name(), problem));
    };
    let offer = &fields[index];
    if logical_type(field.data_type()) != logical_type(offer.data_type()) {
        let problem = format!("must be {}, not {}", sql_name(offer.data_type()), sql_name(field.data_type()));
        return Err(ConnectorError::column(field.name(), problem));
    }
    if offer.is_nullable() && !field.is_nullable() {
        return Err(ConnectorError::column(field.name(), "can be NULL: it must not be declared NOT NULL"));
    }
    Ok(index)
}

/// The table's columns with the types in which they are delivered.
///
/// # Errors
/// As [`match_columns`].
pub(crate) fn physical_schema(request: &TableRequest, offered: &Schema) -> Result<SchemaRef, ConnectorError> {
    let fields = request.schema.fields().iter().map(|field| {
        let offer = offered.field(match_column(field, offered)?);
        Ok(field.as_ref().clone().with_data_type(offer.data_type().clone()))
    });
    Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<_>, ConnectorError>>()?)))
}

/// The schema of a request's batches: the wanted columns, as declared, with the types in which they are delivered.
pub(crate) fn batch_schema(request: &TableRequest, offered: &Schema, matched: &[usize]) -> SchemaRef {
    let fields = request.columns.iter().zip(matched).map(|(&column, &offer)| {
        request.schema.field(column).clone().with_data_type(offered.field(offer).data_type().clone())
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Whether rows come when their time comes or as fast as they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    RealTime,
    FlatOut,
}

impl Pace {
    pub(crate) const CHOICES: &'static [(&'static str, Pace)] =
        &[("real-time", Pace::RealTime), ("flat-out", Pace::FlatOut)];

    /// `pace`. Rows that are given a rate come at it unless another pace is asked for: `default` is the pace of those that are not.
    ///
    /// # Errors
    /// Where the value is none of the choices.
    pub(crate) fn of(options: &Options, default: Pace) -> Result<Pace, ConnectorError> {
        let default = if options.text("rows-per-second").is_some() { Pace::RealTime } else { default };
        Ok(options.choice("pace", Pace::CHOICES)?.unwrap_or(default))
    }

    /// What holds rows back, where anything does: `rows` leave every `per`.
    ///
    /// # Errors
    /// As [`Overload::of`].
    pub(crate) fn pacer(self, options: &Options, rows: u64, per: Duration) -> Result<Option<Pacer>, ConnectorError> {
        let has_pace = self == Pace::RealTime;
        let overload = Overload::of(options, has_pace)?;
        Ok(has_pace.then(|| Pacer::new(rows, per, overload)))
    }
}

/// A whole number of at least 1.
///
/// # Errors
/// Where the value is none.
pub(crate) fn positive(options: &Options, name: &str) -> Result<Option<u64>, ConnectorError> {
    options.parsed(name, "a whole number of at least 1", |text| {
        text.trim().replace('_', "").parse().ok().filter(|&number: &u64| number > 0)
    })
}

/// As [`positive`]; where the option is absent, its default.
///
/// # Errors
/// As [`positive`].
pub(crate) fn positive_or_default(options: &Options, name: &str) -> Result<u64, ConnectorError> {
    Ok(options.or_default(name, positive(options, name)?, |text| text.parse().ok()))
}

/// Events at a constant rate of event time, in whole milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventTimes {
    base_ms: i64,
    per_second: Divisor,
}

/// A thousand events a nanosecond: more than any machine makes, and far below what a [`Divisor`] allows.
const EVENTS_PER_SECOND_MAX: u64 = 1_000_000_000_000;

impl EventTimes {
    /// `rows-per-second` [10,000] and `base-time` [`base_default_ms`; or 'now'].
    ///
    /// # Errors
    /// Where one of them makes no sense.
    pub(crate) fn of(options: &Options, base_default_ms: i64) -> Result<EventTimes, ConnectorError> {
        let base_ms = options
            .parsed("base-time", "a time such as '2015-07-15 00:00:00', in UTC, or 'now'", parse_time_ms)?
            .unwrap_or(base_default_ms);
        let per_second = positive_or_default(options, "rows-per-second")?;
        if per_second > EVENTS_PER_SECOND_MAX {
            return Err(ConnectorError::option("rows-per-second", format!("must be at most {EVENTS_PER_SECOND_MAX}")));
        }
        Ok(EventTimes { base_ms, per_second: Divisor::new(per_second) })
    }

    /// Events per second of event time.
    pub(crate) fn per_second(&self) -> u64 {
        self.per_second.get()
    }

    /// When the last event before `number` happens, in microseconds; the least time where there is none.
    pub(crate) fn before(&self, number: u64) -> Micros {
        number.checked_sub(1).map_or(WATERMARK_MIN, |last| self.at_ms(last) * 1_000)
    }

    /// When event `number` happens, in milliseconds since 1970: its part of the seconds since the base, rounded down.
    #[inline(always)]
    pub(crate) fn at_ms(&self, number: u64) -> i64 {
        self.base_ms + self.per_second.quotient(number * 1_000) as i64
    }
}

fn parse_time_ms(text: &str) -> Option<i64> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("now") {
        return Some(Utc::now().timestamp_millis());
    }
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(time.timestamp_millis());
    }
    let formats = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f"];
    let time = formats.iter().find_map(|format| NaiveDateTime::parse_from_str(text, format).ok())?;
    Some(time.and_utc().timestamp_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_times_are_read_as_people_write_them() {
        let base = Some(BASE_TIME_DEFAULT_MS);
        for text in
            ["2015-07-15 00:00:00", "2015-07-15T00:00:00Z", "2015-07-15T02:00:00+02:00", "2015-07-15T00:00:00.000"]
        {
            assert_eq!(parse_time_ms(text), base, "{text}");
        }
        assert!(parse_time_ms("now") > base);
        assert_eq!(parse_time_ms("yesterday"), None);
    }
}
