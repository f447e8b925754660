//! Buckets of S3, and of what speaks its protocol.
//!
//! Requests run on the runtime of all network clients. Whoever reads or writes a file waits for them as for a disk, where what was read ahead, or is sent in the
//! background, does not do.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{Error, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, RetryConfig};

use super::{ACCESS_KEY, ENDPOINT, FoundObject, PATH_STYLE, REGION, SECRET_KEY};
use crate::ConnectorError;
use crate::io::runtime;
use crate::options::Options;

mod reader;

mod upload;

pub(crate) use reader::ObjectReader;
pub(crate) use upload::Upload;

/// How often a request is tried again, and for how long.
const RETRIES_MAX: usize = 5;
const RETRY_TIME_MAX: Duration = Duration::from_secs(30);

/// Where a virtual machine of Amazon's asks for credentials.
const METADATA_SERVER: &str = "169.254.169.254";

/// A bucket. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Bucket(Arc<Shared>);

struct Shared {
    name: String,
    builder: AmazonS3Builder,
    /// Made when it is needed first.
    client: OnceLock<Result<AmazonS3, String>>,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Bucket({})", self.0.name)
    }
}

impl Bucket {
    /// The bucket of a table. What its options do not say, the environment does: `AWS_ACCESS_KEY_ID`, `AWS_REGION` and the like.
    ///
    /// # Errors
    /// Where one of the keys is missing, or an option has no such value.
    pub(crate) fn new(name: &str, options: &Options) -> Result<Bucket, ConnectorError> {
        let retry = RetryConfig { max_retries: RETRIES_MAX, retry_timeout: RETRY_TIME_MAX, ..RetryConfig::default() };
        let mut builder = AmazonS3Builder::from_env().with_bucket_name(name).with_retry(retry);
        match (options.text(ACCESS_KEY), options.text(SECRET_KEY)) {
            (Some(key), Some(secret)) => builder = builder.with_access_key_id(key).with_secret_access_key(secret),
            (None, None) => {}
            (Some(_), None) => {
                return Err(ConnectorError::option(ACCESS_KEY, format!("needs '{SECRET_KEY}' beside it")));
            }
            (None, Some(_)) => {
                return Err(ConnectorError::option(SECRET_KEY, format!("needs '{ACCESS_KEY}' beside it")));
            }
        }
        if let Some(region) = options.text(REGION) {
            builder = builder.with_region(region);
        }
        let has_path_style = options.boolean(PATH_STYLE)?;
        if let Some(endpoint) = options.text(ENDPOINT) {
            let endpoint = if endpoint.contains("://") { endpoint.to_owned() } else { format!("https://{endpoint}") };
            builder = builder.with_allow_http(endpoint.starts_with("http://"));
            builder = match has_path_style || is_address(&endpoint) {
                true => builder.with_endpoint(endpoint).with_virtual_hosted_style_request(false),
                false => {
                    let endpoint = endpoint.replacen("://", &format!("://{name}."), 1);
                    builder.with_endpoint(endpoint).with_virtual_hosted_style_request(true)
                }
            };
        }
        Ok(Bucket(Arc::new(Shared { name: name.to_owned(), builder, client: OnceLock::new() })))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    fn client(&self) -> io::Result<&AmazonS3> {
        let make = || self.0.builder.clone().build().map_err(|error| error.to_string());
        self.0.client.get_or_init(make).as_ref().map_err(|problem| io::Error::other(problem.clone()))
    }

    /// Does something with a client on the runtime, and waits for its end.
    fn ask<T, F>(&self, request: impl FnOnce(AmazonS3) -> F) -> io::Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let answer = started(request(self.client()?.clone()));
        answer.wait().map_err(|error| self.problem(&error))
    }

