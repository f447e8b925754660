//! Files out.
//!
//! Rows go to a file whose name begins with a dot and ends in `.inprogress`, so that no reader takes it for a table's;
//! when the last row is written it gets its name. A file of lines that is there already keeps its rows, and gets more; a Parquet file cannot. [`Sink::flush`] brings lines into that file, where people can watch them; a
//! Parquet file has no use before its end. A file that was not finished is removed. While it is written it is locked, so that one which a killed process
//! has left can be told from one that is being written.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use pelton_data::column::is_nested;
use pelton_runtime::sink::{Sink, SinkError};

use super::files::{local, problem};
use super::{MONITOR_INTERVAL, format_of_path, text_source};
use crate::format::compression::Compression;
use crate::format::csv::IGNORE_FIRST_LINE;
use crate::format::write::TextWriter;
use crate::format::{Format, TextFormat, TextKind};
use crate::options::Options;
use crate::{ConnectorError, Open, TableRequest};

/// Encoded bytes that are handed to the file at once.
const WRITE_BYTES: usize = 256 << 10;

/// Reads what the options of a table say that is written: one file where the path has a format's extension, else a new part of a directory.
pub(super) fn sink<'a>(request: &'a TableRequest, options: &'a Options) -> Result<Open<'a, dyn Sink>, ConnectorError> {
    let path = options.required("path", "/data/result.csv")?;
    let local = local(path)?;
    let named = format_of_path(local);
    let format = Format::new(options, named)?;
    // It concerns reading only, of the same table.
    options.text(MONITOR_INTERVAL);
    check_columns(request, &format)?;
    if let Format::Text(text) = &format {
        text_source::check_raw(request, text)?;
    }
    if matches!(&format, Format::Text(TextFormat { kind: TextKind::Csv(dialect), .. }) if dialect.ignores_first) {
        let problem = "is for files that are read; write them with 'csv.header' = 'true'";
        return Err(ConnectorError::option(IGNORE_FIRST_LINE, problem));
    }
    Ok(Box::new(move || open(request, Path::new(local), named.is_some(), &format)))
}

fn open(request: &TableRequest, path: &Path, is_file: bool, format: &Format) -> Result<Box<dyn Sink>, ConnectorError> {
    let target = Target::create(path, is_file, format, &request.schema)?;
    let place = target.path.to_string_lossy().into_owned();
    let schema = written_schema(&request.schema, format);
    let encoder = match format {
        Format::Text(text) => {
            let names = schema.fields().iter().map(|field| field.name().clone()).collect();
            let output = Output::new(&target.path, BufWriter::with_capacity(WRITE_BYTES, target.file))
                .map_err(|error| ConnectorError::place(&place, problem(&error)))?;
            let writer = TextWriter::new(text, names, target.has_rows);
            Encoder::Text { writer, buffer: Vec::new(), output }
        }
        Format::Parquet { compression, .. } => {
            let properties = WriterProperties::builder().set_compression(*compression).build();
            let writer = ArrowWriter::try_new(target.file, schema.clone(), Some(properties))
                .map_err(|error| ConnectorError::place(&place, parquet_problem(error)))?;
            Encoder::Parquet(Some(writer))
        }
    };
    let Target { path, temporary, left_behind, .. } = target;
    Ok(Box::new(FileSink { place, path, temporary, left_behind, schema, encoder, finished: false }))
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

fn check_columns(request: &TableRequest, format: &Format) -> Result<(), ConnectorError> {
    if let Some(&index) = request.metadata.keys().next() {
        let problem = "is metadata of files, which cannot be written; declare it VIRTUAL, and INSERT leaves it out";
        return Err(ConnectorError::column(request.schema.field(index).name(), problem));
    }
    for field in request.schema.fields() {
        if let Format::Text(format) = format
            && !format.holds(field.data_type())
        {
            let instead = if is_nested(field.data_type()) {
                "write its parts to columns of their own"
            } else {
                "cast it to STRING"
            };
            let problem = format!("{}; {instead}", format.unheld(field.data_type()));
            return Err(ConnectorError::column(field.name(), problem));
        }
    }
    Ok(())
}

/// Where a sink writes.
struct Target {
    path: PathBuf,
    temporary: PathBuf,
    file: File,
    /// There are rows in the file before the first that is written.
    has_rows: bool,
    /// Files beside it that nobody writes any more, and that were not finished.
    left_behind: Vec<PathBuf>,
}

impl Target {
    fn create(path: &Path, is_file: bool, format: &Format, schema: &Schema) -> Result<Target, ConnectorError> {
        let place = |path: &Path, error: io::Error| ConnectorError::place(path.to_string_lossy(), problem(&error));
        check_kind(path, is_file)?;
        let directory = if is_file { path.parent().unwrap_or(Path::new("")) } else { path };
        if !directory.as_os_str().is_empty() {
            fs::create_dir_all(directory).map_err(|error| place(directory, error))?;
        }
        if is_file {
            return Target::of_file(path, format, schema);
        }
        let left_behind = left_behind(directory).map_err(|error| place(directory, error))?;
        // Another query may be writing to the directory: whoever creates the temporary file has the number.
        for number in 0u64.. {
            let part = directory.join(format!("part-{number}.{}", extension(format)));
            let temporary = temporary(&part);
            if part.exists() {
                continue;
            }
            match OpenOptions::new().write(true).create_new(true).open(&temporary) {
                Ok(file) => {
                    lock(&file);
                    return Ok(Target { path: part, temporary, file, has_rows: false, left_behind });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // A name that nobody wrote says nothing: the directory is what takes no files.
                Err(error) => return Err(place(directory, error)),
            }
        }
        unreachable!("some number is free")
    }

    /// A file of this name, behind the rows that are in it.
    fn of_file(path: &Path, format: &Format, schema: &Schema) -> Result<Target, ConnectorError> {
        let temporary = temporary(path);
        let place = |error: io::Error| {
            ConnectorError::place(path.to_string_lossy(), format!("cannot be written: {}", problem(&error)))
        };
        let has_rows = fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0);
        if has_rows && matches!(format, Format::Parquet { .. }) {
            let problem = "is there already, and a Parquet file cannot grow; remove it, or name a directory, which gets a file for each INSERT";
            return Err(ConnectorError::place(path.to_string_lossy(), problem));
        }
        if has_rows {
            check_header(path, format, schema)?;
        }
        let mut file = match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let problem = match is_left_behind(&temporary) {
                    true => "was left by an INSERT that was killed, and may have rows of it; remove or rename it",
                    false => "is being written by another INSERT; wait for its end, or name another file",
                };
                return Err(ConnectorError::place(temporary.to_string_lossy(), problem));
            }
            opened => opened.map_err(place)?,
        };
        lock(&file);
        if has_rows && let Err(error) = copy_rows(path, &mut file) {
            let _ = fs::remove_file(&temporary);
            return Err(place(error));
        }
        Ok(Target { path: path.to_path_buf(), temporary, file, has_rows, left_behind: Vec::new() })
    }
}

