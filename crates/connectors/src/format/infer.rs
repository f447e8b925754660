//! The columns of a text file whose table names none.

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};

use super::column::FieldRules;
use super::csv::sniff::{self, Sniffed};
use super::csv::split::CsvSplitter;
use super::csv::{Dialect, IGNORE_FIRST_LINE};
use super::json::infer::Shape;
use super::json::layout::Layout;
use super::json::split::JsonSplitter;
use super::rows::{SPLIT_ROWS, Splitter};
use super::split::{Span, Split};
use super::{TextFormat, TextKind, json, time, value};

/// Rows that types are inferred from.
pub(crate) const INFER_ROWS: usize = 20_480;

/// Columns that are inferred. A file of more different members has data for names.
const COLUMNS_MAX: usize = 4_096;

/// The option that says how JSON has timestamps.
const TIMESTAMP_FORMAT: &str = "json.timestamp-format.standard";

/// What all values of a column seen so far could be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidates {
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
    /// A timestamp was written with a `T`.
    pub(super) iso: bool,
}

impl Candidates {
    pub(super) const ALL: Candidates = Candidates {
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
        iso: false,
    };

    /// Takes another value into account. Strings of JSON are no numbers, whatever they look like.
    pub(super) fn narrow(&mut self, text: &[u8], is_string: bool, rules: &FieldRules) {
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
        self.iso |= zoned.is_ok() && text.get(10).is_some_and(|byte| byte.eq_ignore_ascii_case(&b'T'));
        self.micros |= zoned.is_ok_and(|micros| micros % 1_000 != 0);
    }

    /// What the values of both could be.
    pub(super) fn and(self, other: Candidates) -> Candidates {
        Candidates {
            seen: self.seen || other.seen,
            boolean: self.boolean && other.boolean,
            integer: self.integer && other.integer,
            bigint: self.bigint && other.bigint,
            digits_max: self.digits_max.max(other.digits_max),
            float: self.float && other.float,
            date: self.date && other.date,
            timestamp: self.timestamp && other.timestamp,
            zoned: self.zoned && other.zoned,
            micros: self.micros || other.micros,
            iso: self.iso || other.iso,
        }
    }

