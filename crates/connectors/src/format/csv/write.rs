//! Rows as CSV, quoted where they would not be read again otherwise.

use super::Dialect;
use crate::format::column::FieldRules;
use crate::format::write::Cells;

/// Appends a header.
pub(crate) fn header(dialect: &Dialect, names: &[String], out: &mut Vec<u8>) -> Result<(), String> {
    for (index, name) in names.iter().enumerate() {
        if index > 0 {
            out.extend_from_slice(&dialect.delimiter);
        }
        let start = out.len();
        out.extend_from_slice(name.as_bytes());
        protect(dialect, None, names.len() == 1, index == 0, start, out)?;
    }
    out.push(b'\n');
    Ok(())
}

/// Appends a row, or says which column cannot be written and why.
pub(crate) fn row(
    dialect: &Dialect,
    rules: &FieldRules,
    columns: &[Cells],
    row: usize,
    out: &mut Vec<u8>,
) -> Result<(), (usize, String)> {
    let null_literal = rules.null_literal.as_deref();
    for (index, cells) in columns.iter().enumerate() {
        let here = |problem| (index, problem);
        if index > 0 {
            out.extend_from_slice(&dialect.delimiter);
        }
        if cells.is_null(row) {
            let literal = null_literal.unwrap_or_default();
            if literal.is_empty() && dialect.delimiter_run {
                return Err(here("NULL would vanish in a run of delimiters: give a 'csv.null-literal'".into()));
            }
            out.extend_from_slice(literal);
            continue;
        }
        let start = out.len();
        cells.write(row, out).map_err(here)?;
        protect(dialect, null_literal, columns.len() == 1, index == 0, start, out).map_err(here)?;
    }
    out.push(b'\n');
    Ok(())
}

/// Quotes or escapes the field that `out` has from `start` on, if it would be read as something else. `alone` says that
/// the row has no other, `first` that it begins the row.
fn protect(
    dialect: &Dialect,
    null_literal: Option<&[u8]>,
    alone: bool,
    first: bool,
    start: usize,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let field = &out[start..];
    let is_special = |byte: u8| {
        matches!(byte, b'\n' | b'\r')
            || byte == dialect.delimiter[0]
            || Some(byte) == dialect.quote
            || Some(byte) == dialect.escape
            || (dialect.trim || dialect.delimiter_run) && matches!(byte, b' ' | b'\t')
    };
    // NULL is nothing: to who tells them apart, an empty string is one in quotes.
    let is_mistaken = null_literal == Some(field)
        || field.is_empty() && (alone || dialect.delimiter_run || dialect.quote.is_some())
        || first && field.first().is_some_and(|&byte| Some(byte) == dialect.comment);
    if !is_mistaken && !field.iter().copied().any(is_special) {
        return Ok(());
    }
    let field = out.split_off(start);
    match (dialect.quote, dialect.escape) {
        (Some(quote), escape) => {
            out.push(quote);
            for byte in field {
                if byte == quote || Some(byte) == escape {
                    out.push(escape.unwrap_or(quote));
                }
                out.push(byte);
            }
            out.push(quote);
        }
        (None, Some(escape)) if !is_mistaken => {
            for byte in field {
                if is_special(byte) {
                    out.push(escape);
                }
                out.push(match byte {
                    b'\n' => b'n',
                    b'\r' => b'r',
                    other => other,
                });
            }
        }
        _ => {
            let value: String = String::from_utf8_lossy(&field).chars().take(100).collect();
            return Err(format!("'{value}' would be read as something else, and quotes are disabled"));
        }
    }
    Ok(())
}
