//! What a fuzzer calls with any bytes: they are decoded as a file, in several dialects and schemas. Nothing panics, rows
//! do not depend on how the file is cut into chunks, and plain CSV is read as by the simplest parser there is.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use pelton_runtime::source::{SourceError, Undecoded};

use super::files::{self, InputFile};
use super::text_stream::{Beginning, Next, OpenFile};
use crate::TableRequest;
use crate::format::infer::infer;
use crate::format::{Format, FormatName, TextFormat};
use crate::options::Options;

mod parquet;

pub use self::parquet::parquet;

type OptionPairs = &'static [(&'static str, &'static str)];

/// Dialects; the first byte of an input chooses one. The first is plain.
const CSV_DIALECTS: [OptionPairs; 12] = [
    &[],
    &[("csv.escape-character", "\\")],
    &[("csv.delimiter-run", "true")],
    &[("csv.delimiter-run", "true"), ("csv.field-delimiter", ",")],
    &[("csv.trim", "true"), ("csv.allow-comments", "true")],
    &[("csv.field-delimiter", "\u{e9}"), ("csv.quote-character", "a")],
    &[("csv.disable-quote-character", "true"), ("csv.escape-character", "a")],
    &[("csv.header", "true"), ("csv.trim", "true")],
    &[("csv.null-literal", "-"), ("csv.timestamp-format", "ISO-8601")],
    &[("csv.null-literal", ""), ("csv.timestamp-format", "epoch-millis")],
    &[("csv.header", "true"), ("csv.allow-comments", "true"), ("csv.escape-character", "\\")],
    &[("csv.field-delimiter", "\t"), ("csv.comment-character", "%"), ("csv.escape-character", "\\")],
];

/// As [`CSV_DIALECTS`], of JSON.
const JSON_DIALECTS: [OptionPairs; 3] = [
    &[],
    &[("json.fail-on-missing-field", "true"), ("json.timestamp-format.standard", "ISO-8601")],
    &[("json.timestamp-format.standard", "epoch-seconds")],
];

/// Lengths of chunks, in bytes, besides that of the whole input. All are tried in turn where the input is short.
const CHUNKS_BYTES: [usize; 8] = [1, 2, 3, 5, 8, 13, 21, 34];

/// Inputs up to this length are cut in each of [`CHUNKS_BYTES`], longer ones in one of them: short rows are cut everywhere.
const SHORT_BYTES: usize = 96;

/// Decodes CSV. The first byte chooses the dialect, the second the columns.
pub fn csv(bytes: &[u8]) {
    let Some((&[dialect, columns], file)) = bytes.split_first_chunk() else { return };
    let dialect = dialect as usize % CSV_DIALECTS.len();
    let schema = schema(columns);
    check(FormatName::Csv, CSV_DIALECTS[dialect], &schema, file);
    if dialect == 0 && schema.fields().len() == 2 {
        check_plain_csv(&schema, file);
    }
}

/// Decodes JSON lines. The first byte chooses the dialect, the second the columns.
pub fn json(bytes: &[u8]) {
    let Some((&[dialect, columns], file)) = bytes.split_first_chunk() else { return };
    let schema = if columns == NESTED { nested_schema() } else { schema(columns) };
    check(FormatName::Json, JSON_DIALECTS[dialect as usize % JSON_DIALECTS.len()], &schema, file);
}

/// The byte that chooses columns of nested types, which JSON alone has.
const NESTED: u8 = b'm';

/// A table with a MAP of ROWs and a ROW with an ARRAY of ROWs.
fn nested_schema() -> SchemaRef {
    let row = DataType::Struct(Fields::from(vec![
        Field::new("a", DataType::Int32, true),
        Field::new("b", DataType::Utf8View, true),
    ]));
    let pair = Fields::from(vec![Field::new("key", DataType::Utf8View, false), Field::new("value", row.clone(), true)]);
    let map = DataType::Map(Arc::new(Field::new("entries", DataType::Struct(pair), false)), false);
    let rows = Field::new_list_field(row, true);
    let outer = Fields::from(vec![Field::new("a", DataType::List(Arc::new(rows)), true)]);
    let columns = vec![Field::new("a", map, true), Field::new("b", DataType::Struct(outer), true)];
    Arc::new(Schema::new(columns))
}

