//! Tables that a Python program fills and reads.

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures_core::Stream;
use pelton::{PullSink, PushSource};
use pyo3::intern;
use pyo3::prelude::*;

use crate::batch::{Batch, described, imported};
use crate::error::{invalid, raised};
use crate::from_python::batch_of_rows;
use crate::process::check_process;
use crate::table_types::as_table_rows;
use crate::waiting::{calling, wait_for};

/// Passes rows to the queries that read the table.
#[pyclass(frozen, module = "pelton._native")]
pub struct PushTable {
    source: Mutex<Option<Arc<PushSource>>>,
    columns: Vec<(String, String)>,
    process: u32,
}

impl PushTable {
    pub fn new(source: PushSource) -> PushTable {
        let columns = described(source.schema());
        PushTable { source: Mutex::new(Some(Arc::new(source))), columns, process: std::process::id() }
    }

    fn source(&self) -> PyResult<Arc<PushSource>> {
        check_process(self.process)?;
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        source.clone().ok_or_else(|| invalid("the stream is closed: nothing more can be pushed"))
    }
}

#[pymethods]
impl PushTable {
    #[getter]
    fn columns(&self) -> Vec<(String, String)> {
        self.columns.clone()
    }

    /// Rows in the table's columns, of Arrow data or of Python's.
    fn batches(&self, rows: &Bound<'_, PyAny>) -> PyResult<Vec<Batch>> {
        batches_of(rows, self.source()?.schema())
    }

    /// Waits while the buffer is full.
    fn push(&self, py: Python<'_>, batch: &Batch) -> PyResult<()> {
        let source = self.source()?;
        let mut pushed = pin!(source.push(batch.0.clone()));
        wait_for(py, |context| pushed.as_mut().poll(context))?.map_err(raised)
    }

    /// Whether there was room.
    fn try_push(&self, py: Python<'_>, batch: &Batch) -> PyResult<bool> {
        let source = self.source()?;
        py.detach(|| source.try_push(batch.0.clone())).map_err(raised)
    }

    /// Ends the stream.
    fn close(&self, py: Python<'_>) {
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(source));
    }
}

/// Rows in the columns of a table, of Arrow data or of Python's.
pub fn batches_of(rows: &Bound<'_, PyAny>, schema: &SchemaRef) -> PyResult<Vec<Batch>> {
    let py = rows.py();
    let is_arrow = rows.is_instance_of::<Batch>()
        || rows.hasattr(intern!(py, "__arrow_c_stream__"))?
        || rows.hasattr(intern!(py, "__arrow_c_array__"))?;
    if is_arrow {
        let (batches, _) = imported(rows)?;
        return batches.iter().map(|batch| fitting(batch, schema).map(Batch)).collect();
    }
    Ok(vec![Batch(batch_of_rows(rows, schema)?)])
}

/// The rows in the types of the table; its columns are found by their names.
fn fitting(batch: &RecordBatch, wanted: &SchemaRef) -> PyResult<RecordBatch> {
    let place = |name: &str| batch.schema_ref().index_of(name).ok();
    let places = wanted
        .fields()
        .iter()
        .map(|field| place(field.name()).ok_or_else(|| invalid(format!("the rows have no column {}", field.name()))));
    let places = places.collect::<PyResult<Vec<_>>>()?;
    if let Some(unknown) = (0..batch.num_columns()).find(|column| !places.contains(column)) {
        return Err(invalid(format!("the table has no column {}", batch.schema_ref().field(unknown).name())));
    }
    let batch = batch.project(&places).map_err(|error| invalid(error.to_string()))?;
    as_table_rows(&batch, wanted).map_err(invalid)
}

/// Reads the rows that a query inserts.
#[pyclass(frozen, module = "pelton._native")]
pub struct PullTable {
    sink: Mutex<Option<PullSink>>,
    columns: Vec<(String, String)>,
    process: u32,
}

impl PullTable {
    pub fn new(sink: PullSink) -> PullTable {
        let columns = described(sink.schema());
        PullTable { sink: Mutex::new(Some(sink)), columns, process: std::process::id() }
    }

    fn sink(&self) -> MutexGuard<'_, Option<PullSink>> {
        self.sink.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<RecordBatch>> {
        match self.sink().as_mut() {
            Some(sink) => Pin::new(sink).poll_next(context),
            None => Poll::Ready(None),
        }
    }
}

#[pymethods]
impl PullTable {
    #[getter]
    fn columns(&self) -> Vec<(String, String)> {
        self.columns.clone()
    }

    /// The next rows, or None when the inserting query has ended.
    fn next_batch(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        check_process(self.process)?;
        Ok(wait_for(py, |context| self.poll_next(context))?.map(Batch))
    }

    /// As that of a query.
    fn poll_batch(&self, py: Python<'_>, wake: Py<PyAny>) -> PyResult<(bool, Option<Batch>)> {
        check_process(self.process)?;
        let waker = calling(wake);
        match py.detach(|| self.poll_next(&mut Context::from_waker(&waker))) {
            Poll::Pending => Ok((false, None)),
            Poll::Ready(next) => Ok((true, next.map(Batch))),
        }
    }

    /// Reads no more.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.sink().take()));
    }
}
