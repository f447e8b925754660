//! Rows and columns of Arrow data that Python holds.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StructArray};
use arrow::datatypes::{Field, FieldRef, SchemaRef};
use pelton::display::sql_name;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList, PyTuple};
use pyo3_arrow::error::PyArrowResult;
use pyo3_arrow::ffi::{ArrayIterator, to_array_pycapsules, to_schema_pycapsule, to_stream_pycapsule};
use pyo3_arrow::input::AnyRecordBatch;

use crate::error::invalid;
use crate::to_python::{python_values, rows};

/// Rows as the engine has them.
#[pyclass(frozen, module = "pelton._native")]
pub struct Batch(pub RecordBatch);

#[pymethods]
impl Batch {
    /// Batches of the same columns as a stream of Arrow.
    #[staticmethod]
    #[pyo3(signature = (batches, requested_schema=None))]
    fn stream_of<'py>(
        py: Python<'py>,
        batches: Vec<PyRef<'py, Batch>>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyCapsule>> {
        let batches: Vec<RecordBatch> = batches.iter().map(|batch| batch.0.clone()).collect();
        let schema = batches.first().map(RecordBatch::schema).ok_or_else(|| invalid("the rows have been read"))?;
        stream_capsule(py, &schema, batches.into_iter().map(Ok), requested_schema)
    }

    #[getter]
    fn num_rows(&self) -> usize {
        self.0.num_rows()
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.0.get_array_memory_size()
    }

    #[getter]
    fn columns(&self) -> Vec<(String, String)> {
        described(self.0.schema_ref())
    }

    fn column(&self, index: usize) -> PyResult<Array> {
        let schema = self.0.schema_ref();
        let field = schema.fields().get(index).ok_or_else(|| invalid(format!("there is no column {index}")))?;
        Ok(Array { values: self.0.column(index).clone(), field: field.clone() })
    }

    fn slice(&self, offset: usize, rows: usize) -> Batch {
        let offset = offset.min(self.0.num_rows());
        Batch(self.0.slice(offset, rows.min(self.0.num_rows() - offset)))
    }

    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        rows(py, &self.0)
    }

    fn to_pydict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        for (field, column) in self.0.schema_ref().fields().iter().zip(self.0.columns()) {
            columns.set_item(field.name(), python_values(py, column)?)?;
        }
        Ok(columns)
    }

    /// The rows as text, as the shell shows values.
    fn text(&self, zone: &str) -> PyResult<Vec<Vec<Option<String>>>> {
        shown(&self.0, zone)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyTuple>> {
        let rows = StructArray::from(self.0.clone());
        to_array_pycapsules(py, row_field(self.0.schema_ref()), &rows, requested_schema)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyArrowResult<Bound<'py, PyCapsule>> {
        to_schema_pycapsule(py, self.0.schema_ref().as_ref())
    }
}

/// A column of rows, as functions get it where pyarrow is not installed.
#[pyclass(frozen, module = "pelton")]
pub struct Array {
    pub values: ArrayRef,
    pub field: FieldRef,
}

impl Array {
    pub fn of(values: ArrayRef) -> Array {
        let field = Arc::new(Field::new("", values.data_type().clone(), true));
        Array { values, field }
    }
}

#[pymethods]
impl Array {
    /// The values as Python objects.
    fn to_pylist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, python_values(py, &self.values)?)
    }

    /// The SQL type.
    #[getter]
    fn r#type(&self) -> String {
        sql_name(self.field.data_type())
    }

    fn __len__(&self) -> usize {
        self.values.len()
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyTuple>> {
        to_array_pycapsules(py, self.field.clone(), &self.values, requested_schema)
    }
}

/// Names and SQL types.
pub fn described(schema: &SchemaRef) -> Vec<(String, String)> {
    schema.fields().iter().map(|field| (field.name().clone(), sql_name(field.data_type()))).collect()
}

/// A row as one value.
pub fn row_field(schema: &SchemaRef) -> FieldRef {
    Arc::new(Field::new_struct("", schema.fields().clone(), false))
}

/// A stream that other libraries read.
pub fn stream_capsule<'py>(
    py: Python<'py>,
    schema: &SchemaRef,
    batches: impl Iterator<Item = Result<RecordBatch, arrow::error::ArrowError>> + Send + 'static,
    requested_schema: Option<Bound<'py, PyCapsule>>,
) -> PyArrowResult<Bound<'py, PyCapsule>> {
    let arrays = batches.map(|batch| batch.map(|batch| Arc::new(StructArray::from(batch)) as ArrayRef));
    to_stream_pycapsule(py, Box::new(ArrayIterator::new(arrays, row_field(schema))), requested_schema)
}

/// Rows of the package, or that a library exports: batches of one schema.
pub fn imported(object: &Bound<'_, PyAny>) -> PyResult<(Vec<RecordBatch>, SchemaRef)> {
    if let Ok(batch) = object.cast::<Batch>() {
        return Ok((vec![batch.get().0.clone()], batch.get().0.schema()));
    }
    let exported: AnyRecordBatch = object.extract()?;
    let reader = exported.into_reader()?;
    let schema = arrow::array::RecordBatchReader::schema(&reader);
    // Producers may need the interpreter, and take it themselves.
    let batches = object.py().detach(|| reader.collect::<Result<Vec<_>, _>>());
    Ok((batches.map_err(|error| invalid(error.to_string()))?, schema))
}

/// Values as text; instants by the clocks of a zone.
fn shown(batch: &RecordBatch, zone: &str) -> PyResult<Vec<Vec<Option<String>>>> {
    use arrow::util::display::ArrayFormatter;
    use pelton::display::{Zone, format_options, with_times_as_text};
    let failed = |error: arrow::error::ArrowError| invalid(error.to_string());
    let zone = Zone::named(zone).ok_or_else(|| invalid(format!("there is no time zone {zone}")))?;
    let batch = with_times_as_text(batch, zone).map_err(failed)?;
    let columns = batch.columns().iter().map(|column| {
        let options = format_options(column.data_type());
        let formatter = ArrayFormatter::try_new(column, &options).map_err(failed)?;
        let text = |row: usize| column.is_valid(row).then(|| formatter.value(row).to_string());
        Ok((0..batch.num_rows()).map(text).collect::<Vec<_>>())
    });
    let columns = columns.collect::<PyResult<Vec<_>>>()?;
    Ok((0..batch.num_rows()).map(|row| columns.iter().map(|column| column[row].clone()).collect()).collect())
}
