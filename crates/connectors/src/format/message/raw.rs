//! Messages that are one value: text, bytes, or a number in binary.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewBuilder, BooleanArray, PrimitiveArray, StringViewBuilder, new_null_array,
};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, SchemaRef,
};
use pelton_data::column::sql_name;
use pelton_runtime::source::{LeftOut, RejectedRow, SourceError};

use crate::ConnectorError;
use crate::format::on_error::OnError;
use crate::format::rows::{DecodedColumns, VALUE_CHARACTERS_MAX};
use crate::options::Options;

/// How values are encoded.
#[derive(Debug, Clone)]
pub(crate) struct RawFormat {
    is_little_endian: bool,
    pub(crate) on_error: OnError,
}

impl RawFormat {
    pub(crate) fn of(options: &Options) -> Result<RawFormat, ConnectorError> {
        let endianness = options.choice("raw.endianness", &[("big-endian", false), ("little-endian", true)])?;
        options.choice("raw.charset", &[("UTF-8", ())])?;
        Ok(RawFormat { is_little_endian: endianness.unwrap_or(false), on_error: OnError::new(options, None)? })
    }
}

/// The types of values with so many bytes.
fn width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::Boolean | DataType::Int8 => Some(1),
        DataType::Int16 => Some(2),
        DataType::Int32 | DataType::Float32 => Some(4),
        DataType::Int64 | DataType::Float64 => Some(8),
        _ => None,
    }
}

/// Refuses a column that is not the only one, or of another type.
pub(crate) fn check_column(name: &str, data_type: &DataType, alone: bool) -> Result<(), ConnectorError> {
    if !alone {
        return Err(ConnectorError::column(
            name,
            "does not fit the format 'raw', whose messages are one value: one column",
        ));
    }
    if width(data_type).is_none() && !matches!(data_type, DataType::Utf8View | DataType::BinaryView) {
        let problem = format!(
            "has the type {}, which the format 'raw' does not have: declare it STRING, BYTES, BOOLEAN or a number",
            sql_name(data_type)
        );
        return Err(ConnectorError::column(name, problem));
    }
    Ok(())
}

/// Decodes messages that are one value each.
pub(crate) struct RawDecoder {
    format: RawFormat,
    /// The column, or none.
    schema: SchemaRef,
    place: String,
}

impl RawDecoder {
    pub(crate) fn new(format: RawFormat, schema: SchemaRef, place: &str) -> RawDecoder {
        RawDecoder { format, schema, place: place.to_owned() }
    }

    /// A row for each message.
    ///
    /// # Errors
    /// Where one is no such value, and such are not left out.
    pub(crate) fn decode(&self, bytes: Vec<u8>, ends: &[u32]) -> Result<DecodedColumns, SourceError> {
        let rows = ends.len();
        let left_out = LeftOut::of_rows(self.format.on_error.keeps_all());
        let mut decoded = DecodedColumns { columns: Vec::new(), rows, kept: None, left_out };
        let Some(field) = self.schema.fields().first() else { return Ok(decoded) };
        let starts = [0].into_iter().chain(ends.iter().copied());
        let messages = starts.zip(ends).map(|(start, &end)| &bytes[start as usize..end as usize]);
        let wrong = |message: &[u8]| match width(field.data_type()) {
            Some(width) => message.len() != width,
            None => *field.data_type() == DataType::Utf8View && std::str::from_utf8(message).is_err(),
        };
        for (row, message) in messages.clone().enumerate().filter(|(_, message)| wrong(message)) {
            let error = self.error(row, field.name(), field.data_type(), message);
            if self.format.on_error == OnError::Fail {
                return Err(error);
            }
            decoded.kept.get_or_insert_with(|| vec![true; rows])[row] = false;
            let row = || RejectedRow { error, row: String::from_utf8_lossy(message).into_owned() };
            decoded.left_out.rejected.push(row);
        }
        decoded.columns.push(self.column(field.data_type(), rows, messages));
        Ok(decoded)
    }

