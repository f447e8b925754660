//! An object that is open for reading.
//!
//! Its bytes come in segments. The first read of one asks for it; where those directly before it have been read, as many behind it are asked for as well, so that
//! whoever reads on finds the next ones there.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Error, GetOptions, ObjectMeta, ObjectStore};

use super::Bucket;
use crate::io::runtime;

/// Bytes of a segment: large against what a request costs.
const SEGMENT_BYTES: u64 = 1 << 20;

/// Segments that are read ahead.
const AHEAD_MAX: u64 = 8;

/// Segments of an object in memory.
const SEGMENTS_MAX: usize = 24;

/// An object, which is read as it was when it was opened.
#[derive(Debug)]
pub(crate) struct ObjectReader {
    bucket: Bucket,
    path: Path,
    size: u64,
    /// What tells its content from another one.
    tag: Option<String>,
    segments: Mutex<Segments>,
    /// Where [`ObjectReader::read_next`] is.
    next: AtomicU64,
    /// Why it cannot be read.
    failure: Mutex<Option<String>>,
}

#[derive(Debug, Default)]
struct Segments {
    by_number: BTreeMap<u64, (Arc<Segment>, u64)>,
    /// How often one was asked for.
    uses: u64,
}

/// Bytes that are there or on their way.
#[derive(Debug, Default)]
struct Segment {
    bytes: Mutex<Option<Result<Bytes, Arc<Error>>>>,
    arrived: Condvar,
}

impl ObjectReader {
    pub(super) fn new(bucket: Bucket, meta: ObjectMeta) -> ObjectReader {
        ObjectReader {
            bucket,
            path: meta.location,
            size: meta.size,
            tag: meta.e_tag,
            segments: Mutex::default(),
            next: AtomicU64::new(0),
            failure: Mutex::default(),
        }
    }

    /// Bytes that it has.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Why it could not be read, if it could not.
    pub(crate) fn failure(&self) -> Option<String> {
        lock(&self.failure).clone()
    }

    /// Reads the bytes behind those that were read last so.
    pub(crate) fn read_next(&self, into: &mut [u8]) -> io::Result<usize> {
        let at = self.next.load(Ordering::Relaxed);
        let rest = SEGMENT_BYTES - at % SEGMENT_BYTES;
        let count = into.len().min(rest as usize);
        let read = self.read_at(&mut into[..count], at)?;
        self.next.store(at + read as u64, Ordering::Relaxed);
        Ok(read)
    }

    /// Reads bytes from a place on: fewer than there is room for only at the end.
    pub(crate) fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let mut read = 0;
        while read < into.len() && at + (read as u64) < self.size {
            let place = at + read as u64;
            let bytes = self.segment(place / SEGMENT_BYTES)?;
            let found = bytes.get((place % SEGMENT_BYTES) as usize..).unwrap_or_default();
            if found.is_empty() {
                return Err(self.failed("the object is shorter than its size".to_owned()));
            }
            let count = found.len().min(into.len() - read);
            into[read..read + count].copy_from_slice(&found[..count]);
            read += count;
        }
        Ok(read)
    }

    fn failed(&self, problem: String) -> io::Error {
        lock(&self.failure).get_or_insert_with(|| problem.clone());
        io::Error::other(problem)
    }

    /// A segment, as soon as it is there.
    fn segment(&self, number: u64) -> io::Result<Bytes> {
        let segment = {
            let mut segments = lock(&self.segments);
            let run = (1..=AHEAD_MAX).take_while(|back| {
                number.checked_sub(*back).is_some_and(|before| segments.by_number.contains_key(&before))
            });
            for ahead in 1..=run.count() as u64 {
                if (number + ahead) * SEGMENT_BYTES < self.size {
                    self.ask(&mut segments, number + ahead)?;
                }
            }
            // The last one that is asked for is the last to be dropped.
            self.ask(&mut segments, number)?
        };
        let mut bytes = lock(&segment.bytes);
        loop {
            match &*bytes {
                Some(Ok(bytes)) => return Ok(bytes.clone()),
                Some(Err(error)) => return Err(self.failed(self.bucket.problem(error).to_string())),
                None => bytes = segment.arrived.wait(bytes).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// A segment that is there or on its way.
    fn ask(&self, segments: &mut Segments, number: u64) -> io::Result<Arc<Segment>> {
        segments.uses += 1;
        let uses = segments.uses;
        if let Some((segment, used)) = segments.by_number.get_mut(&number) {
            *used = uses;
            return Ok(segment.clone());
        }
        let client = self.bucket.client()?.clone();
        if segments.by_number.len() >= SEGMENTS_MAX {
            let oldest = segments.by_number.iter().min_by_key(|(_, (_, used))| *used).map(|(number, _)| *number);
            oldest.map(|oldest| segments.by_number.remove(&oldest));
        }
        let segment = Arc::new(Segment::default());
        segments.by_number.insert(number, (segment.clone(), uses));
        let from = number * SEGMENT_BYTES;
        let range = from..(from + SEGMENT_BYTES).min(self.size);
        let options = GetOptions { range: Some(range.into()), if_match: self.tag.clone(), ..GetOptions::default() };
        let (path, filled) = (self.path.clone(), segment.clone());
        runtime().spawn(async move {
            let read = async { client.get_opts(&path, options).await?.bytes().await };
            let read = read.await.map_err(Arc::new);
            *lock(&filled.bytes) = Some(read);
            filled.arrived.notify_all();
        });
        Ok(segment)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
