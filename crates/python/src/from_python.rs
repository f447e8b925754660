//! Python objects as Arrow values.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryViewBuilder, BooleanArray, Date32Array, Decimal128Array, ListArray, MapArray, PrimitiveArray,
    RecordBatch, StringViewBuilder, StructArray, TimestampMicrosecondArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Field, Fields, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, SchemaRef, TimeUnit,
};
use chrono::{DateTime, FixedOffset, NaiveDate, NaiveDateTime};
use pelton::display::sql_name;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyMapping, PySequence, PyString};
use pyo3_arrow::PyArray;

use crate::error::invalid;
use crate::table_types::as_type;

/// Values of one column; `None` is NULL.
type Values<'py> = Vec<Option<Bound<'py, PyAny>>>;

/// Rows as tuples, lists or dicts.
pub fn batch_of_rows(rows: &Bound<'_, PyAny>, schema: &SchemaRef) -> PyResult<RecordBatch> {
    let fields = schema.fields();
    let mut columns: Vec<Values<'_>> = fields.iter().map(|_| Vec::new()).collect();
    for (number, row) in rows.try_iter()?.enumerate() {
        put_row(&row?, fields, &mut columns).map_err(|problem| in_row(number, &problem, rows.py()))?;
    }
    let columns = columns.iter().zip(fields).map(|(values, field)| array(values, field)).collect::<PyResult<_>>()?;
    RecordBatch::try_new(schema.clone(), columns).map_err(|error| invalid(error.to_string()))
}

fn in_row(number: usize, problem: &PyErr, py: Python<'_>) -> PyErr {
    invalid(format!("row {}: {}", number + 1, problem.value(py)))
}

/// Adds a row to columns.
fn put_row<'py>(row: &Bound<'py, PyAny>, fields: &Fields, columns: &mut [Values<'py>]) -> PyResult<()> {
    if let Ok(row) = row.cast::<PyDict>() {
        if let Some(unknown) = row
            .keys()
            .iter()
            .find(|key| key.extract::<String>().map_or(true, |key| !fields.iter().any(|field| *field.name() == key)))
        {
            let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
            return Err(invalid(format!("there is no column {unknown}; there are {}", names.join(", "))));
        }
        for (field, column) in fields.iter().zip(columns) {
            column.push(row.get_item(field.name())?.filter(|value| !value.is_none()));
        }
        return Ok(());
    }
    let row = row.cast::<PySequence>().ok().filter(|row| !row.is_instance_of::<PyString>());
    let row = row.ok_or_else(|| invalid("a row is a tuple, a list or a dict; one row alone is put in a list"))?;
    if row.len()? != fields.len() {
        return Err(invalid(format!("a row has {} values, not {}", fields.len(), row.len()?)));
    }
    for (index, column) in columns.iter_mut().enumerate() {
        column.push(Some(row.get_item(index)?).filter(|value| !value.is_none()));
    }
    Ok(())
}

