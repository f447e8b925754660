//! From messages of a partition to rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{Schema, SchemaRef};
use pelton_data::Provenance;
use pelton_runtime::source::{Decoded, LeftOut, RejectedRow, Rows, SourceError};
use rdkafka::Message;
use rdkafka::message::BorrowedMessage;

use super::metadata::{MetadataColumn, MetadataValues};
use crate::format::message::{MessageDecoder, MessageFormat, Payloads};
use crate::format::on_error::OnError;
use crate::format::rows::DecodedColumns;
use crate::{ConnectorError, TableRequest};

/// Where a delivered column comes from.
#[derive(Debug, Clone)]
pub(super) enum Origin {
    /// The value: an index into its columns.
    Value(usize),
    /// The key: an index into its columns.
    Key(usize),
    Metadata(MetadataColumn),
}

/// What is in messages, and how.
pub(super) struct Layout {
    pub(super) key_format: Option<MessageFormat>,
    pub(super) value_format: MessageFormat,
    /// All columns of keys, as keys name them,
    pub(super) key: SchemaRef,
    /// and of values.
    pub(super) value: SchemaRef,
}

/// How messages are read into the rows of a table.
pub(super) struct MessageReading {
    layout: Layout,
    /// What is delivered, a column for each of `origins`.
    schema: SchemaRef,
    origins: Vec<Origin>,
    /// The wanted columns of values and of keys, in the order of `origins`.
    values_wanted: Vec<usize>,
    keys_wanted: Vec<usize>,
}

/// Values, or keys, of messages: of those that have one.
#[derive(Debug)]
struct Parts {
    payloads: Payloads,
    /// For each message whether it has one; all do where there is no list.
    present: Option<Vec<bool>>,
}

impl Parts {
    fn new(format: &MessageFormat) -> Parts {
        Parts { payloads: Payloads::new(format.framing()), present: None }
    }

    /// Adds that of the next message, before which there are so many.
    fn push(&mut self, payload: Option<&[u8]>, before: usize) {
        match (payload, &mut self.present) {
            (Some(_), None) => {}
            (payload, present) => present.get_or_insert_with(|| vec![true; before]).push(payload.is_some()),
        }
        if let Some(payload) = payload {
            self.payloads.push(payload);
        }
    }
}

/// Messages of one partition, not decoded yet.
pub(super) struct MessageChunk {
    /// The partition, for messages.
    place: Arc<str>,
    offsets: Vec<i64>,
    values: Parts,
    /// Where columns come from keys.
    keys: Option<Parts>,
    metadata: MetadataValues,
    skips_empty: bool,
}

impl MessageChunk {
    pub(super) fn push(&mut self, message: &BorrowedMessage<'_>) {
        let value = message.payload();
        if self.skips_empty && value.is_none_or(<[u8]>::is_empty) {
            return;
        }
        let before = self.offsets.len();
        self.offsets.push(message.offset());
        self.values.push(value, before);
        if let Some(keys) = &mut self.keys {
            keys.push(message.key(), before);
        }
        self.metadata.push(message);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.offsets.len()
    }

    pub(super) fn bytes_len(&self) -> usize {
        self.values.payloads.bytes_len() + self.keys.as_ref().map_or(0, |keys| keys.payloads.bytes_len())
    }

    /// An error of the message with this index, in the place of a line.
    fn located(&self, error: SourceError) -> SourceError {
        match error {
            SourceError::Row { row, column, value, problem, .. } => SourceError::Message {
                place: self.place.to_string(),
                offset: self.offsets[row as usize],
                column,
                value,
                problem,
            },
            other => other,
        }
    }
}

