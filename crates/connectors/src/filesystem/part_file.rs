//! Where the bytes of a part go: to a file under a temporary name, or to an object whose upload is not complete.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::storage::s3::Upload;
use crate::storage::{DiskFile, Location};

/// What the name of a file ends with that is not complete.
pub(super) const UNFINISHED: &str = ".inprogress";

/// A file that is not complete, under its temporary name, or an object that nobody sees.
pub(super) struct PartFile {
    kind: Kind,
    written: Arc<AtomicU64>,
}

enum Kind {
    File(Box<dyn DiskFile>),
    Upload(Box<Upload>),
}

/// How a part is made visible that is complete: kept in checkpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Publication {
    /// The file gets its name.
    Rename,
    /// The upload of an object is completed, by what [`Upload::end`] says.
    CompleteUpload(String),
}

impl PartFile {
    pub(super) fn of_file(file: Box<dyn DiskFile>) -> PartFile {
        PartFile { kind: Kind::File(file), written: Arc::default() }
    }

    pub(super) fn of_upload(upload: Upload) -> PartFile {
        PartFile { kind: Kind::Upload(Box::new(upload)), written: Arc::default() }
    }

    /// How many bytes were written, also while others have it.
    pub(super) fn written(&self) -> Arc<AtomicU64> {
        self.written.clone()
    }

    /// Bytes that it has already.
    pub(super) fn size(&self) -> io::Result<u64> {
        match &self.kind {
            Kind::File(file) => file.size(),
            Kind::Upload(_) => Ok(0),
        }
    }

    /// Makes the bytes of a file durable, and returns how many these are.
    pub(super) fn sync(&self) -> io::Result<u64> {
        match &self.kind {
            Kind::File(file) => file.sync().and_then(|()| self.size()),
            Kind::Upload(_) => unreachable!("an object is of no use before its end"),
        }
    }

    /// Ends it behind its last byte.
    pub(super) fn end(&mut self, is_durable: bool) -> io::Result<Publication> {
        match &mut self.kind {
            Kind::File(file) => {
                if is_durable {
                    file.sync()?;
                }
                Ok(Publication::Rename)
            }
            Kind::Upload(upload) => upload.end().map(Publication::CompleteUpload),
        }
    }
}

impl Write for PartFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = match &mut self.kind {
            Kind::File(file) => file.write(bytes)?,
            Kind::Upload(upload) => upload.write(bytes)?,
        };
        self.written.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.kind {
            Kind::File(file) => file.flush(),
            Kind::Upload(upload) => upload.flush(),
        }
    }
}

impl Publication {
    /// Makes the part of that name visible. It may be so already.
    pub(super) fn publish(&self, location: &Location) -> io::Result<()> {
        match (self, location.bucket()) {
            (Publication::CompleteUpload(uploaded), Some(bucket)) => bucket.complete(&location.key(), uploaded),
            (Publication::CompleteUpload(_), None) => {
                Err(io::Error::other("was uploaded to S3, and the table is on this machine now"))
            }
            (Publication::Rename, None) => {
                let (disk, path) = (location.disk(), location.path());
                match disk.rename(&temporary(path), path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound && disk.size(path).is_ok() => Ok(()),
                    renamed => renamed,
                }
            }
            (Publication::Rename, Some(_)) => {
                Err(io::Error::other("was written on this machine, and the table is in S3 now"))
            }
        }
    }
}

/// The name of a file until it is complete.
pub(super) fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().map_or("".into(), |name| name.to_string_lossy());
    path.with_file_name(format!(".{name}{UNFINISHED}"))
}

/// Removes a file that is not complete. An upload that is dropped does so by itself.
pub(super) fn remove_unfinished(location: &Location) {
    if location.bucket().is_none() {
        // The query failed already; a hidden file that stays behind is not worth hiding its error for.
        let _ = location.disk().remove(&temporary(location.path()));
    }
}
