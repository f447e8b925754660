//! Formats of messages: each message is one row, or the key of one.
//!
//! CSV and JSON share the decoders of files. A chunk of messages is decoded as if each were a line; where one of them is no row, or several, the chunk is halved until
//! that message stands alone.

pub(crate) mod avro;

pub(crate) mod debezium;

mod halves;

mod options;

pub(crate) mod protobuf;

pub(crate) mod raw;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::compute::concat;
use arrow::datatypes::{DataType, SchemaRef};
use pelton_runtime::source::{LeftOut, RejectedRow, SourceError};

use super::json::layout::Layout;
use super::on_error::OnError;
use super::rows::{DecodedColumns, RowDecoder, VALUE_CHARACTERS_MAX};
use super::write::TextWriter;
use super::{Origin, RowShape, TextFormat, TextKind};
use crate::ConnectorError;
use avro::{AvroDecoder, AvroEncoder, AvroFormat};
use debezium::{DebeziumDecoder, DebeziumEncoder, DebeziumFormat};
pub(crate) use options::{Side, named};
use protobuf::{ProtobufDecoder, ProtobufEncoder, ProtobufFormat};
use raw::{RawDecoder, RawFormat};

/// How messages, or their keys, are encoded.
#[derive(Debug, Clone)]
pub(crate) enum MessageFormat {
    Text(TextFormat),
    Raw(RawFormat),
    Avro(AvroFormat),
    Debezium(DebeziumFormat),
    Protobuf(ProtobufFormat),
}

/// Messages, or their keys, one behind the other.
#[derive(Debug, Default)]
pub(crate) struct Payloads {
    bytes: Vec<u8>,
    /// Where each ends in `bytes`.
    ends: Vec<u32>,
    framing: Framing,
}

/// What stands between messages, for the decoder's sake.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Nothing.
    #[default]
    Bytes,
    /// A line end behind each.
    Lines,
    /// A line end behind each, and none within one: they are blanks there.
    OneLine,
    /// Before each, what Confluent's wire format has there.
    Confluent,
}

impl Payloads {
    pub(crate) fn new(framing: Framing) -> Payloads {
        Payloads { framing, ..Payloads::default() }
    }

    /// Appends a message.
    pub(crate) fn push(&mut self, payload: &[u8]) {
        match self.framing {
            Framing::Bytes => self.bytes.extend_from_slice(payload),
            Framing::Confluent => {
                self.bytes.extend_from_slice(&avro::own_header());
                self.bytes.extend_from_slice(payload);
            }
            Framing::Lines => {
                self.bytes.extend_from_slice(payload.strip_suffix(b"\n").unwrap_or(payload));
                self.bytes.push(b'\n');
            }
            Framing::OneLine => {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(payload);
                if memchr::memchr(b'\n', payload).is_some() {
                    self.bytes[start..].iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
                }
                self.bytes.push(b'\n');
            }
        }
        self.ends.push(u32::try_from(self.bytes.len()).expect("a chunk is smaller than 4 GiB"));
    }

    /// How many bytes they are.
    pub(crate) fn bytes_len(&self) -> usize {
        self.bytes.len()
    }
}

/// Decodes messages, or their keys.
pub(crate) enum MessageDecoder {
    Text(Box<RowDecoder>),
    Raw(RawDecoder),
    Avro(Box<AvroDecoder>),
    Debezium(DebeziumDecoder),
    Protobuf(Box<ProtobufDecoder>),
}

impl MessageFormat {
    /// Whether a message without a value, or with nothing in it, is no row. Of others it is a value.
    pub(crate) fn skips_empty(&self) -> bool {
        match self {
            MessageFormat::Text(_) | MessageFormat::Avro(_) | MessageFormat::Debezium(_) => true,
            // An empty message of Protobuf has all defaults.
            MessageFormat::Raw(_) | MessageFormat::Protobuf(_) => false,
        }
    }

    pub(crate) fn on_error(&self) -> OnError {
        match self {
            MessageFormat::Text(format) => format.on_error,
            MessageFormat::Raw(format) => format.on_error,
            MessageFormat::Avro(format) => format.on_error,
            MessageFormat::Debezium(format) => format.text.on_error,
            MessageFormat::Protobuf(format) => format.on_error,
        }
    }

    pub(crate) fn framing(&self) -> Framing {
        match self {
            MessageFormat::Text(TextFormat { kind: TextKind::Json { .. }, .. }) => Framing::OneLine,
            MessageFormat::Text(_) => Framing::Lines,
            MessageFormat::Avro(format) if !format.names_schemas() => Framing::Confluent,
            MessageFormat::Debezium(_) => Framing::OneLine,
            MessageFormat::Raw(_) | MessageFormat::Avro(_) | MessageFormat::Protobuf(_) => Framing::Bytes,
        }
    }

