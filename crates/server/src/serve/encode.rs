//! Rows as messages: each value in the text or the binary form of its type.

mod numeric;
mod text;

use std::sync::Arc;

use arrow_json::EncoderOptions;
use arrow_json::writer::make_encoder;
use bytes::{BufMut, BytesMut};
use pelton::arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int16Array, Int32Array, Int64Array, ListArray, RecordBatch, StringViewArray,
};
use pelton::arrow::compute::cast;
use pelton::arrow::datatypes::*;
use pelton::arrow::error::ArrowError;
use pelton::arrow::util::display::ArrayFormatter;
use pelton::display::{Zone, format_options, with_times_as_text};

pub use numeric::read as read_numeric;

use super::types::{self, PgType, pg_type};
use crate::print::FloatEncoders;

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Text,
    Binary,
}

/// Days and microseconds from 1970, whence SQL counts, to 2000, whence Postgres does.
pub const EPOCH_DAYS: i32 = 10_957;
pub const EPOCH_MICROS: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

/// The columns of some rows, ready to be written.
pub struct Columns(Vec<Cells>);

/// The values of a column in one of a few forms.
enum Cells {
    Bool(BooleanArray),
    Int2(Int16Array),
    Int4(Int32Array),
    Int8(Int64Array),
    Float4(Float32Array),
    Float8(Float64Array),
    Numeric(Decimal128Array),
    Text(StringViewArray),
    Bytes(BinaryViewArray),
    Date(Date32Array),
    /// Microseconds since 1970, and by whose clocks instants are shown.
    Timestamp(Int64Array, Option<Zone>),
    Array(ListArray, Box<Cells>, u32),
}

impl Columns {
    /// # Errors
    /// Where Arrow has no text for a type.
    pub fn of(rows: &RecordBatch, zone: Zone) -> Result<Columns, ArrowError> {
        let schema = rows.schema_ref();
        let cells = schema.fields().iter().zip(rows.columns()).map(|(field, values)| Cells::of(field, values, zone));
        Ok(Columns(cells.collect::<Result<_, _>>()?))
    }

    /// Writes a row as a message. There is a form for each column.
    pub fn put_row(&self, row: usize, forms: &[Form], out: &mut BytesMut) {
        out.put_u8(b'D');
        let begin = out.len();
        out.put_i32(0);
        out.put_i16(i16::try_from(self.0.len()).unwrap_or(i16::MAX));
        for (cells, form) in self.0.iter().zip(forms) {
            cells.put(row, *form, out);
        }
        put_length(begin, 0, out);
    }
}

/// Puts the number of bytes behind `begin` there. The length itself counts where `begin` is the message's.
fn put_length(begin: usize, left_out: usize, out: &mut BytesMut) {
    let bytes = i32::try_from(out.len() - begin - left_out).unwrap_or(i32::MAX);
    out[begin..begin + 4].copy_from_slice(&bytes.to_be_bytes());
}

