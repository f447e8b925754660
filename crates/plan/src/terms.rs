//! Arrow's types and messages in the terms of SQL.

use std::sync::LazyLock;

use arrow::datatypes::DataType;
use pelton_data::column::sql_name;
use regex::{Captures, Regex};

/// A text of Arrow or DataFusion with types named as SQL does. What stands in single quotes is not touched.
pub fn with_sql_types(text: &str) -> String {
    let quoted = text.split('\'').enumerate();
    let parts = quoted.map(|(index, part)| if index % 2 == 0 { named(part) } else { part.to_string() });
    parts.collect::<Vec<_>>().join("'")
}

/// The text and the type of a message that says that one is no value of the other.
pub fn no_value(message: &str) -> Option<(&str, String)> {
    if let Some((_, rest)) = message.split_once("Cannot cast string '") {
        let (text, data_type) = rest.rsplit_once("' to value of ")?;
        return Some((text, named(data_type.split(" type").next()?)));
    }
    let (_, rest) = message.split_once("Error parsing timestamp from '")?;
    Some((rest.rsplit_once("': ")?.0, "TIMESTAMP".to_string()))
}

/// What a message says of a number that has more digits than a DECIMAL.
pub fn no_decimal(message: &str) -> Option<String> {
    let (number, rest) = message
        .split_once(" is too large to store in a Decimal")
        .or_else(|| message.split_once(" is too small to store in a Decimal"))?;
    let (_, precision) = rest.split_once(" of precision ")?;
    let number = number.rsplit(' ').next()?;
    let digits = precision.split('.').next()?;
    Some(format!("{number} does not fit a DECIMAL of {digits} digits"))
}

/// A text in which all nested types are named as SQL does, quoted or not: what stands between their parts is what messages are divided at.
pub fn with_sql_nested_types(text: &str) -> String {
    replace_types(text, is_nested_type)
}

fn named(text: &str) -> String {
    static WORD: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"`[^`]*`|\w+").expect("a pattern"));
    let text = replace_types(text, |_| true);
    WORD.replace_all(&text, |found: &Captures<'_>| sql_word(&found[0]).to_string()).into_owned()
}

fn is_nested_type(word: &str) -> bool {
    matches!(
        word,
        "Struct" | "Map" | "List" | "ListView" | "LargeList" | "LargeListView" | "FixedSizeList" | "Dictionary"
    )
}

/// A text in which Arrow's types that have parameters are named as SQL does, where their first word is a `wanted` one.
fn replace_types(text: &str, wanted: impl Fn(&str) -> bool) -> String {
    static START: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"`[^`]*`|\b([A-Z]\w+)\(").expect("a pattern"));
    let mut named = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(found) = START.captures_at(text, at) {
        let (whole, word) = (found.get(0).expect("all of it"), found.get(1).filter(|word| wanted(word.as_str())));
        let data_type = word.and_then(|word| {
            let end = whole.end() + parameters_length(&text[whole.end()..])?;
            Some((text[word.start()..end].parse::<DataType>().ok()?, end))
        });
        let end = match data_type {
            Some((data_type, end)) => {
                named.push_str(&text[at..whole.start()]);
                named.push_str(&sql_name(&data_type));
                end
            }
            None => {
                named.push_str(&text[at..whole.end()]);
                whole.end()
            }
        };
        at = end;
    }
    named + &text[at..]
}

/// How long the parameters of a type are behind their opening parenthesis, with the closing one. Names of fields are quoted.
fn parameters_length(text: &str) -> Option<usize> {
    let (mut depth, mut quote, mut is_escaped) = (1, None, false);
    for (at, character) in text.char_indices() {
        match (quote, character) {
            _ if is_escaped => is_escaped = false,
            (Some('"'), '\\') => is_escaped = true,
            (Some(opening), closing) if opening == closing => quote = None,
            (None, '"' | '\'') => quote = Some(character),
            (None, '(') => depth += 1,
            (None, ')') => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

fn sql_word(word: &str) -> &str {
    match word {
        "Utf8View" | "Utf8" | "LargeUtf8" => "STRING",
        "Int8" => "TINYINT",
        "Int16" => "SMALLINT",
        "Int32" => "INT",
        "Int64" => "BIGINT",
        "UInt8" | "UInt16" | "UInt32" | "UInt64" => "BIGINT",
        "Float32" => "FLOAT",
        "Float64" => "DOUBLE",
        "Boolean" => "BOOLEAN",
        "Date32" => "DATE",
        "Decimal128" => "DECIMAL",
        "Timestamp" => "TIMESTAMP",
        "BinaryView" | "Binary" | "LargeBinary" => "BYTES",
        "Null" => "NULL",
        "Interval" | "Duration" => "INTERVAL",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_as_sql_names_them() {
        for (arrow, sql) in [
            ("CAST(a AS Int32) + Decimal128(10, 2)", "CAST(a AS INT) + DECIMAL(10, 2)"),
            ("Timestamp(ms) and Timestamp(µs, \"+00:00\")", "TIMESTAMP(3) and TIMESTAMP_LTZ(6)"),
            ("Time64(ns), Interval(MonthDayNano)", "TIME, INTERVAL"),
            ("a = 'Int64' AND Utf8View", "a = 'Int64' AND STRING"),
            ("my_Int64 and Int64s", "my_Int64 and Int64s"),
            (
                r#"Struct("n": Int32, "Int64": non-null List(Utf8View)) = Map("entries": non-null Struct("key": non-null Utf8, "value": Float64), unsorted)"#,
                "ROW<`n` INT, `Int64` ARRAY<STRING> NOT NULL> = MAP<STRING, DOUBLE>",
            ),
            (r#"List(Struct("a)(": Timestamp(ms)))"#, "ARRAY<ROW<`a)(` TIMESTAMP(3)>>"),
            ("Dictionary(UInt32, Utf8View), Duration(ms) and Struct(", "STRING, INTERVAL and Struct("),
        ] {
            assert_eq!(with_sql_types(arrow), sql);
            assert_eq!(with_sql_types(&with_sql_nested_types(arrow)), sql);
            assert_eq!(with_sql_types(sql), sql);
        }
        assert_eq!(with_sql_nested_types("'List(Int32)' and Int32"), "'ARRAY<INT>' and Int32");
    }

    #[test]
    fn values_that_are_none_are_told_with_their_types() {
        let found = no_value("Cannot cast string 'it's 7' to value of Int8 type");
        assert_eq!(found, Some(("it's 7", "TINYINT".to_string())));
        let found = no_value("Parser error: Error parsing timestamp from 'x': error parsing date");
        assert_eq!(found, Some(("x", "TIMESTAMP".to_string())));
        assert_eq!(no_value("division by zero"), None);
        let found = no_decimal(
            "Invalid argument error: -99.5 is too small to store in a Decimal128 of precision 2. Min is -9.9",
        );
        assert_eq!(found.as_deref(), Some("-99.5 does not fit a DECIMAL of 2 digits"));
    }
}
