//! A file that is being written.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use pelton_runtime::sink::SinkError;

use super::files::problem;
use super::part_file::{PartFile, Publication, UNFINISHED, remove_unfinished, temporary};
use crate::ConnectorError;
use crate::format::Format;
use crate::format::avro::AvroWriter;
use crate::format::compression::Compression;
use crate::format::write::TextWriter;
use crate::random::unique;
use crate::storage::Location;

/// Encoded bytes that are handed to the file at once.
const WRITE_BYTES: usize = 256 << 10;

/// Where a file is written.
pub(super) struct Target {
    /// Where it is when it is complete.
    pub location: Location,
    pub file: PartFile,
    /// There are rows in the file before the first that is written.
    pub has_rows: bool,
}

/// A file that is being written under a temporary name. Dropping it before it is closed removes it.
pub(super) struct Part {
    location: Location,
    schema: SchemaRef,
    encoder: Encoder,
    /// Bytes that are in the file.
    written: Arc<AtomicU64>,
    /// Of a file of lines, those written, compressed or not, and those that it had before.
    text_bytes: u64,
    /// How it is made visible, once it is closed.
    publication: Option<Publication>,
    /// Whether it stays under its temporary name.
    is_kept: bool,
}

enum Encoder {
    Text { writer: TextWriter, buffer: Vec<u8>, output: Output },
    Parquet(Option<ArrowWriter<PartFile>>),
    Avro(Option<AvroWriter<PartFile>>),
}

impl Part {
    pub fn new(target: Target, format: &Format, schema: &SchemaRef) -> Result<Part, ConnectorError> {
        let Target { location, file, has_rows } = target;
        let place = location.to_string();
        let size = file.size().map_err(|error| ConnectorError::place(&place, problem(&error)))?;
        let written = file.written();
        let schema = written_schema(schema, format);
        let encoder = match format {
            Format::Text(text) => {
                let names = schema.fields().iter().map(|field| field.name().clone()).collect();
                let output = Output::new(location.path(), BufWriter::with_capacity(WRITE_BYTES, file))
                    .map_err(|error| ConnectorError::place(&place, problem(&error)))?;
                Encoder::Text { writer: TextWriter::new(text, names, has_rows), buffer: Vec::new(), output }
            }
            Format::Avro { writing, .. } => {
                let writer = writing.writer(&schema, file).map_err(|problem| ConnectorError::place(&place, problem))?;
                Encoder::Avro(Some(writer))
            }
            Format::Parquet { compression, .. } => {
                let properties = WriterProperties::builder().set_compression(*compression).build();
                let writer = ArrowWriter::try_new(file, schema.clone(), Some(properties))
                    .map_err(|error| ConnectorError::place(&place, parquet_problem(error)))?;
                Encoder::Parquet(Some(writer))
            }
        };
        Ok(Part { location, schema, encoder, written, text_bytes: size, publication: None, is_kept: false })
    }

    fn error(&self, problem: impl ToString) -> SinkError {
        SinkError { place: self.location.to_string(), problem: problem.to_string() }
    }

    /// The path that it gets.
    pub fn path(&self) -> &Path {
        self.location.path()
    }

    /// The rows with exactly the file's types: strings may come as dictionaries.
    fn conform(&self, rows: &RecordBatch) -> Result<RecordBatch, SinkError> {
        let options = CastOptions { safe: false, ..Default::default() };
        let columns: Result<Vec<_>, _> = rows
            .columns()
            .iter()
            .zip(self.schema.fields())
            .map(|(column, field)| match column.data_type() == field.data_type() {
                true => Ok(column.clone()),
                false => cast_with_options(column, field.data_type(), &options),
            })
            .collect();
        let columns = columns.map_err(|error| self.error(error))?;
        RecordBatch::try_new(self.schema.clone(), columns).map_err(|error| self.error(error))
    }

    /// Takes rows.
    pub fn write(&mut self, rows: &RecordBatch) -> Result<(), SinkError> {
        let rows = self.conform(rows)?;
        let result = match &mut self.encoder {
            Encoder::Text { writer, buffer, output } => {
                let encoded = writer.begin(buffer).and_then(|()| writer.write(&rows, buffer));
                encoded.and_then(|()| {
                    self.text_bytes += buffer.len() as u64;
                    let written = output.write_all(buffer).map_err(|error| problem(&error));
                    buffer.clear();
                    written
                })
            }
            Encoder::Avro(writer) => writer.as_mut().expect("nothing is written after the end").write(&rows),
            Encoder::Parquet(writer) => {
                let writer = writer.as_mut().expect("nothing is written after the end");
                writer.write(&rows).map_err(parquet_problem)
            }
        };
        result.map_err(|problem| self.error(problem))
    }