impl MessageReading {
    /// # Errors
    /// Where the formats cannot be read into the columns.
    pub(super) fn new(
        request: &TableRequest,
        layout: Layout,
        origins: Vec<Origin>,
    ) -> Result<MessageReading, ConnectorError> {
        let delivered = request.columns.iter().enumerate().map(|(delivered, &index)| {
            // A row whose event time is NULL can be placed nowhere: it is as wrong as any other that does not fit the table.
            let is_event_time = request.event_time.is_some_and(|time| time.index == delivered);
            let field = request.schema.field(index);
            Arc::new(field.clone().with_nullable(field.is_nullable() && !is_event_time))
        });
        let schema = Arc::new(Schema::new(delivered.collect::<Vec<_>>()));
        let of_value = |origin: &Origin| if let Origin::Value(index) = origin { Some(*index) } else { None };
        let of_key = |origin: &Origin| if let Origin::Key(index) = origin { Some(*index) } else { None };
        let values_wanted = origins.iter().filter_map(of_value).collect();
        let keys_wanted = origins.iter().filter_map(of_key).collect();
        let mut reading = MessageReading { layout, schema, origins, values_wanted, keys_wanted };
        reading.require_event_time();
        // What is wrong with the columns comes up now, and not with the first message.
        reading.value_decoder("")?;
        reading.key_decoder("")?;
        Ok(reading)
    }

    /// Has decoders refuse rows without an event time: it is NOT NULL where it comes from.
    fn require_event_time(&mut self) {
        for (origin, field) in self.origins.iter().zip(self.schema.fields()).filter(|(_, field)| !field.is_nullable()) {
            let (schema, index) = match origin {
                Origin::Value(index) => (&mut self.layout.value, *index),
                Origin::Key(index) => (&mut self.layout.key, *index),
                Origin::Metadata(_) => continue,
            };
            debug_assert!(schema.field(index).data_type() == field.data_type());
            let mut fields: Vec<_> = schema.fields().to_vec();
            fields[index] = Arc::new(schema.field(index).clone().with_nullable(false));
            *schema = Arc::new(Schema::new(fields));
        }
    }

    /// An empty chunk of a partition.
    pub(super) fn chunk(&self, place: Arc<str>, topic: Arc<str>, partition: i32) -> MessageChunk {
        let metadata = self.origins.iter().filter_map(|origin| match origin {
            Origin::Metadata(column) => Some(column),
            _ => None,
        });
        MessageChunk {
            place,
            offsets: Vec::new(),
            values: Parts::new(&self.layout.value_format),
            keys: self.key_format().map(Parts::new),
            metadata: MetadataValues::new(topic, partition, metadata),
            skips_empty: self.layout.value_format.skips_empty(),
        }
    }

    /// The format of keys, where a column comes from them.
    fn key_format(&self) -> Option<&MessageFormat> {
        self.layout.key_format.as_ref().filter(|_| !self.keys_wanted.is_empty())
    }

    fn value_decoder(&self, place: &str) -> Result<MessageDecoder, ConnectorError> {
        self.layout.value_format.decoder(&self.layout.value, &self.values_wanted, place)
    }

    fn key_decoder(&self, place: &str) -> Result<Option<MessageDecoder>, ConnectorError> {
        self.key_format().map(|format| format.decoder(&self.layout.key, &self.keys_wanted, place)).transpose()
    }

    /// The rows of a chunk.
    ///
    /// # Errors
    /// Where a message does not fit the table, and such are not left out.
    pub(super) fn decode(&self, mut chunk: MessageChunk) -> Result<Decoded, SourceError> {
        let place = chunk.place.clone();
        let input = |problem: String| SourceError::Input { place: place.to_string(), problem };
        let rows = chunk.len();
        let value_decoder = self.value_decoder(&place).map_err(|error| input(error.to_string()))?;
        let key_decoder = self.key_decoder(&place).map_err(|error| input(error.to_string()))?;
        let values = std::mem::replace(&mut chunk.values, Parts::new(&self.layout.value_format));
        let values = self.decode_parts(&chunk, (values, &self.values_wanted), &value_decoder, &self.layout.value)?;
        let keys = match (chunk.keys.take(), key_decoder) {
            (Some(keys), Some(decoder)) => {
                Some(self.decode_parts(&chunk, (keys, &self.keys_wanted), &decoder, &self.layout.key)?)
            }
            _ => None,
        };
        let (mut of_values, mut of_keys) = (values.columns.into_iter(), None);
        let (mut kept, mut left_out) = (values.kept, values.left_out);
        if let Some(keys) = keys {
            of_keys = Some(keys.columns.into_iter());
            left_out.add(keys.left_out);
            kept = match (kept, keys.kept) {
                (Some(a), Some(b)) => Some(a.into_iter().zip(b).map(|(a, b)| a && b).collect()),
                (a, b) => a.or(b),
            };
        }
        let columns = self.origins.iter().zip(self.schema.fields()).map(|(origin, field)| match origin {
            Origin::Value(_) => of_values.next().expect("one a column"),
            Origin::Key(_) => of_keys.as_mut().and_then(Iterator::next).expect("one a column"),
            Origin::Metadata(column) => chunk.metadata.column(column, field.data_type(), &chunk.offsets),
        });
        let columns: Vec<ArrayRef> = columns.collect();
        let is_dense = chunk.offsets.last().is_some_and(|last| last - chunk.offsets[0] + 1 == rows as i64);
        let provenance = (kept.is_none() && is_dense)
            .then(|| Provenance { input: place.clone(), first_row: chunk.offsets[0].unsigned_abs() });
        let decoded = DecodedColumns { columns, rows, kept, left_out: LeftOut::default() };
        let batch = decoded.into_batch(&self.schema).map_err(|error| input(error.to_string()))?;
        Ok(Decoded { rows: Rows::Batches(vec![batch]), left_out, provenance })
    }