/// One of a few tables; the first has two strings.
fn schema(choice: u8) -> SchemaRef {
    let timestamp = |unit, zone: Option<&str>| DataType::Timestamp(unit, zone.map(Into::into));
    let types = match choice % 6 {
        0 => vec![(DataType::Utf8View, true), (DataType::Utf8View, true)],
        1 => vec![(DataType::Int64, true), (DataType::Float64, true), (DataType::Utf8View, false)],
        2 => {
            vec![(DataType::Boolean, true), (DataType::Int8, true), (DataType::Float32, true), (DataType::Date32, true)]
        }
        3 => vec![
            (timestamp(TimeUnit::Second, None), true),
            (timestamp(TimeUnit::Millisecond, Some("+00:00")), true),
            (timestamp(TimeUnit::Microsecond, None), false),
        ],
        4 => vec![(DataType::Decimal128(10, 2), true), (DataType::Decimal128(38, 9), true), (DataType::Int16, false)],
        _ => vec![(DataType::Int32, false)],
    };
    let fields = types.into_iter().zip(["a", "b", "c", "d"]);
    Arc::new(Schema::new(
        fields.map(|((data_type, nullable), name)| Field::new(name, data_type, nullable)).collect::<Vec<_>>(),
    ))
}

/// What is read, when rows that do not fit are skipped.
#[derive(Debug, PartialEq)]
struct Table {
    rows: RecordBatch,
    /// How many were rejected, and the first hundred of each chunk.
    rejected: Undecoded,
    /// How many values became NULL, and the first hundred of each chunk.
    nulled: Undecoded,
}

/// Reads `bytes` whole and in chunks, skipping and stopping, and with NULL for what cannot be read.
fn check(name: FormatName, dialect: OptionPairs, schema: &SchemaRef, bytes: &[u8]) {
    let skipping = format(name, dialect, ("on-error", "skip"));
    let stopping = format(name, dialect, ("on-error", "fail"));
    let is_contradicted = dialect.iter().any(|(option, _)| *option == "json.fail-on-missing-field");
    let ignore = name.ignore_option().filter(|_| !is_contradicted);
    let nulling = ignore.map(|ignore| format(name, dialect, (ignore, "true")));
    infer(&skipping, &|_| false, bytes).ok();
    let skipped = read(&skipping, schema, bytes, bytes.len() + 1);
    let stopped = read(&stopping, schema, bytes, bytes.len() + 1);
    match (&skipped, &stopped) {
        (Ok(skipped), Ok(stopped)) => assert!(skipped == stopped && stopped.rejected.count == 0),
        (Ok(skipped), Err(error)) => assert_eq!(error, &skipped.rejected.first[0].error),
        // An array that is not closed comes up at its end, behind a row that cannot be read.
        (Err(skipped), Err(SourceError::Row { .. })) => assert!(skipped.to_string().contains("is not closed")),
        (Err(skipped), stopped) => assert_eq!(stopped.as_ref().unwrap_err(), skipped),
    }
    let nulled = nulling.as_ref().map(|nulling| read(nulling, schema, bytes, bytes.len() + 1));
    if let (Ok(skipped), Some(Ok(nulled))) = (&skipped, &nulled) {
        let rows = |table: &Table| table.rows.num_rows() as u64 + table.rejected.count;
        assert_eq!(rows(nulled), rows(skipped));
        assert!(nulled.rejected.count <= skipped.rejected.count && skipped.nulled.count == 0);
        assert!(nulled.nulled.count >= skipped.rejected.count - nulled.rejected.count);
    }
    let one = bytes.len() % CHUNKS_BYTES.len();
    let tried = if bytes.len() <= SHORT_BYTES { &CHUNKS_BYTES[..] } else { &CHUNKS_BYTES[one..=one] };
    for &chunk_bytes in tried {
        let shown = || format!("{chunk_bytes} bytes at a time of {:?}", String::from_utf8_lossy(bytes));
        let cut = read(&skipping, schema, bytes, chunk_bytes);
        assert_same(&cut, &skipped, shown);
        if let (Some(nulling), Some(nulled)) = (&nulling, &nulled) {
            assert_same(&read(nulling, schema, bytes, chunk_bytes), nulled, shown);
        }
        assert_eq!(read(&stopping, schema, bytes, chunk_bytes), stopped, "{}", shown());
    }
}

