//! Protocol Buffers, whose messages are described by a file that `protoc --descriptor_set_out` has written.

mod columns;

mod values;

use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use pelton_data::spelling::closest;
use pelton_runtime::source::SourceError;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, MessageDescriptor};

use super::halves::{Halves, Rejection};
use crate::ConnectorError;
use crate::format::on_error::OnError;
use crate::format::rows::DecodedColumns;
use crate::options::Options;

const FILE: &str = "protobuf.descriptor-file";
const NAME: &str = "protobuf.message-name";

/// How messages are encoded.
#[derive(Debug, Clone)]
pub(crate) struct ProtobufFormat {
    pub(crate) on_error: OnError,
    file: String,
    name: String,
    /// Whether a field that is not there has its default, where it is known that it is not.
    reads_defaults: bool,
    /// The message's description, once it has been read.
    descriptor: Arc<OnceLock<Result<MessageDescriptor, (&'static str, String)>>>,
}

impl ProtobufFormat {
    pub(crate) fn of(options: &Options) -> Result<ProtobufFormat, ConnectorError> {
        Ok(ProtobufFormat {
            on_error: OnError::new(options, None)?,
            file: options.required(FILE, "messages.desc")?.to_owned(),
            name: options.required(NAME, "shop.Order")?.to_owned(),
            reads_defaults: options.boolean("protobuf.read-default-values")?,
            descriptor: Arc::default(),
        })
    }

    fn descriptor(&self) -> Result<MessageDescriptor, ConnectorError> {
        let read = self.descriptor.get_or_init(|| self.read_descriptor());
        read.clone().map_err(|(option, problem)| ConnectorError::option(option, problem))
    }

    fn read_descriptor(&self) -> Result<MessageDescriptor, (&'static str, String)> {
        let bytes = std::fs::read(&self.file).map_err(|error| (FILE, format!("is '{}': {error}", self.file)))?;
        let pool = DescriptorPool::decode(bytes.as_slice()).map_err(|error| {
            (FILE, format!("is '{}', and must be what `protoc --descriptor_set_out` writes: {error}", self.file))
        })?;
        pool.get_message_by_name(&self.name).ok_or_else(|| {
            let names: Vec<String> = pool.all_messages().map(|message| message.full_name().to_owned()).collect();
            let meant = closest(&self.name, names.iter().map(String::as_str));
            let meant = meant
                .map_or_else(|| format!("; it has {}", names.join(", ")), |name| format!("; did you mean '{name}'?"));
            (NAME, format!("is '{}', which '{}' does not have{meant}", self.name, self.file))
        })
    }

    /// The field of each column.
    fn fields(&self, schema: &SchemaRef) -> Result<Vec<FieldDescriptor>, ConnectorError> {
        let descriptor = self.descriptor()?;
        let find = |field: &arrow::datatypes::FieldRef| columns::field(&descriptor, field.name(), field.data_type());
        let fields = schema
            .fields()
            .iter()
            .map(|field| find(field).map_err(|problem| ConnectorError::column(field.name(), problem)));
        fields.collect()
    }

    pub(crate) fn decoder(
        &self,
        all: &SchemaRef,
        wanted: &[usize],
        place: &str,
    ) -> Result<ProtobufDecoder, ConnectorError> {
        let schema = Arc::new(all.project(wanted).expect("wanted columns are among all"));
        Ok(ProtobufDecoder {
            place: place.to_owned(),
            on_error: self.on_error,
            reads_defaults: self.reads_defaults,
            descriptor: self.descriptor()?,
            fields: self.fields(&schema)?,
            schema,
        })
    }

    pub(crate) fn encoder(&self, schema: &SchemaRef) -> Result<ProtobufEncoder, ConnectorError> {
        Ok(ProtobufEncoder { descriptor: self.descriptor()?, fields: self.fields(schema)? })
    }
}

/// Decodes messages.
pub(crate) struct ProtobufDecoder {
    place: String,
    on_error: OnError,
    reads_defaults: bool,
    descriptor: MessageDescriptor,
    /// One for each delivered column.
    fields: Vec<FieldDescriptor>,
    schema: SchemaRef,
}

impl ProtobufDecoder {
    /// A row for each message.
    ///
    /// # Errors
    /// Where one is no such message, and such are not left out.
    pub(crate) fn decode(&self, bytes: &[u8], ends: &[u32]) -> Result<DecodedColumns, SourceError> {
        let attempt = |messages: &mut dyn Iterator<Item = &[u8]>, rows| self.attempt(messages, rows);
        let (place, schema, on_error) = (self.place.as_str(), &self.schema, self.on_error);
        Halves { place, schema, on_error, bytes, ends, attempt: &attempt }.decode()
    }

    fn attempt(&self, messages: &mut dyn Iterator<Item = &[u8]>, rows: usize) -> Result<Vec<ArrayRef>, Rejection> {
        let mut decoded = Vec::with_capacity(rows);
        for message in messages {
            let message = DynamicMessage::decode(self.descriptor.clone(), message);
            decoded.push(message.map_err(|error| Rejection::of(format!("is no such message: {error}")))?);
        }
        let column = |(index, field): (usize, &FieldDescriptor)| {
            let values = decoded.iter().map(|message| columns::value_of(message, field, self.reads_defaults)).collect();
            columns::array(self.schema.field(index).data_type(), values, self.reads_defaults)
                .map_err(|problem| Rejection::of_column(index, problem))
        };
        self.fields.iter().enumerate().map(column).collect()
    }
}

/// Encodes rows as messages.
pub(crate) struct ProtobufEncoder {
    descriptor: MessageDescriptor,
    /// One for each column.
    fields: Vec<FieldDescriptor>,
}

impl ProtobufEncoder {
    /// Appends the rows of a batch, and where each ends. A field is left out where the column is NULL.
    ///
    /// # Errors
    /// What cannot be written.
    pub(crate) fn encode(
        &mut self,
        batch: &RecordBatch,
        out: &mut Vec<u8>,
        ends: &mut Vec<usize>,
    ) -> Result<(), String> {
        for row in 0..batch.num_rows() {
            let mut message = DynamicMessage::new(self.descriptor.clone());
            for (column, field) in batch.columns().iter().zip(&self.fields) {
                if let Some(value) = values::value(column, row, field)? {
                    message.set_field(field, value);
                }
            }
            message.encode(out).map_err(|error| error.to_string())?;
            ends.push(out.len());
        }
        Ok(())
    }
}

/// Refuses a column of a type that messages do not have.
pub(crate) fn check_column(name: &str, data_type: &DataType) -> Result<(), ConnectorError> {
    columns::check(data_type).map_err(|problem| ConnectorError::column(name, problem))
}
