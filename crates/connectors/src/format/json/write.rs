//! Rows as JSON objects, one a line.

use std::io::Write;
use std::ops::Range;

use crate::format::write::Cells;

/// What introduces the value of the member `name`: the name in quotes, and a colon.
pub(crate) fn member(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(name.as_bytes());
    quote(&mut out, 0);
    out.push(b':');
    out
}

/// Appends a row, or says which column cannot be written and why. `members` introduce the columns' values.
pub(crate) fn row(
    members: &[Vec<u8>],
    ignore_null_fields: bool,
    columns: &[Cells],
    row: usize,
    out: &mut Vec<u8>,
) -> Result<(), (usize, String)> {
    object(members, ignore_null_fields, columns, row, out)?;
    out.push(b'\n');
    Ok(())
}

/// Appends an object.
pub(crate) fn object(
    members: &[Vec<u8>],
    ignore_null_fields: bool,
    columns: &[Cells],
    row: usize,
    out: &mut Vec<u8>,
) -> Result<(), (usize, String)> {
    out.push(b'{');
    let mut first = true;
    for (index, (member, cells)) in members.iter().zip(columns).enumerate() {
        if ignore_null_fields && cells.is_null(row) {
            continue;
        }
        if !std::mem::replace(&mut first, false) {
            out.push(b',');
        }
        out.extend_from_slice(member);
        value(cells, row, out).map_err(|problem| (index, problem))?;
    }
    out.push(b'}');
    Ok(())
}

/// Appends an array of the values of `rows`.
pub(crate) fn array(cells: &Cells, rows: Range<usize>, out: &mut Vec<u8>) -> Result<(), String> {
    out.push(b'[');
    separated(rows, out, |row, out| value(cells, row, out))?;
    out.push(b']');
    Ok(())
}

/// Appends an object whose keys and values are those of `rows`.
pub(crate) fn entries(keys: &Cells, values: &Cells, rows: Range<usize>, out: &mut Vec<u8>) -> Result<(), String> {
    out.push(b'{');
    separated(rows, out, |row, out| {
        value(keys, row, out)?;
        out.push(b':');
        value(values, row, out)
    })?;
    out.push(b'}');
    Ok(())
}

/// Appends what `write` appends for each row, with commas between.
fn separated(
    rows: Range<usize>,
    out: &mut Vec<u8>,
    write: impl Fn(usize, &mut Vec<u8>) -> Result<(), String>,
) -> Result<(), String> {
    for row in rows.clone() {
        if row > rows.start {
            out.push(b',');
        }
        write(row, out)?;
    }
    Ok(())
}

fn value(cells: &Cells, row: usize, out: &mut Vec<u8>) -> Result<(), String> {
    if cells.is_null(row) {
        out.extend_from_slice(b"null");
        return Ok(());
    }
    let start = out.len();
    cells.write(row, out)?;
    if cells.is_quoted_in_json(row) {
        quote(out, start);
    }
    Ok(())
}

/// Makes a JSON string of the text that `out` has from `start` on.
fn quote(out: &mut Vec<u8>, start: usize) {
    let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    let text = out.split_off(start);
    out.push(b'"');
    if text.iter().copied().all(is_plain) {
        out.extend_from_slice(&text);
    } else {
        for byte in text {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                b'\t' => out.extend_from_slice(b"\\t"),
                0..b' ' => write!(out, "\\u{byte:04x}").expect("writing to memory succeeds"),
                other => out.push(other),
            }
        }
    }
    out.push(b'"');
}
