//! What a sink writes, a source reads: all types, all formats.

mod support;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array, Float64Array,
    Int8Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt8Array,
};
use arrow::datatypes::{DataType, Field, Schema, UInt8Type};
use parquet::arrow::ArrowWriter;
use pelton_connectors::{declared, open_sink};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use support::{Directory, options, read, request, rows, schema};

const COLUMNS: &str = "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h DECIMAL(38,9), i DATE, \
    j TIMESTAMP(0), k TIMESTAMP(3), l TIMESTAMP(6), m TIMESTAMP_LTZ(6), n STRING";

type Numbers = (Option<bool>, Option<i8>, Option<i16>, Option<i32>, Option<i64>, Option<f32>, Option<f64>);
type Others = (Option<i128>, Option<i32>, Option<i64>, Option<i64>, Option<i64>, Option<i64>, String);

fn row() -> impl Strategy<Value = (Numbers, Others)> {
    let text = prop_oneof!["[a-z ,;\"'\\\\\n\r\t#\u{e9}-]{0,20}", ".{0,15}", Just(String::new())];
    let numbers = (
        any::<Option<bool>>(),
        any::<Option<i8>>(),
        any::<Option<i16>>(),
        any::<Option<i32>>(),
        any::<Option<i64>>(),
        option::of(proptest::num::f32::ANY),
        option::of(proptest::num::f64::ANY),
    );
    let decimal = option::of(-99_999_999_999_999_999_999_999_999_999_999_999_999i128..10i128.pow(38));
    let seconds = -200_000_000_000_000i64..200_000_000_000_000;
    let millis = -200_000_000_000_000_000i64..200_000_000_000_000_000;
    let others = (
        decimal,
        any::<Option<i32>>(),
        option::of(seconds),
        option::of(millis),
        any::<Option<i64>>(),
        any::<Option<i64>>(),
        text,
    );
    (numbers, others)
}

fn batch(data: &[(Numbers, Others)]) -> RecordBatch {
    fn column<T, A: From<Vec<T>>>(data: &[(Numbers, Others)], value: impl Fn(&(Numbers, Others)) -> T) -> A {
        A::from(data.iter().map(value).collect::<Vec<T>>())
    }
    // NaNs differ in bits that text does not carry.
    let columns: Vec<ArrayRef> = vec![
        Arc::new(column::<_, BooleanArray>(data, |row| row.0.0)),
        Arc::new(column::<_, Int8Array>(data, |row| row.0.1)),
        Arc::new(column::<_, Int16Array>(data, |row| row.0.2)),
        Arc::new(column::<_, Int32Array>(data, |row| row.0.3)),
        Arc::new(column::<_, Int64Array>(data, |row| row.0.4)),
        Arc::new(column::<_, Float32Array>(data, |row| row.0.5.map(|v| if v.is_nan() { f32::NAN } else { v }))),
        Arc::new(column::<_, Float64Array>(data, |row| row.0.6.map(|v| if v.is_nan() { f64::NAN } else { v }))),
        Arc::new(column::<_, Decimal128Array>(data, |row| row.1.0).with_precision_and_scale(38, 9).unwrap()),
        Arc::new(column::<_, Date32Array>(data, |row| row.1.1)),
        Arc::new(column::<_, TimestampSecondArray>(data, |row| row.1.2)),
        Arc::new(column::<_, TimestampMillisecondArray>(data, |row| row.1.3)),
        Arc::new(column::<_, TimestampMicrosecondArray>(data, |row| row.1.4)),
        Arc::new(column::<_, TimestampMicrosecondArray>(data, |row| row.1.5).with_timezone("+00:00")),
        Arc::new(StringViewArray::from_iter_values(data.iter().map(|row| &row.1.6))),
    ];
    RecordBatch::try_new(Arc::new(schema(COLUMNS)), columns).unwrap()
}

