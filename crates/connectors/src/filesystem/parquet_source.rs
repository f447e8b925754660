//! Parquet files: parts of their row groups are decoded side by side.

use std::borrow::Cow;
use std::sync::Arc;

use pelton_runtime::source::{Position, Read, Source, SourceError};

use super::files::{self, InputFile};
use crate::format::RowShape;
use crate::format::on_error::OnError;
use crate::format::parquet::ParquetDecoder;
use crate::format::parquet::parts::{GroupRows, Readers};
use crate::{ConnectorError, TableRequest};

/// Rows in Parquet files.
pub(super) struct ParquetSource {
    shape: RowShape,
    on_error: OnError,
    /// The names of the files.
    places: Vec<String>,
    /// `None` once the file has been read, which is then closed.
    files: Vec<Option<Partition>>,
    readers: Arc<Readers>,
}

struct Partition {
    file: InputFile,
    /// Once the file has been opened.
    decoder: Option<Arc<ParquetDecoder>>,
    /// What was handed out last.
    part: Option<GroupRows>,
    /// Rows before the first that is read.
    rows_before: u64,
}

impl ParquetSource {
    pub(super) fn open(
        request: &TableRequest,
        files: Vec<InputFile>,
        on_error: OnError,
    ) -> Result<ParquetSource, ConnectorError> {
        let shape = files::row_shape(request)?;
        let places = files.iter().map(|file| file.place.clone()).collect();
        let partition = |file| Some(Partition { file, decoder: None, part: None, rows_before: 0 });
        let files = files.into_iter().map(partition).collect();
        Ok(ParquetSource { shape, on_error, places, files, readers: Arc::default() })
    }
}

impl Source for ParquetSource {
    /// One a file. A directory without files still has one, which ends at once.
    fn partitions(&self) -> usize {
        self.files.len().max(1)
    }

    fn read(&mut self, partition: usize) -> Result<Read, SourceError> {
        let Some(state) = self.files.get_mut(partition) else { return Ok(Read::End) };
        let Some(Partition { file, decoder, part: before, rows_before }) = state else { return Ok(Read::End) };
        let decoder = match decoder {
            Some(decoder) => decoder,
            None => {
                let constants = file.constants(&self.shape);
                let opened = ParquetDecoder::open(&file.path, &file.place, &self.shape, constants, self.on_error);
                let input = |error: ConnectorError| {
                    let problem = match error {
                        ConnectorError::Place { problem, .. } => problem,
                        other => other.to_string(),
                    };
                    SourceError::Input { place: file.place.clone(), problem }
                };
                decoder.insert(Arc::new(opened.map_err(input)?))
            }
        };
        if *rows_before > 0 {
            before.get_or_insert_with(|| decoder.nothing_behind(*rows_before));
        }
        let Some(part) = decoder.part_after(*before, &self.readers) else {
            *state = None;
            return Ok(Read::End);
        };
        *before = Some(part);
        let (decoder, readers) = (decoder.clone(), self.readers.clone());
        Ok(Read::Chunk(Box::new(move || decoder.decode(part, &readers, partition))))
    }

    fn partition_name(&self, partition: usize) -> Cow<'_, str> {
        Cow::Borrowed(self.places.get(partition).map_or("", String::as_str))
    }

    fn position(&self, partition: usize) -> Option<Position> {
        let state = self.files.get(partition)?.as_ref()?;
        Some(Position::of_row(state.part.map_or(state.rows_before, GroupRows::rows_until)))
    }

    fn seek(&mut self, partition: usize, position: Position) {
        if let Some(Some(state)) = self.files.get_mut(partition) {
            state.rows_before = position.row;
        }
    }
}
