//! Tables whose rows a program has in memory.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use pelton_data::spelling::identifier;
use pelton_data::{BLOCK_ROWS_DEFAULT, Micros};
use pelton_plan::Table;
use pelton_plan::parse::{TableDefinition, WatermarkDefinition};
use pelton_runtime::source::{Read, Ready, Source, SourceError, read_as_chunk};

use crate::display::type_names;
use crate::error::Error;

/// What such a table has as its connector.
pub(crate) const CONNECTOR: &str = "memory";

/// Rows that are read at once: enough blocks for all workers, and not so many that other sources wait.
const ROWS_AT_ONCE_MAX: usize = 4 * BLOCK_ROWS_DEFAULT;

/// The event time of registered rows, and how far the watermark trails it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventTime {
    /// The column, a TIMESTAMP or TIMESTAMP_LTZ.
    pub column: String,
    /// How much later than others a row may come.
    pub delay: Duration,
}

/// The definition of a table of this name, and without columns yet.
pub(crate) fn definition(name: &str, event_time: Option<EventTime>) -> TableDefinition {
    let mut definition = TableDefinition { name: name.to_owned(), temporary: true, ..TableDefinition::default() };
    definition.options.insert("connector".to_owned(), CONNECTOR.to_owned());
    definition.watermark = event_time.map(watermark);
    definition
}

/// The table that has rows of a schema, by a definition with the same columns.
pub(crate) fn table(definition: TableDefinition, schema: &SchemaRef, rows: &[RecordBatch]) -> Result<Table, Error> {
    let declared = definition.physical_schema();
    let rows = rows.iter().map(|batch| with_types(batch, schema, &declared)).collect::<Result<_, _>>()?;
    Ok(Table { rows: Some(rows), ..Table::new(definition, Schema::clone(&declared), true)? })
}

fn watermark(event_time: EventTime) -> WatermarkDefinition {
    let EventTime { column, delay } = event_time;
    let name = identifier(&column);
    let text = match delay.as_secs_f64() {
        0.0 => name.to_string(),
        seconds => format!("{name} - INTERVAL '{seconds}' SECOND"),
    };
    let delay = Micros::try_from(delay.as_micros()).unwrap_or(Micros::MAX);
    WatermarkDefinition { column, delay, text, is_inferred: false, place: None }
}

/// Rows of a schema in the types in which the engine has its columns: a string as a view.
fn with_types(batch: &RecordBatch, schema: &SchemaRef, declared: &SchemaRef) -> Result<RecordBatch, Error> {
    let misfit = |error: String| Error::Usage(format!("the rows do not have the schema: {error}"));
    if batch.num_columns() != schema.fields().len() {
        return Err(misfit(format!("they have {} columns, not {}", batch.num_columns(), schema.fields().len())));
    }
    let column = |(column, (field, declared)): (&ArrayRef, (&FieldRef, &FieldRef))| {
        if column.data_type() != field.data_type() {
            let [wanted, found] = type_names(field.data_type(), column.data_type());
            return Err(misfit(format!("column {} is {found}, not {wanted}", field.name())));
        }
        cast(column, declared.data_type()).map_err(|error| misfit(error.to_string()))
    };
    let columns = batch.columns().iter().zip(schema.fields().iter().zip(declared.fields())).map(column);
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    RecordBatch::try_new(declared.clone(), columns).map_err(|error| misfit(error.to_string()))
}

/// Reads these columns of registered rows.
pub(crate) fn registered_rows(rows: &Arc<[RecordBatch]>, columns: &[usize]) -> Box<dyn Source> {
    Box::new(RegisteredRows { rows: rows.clone(), columns: columns.to_vec(), batch: 0, row: 0 })
}

struct RegisteredRows {
    rows: Arc<[RecordBatch]>,
    columns: Vec<usize>,
    /// The batch that is read, and its next row.
    batch: usize,
    row: usize,
}

impl Source for RegisteredRows {
    fn partitions(&self) -> usize {
        1
    }

    fn read(&mut self, partition: usize) -> Result<Read, SourceError> {
        read_as_chunk(self, partition)
    }

    fn read_ready(&mut self, _partition: usize, ready: &mut Ready) -> Result<Option<Read>, SourceError> {
        let mut room = ROWS_AT_ONCE_MAX;
        while let Some(batch) = self.rows.get(self.batch).filter(|_| room > 0) {
            let rows = (batch.num_rows() - self.row).min(room);
            if rows > 0 {
                let read = batch.slice(self.row, rows).project(&self.columns);
                ready.batches.push(read.expect("the columns are the table's"));
            }
            (self.row, room) = (self.row + rows, room - rows);
            if self.row == batch.num_rows() {
                (self.batch, self.row) = (self.batch + 1, 0);
            }
        }
        Ok(ready.batches.is_empty().then_some(Read::End))
    }
}
