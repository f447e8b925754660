//! Where files are: in directories of this machine, or in buckets of S3.
//!
//! A [`Location`] is either, and what reads or writes files asks it. Objects have no directories, cannot grow, and are visible as a whole when an upload is complete.
//! What must outlive a crash is written through a [`Disk`].

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::ConnectorError;
use crate::options::Options;
use crate::random::unique;

#[cfg(feature = "s3")]
pub(crate) mod s3;

#[cfg(not(feature = "s3"))]
#[path = "without_s3.rs"]
pub(crate) mod s3;

mod directory;

mod disk;

pub use directory::ObjectDirectory;
pub use disk::{Disk, DiskFile, LocalDisk};
use s3::Bucket;

/// What the paths of objects begin with.
const SCHEMES: [&str; 2] = ["s3://", "s3a://"];

/// Flink's options.
pub(crate) const ENDPOINT: &str = "s3.endpoint";
pub(crate) const ACCESS_KEY: &str = "s3.access-key";
pub(crate) const SECRET_KEY: &str = "s3.secret-key";
pub(crate) const REGION: &str = "s3.region";
pub(crate) const PATH_STYLE: &str = "s3.path.style.access";

const ALL: [&str; 5] = [ENDPOINT, ACCESS_KEY, SECRET_KEY, REGION, PATH_STYLE];

/// Makes the options of S3 known, which tables on this machine need not.
fn acknowledge(options: &Options) {
    for name in ALL {
        options.text(name);
    }
}

/// The place of a file or a directory.
#[derive(Debug, Clone)]
pub(crate) struct Location {
    /// On this machine, or within the bucket.
    path: PathBuf,
    bucket: Option<Bucket>,
    /// Where it is written to, if it is in no bucket.
    disk: Arc<dyn Disk>,
}

/// The name of a bucket, and a path within it, where a path names these.
pub(crate) fn object(path: &str) -> Option<(&str, &str)> {
    let rest = SCHEMES.iter().find_map(|scheme| path.strip_prefix(scheme))?;
    Some(rest.split_once('/').unwrap_or((rest, "")))
}

impl Location {
    /// What a table's path names. No server is asked.
    ///
    /// # Errors
    /// Where the path has another scheme than those of files and objects, or the options of S3 make no sense.
    pub(crate) fn of(path: &str, options: &Options) -> Result<Location, ConnectorError> {
        acknowledge(options);
        if let Some((bucket, key)) = object(path) {
            if bucket.is_empty() {
                let problem = format!("must have the name of a bucket, as in s3://bucket/path, not '{path}'");
                return Err(ConnectorError::option("path", problem));
            }
            return Ok(Location { bucket: Some(Bucket::new(bucket, options)?), ..Location::local(key) });
        }
        let local = path.strip_prefix("file://").unwrap_or(path);
        match local.split_once("://") {
            Some((scheme, _)) => {
                let problem = format!("has the scheme '{scheme}'; only file:// and s3:// are supported");
                Err(ConnectorError::option("path", problem))
            }
            None => Ok(Location::local(local)),
        }
    }

    /// A file or directory of this machine.
    pub(crate) fn local(path: impl Into<PathBuf>) -> Location {
        Location { path: path.into(), bucket: None, disk: Arc::new(LocalDisk) }
    }

    /// The same on another disk, if it is in no bucket.
    pub(crate) fn on(self, disk: &Arc<dyn Disk>) -> Location {
        Location { disk: disk.clone(), ..self }
    }

    /// Where it is written to, if it is in no bucket.
    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// Its path: on this machine, or within its bucket.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of an object within its bucket, as the bucket has it.
    pub(crate) fn key(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// Its bucket, where it is not on this machine.
    pub(crate) fn bucket(&self) -> Option<&Bucket> {
        self.bucket.as_ref()
    }

    /// What is below it by that name.
    pub(crate) fn join(&self, name: impl AsRef<Path>) -> Location {
        self.with_path(self.path.join(name))
    }

    /// The bytes of a file.
    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        match &self.bucket {
            Some(bucket) => bucket.read(&self.key()),
            None => {
                let mut bytes = Vec::new();
                self.disk.open(&self.path)?.read_to_end(&mut bytes)?;
                Ok(bytes)
            }
        }
    }

    /// How many these are.
    pub(crate) fn size(&self) -> io::Result<u64> {
        match &self.bucket {
            Some(bucket) => {
                bucket.find(&self.key())?.map(|found| found.size).ok_or_else(|| io::ErrorKind::NotFound.into())
            }
            None => self.disk.size(&self.path),
        }
    }

    /// Makes a file with these bytes that cannot be lost, as a whole or not at all; whether there was none.
    pub(crate) fn create(&self, bytes: &[u8]) -> io::Result<bool> {
        match &self.bucket {
            Some(bucket) => bucket.create(&self.key(), bytes),
            None => create_file(&*self.disk, &self.path, bytes),
        }
    }

    /// Another path in the same bucket or on the same machine.
    pub(crate) fn with_path(&self, path: impl Into<PathBuf>) -> Location {
        Location { path: path.into(), ..self.clone() }
    }
}

/// See [`Location::create`].
fn create_file(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let directory = path.parent().unwrap_or(Path::new("."));
    disk.make_directory(directory)?;
    let temporary = directory.join(format!(".{:016x}.tmp", unique()));
    let mut file = disk.create_new(&temporary)?;
    let written = file.write_all(bytes).and_then(|()| file.sync());
    drop(file);
    // A link is there at once, and in the place of no other file.
    let linked = written.and_then(|()| disk.link(&temporary, path));
    disk.remove(&temporary)?;
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        linked => linked?,
    }
    disk.sync_names(directory)?;
    Ok(true)
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.bucket {
            Some(bucket) => write!(formatter, "s3://{}/{}", bucket.name(), self.path.display()),
            None => write!(formatter, "{}", self.path.display()),
        }
    }
}

/// An object that was found.
#[derive(Debug, Clone)]
pub(crate) struct FoundObject {
    pub(crate) key: String,
    /// Bytes.
    pub(crate) size: u64,
    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub(crate) modified_millis: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_objects_name_a_bucket() {
        assert_eq!(object("s3://bucket/a/b.csv"), Some(("bucket", "a/b.csv")));
        assert_eq!(object("s3a://bucket"), Some(("bucket", "")));
        assert_eq!(object("/s3/bucket/a"), None);
        assert_eq!(object("gs://bucket/a"), None);
    }
}