    /// How many bytes it has, about: what is encoded is not in the file yet.
    pub fn bytes(&self) -> u64 {
        match &self.encoder {
            Encoder::Text { .. } => self.text_bytes,
            // Blocks are in the file as soon as they are written.
            Encoder::Avro(_) => self.written.load(Ordering::Relaxed),
            Encoder::Parquet(writer) => {
                writer.as_ref().map_or(0, |writer| (writer.bytes_written() + writer.in_progress_size()) as u64)
            }
        }
    }

    /// Bytes of rows that wait in memory to be encoded with others.
    pub fn buffered_bytes(&self) -> usize {
        match &self.encoder {
            Encoder::Text { .. } | Encoder::Avro(_) => 0,
            Encoder::Parquet(writer) => writer.as_ref().map_or(0, ArrowWriter::memory_size),
        }
    }

    /// Encodes rows that wait in memory for others.
    pub fn encode(&mut self) -> Result<(), SinkError> {
        let result = match &mut self.encoder {
            Encoder::Parquet(Some(writer)) => writer.flush().map_err(parquet_problem),
            Encoder::Text { .. } | Encoder::Avro(_) | Encoder::Parquet(None) => Ok(()),
        };
        result.map_err(|problem| self.error(problem))
    }

    /// Makes the lines so far durable, and returns their bytes.
    pub fn sync(&mut self) -> Result<u64, SinkError> {
        let bytes = match &mut self.encoder {
            Encoder::Text { output: Output::Plain(file), .. } => file.flush().and_then(|()| file.get_ref().sync()),
            _ => unreachable!("only plain text is whole before its end"),
        };
        bytes.map_err(|error| self.error(problem(&error)))
    }

    /// Keeps the file under its temporary name, also where it is not closed.
    pub fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Brings lines into the file. A Parquet file has no use before its end.
    pub fn flush(&mut self) -> Result<(), SinkError> {
        let result = match &mut self.encoder {
            Encoder::Text { output, .. } => output.flush(),
            Encoder::Parquet(_) | Encoder::Avro(_) => Ok(()),
        };
        result.map_err(|error| self.error(problem(&error)))
    }

    /// Writes the end, after the last row. From then on the file stays, under its temporary name.
    pub fn close(&mut self, is_durable: bool) -> Result<&Publication, SinkError> {
        let end = |file: &mut PartFile| file.end(is_durable);
        let result = match &mut self.encoder {
            Encoder::Text { writer, buffer, output } => writer.begin(buffer).and_then(|()| {
                let written = output.write_all(buffer).and_then(|()| output.finish().and_then(end));
                written.map_err(|error| problem(&error))
            }),
            Encoder::Avro(writer) => {
                let file = writer.take().expect("the end comes once").finish();
                file.and_then(|mut file| end(&mut file).map_err(|error| problem(&error)))
            }
            Encoder::Parquet(writer) => {
                let writer = writer.take().expect("the end comes once");
                let file = writer.into_inner().map_err(parquet_problem);
                file.and_then(|mut file| end(&mut file).map_err(|error| problem(&error)))
            }
        };
        let publication = result.map_err(|problem| self.error(problem))?;
        Ok(self.publication.insert(publication))
    }

    /// Makes it visible, behind its end.
    pub fn publish(&self) -> Result<(), SinkError> {
        let publication = self.publication.as_ref().expect("it is closed");
        publication.publish(&self.location).map_err(|error| self.error(problem(&error)))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.publication.is_none() && !self.is_kept {
            remove_unfinished(&self.location);
        }
    }
}

/// Why a Parquet file cannot be written, without the name of the error.
fn parquet_problem(error: ParquetError) -> String {
    match error {
        ParquetError::General(message) | ParquetError::ArrowError(message) => message,
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => problem(&error),
            Err(error) => error.to_string(),
        },
        other => other.to_string(),
    }
}

/// The types that a file has: Parquet knows no whole seconds, which others would take for numbers.
fn written_schema(schema: &SchemaRef, format: &Format) -> SchemaRef {
    if !matches!(format, Format::Parquet { .. }) {
        return schema.clone();
    }
    with_time_units(schema, |unit| if unit == TimeUnit::Second { TimeUnit::Millisecond } else { unit })
}

/// The same columns, with other units of times.
pub(super) fn with_time_units(schema: &SchemaRef, unit: impl Fn(TimeUnit) -> TimeUnit + Copy) -> SchemaRef {
    Arc::new(Schema::new(schema.fields().iter().map(|field| with_time_unit(field, unit)).collect::<Vec<_>>()))
}