    /// The columns of values or of keys: NULL where a message has none.
    fn decode_parts(
        &self,
        chunk: &MessageChunk,
        (parts, wanted): (Parts, &[usize]),
        decoder: &MessageDecoder,
        schema: &SchemaRef,
    ) -> Result<DecodedColumns, SourceError> {
        let Parts { payloads, present } = parts;
        // Message by its place among those that have one.
        let messages: Option<Vec<u64>> = present.as_ref().map(|present| {
            let messages = (0..).zip(present).filter(|(_, present)| **present);
            messages.map(|(message, _)| message).collect()
        });
        let located = |error: SourceError| match (error, &messages) {
            (SourceError::Row { place, row, column, value, problem }, Some(messages)) => {
                chunk.located(SourceError::Row { place, row: messages[row as usize], column, value, problem })
            }
            (error, _) => chunk.located(error),
        };
        let mut decoded = decoder.decode(payloads).map_err(located)?;
        for row in decoded.left_out.rejected.first.iter_mut().chain(&mut decoded.left_out.nulled.first) {
            row.error = located(row.error.clone());
        }
        let Some(present) = present else { return Ok(decoded) };
        let mut next = 0;
        let indices = present.iter().map(|&is_present| {
            next += u32::from(is_present);
            is_present.then(|| next - 1)
        });
        let indices: UInt32Array = indices.collect();
        let taken = |column: &ArrayRef| take(column, &indices, None).expect("indices are those of rows");
        decoded.columns = decoded.columns.iter().map(taken).collect();
        decoded.kept = decoded.kept.map(|kept| {
            let kept_of = |row: usize| !indices.is_valid(row) || kept[indices.value(row) as usize];
            (0..indices.len()).map(kept_of).collect()
        });
        decoded.rows = present.len();
        self.refuse_absent(chunk, &present, schema, wanted, &mut decoded)?;
        Ok(decoded)
    }

    /// Leaves out messages without a value, or key, whose columns cannot be NULL.
    fn refuse_absent(
        &self,
        chunk: &MessageChunk,
        present: &[bool],
        schema: &SchemaRef,
        wanted: &[usize],
        decoded: &mut DecodedColumns,
    ) -> Result<(), SourceError> {
        let required = wanted.iter().map(|&index| schema.field(index)).find(|field| !field.is_nullable());
        let Some(field) = required else { return Ok(()) };
        for message in (0..present.len()).filter(|&message| !present[message]) {
            let error = chunk.located(SourceError::Row {
                place: String::new(),
                row: message as u64,
                column: field.name().clone(),
                value: "NULL".to_owned(),
                problem: "stands for what the message does not have, and the column is NOT NULL".to_owned(),
            });
            if self.layout.value_format.on_error() == OnError::Fail {
                return Err(error);
            }
            decoded.kept.get_or_insert_with(|| vec![true; present.len()])[message] = false;
            decoded.left_out.rejected.push(|| RejectedRow { error, row: String::new() });
        }
        Ok(())
    }
}
