//! Files out.
//!
//! Rows go to a file whose name begins with a dot and ends in `.inprogress`, so that no reader takes it for a table's;
//! when the last row is written it gets its name. A file of lines that is there already keeps its rows, and gets more; a Parquet file cannot. [`Sink::flush`] brings lines into that file, where people can watch them; a
//! Parquet file has no use before its end. A file that was not finished is removed. While it is written it is locked, so that one which a killed process
//! has left can be told from one that is being written.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use pelton_data::column::is_nested;
use pelton_runtime::sink::{Sink, SinkError};

use super::committed_file::CommittedFile;
use super::directory_sink::{DirectorySink, Layout};
use super::files::{PATH_PATTERN, problem};
use super::part::{Part, Target};
use super::part_file::{PartFile, temporary};
use super::partition_commit::CommitPolicy;
use super::partition_keys::{DEFAULT_NAME, PartitionKeys};
use super::rolling::{self, RollingPolicy};
use super::{MONITOR_INTERVAL, format_of_path, text_stream};
use crate::format::compression::Compression;
use crate::format::csv::IGNORE_FIRST_LINE;
use crate::format::{Format, TextFormat, TextKind};
use crate::options::Options;
use crate::storage::Location;
use crate::storage::s3::Bucket;
use crate::{ConnectorError, Open, TableRequest};

/// Reads what the options of a table say that is written: one file where the path has a format's extension, else a new part of a directory.
pub(super) fn sink<'a>(request: &'a TableRequest, options: &'a Options) -> Result<Open<'a, dyn Sink>, ConnectorError> {
    let path = options.required("path", "/data/result.csv")?;
    let location = location(path, request, options)?;
    let named = format_of_path(path);
    let format = Format::new(options, named)?;
    // These concern reading only, of the same table.
    options.text(MONITOR_INTERVAL);
    options.text(PATH_PATTERN);
    check_columns(request, &format)?;
    if let Format::Text(text) = &format {
        text_stream::check_raw(request, text)?;
    }
    if matches!(&format, Format::Text(TextFormat { kind: TextKind::Csv(dialect), .. }) if dialect.ignores_first) {
        let problem = "is for files that are read; write them with 'csv.header' = 'true'";
        return Err(ConnectorError::option(IGNORE_FIRST_LINE, problem));
    }
    options.text(DEFAULT_NAME);
    let commits = CommitPolicy::of(request, options)?;
    if named.is_some() {
        rolling::refuse(options)?;
        if let Some(&key) = request.partition_keys.first() {
            let problem = "is in PARTITIONED BY, and the path has the name of a file; name a directory";
            return Err(ConnectorError::column(request.schema.field(key).name(), problem));
        }
        return Ok(Box::new(move || open_file(request, &location, &format)));
    }
    let policy = RollingPolicy::of(options, &format, location.bucket().is_none())?;
    let job = request.host.committed_by.as_ref().map(|job| job.name.clone());
    let keys = PartitionKeys::of(request);
    let schema = keys.as_ref().map_or_else(|| request.schema.clone(), |keys| keys.data_schema(&request.schema));
    Ok(Box::new(move || {
        check_kind(&location, false)?;
        let layout = Layout { directory: location, job, format, schema, policy, keys, log: None };
        Ok(Box::new(DirectorySink::open(layout, commits)?))
    }))
}

/// Where a table is written: on the disk that its job has.
pub(super) fn location(path: &str, request: &TableRequest, options: &Options) -> Result<Location, ConnectorError> {
    let location = Location::of(path, options)?;
    Ok(match &request.host.committed_by {
        Some(job) => location.on(&job.disk),
        None => location,
    })
}

/// One file, which makes its directory.
fn open_file(request: &TableRequest, location: &Location, format: &Format) -> Result<Box<dyn Sink>, ConnectorError> {
    if let Some(bucket) = location.bucket() {
        let target = object_target(location, bucket, request.host.committed_by.is_some())?;
        return Ok(Box::new(FileSink(Part::new(target, format, &request.schema)?)));
    }
    check_kind(location, true)?;
    make_directory(location)?;
    if request.host.committed_by.is_some() {
        check_rows(location, format, &request.schema)?;
        return Ok(Box::new(CommittedFile::new(location, format, &request.schema)));
    }
    let target = file_target(location, format, &request.schema)?;
    Ok(Box::new(FileSink(Part::new(target, format, &request.schema)?)))
}

/// One object, which is visible when its last row is written.
fn object_target(location: &Location, bucket: &Bucket, has_checkpoints: bool) -> Result<Target, ConnectorError> {
    let refused = |problem: &str| Err(ConnectorError::place(location.to_string(), problem));
    if has_checkpoints {
        return refused(
            "is one object, which is visible at its end; name a directory, in which each checkpoint makes one",
        );
    }
    let place = |error: io::Error| ConnectorError::place(location.to_string(), problem(&error));
    if bucket.find(&location.key()).map_err(place)?.is_some_and(|found| found.size > 0) {
        return refused(
            "is there already, and an object cannot grow; remove it, or name a directory, which gets an object for each INSERT",
        );
    }
    let file = PartFile::of_upload(bucket.upload(&location.key()).map_err(place)?);
    Ok(Target { location: location.clone(), file, has_rows: false })
}