fn with_time_unit(field: &FieldRef, unit: impl Fn(TimeUnit) -> TimeUnit + Copy) -> FieldRef {
    let written = match field.data_type() {
        DataType::Timestamp(own, zone) => DataType::Timestamp(unit(*own), zone.clone()),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| with_time_unit(field, unit)).collect()),
        DataType::List(item) => DataType::List(with_time_unit(item, unit)),
        DataType::Map(entries, is_ordered) => DataType::Map(with_time_unit(entries, unit), *is_ordered),
        _ => return field.clone(),
    };
    Arc::new(field.as_ref().clone().with_data_type(written))
}

/// A file that is not complete and of which so many bytes count: rows go behind these.
pub(super) fn resumed(location: &Location, bytes: u64) -> io::Result<Target> {
    let file = location.disk().reopen(&temporary(location.path()), bytes)?;
    Ok(Target { location: location.clone(), file: PartFile::of_file(file), has_rows: bytes > 0 })
}

/// A new part of a directory, of a number from `first` on. Another query may be writing to the directory: whoever creates the temporary file has the number.
pub(super) fn new_part(directory: &Location, job: &str, extension: &str, first: u64) -> io::Result<Target> {
    if let Some(bucket) = directory.bucket() {
        // Nobody has the name of an object before it is complete, so each writer has names of its own.
        static WRITER: OnceLock<u64> = OnceLock::new();
        static UPLOADS: AtomicU64 = AtomicU64::new(0);
        let writer = WRITER.get_or_init(unique);
        let number = UPLOADS.fetch_add(1, Ordering::Relaxed);
        let location = directory.join(format!("{}{writer:016x}-{number}.{extension}", prefix(job)));
        let file = PartFile::of_upload(bucket.upload(&location.key())?);
        return Ok(Target { location, file, has_rows: false });
    }
    for number in first.. {
        let location = directory.join(format!("{}{number}.{extension}", prefix(job)));
        let (disk, path) = (location.disk(), location.path());
        if disk.size(path).is_ok() {
            continue;
        }
        match disk.create_new(&temporary(path)) {
            Ok(file) => return Ok(Target { file: PartFile::of_file(file), location, has_rows: false }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    unreachable!("some number is free")
}

/// What the names of the parts begin with that a job writes, or an INSERT whose job has no checkpoints.
fn prefix(job: &str) -> String {
    let plain = |letter: char| if letter.is_alphanumeric() || letter == '_' { letter } else { '-' };
    match job {
        "" => "part-".to_owned(),
        job => format!("part-{}-", job.chars().map(plain).collect::<String>()),
    }
}

/// The parts of a directory, and of the partitions that are below it, that nobody writes any more, and that were not finished.
pub(super) fn left_behind(directory: &Location, job: &str, has_partitions: bool) -> io::Result<Vec<PathBuf>> {
    let mut left = Vec::new();
    if directory.bucket().is_some() {
        return Ok(left);
    }
    let prefix = format!(".{}", prefix(job));
    let disk = directory.disk();
    for name in disk.names(directory.path())? {
        let below = directory.join(&name);
        if name.starts_with(&prefix) && name.ends_with(UNFINISHED) && disk.is_left_behind(below.path()) {
            left.push(below.path().to_owned());
        } else if has_partitions && name.contains('=') && disk.size(below.path()).is_err() {
            left.extend(left_behind(&below, job, true)?);
        }
    }
    left.sort();
    Ok(left)
}

/// A file of bytes, compressed as its name tells.
enum Output {
    Plain(BufWriter<PartFile>),
    Gzip(flate2::write::GzEncoder<BufWriter<PartFile>>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<PartFile>>),
}

impl Output {
    fn new(path: &Path, file: BufWriter<PartFile>) -> io::Result<Output> {
        Ok(match Compression::of(path) {
            Compression::None => Output::Plain(file),
            Compression::Gzip => Output::Gzip(flate2::write::GzEncoder::new(file, flate2::Compression::default())),
            Compression::Zstd => Output::Zstd(zstd::stream::write::Encoder::new(file, 0)?),
        })
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Output::Plain(file) => file.write_all(bytes),
            Output::Gzip(file) => file.write_all(bytes),
            Output::Zstd(file) => file.write_all(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Plain(file) => file.flush(),
            Output::Gzip(file) => file.flush(),
            Output::Zstd(file) => file.flush(),
        }
    }

    /// Writes what a compressed file ends with, and returns the file.
    fn finish(&mut self) -> io::Result<&mut PartFile> {
        match self {
            Output::Plain(_) => {}
            Output::Gzip(file) => file.try_finish()?,
            Output::Zstd(file) => file.do_finish()?,
        }
        let file = match self {
            Output::Plain(file) => file,
            Output::Gzip(file) => file.get_mut(),
            Output::Zstd(file) => file.get_mut(),
        };
        file.flush()?;
        Ok(file.get_mut())
    }
}
