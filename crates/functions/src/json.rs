//! Functions over JSON in strings.
//!
//! A text is looked at once to see that it is JSON, and then gone through to the path: numbers keep the digits that they are written with.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringViewArray, StringViewBuilder};
use datafusion_common::{Result, exec_datafusion_err};
use pelton_data::float_text::write_double;
use serde_json::Value;

/// `JSON_VALUE(text, path)`: the scalar at a path such as `$.a.b[0]` or `$['a']`; NULL where there is none.
pub(super) fn json_value(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let mut values = StringViewBuilder::with_capacity(arguments[0].len());
    for_each("JSON_VALUE", arguments, |found| values.append_option(found.flatten().and_then(scalar)))?;
    Ok(Arc::new(values.finish()))
}

/// A value as text, where it is a string, a number or a truth value.
fn scalar(value: &str) -> Option<String> {
    match value.as_bytes().first()? {
        b'{' | b'[' | b'n' => None,
        b'"' => serde_json::from_str(value).ok(),
        b't' | b'f' => Some(value.to_string()),
        _ if value.contains(['.', 'e', 'E']) => {
            let mut text = String::new();
            write_double(value.parse().ok()?, &mut text);
            Some(text)
        }
        _ if value == "-0" => Some("0".to_string()),
        _ => Some(value.to_string()),
    }
}

/// `JSON_EXISTS(text, path)`: whether there is something else than null at a path; in what is no JSON there is nothing.
pub(super) fn json_exists(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let mut exist = Vec::with_capacity(arguments[0].len());
    for_each("JSON_EXISTS", arguments, |found| {
        exist.push(found.map(|value| value.is_some_and(|value| value != "null")))
    })?;
    Ok(Arc::new(BooleanArray::from(exist)))
}

/// Visits, row by row, what is written at a path; `None` where text or path are NULL.
fn for_each(function: &str, arguments: &[ArrayRef], mut visit: impl FnMut(Option<Option<&str>>)) -> Result<()> {
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
        let text = texts.value(row);
        let document = serde_json::from_str::<Value>(text).is_ok().then(|| text.trim_ascii());
        visit(Some(steps.iter().try_fold(document, |value, step| Some(step.of(value?))).flatten()));
    }
    Ok(())
}

enum JsonStep {
    Member(String),
    Element(usize),
}

impl JsonStep {
    /// What a value has there, which is JSON.
    fn of<'a>(&self, value: &'a str) -> Option<&'a str> {
        match self {
            JsonStep::Member(name) => {
                // The last of several of one name, as in Flink.
                let members = Parts::of(value, '{')?.filter(|(member, _)| is_named(member, name));
                members.last().map(|(_, value)| value)
            }
            JsonStep::Element(index) => Parts::of(value, '[')?.nth(*index).map(|(_, value)| value),
        }
    }
}

/// Whether the name of a member, in quotes, is this one.
fn is_named(member: &str, name: &str) -> bool {
    match member.contains('\\') {
        true => serde_json::from_str::<String>(member).is_ok_and(|member| member == name),
        false => member.get(1..member.len() - 1) == Some(name),
    }
}

/// The names, in quotes, and values of an object, or the values of an array, which is JSON.
struct Parts<'a> {
    /// What is behind the last of them.
    rest: &'a str,
    is_object: bool,
}

