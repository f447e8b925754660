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
use pelton_data::column::sql_name;
use pelton_data::float_text::{write_double, write_float};
use serde_json::Value;

use super::is_json;
use super::query::write_compact;
use crate::text::{collect, string_at, strings};

/// `json_object(mode, name, kind, value, …)`: `mode` is NULL or ABSENT, what becomes of members that are NULL; `kind` is JSON where a value is written as
/// it is. Members are ordered by name, and the last of one name counts, as in Flink.
pub(crate) fn json_object(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let (modes, members) = (strings(&arguments[0]), &arguments[1..]);
    let members =
        members.chunks_exact(3).map(|part| Ok((strings(&part[0]), Values::new(strings(&part[1]), &part[2])?)));
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
    let elements = elements.chunks_exact(2).map(|part| Values::new(strings(&part[0]), &part[1]));
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
    let values = Values { kinds: None, values: arguments[0].clone() };
    let texts = (0..arguments[0].len()).map(|row| values.text(row));
    Ok(Arc::new(texts.collect::<Result<StringViewArray>>()?))
}

/// Values of one column as JSON.
struct Values<'a> {
    /// Where a row says whether its value is JSON.
    kinds: Option<&'a StringViewArray>,
    values: ArrayRef,
}

impl<'a> Values<'a> {
    fn new(kinds: &'a StringViewArray, values: &ArrayRef) -> Result<Values<'a>> {
        let values = match values.data_type() {
            data_type if data_type.is_string() => cast(values, &DataType::Utf8View)?,
            _ => values.clone(),
        };
        Ok(Values { kinds: Some(kinds), values })
    }

    /// `None` where the value is NULL.
    fn text(&self, row: usize) -> Result<Option<String>> {
        if self.values.is_null(row) {
            return Ok(None);
        }
        let is_json = self.kinds.is_some_and(|kinds| string_at(kinds, row) == Some("JSON"));
        let values = &self.values;
        let mut text = String::new();
        match values.data_type() {
            DataType::Utf8View if is_json => {
                let value = values.as_string_view().value(row);
                if !self::is_json(value) {
                    return Err(exec_datafusion_err!("JSON takes a text that is JSON, not '{value}'"));
                }
                write_compact(value.trim_ascii(), &mut text);
            }
            DataType::Utf8View => text = quoted(values.as_string_view().value(row)),
            DataType::Boolean => text.push_str(if values.as_boolean().value(row) { "true" } else { "false" }),
            DataType::Float32 => {
                float(&mut text, |text| write_float(values.as_primitive::<Float32Type>().value(row), text))
            }
            DataType::Float64 => {
                float(&mut text, |text| write_double(values.as_primitive::<Float64Type>().value(row), text))
            }
            data_type if data_type.is_integer() || matches!(data_type, DataType::Decimal128(..)) => {
                text = shown(values, row, None)?;
            }
            DataType::Timestamp(unit, zone) => {
                let format = match unit {
                    TimeUnit::Second => "%Y-%m-%dT%H:%M:%S",
                    _ => "%Y-%m-%dT%H:%M:%S%.f",
                };
                write!(text, "\"{}{}\"", shown(values, row, Some(format))?, if zone.is_some() { "Z" } else { "" })
                    .expect("strings take all text");
            }
            DataType::BinaryView | DataType::Binary => {
                let bytes = cast(values, &DataType::BinaryView)?;
                text = quoted(&STANDARD.encode(bytes.as_binary_view().value(row)));
            }
            other => return exec_err!("{} has no form in JSON: use CAST(value AS STRING)", sql_name(other)),
        }
        Ok(Some(text))
    }
}

/// A number, or the words for one that is none in quotes.
fn float(text: &mut String, write: impl FnOnce(&mut String)) {
    write(text);
    if text.ends_with(['N', 'y']) {
        *text = quoted(text);
    }
}

fn shown(values: &ArrayRef, row: usize, format: Option<&str>) -> Result<String> {
    let options = FormatOptions::new().with_timestamp_format(format).with_timestamp_tz_format(format);
    Ok(ArrayFormatter::try_new(values.as_ref(), &options)?.value(row).to_string())
}

fn quoted(text: &str) -> String {
    Value::String(text.to_string()).to_string()
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
