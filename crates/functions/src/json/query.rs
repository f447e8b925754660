//! `JSON_QUERY`: objects and arrays, written without blanks.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewBuilder};
use datafusion_common::{Result, exec_err};
use pelton_data::json::compact;

use super::number::number_text;
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

/// Appends a value of JSON without blanks, as Flink writes it: numbers keep their digits.
pub(super) fn write_compact(value: &str, written: &mut String) {
    let number = |number: &str, out: &mut Vec<u8>| out.extend_from_slice(number_text(number).as_bytes());
    match compact(value.as_bytes(), number).and_then(|compact| String::from_utf8(compact).ok()) {
        Some(compact) => written.push_str(&compact),
        // Only escape sequences of halves of characters are JSON and no text.
        None => written.push_str(value),
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
            (r#"[ "\u00e9\/\t\u001f" ]"#, "[\"é/\\t\\u001F\"]"),
            (r#"[ "\ud800", 1e7 ]"#, r#"[ "\ud800", 1e7 ]"#),
            ("[1e7, 1.50]", "[1E+7,1.50]"),
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