impl<'a> Parts<'a> {
    /// `None` where the value does not begin with this bracket.
    fn of(value: &'a str, bracket: char) -> Option<Parts<'a>> {
        value.strip_prefix(bracket).map(|rest| Parts { rest, is_object: bracket == '{' })
    }

    /// What comes next, and what is behind it.
    fn take(&mut self) -> &'a str {
        let begin = self.rest.trim_start_matches([' ', '\t', '\r', '\n', ',', ':']);
        let (value, rest) = begin.split_at(value_length(begin));
        self.rest = rest;
        value
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<(&'a str, &'a str)> {
        let first = self.take();
        if first.is_empty() {
            return None;
        }
        Some(if self.is_object { (first, self.take()) } else { ("", first) })
    }
}

/// Bytes of the value that a text begins with; none where a bracket closes there.
fn value_length(text: &str) -> usize {
    let (mut depth, mut is_quoted, mut is_escaped) = (0, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => {
                is_quoted = !is_quoted;
                if !is_quoted && depth == 0 {
                    return at + 1;
                }
            }
            _ if is_quoted => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth > 1 => depth -= 1,
            b'}' | b']' if depth == 1 => return at + 1,
            b'}' | b']' | b',' | b' ' | b'\t' | b'\r' | b'\n' if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
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
        // A point may stand before brackets as well.
        let behind_point = rest.strip_prefix('.');
        match behind_point.filter(|member| !member.starts_with('[')) {
            Some(member) => {
                let end = member.find(['.', '[']).unwrap_or(member.len());
                let name = &member[..end];
                // Those with an asterisk or a bracket ask for several members, or call a function.
                if name.is_empty() || name.contains(['*', '(']) {
                    return None;
                }
                steps.push(JsonStep::Member(name.to_string()));
                rest = &member[end..];
            }
            None => {
                let (step, behind) = in_brackets(behind_point.unwrap_or(rest).strip_prefix('[')?)?;
                steps.push(step);
                rest = behind;
            }
        }
    }
    Some(steps)
}

/// The step that stands in brackets, a name in quotes of either kind or a number, and what is behind them.
fn in_brackets(inside: &str) -> Option<(JsonStep, &str)> {
    let inside = inside.trim_start();
    let Some(quote) = inside.chars().next().filter(|first| matches!(first, '\'' | '"')) else {
        let (number, behind) = inside.split_once(']')?;
        return Some((JsonStep::Element(number.trim().parse().ok()?), behind));
    };
    let (name, behind) = inside[1..].split_once(quote)?;
    Some((JsonStep::Member(name.to_string()), behind.trim_start().strip_prefix(']')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at<'a>(text: &'a str, path: &str) -> Option<&'a str> {
        json_path(path).unwrap().iter().try_fold(text, |value, step| step.of(value))
    }

    #[test]
    fn values_are_found_as_they_are_written() {
        let text = r#"{ "a" : [ 1 , {"b,c": "}\"]" } ,[ ], {}, -1.50e3, [[2],3] ], "\u0061b":null,"a.b":"\\","d":1,"d" : {"e":true}}"#;
        for (path, value) in [
            ("$.a[0]", Some("1")),
            ("$.a[1]['b,c']", Some(r#""}\"]""#)),
            ("$.a[2]", Some("[ ]")),
            ("$.a[2][0]", None),
            ("$.a[3]", Some("{}")),
            ("$.a[3].x", None),
            ("$.a[4]", Some("-1.50e3")),
            ("$.a[5][0][0]", Some("2")),
            ("$.a[5][1]", Some("3")),
            ("$.a[6]", None),
            ("$.ab", Some("null")),
            ("$['a.b']", Some(r#""\\""#)),
            ("$.d", Some(r#"{"e":true}"#)),
            ("$.d.e", Some("true")),
            ("$.d[0]", None),
            ("$.x", None),
        ] {
            assert_eq!(at(text, path), value, "{path}");
        }
        assert_eq!(at("7", "$"), Some("7"));
        assert_eq!(at("[]", "$[0]"), None);
    }

    #[test]
    fn paths_name_one_value() {
        for path in [
            "$",
            "lax $.a",
            "strict $.a.b[0]",
            "$['a b']",
            "$.['a b']",
            "$[\"a\"]",
            "$.[\"a.b\"][0]",
            "$[ 1 ]",
            "$.a.[0]",
        ] {
            assert!(is_path(path), "{path}");
        }
        for path in [
            "",
            "a",
            "$a",
            "$.",
            "$..a",
            "$.*",
            "$[*]",
            "$.a.*",
            "$.a.length()",
            "$['a','b']",
            "$['a'",
            "$[a]",
            "$[-1]",
            "$[?(@.a)]",
        ] {
            assert!(!is_path(path), "{path}");
        }
    }
}
