//! An object that is being written: its bytes are sent in parts, and it is visible when all of them are put together.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::mem;

use object_store::Error;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;

use super::{Bucket, Started, started};
use crate::io::runtime;

/// Bytes of the first parts: S3 takes none that are smaller but for the last. Behind each thousand of its parts, of which it takes ten thousand, they are twice as large.
const PART_BYTES: usize = 5 << 20;
const PARTS_OF_ONE_SIZE: usize = 1_000;

/// Parts of an object that are sent at once. Then whoever writes has to wait.
const SENDING_MAX: usize = 3;

/// An object that is being written. Dropping it before its end removes what was sent.
pub(crate) struct Upload {
    bucket: Bucket,
    path: Path,
    id: String,
    buffer: Vec<u8>,
    /// Parts that are sent, in order,
    sending: VecDeque<Started<Result<PartId, Error>>>,
    /// and those before them that are there.
    sent: Vec<String>,
    has_ended: bool,
}

impl Upload {
    pub(super) fn new(bucket: Bucket, path: Path, id: String) -> Upload {
        Upload { bucket, path, id, buffer: Vec::new(), sending: VecDeque::new(), sent: Vec::new(), has_ended: false }
    }

    /// Sends the rest, and waits until all bytes are durable. Returns what the object is made visible by, without spaces, also when this process has ended.
    pub(crate) fn end(&mut self) -> io::Result<String> {
        let parts = self.sent.len() + self.sending.len();
        if !self.buffer.is_empty() || parts == 0 {
            self.send()?;
        }
        while !self.sending.is_empty() {
            self.settle()?;
        }
        self.has_ended = true;
        Ok([mem::take(&mut self.id)].into_iter().chain(mem::take(&mut self.sent)).collect::<Vec<_>>().join(","))
    }

    /// Sends what was written.
    fn send(&mut self) -> io::Result<()> {
        while self.sending.len() >= SENDING_MAX {
            self.settle()?;
        }
        let client = self.bucket.client()?.clone();
        let (path, id, index) = (self.path.clone(), self.id.clone(), self.sent.len() + self.sending.len());
        let bytes = mem::take(&mut self.buffer);
        self.sending.push_back(started(async move { client.put_part(&path, &id, index, bytes.into()).await }));
        Ok(())
    }

    /// Waits until the first of the parts that are being sent is there.
    fn settle(&mut self) -> io::Result<()> {
        let Some(part) = self.sending.pop_front() else { return Ok(()) };
        let part = part.wait().map_err(|error| self.bucket.problem(&error))?;
        self.sent.push(part.content_id);
        Ok(())
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let parts = self.sent.len() + self.sending.len();
        let part_bytes = PART_BYTES << (parts / PARTS_OF_ONE_SIZE);
        let count = bytes.len().min(part_bytes - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..count]);
        if self.buffer.len() >= part_bytes {
            self.send()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let Ok(client) = self.bucket.client() else { return };
        let (client, path, id) = (client.clone(), self.path.clone(), mem::take(&mut self.id));
        runtime().spawn(async move {
            // Nobody sees what stays, and the query has failed for another reason already.
            let _ = client.abort_multipart(&path, &id).await;
        });
    }
}
