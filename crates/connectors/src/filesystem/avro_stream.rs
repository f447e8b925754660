//! Avro files: whole blocks are taken off a file, and decoded side by side.

use std::sync::Arc;

use pelton_runtime::source::{Position, Read, SourceError};

use super::files::{self, InputFile};
use crate::format::RowShape;
use crate::format::avro::AvroDecoder;
use crate::format::on_error::OnError;
use crate::{ConnectorError, TableRequest};

/// How Avro files are read into the rows of a table.
pub(super) struct AvroReading {
    shape: RowShape,
    on_error: OnError,
}

/// An Avro file, and how far it has been read.
pub(super) struct AvroStream {
    file: InputFile,
    /// Once the file has been opened, and until it has ended.
    decoder: Option<Arc<AvroDecoder>>,
    position: Position,
    has_ended: bool,
}

impl AvroReading {
    pub(super) fn new(request: &TableRequest, on_error: OnError) -> Result<AvroReading, ConnectorError> {
        Ok(AvroReading { shape: files::row_shape(request)?, on_error })
    }

    /// Takes the next rows of a file.
    pub(super) fn read(&self, stream: &mut AvroStream) -> Result<Read, SourceError> {
        if stream.has_ended {
            return Ok(Read::End);
        }
        let decoder = stream.decoder(self)?;
        match decoder.blocks_after(&mut stream.position)? {
            Some(blocks) => Ok(Read::Chunk(Box::new(move || decoder.decode(blocks)))),
            None => {
                (stream.decoder, stream.has_ended) = (None, true);
                Ok(Read::End)
            }
        }
    }
}

impl AvroStream {
    pub(super) fn new(file: InputFile) -> AvroStream {
        AvroStream { file, decoder: None, position: Position::default(), has_ended: false }
    }

    fn decoder(&mut self, reading: &AvroReading) -> Result<Arc<AvroDecoder>, SourceError> {
        if let Some(decoder) = &self.decoder {
            return Ok(decoder.clone());
        }
        let opened = self.file.opened_by(AvroDecoder::open, &reading.shape, reading.on_error)?;
        Ok(self.decoder.insert(Arc::new(opened)).clone())
    }

    /// What its file is called.
    pub(super) fn place(&self) -> &str {
        &self.file.place
    }

    /// How far it has been read.
    pub(super) fn position(&self) -> Option<Position> {
        (!self.has_ended).then_some(self.position)
    }

    /// Goes on at a position, before anything is read.
    pub(super) fn seek(&mut self, position: Position) {
        self.position = position;
    }
}
