//! `ROW(…)`, `ARRAY[…]` and `MAP[…]`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray, MapArray, StructArray, UInt32Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use arrow::row::{RowConverter, SortField};
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::ReturnFieldArgs;
use datafusion_expr::type_coercion::binary::type_union_resolution;
use pelton_data::column::{MAP_ENTRIES, MAP_KEY, MAP_VALUE, is_nested, sql_name};

use super::fit::fitted;
use super::{Call, Returned, checked_length, held, refused, type_of};

pub(super) fn row_type(arguments: &ReturnFieldArgs<'_>) -> Result<Returned> {
    let field = |(index, field): (usize, &FieldRef)| {
        Field::new(format!("EXPR${index}"), held(field.data_type()), field.is_nullable())
    };
    let fields: Fields = arguments.arg_fields.iter().enumerate().map(field).collect();
    Ok((DataType::Struct(fields), false))
}

pub(super) fn row(call: &Call<'_>, data_type: &DataType) -> Result<ArrayRef> {
    let DataType::Struct(fields) = data_type else { unreachable!("it is a ROW") };
    let columns = fields.iter().enumerate().map(|(index, field)| fitted(&call.column(index)?, field.data_type()));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, None, call.rows)?))
}

/// The type that the arguments from `first` on, each `step` apart, have or are cast to, and whether one may be NULL.
fn common(arguments: &ReturnFieldArgs<'_>, first: usize, step: usize, what: &str) -> Result<Returned> {
    let fields = arguments.arg_fields;
    let indices = || (first..fields.len()).step_by(step);
    let nullable = indices().any(|index| fields[index].is_nullable());
    let mut typed = indices().filter(|&index| !fields[index].data_type().is_null());
    let Some(own) = typed.next() else { return Ok((DataType::Utf8View, nullable)) };
    let mut common = held(fields[own].data_type());
    for other in typed {
        common = match common_type(&common, &held(fields[other].data_type())) {
            Some(common) => common,
            None => {
                let [own, other] = [own, other].map(|index| type_of(arguments, index));
                return refused(format!("{what} are of types {own} and {other}; CAST them to one type"));
            }
        };
    }
    Ok((common, nullable))
}

/// The type that holds the values of two types, part by part; the fields of a ROW have the names that they have in the first.
fn common_type(one: &DataType, other: &DataType) -> Option<DataType> {
    use DataType::{Date32, List, Map, Struct, Timestamp};
    match (one, other) {
        _ if one == other => Some(one.clone()),
        (Struct(one), Struct(other)) if one.len() == other.len() => {
            let fields = one.iter().zip(other).map(|(one, other)| common_part(one, other));
            fields.collect::<Option<Fields>>().map(Struct)
        }
        (List(one), List(other)) => common_part(one, other).map(|item| List(Arc::new(item))),
        (Map(one, is_ordered), Map(other, _)) => {
            common_part(one, other).map(|entries| Map(Arc::new(entries), *is_ordered))
        }
        (Timestamp(unit, zone), Timestamp(other, other_zone)) if zone.is_some() == other_zone.is_some() => {
            Some(Timestamp(*unit.max(other), zone.clone()))
        }
        (timestamp @ Timestamp(_, None), Date32) | (Date32, timestamp @ Timestamp(_, None)) => Some(timestamp.clone()),
        _ if one.is_numeric() && other.is_numeric() => type_union_resolution(&[one.clone(), other.clone()]),
        _ => None,
    }
}

fn common_part(one: &Field, other: &Field) -> Option<Field> {
    let common = common_type(&held(one.data_type()), &held(other.data_type()))?;
    Some(Field::new(one.name(), common, one.is_nullable() || other.is_nullable()))
}

pub(super) fn array_type(arguments: &ReturnFieldArgs<'_>) -> Result<Returned> {
    let (element, nullable) = common(arguments, 0, 1, "the elements of an ARRAY")?;
    Ok((DataType::List(Arc::new(Field::new_list_field(element, nullable))), false))
}

/// The values of several arguments, row by row: `arguments[k]` of row `n` is at `n * arguments.len() + k`.
fn interleaved(columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let columns: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
    let all = concat(&columns)?;
    let place = |row: usize| (0..columns.len()).map(move |column| (column * rows + row) as u32);
    let places: UInt32Array = (0..rows).flat_map(place).map(Some).collect();
    Ok(take(&all, &places, None)?)
}

