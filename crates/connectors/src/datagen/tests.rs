use std::collections::BTreeMap;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Field, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Schema, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampSecondType,
};

use super::*;
use crate::testing::{batches, refusal};
use crate::{is_bounded, open_source};

const BASE_MS: i64 = 1_577_836_800_000;

fn request(columns: &[(&str, DataType)], options: &[(&str, &str)], block_rows: usize) -> TableRequest {
    let fields: Vec<Field> = columns.iter().map(|(name, of)| Field::new(*name, of.clone(), true)).collect();
    let flat_out = [("connector", "datagen"), ("pace", "flat-out"), ("base-time", "2020-01-01 00:00:00")];
    let options: BTreeMap<String, String> =
        flat_out.iter().chain(options).map(|&(name, value)| (name.to_string(), value.to_string())).collect();
    TableRequest {
        name: "t".into(),
        columns: (0..fields.len()).collect(),
        schema: Arc::new(Schema::new(fields)),
        metadata: BTreeMap::new(),
        partition_keys: Vec::new(),
        lengths: BTreeMap::new(),
        options,
        event_time: None,
        block_rows,
        seed: 9,
        strict_values: false,
        host: Default::default(),
    }
}

fn rows(request: &TableRequest) -> RecordBatch {
    concat_batches(&request.schema, &batches(open_source(request).unwrap())).unwrap()
}

fn timestamp(unit: TimeUnit) -> DataType {
    DataType::Timestamp(unit, None)
}

fn all_types() -> Vec<(&'static str, DataType)> {
    vec![
        ("b", DataType::Boolean),
        ("i8", DataType::Int8),
        ("i16", DataType::Int16),
        ("i32", DataType::Int32),
        ("i64", DataType::Int64),
        ("f32", DataType::Float32),
        ("f64", DataType::Float64),
        ("d", DataType::Decimal128(10, 2)),
        ("wide", DataType::Decimal128(38, 0)),
        ("s", DataType::Utf8View),
        ("y", DataType::BinaryView),
        ("day", DataType::Date32),
        ("t0", timestamp(TimeUnit::Second)),
        ("t3", DataType::Timestamp(TimeUnit::Millisecond, Some("+00:00".into()))),
        ("t6", timestamp(TimeUnit::Microsecond)),
    ]
}

#[test]
fn every_type_fills_its_range_whatever_the_chunks() {
    let options = [("number-of-rows", "2000"), ("fields.y.var-len", "true"), ("fields.s.var-len", "true")];
    let whole = rows(&request(&all_types(), &options, 4096));
    assert_eq!(whole.num_rows(), 2_000);
    for (index, column) in whole.columns().iter().enumerate() {
        column.to_data().validate_full().unwrap();
        assert_eq!(column.null_count(), 0);
        let mut alone = request(&all_types(), &options, 7);
        alone.columns = vec![index];
        let chunks = batches(open_source(&alone).unwrap());
        let schema = chunks[0].schema();
        assert_eq!(concat_batches(&schema, &chunks).unwrap().column(0), column, "{}", schema.field(0).name());
    }
    let distinct = |values: &mut dyn Iterator<Item = i64>| values.collect::<std::collections::HashSet<_>>().len();
    assert_eq!(distinct(&mut whole["i8"].as_primitive::<Int8Type>().values().iter().map(|&v| v.into())), 256);
    assert!(distinct(&mut whole["i16"].as_primitive::<Int16Type>().values().iter().map(|&v| v.into())) > 1_900);
    assert!(distinct(&mut whole["i64"].as_primitive::<Int64Type>().values().iter().copied()) == 2_000);
    let halves = whole["i64"].as_primitive::<Int64Type>().values().iter().filter(|&&value| value < 0).count();
    assert!((850..1_150).contains(&halves));
    assert!(whole["f32"].as_primitive::<Float32Type>().values().iter().all(|value| value.is_finite()));
    assert!(whole["f64"].as_primitive::<Float64Type>().values().iter().all(|value| value.is_finite()));
    let lengths = |column: &dyn Fn(usize) -> usize| {
        (0..2_000).map(column).fold((usize::MAX, 0), |(l, h), n| (l.min(n), h.max(n)))
    };
    assert_eq!(lengths(&|row| whole["s"].as_string_view().value(row).len()), (1, 100));
    assert_eq!(lengths(&|row| whole["y"].as_binary_view().value(row).len()), (1, 100));
}

