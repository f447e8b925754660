//! The types of columns.

use std::ops::RangeInclusive;

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan};

use crate::errors::{Place, PlanError, closest};
use crate::parse::reader::Reader;
use crate::parse::vocabulary::is_blank;
use crate::types::{DECIMAL_PRECISION_MAX, Element, RowField, SqlType, TIMESTAMP_PRECISION_DEFAULT};

/// How deep ROW, ARRAY and MAP may lie in each other.
const DEPTH_MAX: usize = 64;

const NAMES: [&str; 21] = [
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
    "ROW",
    "ARRAY",
    "MAP",
];

/// Divides each `>>` that closes two types into two tokens.
pub(super) fn divide_brackets(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_outer = |token: &Token| matches!(token, Token::Word(word) if matches!(word.keyword, Keyword::ROW | Keyword::ARRAY | Keyword::MAP));
    let mut divided: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let (mut depth, mut follows_outer) = (0_usize, false);
    for token in tokens {
        match token.token {
            Token::Lt if follows_outer => depth += 1,
            Token::Gt => depth = depth.saturating_sub(1),
            Token::ShiftRight if depth > 0 => {
                depth = depth.saturating_sub(2);
                let Span { start, end } = token.span;
                let middle = Location { column: start.column + 1, ..start };
                let half = |start, end| TokenWithSpan { token: Token::Gt, span: Span { start, end } };
                divided.extend([half(start, middle), half(middle, end)]);
                continue;
            }
            _ => {}
        }
        if !is_blank(&token) {
            follows_outer = is_outer(&token.token);
        }
        divided.push(token);
    }
    divided
}

/// Reads a type.
pub(super) fn read(reader: &mut Reader) -> Result<SqlType, PlanError> {
    nested(reader, 0)
}

/// Reads a type that lies so deep in others.
fn nested(reader: &mut Reader, depth: usize) -> Result<SqlType, PlanError> {
    let place = reader.place();
    let read = match &reader.parser.peek_token_ref().token {
        Token::Word(word) if word.quote_style.is_none() => match word.value.to_ascii_uppercase().as_str() {
            "ROW" => row,
            "ARRAY" => array,
            "MAP" => map,
            _ => return flat(reader),
        },
        _ => return flat(reader),
    };
    if depth == DEPTH_MAX {
        let error = PlanError::invalid(place, format!("types are nested more than {DEPTH_MAX} deep"));
        return Err(error.with_hint("declare the outer column STRING, and read it with JSON_VALUE"));
    }
    reader.parser.advance_token();
    read(reader, depth + 1)
}

/// `<name type [NOT NULL] ['comment'], …>`, or the same in parentheses.
fn row(reader: &mut Reader, depth: usize) -> Result<SqlType, PlanError> {
    let is_round = reader.parser.consume_token(&Token::LParen);
    if !is_round {
        open(reader)?;
    }
    let mut fields: Vec<RowField> = Vec::new();
    loop {
        let name = reader.identifier("the name of a field")?;
        if fields.iter().any(|known| known.name == name.value) {
            let message = format!("the field {} is declared twice", name.value);
            return Err(PlanError::invalid(Place::of(name.span), message).with_hint("rename one of them"));
        }
        let element = element(reader, depth)?;
        let has_comment = matches!(reader.parser.peek_token_ref().token, Token::SingleQuotedString(_));
        let comment = if has_comment { Some(reader.string("the comment")?) } else { None };
        fields.push(RowField { name: name.value, element, comment });
        if !reader.parser.consume_token(&Token::Comma) {
            break;
        }
    }
    close(reader, if is_round { &Token::RParen } else { &Token::Gt })?;
    Ok(SqlType::Row(fields))
}

fn array(reader: &mut Reader, depth: usize) -> Result<SqlType, PlanError> {
    open(reader)?;
    let element = element(reader, depth)?;
    close(reader, &Token::Gt)?;
    Ok(SqlType::Array(Box::new(element)))
}

fn map(reader: &mut Reader, depth: usize) -> Result<SqlType, PlanError> {
    open(reader)?;
    let place = reader.place();
    let key = element(reader, depth)?.sql_type;
    if matches!(key, SqlType::Row(_) | SqlType::Array(_) | SqlType::Map { .. }) {
        return Err(PlanError::unsupported(place, format!("a MAP with keys of type {key}"), "use STRING keys"));
    }
    let found = reader.parser.peek_token();
    if !reader.parser.consume_token(&Token::Comma) {
        return Err(reader.expected("`,` and the type of the values", &found));
    }
    let value = element(reader, depth)?;
    close(reader, &Token::Gt)?;
    Ok(SqlType::Map { key: Box::new(key), value: Box::new(value) })
}

