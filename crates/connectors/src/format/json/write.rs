//! Rows as JSON objects, one a line.

use std::io::Write;

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
    out.push(b'{');
    let mut first = true;
    for (index, (member, cells)) in members.iter().zip(columns).enumerate() {
        let is_null = cells.is_null(row);
        if is_null && ignore_null_fields {
            continue;
        }
        if !std::mem::replace(&mut first, false) {
            out.push(b',');
        }
        out.extend_from_slice(member);
        if is_null {
            out.extend_from_slice(b"null");
            continue;
        }
        let start = out.len();
        cells.write(row, out).map_err(|problem| (index, problem))?;
        if cells.is_quoted_in_json(row) {
            quote(out, start);
        }
    }
    out.extend_from_slice(b"}\n");
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
