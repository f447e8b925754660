//! Values by their names in a bucket, such as those of checkpoints.

use std::collections::BTreeMap;
use std::io::{self, Write as _};

use super::object;
use super::s3::Bucket;
use crate::ConnectorError;
use crate::options::Options;

/// A path of a bucket, and the values directly below it.
#[derive(Debug, Clone)]
pub struct ObjectDirectory {
    bucket: Bucket,
    /// Within the bucket, without `/` at its ends.
    path: String,
}

impl ObjectDirectory {
    /// The directory that a path names, if it is in a bucket; what `options` do not say of that, the environment does. No server is asked.
    ///
    /// # Errors
    /// Where the program was built without S3, or the options make no sense.
    pub fn of(path: &str, options: &BTreeMap<String, String>) -> Result<Option<ObjectDirectory>, ConnectorError> {
        let Some((bucket, path)) = object(path) else { return Ok(None) };
        let bucket = Bucket::new(bucket, &Options::new(options))?;
        Ok(Some(ObjectDirectory { bucket, path: path.trim_matches('/').to_owned() }))
    }

    /// Whether a path names one.
    pub fn is_named(path: &str) -> bool {
        object(path).is_some_and(|(bucket, _)| !bucket.is_empty())
    }

    /// The directory of that name below it.
    #[must_use]
    pub fn below(&self, name: &str) -> ObjectDirectory {
        ObjectDirectory { path: self.key(name), bucket: self.bucket.clone() }
    }

    /// Writes a value. When this returns it cannot be lost; before that it is not there.
    ///
    /// # Errors
    /// Where the server does not take it.
    pub fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let key = self.key(name);
        let mut upload = self.bucket.upload(&key)?;
        upload.write_all(bytes)?;
        let uploaded = upload.end()?;
        self.bucket.complete(&key, &uploaded)
    }

    /// Reads a value.
    ///
    /// # Errors
    /// Where it is not there, or cannot be read.
    pub fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        self.bucket.read(&self.key(name))
    }

    /// The names of all values.
    ///
    /// # Errors
    /// Where the server does not tell them.
    pub fn list(&self) -> io::Result<Vec<String>> {
        let root = self.path.len();
        let found = self.bucket.list(&self.path)?;
        let names = found.into_iter().map(|found| found.key[root..].trim_start_matches('/').to_owned());
        Ok(names.filter(|name| !name.contains('/')).collect())
    }

    /// Removes a value, which may not be there.
    ///
    /// # Errors
    /// Where the server does not.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        self.bucket.remove(&self.key(name))
    }

    /// What people call it.
    pub fn place(&self) -> String {
        format!("s3://{}/{}", self.bucket.name(), self.path)
    }

    fn key(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}/{name}", self.path) }
    }
}
