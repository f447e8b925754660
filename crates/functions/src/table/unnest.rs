//! `UNNEST`: a row for each element of an ARRAY, or each entry of a MAP.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, StructArray, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef};
use pelton_data::column::sql_name;
use pelton_data::table_function::{OutputRows, TableFunction, TableFunctionError};

use super::UNNEST;
use crate::nested::access::map_fields;

/// The column of an element that is no ROW.
const ELEMENT: &str = "EXPR$0";
/// The column of the position of an element.
const ORDINALITY: &str = "ORDINALITY";
/// The columns of the entries of a MAP.
const KEY: &str = "KEY";
/// See [`KEY`].
const VALUE: &str = "VALUE";

/// `UNNEST`, with or without positions of the elements, from 1.
#[derive(Debug)]
pub(super) struct Unnest {
    with_ordinality: bool,
}

impl Unnest {
    pub(super) fn new(with_ordinality: bool) -> Unnest {
        Unnest { with_ordinality }
    }
}

/// The fields of the elements of a collection.
fn element_fields(collection: &DataType) -> Option<Vec<FieldRef>> {
    match collection {
        DataType::List(element) => Some(match element.data_type() {
            DataType::Struct(fields) => fields.to_vec(),
            _ => vec![Arc::new(element.as_ref().clone().with_name(ELEMENT))],
        }),
        DataType::Map(entries, _) => {
            let (key, value) = map_fields(entries);
            // Keys are never NULL, and their type has no NOT NULL, as in Flink.
            let key = key.clone().with_name(KEY).with_nullable(true);
            Some(vec![Arc::new(key), Arc::new(value.clone().with_name(VALUE))])
        }
        _ => None,
    }
}

/// The collections of rows.
struct Collections<'a> {
    /// Where the elements of each row end, behind where those of the first begin.
    ends: &'a [i32],
    /// The elements of all rows.
    elements: ArrayRef,
    nulls: Option<&'a NullBuffer>,
}

impl<'a> Collections<'a> {
    fn of(values: &'a ArrayRef) -> Collections<'a> {
        match values.data_type() {
            DataType::Map(..) => {
                let maps = values.as_map();
                let elements = Arc::new(maps.entries().clone());
                Collections { ends: maps.value_offsets(), elements, nulls: maps.nulls() }
            }
            _ => {
                let lists = values.as_list::<i32>();
                Collections { ends: lists.value_offsets(), elements: lists.values().clone(), nulls: lists.nulls() }
            }
        }
    }

    /// The elements of a row that become rows, by where they stand among all. An element that is a ROW and NULL makes none, as in Flink.
    fn of_row(&self, row: usize) -> impl Iterator<Item = u32> {
        let range = match self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            // There may be elements all the same.
            true => 0..0,
            false => self.ends[row] as u32..self.ends[row + 1] as u32,
        };
        let rows = self.elements.as_struct_opt();
        range.filter(move |&element| rows.is_none_or(|rows| rows.is_valid(element as usize)))
    }
}

impl TableFunction for Unnest {
    fn name(&self) -> &str {
        UNNEST
    }

    fn argument_types(&self, given: &[DataType]) -> Result<Vec<DataType>, TableFunctionError> {
        let hint = "write UNNEST(array) AS t (element), or UNNEST(map) AS t (key, value)".to_string();
        match given {
            [collection] if element_fields(collection).is_some() => Ok(vec![collection.clone()]),
            [other] => {
                let message = format!("UNNEST takes an ARRAY or a MAP, and this is of type {}", sql_name(other));
                Err(TableFunctionError { message, argument: Some(0), hint })
            }
            _ => {
                let message = format!("UNNEST takes one argument, not {}", given.len());
                Err(TableFunctionError { message, argument: None, hint })
            }
        }
    }

    fn columns(&self, arguments: &[FieldRef]) -> Result<Vec<FieldRef>, TableFunctionError> {
        let types: Vec<DataType> = arguments.iter().map(|argument| argument.data_type().clone()).collect();
        self.argument_types(&types)?;
        let mut fields = element_fields(&types[0]).expect("the argument is a collection");
        if self.with_ordinality {
            fields.push(Arc::new(Field::new(ORDINALITY, DataType::Int32, false)));
        }
        Ok(fields)
    }

    fn call(&self, arguments: &[ArrayRef], rows: usize, wanted: &[usize]) -> Result<OutputRows, String> {
        let collections = Collections::of(&arguments[0]);
        let (mut input_rows, mut places) = (Vec::new(), Vec::new());
        for row in 0..rows {
            places.extend(collections.of_row(row));
            input_rows.resize(places.len(), row as u32);
        }
        let (first, end) = (collections.ends[0] as usize, collections.ends[rows] as usize);
        let elements = match places.len() == end - first {
            true => collections.elements.slice(first, places.len()),
            false => {
                let places = UInt32Array::from(places.clone());
                take(&collections.elements, &places, None).map_err(|error| error.to_string())?
            }
        };
        let rows_of_fields = elements.as_struct_opt();
        let width = rows_of_fields.map_or(1, StructArray::num_columns);
        let columns = wanted.iter().map(|&index| match rows_of_fields {
            _ if index == width => {
                let begins = input_rows.iter().map(|&row| collections.ends[row as usize]);
                Arc::new(Int32Array::from_iter_values(
                    places.iter().zip(begins).map(|(&place, begin)| place as i32 - begin + 1),
                ))
            }
            Some(fields) => fields.column(index).clone(),
            None => elements.clone(),
        });
        let columns = columns.collect();
        Ok(OutputRows { input_rows, columns })
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Builder, ListArray, ListBuilder};
    use arrow::buffer::OffsetBuffer;

    use super::*;

    #[test]
    fn elements_of_rows_without_a_collection_are_left_out() {
        let mut lists = ListBuilder::new(Int32Builder::new());
        lists.append_value([Some(1), None]);
        lists.append_value([]);
        lists.append_value([Some(3)]);
        let lists: ArrayRef = Arc::new(lists.finish());
        let made = Unnest::new(true).call(&[lists.slice(1, 2)], 2, &[1, 0]).unwrap();
        assert_eq!(made.input_rows, [1]);
        assert_eq!(made.columns[0].as_ref(), &Int32Array::from(vec![1]));
        assert_eq!(made.columns[1].as_ref(), &Int32Array::from(vec![3]));

        let field = Arc::new(Field::new_list_field(DataType::Int32, true));
        let (values, ends) = (Arc::new(Int32Array::from(vec![7, 8, 9])), OffsetBuffer::from_lengths([2, 1]));
        let hidden: ArrayRef = Arc::new(ListArray::new(field, ends, values, Some(NullBuffer::from(vec![false, true]))));
        let made = Unnest::new(false).call(&[hidden], 2, &[0]).unwrap();
        assert_eq!(
            (made.input_rows.as_slice(), made.columns[0].as_ref()),
            (&[1_u32][..], &Int32Array::from(vec![9]) as &dyn Array)
        );
    }
}