/// Values that a function returns: an Arrow array of any library, or anything that can be iterated over.
pub fn array_of(object: &Bound<'_, PyAny>, field: &Field) -> PyResult<ArrayRef> {
    let py = object.py();
    if object.hasattr(intern!(py, "__arrow_c_array__"))? {
        let (values, _) = object.extract::<PyArray>()?.into_inner();
        return as_type(&values, field).map_err(invalid);
    }
    if object.hasattr(intern!(py, "__arrow_c_stream__"))? {
        let chunks: pyo3_arrow::PyChunkedArray = object.extract()?;
        let (chunks, _) = chunks.into_inner();
        let parts: Vec<&dyn arrow::array::Array> = chunks.iter().map(AsRef::as_ref).collect();
        let values = arrow::compute::concat(&parts).map_err(|error| invalid(error.to_string()))?;
        return as_type(&values, field).map_err(invalid);
    }
    if object.hasattr(intern!(py, "__array__"))?
        && let Ok(pyarrow) = py.import(intern!(py, "pyarrow"))
    {
        // NumPy's, and the series of pandas.
        let values = pyarrow.call_method1(intern!(py, "array"), (object,))?;
        return array_of(&values, field);
    }
    let values =
        object.try_iter().map_err(|_| invalid(format!("it must return an Arrow array, not {}", object.get_type())))?;
    let values = values.map(|value| value.map(|value| Some(value).filter(|value| !value.is_none())));
    array(&values.collect::<PyResult<Values<'_>>>()?, field)
}

/// Values in the type of a field.
pub fn array(values: &Values<'_>, field: &Field) -> PyResult<ArrayRef> {
    let data_type = field.data_type();
    if !field.is_nullable()
        && let Some(row) = values.iter().position(Option::is_none)
    {
        return Err(invalid(format!("column {}, row {}: NULL, and the column is NOT NULL", field.name(), row + 1)));
    }
    let misfit = |row: usize, value: &Bound<'_, PyAny>| {
        let shown = value.repr().map_or_else(|_| "a value".to_owned(), |text| text.to_string());
        invalid(format!("column {}, row {}: {shown} is not {}", field.name(), row + 1, sql_name(data_type)))
    };
    macro_rules! numbers {
        ($kind:ty) => {
            primitive::<$kind>(values, &misfit)
        };
    }
    match data_type {
        DataType::Boolean => {
            Ok(Arc::new(extracted(values, &misfit, |value| value.extract::<bool>())?.collect::<BooleanArray>()))
        }
        DataType::Int8 => numbers!(Int8Type),
        DataType::Int16 => numbers!(Int16Type),
        DataType::Int32 => numbers!(Int32Type),
        DataType::Int64 => numbers!(Int64Type),
        DataType::Float32 => numbers!(Float32Type),
        DataType::Float64 => numbers!(Float64Type),
        DataType::Utf8View | DataType::Utf8 => {
            let mut strings = StringViewBuilder::with_capacity(values.len());
            extracted(values, &misfit, |value| value.extract::<String>())?.for_each(|text| strings.append_option(text));
            as_type(&(Arc::new(strings.finish()) as ArrayRef), field).map_err(invalid)
        }
        DataType::BinaryView | DataType::Binary => {
            let mut strings = BinaryViewBuilder::with_capacity(values.len());
            extracted(values, &misfit, bytes)?.for_each(|bytes| strings.append_option(bytes));
            as_type(&(Arc::new(strings.finish()) as ArrayRef), field).map_err(invalid)
        }
        &DataType::Decimal128(precision, scale) => decimals(values, &misfit, (precision, scale)),
        DataType::Date32 => {
            let dates = extracted(values, &misfit, |value| value.extract::<NaiveDate>())?;
            Ok(Arc::new(dates.map(|date| date.map(Date32Type::from_naive_date)).collect::<Date32Array>()))
        }
        DataType::Timestamp(unit, zone) => timestamps(values, &misfit, *unit, zone.is_some()),
        DataType::List(item) => lists(values, &misfit, item),
        DataType::Struct(fields) => structs(values, &misfit, fields),
        DataType::Map(entries, _) => maps(values, &misfit, entries),
        other => Err(invalid(format!("column {}: Python has no values of type {other}", field.name()))),
    }
}

/// The error of a value that does not fit.
type Misfit<'a> = dyn Fn(usize, &Bound<'_, PyAny>) -> PyErr + 'a;

/// Each value as something of Rust.
fn extracted<'py, T>(
    values: &Values<'py>,
    misfit: &Misfit<'_>,
    extract: impl Fn(&Bound<'py, PyAny>) -> PyResult<T>,
) -> PyResult<std::vec::IntoIter<Option<T>>> {
    let each = |(row, value): (usize, &Option<Bound<'py, PyAny>>)| {
        value.as_ref().map(|value| extract(value).map_err(|_| misfit(row, value))).transpose()
    };
    Ok(values.iter().enumerate().map(each).collect::<PyResult<Vec<_>>>()?.into_iter())
}

fn primitive<'py, T: ArrowPrimitiveType>(values: &Values<'py>, misfit: &Misfit<'_>) -> PyResult<ArrayRef>
where
    T::Native: for<'a> FromPyObject<'a, 'py>,
{
    let number = |value: &Bound<'py, PyAny>| {
        // TRUE is a 1 for Python, and for SQL it is none.
        if value.is_instance_of::<PyBool>() {
            return Err(invalid("a boolean"));
        }
        value.extract::<T::Native>().map_err(Into::into)
    };
    Ok(Arc::new(extracted(values, misfit, number)?.collect::<PrimitiveArray<T>>()))
}

fn bytes(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    match value.is_instance_of::<PyString>() {
        true => Err(invalid("a string")),
        false => value.extract::<Vec<u8>>(),
    }
}

fn decimals(values: &Values<'_>, misfit: &Misfit<'_>, (precision, scale): (u8, i8)) -> PyResult<ArrayRef> {
    let unscaled = |value: &Bound<'_, PyAny>| {
        if value.is_instance_of::<PyBool>() {
            return Err(invalid("a boolean"));
        }
        let py = value.py();
        let decimal = py.import(intern!(py, "decimal"))?.getattr(intern!(py, "Decimal"))?;
        let parts = decimal.call1((value.str()?,))?.call_method0(intern!(py, "as_tuple"))?;
        let (sign, digits, exponent): (u8, Vec<i8>, i32) = parts.extract()?;
        digits_as_integer(&digits, exponent + i32::from(scale))
            .map(|number| if sign == 0 { number } else { -number })
            .ok_or_else(|| invalid("too many digits"))
    };
    let numbers = extracted(values, misfit, unscaled)?.collect::<Decimal128Array>();
    let numbers = numbers.with_precision_and_scale(precision, scale).map_err(|error| invalid(error.to_string()))?;
    numbers.validate_decimal_precision(precision).map_err(|error| invalid(error.to_string()))?;
    Ok(Arc::new(numbers))
}