impl Cells {
    fn of(field: &FieldRef, values: &ArrayRef, zone: Zone) -> Result<Cells, ArrowError> {
        let to = |data_type: &DataType| cast(values, data_type);
        let pg_type = pg_type(field.data_type());
        Ok(match pg_type {
            types::BOOL => Cells::Bool(values.as_boolean().clone()),
            types::INT2 => Cells::Int2(to(&DataType::Int16)?.as_primitive::<Int16Type>().clone()),
            types::INT4 => Cells::Int4(to(&DataType::Int32)?.as_primitive::<Int32Type>().clone()),
            types::INT8 => Cells::Int8(to(&DataType::Int64)?.as_primitive::<Int64Type>().clone()),
            types::FLOAT4 => Cells::Float4(to(&DataType::Float32)?.as_primitive::<Float32Type>().clone()),
            types::FLOAT8 => Cells::Float8(to(&DataType::Float64)?.as_primitive::<Float64Type>().clone()),
            PgType { oid, .. } if oid == types::NUMERIC.oid => {
                let decimal = match values.data_type() {
                    DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => {
                        DataType::Decimal128(38, *scale)
                    }
                    _ => DataType::Decimal128(38, 0),
                };
                Cells::Numeric(to(&decimal)?.as_primitive::<Decimal128Type>().clone())
            }
            types::BYTEA => Cells::Bytes(to(&DataType::BinaryView)?.as_binary_view().clone()),
            types::DATE => Cells::Date(to(&DataType::Date32)?.as_primitive::<Date32Type>().clone()),
            types::TIMESTAMP => Cells::Timestamp(micros(values)?, None),
            types::TIMESTAMPTZ => Cells::Timestamp(micros(values)?, Some(zone)),
            types::JSON => Cells::Text(json(field, values, zone)?),
            PgType { .. } if pg_type != types::TEXT => {
                let lists = values.as_list::<i32>().clone();
                let DataType::List(item) = field.data_type() else {
                    unreachable!("{} is no array", field.data_type());
                };
                let element = types::pg_type(item.data_type()).oid;
                let items = Cells::of(item, lists.values(), zone)?;
                Cells::Array(lists, Box::new(items), element)
            }
            _ => Cells::Text(text(values, zone)?),
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Cells::Bool(values) => values.is_null(row),
            Cells::Int2(values) => values.is_null(row),
            Cells::Int4(values) => values.is_null(row),
            Cells::Int8(values) | Cells::Timestamp(values, _) => values.is_null(row),
            Cells::Float4(values) => values.is_null(row),
            Cells::Float8(values) => values.is_null(row),
            Cells::Numeric(values) => values.is_null(row),
            Cells::Text(values) => values.is_null(row),
            Cells::Bytes(values) => values.is_null(row),
            Cells::Date(values) => values.is_null(row),
            Cells::Array(values, ..) => values.is_null(row),
        }
    }

    /// Writes a value behind its length; NULL has the length -1.
    fn put(&self, row: usize, form: Form, out: &mut BytesMut) {
        if self.is_null(row) {
            return out.put_i32(-1);
        }
        let begin = out.len();
        out.put_i32(0);
        match form {
            Form::Text => self.put_text(row, out),
            Form::Binary => self.put_binary(row, out),
        }
        put_length(begin, 4, out);
    }

    fn put_binary(&self, row: usize, out: &mut BytesMut) {
        match self {
            Cells::Bool(values) => out.put_u8(values.value(row).into()),
            Cells::Int2(values) => out.put_i16(values.value(row)),
            Cells::Int4(values) => out.put_i32(values.value(row)),
            Cells::Int8(values) => out.put_i64(values.value(row)),
            Cells::Float4(values) => out.put_f32(values.value(row)),
            Cells::Float8(values) => out.put_f64(values.value(row)),
            Cells::Numeric(values) => numeric::put(values.value(row), values.scale(), out),
            Cells::Text(values) => out.put_slice(values.value(row).as_bytes()),
            Cells::Bytes(values) => out.put_slice(values.value(row)),
            Cells::Date(values) => out.put_i32(values.value(row).saturating_sub(EPOCH_DAYS)),
            Cells::Timestamp(values, _) => out.put_i64(values.value(row).saturating_sub(EPOCH_MICROS)),
            Cells::Array(lists, items, element) => put_array(lists, items, *element, row, out),
        }
    }
}

/// An array of one dimension: its bounds begin at 1.
fn put_array(lists: &ListArray, items: &Cells, element: u32, row: usize, out: &mut BytesMut) {
    let range = range(lists, row);
    let has_nulls = range.clone().any(|item| items.is_null(item));
    out.put_i32(i32::from(!range.is_empty()));
    out.put_i32(has_nulls.into());
    out.put_u32(element);
    if range.is_empty() {
        return;
    }
    out.put_i32(i32::try_from(range.len()).unwrap_or(i32::MAX));
    out.put_i32(1);
    for item in range {
        items.put(item, Form::Binary, out);
    }
}

/// Where the items of a list stand.
fn range(lists: &ListArray, row: usize) -> std::ops::Range<usize> {
    let offsets = lists.value_offsets();
    offsets[row] as usize..offsets[row + 1] as usize
}

fn micros(values: &ArrayRef) -> Result<Int64Array, ArrowError> {
    let zone = match values.data_type() {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    };
    let micros = cast(values, &DataType::Timestamp(TimeUnit::Microsecond, zone))?;
    Ok(cast(&micros, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

/// Nested values as JSON, with timestamps as tables show them.
fn json(field: &FieldRef, values: &ArrayRef, zone: Zone) -> Result<StringViewArray, ArrowError> {
    let (field, values) = with_times(field, values, zone)?;
    let options = EncoderOptions::default().with_explicit_nulls(true).with_encoder_factory(Arc::new(FloatEncoders));
    let mut encoder = make_encoder(&field, &values, &options)?;
    let mut text = Vec::new();
    let mut encode = |row: usize| {
        if values.is_null(row) {
            return None;
        }
        text.clear();
        encoder.encode(row, &mut text);
        Some(String::from_utf8_lossy(&text).into_owned())
    };
    Ok((0..values.len()).map(&mut encode).collect())
}

/// Values without a type of their own, as tables show them.
fn text(values: &ArrayRef, zone: Zone) -> Result<StringViewArray, ArrowError> {
    if values.data_type().is_string() {
        return Ok(cast(values, &DataType::Utf8View)?.as_string_view().clone());
    }
    let field = Arc::new(Field::new("value", values.data_type().clone(), true));
    let (_, values) = with_times(&field, values, zone)?;
    let options = format_options(values.data_type());
    let formatter = ArrayFormatter::try_new(&values, &options)?;
    Ok((0..values.len()).map(|row| values.is_valid(row).then(|| formatter.value(row).to_string())).collect())
}

fn with_times(field: &FieldRef, values: &ArrayRef, zone: Zone) -> Result<(FieldRef, ArrayRef), ArrowError> {
    let field = field.as_ref().clone().with_nullable(true);
    let rows = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![values.clone()])?;
    let rows = with_times_as_text(&rows, zone)?;
    Ok((rows.schema_ref().fields()[0].clone(), rows.column(0).clone()))
}

#[cfg(test)]
mod tests;
