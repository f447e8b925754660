//! A nested value as one of a column's type: fields by position, as Flink inserts rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field};
use datafusion_common::{Result, exec_err};
use datafusion_expr::ReturnFieldArgs;
use pelton_data::column::{is_nested, logical_type};

use super::Returned;

pub(super) fn fit_type(arguments: &ReturnFieldArgs<'_>) -> Result<Returned> {
    let [value, target] = [0, 1].map(|index| &arguments.arg_fields[index]);
    Ok((target.data_type().clone(), value.is_nullable()))
}

pub(super) fn fit(call: &super::Call<'_>, data_type: &DataType) -> Result<ArrayRef> {
    fitted(&call.column(0)?, data_type)
}

/// Whether nested values of one type are made those of another by [`super::fit_nested`]: with as many fields, and parts that go into each other as columns do.
pub fn fits(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Struct(from), DataType::Struct(to)) => {
            from.len() == to.len() && from.iter().zip(to).all(|(from, to)| is_part(from, to))
        }
        (DataType::List(from), DataType::List(to)) => is_part(from, to),
        (DataType::Map(from, _), DataType::Map(to, _)) => fits(from.data_type(), to.data_type()),
        _ => false,
    }
}

fn is_part(from: &Field, to: &Field) -> bool {
    let (from, to) = (logical_type(from.data_type()), to.data_type());
    match (from, to) {
        _ if from == to || from.is_null() || fits(from, to) => true,
        (_, DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64) => from.is_integer(),
        (_, DataType::Float32) => from.is_integer() || matches!(from, DataType::Decimal128(..)),
        (_, DataType::Float64 | DataType::Decimal128(..)) => from.is_numeric(),
        (_, DataType::Timestamp(_, None)) => matches!(from, DataType::Timestamp(_, None) | DataType::Date32),
        (_, DataType::Timestamp(_, Some(_))) => matches!(from, DataType::Timestamp(_, Some(_))),
        (_, DataType::Utf8View) => from.is_string(),
        (_, DataType::BinaryView) => from.is_binary(),
        _ => false,
    }
}

/// Values of a type that fits another as those of that.
pub(super) fn fitted(values: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if values.data_type() == to {
        return Ok(values.clone());
    }
    if values.data_type().is_null() {
        return Ok(new_null_array(to, values.len()));
    }
    match (values.data_type(), to) {
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let rows = values.as_struct();
            let columns = rows.columns().iter().zip(fields).map(|(column, field)| part(column, field, Some(rows)));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            let nulls = rows.nulls().cloned();
            Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, rows.len())?))
        }
        (DataType::List(_), DataType::List(item)) => {
            let lists = values.as_list::<i32>();
            let elements = part(lists.values(), item, None)?;
            let offsets = lists.offsets().clone();
            Ok(Arc::new(ListArray::try_new(item.clone(), offsets, elements, lists.nulls().cloned())?))
        }
        (DataType::Map(..), DataType::Map(field, is_ordered)) => {
            let maps = values.as_map();
            let entries: ArrayRef = Arc::new(maps.entries().clone());
            let entries = fitted(&entries, field.data_type())?.as_struct().clone();
            let (offsets, nulls) = (maps.offsets().clone(), maps.nulls().cloned());
            Ok(Arc::new(MapArray::try_new(field.clone(), offsets, entries, nulls, *is_ordered)?))
        }
        _ => Ok(cast_with_options(values, to, &CastOptions { safe: false, ..CastOptions::default() })?),
    }
}

/// A part of nested values, which may be NULL where these are.
fn part(values: &ArrayRef, field: &Field, whole: Option<&StructArray>) -> Result<ArrayRef> {
    let values = match is_nested(field.data_type()) || values.data_type() != field.data_type() {
        true => fitted(values, field.data_type())?,
        false => values.clone(),
    };
    if !field.is_nullable() && values.null_count() > 0 {
        let is_wrong = |row: usize| values.is_null(row) && whole.is_none_or(|whole| whole.is_valid(row));
        if (0..values.len()).any(is_wrong) {
            return match whole {
                Some(_) => exec_err!("the field {} is NOT NULL, and there is NULL", field.name()),
                None => exec_err!("the elements are NOT NULL, and there is NULL"),
            };
        }
    }
    Ok(values)
}
