//! `ROW(…)`, `ARRAY[…]` and `MAP[…]`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray, MapArray, StructArray, UInt32Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion_common::{Result, exec_err};
use datafusion_expr::ReturnFieldArgs;
use datafusion_expr::type_coercion::binary::type_union_resolution;
use pelton_data::column::{MAP_ENTRIES, MAP_KEY, MAP_VALUE, is_nested, sql_name};

use super::fit::fitted;
use super::{Call, Returned, checked_length, fits, held, refused, type_of};

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
    let typed: Vec<usize> = indices().filter(|&index| !fields[index].data_type().is_null()).collect();
    let types: Vec<DataType> = typed.iter().map(|&index| held(fields[index].data_type())).collect();
    let Some(own) = types.first() else { return Ok((DataType::Utf8View, nullable)) };
    let Some(other) = types.iter().position(|other| other != own && !fits(other, own)) else {
        return Ok((own.clone(), nullable));
    };
    let are_numbers = types.iter().all(DataType::is_numeric);
    match type_union_resolution(&types).filter(|_| are_numbers) {
        Some(common) => Ok((common, nullable)),
        None => {
            let [own, other] = [typed[0], typed[other]].map(|index| type_of(arguments, index));
            refused(format!("{what} are of types {own} and {other}; CAST them to one type"))
        }
    }
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
    let entries = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
    let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(width, call.rows));
    Ok(Arc::new(MapArray::try_new(field.clone(), offsets, entries, None, false)?))
}
