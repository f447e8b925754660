//! Avro files: blocks of records behind a header that has their schema. Whole blocks are taken off a file, and decoded side by side.

use std::collections::HashMap;
use std::io::{self, Cursor, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow_avro::compression::CompressionCodec;
use arrow_avro::reader::{Reader, ReaderBuilder};
use arrow_avro::schema::SCHEMA_METADATA_KEY;
use arrow_avro::writer::format::AvroOcfFormat;
use arrow_avro::writer::{Writer, WriterBuilder};
use pelton_data::{BLOCK_ROWS_DEFAULT, Provenance};
use pelton_runtime::pool::panic_text;
use pelton_runtime::source::{Decoded, LeftOut, Position, Rows, SourceError};

use super::columnar::{Conversion, declared};
use super::on_error::OnError;
use super::opened::{OpenedFile, problem};
use super::shape::RowShape;
use crate::ConnectorError;
use crate::options::Options;
use crate::storage::Location;
use container::{Blocks, Header};
use schema::Timestamps;

mod container;

pub(crate) mod schema;

/// How blocks of files to write may be compressed, by the names that Flink has.
const CODECS: [(&str, Option<CompressionCodec>); 4] = [
    ("null", None),
    ("deflate", Some(CompressionCodec::Deflate)),
    ("snappy", Some(CompressionCodec::Snappy)),
    ("zstandard", Some(CompressionCodec::ZStandard)),
];

/// How files are written.
#[derive(Debug, Clone)]
pub(crate) struct AvroWriting {
    timestamps: Timestamps,
    codec: Option<CompressionCodec>,
}

impl AvroWriting {
    pub(crate) fn of(options: &Options) -> Result<AvroWriting, ConnectorError> {
        let codec = options.choice("avro.codec", &CODECS)?;
        Ok(AvroWriting { timestamps: Timestamps::of(options)?, codec: codec.unwrap_or(Some(CompressionCodec::Snappy)) })
    }

    /// Refuses a column that Avro has no values for, or whose name it does not take.
    pub(crate) fn check_column(&self, name: &str, data_type: &DataType) -> Result<(), ConnectorError> {
        schema::check(name, data_type, self.timestamps).map_err(|problem| ConnectorError::column(name, problem))
    }

    /// A writer of rows with these columns.
    pub(crate) fn writer<W: Write>(&self, schema: &Schema, to: W) -> Result<AvroWriter<W>, String> {
        let json = schema::record(schema, self.timestamps)?;
        let metadata = HashMap::from([(SCHEMA_METADATA_KEY.to_owned(), json)]);
        let native = schema::native(schema, self.timestamps).with_metadata(metadata);
        let builder = WriterBuilder::new(native.clone()).with_compression(self.codec);
        let writer = builder.build::<W, AvroOcfFormat>(to).map_err(|error| error.to_string())?;
        Ok(AvroWriter { native: Arc::new(native), writer })
    }
}

/// Encodes rows, each batch as a block.
pub(crate) struct AvroWriter<W: Write> {
    native: SchemaRef,
    writer: Writer<W, AvroOcfFormat>,
}

impl<W: Write> AvroWriter<W> {
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), String> {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let columns = batch.columns().iter().zip(self.native.fields());
        let columns = columns
            .map(|(column, field)| cast_with_options(&in_utc(column, field.data_type()), field.data_type(), &options));
        let columns = columns.collect::<Result<Vec<ArrayRef>, _>>().map_err(|error| error.to_string())?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let native = RecordBatch::try_new_with_options(self.native.clone(), columns, &options);
        let native = native.map_err(|error| error.to_string())?;
        self.writer.write(&native).map_err(|error| error.to_string())
    }

    /// Writes the end, and returns where it was written to.
    pub(crate) fn finish(mut self) -> Result<W, String> {
        self.writer.finish().map_err(|error| error.to_string())?;
        Ok(self.writer.into_inner())
    }
}

/// A TIMESTAMP as the instant that Avro means by it: a cast would look for it in a calendar, which has not all of them.
fn in_utc(column: &ArrayRef, data_type: &DataType) -> ArrayRef {
    match (column.data_type(), data_type) {
        (DataType::Timestamp(unit, None), DataType::Timestamp(_, Some(zone))) => {
            let data = column.to_data().into_builder().data_type(DataType::Timestamp(*unit, Some(zone.clone())));
            make_array(data.build().expect("both have the same values"))
        }
        _ => column.clone(),
    }
}

/// Decodes the blocks of one file.
pub(crate) struct AvroDecoder {
    file: OpenedFile,
    place: String,
    header: Header,
    conversion: Conversion,
    /// The columns of the file that are decoded: one at least, so that rows are counted.
    projection: Vec<usize>,
}

