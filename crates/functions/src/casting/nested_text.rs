//! Casts of ROW, ARRAY and MAP to texts, as Flink writes them: `(1, NULL)`, `[1, NULL]` and `{k=1, l=NULL}`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StringViewArray, StringViewBuilder, StructArray};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use pelton_data::zone::Zone;

use super::{Misfits, cast_as};
use crate::time::zoned;

/// The text of each value, with instants by the clocks of a zone, or else UTC's; NULL stays NULL.
pub(crate) fn nested_texts(values: &ArrayRef, zone: Option<Zone>) -> Result<ArrayRef, ArrowError> {
    let parts = Parts::of(values, zone)?;
    let mut texts = StringViewBuilder::with_capacity(values.len());
    let mut text = String::new();
    for row in 0..values.len() {
        if values.is_null(row) {
            texts.append_null();
            continue;
        }
        text.clear();
        parts.write(row, &mut text);
        texts.append_value(&text);
    }
    Ok(Arc::new(texts.finish()))
}

/// Values whose flat parts are texts.
enum Parts<'a> {
    Flat(StringViewArray),
    Row(&'a StructArray, Vec<Parts<'a>>),
    Array(&'a ListArray, Box<Parts<'a>>),
    Map(&'a MapArray, Box<[Parts<'a>; 2]>),
}

impl<'a> Parts<'a> {
    fn of(values: &'a ArrayRef, zone: Option<Zone>) -> Result<Parts<'a>, ArrowError> {
        let part = |values: &'a ArrayRef| Parts::of(values, zone);
        Ok(match values.data_type() {
            DataType::Struct(_) => {
                let rows = values.as_struct();
                Parts::Row(rows, rows.columns().iter().map(part).collect::<Result<_, _>>()?)
            }
            DataType::List(_) => {
                let lists = values.as_list();
                Parts::Array(lists, Box::new(part(lists.values())?))
            }
            DataType::Map(..) => {
                let maps = values.as_map();
                Parts::Map(maps, Box::new([part(maps.keys())?, part(maps.values())?]))
            }
            DataType::Timestamp(_, has_zone) => {
                let texts = match zone.filter(|_| has_zone.is_some()) {
                    Some(zone) => zoned::cast(values, &DataType::Utf8View, false, zone),
                    None => crate::time::to_string(std::slice::from_ref(values)),
                };
                let texts = texts.map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
                Parts::Flat(texts.as_string_view().clone())
            }
            _ => Parts::Flat(cast_as(values, &DataType::Utf8View, Misfits::Flink)?.as_string_view().clone()),
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Parts::Flat(texts) => texts.is_null(row),
            Parts::Row(rows, _) => rows.is_null(row),
            Parts::Array(lists, _) => lists.is_null(row),
            Parts::Map(maps, _) => maps.is_null(row),
        }
    }

    fn write(&self, row: usize, text: &mut String) {
        if self.is_null(row) {
            return text.push_str("NULL");
        }
        match self {
            Parts::Flat(texts) => text.push_str(texts.value(row)),
            Parts::Row(_, fields) => {
                let fields = fields.iter();
                listed(text, ['(', ')'], fields, |field, text| field.write(row, text));
            }
            Parts::Array(lists, elements) => {
                let ends = lists.value_offsets();
                let elements_of = ends[row] as usize..ends[row + 1] as usize;
                listed(text, ['[', ']'], elements_of, |element, text| elements.write(element, text));
            }
            Parts::Map(maps, sides) => {
                let ends = maps.value_offsets();
                let entries = ends[row] as usize..ends[row + 1] as usize;
                let [keys, values] = sides.as_ref();
                listed(text, ['{', '}'], entries, |entry, text| {
                    keys.write(entry, text);
                    text.push('=');
                    values.write(entry, text);
                });
            }
        }
    }
}

/// Writes parts with commas between, within brackets.
fn listed<T>(
    text: &mut String,
    [opening, closing]: [char; 2],
    parts: impl Iterator<Item = T>,
    write: impl Fn(T, &mut String),
) {
    text.push(opening);
    for (index, part) in parts.enumerate() {
        text.push_str(if index > 0 { ", " } else { "" });
        write(part, text);
    }
    text.push(closing);
}
