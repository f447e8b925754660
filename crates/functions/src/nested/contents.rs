//! CARDINALITY, ELEMENT, ARRAY_CONTAINS, MAP_KEYS and MAP_VALUES.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, ListArray, UInt32Array, UInt32Builder};
use arrow::buffer::OffsetBuffer;
use arrow::compute::kernels::cmp::not_distinct;
use arrow::compute::take;
use arrow::datatypes::{DataType, Field};
use datafusion_common::{Result, exec_err};
use datafusion_expr::ReturnFieldArgs;
use pelton_data::column::{is_nested, sql_name};

use super::access::map_fields;
use super::{Call, Returned, held, refused, searched, type_of};

pub(super) fn count_type(arguments: &ReturnFieldArgs<'_>) -> Result<Returned> {
    let field = &arguments.arg_fields[0];
    match field.data_type() {
        DataType::List(_) | DataType::Map(..) => Ok((DataType::Int32, field.is_nullable())),
        other => refused(format!("CARDINALITY takes an ARRAY or a MAP, and this is of type {}", sql_name(other))),
    }
}

/// Where the parts of each row begin and end.
fn offsets_of(values: &ArrayRef) -> &[i32] {
    match values.data_type() {
        DataType::Map(..) => values.as_map().value_offsets(),
        _ => values.as_list::<i32>().value_offsets(),
    }
}

pub(super) fn cardinality(call: &Call<'_>, _: &DataType) -> Result<ArrayRef> {
    let values = call.column(0)?;
    let counts: Vec<i32> = offsets_of(&values).windows(2).map(|ends| ends[1] - ends[0]).collect();
    Ok(Arc::new(Int32Array::new(counts.into(), values.nulls().cloned())))
}

pub(super) fn element_type(arguments: &ReturnFieldArgs<'_>) -> Result<Returned> {
    match arguments.arg_fields[0].data_type() {
        DataType::List(item) => Ok((item.data_type().clone(), true)),
        other => refused(format!("ELEMENT takes an ARRAY, and this is of type {}", sql_name(other))),
    }
}

/// The only element of each array.
pub(super) fn element(call: &Call<'_>, _: &DataType) -> Result<ArrayRef> {
    let values = call.column(0)?;
    let lists = values.as_list::<i32>();
    let offsets = lists.value_offsets();
    let mut places = UInt32Builder::with_capacity(lists.len());
    for row in 0..lists.len() {
        match offsets[row + 1] - offsets[row] {
            _ if lists.is_null(row) => places.append_null(),
            0 => places.append_null(),
            1 => places.append_value(offsets[row] as u32),
            count => return exec_err!("ELEMENT takes an ARRAY of one element, and this one has {count}"),
        }
    }
    Ok(take(lists.values(), &places.finish(), None)?)
}

pub(super) fn truth_type(arguments: &ReturnFieldArgs<'_>) -> Result<Returned> {
    let [array, value] = [0, 1].map(|index| &arguments.arg_fields[index]);
    match array.data_type() {
        DataType::List(item) if is_nested(item.data_type()) => {
            refused(format!("ARRAY_CONTAINS cannot compare values of type {}", sql_name(item.data_type())))
        }
        DataType::List(item) => {
            let (wanted, found) = (item.data_type(), value.data_type());
            let is_like = held(found) == *wanted || found.is_null() || found.is_numeric() && wanted.is_numeric();
            match is_like {
                true => Ok((DataType::Boolean, array.is_nullable())),
                false => {
                    let (wanted, found) = (sql_name(wanted), type_of(arguments, 1));
                    refused(format!("the elements of the ARRAY are of type {wanted}, and the value is of type {found}"))
                }
            }
        }
        other => refused(format!("ARRAY_CONTAINS takes an ARRAY, and this is of type {}", sql_name(other))),
    }
}

/// Whether one of the elements is the value, NULL among them.
pub(super) fn contains(call: &Call<'_>, _: &DataType) -> Result<ArrayRef> {
    let values = call.column(0)?;
    let lists = values.as_list::<i32>();
    let offsets = lists.value_offsets();
    if lists.values().is_empty() {
        let none = BooleanArray::from(vec![false; lists.len()]).values().clone();
        return Ok(Arc::new(BooleanArray::new(none, lists.nulls().cloned())));
    }
    let asked = call.column(1)?;
    let wanted = searched(&asked, lists.values().data_type())?;
    let asked_nulls = asked.logical_nulls();
    let can_be = |row: usize| wanted.is_valid(row) || asked_nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
    let first = offsets[0] as usize;
    let rows: UInt32Array = (0..lists.len())
        .flat_map(|row| std::iter::repeat_n(row as u32, (offsets[row + 1] - offsets[row]) as usize))
        .map(Some)
        .collect();
    let elements = lists.values().slice(first, rows.len());
    let is_same = not_distinct(&elements, &take(&wanted, &rows, None)?)?;
    let has = |row: usize| {
        let mut elements = offsets[row] as usize - first..offsets[row + 1] as usize - first;
        can_be(row) && elements.any(|element| is_same.value(element))
    };
    let found = arrow::buffer::BooleanBuffer::collect_bool(lists.len(), has);
    Ok(Arc::new(BooleanArray::new(found, lists.nulls().cloned())))
}

fn map_of<'a>(arguments: &ReturnFieldArgs<'a>, function: &str) -> Result<(&'a Field, bool)> {
    let field = &arguments.arg_fields[0];
    match field.data_type() {
        DataType::Map(entries, _) => Ok((entries, field.is_nullable())),
        other => refused(format!("{function} takes a MAP, and this is of type {}", sql_name(other))),
    }
}

fn array_of(part: &Field) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(part.data_type().clone(), part.is_nullable())))
}

pub(super) fn keys_type(arguments: &ReturnFieldArgs<'_>) -> Result<Returned> {
    map_of(arguments, "MAP_KEYS").map(|(entries, nullable)| (array_of(map_fields(entries).0), nullable))
}

pub(super) fn values_type(arguments: &ReturnFieldArgs<'_>) -> Result<Returned> {
    map_of(arguments, "MAP_VALUES").map(|(entries, nullable)| (array_of(map_fields(entries).1), nullable))
}

/// One side of the entries of maps.
fn side(call: &Call<'_>, data_type: &DataType, side: usize) -> Result<ArrayRef> {
    let DataType::List(item) = data_type else { unreachable!("it is an ARRAY") };
    let values = call.column(0)?;
    let maps = values.as_map();
    let offsets: OffsetBuffer<i32> = maps.offsets().clone();
    let part = maps.entries().column(side).clone();
    Ok(Arc::new(ListArray::try_new(item.clone(), offsets, part, maps.nulls().cloned())?))
}

pub(super) fn keys(call: &Call<'_>, data_type: &DataType) -> Result<ArrayRef> {
    side(call, data_type, 0)
}

pub(super) fn values(call: &Call<'_>, data_type: &DataType) -> Result<ArrayRef> {
    side(call, data_type, 1)
}
