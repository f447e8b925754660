//! Rows of random or sequential values for any table, with Flink's options.
//!
//! [`crate::options::table`] lists the options.
//!
//! Values depend on the seed, the column's name and the row's number only: with a `base-time`, two runs are equal.

mod values;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::ArrayRef;
use chrono::Utc;
use pelton_runtime::source::Source;

use crate::generated::{EventTimes, GeneratedSource, Generator, Pace};
use crate::options::Options;
use crate::{ConnectorError, TableRequest};
use values::Field;

/// Whether the options give the table an end.
pub(crate) fn is_bounded(options: &Options) -> bool {
    let is_sequence = |name: &str| {
        let is_kind = name.starts_with("fields.") && name.ends_with(".kind");
        is_kind && options.text(name).is_some_and(|kind| kind.eq_ignore_ascii_case("sequence"))
    };
    options.text("number-of-rows").is_some() || options.names().any(is_sequence)
}

/// A block has fewer rows than it may where their strings would take more than this.
const BLOCK_TEXT_BYTES: u64 = 16 << 20;

/// Opens a table of generated values.
pub(crate) fn open_source(request: &TableRequest, options: &Options) -> Result<Box<dyn Source>, ConnectorError> {
    if let Some((&column, _)) = request.metadata.first_key_value() {
        let name = request.schema.field(column).name();
        return Err(ConnectorError::column(name, "is METADATA, and 'datagen' has none"));
    }
    let times = EventTimes::of(options, Utc::now().timestamp_millis())?;
    let seed = options.number("seed")?.unwrap_or(request.seed);
    let pacer = Pace::of(options, Pace::RealTime)?.pacer(options, times.per_second(), Duration::from_secs(1))?;
    let fields: Vec<Arc<Field>> = request
        .schema
        .fields()
        .iter()
        .enumerate()
        .map(|(column, field)| {
            let length = request.lengths.get(&column).copied();
            Field::of((field, length), options, seed, request.block_rows).map(Arc::new)
        })
        .collect::<Result<_, _>>()?;
    let number: Option<u64> = options.number("number-of-rows")?;
    let rows = number.into_iter().chain(fields.iter().filter_map(|field| field.rows())).min();
    let schema = Arc::new(request.schema.project(&request.columns).expect("wanted columns are the table's"));
    let wanted: Vec<_> = request.columns.iter().map(|&column| fields[column].clone()).collect();
    let row_bytes = wanted.iter().map(|field| field.text_bytes()).sum::<u64>().max(1);
    let block_rows = request.block_rows.min((BLOCK_TEXT_BYTES / row_bytes).max(1) as usize);
    let datagen = Datagen { fields: wanted, times };
    Ok(Box::new(GeneratedSource::new(datagen, schema, rows, block_rows, pacer)))
}

/// Generates the wanted columns.
#[derive(Debug)]
struct Datagen {
    fields: Vec<Arc<Field>>,
    times: EventTimes,
}

impl Generator for Datagen {
    fn columns(&self, rows: Range<u64>) -> Vec<ArrayRef> {
        self.fields.iter().map(|field| field.column(rows.clone(), &self.times)).collect()
    }
}

#[cfg(test)]
mod tests;
