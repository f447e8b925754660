//! JSON made of values: JSON_OBJECT, JSON_ARRAY, JSON_STRING, JSON_QUOTE, and JSON_UNQUOTE, which takes it apart.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float32Type, Float64Type, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use datafusion_common::{Result, exec_datafusion_err, exec_err};
use pelton_data::float_text::{write_double, write_float};
use pelton_data::json::write_string;

use super::is_json;
use super::query::write_compact;
use crate::text::{collect, string_at, strings};

/// `json_object(mode, name, kind, value, …)`: `mode` is NULL or ABSENT, what becomes of members that are NULL; `kind` is JSON where a value is written as
/// it is. Members are ordered by name, and the last of one name counts, as in Flink.
pub(crate) fn json_object(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let (modes, members) = (strings(&arguments[0]), &arguments[1..]);
    let members =
        members.chunks_exact(3).map(|part| Ok((strings(&part[0]), Values::new(Some(strings(&part[1])), &part[2])?)));
    let members: Vec<_> = members.collect::<Result<_>>()?;
    let mut objects = StringViewBuilder::with_capacity(modes.len());
    for row in 0..modes.len() {
        let keeps_null = string_at(modes, row) == Some("NULL");
        let mut written: BTreeMap<&str, String> = BTreeMap::new();
        for (names, values) in &members {
            let Some(name) = string_at(names, row) else { return exec_err!("a key of JSON_OBJECT is NULL") };
            match values.text(row)? {
                Some(value) => written.insert(name, value),
                None if keeps_null => written.insert(name, "null".to_string()),
                None => None,
            };
        }
        let written: Vec<String> =
            written.into_iter().map(|(name, value)| format!("{}:{value}", quoted(name))).collect();
        objects.append_value(format!("{{{}}}", written.join(",")));
    }
    Ok(Arc::new(objects.finish()))
}

/// `json_array(mode, kind, value, …)`: likewise.
pub(crate) fn json_array(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let (modes, elements) = (strings(&arguments[0]), &arguments[1..]);
    let elements = elements.chunks_exact(2).map(|part| Values::new(Some(strings(&part[0])), &part[1]));
    let elements: Vec<Values<'_>> = elements.collect::<Result<_>>()?;
    let mut arrays = StringViewBuilder::with_capacity(modes.len());
    for row in 0..modes.len() {
        let keeps_null = string_at(modes, row) == Some("NULL");
        let mut written = Vec::with_capacity(elements.len());
        for values in &elements {
            match values.text(row)? {
                Some(value) => written.push(value),
                None if keeps_null => written.push("null".to_string()),
                None => {}
            }
        }
        arrays.append_value(format!("[{}]", written.join(",")));
    }
    Ok(Arc::new(arrays.finish()))
}

/// `JSON_STRING(value)`: a value as JSON; NULL stays NULL.
pub(crate) fn json_string(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let values = Values::new(None, &arguments[0])?;
    let texts = (0..arguments[0].len()).map(|row| values.text(row));
    Ok(Arc::new(texts.collect::<Result<StringViewArray>>()?))
}

/// Values of one column as JSON.
struct Values<'a> {
    /// Where a row says whether its value is JSON.
    kinds: Option<&'a StringViewArray>,
    values: Column,
}

impl<'a> Values<'a> {
    fn new(kinds: Option<&'a StringViewArray>, values: &ArrayRef) -> Result<Values<'a>> {
        Ok(Values { kinds, values: Column::new(values)? })
    }

    /// `None` where the value is NULL.
    fn text(&self, row: usize) -> Result<Option<String>> {
        if self.values.is_null(row) {
            return Ok(None);
        }
        let mut text = String::new();
        match &self.values {
            Column::Flat(values) if self.kinds.is_some_and(|kinds| string_at(kinds, row) == Some("JSON")) => {
                let value = strings(values).value(row);
                if !is_json(value) {
                    return Err(exec_datafusion_err!("JSON takes a text that is JSON, not '{}'", shortened(value)));
                }
                write_compact(value.trim_ascii(), &mut text);
            }
            values => values.write(row, &mut text)?,
        }
        Ok(Some(text))
    }
}

/// Whether values of a type can be written as JSON: keys of objects are strings.
pub(crate) fn has_json_form(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => fields.iter().all(|field| has_json_form(field.data_type())),
        DataType::List(item) => has_json_form(item.data_type()),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) => pair[0].data_type().is_string() && has_json_form(pair[1].data_type()),
            _ => false,
        },
        DataType::Boolean | DataType::Float32 | DataType::Float64 | DataType::Decimal128(..) | DataType::Null => true,
        DataType::Timestamp(..) | DataType::BinaryView | DataType::Binary => true,
        other => other.is_integer() || other.is_string(),
    }
}

/// A column, and the columns that its values consist of.
enum Column {
    Flat(ArrayRef),
    /// With what introduces each member.
    Row(ArrayRef, Vec<(String, Column)>),
    Array(ArrayRef, Box<Column>),
    Map(ArrayRef, Box<[Column; 2]>),
}

impl Column {
    fn new(values: &ArrayRef) -> Result<Column> {
        Ok(match values.data_type() {
            DataType::Struct(fields) => {
                let columns = fields.iter().zip(values.as_struct().columns());
                let members = columns.map(|(field, column)| Ok((quoted(field.name()) + ":", Column::new(column)?)));
                Column::Row(values.clone(), members.collect::<Result<_>>()?)
            }
            DataType::List(_) => {
                Column::Array(values.clone(), Box::new(Column::new(values.as_list::<i32>().values())?))
            }
            DataType::Map(..) => {
                let maps = values.as_map();
                Column::Map(values.clone(), Box::new([Column::new(maps.keys())?, Column::new(maps.values())?]))
            }
            data_type if data_type.is_string() => Column::Flat(cast(values, &DataType::Utf8View)?),
            DataType::Binary => Column::Flat(cast(values, &DataType::BinaryView)?),
            _ => Column::Flat(values.clone()),
        })
    }

