//! Compressed files, told by their extension.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Opens a file for reading; `.gz` and `.zst` are decompressed.
pub(crate) fn open(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    reader(path, File::open(path)?)
}

/// What `file` has, decompressed as the name of its path says.
pub(crate) fn reader(path: &Path, file: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    Ok(match Compression::of(path) {
        Compression::None => Box::new(file),
        Compression::Gzip => {
            let file = io::BufReader::with_capacity(1 << 16, file);
            Box::new(Decompressed(flate2::read::MultiGzDecoder::new(file)))
        }
        Compression::Zstd => Box::new(Decompressed(zstd::stream::read::Decoder::new(file)?)),
    })
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
    /// What a file's extension tells.
    pub(crate) fn of(path: &Path) -> Compression {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some(extension) if extension.eq_ignore_ascii_case("gz") => Compression::Gzip,
            Some(extension) if extension.eq_ignore_ascii_case("zst") => Compression::Zstd,
            _ => Compression::None,
        }
    }
}
