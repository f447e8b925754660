//! Avro: `avro`, whose schema is that of the table's columns, as in Flink, and `avro-confluent`, where each message names the schema that it was written by, which a registry
//! has.

mod http;

mod registry;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::{CastOptions, cast_with_options, concat};
use arrow::datatypes::{DataType, SchemaRef};
use arrow_avro::reader::{Decoder, ReaderBuilder};
use arrow_avro::schema::{
    AvroSchema, Fingerprint, FingerprintAlgorithm, FingerprintStrategy, SCHEMA_METADATA_KEY, SchemaStore,
};
use arrow_avro::writer::format::{AvroBinaryFormat, AvroSoeFormat};
use arrow_avro::writer::{Encoder, WriterBuilder};
use pelton_runtime::source::SourceError;

use super::halves::{Halves, Rejection};
use crate::ConnectorError;
use crate::format::avro::schema::{self, Timestamps};
use crate::format::on_error::OnError;
use crate::format::rows::DecodedColumns;
use crate::options::Options;
use registry::Registry;

/// Confluent's wire format: a zero, the number of the schema, and the record.
const MAGIC: u8 = 0;
const HEADER_BYTES: usize = 5;

/// The number of the schema of messages that have none.
const OWN_SCHEMA: u32 = 0;

/// How records are encoded.
#[derive(Debug, Clone)]
pub(crate) struct AvroFormat {
    pub(crate) on_error: OnError,
    timestamps: Timestamps,
    /// Where schemas are, if messages name them.
    registry: Option<Registry>,
    /// What the schema of written messages is called in the registry.
    subject: Option<String>,
}

impl AvroFormat {
    pub(crate) fn of(options: &Options) -> Result<AvroFormat, ConnectorError> {
        Ok(AvroFormat {
            on_error: OnError::new(options, None)?,
            timestamps: Timestamps::of(options)?,
            registry: None,
            subject: None,
        })
    }

    /// Of messages that name their schemas.
    pub(crate) fn confluent(options: &Options) -> Result<AvroFormat, ConnectorError> {
        let registry = Registry::of(options)?;
        let subject = options.text("avro-confluent.subject").map(str::to_owned);
        // Confluent's serializers have both kinds of timestamps.
        let timestamps = Timestamps { are_legacy: true };
        Ok(AvroFormat { on_error: OnError::new(options, None)?, timestamps, registry: Some(registry), subject })
    }

    /// Whether messages begin with the number of their schema.
    pub(crate) fn names_schemas(&self) -> bool {
        self.registry.is_some()
    }

    /// Refuses a column that Avro has no values for, or whose name it does not take.
    pub(crate) fn check_column(&self, name: &str, data_type: &DataType) -> Result<(), ConnectorError> {
        schema::check(name, data_type, self.timestamps).map_err(|problem| ConnectorError::column(name, problem))
    }

    pub(crate) fn decoder(
        &self,
        all: &SchemaRef,
        wanted: &[usize],
        place: &str,
    ) -> Result<AvroDecoder, ConnectorError> {
        // Something must be decoded, so that rows are counted.
        let decoded = if wanted.is_empty() { &[0] } else { wanted };
        let delivered = Arc::new(all.project(decoded).expect("wanted columns are among all"));
        let json = |schema: &SchemaRef| {
            schema::record(schema, self.timestamps).map_err(|problem| ConnectorError::option("format", problem))
        };
        Ok(AvroDecoder {
            place: place.to_owned(),
            on_error: self.on_error,
            reader: json(&delivered)?,
            writer: json(all)?,
            schema: delivered,
            width: wanted.len(),
            registry: self.registry.clone(),
        })
    }