/// A type and whether its values may be NULL.
fn element(reader: &mut Reader, depth: usize) -> Result<Element, PlanError> {
    let sql_type = nested(reader, depth)?;
    let is_required = reader.takes("NOT");
    if is_required {
        reader.word("NULL")?;
    } else {
        reader.takes("NULL");
    }
    Ok(Element { sql_type, nullable: !is_required })
}

fn open(reader: &mut Reader) -> Result<(), PlanError> {
    let found = reader.parser.peek_token();
    match reader.parser.consume_token(&Token::Lt) {
        true => Ok(()),
        false => Err(reader
            .expected("`<` and the types of the parts", &found)
            .with_hint("write ROW<a INT, b STRING>, ARRAY<INT> or MAP<STRING, INT>")),
    }
}

fn close(reader: &mut Reader, bracket: &Token) -> Result<(), PlanError> {
    let found = reader.parser.peek_token();
    match reader.parser.consume_token(bracket) {
        true => Ok(()),
        false => Err(reader.expected(&format!("`,` or `{bracket}` after a type"), &found)),
    }
}

/// Reads a type whose values have no parts.
fn flat(reader: &mut Reader) -> Result<SqlType, PlanError> {
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
        "MULTISET" => "use an ARRAY",
        "STRUCTURED" | "RAW" | "VARIANT" => "declare a ROW or MAP, or STRING for JSON of any form",
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

#[cfg(test)]
mod tests {
    use crate::parse::{ColumnKind, Statement, parse};

    /// The type that is read, or the error.
    fn read(written: &str) -> String {
        let parsed = parse(&format!("CREATE TABLE t (c {written})"));
        match parsed.as_ref().map(|parsed| &parsed[0].statement) {
            Ok(Statement::CreateTable(table)) => match &table.columns[0].kind {
                ColumnKind::Physical { sql_type, .. } => sql_type.to_string(),
                other => format!("{other:?}"),
            },
            Ok(other) => format!("{other:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn nested_types_are_read() {
        for (written, meant) in [
            (
                "ROW<a INT, `b c` string NOT NULL 'it''s two words', d INT NULL>",
                "ROW<`a` INT, `b c` STRING NOT NULL 'it''s two words', `d` INT>",
            ),
            ("ROW(a ROW(b INT), c TIMESTAMP(3))", "ROW<`a` ROW<`b` INT>, `c` TIMESTAMP(3)>"),
            ("ARRAY<ARRAY<ARRAY<INT NOT NULL>>>", "ARRAY<ARRAY<ARRAY<INT NOT NULL>>>"),
            ("MAP<STRING, MAP<INT, ROW<a DECIMAL(5, 2)>>>", "MAP<STRING, MAP<INT, ROW<`a` DECIMAL(5, 2)>>>"),
        ] {
            assert_eq!(read(written), meant);
        }
    }

    #[test]
    fn nested_types_that_are_none_are_refused() {
        // A type begins at column 19.
        let deep = "ARRAY<".repeat(65);
        for (written, message) in [
            (
                "ARRAY INT",
                "25: expected `<` and the types of the parts, found INT; write ROW<a INT, b STRING>, ARRAY<INT> or MAP<STRING, INT>",
            ),
            ("ARRAY<INT", "28: expected `,` or `>` after a type, found )"),
            ("ARRAY<ARRAY<INT>", "35: expected `,` or `>` after a type, found )"),
            ("ARRAY<INT>>", "29: expected `,` or `)` after a column, found >"),
            ("MAP<STRING>", "29: expected `,` and the type of the values, found >"),
            ("MAP<ARRAY<INT>, INT>", "23: a MAP with keys of type ARRAY<INT> is not supported yet; use STRING keys"),
            ("ROW<a INT, a STRING>", "30: the field a is declared twice; rename one of them"),
            (
                &deep,
                "403: types are nested more than 64 deep; declare the outer column STRING, and read it with JSON_VALUE",
            ),
        ] {
            assert_eq!(read(written), format!("line 1, column {message}"));
        }
    }
}
