//! Parquet files: parts of their row groups are decoded side by side.

use std::sync::Arc;

use pelton_runtime::source::{Position, Read, SourceError};

use super::files::{self, InputFile};
use crate::format::RowShape;
use crate::format::on_error::OnError;
use crate::format::parquet::ParquetDecoder;
use crate::format::parquet::parts::{FileNumber, GroupRows, Readers};
use crate::{ConnectorError, TableRequest};

/// How Parquet files are read into the rows of a table.
pub(super) struct ParquetReading {
    shape: RowShape,
    on_error: OnError,
    readers: Arc<Readers>,
}

/// A Parquet file, and how far it has been read.
pub(super) struct ParquetStream {
    number: FileNumber,
    stage: Stage,
}

enum Stage {
    Open(Box<Opened>),
    /// What its file was called, which is closed.
    Ended(String),
}

struct Opened {
    file: InputFile,
    /// Once the file has been opened.
    decoder: Option<Arc<ParquetDecoder>>,
    /// What was handed out last.
    part: Option<GroupRows>,
    /// Rows before the first that is read.
    rows_before: u64,
}

impl ParquetReading {
    pub(super) fn new(request: &TableRequest, on_error: OnError) -> Result<ParquetReading, ConnectorError> {
        Ok(ParquetReading { shape: files::row_shape(request)?, on_error, readers: Arc::default() })
    }

    /// Takes the next rows of a file.
    pub(super) fn read(&self, stream: &mut ParquetStream) -> Result<Read, SourceError> {
        let number = stream.number;
        let Stage::Open(opened) = &mut stream.stage else { return Ok(Read::End) };
        let decoder = opened.decoder(self)?;
        if opened.rows_before > 0 {
            opened.part.get_or_insert_with(|| decoder.nothing_behind(opened.rows_before));
        }
        let Some(part) = decoder.part_after(opened.part, &self.readers) else {
            stream.stage = Stage::Ended(std::mem::take(&mut opened.file.place));
            return Ok(Read::End);
        };
        opened.part = Some(part);
        let readers = self.readers.clone();
        Ok(Read::Chunk(Box::new(move || decoder.decode(part, &readers, number))))
    }
}

impl Opened {
    fn decoder(&mut self, reading: &ParquetReading) -> Result<Arc<ParquetDecoder>, SourceError> {
        if let Some(decoder) = &self.decoder {
            return Ok(decoder.clone());
        }
        let opened = self.file.opened_by(ParquetDecoder::open, &reading.shape, reading.on_error)?;
        Ok(self.decoder.insert(Arc::new(opened)).clone())
    }
}

impl ParquetStream {
    /// Readers know the file by its number.
    pub(super) fn new(file: InputFile, number: FileNumber) -> ParquetStream {
        let opened = Opened { file, decoder: None, part: None, rows_before: 0 };
        ParquetStream { number, stage: Stage::Open(Box::new(opened)) }
    }

    /// What its file is called.
    pub(super) fn place(&self) -> &str {
        match &self.stage {
            Stage::Open(opened) => &opened.file.place,
            Stage::Ended(place) => place,
        }
    }

    /// How far it has been read.
    pub(super) fn position(&self) -> Option<Position> {
        let Stage::Open(opened) = &self.stage else { return None };
        Some(Position::of_row(opened.part.map_or(opened.rows_before, GroupRows::rows_until)))
    }

    /// Goes on at a position, before anything is read.
    pub(super) fn seek(&mut self, position: Position) {
        if let Stage::Open(opened) = &mut self.stage {
            opened.rows_before = position.row;
        }
    }
}