fn opened(location: &Location, place: &str) -> Result<(OpenedFile, Header, Schema), ConnectorError> {
    let system = |error: io::Error| ConnectorError::place(place, problem(&error));
    let damaged = |what: String| ConnectorError::place(place, format!("is not an Avro file, or is damaged: {what}"));
    let file = OpenedFile::open(location).map_err(system)?;
    let header = Header::read(&file).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => damaged(error.to_string()),
        _ => system(error),
    })?;
    let reader = unless_damaged(|| reader(header.bytes.clone(), None)).map_err(damaged)?;
    let schema = reader.schema().as_ref().clone();
    Ok((file, header, schema))
}

fn reader(bytes: Vec<u8>, projection: Option<&[usize]>) -> Result<Reader<Cursor<Vec<u8>>>, String> {
    // Views come without their NULLs.
    let builder = ReaderBuilder::new().with_batch_size(BLOCK_ROWS_DEFAULT).with_utf8_view(false);
    let builder = match projection {
        Some(projection) => builder.with_projection(projection.to_vec()),
        None => builder,
    };
    builder.build(Cursor::new(bytes)).map_err(|error| error.to_string())
}

/// What `read` returns, or why it cannot go on: the library panics where some files are damaged.
fn unless_damaged<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|panic| Err(panic_text(panic.as_ref()).unwrap_or("it cannot be read").to_owned()))
}

/// The columns of a file, with the types that tables have for them.
pub(crate) fn declared_schema(location: &Location, place: &str) -> Result<Schema, ConnectorError> {
    let (_, _, schema) = opened(location, place)?;
    declared(&schema, place)
}

impl AvroDecoder {
    /// Reads the header of the file at `location`, and finds the wanted columns in it. `constants` are the values of the columns that are not in the data, in order.
    pub(crate) fn open(
        location: &Location,
        place: &str,
        shape: &RowShape,
        constants: Vec<ArrayRef>,
        on_error: OnError,
    ) -> Result<AvroDecoder, ConnectorError> {
        let (file, header, schema) = opened(location, place)?;
        let conversion = Conversion::new(&schema, place, shape, constants, on_error)?;
        let mut projection: Vec<usize> = conversion.file_columns().collect();
        if projection.is_empty() {
            projection.push(0);
        }
        projection.sort_unstable();
        projection.dedup();
        Ok(AvroDecoder { file, place: place.to_owned(), header, conversion, projection })
    }

    /// Takes the next blocks, and goes behind them; `None` where there are no more.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub(crate) fn blocks_after(&self, position: &mut Position) -> Result<Option<Blocks>, SourceError> {
        position.byte = position.byte.max(self.header.bytes.len() as u64);
        let blocks = Blocks::read(&self.file, &self.header, *position);
        let first_row = position.row + 1;
        if let Some(problem) = self.file.problem(false) {
            return Err(self.lost(first_row, &problem));
        }
        let blocks = blocks.map_err(|error| self.lost(first_row, &problem(&error)))?;
        if let Some(blocks) = &blocks {
            position.row += blocks.rows;
            position.byte += blocks.bytes.len() as u64;
        }
        Ok(blocks)
    }

    /// The rows of blocks.
    ///
    /// # Errors
    /// Where they cannot be decoded, or for the first row with a value that the table does not hold.
    pub(crate) fn decode(&self, blocks: Blocks) -> Result<Decoded, SourceError> {
        let Blocks { bytes, first_row, rows } = blocks;
        let whole = [self.header.bytes.as_slice(), &bytes].concat();
        let read = unless_damaged(|| {
            let reader = reader(whole, Some(&self.projection))?;
            reader.map(|batch| batch.map_err(|error| error.to_string())).collect::<Result<Vec<RecordBatch>, _>>()
        });
        let damaged = |what: String| SourceError::Input {
            place: self.place.clone(),
            problem: format!("the rows from {first_row} on cannot be decoded, the file is damaged: {what}"),
        };
        let read = read.map_err(damaged)?;
        let found: u64 = read.iter().map(|batch| batch.num_rows() as u64).sum();
        if found != rows {
            return Err(damaged(format!("blocks of {rows} rows have {found}")));
        }
        let (mut left_out, mut next_row) = (LeftOut::default(), first_row);
        let mut batches = Vec::with_capacity(read.len());
        for batch in read {
            batches.push(self.conversion.convert(&batch, next_row, &mut left_out)?);
            next_row += batch.num_rows() as u64;
        }
        let provenance = Provenance { input: Arc::from(self.place.as_str()), first_row };
        let provenance = (left_out.rejected.count == 0).then_some(provenance);
        Ok(Decoded { rows: Rows::Batches(batches), left_out, provenance })
    }

    fn lost(&self, first_row: u64, problem: &str) -> SourceError {
        let problem = format!("the rows from {first_row} on are not there: {problem}");
        SourceError::Input { place: self.place.clone(), problem }
    }
}