/// The number that has these digits and then as many zeros, or, of a negative number, as many digits less; `None` where these are no zeros, or the number is too large.
fn digits_as_integer(digits: &[i8], shift: i32) -> Option<i128> {
    let cut = usize::try_from(-shift).unwrap_or(0).min(digits.len());
    let (digits, zeros) = digits.split_at(digits.len() - cut);
    if zeros.iter().any(|digit| *digit != 0) {
        return None;
    }
    let number =
        digits.iter().try_fold(0_i128, |number, digit| number.checked_mul(10)?.checked_add(i128::from(*digit)));
    match number? {
        0 => Some(0),
        number => number.checked_mul(10_i128.checked_pow(u32::try_from(shift).unwrap_or(0))?),
    }
}

fn timestamps(values: &Values<'_>, misfit: &Misfit<'_>, unit: TimeUnit, is_instant: bool) -> PyResult<ArrayRef> {
    let micros = |value: &Bound<'_, PyAny>| {
        Ok(match is_instant {
            true => value.extract::<DateTime<FixedOffset>>()?.timestamp_micros(),
            false => value.extract::<NaiveDateTime>()?.and_utc().timestamp_micros(),
        })
    };
    let times = extracted(values, misfit, micros)?.collect::<TimestampMicrosecondArray>();
    let zone = is_instant.then(|| "+00:00".into());
    let times = times.with_timezone_opt(zone.clone() as Option<Arc<str>>);
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(&times, &DataType::Timestamp(unit, zone), &options).map_err(|error| invalid(error.to_string()))
}

/// Which of the values are not NULL.
fn validity(values: &Values<'_>) -> Option<NullBuffer> {
    values.iter().any(Option::is_none).then(|| values.iter().map(Option::is_some).collect())
}

fn lists(values: &Values<'_>, misfit: &Misfit<'_>, item: &Arc<Field>) -> PyResult<ArrayRef> {
    let mut items = Vec::new();
    let lengths = extracted(values, misfit, |value| match value.is_instance_of::<PyString>() {
        true => Err(invalid("a string")),
        false => value.try_iter()?.collect::<PyResult<Vec<_>>>(),
    })?;
    let lengths: Vec<usize> = lengths
        .map(|list| {
            let list = list.unwrap_or_default();
            let length = list.len();
            items.extend(list.into_iter().map(|value| Some(value).filter(|value| !value.is_none())));
            length
        })
        .collect();
    let items = array(&items, item)?;
    let lists = ListArray::try_new(item.clone(), OffsetBuffer::from_lengths(lengths), items, validity(values));
    lists.map(|lists| Arc::new(lists) as ArrayRef).map_err(|error| invalid(error.to_string()))
}

fn structs(values: &Values<'_>, misfit: &Misfit<'_>, fields: &Fields) -> PyResult<ArrayRef> {
    let mut parts: Vec<Values<'_>> = fields.iter().map(|_| Vec::new()).collect();
    for (row, value) in values.iter().enumerate() {
        match value {
            None => parts.iter_mut().for_each(|part| part.push(None)),
            Some(value) => put_row(value, fields, &mut parts).map_err(|_| misfit(row, value))?,
        }
    }
    // The parts of a row that is NULL are NULL, whatever they are declared.
    let nullable = |field: &Arc<Field>| field.as_ref().clone().with_nullable(true);
    let parts = parts.iter().zip(fields).map(|(part, field)| array(part, &nullable(field))).collect::<PyResult<_>>()?;
    let rows = StructArray::try_new(fields.clone(), parts, validity(values));
    rows.map(|rows| Arc::new(rows) as ArrayRef).map_err(|error| invalid(error.to_string()))
}

fn maps(values: &Values<'_>, misfit: &Misfit<'_>, entries: &Arc<Field>) -> PyResult<ArrayRef> {
    let DataType::Struct(parts) = entries.data_type() else { return Err(invalid("a map without entries")) };
    let (mut keys, mut items) = (Vec::new(), Vec::new());
    let pairs = extracted(values, misfit, |value| {
        let pairs = value.cast::<PyMapping>()?.items()?;
        pairs.iter().map(|pair| pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()).collect::<PyResult<Vec<_>>>()
    })?;
    let mut lengths = Vec::new();
    for pairs in pairs {
        let pairs = pairs.unwrap_or_default();
        lengths.push(pairs.len());
        for (key, item) in pairs {
            keys.push(Some(key).filter(|key| !key.is_none()));
            items.push(Some(item).filter(|item| !item.is_none()));
        }
    }
    let pairs = StructArray::try_new(parts.clone(), vec![array(&keys, &parts[0])?, array(&items, &parts[1])?], None);
    let pairs = pairs.map_err(|error| invalid(error.to_string()))?;
    let maps = MapArray::try_new(entries.clone(), OffsetBuffer::from_lengths(lengths), pairs, validity(values), false);
    maps.map(|maps| Arc::new(maps) as ArrayRef).map_err(|error| invalid(error.to_string()))
}
