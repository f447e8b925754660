//! A file or an object that is open for reading, and what has become of it since.
//!
//! An object is read as it was when it was opened, or not at all. Others may change a file while it is read. Rows that are appended are read as well. Rows of a file that was cut off or overwritten would be a mixture of
//! two contents: these are an error. A file that was removed, or replaced by another under its name, is read to its end, as it was opened.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::SystemTime;

use crate::storage::Location;
use crate::storage::s3::ObjectReader;

/// Bytes at each end of a file by which it is known again.
const END_BYTES: usize = 4 << 10;

/// A file that is open for reading. Clones are the same one.
#[derive(Debug, Clone)]
pub(crate) struct OpenedFile(Arc<Opened>);

#[derive(Debug)]
enum Opened {
    File(OpenedLocally),
    Object(ObjectReader),
}

#[derive(Debug)]
struct OpenedLocally {
    file: File,
    /// As it was when it was opened: its size in bytes,
    size: u64,
    /// when it was written last,
    modified: Option<SystemTime>,
    /// and its first and last bytes.
    ends: [Vec<u8>; 2],
}

/// What has become of a file since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing.
    None,
    /// Bytes were appended.
    Grown,
    /// It has fewer bytes.
    CutOff {
        /// As many as it had,
        from: u64,
        /// and has.
        to: u64,
    },
    /// Others are in the place of those that it had.
    Overwritten,
}

impl OpenedFile {
    /// Opens the regular file or the object at a place.
    pub(crate) fn open(location: &Location) -> io::Result<OpenedFile> {
        let opened = match location.bucket() {
            Some(bucket) => Opened::Object(bucket.open(&location.key())?),
            None => {
                let file = File::open(location.path())?;
                let metadata = file.metadata()?;
                let (size, modified) = (metadata.len(), metadata.modified().ok());
                let ends = ends(&file, size)?;
                Opened::File(OpenedLocally { file, size, modified, ends })
            }
        };
        Ok(OpenedFile(Arc::new(opened)))
    }

    /// Bytes that it had when it was opened.
    pub(crate) fn size(&self) -> u64 {
        match &*self.0 {
            Opened::File(opened) => opened.size,
            Opened::Object(object) => object.size(),
        }
    }

    /// Reads bytes from a place on: fewer than there is room for only at the file's end.
    pub(crate) fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        match &*self.0 {
            Opened::File(opened) => read_at(&opened.file, into, at),
            Opened::Object(object) => object.read_at(into, at),
        }
    }

    /// What has become of it. To be asked after reading: what changes later is not in what was read.
    pub(crate) fn change(&self) -> io::Result<Change> {
        let OpenedLocally { file, size, modified, ends: were } = match &*self.0 {
            Opened::File(opened) => opened,
            // Reading one that was overwritten fails.
            Opened::Object(_) => return Ok(Change::None),
        };
        let now = file.metadata()?;
        Ok(if now.len() < *size {
            Change::CutOff { from: *size, to: now.len() }
        } else if now.modified().ok() == *modified {
            Change::None
        } else if now.len() > *size && ends(file, *size)? == *were {
            Change::Grown
        } else {
            Change::Overwritten
        })
    }

    /// What is wrong, where the bytes that were read may not be those of one content, or those of an object could not be read; `may_grow`: appended ones are no problem.
    pub(crate) fn problem(&self, may_grow: bool) -> Option<String> {
        if let Opened::Object(object) = &*self.0 {
            return object.failure();
        }
        match self.change() {
            Ok(Change::None) => None,
            Ok(Change::Grown) if may_grow => None,
            Ok(Change::CutOff { from, to }) => {
                Some(format!("the file was cut off while it was read: it had {from} bytes and has {to}"))
            }
            Ok(Change::Overwritten) => Some("the file was overwritten while it was read".to_owned()),
            Ok(Change::Grown) => Some("the file was appended to while it was read".to_owned()),
            Err(error) => Some(error.to_string()),
        }
    }
}

impl Read for OpenedFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &*self.0 {
            Opened::File(opened) => (&opened.file).read(into),
            Opened::Object(object) => object.read_next(into),
        }
    }
}

/// What an operating system's error says, in words without its number.
pub(crate) fn problem(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => error.to_string(),
    }
}

/// The first and the last bytes of a file of `size` bytes.
fn ends(file: &File, size: u64) -> io::Result<[Vec<u8>; 2]> {
    let length = END_BYTES.min(usize::try_from(size).unwrap_or(END_BYTES));
    let end = |at: u64| {
        let mut bytes = vec![0; length];
        let read = read_at(file, &mut bytes, at)?;
        bytes.truncate(read);
        io::Result::Ok(bytes)
    };
    Ok([end(0)?, end(size - length as u64)?])
}

fn read_at(file: &File, mut into: &mut [u8], mut at: u64) -> io::Result<usize> {
    let wanted = into.len();
    while !into.is_empty() {
        match file.read_at(into, at) {
            Ok(0) => break,
            Ok(read) => {
                at += read as u64;
                into = &mut into[read..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(wanted - into.len())
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_file_is_told_from_what_has_become_of_it() {
        let path = std::env::temp_dir().join(format!("pelton-opened-{}.csv", std::process::id()));
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        let written = |text: &str| {
            // Written so long ago that what is written next has another time.
            write(text);
            let file = File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
            OpenedFile::open(&Location::local(&path)).unwrap()
        };
        let append = |text: &str| OpenOptions::new().append(true).open(&path).unwrap().write_all(text.as_bytes());
        let file = written("1,a\n2,b\n");
        assert_eq!(file.change().unwrap(), Change::None);
        append("3,c\n").unwrap();
        assert_eq!(file.change().unwrap(), Change::Grown);
        assert_eq!(file.problem(true), None);
        assert_eq!(file.problem(false).unwrap(), "the file was appended to while it was read");
        write("1,a\n");
        assert_eq!(file.change().unwrap(), Change::CutOff { from: 8, to: 4 });
        write("1,a\n3,c\n4,d\n");
        assert_eq!(file.change().unwrap(), Change::Overwritten);
        write("1,a\n2,b\n");
        assert_eq!(file.change().unwrap(), Change::Overwritten, "nobody knows what was read");
        let file = written("");
        append("1,a\n").unwrap();
        assert_eq!(file.change().unwrap(), Change::Grown);
        let file = written("1,a\n");
        std::fs::remove_file(&path).unwrap();
        write("2,b\n");
        assert_eq!(file.change().unwrap(), Change::None, "another file of that name");
        std::fs::remove_file(&path).unwrap();
    }
}