#[test]
fn random_values_keep_their_bounds_and_reach_them() {
    let options = [
        ("number-of-rows", "20000"),
        ("fields.i32.min", "-3"),
        ("fields.i32.max", "3"),
        ("fields.f64.min", "0.5"),
        ("fields.f64.max", "1.5"),
        ("fields.d.min", "-0.02"),
        ("fields.d.max", "0.02"),
        ("fields.s.length", "5"),
        ("fields.i64.null-rate", "0.25"),
        ("fields.s.null-rate", "1"),
        ("fields.t3.max-past", "10 s"),
    ];
    let rows = rows(&request(&all_types(), &options, 4096));
    let integers = rows["i32"].as_primitive::<Int32Type>().values();
    for value in -3..=3 {
        let count = integers.iter().filter(|&&integer| integer == value).count() as f64;
        assert!((count - 20_000.0 / 7.0).abs() < 250.0, "{value}: {count}");
    }
    let floats = rows["f64"].as_primitive::<Float64Type>().values();
    assert!(floats.iter().all(|value| (0.5..=1.5).contains(value)));
    assert!((floats.iter().sum::<f64>() / 20_000.0 - 1.0).abs() < 0.02);
    let decimals = rows["d"].as_primitive::<Decimal128Type>().values();
    assert_eq!((decimals.iter().min(), decimals.iter().max()), (Some(&-2), Some(&2)));
    assert!((4_700..5_300).contains(&rows["i64"].null_count()));
    assert_eq!(rows["s"].null_count(), 20_000);
    let times = rows["t3"].as_primitive::<TimestampMillisecondType>().values();
    // 10,000 rows a second, each up to ten seconds late.
    assert!(times.iter().enumerate().all(|(row, time)| (0..=10_000).contains(&(BASE_MS + row as i64 / 10 - time))));
    assert_eq!(rows["t0"].as_primitive::<TimestampSecondType>().value(19_999), BASE_MS / 1_000 + 1);
    assert_eq!(rows["t6"].as_primitive::<TimestampMicrosecondType>().value(10), (BASE_MS + 1) * 1_000);
    assert_eq!(rows["day"].as_primitive::<Date32Type>().value(0) as i64, BASE_MS / 86_400_000);
}

#[test]
fn the_first_sequence_that_ends_ends_the_table() {
    let columns = [
        ("n", DataType::Int32),
        ("s", DataType::Utf8View),
        ("d", DataType::Decimal128(5, 2)),
        ("f", DataType::Float64),
        ("r", DataType::Boolean),
    ];
    let options = [
        ("fields.n.kind", "sequence"),
        ("fields.n.start", "-1"),
        ("fields.n.end", "100"),
        ("fields.s.kind", "sequence"),
        ("fields.s.start", "8"),
        ("fields.s.end", "10"),
        ("fields.d.kind", "sequence"),
        ("fields.d.start", "1"),
        ("fields.d.end", "9"),
        ("fields.f.kind", "sequence"),
        ("fields.f.start", "0"),
        ("fields.f.end", "5"),
    ];
    let request = request(&columns, &options, 2);
    assert!(is_bounded(&request.options).unwrap());
    let rows = rows(&request);
    assert_eq!(rows["n"].as_primitive::<Int32Type>().values(), &[-1, 0, 1]);
    assert_eq!(rows["s"].as_string_view().iter().flatten().collect::<Vec<_>>(), ["8", "9", "10"]);
    assert_eq!(rows["d"].as_primitive::<Decimal128Type>().values(), &[100, 200, 300]);
    assert_eq!(rows["f"].as_primitive::<Float64Type>().values(), &[0.0, 1.0, 2.0]);
}

#[test]
fn blocks_of_long_strings_have_fewer_rows() {
    let columns = [("s", DataType::Utf8View), ("y", DataType::BinaryView), ("n", DataType::Int64)];
    let options = [("number-of-rows", "40"), ("fields.s.length", "1500000"), ("fields.y.length", "500000")];
    let all = request(&columns, &options, 1024);
    let chunks = batches(open_source(&all).unwrap());
    assert!(chunks.iter().all(|chunk| chunk.num_rows() <= 8), "two million bytes a row");
    assert_eq!(rows(&all), rows(&request(&columns, &options, 3)));
    let alone = TableRequest { columns: vec![2], ..all };
    assert_eq!(batches(open_source(&alone).unwrap())[0].num_rows(), 40, "strings that nobody reads take nothing");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |of: DataType, options: &[(&str, &str)]| refusal(&request(&[("x", of)], options, 64));
    assert!(!is_bounded(&request(&[("x", DataType::Int8)], &[], 1).options).unwrap());
    type Case = (DataType, &'static [(&'static str, &'static str)], &'static str);
    let cases: [Case; 8] = [
        (
            DataType::Int8,
            &[("fields.x.max", "300")],
            "option 'fields.x.max' must be a value of type TINYINT, not '300'",
        ),
        (
            DataType::Int8,
            &[("fields.x.max", "1"), ("fields.x.min", "2")],
            "option 'fields.x.max' must be at least 'min'",
        ),
        (
            DataType::Decimal128(5, 2),
            &[("fields.x.min", "-1e1"), ("fields.x.max", "1.005")],
            "option 'fields.x.max' must be a value of type DECIMAL(5, 2), not '1.005'",
        ),
        (
            DataType::Float64,
            &[("fields.x.min", "NaN")],
            "option 'fields.x.min' must be a value of type DOUBLE, not 'NaN'",
        ),
        (
            DataType::Boolean,
            &[("fields.x.kind", "sequence")],
            "column 'x' is of type BOOLEAN, which has no sequence: use 'kind' = 'random'",
        ),
        (
            DataType::Int64,
            &[("fields.x.kind", "sequence"), ("fields.x.start", "1")],
            "option 'fields.x.end' is missing: a sequence has 'start' and 'end'",
        ),
        (
            DataType::Utf8View,
            &[("fields.x.length", "99999999999")],
            "option 'fields.x.length' must be at most 33554432",
        ),
        (
            DataType::Int64,
            &[("fields.x.null-rate", "2")],
            "option 'fields.x.null-rate' must be a number between 0 and 1, not '2'",
        ),
    ];
    for (of, options, expected) in cases {
        assert_eq!(refused(of, options), expected);
    }
    for useless in ["fields.x.max", "fields.y.kind"] {
        let message = format!("option '{useless}' has no effect on this table; leave it out");
        assert_eq!(refused(DataType::Boolean, &[(useless, "1")]), message);
    }
}
