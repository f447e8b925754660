//! Functions over JSON in strings.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringViewArray, StringViewBuilder};
use datafusion_common::{Result, exec_datafusion_err};
use serde_json::Value;

/// `JSON_VALUE(text, path)`: the scalar at a path such as `$.a.b[0]` or `$['a']`; NULL where there is none.
pub(super) fn json_value(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let mut values = StringViewBuilder::with_capacity(arguments[0].len());
    for_each("JSON_VALUE", arguments, |found| {
        values.append_option(match found.flatten() {
            None | Some(Value::Null | Value::Array(_) | Value::Object(_)) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(other) => Some(other.to_string()),
        });
    })?;
    Ok(Arc::new(values.finish()))
}

/// `JSON_EXISTS(text, path)`: whether there is something else than null at a path; in what is no JSON there is nothing.
pub(super) fn json_exists(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let mut exist = Vec::with_capacity(arguments[0].len());
    for_each("JSON_EXISTS", arguments, |found| {
        exist.push(found.map(|value| value.is_some_and(|value| !value.is_null())))
    })?;
    Ok(Arc::new(BooleanArray::from(exist)))
}

/// Visits, row by row, what is at a path; `None` where text or path are NULL.
fn for_each(function: &str, arguments: &[ArrayRef], mut visit: impl FnMut(Option<Option<&Value>>)) -> Result<()> {
    let texts: &StringViewArray = arguments[0].as_string_view();
    let paths: &StringViewArray = arguments[1].as_string_view();
    let mut parsed: Option<(String, Vec<JsonStep>)> = None;
    for row in 0..texts.len() {
        if texts.is_null(row) || paths.is_null(row) {
            visit(None);
            continue;
        }
        let path = paths.value(row);
        let steps = match &parsed {
            Some((source, steps)) if source == path => steps,
            _ => {
                let steps = json_path(path).ok_or_else(|| {
                    exec_datafusion_err!("{function}: '{path}' is no path; write one such as '$.a.b[0]'")
                })?;
                &parsed.insert((path.to_string(), steps)).1
            }
        };
        let document: Option<Value> = serde_json::from_str(texts.value(row)).ok();
        visit(Some(steps.iter().try_fold(document.as_ref(), |value, step| Some(step.of(value?))).flatten()));
    }
    Ok(())
}

enum JsonStep {
    Member(String),
    Element(usize),
}

impl JsonStep {
    fn of<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        match self {
            JsonStep::Member(name) => value.get(name),
            JsonStep::Element(index) => value.get(index),
        }
    }
}

/// Whether a text is a path into JSON.
pub fn is_path(path: &str) -> bool {
    json_path(path).is_some()
}

fn json_path(path: &str) -> Option<Vec<JsonStep>> {
    let path = path.trim();
    let path = path.strip_prefix("lax ").or_else(|| path.strip_prefix("strict ")).unwrap_or(path);
    let mut rest = path.trim_start().strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(member) = rest.strip_prefix('.') {
            let end = member.find(['.', '[']).unwrap_or(member.len());
            if end == 0 {
                return None;
            }
            steps.push(JsonStep::Member(member[..end].to_string()));
            rest = &member[end..];
            continue;
        }
        let (inside, after) = rest.strip_prefix('[')?.split_once(']')?;
        let quoted = inside.strip_prefix('\'').and_then(|inside| inside.strip_suffix('\''));
        steps.push(match quoted {
            Some(name) => JsonStep::Member(name.to_string()),
            None => JsonStep::Element(inside.trim().parse().ok()?),
        });
        rest = after;
    }
    Some(steps)
}
