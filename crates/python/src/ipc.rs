//! Rows as Arrow's IPC stream: how they come from a served engine, and go to one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::StreamEncoder;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::batch::{Batch, described, imported};
use crate::error::{invalid, raised};
use crate::table_types::{as_table_rows, column_list, table_schema};
use crate::tables::batches_of;

/// Reads a stream whose bytes come piece by piece.
#[pyclass(frozen, module = "pelton._native")]
pub struct ArrowReader(Mutex<StreamDecoder>);

fn malformed(error: ArrowError) -> PyErr {
    invalid(format!("the server sends rows that are no stream of Arrow: {error}"))
}

impl ArrowReader {
    fn decoder(&self) -> MutexGuard<'_, StreamDecoder> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl ArrowReader {
    #[new]
    fn new() -> ArrowReader {
        ArrowReader(Mutex::new(StreamDecoder::new()))
    }

    /// The batches that end with these bytes, apart from empty ones.
    fn read(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<Vec<Batch>> {
        let mut bytes = Buffer::from(bytes);
        let batches = py.detach(|| {
            let mut decoder = self.decoder();
            std::iter::from_fn(|| decoder.decode(&mut bytes).transpose()).collect::<Result<Vec<_>, _>>()
        });
        Ok(batches.map_err(malformed)?.into_iter().filter(|batch| batch.num_rows() > 0).map(Batch).collect())
    }

    /// A batch without rows, once the columns have come.
    #[getter]
    fn empty(&self) -> Option<Batch> {
        self.decoder().schema().map(|schema| Batch(RecordBatch::new_empty(schema)))
    }
}

/// Writes a stream of rows of the columns of a list as in CREATE TABLE.
#[pyclass(frozen, module = "pelton._native")]
pub struct ArrowWriter {
    encoder: Mutex<Option<StreamEncoder>>,
    schema: SchemaRef,
}

fn unwritten(error: ArrowError) -> PyErr {
    invalid(format!("the rows cannot be sent: {error}"))
}

impl ArrowWriter {
    fn encoder(&self) -> MutexGuard<'_, Option<StreamEncoder>> {
        self.encoder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl ArrowWriter {
    #[new]
    fn new(columns: &str) -> PyResult<ArrowWriter> {
        let schema = pelton::Session::columns(columns).map_err(raised)?;
        let encoder = StreamEncoder::try_new(&schema).map_err(unwritten)?;
        Ok(ArrowWriter { encoder: Mutex::new(Some(encoder)), schema })
    }

    #[getter]
    fn columns(&self) -> Vec<(String, String)> {
        described(&self.schema)
    }

    /// Rows in these columns, of Arrow data or of Python's.
    fn batches(&self, rows: &Bound<'_, PyAny>) -> PyResult<Vec<Batch>> {
        batches_of(rows, &self.schema)
    }

    /// The bytes of some rows.
    fn write<'py>(&self, py: Python<'py>, batch: &Batch) -> PyResult<Bound<'py, PyBytes>> {
        let mut encoder = self.encoder();
        let encoder = encoder.as_mut().ok_or_else(|| invalid("the stream of rows has ended"))?;
        let buffers = encoder.encode(&batch.0).map_err(unwritten)?;
        Ok(joined(py, &buffers))
    }

    /// The bytes behind the last rows.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let encoder = self.encoder().take().ok_or_else(|| invalid("the stream of rows has ended"))?;
        Ok(joined(py, &encoder.finish().map_err(unwritten)?))
    }
}

fn joined<'py>(py: Python<'py>, buffers: &[Buffer]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, &buffers.iter().map(Buffer::as_slice).collect::<Vec<_>>().concat())
}

/// Arrow data as rows of a table: its columns as a list in CREATE TABLE, and the rows in them.
#[pyfunction]
pub fn table_rows(py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<(String, Vec<Batch>)> {
    let (batches, schema) = imported(data)?;
    py.detach(|| {
        let schema = table_schema(&schema).map_err(invalid)?;
        let columns = column_list(&schema);
        let declared = pelton::Session::columns(&columns).map_err(raised)?;
        let rows = batches.iter().map(|batch| as_table_rows(batch, &declared).map(Batch));
        Ok((columns, rows.collect::<Result<_, _>>().map_err(invalid)?))
    })
}
