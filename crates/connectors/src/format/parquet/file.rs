//! How the library reads a file: several readers at once, each from its own places.

use std::io::{self, BufReader, Read};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use crate::format::opened::OpenedFile;

impl Length for OpenedFile {
    fn len(&self) -> u64 {
        self.size()
    }
}

impl ChunkReader for OpenedFile {
    type T = BufReader<BytesFrom>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(BufReader::new(BytesFrom { file: self.clone(), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        // A damaged file asks for more than there is memory for.
        let is_there = u64::try_from(length).ok().and_then(|length| start.checked_add(length));
        if is_there.is_none_or(|end| end > self.size()) {
            let problem = format!("{length} bytes at {start} of a file of {} bytes", self.size());
            return Err(ParquetError::EOF(problem));
        }
        let mut bytes = vec![0; length];
        match self.read_at(&mut bytes, start)? {
            read if read == length => Ok(bytes.into()),
            read => Err(ParquetError::EOF(format!("{read} of {length} bytes at {start}"))),
        }
    }
}

/// The bytes of a file from a place on.
#[derive(Debug)]
pub(crate) struct BytesFrom {
    file: OpenedFile,
    at: u64,
}

impl Read for BytesFrom {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(into, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}