    /// Refuses a column that the format has no values for. `alone` says that it is the only one.
    pub(crate) fn check_column(&self, name: &str, data_type: &DataType, alone: bool) -> Result<(), ConnectorError> {
        match self {
            MessageFormat::Text(format) | MessageFormat::Debezium(DebeziumFormat { text: format, .. }) => {
                match format.holds(data_type) {
                    true => Ok(()),
                    false => Err(ConnectorError::column(name, format.unheld(data_type))),
                }
            }
            MessageFormat::Raw(_) => raw::check_column(name, data_type, alone),
            MessageFormat::Avro(format) => format.check_column(name, data_type),
            MessageFormat::Protobuf(_) => protobuf::check_column(name, data_type),
        }
    }

    /// A decoder of the columns `wanted`, in this order, of all columns that are in a message. `place` names the messages in errors.
    pub(crate) fn decoder(
        &self,
        all: &SchemaRef,
        wanted: &[usize],
        place: &str,
    ) -> Result<MessageDecoder, ConnectorError> {
        Ok(match self {
            MessageFormat::Text(_) => MessageDecoder::Text(self.text_decoder(all, wanted, place)?),
            MessageFormat::Raw(format) => {
                let schema = Arc::new(all.project(wanted).expect("wanted columns are among all"));
                MessageDecoder::Raw(RawDecoder::new(format.clone(), schema, place))
            }
            MessageFormat::Avro(format) => MessageDecoder::Avro(Box::new(format.decoder(all, wanted, place)?)),
            MessageFormat::Debezium(format) => MessageDecoder::Debezium(format.decoder(all, wanted, place)?),
            MessageFormat::Protobuf(format) => MessageDecoder::Protobuf(Box::new(format.decoder(all, wanted, place)?)),
        })
    }

    /// A decoder of a format of text.
    fn text_decoder(&self, all: &SchemaRef, wanted: &[usize], place: &str) -> Result<Box<RowDecoder>, ConnectorError> {
        let MessageFormat::Text(format) = self else { unreachable!("it is asked for a format of text") };
        let shape = RowShape {
            schema: Arc::new(all.project(wanted).expect("wanted columns are among all")),
            data_names: all.fields().iter().map(|field| field.name().clone()).collect(),
            origins: wanted.iter().map(|&index| Origin::Data(index)).collect(),
        };
        Ok(Box::new(format.decoder(&shape, place.to_owned(), None, Layout::Lines, Vec::new())?))
    }

    /// An encoder of columns. `subject` is what a registry calls their schema, unless the table says so.
    pub(crate) fn encoder(&self, schema: &SchemaRef, subject: String) -> Result<MessageEncoder, ConnectorError> {
        let names = || schema.fields().iter().map(|field| field.name().clone()).collect();
        Ok(match self {
            MessageFormat::Text(format) => MessageEncoder::Text(TextWriter::new(format, names(), true)),
            MessageFormat::Raw(format) => MessageEncoder::Raw(format.clone()),
            MessageFormat::Avro(format) => MessageEncoder::Avro(Box::new(format.encoder(schema, subject)?)),
            MessageFormat::Debezium(format) => MessageEncoder::Debezium(format.encoder(schema)),
            MessageFormat::Protobuf(format) => MessageEncoder::Protobuf(format.encoder(schema)?),
        })
    }
}

impl MessageDecoder {
    /// A row for each message. [`SourceError::Row`] has the index of a message, from 0, in the place of a line.
    ///
    /// # Errors
    /// Where a message does not fit the table, and such are not left out.
    pub(crate) fn decode(&self, payloads: Payloads) -> Result<DecodedColumns, SourceError> {
        let Payloads { bytes, ends, .. } = payloads;
        match self {
            MessageDecoder::Debezium(decoder) => decoder.decode(bytes, &ends),
            MessageDecoder::Protobuf(decoder) => decoder.decode(&bytes, &ends),
            MessageDecoder::Text(decoder) => TextMessages { decoder, bytes: Buffer::from_vec(bytes) }.decode(&ends, 0),
            MessageDecoder::Raw(decoder) => decoder.decode(bytes, &ends),
            MessageDecoder::Avro(decoder) => decoder.decode(&bytes, &ends),
        }
    }
}

/// Messages that are text.
struct TextMessages<'a> {
    decoder: &'a RowDecoder,
    bytes: Buffer,
}