/// Chunks keep a hundred rejected rows each for inspection, so many chunks may keep more than one.
fn assert_same(cut: &Result<Table, SourceError>, whole: &Result<Table, SourceError>, shown: impl Fn() -> String) {
    match (cut, whole) {
        (Ok(cut), Ok(whole)) => {
            assert_eq!(cut.rows, whole.rows, "{}", shown());
            assert_eq!(cut.rejected.count, whole.rejected.count, "{}", shown());
            assert!(cut.rejected.first.starts_with(&whole.rejected.first), "{}", shown());
            assert_eq!(cut.nulled.count, whole.nulled.count, "{}", shown());
            assert!(cut.nulled.first.starts_with(&whole.nulled.first), "{}", shown());
        }
        (cut, whole) => assert_eq!(cut, whole, "{}", shown()),
    }
}

fn format(name: FormatName, dialect: OptionPairs, on_error: (&str, &str)) -> TextFormat {
    let pairs = dialect.iter().copied().chain([on_error]);
    let options: BTreeMap<String, String> = pairs.map(|(name, value)| (name.into(), value.into())).collect();
    let Format::Text(format) = Format::new(&Options::new(&options), Some(name)).unwrap() else {
        unreachable!("{name:?} is a format of lines")
    };
    format
}

/// The file's rows, or why reading stopped, when it is read in chunks of about `chunk_bytes`.
fn read(format: &TextFormat, schema: &SchemaRef, bytes: &[u8], chunk_bytes: usize) -> Result<Table, SourceError> {
    let request = TableRequest {
        name: "t".into(),
        schema: schema.clone(),
        columns: (0..schema.fields().len()).collect(),
        metadata: BTreeMap::new(),
        partition_keys: Vec::new(),
        lengths: BTreeMap::new(),
        options: BTreeMap::new(),
        event_time: None,
        block_rows: 1024,
        seed: 0,
        strict_values: false,
        host: Default::default(),
    };
    let shape = files::row_shape(&request).unwrap();
    let file = InputFile::in_memory(bytes.len());
    let reader = Box::new(io::Cursor::new(bytes.to_vec()));
    let mut batches = Vec::new();
    let (mut rejected, mut nulled) = (Undecoded::default(), Undecoded::default());
    let mut beginning = Beginning::of(reader);
    if let Next::There(mut file) = OpenFile::start(&mut beginning, &file, format, &shape, chunk_bytes)? {
        while let Next::There(chunk) = file.next_rows(chunk_bytes)? {
            let decoded = file.decoder.decode(chunk)?;
            batches.extend(decoded.rows.into_batches());
            rejected.count += decoded.left_out.rejected.count;
            rejected.first.extend(decoded.left_out.rejected.first);
            nulled.count += decoded.left_out.nulled.count;
            nulled.first.extend(decoded.left_out.nulled.first);
        }
    }
    Ok(Table { rows: concat_batches(schema, &batches).unwrap(), rejected, nulled })
}

/// Compares what is read as two nullable strings with what [`plain_rows`] reads.
fn check_plain_csv(schema: &SchemaRef, bytes: &[u8]) {
    let table = read(&format(FormatName::Csv, &[], ("on-error", "skip")), schema, bytes, bytes.len() + 1).unwrap();
    let value = |row: usize, column: usize| table.rows.column(column).as_string_view().value(row).to_owned();
    let rows: Vec<Vec<String>> = (0..table.rows.num_rows()).map(|row| vec![value(row, 0), value(row, 1)]).collect();
    let mut lines = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).to_vec();
    if lines.last().is_some_and(|&byte| byte != b'\n') {
        lines.push(b'\n');
    }
    let expected = plain_rows(&lines);
    assert_eq!((rows, table.rejected.count), expected, "of {:?}", String::from_utf8_lossy(bytes));
}

