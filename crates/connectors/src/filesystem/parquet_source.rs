//! Parquet files: parts of their row groups are decoded side by side.

use std::sync::Arc;

use pelton_runtime::source::{Read, Source, SourceError};

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
}

impl ParquetSource {
    pub(super) fn open(
        request: &TableRequest,
        files: Vec<InputFile>,
        on_error: OnError,
    ) -> Result<ParquetSource, ConnectorError> {
        let shape = files::row_shape(request)?;
        let files = files.into_iter().map(|file| Some(Partition { file, decoder: None, part: None })).collect();
        Ok(ParquetSource { shape, on_error, files, readers: Arc::default() })
    }
}

impl Source for ParquetSource {
    /// One a file. A directory without files still has one, which ends at once.
    fn partitions(&self) -> usize {
        self.files.len().max(1)
    }

    fn read(&mut self, partition: usize) -> Result<Read, SourceError> {
        let Some(state) = self.files.get_mut(partition) else { return Ok(Read::End) };
        let Some(Partition { file, decoder, part: before }) = state else { return Ok(Read::End) };
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
        let Some(part) = decoder.part_after(*before, &self.readers) else {
            *state = None;
            return Ok(Read::End);
        };
        *before = Some(part);
        let (decoder, readers) = (decoder.clone(), self.readers.clone());
        Ok(Read::Chunk(Box::new(move || decoder.decode(part, &readers, partition))))
    }
}
