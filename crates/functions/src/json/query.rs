//! `JSON_QUERY`: objects and arrays, written without blanks.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewBuilder};
use datafusion_common::{Result, exec_err};

use super::number::number_text;
use super::path::{elements, members};
use super::{Found, constant, for_each};

/// `JSON_QUERY(text, path[, wrapper, on_empty, on_error])`: the object or array at a path.
///
/// `wrapper` is WITHOUT, CONDITIONAL or UNCONDITIONAL: whether brackets are put around what is no array, or around everything. `on_empty` and
/// `on_error` are NULL, EMPTY ARRAY, EMPTY OBJECT or ERROR.
pub(crate) fn json_query(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let wrapper = constant(arguments, 2, "WITHOUT");
    let (on_empty, on_error) = (constant(arguments, 3, "NULL"), constant(arguments, 4, "NULL"));
    let mut values = StringViewBuilder::with_capacity(arguments[0].len());
    let mut written = String::new();
    for_each("JSON_QUERY", arguments, |_, found, path| {
        written.clear();
        let behaviour = match found {
            Found::Value(value) => {
                let is_wrapped = wrapper == "UNCONDITIONAL" || wrapper == "CONDITIONAL" && !value.starts_with('[');
                match value.starts_with(['{', '[']) {
                    _ if is_wrapped => {
                        written.push('[');
                        write_compact(value, &mut written);
                        written.push(']');
                        "VALUE"
                    }
                    true => {
                        write_compact(value, &mut written);
                        "VALUE"
                    }
                    false if path.is_lax => on_empty,
                    false => on_error,
                }
            }
            Found::Null => "NULL",
            Found::Empty => on_empty,
            Found::Wrong => on_error,
        };
        match behaviour {
            "VALUE" => values.append_value(&written),
            "EMPTY ARRAY" => values.append_value("[]"),
            "EMPTY OBJECT" => values.append_value("{}"),
            "ERROR" => return exec_err!("JSON_QUERY finds no object or array there"),
            _ => values.append_null(),
        }
        Ok(())
    })?;
    Ok(Arc::new(values.finish()))
}

/// A value of JSON without blanks, as Flink writes it. What is to be written waits in a list, so that nesting takes no stack.
pub(super) fn write_compact(value: &str, written: &mut String) {
    enum Part<'a> {
        Value(&'a str),
        Text(&'static str),
        Name(&'a str),
    }
    let mut waiting = vec![Part::Value(value)];
    while let Some(part) = waiting.pop() {
        let value = match part {
            Part::Text(text) => {
                written.push_str(text);
                continue;
            }
            Part::Name(name) => {
                write_string(name, written);
                written.push(':');
                continue;
            }
            Part::Value(value) => value,
        };
        let first = waiting.len();
        match value.as_bytes().first() {
            Some(b'{') => {
                written.push('{');
                for (index, (name, value)) in members(value).into_iter().enumerate() {
                    waiting.extend((index > 0).then_some(Part::Text(",")));
                    waiting.extend([Part::Name(name), Part::Value(value)]);
                }
                waiting.push(Part::Text("}"));
            }
            Some(b'[') => {
                written.push('[');
                for (index, value) in elements(value).enumerate() {
                    waiting.extend((index > 0).then_some(Part::Text(",")));
                    waiting.push(Part::Value(value));
                }
                waiting.push(Part::Text("]"));
            }
            Some(b'"') => write_string(value, written),
            Some(b't' | b'f' | b'n') => written.push_str(value),
            _ => written.push_str(&number_text(value)),
        }
        // The last of the list comes first.
        waiting[first..].reverse();
    }
}

/// A string of JSON, with escapes only where they must be.
fn write_string(text: &str, written: &mut String) {
    match serde_json::from_str::<String>(text) {
        Ok(plain) => written.push_str(&serde_json::Value::String(plain).to_string()),
        Err(_) => written.push_str(text),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NESTING_MAX, is_json};
    use super::write_compact;

    #[test]
    fn values_are_written_without_blanks() {
        for (value, compact) in [
            ("{ \"a\" : [ 1.50 , null, true ] , \"b\":{ } }", r#"{"a":[1.50,null,true],"b":{}}"#),
            (r#"{"a": 1, "b": 2, "\u0061": 3}"#, r#"{"a":3,"b":2}"#),
            (r#"[ "\u00e9\/\t" ]"#, "[\"é/\\t\"]"),
            ("[ ]", "[]"),
        ] {
            let mut written = String::new();
            write_compact(value, &mut written);
            assert_eq!(written, compact, "{value}");
        }
        let nested = |depth: usize| "[ ".repeat(depth) + "\"[\"" + &"]".repeat(depth);
        let deep = nested(NESTING_MAX);
        assert!(is_json(&deep) && !is_json(&nested(NESTING_MAX + 1)));
        let mut written = String::new();
        write_compact(&deep, &mut written);
        assert_eq!(written, deep.replace(' ', ""));
    }
}