/// Writes `batch` in two halves to a file, reads it again, and compares.
fn check(batch: &RecordBatch, name: &str, pairs: &[&str]) {
    let directory = Directory::new();
    let path = directory.path().join(name);
    let request = request(Schema::clone(&batch.schema()), options(path.to_str().unwrap(), pairs));
    let mut sink = open_sink(&request).unwrap();
    let half = batch.num_rows() / 2;
    sink.write(&batch.slice(0, half)).unwrap();
    sink.flush().unwrap();
    sink.write(&batch.slice(half, batch.num_rows() - half)).unwrap();
    assert!(!path.exists(), "the file has its name before its end");
    sink.finish().unwrap();
    let found = read(&request).unwrap_or_else(|error| panic!("{name} {pairs:?}: {error}")).rows;
    assert_eq!(&found, batch, "{name} {pairs:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_is_written_is_read_again(data in vec(row(), 0..12)) {
        let batch = batch(&data);
        for (name, pairs) in [
            ("t.csv", &[][..]),
            ("t.csv.gz", &["csv.header=true", "csv.null-literal=-"]),
            ("t.csv.zst", &["csv.field-delimiter=;", "csv.escape-character=\\\\", "csv.quote-character='"]),
            ("t.csv", &["csv.disable-quote-character=true", "csv.escape-character=!", "csv.header=true"]),
            ("t.csv", &["csv.delimiter-run=true", "csv.null-literal=NULL", "csv.allow-comments=true"]),
            ("t.csv", &["csv.trim=true", "csv.field-delimiter=¦", "csv.timestamp-format=ISO-8601"]),
            ("t.csv", &["csv.field-delimiter=\\t", "csv.comment-character=-"]),
            ("t.json", &[]),
            ("t.jsonl.gz", &["json.timestamp-format.standard=ISO-8601", "json.encode.ignore-null-fields=true"]),
            ("t.ndjson.zst", &[]),
            ("t.parquet", &[]),
            ("t.avro", &[]),
            ("t.avro", &["avro.timestamp_mapping.legacy=false", "avro.codec=zstandard"]),
            ("t.parquet", &["parquet.compression=zstd"]),
        ] {
            check(&batch, name, pairs);
        }
    }

    #[test]
    fn a_single_column_is_read_again(values in vec(option::of("[a,\"\n ]{0,14}"), 0..12)) {
        let column: ArrayRef = Arc::new(StringViewArray::from(values));
        let batch = RecordBatch::try_new(Arc::new(schema("a STRING")), vec![column]).unwrap();
        for pairs in [&["csv.null-literal="][..], &["csv.null-literal=a"], &["csv.null-literal=-", "csv.header=true"]] {
            check(&batch, "t.csv", pairs);
        }
        check(&batch, "t.json", &[]);
        check(&batch, "t.parquet", &[]);
        check(&batch, "t.avro", &[]);
    }
}

#[test]
fn a_directory_gets_a_part_for_each_query_and_no_halves() {
    let directory = Directory::new();
    let root = directory.path().join("out");
    let request =
        request(schema("a INT, b STRING"), options(root.to_str().unwrap(), &["format=csv", "csv.header=true"]));
    let rows_of = |values: Vec<i32>| {
        let strings: StringViewArray = values.iter().map(|value| Some(format!("row {value}"))).collect();
        let columns: Vec<ArrayRef> = vec![Arc::new(Int32Array::from(values)), Arc::new(strings)];
        RecordBatch::try_new(request.schema.clone(), columns).unwrap()
    };
    let mut first = open_sink(&request).unwrap();
    let mut second = open_sink(&request).unwrap();
    let mut failed = open_sink(&request).unwrap();
    first.write(&rows_of(vec![1, 2])).unwrap();
    second.write(&rows_of(vec![3])).unwrap();
    failed.write(&rows_of(vec![4])).unwrap();
    first.flush().unwrap();
    let visible = std::fs::read_to_string(root.join(".part-0.csv.inprogress")).unwrap();
    assert_eq!(visible, "a,b\n1,row 1\n2,row 2\n");
    assert_eq!(read(&request).unwrap().rows.num_rows(), 0);
    first.finish().unwrap();
    second.finish().unwrap();
    drop(failed);
    let mut names: Vec<String> =
        std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["part-0.csv", "part-1.csv"]);
    assert_eq!(rows(&read(&request).unwrap().rows), ["1|row 1", "2|row 2", "3|row 3"]);
    let mut third = open_sink(&request).unwrap();
    third.finish().unwrap();
    assert_eq!(std::fs::read_to_string(root.join("part-2.csv")).unwrap(), "a,b\n");
}

#[test]
fn what_would_not_be_read_again_is_refused() {
    let directory = Directory::new();
    let path = directory.path().join("t.csv").to_str().unwrap().to_string();
    let write = |columns: &str, column: ArrayRef, pairs: &[&str]| {
        let request = request(schema(columns), options(&path, pairs));
        let batch = RecordBatch::try_new(request.schema.clone(), vec![column]).unwrap();
        open_sink(&request).unwrap().write(&batch).unwrap_err().to_string().replace(&path, "FILE")
    };
    let text: ArrayRef = Arc::new(StringViewArray::from(vec!["a,b"]));
    assert_eq!(
        write("a STRING", text, &["csv.disable-quote-character=true"]),
        "FILE: row 1 of the INSERT, column 'a': 'a,b' would be read as something else, and quotes are disabled"
    );
    let null: ArrayRef = Arc::new(StringViewArray::from(vec![None::<&str>]));
    assert_eq!(
        write("a STRING", null, &["csv.delimiter-run=true"]),
        "FILE: row 1 of the INSERT, column 'a': NULL would vanish in a run of delimiters: give a 'csv.null-literal'"
    );
    let far: ArrayRef = Arc::new(TimestampSecondArray::from(vec![i64::MAX]));
    assert_eq!(
        write("a TIMESTAMP(0)", far, &[]),
        "FILE: row 1 of the INSERT, column 'a': 9223372036854775807 ticks since 1970 are further from then than times are written"
    );
}