/// Rows go to ordinary files: a file gets its name when its last row is written, which neither a pipe nor a device can.
fn check_kind(path: &Path, is_file: bool) -> Result<(), ConnectorError> {
    let Ok(metadata) = fs::metadata(path) else { return Ok(()) };
    let problem = match (is_file, metadata.is_file(), metadata.is_dir()) {
        (_, false, false) => {
            "is a pipe or a device, and rows are written to ordinary files; name one, or leave INSERT out to print rows"
        }
        (true, _, true) => {
            "is a directory, and has the name of a file; name a file, or a directory without an extension"
        }
        (false, true, _) => {
            "is a file, and its name tells no format, as those of directories do; end it in .csv, .json or .parquet"
        }
        _ => return Ok(()),
    };
    Err(ConnectorError::place(path.to_string_lossy(), problem))
}

/// Rows are read by the names of a header, and written one value behind the other: that must be the same.
fn check_header(path: &Path, format: &Format, schema: &Schema) -> Result<(), ConnectorError> {
    let Format::Text(TextFormat { kind: TextKind::Csv(dialect), .. }) = format else { return Ok(()) };
    if !dialect.header {
        return Ok(());
    }
    let names = text_source::header(path, dialect);
    let names = names.map_err(|error| ConnectorError::place(path.to_string_lossy(), problem(&error)))?;
    let columns: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    match names {
        Some(names) if names != columns => {
            let problem = format!(
                "is there already, with the header {}, and the table has the columns {}; name the same in the same order, or another file",
                names.join(", "),
                columns.join(", ")
            );
            Err(ConnectorError::place(path.to_string_lossy(), problem))
        }
        _ => Ok(()),
    }
}

/// The types that a file has: Parquet knows no whole seconds, which others would take for numbers.
fn written_schema(schema: &SchemaRef, format: &Format) -> SchemaRef {
    if matches!(format, Format::Text(_)) {
        return schema.clone();
    }
    Arc::new(Schema::new(schema.fields().iter().map(written_field).collect::<Vec<_>>()))
}

fn written_field(field: &FieldRef) -> FieldRef {
    let written = match field.data_type() {
        DataType::Timestamp(TimeUnit::Second, zone) => DataType::Timestamp(TimeUnit::Millisecond, zone.clone()),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(written_field).collect()),
        DataType::List(item) => DataType::List(written_field(item)),
        DataType::Map(entries, is_ordered) => DataType::Map(written_field(entries), *is_ordered),
        _ => return field.clone(),
    };
    Arc::new(field.as_ref().clone().with_data_type(written))
}

