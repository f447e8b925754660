//! Event times that are computed from other columns.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::{filter_record_batch, is_not_null};
use arrow::datatypes::SchemaRef;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion_common::DataFusionError;
use datafusion_physical_expr::PhysicalExpr;
use pelton_connectors::OnError;
use pelton_data::Provenance;
use pelton_plan::pipeline::SourceUse;
use pelton_runtime::source::{Decoded, LeftOut, Read, RejectedRow, Rows, Source, SourceError};

use crate::wrapped_source::WrappedSource;

/// Where the event time is a computed column, appends it to each decoded chunk. A row for which it has no value can be placed nowhere, as one whose columns
/// do not fit the table: it fails, or is left out.
pub(crate) fn with_computed_time(source: Box<dyn Source>, used: &SourceUse, on_error: OnError) -> Box<dyn Source> {
    let Some(expression) = &used.computed_time else { return source };
    let columns: Vec<usize> = (0..=used.columns.len()).collect();
    let schema = used.schema.project(&columns).expect("a computed event time stands behind the physical columns");
    let (expression, table) = (expression.clone(), used.table.clone());
    let time = Arc::new(ComputedTime { expression, schema: schema.into(), table, on_error });
    Box::new(WrappedSource::new(source, move |read, _| {
        let time = time.clone();
        Ok(match read {
            Read::Chunk(chunk) => Read::Chunk(Box::new(move || time.append_to(chunk()?))),
            other => other,
        })
    }))
}

/// The names and types of the columns that a query reads, without an event time that it computes.
pub(crate) fn read_schema(used: &SourceUse) -> SchemaRef {
    let columns: Vec<usize> = (0..used.columns.len()).collect();
    Arc::new(
        used.schema.project(&columns).expect("computed and processing times stand behind the columns that are read"),
    )
}

struct ComputedTime {
    expression: Arc<dyn PhysicalExpr>,
    /// The physical columns and the event time.
    schema: SchemaRef,
    table: String,
    on_error: OnError,
}

impl ComputedTime {
    fn append_to(&self, decoded: Decoded) -> Result<Decoded, SourceError> {
        let Decoded { rows, mut left_out, provenance } = decoded;
        let (mut rows_before, rejected_before) = (0, left_out.rejected.count);
        let mut batches = rows.into_batches();
        for batch in &mut batches {
            let rows = batch.num_rows();
            let provenance = provenance.as_ref().map(|provenance| provenance.from_row(rows_before));
            *batch = self.append_to_batch(batch, provenance.as_ref(), &mut left_out)?;
            rows_before += rows;
        }
        // Rows do not lie one behind the other any more where one of them is left out.
        let provenance = provenance.filter(|_| left_out.rejected.count == rejected_before);
        Ok(Decoded { rows: Rows::Batches(batches), left_out, provenance })
    }

    fn append_to_batch(
        &self,
        batch: &RecordBatch,
        provenance: Option<&Provenance>,
        left_out: &mut LeftOut,
    ) -> Result<RecordBatch, SourceError> {
        let has_time = match self.times(batch) {
            Ok(times) if times.null_count() == 0 => return self.complete(batch, times),
            Ok(times) => is_not_null(&times).expect("every array has NULLs or none"),
            Err(error) if self.on_error == OnError::Fail => {
                let again = |batch: &RecordBatch| self.times(batch).map(drop);
                let (row, failure) = pelton_compiler::row_failure(&self.expression, batch, error, again);
                return Err(self.error(provenance, row, &failure));
            }
            Err(_) => self.have_times(batch),
        };
        for row in (0..batch.num_rows()).filter(|&row| !has_time.value(row)) {
            let error = || self.error(provenance, row, &self.failure(batch, row));
            if self.on_error == OnError::Fail {
                return Err(error());
            }
            left_out.rejected.push(|| RejectedRow { error: error(), row: text(batch, row) });
        }
        let kept = filter_record_batch(batch, &has_time).expect("there is a bit for each row");
        let times = self.times(&kept).map_err(|error| self.error(None, 0, &error.to_string()))?;
        self.complete(&kept, times)
    }

    fn times(&self, batch: &RecordBatch) -> Result<ArrayRef, DataFusionError> {
        self.expression.evaluate(batch)?.into_array(batch.num_rows())
    }

    /// Which rows have a time, where some make the expression fail: each is looked at alone.
    fn have_times(&self, batch: &RecordBatch) -> BooleanArray {
        let has_time = |row| self.times(&batch.slice(row, 1)).is_ok_and(|times| times.null_count() == 0);
        (0..batch.num_rows()).map(|row| Some(has_time(row))).collect()
    }

    /// Why a row has no time.
    fn failure(&self, batch: &RecordBatch, row: usize) -> String {
        let one = batch.slice(row, 1);
        match self.times(&one) {
            Ok(_) => format!("NULL in {}", pelton_compiler::words_at_row(&self.expression, &one)),
            Err(error) => {
                pelton_compiler::row_failure(&self.expression, &one, error, |row| self.times(row).map(drop)).1
            }
        }
    }

    fn error(&self, provenance: Option<&Provenance>, row: usize, failure: &str) -> SourceError {
        let place = provenance.map(|provenance| provenance.from_row(row));
        let place = place.map(|Provenance { input, first_row }| format!("{input}, row {first_row}"));
        let problem = format!("the event time has no value: {failure}");
        SourceError::Input { place: place.unwrap_or_else(|| self.table.clone()), problem }
    }

    fn complete(&self, batch: &RecordBatch, times: ArrayRef) -> Result<RecordBatch, SourceError> {
        let columns = batch.columns().iter().cloned().chain([times]).collect();
        let completed = RecordBatch::try_new(self.schema.clone(), columns);
        completed.map_err(|error| SourceError::Input { place: self.table.clone(), problem: error.to_string() })
    }
}

/// The values of a row, with commas between; NULL is nothing, but for one in a nested value.
fn text(batch: &RecordBatch, row: usize) -> String {
    let options = FormatOptions::new().with_null("NULL");
    let values = batch.columns().iter().map(|column| match ArrayFormatter::try_new(column, &options) {
        Ok(formatter) if column.is_valid(row) => formatter.value(row).try_to_string().unwrap_or_default(),
        _ => String::new(),
    });
    values.collect::<Vec<_>>().join(",")
}