    pub(super) fn data_type(self) -> DataType {
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

/// What is inferred from the first rows of a file.
pub(crate) struct Inferred {
    /// Its columns.
    pub(crate) schema: Schema,
    /// Options of the table that tell what its own do not.
    pub(crate) options: Vec<(&'static str, String)>,
    /// What the first row of the file says, where it is one of names.
    pub(crate) header: Option<Vec<String>>,
}

/// The columns of a file that begins with `bytes`, whole rows, from the first [`INFER_ROWS`] of them. `None` where there
/// are no rows. `is_told` says which options the table has.
///
/// # Errors
/// What is wrong with the file, where it has too many columns.
pub(crate) fn infer(
    format: &TextFormat,
    is_told: &dyn Fn(&str) -> bool,
    bytes: &[u8],
) -> Result<Option<Inferred>, String> {
    Ok(match &format.kind {
        TextKind::Csv(dialect) => infer_csv(format, dialect, is_told, bytes),
        TextKind::Raw(_) => {
            let line = Field::new("line", DataType::Utf8View, true);
            Some(Inferred { schema: Schema::new(vec![line]), options: Vec::new(), header: None })
        }
        TextKind::Json { .. } => Some(infer_json(format, is_told, bytes)?),
    })
}

fn infer_csv(format: &TextFormat, told: &Dialect, is_told: &dyn Fn(&str) -> bool, bytes: &[u8]) -> Option<Inferred> {
    let Sniffed { mut dialect, first, second_row } = sniff::dialect(told, is_told, bytes)?;
    let all: Vec<usize> = (0..first.len()).collect();
    let splitter = Splitter::Csv(CsvSplitter::new(dialect.clone(), first.clone(), &all));
    let candidates = |start| candidates(&splitter, format, first.len(), bytes, start);
    let below = candidates(second_row);
    if !is_told("csv.header") && !is_told(IGNORE_FIRST_LINE) {
        dialect.ignores_first = is_header(&first, &below, &format.rules);
    }
    let (names, candidates) = match (dialect.header, dialect.ignores_first) {
        // Columns are found by these names: they stay as they are.
        (true, _) => (first.clone(), below),
        (false, true) => (sniff::column_names(&first), below),
        (false, false) => ((0..first.len()).map(|index| format!("column{index}")).collect(), candidates(0)),
    };
    let schema = schema(&names, &candidates);
    let header = dialect.has_first_row().then_some(first);
    Some(Inferred { schema, options: sniff::options(told, &dialect), header })
}

/// Whether a first row names the columns rather than being one of the rows `below`: a value that does not fit its column, or nothing but texts.
fn is_header(first: &[String], below: &[Candidates], rules: &FieldRules) -> bool {
    let of_text = |text: &String| {
        let mut candidates = Candidates::ALL;
        candidates.narrow(text.as_bytes(), false, rules);
        candidates.data_type()
    };
    let types: Vec<DataType> = below.iter().map(|candidates| candidates.data_type()).collect();
    let misfits = first.iter().zip(below).zip(&types).any(|((text, below), data_type)| {
        let mut with_first = *below;
        with_first.narrow(text.as_bytes(), false, rules);
        below.seen
            && !text.is_empty()
            && with_first.data_type() == DataType::Utf8View
            && *data_type != DataType::Utf8View
    });
    let is_all_text = types.iter().all(|data_type| *data_type == DataType::Utf8View);
    let is_named = first.iter().all(|text| !text.is_empty() && of_text(text) == DataType::Utf8View);
    let are_different = sniff::column_names(first) == first;
    misfits || is_all_text && is_named && are_different
}

fn infer_json(format: &TextFormat, is_told: &dyn Fn(&str) -> bool, bytes: &[u8]) -> Result<Inferred, String> {
    let (layout, start) = Layout::of(bytes);
    let bytes = &bytes[start..];
    let names = json::names(bytes, layout, INFER_ROWS);
    if names.len() > COLUMNS_MAX {
        return Err(format!(
            "has more than {COLUMNS_MAX} different members in its first rows: name its columns and their types"
        ));
    }
    let splitter = Splitter::Json(JsonSplitter::new(names.clone(), String::new(), false, layout));
    let mut split = Split::new(names.len());
    let mut shapes: Vec<Shape> = names.iter().map(|_| Shape::default()).collect();
    let (mut at, mut rows) = (0, 0);
    while at < bytes.len() && rows < INFER_ROWS {
        split.clear();
        at = splitter.split(bytes, at, SPLIT_ROWS.min(INFER_ROWS - rows), &mut split);
        rows += split.rows.len() + split.failures.len();
        for row in split.spans.chunks_exact(names.len().max(1)) {
            row.iter().zip(&mut shapes).for_each(|(span, shape)| shape.add(bytes, *span, &format.rules, 0));
        }
    }
    let field = |(name, shape): (&String, &Shape)| Field::new(name, shape.data_type(), true);
    let schema = Schema::new(names.iter().zip(&shapes).map(field).collect::<Vec<_>>());
    let mut options = Vec::new();
    if shapes.iter().any(Shape::has_iso) && !is_told(TIMESTAMP_FORMAT) {
        options.push((TIMESTAMP_FORMAT, "ISO-8601".to_string()));
    }
    Ok(Inferred { schema, options, header: None })
}

/// What the values of each column could be, of the rows from `start` on.
fn candidates(splitter: &Splitter, format: &TextFormat, width: usize, bytes: &[u8], start: usize) -> Vec<Candidates> {
    let mut split = Split::new(width);
    splitter.split(bytes, start, INFER_ROWS, &mut split);
    let mut candidates = vec![Candidates::ALL; width];
    for row in split.spans.chunks_exact(width.max(1)) {
        for (span, candidates) in row.iter().zip(&mut candidates) {
            let Some(text) = text(bytes, *span, &format.rules) else { continue };
            candidates.narrow(text, false, &format.rules);
        }
    }
    candidates
}

fn schema(names: &[String], candidates: &[Candidates]) -> Schema {
    let field = |(name, candidates): (&String, &Candidates)| Field::new(name, candidates.data_type(), true);
    Schema::new(names.iter().zip(candidates).map(field).collect::<Vec<_>>())
}

fn text<'a>(bytes: &'a [u8], span: Span, rules: &FieldRules) -> Option<&'a [u8]> {
    if span.is_null() {
        return None;
    }
    let text = &bytes[span.range()];
    let is_null = rules.is_null(text, span) || text.is_empty() && !span.is_quoted();
    (!is_null).then_some(text.trim_ascii())
}