/// Copies the rows that are in a file, and ends the last of them.
fn copy_rows(path: &Path, to: &mut File) -> io::Result<()> {
    let mut rows = File::open(path)?;
    io::copy(&mut rows, to)?;
    let mut last = [b'\n'];
    if Compression::of(path) == Compression::None {
        rows.seek(SeekFrom::End(-1))?;
        rows.read_exact(&mut last)?;
    }
    if last == *b"\n" { Ok(()) } else { to.write_all(b"\n") }
}

fn extension(format: &Format) -> &'static str {
    match format {
        Format::Text(text) => match text.kind {
            TextKind::Csv(_) => "csv",
            TextKind::Raw(_) => "txt",
            TextKind::Json { .. } => "json",
        },
        Format::Parquet { .. } => "parquet",
    }
}

fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().map_or("".into(), |name| name.to_string_lossy());
    path.with_file_name(format!(".{name}.inprogress"))
}

/// Locks a file as long as it is open, also where its process is killed. A file system without locks has no file that is known to be left behind.
fn lock(file: &File) {
    for _ in 0..LOCK_ATTEMPTS_MAX {
        match file.try_lock() {
            // Another writer holds the lock for the moment in which it looks whether the file was left behind.
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_PAUSE),
            Ok(()) | Err(TryLockError::Error(_)) => return,
        }
    }
}

/// How often a lock is tried that another writer holds for a moment, and how long is waited between.
const LOCK_ATTEMPTS_MAX: usize = 1_000;
const LOCK_PAUSE: Duration = Duration::from_millis(1);

/// Whether nobody has a file open that was not finished.
fn is_left_behind(temporary: &Path) -> bool {
    File::open(temporary).is_ok_and(|file| file.try_lock().is_ok())
}

/// The parts of a directory that nobody writes any more, and that were not finished.
fn left_behind(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut left = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().map_or("".into(), |name| name.to_string_lossy());
        if name.starts_with(".part-") && name.ends_with(".inprogress") && is_left_behind(&path) {
            left.push(path);
        }
    }
    left.sort();
    Ok(left)
}

struct FileSink {
    place: String,
    path: PathBuf,
    temporary: PathBuf,
    left_behind: Vec<PathBuf>,
    schema: SchemaRef,
    encoder: Encoder,
    finished: bool,
}

enum Encoder {
    Text { writer: TextWriter, buffer: Vec<u8>, output: Output },
    Parquet(Option<ArrowWriter<File>>),
}

impl FileSink {
    fn error(&self, problem: impl ToString) -> SinkError {
        SinkError { place: self.place.clone(), problem: problem.to_string() }
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
}

impl Sink for FileSink {
    fn remarks(&self) -> Vec<String> {
        let remark = |path: &PathBuf| {
            format!(
                "{} was left by an INSERT that was killed, and may have rows of it; remove or rename it",
                path.display()
            )
        };
        self.left_behind.iter().map(remark).collect()
    }

    fn write(&mut self, rows: &RecordBatch) -> Result<(), SinkError> {
        let rows = self.conform(rows)?;
        let result = match &mut self.encoder {
            Encoder::Text { writer, buffer, output } => {
                let encoded = writer.begin(buffer).and_then(|()| writer.write(&rows, buffer));
                encoded.and_then(|()| {
                    let written = output.write_all(buffer).map_err(|error| problem(&error));
                    buffer.clear();
                    written
                })
            }
            Encoder::Parquet(writer) => {
                let writer = writer.as_mut().expect("nothing is written after the end");
                writer.write(&rows).map_err(parquet_problem)
            }
        };
        result.map_err(|problem| self.error(problem))
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        let result = match &mut self.encoder {
            Encoder::Text { output, .. } => output.flush(),
            Encoder::Parquet(_) => Ok(()),
        };
        result.map_err(|error| self.error(problem(&error)))
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        let result = match &mut self.encoder {
            Encoder::Text { writer, buffer, output } => writer.begin(buffer).and_then(|()| {
                let written = output.write_all(buffer).and_then(|()| output.finish());
                written.map_err(|error| problem(&error))
            }),
            Encoder::Parquet(writer) => {
                let writer = writer.take().expect("the end comes once");
                writer.close().map(|_| ()).map_err(parquet_problem)
            }
        };
        result.map_err(|problem| self.error(problem))?;
        fs::rename(&self.temporary, &self.path).map_err(|error| self.error(problem(&error)))?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for FileSink {
    fn drop(&mut self) {
        if !self.finished {
            // The query failed already; a hidden file that stays behind is not worth hiding its error for.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// A file of bytes, compressed as its name tells.
enum Output {
    Plain(BufWriter<File>),
    Gzip(flate2::write::GzEncoder<BufWriter<File>>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<File>>),
}

impl Output {
    fn new(path: &Path, file: BufWriter<File>) -> io::Result<Output> {
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

    /// Writes what a compressed file ends with.
    fn finish(&mut self) -> io::Result<()> {
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
        file.flush()
    }
}
