//! Arrow values as Python objects.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimeUnit, TimestampMicrosecondType,
};
use arrow::temporal_conversions::{date32_to_datetime, timestamp_us_to_datetime};
use pyo3::IntoPyObjectExt;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use crate::error::invalid;

/// Rows as tuples.
pub fn rows<'py>(py: Python<'py>, batch: &RecordBatch) -> PyResult<Bound<'py, PyList>> {
    let columns = batch.columns().iter().map(|column| python_values(py, column)).collect::<PyResult<Vec<_>>>()?;
    let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
    let rows = (0..batch.num_rows())
        .map(|_| PyTuple::new(py, columns.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>()));
    PyList::new(py, rows.collect::<PyResult<Vec<_>>>()?)
}

/// The values of an array: NULL as None, ROW and MAP as dict, ARRAY as list, DECIMAL as `decimal.Decimal`, instants as datetime in UTC.
pub fn python_values<'py>(py: Python<'py>, values: &ArrayRef) -> PyResult<Vec<Bound<'py, PyAny>>> {
    macro_rules! numbers {
        ($kind:ty) => {
            each(py, values, |row| values.as_primitive::<$kind>().value(row).into_bound_py_any(py))
        };
    }
    match values.data_type() {
        DataType::Null => Ok((0..values.len()).map(|_| py.None().into_bound(py)).collect()),
        DataType::Boolean => each(py, values, |row| values.as_boolean().value(row).into_bound_py_any(py)),
        DataType::Int8 => numbers!(Int8Type),
        DataType::Int16 => numbers!(Int16Type),
        DataType::Int32 => numbers!(Int32Type),
        DataType::Int64 => numbers!(Int64Type),
        DataType::Float32 => numbers!(Float32Type),
        DataType::Float64 => numbers!(Float64Type),
        DataType::Utf8View => each(py, values, |row| values.as_string_view().value(row).into_bound_py_any(py)),
        DataType::BinaryView => {
            each(py, values, |row| Ok(PyBytes::new(py, values.as_binary_view().value(row)).into_any()))
        }
        DataType::Decimal128(..) => decimals(py, values),
        DataType::Date32 => each(py, values, |row| {
            let days = values.as_primitive::<Date32Type>().value(row);
            let date =
                date32_to_datetime(days).ok_or_else(|| invalid(format!("day {days} is out of Python's range")))?;
            date.date().into_bound_py_any(py)
        }),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => timestamps(py, values, zone.is_some()),
        DataType::Timestamp(_, zone) => {
            python_values(py, &converted(values, &DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))?)
        }
        DataType::List(_) => {
            let lists = values.as_list::<i32>();
            each(py, values, |row| PyList::new(py, python_values(py, &lists.value(row))?)?.into_bound_py_any(py))
        }
        DataType::Struct(fields) => {
            let parts = values.as_struct().columns().iter().map(|part| python_values(py, part));
            let parts = parts.collect::<PyResult<Vec<_>>>()?;
            each(py, values, |row| {
                let dict = PyDict::new(py);
                for (field, part) in fields.iter().zip(&parts) {
                    dict.set_item(field.name(), &part[row])?;
                }
                dict.into_bound_py_any(py)
            })
        }
        DataType::Map(..) => {
            let maps = values.as_map();
            each(py, values, |row| {
                let entries = maps.value(row);
                let dict = PyDict::new(py);
                for (key, value) in
                    python_values(py, entries.column(0))?.iter().zip(python_values(py, entries.column(1))?)
                {
                    dict.set_item(key, value)?;
                }
                dict.into_bound_py_any(py)
            })
        }
        DataType::Utf8 | DataType::LargeUtf8 => python_values(py, &converted(values, &DataType::Utf8View)?),
        DataType::Binary | DataType::LargeBinary => python_values(py, &converted(values, &DataType::BinaryView)?),
        DataType::Dictionary(_, plain) => python_values(py, &converted(values, plain)?),
        other => Err(invalid(format!("Python has no values of type {other}: cast it in the query"))),
    }
}

fn each<'py>(
    py: Python<'py>,
    values: &ArrayRef,
    value: impl Fn(usize) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let null = py.None().into_bound(py);
    (0..values.len()).map(|row| if values.is_null(row) { Ok(null.clone()) } else { value(row) }).collect()
}

fn converted(values: &ArrayRef, data_type: &DataType) -> PyResult<ArrayRef> {
    cast(values, data_type).map_err(|error| invalid(error.to_string()))
}

fn decimals<'py>(py: Python<'py>, values: &ArrayRef) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let decimal = py.import(intern!(py, "decimal"))?.getattr(intern!(py, "Decimal"))?;
    let numbers = values.as_primitive::<Decimal128Type>();
    each(py, values, |row| decimal.call1((numbers.value_as_string(row),)))
}

fn timestamps<'py>(py: Python<'py>, values: &ArrayRef, is_instant: bool) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let times = values.as_primitive::<TimestampMicrosecondType>();
    each(py, values, |row| {
        let micros = times.value(row);
        let time = timestamp_us_to_datetime(micros);
        let time = time.ok_or_else(|| invalid(format!("{micros} µs since 1970 is out of Python's range")))?;
        if is_instant { time.and_utc().into_bound_py_any(py) } else { time.into_bound_py_any(py) }
    })
}