impl TextMessages<'_> {
    /// The rows of messages that end there, the first of which begins at `start`.
    fn decode(&self, ends: &[u32], start: u32) -> Result<DecodedColumns, SourceError> {
        let Some(&end) = ends.last() else { return Ok(self.nothing(0)) };
        let bytes = self.bytes.slice_with_length(start as usize, (end - start) as usize);
        let relative: Vec<u32> = ends.iter().map(|end| end - start).collect();
        if let Some(decoded) = self.decoder.decode_messages(bytes.clone(), &relative)? {
            return if decoded.rows == ends.len() { Ok(decoded) } else { self.not_one_row(decoded, &bytes) };
        }
        let half = ends.len() / 2;
        let mut first = self.decode(&ends[..half], start)?;
        let mut second = self.decode(&ends[half..], ends[half - 1]).map_err(|error| moved(error, half))?;
        for row in second.left_out.rejected.first.iter_mut().chain(&mut second.left_out.nulled.first) {
            row.error = moved(row.error.clone(), half);
        }
        let columns = first.columns.iter().zip(&second.columns);
        let columns: Result<Vec<ArrayRef>, _> = columns.map(|(a, b)| concat(&[a.as_ref(), b.as_ref()])).collect();
        let columns = columns
            .map_err(|error| SourceError::Input { place: self.decoder.place.clone(), problem: error.to_string() })?;
        let kept = (first.kept.is_some() || second.kept.is_some()).then(|| {
            let [first, second] =
                [&mut first, &mut second].map(|half| half.kept.take().unwrap_or_else(|| vec![true; half.rows]));
            [first, second].concat()
        });
        first.left_out.add(second.left_out);
        Ok(DecodedColumns { columns, rows: first.rows + second.rows, kept, left_out: first.left_out })
    }

    /// A message that is no row, or several.
    fn not_one_row(&self, decoded: DecodedColumns, message: &[u8]) -> Result<DecodedColumns, SourceError> {
        let mut left_out = decoded.left_out;
        if decoded.rows > 1 {
            let error = SourceError::Row {
                place: self.decoder.place.clone(),
                row: 0,
                column: self.decoder.schema.fields().first().map_or("", |field| field.name()).to_owned(),
                value: String::from_utf8_lossy(message).trim_end().chars().take(VALUE_CHARACTERS_MAX).collect(),
                problem: format!("has {} rows, and a message is one row", decoded.rows),
            };
            if self.decoder.on_error == OnError::Fail {
                return Err(error);
            }
            left_out
                .rejected
                .push(|| RejectedRow { error, row: String::from_utf8_lossy(message).trim_end().to_owned() });
        }
        Ok(DecodedColumns { kept: Some(vec![false]), left_out, ..self.nothing(1) })
    }

    /// So many rows of NULLs.
    fn nothing(&self, rows: usize) -> DecodedColumns {
        let null = |field: &arrow::datatypes::FieldRef| new_null_array(field.data_type(), rows);
        let columns = self.decoder.schema.fields().iter().map(null).collect();
        DecodedColumns { columns, rows, kept: None, left_out: LeftOut::of_rows(self.decoder.on_error.keeps_all()) }
    }
}

/// The error of a message with so many before it.
fn moved(error: SourceError, by: usize) -> SourceError {
    match error {
        SourceError::Row { place, row, column, value, problem } => {
            SourceError::Row { place, row: row + by as u64, column, value, problem }
        }
        other => other,
    }
}

/// Encodes rows as messages, or as keys of some.
pub(crate) enum MessageEncoder {
    Text(TextWriter),
    Raw(RawFormat),
    Avro(Box<AvroEncoder>),
    Debezium(DebeziumEncoder),
    Protobuf(ProtobufEncoder),
}

impl MessageEncoder {
    /// Which rows have no message, as NULL has none that is raw.
    pub(crate) fn nulls(&self, batch: &RecordBatch) -> Option<NullBuffer> {
        match self {
            MessageEncoder::Raw(_) => batch.column(0).nulls().cloned(),
            _ => None,
        }
    }

    /// Appends the rows of a batch, and where each ends.
    ///
    /// # Errors
    /// What cannot be written.
    pub(crate) fn encode(
        &mut self,
        batch: &RecordBatch,
        out: &mut Vec<u8>,
        ends: &mut Vec<usize>,
    ) -> Result<(), String> {
        match self {
            MessageEncoder::Text(writer) => writer.write_messages(batch, out, ends),
            MessageEncoder::Raw(format) => raw::encode(format, batch.column(0), out, ends),
            MessageEncoder::Avro(encoder) => encoder.encode(batch, out, ends),
            MessageEncoder::Debezium(encoder) => encoder.encode(batch, out, ends),
            MessageEncoder::Protobuf(encoder) => encoder.encode(batch, out, ends),
        }
    }
}

#[cfg(test)]
mod tests;
