//! `row.field`, `array[index]` and `map[key]`.

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListArray, MapArray, Scalar, UInt32Array, UInt32Builder,
    new_null_array,
};
use arrow::compute::kernels::cmp::eq;
use arrow::compute::{cast, nullif, take};
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::ReturnFieldArgs;
use pelton_data::column::sql_name;
use pelton_data::spelling::closest;

use super::{Call, Returned, refused, searched, type_of};

/// Names of fields that a message shows.
const NAMES_MAX: usize = 20;

/// The field of a ROW by its name.
pub(super) fn field_type(arguments: &ReturnFieldArgs<'_>) -> Result<Returned> {
    let value = &arguments.arg_fields[0];
    let name = arguments.scalar_arguments[1].and_then(ScalarValue::try_as_str).flatten().unwrap_or_default();
    match value.data_type() {
        DataType::Struct(fields) => match fields.find(name) {
            Some((_, field)) => Ok((field.data_type().clone(), value.is_nullable() || field.is_nullable())),
            None => refused(unknown_field(name, fields)),
        },
        DataType::Map(..) => refused(format!("a MAP has no field {name}; write map['{name}'] for the value of a key")),
        DataType::List(_) => {
            refused(format!("an ARRAY has no field {name}; write array[1].{name} for one of its first element"))
        }
        other => refused(format!("a value of type {} has no field {name}", sql_name(other))),
    }
}

/// The element of an ARRAY by its position from 1, or the value of a MAP by its key.
pub(super) fn item_type(arguments: &ReturnFieldArgs<'_>) -> Result<Returned> {
    let [value, key] = [0, 1].map(|index| &arguments.arg_fields[index]);
    match value.data_type() {
        DataType::List(item) => {
            if !key.data_type().is_integer() {
                let found = type_of(arguments, 1);
                return refused(format!("an element of an ARRAY is found by an integer, and this is of type {found}"));
            }
            let position = arguments.scalar_arguments[1].and_then(|position| position.cast_to(&DataType::Int64).ok());
            match position {
                Some(ScalarValue::Int64(Some(position))) if position < 1 => {
                    refused(format!("the elements of an ARRAY are numbered from 1, and {position} is less"))
                }
                _ => Ok((item.data_type().clone(), true)),
            }
        }
        DataType::Map(entries, _) => {
            let (wanted, values) = map_fields(entries);
            let is_like = super::held(key.data_type()) == *wanted.data_type()
                || key.data_type().is_numeric() && wanted.data_type().is_numeric();
            match is_like {
                true => Ok((values.data_type().clone(), true)),
                false => {
                    let (wanted, found) = (sql_name(wanted.data_type()), type_of(arguments, 1));
                    refused(format!("the keys of the MAP are of type {wanted}, and this one is of type {found}"))
                }
            }
        }
        DataType::Struct(_) => refused("a ROW has no elements; write row.field for one of its fields".to_string()),
        other => refused(format!("a value of type {} has no elements", sql_name(other))),
    }
}

fn unknown_field(name: &str, fields: &arrow::datatypes::Fields) -> String {
    let names = || fields.iter().map(|field| field.name().as_str());
    let meant = closest(name, names()).map_or(String::new(), |meant| format!("did you mean {meant}? "));
    let more = if fields.len() > NAMES_MAX { ", …" } else { "" };
    let names = names().take(NAMES_MAX).collect::<Vec<_>>().join(", ");
    format!("there is no field {name}; {meant}the fields are {names}{more}")
}

/// The fields of the keys and values of a MAP.
pub(crate) fn map_fields(entries: &Field) -> (&Field, &Field) {
    match entries.data_type() {
        DataType::Struct(fields) if fields.len() == 2 => (&fields[0], &fields[1]),
        other => panic!("the entries of a map are pairs, not {other}"),
    }
}

/// A field of rows: NULL also where the whole row is.
pub(super) fn field(call: &Call<'_>, data_type: &DataType) -> Result<ArrayRef> {
    let value = call.column(0)?;
    let Some(rows) = value.as_struct_opt() else { return Ok(new_null_array(data_type, call.rows)) };
    let name = call.constant(1).and_then(ScalarValue::try_as_str).flatten().unwrap_or_default();
    let values = rows.column_by_name(name).expect("the field was found when the query was planned");
    match rows.nulls() {
        Some(nulls) if nulls.null_count() > 0 && !values.nulls().is_some_and(|own| own.contains(nulls)) => {
            Ok(nullif(values, &BooleanArray::new(!nulls.inner(), None))?)
        }
        _ => Ok(values.clone()),
    }
}

pub(super) fn item(call: &Call<'_>, data_type: &DataType) -> Result<ArrayRef> {
    let value = call.column(0)?;
    match value.data_type() {
        DataType::List(_) => element(value.as_list(), &cast(&call.column(1)?, &DataType::Int64)?),
        DataType::Map(..) => looked_up(value.as_map(), call),
        _ => Ok(new_null_array(data_type, call.rows)),
    }
}

/// Elements by position, NULL where there is none.
fn element(lists: &ListArray, positions: &ArrayRef) -> Result<ArrayRef> {
    let positions: &Int64Array = positions.as_primitive::<Int64Type>();
    let offsets = lists.value_offsets();
    let place = |row: usize| {
        let length = i64::from(offsets[row + 1] - offsets[row]);
        let position = positions.value(row);
        let is_there = lists.is_valid(row) && positions.is_valid(row) && (1..=length).contains(&position);
        is_there.then(|| offsets[row] as u32 + (position - 1) as u32)
    };
    let places: UInt32Array = (0..lists.len()).map(place).collect();
    Ok(take(lists.values(), &places, None)?)
}

/// Values of maps by key, NULL where there is none. Of several of one key the last counts.
fn looked_up(maps: &MapArray, call: &Call<'_>) -> Result<ArrayRef> {
    let (keys, offsets) = (maps.keys(), maps.value_offsets());
    let is_wanted = match call.constant(1) {
        Some(key) => eq(keys, &Scalar::new(searched(&key.to_array()?, keys.data_type())?))?,
        None => {
            let wanted = searched(&call.column(1)?, keys.data_type())?;
            let mut rows = UInt32Builder::with_capacity(keys.len());
            rows.append_value_n(0, offsets[0] as usize);
            for row in 0..maps.len() {
                rows.append_value_n(row as u32, (offsets[row + 1] - offsets[row]) as usize);
            }
            let behind = keys.len() - offsets[maps.len()] as usize;
            rows.append_value_n(0, behind);
            if maps.is_empty() {
                return Ok(new_null_array(maps.values().data_type(), 0));
            }
            eq(keys, &take(&wanted, &rows.finish(), None)?)?
        }
    };
    let place = |row: usize| {
        let mut entries = offsets[row] as usize..offsets[row + 1] as usize;
        let found = entries.rfind(|&entry| is_wanted.is_valid(entry) && is_wanted.value(entry));
        found.filter(|_| maps.is_valid(row)).map(|entry| entry as u32)
    };
    let places: UInt32Array = (0..maps.len()).map(place).collect();
    Ok(take(maps.values(), &places, None)?)
}