    fn column<'a>(&self, data_type: &DataType, rows: usize, messages: impl Iterator<Item = &'a [u8]>) -> ArrayRef {
        match data_type {
            DataType::Utf8View => {
                let mut builder = StringViewBuilder::with_capacity(rows);
                messages.for_each(|message| builder.append_option(std::str::from_utf8(message).ok()));
                Arc::new(builder.finish())
            }
            DataType::BinaryView => {
                let mut builder = BinaryViewBuilder::with_capacity(rows);
                messages.for_each(|message| builder.append_value(message));
                Arc::new(builder.finish())
            }
            DataType::Boolean => {
                let value = |message: &[u8]| <[u8; 1]>::try_from(message).ok().map(|[byte]| byte != 0);
                Arc::new(messages.map(value).collect::<BooleanArray>())
            }
            DataType::Int8 => self.numbers::<Int8Type, 1>(messages, i8::from_be_bytes),
            DataType::Int16 => self.numbers::<Int16Type, 2>(messages, i16::from_be_bytes),
            DataType::Int32 => self.numbers::<Int32Type, 4>(messages, i32::from_be_bytes),
            DataType::Int64 => self.numbers::<Int64Type, 8>(messages, i64::from_be_bytes),
            DataType::Float32 => self.numbers::<Float32Type, 4>(messages, f32::from_be_bytes),
            DataType::Float64 => self.numbers::<Float64Type, 8>(messages, f64::from_be_bytes),
            other => new_null_array(other, rows),
        }
    }

    /// Messages of `N` bytes; others are NULL.
    fn numbers<'a, T: ArrowPrimitiveType, const N: usize>(
        &self,
        messages: impl Iterator<Item = &'a [u8]>,
        read: impl Fn([u8; N]) -> T::Native,
    ) -> ArrayRef {
        let value = |message: &[u8]| {
            let mut bytes = <[u8; N]>::try_from(message).ok()?;
            if self.format.is_little_endian {
                bytes.reverse();
            }
            Some(read(bytes))
        };
        Arc::new(messages.map(value).collect::<PrimitiveArray<T>>())
    }

    fn error(&self, row: usize, column: &str, data_type: &DataType, message: &[u8]) -> SourceError {
        let problem = match width(data_type) {
            Some(width) => {
                let bytes = if width == 1 { "byte" } else { "bytes" };
                format!("has {} bytes, and a {} has {width} {bytes}", message.len(), sql_name(data_type))
            }
            None => "is not UTF-8; declare the column BYTES".to_owned(),
        };
        let value = String::from_utf8_lossy(message).chars().take(VALUE_CHARACTERS_MAX).collect();
        SourceError::Row { place: self.place.clone(), row: row as u64, column: column.to_owned(), value, problem }
    }
}

/// Appends the values of a column, and where each ends. NULL has no bytes.
pub(crate) fn encode(
    format: &RawFormat,
    column: &ArrayRef,
    out: &mut Vec<u8>,
    ends: &mut Vec<usize>,
) -> Result<(), String> {
    fn numbers<T: ArrowPrimitiveType, const N: usize>(
        format: &RawFormat,
        column: &ArrayRef,
        row: usize,
        out: &mut Vec<u8>,
        bytes: impl Fn(T::Native) -> [u8; N],
    ) {
        let mut bytes = bytes(column.as_primitive::<T>().value(row));
        if format.is_little_endian {
            bytes.reverse();
        }
        out.extend_from_slice(&bytes);
    }
    for row in 0..column.len() {
        if column.is_valid(row) {
            match column.data_type() {
                DataType::Utf8View => out.extend_from_slice(column.as_string_view().value(row).as_bytes()),
                DataType::BinaryView => out.extend_from_slice(column.as_binary_view().value(row)),
                DataType::Boolean => out.push(column.as_boolean().value(row).into()),
                DataType::Int8 => numbers::<Int8Type, 1>(format, column, row, out, i8::to_be_bytes),
                DataType::Int16 => numbers::<Int16Type, 2>(format, column, row, out, i16::to_be_bytes),
                DataType::Int32 => numbers::<Int32Type, 4>(format, column, row, out, i32::to_be_bytes),
                DataType::Int64 => numbers::<Int64Type, 8>(format, column, row, out, i64::to_be_bytes),
                DataType::Float32 => numbers::<Float32Type, 4>(format, column, row, out, f32::to_be_bytes),
                DataType::Float64 => numbers::<Float64Type, 8>(format, column, row, out, f64::to_be_bytes),
                other => return Err(format!("the format 'raw' has no {}", sql_name(other))),
            }
        }
        ends.push(out.len());
    }
    Ok(())
}
