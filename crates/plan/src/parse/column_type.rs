//! The types of columns.

use std::ops::RangeInclusive;

use sqlparser::tokenizer::Token;

use super::reader::Reader;
use crate::error::{Place, PlanError, closest};
use crate::types::{DECIMAL_PRECISION_MAX, SqlType, TIMESTAMP_PRECISION_DEFAULT};

const NAMES: [&str; 18] = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "INTEGER",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL",
    "NUMERIC",
    "CHAR",
    "VARCHAR",
    "STRING",
    "BYTES",
    "VARBINARY",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP_LTZ",
];

/// Reads a type.
pub(super) fn read(reader: &mut Reader) -> Result<SqlType, PlanError> {
    let found = reader.parser.next_token();
    let place = Place::at(found.span.start);
    let word = match &found.token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
        _ => return Err(reader.expected("the type of the column", &found)),
    };
    Ok(match word.as_str() {
        "BOOLEAN" => SqlType::Boolean,
        "TINYINT" => SqlType::TinyInt,
        "SMALLINT" => SqlType::SmallInt,
        "INT" | "INTEGER" => SqlType::Int,
        "BIGINT" => SqlType::BigInt,
        "FLOAT" => SqlType::Float,
        "DOUBLE" => {
            let _ = reader.takes("PRECISION");
            SqlType::Double
        }
        "DECIMAL" | "DEC" | "NUMERIC" => decimal(reader, place)?,
        "CHAR" => SqlType::Char(length(reader)?.unwrap_or(1)),
        "VARCHAR" => SqlType::Varchar(length(reader)?.unwrap_or(1)),
        "STRING" => SqlType::String,
        "BINARY" | "VARBINARY" => {
            length(reader)?;
            SqlType::Bytes
        }
        "BYTES" => SqlType::Bytes,
        "DATE" => SqlType::Date,
        "TIMESTAMP" => timestamp(reader)?,
        "TIMESTAMP_LTZ" => SqlType::TimestampLtz(timestamp_precision(reader)?),
        _ => return Err(unknown_type(&word, place)),
    })
}

/// The error for a type that there is not, or not yet; `word` is in capitals.
pub fn unknown_type(word: &str, place: Option<Place>) -> PlanError {
    let instead = match word {
        "ARRAY" | "MAP" | "ROW" | "MULTISET" | "STRUCTURED" | "RAW" | "VARIANT" => {
            "keep each value in a column of its own"
        }
        "TIME" => "use TIMESTAMP(3), or INT for the milliseconds of the day",
        "INTERVAL" => "keep two TIMESTAMP columns, or BIGINT for a number of milliseconds",
        _ => {
            let meant = match word {
                "LONG" | "INT8" | "INT64" => Some("BIGINT"),
                "INT32" | "INT4" | "UINT32" => Some("INT"),
                "INT16" | "INT2" | "SHORT" => Some("SMALLINT"),
                "BYTE" => Some("TINYINT"),
                "BOOL" => Some("BOOLEAN"),
                "TEXT" | "STR" | "UTF8" | "JSON" | "UUID" => Some("STRING"),
                "REAL" | "FLOAT4" | "FLOAT32" => Some("FLOAT"),
                "FLOAT8" | "FLOAT64" => Some("DOUBLE"),
                "DATETIME" | "TIMESTAMP_NTZ" => Some("TIMESTAMP(3)"),
                "TIMESTAMPTZ" => Some("TIMESTAMP_LTZ(3)"),
                "BLOB" | "BYTEA" => Some("BYTES"),
                _ => closest(word, NAMES),
            };
            let error = PlanError::syntax(place, format!("there is no type {word}"));
            return match meant {
                Some(meant) => error.with_hint(format!("did you mean {meant}?")),
                None => error.with_hint(format!("the types are {}", NAMES.join(", "))),
            };
        }
    };
    PlanError::unsupported(place, format!("the type {word}"), instead)
}

fn decimal(reader: &mut Reader, place: Option<Place>) -> Result<SqlType, PlanError> {
    let mut precision = 10;
    let mut scale = 0;
    if reader.parser.consume_token(&Token::LParen) {
        precision = number(reader, "the number of digits", 1..=u64::from(DECIMAL_PRECISION_MAX))?;
        if reader.parser.consume_token(&Token::Comma) {
            scale = number(reader, "the number of digits after the point", 0..=u64::from(DECIMAL_PRECISION_MAX))?;
        }
        reader.token(&Token::RParen)?;
    }
    if scale > precision {
        return Err(PlanError::invalid(
            place,
            format!("DECIMAL({precision}, {scale}) has more digits after the point than in all"),
        )
        .with_hint("the first number counts all digits, the second those after the point"));
    }
    Ok(SqlType::Decimal { precision: precision as u8, scale: scale as u8 })
}

fn timestamp(reader: &mut Reader) -> Result<SqlType, PlanError> {
    let precision = timestamp_precision(reader)?;
    if reader.takes("WITHOUT") {
        reader.word("TIME")?;
        reader.word("ZONE")?;
        return Ok(SqlType::Timestamp(precision));
    }
    let place = reader.place();
    if reader.takes("WITH") {
        return Err(PlanError::unsupported(place, "TIMESTAMP WITH TIME ZONE", "use TIMESTAMP_LTZ for instants"));
    }
    Ok(SqlType::Timestamp(precision))
}

fn timestamp_precision(reader: &mut Reader) -> Result<u8, PlanError> {
    if !reader.parser.consume_token(&Token::LParen) {
        return Ok(TIMESTAMP_PRECISION_DEFAULT);
    }
    let precision = number(reader, "the number of fractional digits of a second", 0..=6)?;
    reader.token(&Token::RParen)?;
    Ok(precision as u8)
}

fn length(reader: &mut Reader) -> Result<Option<u32>, PlanError> {
    if !reader.parser.consume_token(&Token::LParen) {
        return Ok(None);
    }
    let length = number(reader, "the length", 1..=i32::MAX as u64)?;
    reader.token(&Token::RParen)?;
    Ok(Some(length as u32))
}

fn number(reader: &mut Reader, what: &str, range: RangeInclusive<u64>) -> Result<u64, PlanError> {
    let found = reader.parser.next_token();
    let value = match &found.token {
        Token::Number(digits, _) => digits.parse().ok().filter(|value| range.contains(value)),
        _ => None,
    };
    value.ok_or_else(|| reader.expected(&format!("{what}, {} to {}", range.start(), range.end()), &found))
}
