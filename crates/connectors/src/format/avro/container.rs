//! Where the header and the blocks of an Avro file begin and end.

use std::io;

use pelton_runtime::source::Position;

use crate::format::opened::OpenedFile;

const MAGIC: &[u8] = b"Obj\x01";
const SYNC_BYTES: usize = 16;

/// Bytes of the longest header: its schema is text that people write.
const HEADER_BYTES_MAX: usize = 16 << 20;

/// Bytes of blocks that are decoded at once, about.
const CHUNK_BYTES: usize = 512 << 10;

/// Bytes of the longest block. Beyond it the file is damaged.
const BLOCK_BYTES_MAX: u64 = 1 << 30;

/// Rows of the largest block: those of some schemas take no bytes.
const BLOCK_ROWS_MAX: u64 = 1 << 30;

/// Bytes of a number, at most.
const NUMBER_BYTES_MAX: usize = 10;

/// What a file begins with: its schema and codec, and what stands behind each block.
pub(super) struct Header {
    pub(super) bytes: Vec<u8>,
    sync: [u8; SYNC_BYTES],
}

/// Whole blocks that follow each other.
pub(crate) struct Blocks {
    pub(super) bytes: Vec<u8>,
    /// The number of the first row in the file, from 1.
    pub(super) first_row: u64,
    pub(super) rows: u64,
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// A number at the beginning of `bytes`, and how many it takes; `None` where it is cut off.
fn number(bytes: &[u8]) -> Option<io::Result<(i64, usize)>> {
    let mut value = 0_u64;
    for (index, &byte) in bytes.iter().take(NUMBER_BYTES_MAX).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some(Ok(((value >> 1) as i64 ^ -((value & 1) as i64), index + 1)));
        }
    }
    (bytes.len() >= NUMBER_BYTES_MAX).then(|| Err(damaged("a number is too long")))
}

/// What is left of bytes as they are gone through.
struct Cut<'a>(&'a [u8]);

impl<'a> Cut<'a> {
    /// The next number; `None` where it is cut off.
    fn number(&mut self) -> io::Result<Option<i64>> {
        let Some(found) = number(self.0).transpose()? else { return Ok(None) };
        self.0 = &self.0[found.1..];
        Ok(Some(found.0))
    }

    /// So many bytes; `None` where they are cut off.
    fn take(&mut self, count: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(count).ok()?)?;
        self.0 = rest;
        Some(taken)
    }
}

impl Header {
    pub(super) fn read(file: &OpenedFile) -> io::Result<Header> {
        let mut wanted = 64 << 10;
        loop {
            let mut bytes = vec![0; wanted];
            let read = file.read_at(&mut bytes, 0)?;
            bytes.truncate(read);
            if !bytes.starts_with(MAGIC) {
                return Err(damaged("it does not begin as one"));
            }
            if let Some((length, sync)) = Header::end(&bytes)? {
                bytes.truncate(length);
                return Ok(Header { bytes, sync });
            }
            if read < wanted {
                return Err(damaged("its header is cut off"));
            }
            if wanted >= HEADER_BYTES_MAX {
                return Err(damaged("its header is too long"));
            }
            wanted *= 4;
        }
    }

    /// Where the header ends, and its mark; `None` where more bytes are needed.
    fn end(bytes: &[u8]) -> io::Result<Option<(usize, [u8; SYNC_BYTES])>> {
        let mut rest = Cut(&bytes[MAGIC.len()..]);
        loop {
            let Some(count) = rest.number()? else { return Ok(None) };
            if count == 0 {
                break;
            }
            // A negative count is followed by how many bytes the entries have.
            if count < 0 && rest.number()?.is_none() {
                return Ok(None);
            }
            for _ in 0..2 * count.unsigned_abs().min(HEADER_BYTES_MAX as u64) {
                let Some(length) = rest.number()? else { return Ok(None) };
                let length = u64::try_from(length).map_err(|_| damaged("a length is negative"))?;
                if rest.take(length).is_none() {
                    return Ok(None);
                }
            }
        }
        let Some(sync) = rest.take(SYNC_BYTES as u64) else { return Ok(None) };
        let sync = sync.try_into().expect("it has so many bytes");
        Ok(Some((bytes.len() - rest.0.len(), sync)))
    }
}

impl Blocks {
    /// The blocks from a position on; `None` at the end of the file.
    pub(super) fn read(file: &OpenedFile, header: &Header, position: Position) -> io::Result<Option<Blocks>> {
        if position.byte > file.size() {
            let problem =
                format!("the file has {} bytes, and was read up to byte {} before", file.size(), position.byte);
            return Err(damaged(&problem));
        }
        let mut wanted = CHUNK_BYTES;
        loop {
            let mut bytes = vec![0; wanted];
            let read = file.read_at(&mut bytes, position.byte)?;
            bytes.truncate(read);
            if bytes.is_empty() {
                return Ok(None);
            }
            let (mut end, mut rows, mut rest) = (0, 0, Cut(&bytes));
            let needed = loop {
                match Blocks::next(&mut rest, header)? {
                    Next::Block(block_rows) => {
                        rows += block_rows;
                        end = bytes.len() - rest.0.len();
                    }
                    Next::Cut(needed) => break end as u64 + needed,
                }
            };
            if end > 0 {
                bytes.truncate(end);
                return Ok(Some(Blocks { bytes, first_row: position.row + 1, rows }));
            }
            if read < wanted {
                return Err(damaged("its last block is cut off"));
            }
            wanted = usize::try_from(needed).unwrap_or(usize::MAX).max(wanted + 1);
        }
    }

    /// The block that comes next, where it is whole.
    fn next(rest: &mut Cut, header: &Header) -> io::Result<Next> {
        let before = rest.0;
        let cut = |needed: u64| Ok(Next::Cut(needed));
        let Some(rows) = rest.number()? else { return cut(2 * NUMBER_BYTES_MAX as u64) };
        let Some(length) = rest.number()? else { return cut(2 * NUMBER_BYTES_MAX as u64) };
        let (Ok(rows), Ok(length)) = (u64::try_from(rows), u64::try_from(length)) else {
            return Err(damaged("a block has a negative length"));
        };
        if length > BLOCK_BYTES_MAX {
            return Err(damaged("a block is longer than 1 GB"));
        }
        if rows > BLOCK_ROWS_MAX {
            return Err(damaged("a block has more than a billion rows"));
        }
        let needed = (before.len() - rest.0.len()) as u64 + length + SYNC_BYTES as u64;
        let (Some(_), Some(sync)) = (rest.take(length), rest.take(SYNC_BYTES as u64)) else { return cut(needed) };
        if sync != header.sync {
            return Err(damaged("a block does not end as its header says"));
        }
        Ok(Next::Block(rows))
    }
}

/// What begins where a block does.
enum Next {
    /// One of so many rows.
    Block(u64),
    /// One of which so many bytes are needed.
    Cut(u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_avro_writes_them() {
        for (bytes, value) in [(&[0_u8][..], 0), (&[1], -1), (&[2], 1), (&[0x80, 1], 64), (&[0xff, 1], -128)] {
            assert_eq!(number(bytes).unwrap().unwrap(), (value, bytes.len()));
        }
        assert!(number(&[0x80]).is_none());
        assert!(number(&[0x80; 10]).unwrap().is_err());
    }
}
