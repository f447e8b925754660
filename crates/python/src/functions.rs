//! Functions in Python: how they are called with columns, or row by row.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, SchemaRef};
use pelton::function::OutputRows;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PySequence, PyString, PyTuple};

use crate::batch::Array;
use crate::error::{invalid, traceback};
use crate::from_python::{array, array_of};
use crate::to_python::python_values;

/// What a call says where the interpreter has ended.
const ENDED: &str = "Python has ended";

/// A function of a program, and how it is called.
pub struct Function {
    pub function: Py<PyAny>,
    pub is_by_row: bool,
}

/// Runs code that calls Python. An exception becomes its traceback.
pub fn with_python<T>(body: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T, String> {
    let called = |py: Python<'_>| body(py).map_err(|error| traceback(py, &error));
    Python::try_attach(called).unwrap_or_else(|| Err(ENDED.to_owned()))
}

/// The types in which a function gets its arguments: those that pyarrow computes with, which has few functions of views.
pub fn argument_types(schema: &SchemaRef) -> Vec<DataType> {
    let of = |field: &FieldRef| match field.data_type() {
        // The parts of nested values are the engine's, and converted where they are passed.
        nested if nested.is_nested() => nested.clone(),
        other => plain_type(other),
    };
    schema.fields().iter().map(of).collect()
}

/// The type with strings in place of views of strings.
fn plain_type(data_type: &DataType) -> DataType {
    let plain = |part: &FieldRef| Arc::new(part.as_ref().clone().with_data_type(plain_type(part.data_type())));
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(item) => DataType::List(plain(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain).collect()),
        DataType::Map(entries, is_sorted) => DataType::Map(plain(entries), *is_sorted),
        other => other.clone(),
    }
}

/// An array as functions get it: of pyarrow where that is installed.
pub fn python_array<'py>(py: Python<'py>, values: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    let values = cast(values, &plain_type(values.data_type())).map_err(|error| invalid(error.to_string()))?;
    let array = Bound::new(py, Array::of(values))?.into_any();
    match py.import(intern!(py, "pyarrow")) {
        Ok(pyarrow) => pyarrow.call_method1(intern!(py, "array"), (array,)),
        Err(_) => Ok(array),
    }
}

impl Function {
    /// A value for each row.
    pub fn values(&self, arguments: &[ArrayRef], returns: &FieldRef) -> Result<ArrayRef, String> {
        with_python(|py| {
            if self.is_by_row {
                let results = self.of_rows(py, arguments)?;
                return array(
                    &results.into_iter().map(|value| Some(value).filter(|value| !value.is_none())).collect(),
                    returns,
                );
            }
            array_of(&self.of_columns(py, arguments)?, returns)
        })
    }

    /// Rows for each row, of these columns.
    pub fn output_rows(&self, arguments: &[ArrayRef], returns: &SchemaRef) -> Result<OutputRows, String> {
        with_python(|py| match self.is_by_row {
            true => self.output_rows_by_row(py, arguments, returns),
            false => output_columns(&self.of_columns(py, arguments)?, returns),
        })
    }

    fn of_columns<'py>(&self, py: Python<'py>, arguments: &[ArrayRef]) -> PyResult<Bound<'py, PyAny>> {
        let arrays = arguments.iter().map(|values| python_array(py, values));
        self.function.bind(py).call1(PyTuple::new(py, arrays.collect::<PyResult<Vec<_>>>()?)?)
    }

    /// What the function returns for each row. Without arguments it is called once.
    fn of_rows<'py>(&self, py: Python<'py>, arguments: &[ArrayRef]) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let function = self.function.bind(py);
        let columns = arguments.iter().map(|values| python_values(py, values)).collect::<PyResult<Vec<_>>>()?;
        let rows = columns.first().map_or(1, Vec::len);
        let call = |row: usize| {
            let values = PyTuple::new(py, columns.iter().map(|column| &column[row]))?;
            function.call1(&values).map_err(|error| of_row(py, &error, row, &values))
        };
        (0..rows).map(call).collect()
    }

    fn output_rows_by_row(&self, py: Python<'_>, arguments: &[ArrayRef], returns: &SchemaRef) -> PyResult<OutputRows> {
        let fields = returns.fields();
        let mut columns: Vec<Vec<Option<Bound<'_, PyAny>>>> = fields.iter().map(|_| Vec::new()).collect();
        let mut input_rows = Vec::new();
        for (row, output) in (0_u32..).zip(self.of_rows(py, arguments)?) {
            if output.is_none() {
                continue;
            }
            for values in output.try_iter()? {
                let values = values?;
                input_rows.push(row);
                let parts = values.cast::<PySequence>().ok().filter(|_| !values.is_instance_of::<PyString>());
                match parts {
                    Some(parts) if parts.len()? == fields.len() => {
                        for (index, column) in columns.iter_mut().enumerate() {
                            column.push(Some(parts.get_item(index)?).filter(|value| !value.is_none()));
                        }
                    }
                    None if fields.len() == 1 => columns[0].push(Some(values).filter(|value| !value.is_none())),
                    _ => return Err(invalid(format!("it must return rows of {} values", fields.len()))),
                }
            }
        }
        let columns = columns.iter().zip(fields).map(|(values, field)| array(values, field));
        Ok(OutputRows { input_rows, columns: columns.collect::<PyResult<_>>()? })
    }
}

/// An exception, with the row for which it was raised as a note.
fn of_row(py: Python<'_>, error: &PyErr, row: usize, values: &Bound<'_, PyTuple>) -> PyErr {
    let shown = values.repr().map_or_else(|_| "values that cannot be shown".to_owned(), |text| text.to_string());
    invalid(format!("{}\nraised for row {} of the block: {shown}", traceback(py, error), row + 1))
}

/// The numbers of the input rows, and the columns behind them.
fn output_columns(output: &Bound<'_, PyAny>, returns: &SchemaRef) -> PyResult<OutputRows> {
    let parts: Vec<Bound<'_, PyAny>> = output.extract().map_err(|_| {
        invalid("it must return a tuple: an array of the numbers of input rows, and an array for each column")
    })?;
    let Some((input_rows, columns)) = parts.split_first() else { return Err(invalid("it returned no columns")) };
    if columns.len() != returns.fields().len() {
        let (wanted, found) = (returns.fields().len(), columns.len());
        return Err(invalid(format!("it must return {wanted} columns behind the numbers of input rows, not {found}")));
    }
    let numbers = array_of(input_rows, &Field::new("input_rows", DataType::Int64, false))?;
    let numbers = cast(&numbers, &DataType::UInt32).map_err(|error| invalid(error.to_string()))?;
    let numbers = arrow::array::AsArray::as_primitive::<arrow::datatypes::UInt32Type>(&numbers) as &UInt32Array;
    let columns = columns.iter().zip(returns.fields()).map(|(column, field)| array_of(column, field));
    Ok(OutputRows { input_rows: numbers.values().to_vec(), columns: columns.collect::<PyResult<_>>()? })
}

/// The only field of a list of columns.
pub fn only_field(schema: &SchemaRef) -> PyResult<FieldRef> {
    match schema.fields().as_ref() {
        [field] => Ok(Arc::clone(field)),
        _ => Err(invalid("a function returns one type")),
    }
}