/// The rows of two fields of plain CSV, and how many others there are: the simplest parser, a byte at a time.
fn plain_rows(bytes: &[u8]) -> (Vec<Vec<String>>, u64) {
    let mut rows = (Vec::new(), 0);
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'\n' || bytes[at..].starts_with(b"\r\n") {
            at += if bytes[at] == b'\n' { 1 } else { 2 };
            continue;
        }
        let (row, next) = plain_row(bytes, at);
        at = next;
        let texts = row.map(|fields| fields.into_iter().map(String::from_utf8).collect::<Result<Vec<_>, _>>());
        match texts {
            Some(Ok(texts)) if texts.len() == 2 => rows.0.push(texts),
            _ => rows.1 += 1,
        }
    }
    rows
}

/// The fields of the row at `at`, or `None` where its quotes are wrong, and where the next row begins.
fn plain_row(bytes: &[u8], mut at: usize) -> (Option<Vec<Vec<u8>>>, usize) {
    let ends = |at: usize| at == bytes.len() || matches!(bytes[at], b',' | b'\n') || bytes[at..].starts_with(b"\r\n");
    let mut fields = Vec::new();
    let mut is_right = true;
    loop {
        let mut field = Vec::new();
        if bytes.get(at) == Some(&b'"') {
            at += 1;
            loop {
                match bytes.get(at) {
                    None => return (None, at),
                    Some(b'"') if bytes.get(at + 1) == Some(&b'"') => at += 1,
                    Some(b'"') => break,
                    Some(_) => {}
                }
                field.push(bytes[at]);
                at += 1;
            }
            at += 1;
            is_right &= ends(at);
        }
        while !ends(at) {
            field.push(bytes[at]);
            at += 1;
        }
        fields.push(field);
        if bytes.get(at) != Some(&b',') {
            let next = at + bytes[at..].iter().take_while(|&&byte| byte == b'\r').count() + 1;
            return (is_right.then_some(fields), next.min(bytes.len()));
        }
        at += 1;
    }
}

#[cfg(test)]
#[path = "../../../../fuzz/corpus.rs"]
mod corpus;

#[cfg(test)]
mod tests {
    use super::corpus;

    const WORDS: [&str; 26] = [
        ",",
        "\n",
        "\"",
        "\"\"",
        ",\"",
        "\",",
        "\"\n",
        "\r\n",
        "\r",
        "\\",
        "#",
        "{\"a\":",
        ",\"b\":",
        "}",
        "}\n",
        "[",
        "null",
        "\\u00e9",
        "\\ud83d\\ude00",
        "é",
        "\u{feff}",
        "-",
        "2013-01-31",
        " 08:15:30.25",
        "1e3",
        "99999999999999999999",
    ];

    #[test]
    fn kept_csv_and_its_mutations_are_read_the_same_wherever_they_are_cut() {
        corpus::run("csv", &WORDS, 600, super::csv);
    }

    #[test]
    fn kept_json_and_its_mutations_are_read_the_same_wherever_they_are_cut() {
        corpus::run("json", &WORDS, 600, super::json);
    }

    #[test]
    fn arrays_of_few_parts_are_read_the_same_wherever_they_are_cut() {
        let parts = ["{\"a\":1}", ",", "]", "\n", "2", "}", " "];
        let arrays = (0..=3).flat_map(|length| (0..parts.len().pow(length)).map(move |choices| (length, choices)));
        for (length, choices) in arrays {
            let part = |at: u32| parts[choices / parts.len().pow(at) % parts.len()];
            let inner: String = (0..length).map(part).collect();
            super::json(format!("\0\x05[{inner}").as_bytes());
            super::json(format!("\0\x05[{inner}]").as_bytes());
        }
    }

    #[test]
    fn maps_of_few_rows_are_read_the_same_wherever_they_are_cut() {
        let parts = ["\"k\":{\"a\":1}", "\"l\":{\"a\":2}", "\"k\":{\"a\":3,\"b\":\"x\"}", "\"k\":{\"b\":1,\"a\":4}"];
        let maps = (1..=4).flat_map(|length| (0..parts.len().pow(length)).map(move |choices| (length, choices)));
        for (length, choices) in maps {
            let part = |at: u32| parts[choices / parts.len().pow(at) % parts.len()];
            let entries: Vec<&str> = (0..length).map(part).collect();
            super::json(format!("\0m{{\"a\":{{{}}}}}", entries.join(",")).as_bytes());
        }
    }

    #[test]
    fn kept_parquet_and_its_mutations_are_read_or_refused() {
        corpus::run("parquet", &[], 1_000, super::parquet);
    }
}
