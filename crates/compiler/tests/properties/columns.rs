//! Random columns: every type a block holds, with the values that break things.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions, make_array};
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion_common::ScalarValue;
use pelton_data::column::Layout;

use crate::choices::{Choices, Noise};

/// The types of columns, simplest first.
pub fn column_types() -> Vec<DataType> {
    use DataType::*;
    let coded = |codes: DataType| Dictionary(Box::new(codes), Box::new(Utf8View));
    vec![
        Int64,
        Int32,
        Utf8View,
        Float64,
        Boolean,
        Decimal128(10, 2),
        coded(UInt8),
        Timestamp(TimeUnit::Millisecond, None),
        Date32,
        Int8,
        Int16,
        Float32,
        Decimal128(38, 6),
        Decimal128(18, 4),
        coded(Int32),
        coded(UInt16),
        Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        Timestamp(TimeUnit::Second, None),
        BinaryView,
    ]
}

/// A schema of up to `columns_max` columns `{prefix}0`, `{prefix}1`, ….
pub fn schema(choices: &mut Choices<'_>, prefix: &str, columns_max: usize) -> SchemaRef {
    let types = column_types();
    let fields = (0..choices.number(1..=columns_max)).map(|index| {
        let data_type = choices.pick(&types).clone();
        Field::new(format!("{prefix}{index}"), data_type, choices.once_in(2))
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Rows of `schema`.
pub fn rows(choices: &mut Choices<'_>, schema: &SchemaRef, rows: usize) -> RecordBatch {
    let columns = schema.fields().iter().map(|field| column(choices, field, rows)).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).unwrap()
}

/// The same rows, with distinct integers that lie close together in column `column`, which has an integer type, where
/// the type has that many.
pub fn with_distinct(choices: &mut Choices<'_>, rows: &RecordBatch, column: usize) -> RecordBatch {
    let first = choices.number(0..=6) as i64 - 4;
    let step = *choices.pick(&[1, 2, 300]);
    let values: ArrayRef =
        Arc::new(Int64Array::from_iter_values((0..rows.num_rows() as i64).map(|row| first + row * step)));
    let values = cast(&values, rows.schema().field(column).data_type()).unwrap();
    // Not every type has that many integers so far apart: those beyond its range were cast to NULL.
    if values.null_count() > 0 {
        return rows.clone();
    }
    let mut columns = rows.columns().to_vec();
    columns[column] = values;
    RecordBatch::try_new(rows.schema(), columns).unwrap()
}

/// How the values of a column are distributed.
#[derive(Clone, Copy)]
enum Spread {
    /// A handful of values around zero: groups have many rows.
    Narrow,
    /// A thousand different ones.
    Medium,
    /// Ascending.
    Sequential,
    /// The values that break things, mixed with narrow ones.
    Extreme,
    /// Any bits.
    Wide,
}

fn column(choices: &mut Choices<'_>, field: &Field, rows: usize) -> ArrayRef {
    let spread = *choices.pick(&[Spread::Narrow, Spread::Medium, Spread::Sequential, Spread::Extreme, Spread::Wide]);
    let null_percent = if field.is_nullable() { *choices.pick(&[20, 0, 10, 5, 90, 20, 100]) } else { 0 };
    let mut noise = Noise::new(choices.seed());
    let data_type = match field.data_type() {
        DataType::Dictionary(_, value) => value.as_ref().clone(),
        other => other.clone(),
    };
    let values = (0..rows).map(|row| {
        if noise.below(100) < null_percent {
            ScalarValue::try_from(&data_type).unwrap()
        } else {
            value(&data_type, spread, row, &mut noise)
        }
    });
    let values = values.collect::<Vec<_>>();
    if values.is_empty() {
        return arrow::array::new_empty_array(field.data_type());
    }
    let values = ScalarValue::iter_to_array(values).unwrap();
    let values = match field.data_type() {
        DataType::Dictionary(codes, _) => coded(&values, codes),
        _ => values,
    };
    with_anything_below_nulls(values, *choices.pick(&[0x00, 0xFF, 0x80, 0x01]))
}

/// The same column with `byte` in every byte of a value that is NULL: zero divisors, codes without a string. Nothing may
/// look at them.
fn with_anything_below_nulls(column: ArrayRef, byte: u8) -> ArrayRef {
    let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0).cloned() else { return column };
    if let Some(booleans) = column.as_boolean_opt() {
        let bits = booleans.values() | &!nulls.inner();
        return Arc::new(BooleanArray::new(bits, Some(nulls)));
    }
    let width = match Layout::of(column.data_type()) {
        Some(Layout::Fixed { width } | Layout::Dictionary { width }) => usize::from(width),
        _ => return column,
    };
    let data = column.to_data();
    let mut bytes = data.buffers()[0].as_slice()[..column.len() * width].to_vec();
    for row in (0..column.len()).filter(|&row| nulls.is_null(row)) {
        bytes[row * width..(row + 1) * width].fill(byte);
    }
    make_array(data.into_builder().buffers(vec![aligned(&bytes)]).build().unwrap())
}

/// A buffer aligned for any value.
fn aligned(bytes: &[u8]) -> Buffer {
    let mut buffer = MutableBuffer::with_capacity(bytes.len());
    buffer.extend_from_slice(bytes);
    buffer.into()
}

/// The strings as codes into the array of distinct ones, as a source delivers them.
fn coded(strings: &ArrayRef, codes: &DataType) -> ArrayRef {
    let through = DataType::Dictionary(Box::new(codes.clone()), Box::new(DataType::Utf8View));
    cast(strings, &through).unwrap()
}

/// One value; dictionary columns have at most a hundred distinct ones, so that eight-bit codes suffice.
fn value(data_type: &DataType, spread: Spread, row: usize, noise: &mut Noise) -> ScalarValue {
    let number = number(spread, row, noise);
    match data_type {
        DataType::Boolean => ScalarValue::Boolean(Some(number & 1 == 0)),
        DataType::Int8 => ScalarValue::Int8(Some(number as i8)),
        DataType::Int16 => ScalarValue::Int16(Some(clamped(number, i16::MIN.into(), i16::MAX.into()) as i16)),
        DataType::Int32 => ScalarValue::Int32(Some(clamped(number, i32::MIN.into(), i32::MAX.into()) as i32)),
        DataType::Int64 => ScalarValue::Int64(Some(number)),
        DataType::Float32 => ScalarValue::Float32(Some(float(spread, number, noise) as f32)),
        DataType::Float64 => ScalarValue::Float64(Some(float(spread, number, noise))),
        DataType::Date32 => ScalarValue::Date32(Some(clamped(number, -100_000, 100_000) as i32)),
        DataType::Timestamp(unit, zone) => timestamp(*unit, zone.clone(), clamped(number, -1 << 40, 1 << 40)),
        DataType::Decimal128(precision, scale) => {
            let largest = 10_i128.pow((*precision).into()) - 1;
            let wide = match number {
                i64::MAX => largest,
                i64::MIN => -largest,
                number => i128::from(number) % (largest + 1),
            };
            ScalarValue::Decimal128(Some(wide), *precision, *scale)
        }
        DataType::Utf8View => ScalarValue::Utf8View(Some(string(number, noise))),
        DataType::BinaryView => ScalarValue::BinaryView(Some(string(number, noise).into_bytes())),
        other => unreachable!("no column has type {other}"),
    }
}

fn number(spread: Spread, row: usize, noise: &mut Noise) -> i64 {
    match spread {
        Spread::Narrow => noise.below(7) as i64 - 2,
        Spread::Medium => noise.below(1000) as i64 - 500,
        Spread::Sequential => row as i64,
        Spread::Wide => noise.next() as i64,
        Spread::Extreme => match noise.below(8) {
            0 => i64::MIN,
            1 => i64::MAX,
            2 => -1,
            3 => i64::MIN + 1,
            4 => i64::from(i32::MIN),
            5 => 1 << 40,
            more => more as i64 - 6,
        },
    }
}

fn clamped(number: i64, low: i64, high: i64) -> i64 {
    if (low..=high).contains(&number) { number } else { low + number.rem_euclid(high - low + 1) }
}

fn float(spread: Spread, number: i64, noise: &mut Noise) -> f64 {
    match spread {
        Spread::Extreme => {
            let special =
                [f64::NAN, -0.0, 0.0, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, f64::MIN_POSITIVE / 4.0];
            special[noise.below(8) as usize]
        }
        Spread::Wide => number as f64 * 1e-12,
        _ => number as f64 / 4.0,
    }
}

fn timestamp(unit: TimeUnit, zone: Option<Arc<str>>, ticks: i64) -> ScalarValue {
    match unit {
        TimeUnit::Second => ScalarValue::TimestampSecond(Some(ticks), zone),
        TimeUnit::Millisecond => ScalarValue::TimestampMillisecond(Some(ticks), zone),
        TimeUnit::Microsecond => ScalarValue::TimestampMicrosecond(Some(ticks), zone),
        TimeUnit::Nanosecond => unreachable!("no column has nanoseconds"),
    }
}

/// Strings whose lengths and prefixes lie around those of Arrow's views: 4 bytes of prefix, 12 bytes inline.
fn string(number: i64, noise: &mut Noise) -> String {
    let number = number.rem_euclid(60);
    match number % 6 {
        0 => ["", "view", "click", "%_", "ärger", "\u{0}", "a", "aa", "12", "-7.5"][(number / 6) as usize].to_owned(),
        1 => format!("twelve bytes{}", "!".repeat((number / 6) as usize % 3)),
        2 => format!("same prefix, other end {number}"),
        3 => number.to_string(),
        4 => "long ".repeat(1 + noise.below(3) as usize) + &"x".repeat((number / 6) as usize),
        _ => ["View", "twelve byte", "abcd", "abcde", "abcdefghijkl", "é", "日本語", " pad ", "NULL", "b"]
            [(number / 6) as usize]
            .to_owned(),
    }
}