    /// An encoder of columns. `subject` is what their schema is called in a registry, unless the table says so.
    pub(crate) fn encoder(&self, schema: &SchemaRef, subject: String) -> Result<AvroEncoder, ConnectorError> {
        let json =
            schema::record(schema, self.timestamps).map_err(|problem| ConnectorError::option("format", problem))?;
        let subject = self.subject.clone().unwrap_or(subject);
        let registry = self.registry.clone().map(|registry| (registry, subject));
        let metadata = HashMap::from([(SCHEMA_METADATA_KEY.to_owned(), json.clone())]);
        let native = schema::native(schema, self.timestamps).with_metadata(metadata);
        Ok(AvroEncoder { json, native: Arc::new(native), registry, encoder: None })
    }
}

/// What stands before a record, so that all are in Confluent's wire format.
pub(super) fn own_header() -> [u8; HEADER_BYTES] {
    let [a, b, c, d] = OWN_SCHEMA.to_be_bytes();
    [MAGIC, a, b, c, d]
}

/// Decodes messages.
pub(crate) struct AvroDecoder {
    place: String,
    on_error: OnError,
    /// The schema of the delivered columns,
    reader: String,
    /// and of messages that do not name theirs.
    writer: String,
    schema: SchemaRef,
    /// How many columns are wanted.
    width: usize,
    registry: Option<Registry>,
}

impl AvroDecoder {
    /// A row for each message.
    ///
    /// # Errors
    /// Where a message is no such record, and such are not left out; where the registry does not answer.
    pub(crate) fn decode(&self, bytes: &[u8], ends: &[u32]) -> Result<DecodedColumns, SourceError> {
        let store = self.store(bytes, ends)?;
        let attempt = |messages: &mut dyn Iterator<Item = &[u8]>, count| self.attempt(&store, messages, count);
        let halves = Halves {
            place: &self.place,
            schema: &self.schema,
            on_error: self.on_error,
            bytes,
            ends,
            attempt: &attempt,
        };
        let mut decoded = halves.decode()?;
        decoded.columns.truncate(self.width);
        Ok(decoded)
    }

    /// The schemas of the messages, of which wrong ones have none.
    fn store(&self, bytes: &[u8], ends: &[u32]) -> Result<BTreeMap<u32, String>, SourceError> {
        let Some(registry) = &self.registry else { return Ok(BTreeMap::from([(OWN_SCHEMA, self.writer.clone())])) };
        let mut schemas = BTreeMap::new();
        let mut start = 0;
        for &end in ends {
            let message = &bytes[start as usize..end as usize];
            start = end;
            if let Some(number) = schema_number(message)
                && !schemas.contains_key(&number)
            {
                let found = registry.schema(number);
                let input = |problem| SourceError::Input { place: self.place.clone(), problem };
                if let Some(schema) = found.map_err(input)? {
                    schemas.insert(number, schema);
                }
            }
        }
        Ok(schemas)
    }

    fn builder(&self, schemas: &BTreeMap<u32, String>, first: u32, rows: usize) -> Result<Decoder, String> {
        let mut store = SchemaStore::new_with_type(FingerprintAlgorithm::Id);
        for (&number, schema) in schemas {
            let set = store.set(Fingerprint::Id(number), AvroSchema::new(schema.clone()));
            set.map_err(|error| error.to_string())?;
        }
        let builder = ReaderBuilder::new()
            .with_batch_size(rows + 1)
            // Views come without their NULLs.
            .with_utf8_view(false)
            .with_reader_schema(AvroSchema::new(self.reader.clone()))
            .with_active_fingerprint(Fingerprint::Id(first))
            .with_writer_schema_store(store);
        builder.build_decoder().map_err(|error| format!("its schema does not fit the table: {error}"))
    }