pub(super) fn array(call: &Call<'_>, data_type: &DataType) -> Result<ArrayRef> {
    let DataType::List(item) = data_type else { unreachable!("it is an ARRAY") };
    let width = call.arguments.len();
    checked_length(width * call.rows, "ARRAYs")?;
    let columns = (0..width).map(|index| fitted(&call.column(index)?, item.data_type()));
    let values = interleaved(&columns.collect::<Result<Vec<_>>>()?, call.rows)?;
    let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(width, call.rows));
    Ok(Arc::new(ListArray::try_new(item.clone(), offsets, values, None)?))
}

pub(super) fn map_type(arguments: &ReturnFieldArgs<'_>) -> Result<Returned> {
    if !arguments.arg_fields.len().is_multiple_of(2) {
        return refused("MAP takes keys and values by turns, and there is a key without a value".to_string());
    }
    let (key, _) = common(arguments, 0, 2, "the keys of a MAP")?;
    if is_nested(&key) {
        return refused(format!("the keys of a MAP cannot be of type {}", sql_name(&key)));
    }
    let (value, nullable) = common(arguments, 1, 2, "the values of a MAP")?;
    let entries = [Field::new(MAP_KEY, key, false), Field::new(MAP_VALUE, value, nullable)];
    let entries = Field::new(MAP_ENTRIES, DataType::Struct(entries.into_iter().collect()), false);
    Ok((DataType::Map(Arc::new(entries), false), false))
}

pub(super) fn map(call: &Call<'_>, data_type: &DataType) -> Result<ArrayRef> {
    let DataType::Map(field, _) = data_type else { unreachable!("it is a MAP") };
    let DataType::Struct(fields) = field.data_type() else { unreachable!("its entries are pairs") };
    let width = call.arguments.len() / 2;
    checked_length(width * call.rows, "MAPs")?;
    let side = |side: usize| {
        let wanted = fields[side].data_type();
        let columns = (0..width).map(|index| fitted(&call.column(2 * index + side)?, wanted));
        interleaved(&columns.collect::<Result<Vec<_>>>()?, call.rows)
    };
    let (keys, values) = (side(0)?, side(1)?);
    if keys.null_count() > 0 {
        return exec_err!("a key of a MAP is NULL");
    }
    let (columns, offsets) = match has_distinct_keys(call) {
        true => (vec![keys, values], OffsetBuffer::from_lengths(std::iter::repeat_n(width, call.rows))),
        false => last_of_keys(&keys, &values, width, call.rows)?,
    };
    let entries = StructArray::try_new(fields.clone(), columns, None)?;
    Ok(Arc::new(MapArray::try_new(field.clone(), offsets, entries, None, false)?))
}

/// Whether the keys of a call of MAP are constants of one type, none equal to another.
fn has_distinct_keys(call: &Call<'_>) -> bool {
    let mut keys: Vec<&ScalarValue> = Vec::new();
    (0..call.arguments.len()).step_by(2).all(|index| match call.constant(index) {
        Some(key) if keys.iter().all(|other| key.data_type() == other.data_type() && key != *other) => {
            keys.push(key);
            true
        }
        _ => false,
    })
}

/// The keys and values of maps of `width` entries without repeated keys, and where each map begins and ends. A key keeps its first place, and has its last value.
fn last_of_keys(
    keys: &ArrayRef,
    values: &ArrayRef,
    width: usize,
    rows: usize,
) -> Result<(Vec<ArrayRef>, OffsetBuffer<i32>)> {
    let converter = RowConverter::new(vec![SortField::new(keys.data_type().clone())])?;
    let comparable = converter.convert_columns(std::slice::from_ref(keys))?;
    let (mut first, mut last) = (Vec::<u32>::with_capacity(keys.len()), Vec::<u32>::with_capacity(keys.len()));
    let mut lengths = Vec::with_capacity(rows);
    for row in 0..rows {
        let begin = first.len();
        for entry in row * width..(row + 1) * width {
            let key = comparable.row(entry);
            match first[begin..].iter().position(|&other| comparable.row(other as usize) == key) {
                Some(place) => last[begin + place] = entry as u32,
                None => {
                    first.push(entry as u32);
                    last.push(entry as u32);
                }
            }
        }
        lengths.push(first.len() - begin);
    }
    let columns = vec![take(keys, &UInt32Array::from(first), None)?, take(values, &UInt32Array::from(last), None)?];
    Ok((columns, OffsetBuffer::from_lengths(lengths)))
}