#[test]
fn json_has_the_forms_that_flink_writes() {
    let directory = Directory::new();
    let path = directory.path().join("t.json");
    let request = request(schema("a DOUBLE, b STRING, c TIMESTAMP_LTZ(3)"), options(path.to_str().unwrap(), &[]));
    let coded =
        DictionaryArray::<UInt8Type>::new(UInt8Array::from(vec![0, 0]), Arc::new(StringViewArray::from(vec!["x\"y"])));
    let fields = vec![
        Field::new("a", DataType::Float64, true),
        Field::new("b", coded.data_type().clone(), true),
        request.schema.field(2).clone(),
    ];
    let times = TimestampMillisecondArray::from(vec![Some(1_500), None]).with_timezone("+00:00");
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Float64Array::from(vec![f64::NAN, 1e300])), Arc::new(coded), Arc::new(times)];
    let mut sink = open_sink(&request).unwrap();
    sink.write(&RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()).unwrap();
    sink.finish().unwrap();
    assert_eq!(
        std::fs::read_to_string(path).unwrap(),
        "{\"a\":\"NaN\",\"b\":\"x\\\"y\",\"c\":\"1970-01-01 00:00:01.5Z\"}\n{\"a\":1e300,\"b\":\"x\\\"y\",\"c\":null}\n"
    );
}

#[test]
fn parquet_of_others_is_brought_to_the_declared_types() {
    let directory = Directory::new();
    let path = directory.path().join("t.parquet");
    let fields = [
        ("n", DataType::Int64),
        ("s", DataType::Utf8),
        ("t", DataType::Timestamp(arrow::datatypes::TimeUnit::Nanosecond, None)),
        ("u", DataType::UInt8),
        ("x", DataType::Float64),
    ];
    let fields = fields.map(|(name, data_type)| Field::new(name, data_type, true));
    let file_schema = Arc::new(Schema::new(fields.to_vec()));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![Some(1), Some(70_000), None, Some(4)])),
        Arc::new(arrow::array::StringArray::from(vec!["x", "y", "longer than twelve bytes", "z"])),
        Arc::new(TimestampNanosecondArray::from(vec![1_500_000_000, 0, 0, -1_000_000])),
        Arc::new(UInt8Array::from(vec![255, 0, 0, 0])),
        Arc::new(Float64Array::from(vec![0.5; 4])),
    ];
    let batch = RecordBatch::try_new(file_schema.clone(), columns).unwrap();
    let properties =
        parquet::file::properties::WriterProperties::builder().set_max_row_group_row_count(Some(2)).build();
    let mut writer =
        ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), file_schema, Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let path = path.to_str().unwrap();
    let table = |columns: &str, pairs: &[&str]| read(&request(schema(columns), options(path, pairs)));
    let rows_of = |columns: &str, pairs: &[&str]| rows(&table(columns, pairs).unwrap().rows);
    assert_eq!(
        rows_of("t TIMESTAMP(3), s STRING, n INT, u SMALLINT", &[]),
        [
            "1970-01-01T00:00:01.500|x|1|255",
            "1970-01-01T00:00:00|y|70000|0",
            "1970-01-01T00:00:00|longer than twelve bytes|NULL|0",
            "1969-12-31T23:59:59.999|z|4|0",
        ]
    );
    let message = |columns: &str| table(columns, &[]).err().unwrap().replace(path, "FILE");
    assert_eq!(message("n SMALLINT"), "FILE, row 2, column 'n': '70000' does not fit SMALLINT (-32768 to 32767)");
    assert_eq!(
        message("n BIGINT NOT NULL"),
        "FILE, row 3, column 'n': '' is NULL, and the column is NOT NULL, as event times are"
    );
    assert_eq!(message("x INT"), "FILE: column 'x' is of type DOUBLE in FILE, which cannot be read as INT");
    assert_eq!(message("y INT"), "FILE: column 'y' is not in FILE, which has n, s, t, u, x");
    let skipped = table("n SMALLINT NOT NULL, s STRING", &["on-error=skip"]).unwrap();
    assert_eq!(rows(&skipped.rows), ["1|x", "4|z"]);
    assert_eq!(skipped.rejected.count, 2);
    assert_eq!(skipped.rejected.first[1].row, ", longer than twelve bytes");
    let declared = declared(&options(path, &[])).unwrap().unwrap().schema;
    let names: Vec<String> =
        declared.fields().iter().map(|field| pelton_data::column::sql_name(field.data_type())).collect();
    assert_eq!(names, ["BIGINT", "STRING", "TIMESTAMP(6)", "SMALLINT", "DOUBLE"]);
}
