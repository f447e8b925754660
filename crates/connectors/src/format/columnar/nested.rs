//! ROW, ARRAY and MAP: values of nested columns as those of the type that the table declares. Fields are found by name.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Fields};
use arrow::error::ArrowError;

use super::super::column::problem;
use super::super::nested::{pair_of, without_nulls};
use super::super::value::Wrong;
use super::{flat, is_readable, shown};

/// A value, or a part of one, that a column cannot hold.
pub(super) struct Lost {
    pub(super) row: usize,
    /// How it is reached from the column.
    pub(super) path: String,
    /// As messages show it.
    pub(super) value: String,
    pub(super) problem: String,
}

/// Whether nested values of a file are read as those of another type.
pub(super) fn is_nested_readable(from: &DataType, to: &DataType) -> bool {
    let is_part = |from: &Field, to: &Field| is_readable(from.data_type(), to.data_type());
    match (from, to) {
        (DataType::Struct(from), DataType::Struct(to)) => {
            to.iter().all(|field| from.find(field.name()).is_some_and(|(_, from)| is_part(from, field)))
        }
        (DataType::List(from), DataType::List(to)) | (DataType::LargeList(from), DataType::List(to)) => {
            is_part(from, to)
        }
        (DataType::Map(from, _), DataType::Map(to, _)) => {
            let (from, to) = (pair_of(from), pair_of(to));
            is_part(&from[0], &to[0]) && is_part(&from[1], &to[1])
        }
        _ => false,
    }
}

/// The values of a column as those of `field`, and those that it cannot hold, with NULL in their place.
pub(super) fn converted(column: &ArrayRef, field: &Field) -> Result<(ArrayRef, Vec<Lost>), ArrowError> {
    converted_as(column, field, Wrong::Null)
}

/// The same; `null` is what is wrong where there can be no NULL.
fn converted_as(column: &ArrayRef, field: &Field, null: Wrong) -> Result<(ArrayRef, Vec<Lost>), ArrowError> {
    let (values, mut lost) = match (column.data_type(), field.data_type()) {
        (DataType::Struct(_), DataType::Struct(fields)) => rows(column.as_struct(), fields)?,
        (DataType::List(_), DataType::List(item)) => {
            let lists = column.as_list::<i32>();
            let (elements, lost) = part(lists.values(), item)?;
            let lost = of_rows(lists.value_offsets(), lost, |position| format!("[{position}]"));
            let offsets = lists.offsets().clone();
            let values = ListArray::try_new(item.clone(), offsets, elements, lists.nulls().cloned())?;
            (Arc::new(values) as ArrayRef, lost)
        }
        (DataType::Map(..), DataType::Map(entries, is_ordered)) => {
            let maps = column.as_map();
            let pair = pair_of(entries);
            let (keys, mut lost) = part(maps.keys(), &pair[0])?;
            let (values, lost_values) = part(maps.values(), &pair[1])?;
            lost.extend(lost_values);
            let lost = of_rows(maps.value_offsets(), lost, |position| format!("[entry {position}]"));
            let offsets: OffsetBuffer<i32> = maps.offsets().clone();
            let pairs = StructArray::try_new(pair.clone(), vec![keys, values], None)?;
            let values = MapArray::try_new(entries.clone(), offsets, pairs, maps.nulls().cloned(), *is_ordered)?;
            (Arc::new(values) as ArrayRef, lost)
        }
        _ => {
            let (values, rows, why) = flat(column, field.data_type())?;
            let lost = |row| Lost {
                row,
                path: String::new(),
                value: shown(column, row),
                problem: problem(why, field.data_type()),
            };
            (values, rows.into_iter().map(lost).collect())
        }
    };
    if !field.is_nullable() && column.null_count() > 0 {
        let nulls = (0..column.len()).filter(|&row| column.is_null(row));
        let problem = problem(null, field.data_type());
        let of_null = |row| Lost { row, path: String::new(), value: String::new(), problem: problem.clone() };
        lost.extend(nulls.map(of_null));
    }
    Ok((values, lost))
}

/// A part of nested values, without NULL where there can be none: rows with one are left out.
fn part(column: &ArrayRef, field: &Field) -> Result<(ArrayRef, Vec<Lost>), ArrowError> {
    let (values, lost) = converted_as(column, field, Wrong::NullPart)?;
    let is_wrong = !field.is_nullable() && values.null_count() > 0;
    Ok((if is_wrong { without_nulls(&values) } else { values }, lost))
}

fn rows(rows: &StructArray, fields: &Fields) -> Result<(ArrayRef, Vec<Lost>), ArrowError> {
    let (mut columns, mut all) = (Vec::new(), Vec::new());
    for field in fields {
        let column = rows.column_by_name(field.name()).expect("the types were compared");
        let (values, lost) = part(column, field)?;
        columns.push(values);
        let is_there = |lost: &Lost| rows.is_valid(lost.row);
        all.extend(
            lost.into_iter()
                .filter(is_there)
                .map(|lost| Lost { path: format!(".{}{}", field.name(), lost.path), ..lost }),
        );
    }
    let values = StructArray::try_new_with_length(fields.clone(), columns, rows.nulls().cloned(), rows.len())?;
    Ok((Arc::new(values), all))
}

/// What was lost of parts, by the rows that these belong to.
fn of_rows(offsets: &[i32], lost: Vec<Lost>, step: impl Fn(usize) -> String) -> Vec<Lost> {
    let of_row = |lost: Lost| {
        let row = offsets.partition_point(|&end| end as usize <= lost.row).checked_sub(1)?;
        let first = offsets[row] as usize;
        let is_there = row + 1 < offsets.len();
        is_there.then(|| Lost { row, path: step(lost.row - first + 1) + &lost.path, ..lost })
    };
    lost.into_iter().filter_map(of_row).collect()
}
