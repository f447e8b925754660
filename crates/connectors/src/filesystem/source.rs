//! Reads the files of a table, whatever their format: each a partition of its own, all of them known when reading begins.

use std::borrow::Cow;

use pelton_runtime::source::{Position, Read, Source, SourceError};

use super::avro_stream::{AvroReading, AvroStream};
use super::files::InputFile;
use super::parquet_stream::{ParquetReading, ParquetStream};
use super::text_stream::{TextReading, TextStream};
use crate::format::Format;
use crate::{ConnectorError, TableRequest};

/// How files are read into the rows of a table.
pub(super) enum FileReading {
    Text(Box<TextReading>),
    Parquet(ParquetReading),
    Avro(AvroReading),
}

/// A file, and how far it has been read.
pub(super) enum FileStream {
    Text(Box<TextStream>),
    Parquet(ParquetStream),
    Avro(Box<AvroStream>),
}

impl FileReading {
    pub(super) fn new(request: &TableRequest, format: Format) -> Result<FileReading, ConnectorError> {
        Ok(match format.strict(request.strict_values) {
            Format::Text(format) => FileReading::Text(Box::new(TextReading::new(request, format)?)),
            Format::Avro { on_error, .. } => FileReading::Avro(AvroReading::new(request, on_error)?),
            Format::Parquet { on_error, .. } => FileReading::Parquet(ParquetReading::new(request, on_error)?),
        })
    }

    /// A file that is read from its start; no other of this reading has the number.
    pub(super) fn stream(&self, file: InputFile, number: usize) -> FileStream {
        match self {
            FileReading::Text(_) => FileStream::Text(Box::new(TextStream::of_file(file))),
            FileReading::Parquet(_) => FileStream::Parquet(ParquetStream::new(file, number)),
            FileReading::Avro(_) => FileStream::Avro(Box::new(AvroStream::new(file))),
        }
    }

    /// Takes the next rows of a file.
    pub(super) fn read(&self, stream: &mut FileStream) -> Result<Read, SourceError> {
        match (self, stream) {
            (FileReading::Text(reading), FileStream::Text(stream)) => reading.read(stream),
            (FileReading::Parquet(reading), FileStream::Parquet(stream)) => reading.read(stream),
            (FileReading::Avro(reading), FileStream::Avro(stream)) => reading.read(stream),
            _ => unreachable!("a file is read as it was opened"),
        }
    }
}

impl FileStream {
    /// What its file is called.
    pub(super) fn place(&self) -> &str {
        match self {
            FileStream::Text(stream) => stream.place(),
            FileStream::Parquet(stream) => stream.place(),
            FileStream::Avro(stream) => stream.place(),
        }
    }

    /// How far it has been read, unless its bytes can be read once only.
    pub(super) fn position(&self) -> Option<Position> {
        match self {
            FileStream::Text(stream) => stream.position(),
            FileStream::Parquet(stream) => stream.position(),
            FileStream::Avro(stream) => stream.position(),
        }
    }

    /// Goes on at a position, before anything is read.
    pub(super) fn seek(&mut self, position: Position) {
        match self {
            FileStream::Text(stream) => stream.seek(position),
            FileStream::Parquet(stream) => stream.seek(position),
            FileStream::Avro(stream) => stream.seek(position),
        }
    }
}

/// Files that are there when reading begins.
pub(super) struct FileSource {
    reading: FileReading,
    files: Vec<FileStream>,
}

impl FileSource {
    pub(super) fn new(reading: FileReading, files: Vec<InputFile>) -> FileSource {
        let files = files.into_iter().enumerate().map(|(number, file)| reading.stream(file, number)).collect();
        FileSource { reading, files }
    }
}

impl Source for FileSource {
    /// One a file. A directory without files still has one, which ends at once.
    fn partitions(&self) -> usize {
        self.files.len().max(1)
    }

    fn read(&mut self, partition: usize) -> Result<Read, SourceError> {
        self.files.get_mut(partition).map_or(Ok(Read::End), |file| self.reading.read(file))
    }

    fn partition_name(&self, partition: usize) -> Cow<'_, str> {
        Cow::Borrowed(self.files.get(partition).map_or("", FileStream::place))
    }

    fn position(&self, partition: usize) -> Option<Position> {
        self.files.get(partition).and_then(FileStream::position)
    }

    fn seek(&mut self, partition: usize, position: Position) {
        if let Some(file) = self.files.get_mut(partition) {
            file.seek(position);
        }
    }
}