    /// What is known of an object, if it is there.
    pub(crate) fn find(&self, key: &str) -> io::Result<Option<FoundObject>> {
        match self.meta(key) {
            Ok(meta) => Ok(Some(found(&meta))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn meta(&self, key: &str) -> io::Result<ObjectMeta> {
        let key = parsed(key)?;
        self.ask(|client| async move {
            let options = GetOptions { head: true, ..GetOptions::default() };
            client.get_opts(&key, options).await.map(|answer| answer.meta)
        })
    }

    /// All objects below a path that have bytes.
    pub(crate) fn list(&self, below: &str) -> io::Result<Vec<FoundObject>> {
        let below = below.trim_matches('/');
        let prefix = (!below.is_empty()).then(|| format!("{below}/"));
        self.ask(|client| async move {
            let (mut objects, mut page_token) = (Vec::new(), None);
            loop {
                let options = PaginatedListOptions { page_token, ..PaginatedListOptions::default() };
                let page = client.list_paginated(prefix.as_deref(), options).await?;
                // Some programs make an empty object for a directory.
                objects.extend(page.result.objects.iter().filter(|meta| meta.size > 0).map(found));
                page_token = page.page_token;
                if page_token.is_none() {
                    return Ok(objects);
                }
            }
        })
    }

    /// Opens an object for reading.
    pub(crate) fn open(&self, key: &str) -> io::Result<ObjectReader> {
        let meta = self.meta(key)?;
        Ok(ObjectReader::new(self.clone(), meta))
    }

    /// Removes an object, which may not be there.
    pub(crate) fn remove(&self, key: &str) -> io::Result<()> {
        let key = parsed(key)?;
        match self.ask(|client| async move { client.delete(&key).await }) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Makes an object without bytes.
    pub(crate) fn put_empty(&self, key: &str) -> io::Result<()> {
        let key = parsed(key)?;
        self.ask(|client| async move { client.put(&key, Vec::new().into()).await.map(drop) })
    }

    /// The bytes of an object.
    pub(crate) fn read(&self, key: &str) -> io::Result<Vec<u8>> {
        let object = self.open(key)?;
        let mut bytes = vec![0; object.size() as usize];
        let read = object.read_at(&mut bytes, 0)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Makes an object with these bytes; whether there was none.
    pub(crate) fn create(&self, key: &str, bytes: &[u8]) -> io::Result<bool> {
        let (key, bytes) = (parsed(key)?, bytes.to_vec());
        let put = self
            .ask(|client| async move { client.put_opts(&key, bytes.into(), PutMode::Create.into()).await.map(drop) });
        match put {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            put => put.map(|()| true),
        }
    }

    /// Begins an object that is visible when its upload is complete.
    pub(crate) fn upload(&self, key: &str) -> io::Result<Upload> {
        let key = parsed(key)?;
        let path = key.clone();
        let id = self.ask(|client| async move { client.create_multipart(&path).await })?;
        Ok(Upload::new(self.clone(), key, id))
    }

    /// Makes an object visible whose bytes were uploaded, given what [`Upload::end`] returned. That may have been done.
    pub(crate) fn complete(&self, key: &str, uploaded: &str) -> io::Result<()> {
        let path = parsed(key)?;
        let mut words = uploaded.split(',').map(str::to_owned);
        let id = words.next().unwrap_or_default();
        let parts = words.map(|content_id| PartId { content_id }).collect();
        let completed = self.ask(|client| async move { client.complete_multipart(&path, &id, parts).await.map(drop) });
        match completed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => match self.find(key)? {
                Some(_) => Ok(()),
                None => Err(io::Error::other("its upload is not there any more, and was never completed")),
            },
            completed => completed,
        }
    }

    /// What is wrong, in words that people can do something with.
    fn problem(&self, error: &Error) -> io::Error {
        let message = error.to_string();
        let code = message.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>")).map(|(code, _)| code);
        let name = &self.0.name;
        match (code, error) {
            (Some("NoSuchBucket"), _) => io::Error::other(format!("there is no bucket '{name}'")),
            (Some("NoSuchUpload"), _) => io::ErrorKind::NotFound.into(),
            (_, Error::NotFound { .. }) => io::ErrorKind::NotFound.into(),
            (_, Error::AlreadyExists { .. }) => io::ErrorKind::AlreadyExists.into(),
            (_, Error::Precondition { .. }) => io::Error::other("the object was overwritten while it was read"),
            (Some("AccessDenied" | "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidClientTokenId"), _)
            | (_, Error::PermissionDenied { .. } | Error::Unauthenticated { .. }) => {
                let reason = code.unwrap_or("the server does not say why");
                io::Error::other(format!(
                    "access to the bucket '{name}' is denied ({reason}): check '{ACCESS_KEY}' and '{SECRET_KEY}', and what these may do"
                ))
            }
            _ if message.contains(METADATA_SERVER) => io::Error::other(format!(
                "there are no credentials for the bucket '{name}': set '{ACCESS_KEY}' and '{SECRET_KEY}', or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )),
            _ => io::Error::other(format!("the bucket '{name}': {}", message.replace('\n', " "))),
        }
    }
}

/// A request that is on its way.
struct Started<T>(std::sync::mpsc::Receiver<T>);

/// Runs a request on the runtime.
fn started<T: Send + 'static>(request: impl Future<Output = T> + Send + 'static) -> Started<T> {
    let (sender, receiver) = sync_channel(1);
    runtime().spawn(async move {
        let answer = request.await;
        // Whoever waited for it may have gone.
        let _ = sender.send(answer);
    });
    Started(receiver)
}

impl<T> Started<T> {
    fn wait(self) -> T {
        self.0.recv().expect("a request ends with an answer")
    }
}

fn found(meta: &ObjectMeta) -> FoundObject {
    let ObjectMeta { location, last_modified, size, .. } = meta;
    FoundObject { key: location.to_string(), size: *size, modified_millis: last_modified.timestamp_millis() }
}

fn parsed(key: &str) -> io::Result<Path> {
    Path::parse(key).map_err(|error| io::Error::other(format!("no object has the name '{key}': {error}")))
}

/// Whether the host of a URL is an address or this machine, before which no bucket's name can stand.
fn is_address(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.starts_with('[') {
        return true;
    }
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    host == "localhost" || host.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bucket_stands_before_an_address() {
        for url in ["http://127.0.0.1:9000", "https://[::1]:9000/", "http://localhost:5000/x", "http://10.0.0.1"] {
            assert!(is_address(url), "{url}");
        }
        for url in ["https://s3.eu-central-1.amazonaws.com", "http://minio:9000", "https://example.com/"] {
            assert!(!is_address(url), "{url}");
        }
    }
}
