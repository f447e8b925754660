//! The text forms of values.

use std::fmt::Write;

use bytes::BytesMut;
use pelton::arrow::array::{BooleanArray, ListArray};
use pelton::arrow::temporal_conversions::{date32_to_datetime, timestamp_us_to_datetime};
use pelton::display::Zone;

use super::{Cells, range};

const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_MINUTE: i64 = 60;
const SECONDS_PER_HOUR: i64 = 3_600;

/// Appends formatted text, which cannot fail.
macro_rules! put {
    ($out:expr, $($argument:tt)*) => {
        $out.write_fmt(format_args!($($argument)*)).expect("a buffer grows")
    };
}

impl Cells {
    pub(super) fn put_text(&self, row: usize, out: &mut BytesMut) {
        match self {
            Cells::Bool(values) => put_bool(values, row, out),
            Cells::Int2(values) => put!(out, "{}", values.value(row)),
            Cells::Int4(values) => put!(out, "{}", values.value(row)),
            Cells::Int8(values) => put!(out, "{}", values.value(row)),
            Cells::Float4(values) => put_float(&format!("{:?}", values.value(row)), out),
            Cells::Float8(values) => put_float(&format!("{:?}", values.value(row)), out),
            Cells::Numeric(values) => put!(out, "{}", values.value_as_string(row)),
            Cells::Text(values) => out.extend_from_slice(values.value(row).as_bytes()),
            Cells::Bytes(values) => {
                put!(out, "\\x");
                values.value(row).iter().for_each(|byte| put!(out, "{byte:02x}"));
            }
            Cells::Date(values) => match date32_to_datetime(values.value(row)) {
                Some(date) => put!(out, "{}", date.format("%Y-%m-%d")),
                None => put!(out, "{}", values.value(row)),
            },
            Cells::Timestamp(values, None) => put_timestamp(values.value(row), out),
            Cells::Timestamp(values, Some(zone)) => put_instant(values.value(row), *zone, out),
            Cells::Array(lists, items, _) => put_items(lists, items, row, out),
        }
    }
}

fn put_bool(values: &BooleanArray, row: usize, out: &mut BytesMut) {
    put!(out, "{}", if values.value(row) { 't' } else { 'f' });
}

/// A number in the fewest digits that read back as the same.
fn put_float(digits: &str, out: &mut BytesMut) {
    match digits {
        "inf" => put!(out, "Infinity"),
        "-inf" => put!(out, "-Infinity"),
        number => put!(out, "{}", number.strip_suffix(".0").unwrap_or(number)),
    }
}

fn put_fraction(micros: i64, out: &mut BytesMut) {
    if micros > 0 {
        put!(out, "{}", format!(".{micros:06}").trim_end_matches('0'));
    }
}

fn put_timestamp(micros: i64, out: &mut BytesMut) {
    match timestamp_us_to_datetime(micros) {
        Some(time) => {
            put!(out, "{}", time.format("%Y-%m-%d %H:%M:%S"));
            put_fraction(micros.rem_euclid(MICROS_PER_SECOND), out);
        }
        None => put!(out, "{micros}"),
    }
}

/// What the clocks of a zone show, and how far they are ahead of UTC.
fn put_instant(micros: i64, zone: Zone, out: &mut BytesMut) {
    let clock = zone.clock(micros);
    put_timestamp(clock, out);
    let ahead = clock.saturating_sub(micros) / MICROS_PER_SECOND;
    put!(out, "{}{:02}", if ahead < 0 { '-' } else { '+' }, ahead.abs() / SECONDS_PER_HOUR);
    let (minutes, seconds) = (ahead.abs() / SECONDS_PER_MINUTE % 60, ahead.abs() % 60);
    if minutes > 0 || seconds > 0 {
        put!(out, ":{minutes:02}");
    }
    if seconds > 0 {
        put!(out, ":{seconds:02}");
    }
}

fn put_items(lists: &ListArray, items: &Cells, row: usize, out: &mut BytesMut) {
    put!(out, "{{");
    let mut item_text = BytesMut::new();
    for (index, item) in range(lists, row).enumerate() {
        if index > 0 {
            put!(out, ",");
        }
        if items.is_null(item) {
            put!(out, "NULL");
            continue;
        }
        item_text.clear();
        items.put_text(item, &mut item_text);
        put_item(&item_text, out);
    }
    put!(out, "}}");
}

/// Quoted where it would be read as something else.
fn put_item(text: &[u8], out: &mut BytesMut) {
    let is_sign = |byte: &u8| matches!(byte, b'{' | b'}' | b',' | b'"' | b'\\') || byte.is_ascii_whitespace();
    if !text.is_empty() && !text.eq_ignore_ascii_case(b"NULL") && !text.iter().any(is_sign) {
        return out.extend_from_slice(text);
    }
    out.extend_from_slice(b"\"");
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.extend_from_slice(b"\\");
        }
        out.extend_from_slice(&[*byte]);
    }
    out.extend_from_slice(b"\"");
}
