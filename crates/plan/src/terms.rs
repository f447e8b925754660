//! Arrow's types and messages in the terms of SQL.

use std::sync::LazyLock;

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

fn named(text: &str) -> String {
    static TIMESTAMP: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"Timestamp\((s|ms|µs|ns)(, "[^"]*")?\)"#).expect("a pattern"));
    static OTHER_TIME: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(Time|Interval|Duration)(32|64)?\(\w+\)").expect("a pattern"));
    static WORD: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\w+").expect("a pattern"));
    let text = TIMESTAMP.replace_all(text, |found: &Captures<'_>| {
        let name = if found.get(2).is_some() { "TIMESTAMP_LTZ" } else { "TIMESTAMP" };
        let digits = match &found[1] {
            "s" => 0,
            "ms" => 3,
            "µs" => 6,
            _ => 9,
        };
        format!("{name}({digits})")
    });
    let text = OTHER_TIME
        .replace_all(&text, |found: &Captures<'_>| if &found[1] == "Time" { "TIME" } else { "INTERVAL" }.to_string());
    WORD.replace_all(&text, |found: &Captures<'_>| sql_word(&found[0]).to_string()).into_owned()
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
        "BinaryView" | "Binary" => "BYTES",
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
        ] {
            assert_eq!(with_sql_types(arrow), sql);
        }
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
