//! Compressed files, told by their extension or their first bytes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::opened::OpenedFile;
use crate::storage::Location;

/// Opens a pipe of text for reading: its bytes are there once, and may be few for long. What its name says is compressed is decompressed.
pub(crate) fn open_pipe(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    decompressed(Compression::of(path), File::open(path)?)
}

/// Opens a file or an object of text for reading; what is compressed by gzip or zstd is decompressed.
///
/// # Errors
/// Where its first bytes are those of something else than text.
pub(crate) fn open(location: &Location) -> io::Result<Box<dyn Read + Send>> {
    reader(location.path(), OpenedFile::open(location)?)
}

/// What an ordinary `file` has, decompressed as the name of its path or its first bytes say.
///
/// # Errors
/// Where its first bytes are those of something else than text.
pub(crate) fn reader(path: &Path, mut file: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    match Compression::of(path) {
        Compression::None => {
            let mut first = Vec::new();
            Read::by_ref(&mut file).take(MAGIC_BYTES).read_to_end(&mut first)?;
            let compression = Compression::of_content(&first)?;
            decompressed(compression, io::Cursor::new(first).chain(file))
        }
        compression => decompressed(compression, file),
    }
}

fn decompressed(compression: Compression, file: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    Ok(match compression {
        Compression::None => Box::new(file),
        Compression::Gzip => {
            let file = io::BufReader::with_capacity(1 << 16, file);
            Box::new(Decompressed(flate2::read::MultiGzDecoder::new(file)))
        }
        Compression::Zstd => Box::new(Decompressed(zstd::stream::read::Decoder::new(file)?)),
    })
}

/// Bytes that tell what a file is.
const MAGIC_BYTES: u64 = 10;

/// What files that are no text begin with, and what is said of them.
const OTHERS: [(&[u8], &str); 6] = [
    (b"Obj\x01", "is an Avro file: read it with 'format' = 'avro'"),
    (b"PK\x03\x04", "is a ZIP archive, which is not read; unpack it, or compress the file in it with gzip or zstd"),
    (b"\xfd7zXZ\0", "is compressed by xz, which is not read; decompress it, or compress it with gzip or zstd"),
    (
        b"7z\xbc\xaf\x27\x1c",
        "is a 7-Zip archive, which is not read; unpack it, or compress the file in it with gzip or zstd",
    ),
    (b"\xff\xfe", "is UTF-16, and text must be UTF-8; convert it, as with iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "is UTF-16, and text must be UTF-8; convert it, as with iconv -f UTF-16 -t UTF-8"),
];

const PARQUET: &str = "is a Parquet file: read it with 'format' = 'parquet', or read_parquet";
const BZIP2: &str = "is compressed by bzip2, which is not read; decompress it, or compress it with gzip or zstd";

/// What a file is that begins with these bytes, if it is no text. Text may begin with the letters of some formats, but not with the bytes that follow there.
fn other(first: &[u8]) -> Option<&'static str> {
    match first {
        [b'B', b'Z', b'h', b'1'..=b'9', block @ ..]
            if block.starts_with(b"1AY&SY") || block.starts_with(b"\x17\x72\x45\x38\x50\x90") =>
        {
            Some(BZIP2)
        }
        [b'P', b'A', b'R', b'1', next, ..] if next.is_ascii_control() && !next.is_ascii_whitespace() => Some(PARQUET),
        _ => OTHERS.iter().find(|(magic, _)| first.starts_with(magic)).map(|(_, problem)| *problem),
    }
}

/// What was compressed. Errors that are not the system's say that it cannot be decompressed.
struct Decompressed<R>(R);

impl<R: Read> Read for Decompressed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into).map_err(|error| match error.raw_os_error() {
            Some(_) => error,
            None => io::Error::new(
                io::ErrorKind::InvalidData,
                format!("cannot be decompressed: {error}; it is damaged, cut off, or not compressed as its name says"),
            ),
        })
    }
}

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    /// What the first bytes of a file tell.
    fn of_content(first: &[u8]) -> io::Result<Compression> {
        if let Some(problem) = other(first) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        Ok(match first {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
            _ => Compression::None,
        })
    }

    /// What a file's extension tells.
    pub(crate) fn of(path: &Path) -> Compression {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some(extension) if extension.eq_ignore_ascii_case("gz") => Compression::Gzip,
            Some(extension) if extension.eq_ignore_ascii_case("zst") => Compression::Zstd,
            _ => Compression::None,
        }
    }
}
