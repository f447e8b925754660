//! The columns of a text file whose table names none.

use std::cell::RefCell;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};

use super::column::FieldRules;
use super::csv::split::CsvSplitter;
use super::rows::{Span, Split, Splitter};
use super::{TextFormat, TextKind, json, time, value};

/// Rows that types are inferred from.
pub(crate) const INFER_ROWS: usize = 1_000;

/// What all values of a column seen so far could be.
#[derive(Debug, Clone, Copy)]
struct Candidates {
    seen: bool,
    boolean: bool,
    integer: bool,
    /// Whether all integers fit BIGINT, and the digits of the longest.
    bigint: bool,
    digits_max: usize,
    float: bool,
    date: bool,
    timestamp: bool,
    zoned: bool,
    micros: bool,
}

impl Candidates {
    const ALL: Candidates = Candidates {
        seen: false,
        boolean: true,
        integer: true,
        bigint: true,
        digits_max: 0,
        float: true,
        date: true,
        timestamp: true,
        zoned: true,
        micros: false,
    };

    /// Takes another value into account. Strings of JSON are no numbers, whatever they look like.
    fn narrow(&mut self, text: &[u8], is_string: bool, rules: &FieldRules) {
        const MICROS_PER_SECOND: i64 = 1_000_000;
        self.seen = true;
        self.boolean &= !is_string && value::boolean(text).is_ok();
        let digits = integer_digits(text).filter(|_| !is_string);
        self.integer &= digits.is_some();
        self.bigint &= value::integer(text).is_ok();
        self.digits_max = self.digits_max.max(digits.unwrap_or(0));
        self.float &= !is_string && value::float::<f64>(text).is_ok();
        self.date &= time::date(text).is_ok();
        let plain = time::timestamp(text, rules.timestamps, MICROS_PER_SECOND, false);
        let zoned = time::timestamp(text, rules.timestamps, MICROS_PER_SECOND, true);
        self.timestamp &= plain.is_ok();
        self.zoned &= zoned.is_ok();
        self.micros |= zoned.is_ok_and(|micros| micros % 1_000 != 0);
    }

    fn data_type(self) -> DataType {
        let unit = if self.micros { TimeUnit::Microsecond } else { TimeUnit::Millisecond };
        match self {
            Candidates { seen: false, .. } => DataType::Utf8View,
            Candidates { boolean: true, .. } => DataType::Boolean,
            Candidates { integer: true, bigint: true, .. } => DataType::Int64,
            // A DOUBLE would lose digits.
            Candidates { integer: true, digits_max: ..=20, .. } => DataType::Decimal128(20, 0),
            Candidates { integer: true, digits_max: ..=38, .. } => DataType::Decimal128(38, 0),
            Candidates { integer: true, .. } => DataType::Utf8View,
            Candidates { float: true, .. } => DataType::Float64,
            Candidates { date: true, .. } => DataType::Date32,
            Candidates { timestamp: true, .. } => DataType::Timestamp(unit, None),
            Candidates { zoned: true, .. } => DataType::Timestamp(unit, Some("+00:00".into())),
            _ => DataType::Utf8View,
        }
    }
}

/// The digits of an integer, without zeros in front; `None` where the text is no integer.
fn integer_digits(text: &[u8]) -> Option<usize> {
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    let is_integer = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_integer.then(|| digits.iter().skip_while(|&&digit| digit == b'0').count())
}

/// The columns of a file that begins with `bytes`, whole rows, from the first [`INFER_ROWS`] of them. `None` where the
/// format does not name its columns.
pub(crate) fn infer(format: &TextFormat, bytes: &[u8]) -> Option<Schema> {
    let (names, start, splitter) = match &format.kind {
        TextKind::Csv(dialect) => {
            if !dialect.header {
                return None;
            }
            let (names, start) = CsvSplitter::first_row(dialect, bytes)?;
            let all: Vec<usize> = (0..names.len()).collect();
            let splitter = CsvSplitter::new(dialect.clone(), names.clone(), &all);
            (names, start, Splitter::Csv(splitter))
        }
        TextKind::Json { .. } => {
            let names = json_names(bytes);
            let splitter = json::split::JsonSplitter::new(names.clone(), String::new(), false);
            (names, 0, Splitter::Json(splitter))
        }
    };
    let (spans, rows, failures) = (Vec::new(), Vec::new(), Vec::new());
    let mut split = Split { width: names.len(), spans, rows, failures, has_controls: false };
    splitter.split(bytes, start, INFER_ROWS, &mut split);
    let mut candidates = vec![Candidates::ALL; names.len()];
    let is_json = matches!(format.kind, TextKind::Json { .. });
    for row in split.spans.chunks_exact(names.len().max(1)) {
        for (span, candidates) in row.iter().zip(&mut candidates) {
            let Some(text) = text(bytes, *span, &format.rules) else { continue };
            candidates.narrow(text, is_json && span.is_quoted(), &format.rules);
        }
    }
    let field = |(name, candidates): (&String, Candidates)| Field::new(name, candidates.data_type(), true);
    Some(Schema::new(names.iter().zip(candidates).map(field).collect::<Vec<_>>()))
}

fn text<'a>(bytes: &'a [u8], span: Span, rules: &FieldRules) -> Option<&'a [u8]> {
    if span.is_null() {
        return None;
    }
    let text = &bytes[span.range()];
    let is_null = rules.is_null(text, span) || text.is_empty() && !span.is_quoted();
    (!is_null).then_some(text.trim_ascii())
}

/// The names of all members in the first rows, in the order in which they first occur.
fn json_names(bytes: &[u8]) -> Vec<String> {
    let names = RefCell::new(Vec::<String>::new());
    for line in bytes.split(|&byte| byte == b'\n').take(INFER_ROWS) {
        json::split::for_each_name(line, |name| {
            let mut names = names.borrow_mut();
            if !names.iter().any(|known| known.as_bytes() == name) {
                names.push(String::from_utf8_lossy(name).into_owned());
            }
        });
    }
    names.into_inner()
}
