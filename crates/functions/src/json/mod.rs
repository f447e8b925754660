//! Functions over JSON in strings.
//!
//! A text is looked at once to see that it is JSON, and then gone through to the path: numbers keep the digits that they are written with.
//!
//! With `lax` before its path, a function finds nothing (`ON EMPTY`) where there is no value, or none that it takes; without, that is an error (`ON ERROR`).

mod path;

mod query;

mod number;

mod compose;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, StringViewArray, StringViewBuilder};
pub(super) use compose::{has_json_form, json_array, json_object, json_quote, json_string, json_unquote};
use datafusion_common::{Result, exec_datafusion_err, exec_err};
pub(super) use query::json_query;
use serde::de::IgnoredAny;

use self::number::{number_text, whole_number};
use self::path::Path;
use crate::text::{string_at, strings};

/// Whether a text is a path into JSON.
pub fn is_path(path: &str) -> bool {
    Path::of(path).is_some()
}

/// How deep objects and arrays may be nested, as in Flink: each level is gone through once more.
const NESTING_MAX: usize = 1000;

/// Whether a text is JSON.
fn is_json(text: &str) -> bool {
    nesting(text) <= NESTING_MAX && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// How deep objects and arrays are nested in a text, if it is JSON.
fn nesting(text: &str) -> usize {
    let (mut depth, mut most, mut is_quoted, mut is_escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'{' | b'[' if !is_quoted => {
                depth += 1;
                most = most.max(depth);
            }
            b'}' | b']' if !is_quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    most
}

/// What a path leads to in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found<'t> {
    /// Text or path are NULL.
    Null,
    /// Nothing, or nothing of use, which is no error with a lax path.
    Empty,
    /// The same, which is an error.
    Wrong,
    /// JSON.
    Value(&'t str),
}

fn missing<'t>(path: &Path) -> Found<'t> {
    if path.is_lax { Found::Empty } else { Found::Wrong }
}

/// Visits, row by row, what a path leads to.
fn for_each(
    function: &str,
    arguments: &[ArrayRef],
    mut visit: impl FnMut(usize, Found<'_>, &Path) -> Result<()>,
) -> Result<()> {
    let (texts, paths) = (strings(&arguments[0]), strings(&arguments[1]));
    let nowhere = Path::of("$").expect("it is a path");
    let mut parsed: Option<(&str, Path)> = None;
    for row in 0..texts.len() {
        let (Some(text), Some(path)) = (string_at(texts, row), string_at(paths, row)) else {
            visit(row, Found::Null, &nowhere)?;
            continue;
        };
        let path = match &parsed {
            Some((source, known)) if *source == path => known,
            _ => {
                let known = Path::of(path).ok_or_else(|| {
                    exec_datafusion_err!("{function}: '{path}' is not a valid JSON path; write one such as '$.a.b[0]'")
                })?;
                &parsed.insert((path, known)).1
            }
        };
        let found = if is_json(text) { path.find(text.trim_ascii()) } else { None };
        let found = found.filter(|value| *value != "null");
        visit(row, found.map_or(missing(path), Found::Value), path)?;
    }
    Ok(())
}

/// The text of a constant argument, or `default` where it is not given.
fn constant<'a>(arguments: &'a [ArrayRef], index: usize, default: &'a str) -> &'a str {
    match arguments.get(index).map(strings) {
        Some(texts) if !texts.is_empty() => string_at(texts, 0).unwrap_or(default),
        _ => default,
    }
}

/// `JSON_VALUE(text, path[, type, on_empty, empty_value, on_error, error_value])`: the scalar at a path; what stands there is text.
///
/// `type` is the one behind RETURNING, `on_empty` and `on_error` are NULL, ERROR or DEFAULT, and the values those of DEFAULT.
pub(super) fn json_value(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let data_type = constant(arguments, 2, "STRING");
    let (on_empty, on_error) = (constant(arguments, 3, "NULL"), constant(arguments, 5, "NULL"));
    let defaults = [4, 6].map(|index| arguments.get(index).map(strings));
    let mut values = StringViewBuilder::with_capacity(arguments[0].len());
    for_each("JSON_VALUE", arguments, |row, found, path| {
        let text = match found {
            Found::Value(value) => scalar(value, data_type),
            _ => None,
        };
        let (behaviour, default) = match found {
            Found::Value(_) if text.is_some() => ("VALUE", None),
            Found::Null => ("NULL", None),
            Found::Empty => (on_empty, defaults[0]),
            Found::Value(_) if path.is_lax => (on_empty, defaults[0]),
            Found::Wrong | Found::Value(_) => (on_error, defaults[1]),
        };
        match behaviour {
            "ERROR" => return exec_err!("JSON_VALUE finds no {data_type} there"),
            "DEFAULT" => values.append_option(default.and_then(|default| string_at(default, row))),
            _ => values.append_option(text),
        }
        Ok(())
    })?;
    Ok(Arc::new(values.finish()))
}

/// A value as text, where it is a string, a number or a truth value, and one of that type.
fn scalar(value: &str, data_type: &str) -> Option<String> {
    let is_number = !matches!(value.as_bytes().first()?, b'{' | b'[' | b'n' | b'"' | b't' | b'f');
    match (value.as_bytes()[0], data_type) {
        (b'"', "STRING") => serde_json::from_str(value).ok(),
        (b't' | b'f', "STRING" | "BOOLEAN") => Some(value.to_string()),
        (_, "STRING" | "DOUBLE") if is_number => Some(number_text(value)),
        (_, "INT") if is_number => whole_number(value).map(|number| number.to_string()),
        _ => None,
    }
}

/// `JSON_EXISTS(text, path[, on_error])`: whether there is something else than null at a path; `on_error` is TRUE, FALSE, UNKNOWN or ERROR.
pub(super) fn json_exists(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let on_error = constant(arguments, 2, "FALSE");
    let mut exist = Vec::with_capacity(arguments[0].len());
    for_each("JSON_EXISTS", arguments, |_, found, _| {
        exist.push(match found {
            Found::Null => None,
            Found::Value(_) => Some(true),
            Found::Empty => Some(false),
            Found::Wrong => match on_error {
                "ERROR" => return exec_err!("JSON_EXISTS finds nothing there"),
                "UNKNOWN" => None,
                other => Some(other == "TRUE"),
            },
        });
        Ok(())
    })?;
    Ok(Arc::new(BooleanArray::from(exist)))
}

/// `text IS JSON [VALUE | OBJECT | ARRAY | SCALAR]`: FALSE for NULL. What stands behind a whole value does not count, as in Flink.
pub(super) fn is_json_value(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let kind = constant(arguments, 1, "VALUE");
    let texts: &StringViewArray = strings(&arguments[0]);
    let is_kind = |text: &str| {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
        let first = text.trim_ascii_start().as_bytes().first();
        matches!(values.next(), Some(Ok(_)))
            && match kind {
                "OBJECT" => first == Some(&b'{'),
                "ARRAY" => first == Some(&b'['),
                "SCALAR" => !matches!(first, Some(b'{' | b'[')),
                _ => true,
            }
    };
    let values = (0..texts.len()).map(|row| Some(string_at(texts, row).is_some_and(is_kind)));
    Ok(Arc::new(values.collect::<BooleanArray>()))
}