fn check_columns(request: &TableRequest, format: &Format) -> Result<(), ConnectorError> {
    if let Some(&index) = request.metadata.keys().next() {
        let problem = "is metadata of files, which cannot be written; declare it VIRTUAL, and INSERT leaves it out";
        return Err(ConnectorError::column(request.schema.field(index).name(), problem));
    }
    for (index, field) in request.schema.fields().iter().enumerate() {
        if let Format::Avro { writing, .. } = format
            && request.is_in_rows(index)
        {
            writing.check_column(field.name(), field.data_type())?;
        }
        if let Format::Text(format) = format
            && request.is_in_rows(index)
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

/// Makes the directory that a file is in.
fn make_directory(location: &Location) -> Result<(), ConnectorError> {
    let directory = location.path().parent().unwrap_or(Path::new(""));
    if directory.as_os_str().is_empty() {
        return Ok(());
    }
    location
        .disk()
        .make_directory(directory)
        .map_err(|error| ConnectorError::place(directory.to_string_lossy(), problem(&error)))
}

/// Whether a file has rows, behind which others can be written.
fn check_rows(location: &Location, format: &Format, schema: &Schema) -> Result<bool, ConnectorError> {
    let path = location.path();
    let has_rows = location.disk().size(path).is_ok_and(|bytes| bytes > 0);
    let grows_not = match format {
        Format::Text(_) => None,
        Format::Parquet { .. } => Some("a Parquet file"),
        Format::Avro { .. } => Some("an Avro file"),
    };
    if let Some(kind) = grows_not.filter(|_| has_rows) {
        let problem = format!(
            "is there already, and {kind} cannot grow; remove it, or name a directory, which gets a file for each INSERT"
        );
        return Err(ConnectorError::place(path.to_string_lossy(), problem));
    }
    if has_rows {
        check_header(path, format, schema)?;
    }
    Ok(has_rows)
}

/// A file of this name, behind the rows that are in it.
pub(super) fn file_target(location: &Location, format: &Format, schema: &Schema) -> Result<Target, ConnectorError> {
    let (disk, path) = (location.disk(), location.path());
    let temporary = temporary(path);
    let place = |error: io::Error| {
        ConnectorError::place(path.to_string_lossy(), format!("cannot be written: {}", problem(&error)))
    };
    let has_rows = check_rows(location, format, schema)?;
    let mut file = match disk.create_new(&temporary) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let problem = match disk.is_left_behind(&temporary) {
                true => "was left by an INSERT that was killed, and may have rows of it; remove or rename it",
                false => "is being written by another INSERT; wait for its end, or name another file",
            };
            return Err(ConnectorError::place(temporary.to_string_lossy(), problem));
        }
        opened => opened.map_err(place)?,
    };
    if has_rows && let Err(error) = copy_rows(location, &mut file) {
        let _ = disk.remove(&temporary);
        return Err(place(error));
    }
    Ok(Target { location: location.clone(), file: PartFile::of_file(file), has_rows })
}

/// Rows go to ordinary files: a file gets its name when its last row is written, which neither a pipe nor a device can.
fn check_kind(location: &Location, is_file: bool) -> Result<(), ConnectorError> {
    if location.bucket().is_some() {
        return Ok(());
    }
    let Ok(metadata) = fs::metadata(location.path()) else { return Ok(()) };
    let problem = match (is_file, metadata.is_file(), metadata.is_dir()) {
        (_, false, false) => {
            "is a pipe or a device, and rows are written to ordinary files; name one, or leave INSERT out to print rows"
        }
        (true, _, true) => {
            "is a directory, and has the name of a file; name a file, or a directory without an extension"
        }
        (false, true, _) => {
            "is a file, and its name tells no format, as those of directories do; end it in .csv, .json, .parquet or .avro"
        }
        _ => return Ok(()),
    };
    Err(ConnectorError::place(location.to_string(), problem))
}

/// Rows are read by the names of a header, and written one value behind the other: that must be the same.
fn check_header(path: &Path, format: &Format, schema: &Schema) -> Result<(), ConnectorError> {
    let Format::Text(TextFormat { kind: TextKind::Csv(dialect), .. }) = format else { return Ok(()) };
    if !dialect.header {
        return Ok(());
    }
    let names = text_stream::header(&Location::local(path), dialect);
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

/// Copies the rows that are in a file, and ends the last of them.
fn copy_rows(location: &Location, to: &mut dyn Write) -> io::Result<()> {
    let mut rows = location.disk().open(location.path())?;
    let (mut chunk, mut last) = (vec![0; 64 << 10], b'\n');
    loop {
        match rows.read(&mut chunk)? {
            0 => break,
            count => {
                to.write_all(&chunk[..count])?;
                last = chunk[count - 1];
            }
        }
    }
    if last == b'\n' || Compression::of(location.path()) != Compression::None { Ok(()) } else { to.write_all(b"\n") }
}

/// What the names of its files end with.
pub(super) fn extension(format: &Format) -> &'static str {
    match format {
        Format::Text(text) => match text.kind {
            TextKind::Csv(_) => "csv",
            TextKind::Raw(_) => "txt",
            TextKind::Json { .. } => "json",
        },
        Format::Parquet { .. } => "parquet",
        Format::Avro { .. } => "avro",
    }
}

/// One file, which gets its name at the end of the input.
struct FileSink(Part);

impl Sink for FileSink {
    fn write(&mut self, rows: &RecordBatch) -> Result<(), SinkError> {
        self.0.write(rows)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.0.flush()
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.0.close(false)?;
        self.0.publish()
    }
}