    fn is_null(&self, row: usize) -> bool {
        let (Column::Flat(values) | Column::Row(values, _) | Column::Array(values, _) | Column::Map(values, _)) = self;
        // The array of NULL itself has no NULLs marked.
        values.data_type().is_null() || values.is_null(row)
    }

    fn write(&self, row: usize, text: &mut String) -> Result<()> {
        if self.is_null(row) {
            text.push_str("null");
            return Ok(());
        }
        match self {
            Column::Flat(values) => write_flat(values, row, text),
            Column::Row(_, members) => separated(['{', '}'], members, text, |(name, values), text| {
                text.push_str(name);
                values.write(row, text)
            }),
            Column::Array(arrays, values) => {
                let offsets = arrays.as_list::<i32>().value_offsets();
                let rows = offsets[row] as usize..offsets[row + 1] as usize;
                separated(['[', ']'], rows, text, |row, text| values.write(row, text))
            }
            Column::Map(maps, entries) => {
                let offsets = maps.as_map().value_offsets();
                let rows = offsets[row] as usize..offsets[row + 1] as usize;
                separated(['{', '}'], rows, text, |row, text| {
                    entries[0].write(row, text)?;
                    text.push(':');
                    entries[1].write(row, text)
                })
            }
        }
    }
}

/// Appends parts in brackets, with commas between.
fn separated<T>(
    [opening, closing]: [char; 2],
    parts: impl IntoIterator<Item = T>,
    text: &mut String,
    write: impl Fn(T, &mut String) -> Result<()>,
) -> Result<()> {
    text.push(opening);
    for (index, part) in parts.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        write(part, text)?;
    }
    text.push(closing);
    Ok(())
}

/// Appends a value that is not NULL.
fn write_flat(values: &ArrayRef, row: usize, text: &mut String) -> Result<()> {
    match values.data_type() {
        DataType::Utf8View => text.push_str(&quoted(values.as_string_view().value(row))),
        DataType::Boolean => text.push_str(if values.as_boolean().value(row) { "true" } else { "false" }),
        DataType::Float32 => float(text, |text| write_float(values.as_primitive::<Float32Type>().value(row), text)),
        DataType::Float64 => float(text, |text| write_double(values.as_primitive::<Float64Type>().value(row), text)),
        data_type if data_type.is_integer() || matches!(data_type, DataType::Decimal128(..)) => {
            text.push_str(&shown(values, row, None)?);
        }
        DataType::Timestamp(unit, zone) => {
            let format = match unit {
                TimeUnit::Second => "%Y-%m-%dT%H:%M:%S",
                _ => "%Y-%m-%dT%H:%M:%S%.f",
            };
            write!(text, "\"{}{}\"", shown(values, row, Some(format))?, if zone.is_some() { "Z" } else { "" })
                .expect("strings take all text");
        }
        DataType::BinaryView => text.push_str(&quoted(&STANDARD.encode(values.as_binary_view().value(row)))),
        other => unreachable!("{other} has no form in JSON, and is refused when the query is planned"),
    }
    Ok(())
}

/// Characters of a text that a message shows.
const SHOWN_MAX: usize = 60;

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

/// A number, or the words for one that is none in quotes.
fn float(text: &mut String, write: impl FnOnce(&mut String)) {
    let mut number = String::new();
    write(&mut number);
    let is_word = number.ends_with(['N', 'y']);
    text.push_str(&if is_word { quoted(&number) } else { number });
}

fn shown(values: &ArrayRef, row: usize, format: Option<&str>) -> Result<String> {
    let options = FormatOptions::new().with_timestamp_format(format).with_timestamp_tz_format(format);
    Ok(ArrayFormatter::try_new(values.as_ref(), &options)?.value(row).to_string())
}

fn quoted(text: &str) -> String {
    let mut written = Vec::with_capacity(text.len() + 2);
    write_string(text.as_bytes(), &mut written);
    String::from_utf8(written).expect("escape sequences are ASCII")
}

/// `JSON_QUOTE(text)`: a string of JSON in ASCII, with slashes escaped as well.
pub(crate) fn json_quote(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = strings(&arguments[0]);
    Ok(collect(texts.len(), |row| {
        let mut written = String::new();
        for letter in quoted(string_at(texts, row)?).chars() {
            match letter {
                '/' => written.push_str("\\/"),
                letter if letter.is_ascii() => written.push(letter),
                letter => letter
                    .encode_utf16(&mut [0; 2])
                    .iter()
                    .for_each(|unit| write!(written, "\\u{unit:04x}").expect("strings take all text")),
            }
        }
        Some(written)
    }))
}

/// `JSON_UNQUOTE(text)`: what a string of JSON stands for; any other text stays as it is.
pub(crate) fn json_unquote(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = strings(&arguments[0]);
    Ok(collect(texts.len(), |row| {
        let text = string_at(texts, row)?;
        let is_quoted = text.len() > 1 && text.starts_with('"') && text.ends_with('"');
        let plain = if is_quoted { serde_json::from_str(text).ok() } else { None };
        Some(plain.unwrap_or_else(|| text.to_string()))
    }))
}