    /// The columns of messages, all of which must be right.
    fn attempt(
        &self,
        schemas: &BTreeMap<u32, String>,
        messages: &mut dyn Iterator<Item = &[u8]>,
        rows: usize,
    ) -> Result<Vec<ArrayRef>, Rejection> {
        let mut open: Option<(u32, Decoder)> = None;
        let mut batches = Vec::new();
        let wrong = |problem: String| Rejection::of(format!("is no such Avro record: {problem}"));
        for message in messages {
            let number = schema_number(message).ok_or_else(|| {
                Rejection::of("is not in Confluent's wire format: a zero and the number of a schema".to_owned())
            })?;
            if !schemas.contains_key(&number) {
                return Err(Rejection::of(format!("names the schema {number}, which the registry does not have")));
            }
            let (current, decoder) = match &mut open {
                Some(open) => open,
                None => open.insert((number, self.builder(schemas, number, rows).map_err(Rejection::of)?)),
            };
            if *current != number {
                // Rows of another schema are a batch of their own.
                batches.extend(decoder.flush().map_err(|error| wrong(error.to_string()))?);
                *current = number;
            }
            let room = decoder.capacity();
            let read = decoder.decode(message).map_err(|error| wrong(error.to_string()))?;
            if read != message.len() || room - decoder.capacity() != 1 {
                return Err(wrong("it is shorter or longer".to_owned()));
            }
        }
        if let Some((_, decoder)) = &mut open {
            batches.extend(decoder.flush().map_err(|error| wrong(error.to_string()))?);
        }
        self.schema
            .fields()
            .iter()
            .enumerate()
            .map(|(index, field)| column(&batches, index, field.data_type()))
            .collect()
    }
}

/// A column of batches, in the type of the table.
fn column(batches: &[RecordBatch], index: usize, data_type: &DataType) -> Result<ArrayRef, Rejection> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let columns: Result<Vec<ArrayRef>, _> =
        batches.iter().map(|batch| cast_with_options(batch.column(index), data_type, &options)).collect();
    let columns = columns.map_err(|error| Rejection::of_column(index, error.to_string()))?;
    let columns: Vec<&dyn Array> = columns.iter().map(|column| column.as_ref()).collect();
    match columns.as_slice() {
        [] => Ok(new_null_array(data_type, 0)),
        columns => concat(columns).map_err(|error| Rejection::of(error.to_string())),
    }
}

/// The number of the schema that a message names.
fn schema_number(message: &[u8]) -> Option<u32> {
    match message {
        [MAGIC, a, b, c, d, ..] => Some(u32::from_be_bytes([*a, *b, *c, *d])),
        _ => None,
    }
}

/// Encodes rows as messages.
pub(crate) struct AvroEncoder {
    json: String,
    native: SchemaRef,
    /// Where the schema is kept, and what it is called there.
    registry: Option<(Registry, String)>,
    /// When the first row has come.
    encoder: Option<Encoder>,
}

impl AvroEncoder {
    /// Appends the rows of a batch, and where each ends.
    ///
    /// # Errors
    /// What cannot be written, or why the registry does not take the schema.
    pub(crate) fn encode(
        &mut self,
        batch: &RecordBatch,
        out: &mut Vec<u8>,
        ends: &mut Vec<usize>,
    ) -> Result<(), String> {
        let encoder = match &mut self.encoder {
            Some(encoder) => encoder,
            None => {
                let builder = WriterBuilder::new(self.native.as_ref().clone());
                let built = match &self.registry {
                    Some((registry, subject)) => {
                        let number = registry.register(subject, &self.json)?;
                        builder
                            .with_fingerprint_strategy(FingerprintStrategy::Id(number))
                            .build_encoder::<AvroSoeFormat>()
                    }
                    None => builder.build_encoder::<AvroBinaryFormat>(),
                };
                self.encoder.insert(built.map_err(|error| error.to_string())?)
            }
        };
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let cast = |(column, field): (&ArrayRef, &arrow::datatypes::FieldRef)| {
            cast_with_options(column, field.data_type(), &options)
        };
        let columns: Result<Vec<ArrayRef>, _> = batch.columns().iter().zip(self.native.fields()).map(cast).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let native =
            columns.and_then(|columns| RecordBatch::try_new_with_options(self.native.clone(), columns, &options));
        encoder.encode(&native.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
        let rows = encoder.flush();
        let before = out.len();
        out.extend_from_slice(rows.bytes());
        ends.extend(rows.offsets().iter().skip(1).map(|end| before + end));
        Ok(())
    }
}
