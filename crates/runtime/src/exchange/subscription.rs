//! The source of one subscriber.

use std::sync::{Arc, TryLockError};
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use pelton_data::Micros;
use pelton_data::time::WATERMARK_MIN;

use super::chunk::{Projection, SharedChunk};
use super::{CHUNKS_WAITING_MAX, Input, Shared};
use crate::source::{Read, Ready, Source, SourceError};
use crate::sync::atomic::Ordering;

/// How long a subscriber waits at most while another one reads. That one wakes it where it has read something.
const READER_WAIT: Duration = Duration::from_millis(1);

/// How long a subscriber waits at most for one whose queue is full, which wakes it.
const LAG_WAIT: Duration = Duration::from_millis(100);

pub(super) struct Subscription {
    pub shared: Arc<Shared>,
    pub slot: usize,
    /// The columns of the table that it reads,
    pub columns: Vec<usize>,
    /// and their names and types.
    pub schema: SchemaRef,
    /// Chunks that had been read when it came and perhaps not decoded, and the largest event time of those that had been; until it reads for the first time.
    pub before: Option<(Vec<Arc<SharedChunk>>, Micros)>,
    /// See [`Source::began_behind`].
    pub began_behind: Option<Micros>,
}

impl Source for Subscription {
    fn partitions(&self) -> usize {
        self.shared.partitions.load(Ordering::Relaxed)
    }

    fn may_grow(&self) -> bool {
        self.shared.may_grow
    }

    fn read(&mut self, partition: usize) -> Result<Read, SourceError> {
        let mut ready = Ready::default();
        let read = self.read_ready(partition, &mut ready)?;
        Ok(read.unwrap_or_else(|| Read::Chunk(ready.into_chunk())))
    }

    fn began_behind(&self) -> Option<Micros> {
        self.began_behind
    }

    fn read_ready(&mut self, partition: usize, ready: &mut Ready) -> Result<Option<Read>, SourceError> {
        self.begin();
        if let Some(read) = self.read_queue(partition)? {
            return Ok(Some(read));
        }
        let shared = self.shared.clone();
        let mut input = match shared.input.try_lock() {
            Ok(input) => input,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Whoever reads may have queued rows already; if not, it wakes those who wait when it does.
            Err(TryLockError::WouldBlock) => {
                return Ok(Some(self.read_queue(partition)?.unwrap_or(Read::Wait(READER_WAIT))));
            }
        };
        // Somebody may have read before this one had the source.
        if let Some(read) = self.read_queue(partition)? {
            return Ok(Some(read));
        }
        if !shared.queues().have_room(self.slot, partition, &shared.budget) {
            return Ok(Some(Read::Wait(LAG_WAIT)));
        }
        self.read_source(&mut input, partition, ready)
    }
}

impl Subscription {
    /// Finds out how far the event times of rows go that came before.
    fn begin(&mut self) {
        if let Some((chunks, time_max)) = self.before.take() {
            let times = chunks.iter().map(|chunk| chunk.time_max(&self.shared));
            self.began_behind = times.chain([time_max]).max().filter(|&time| time > WATERMARK_MIN);
        }
    }

    /// The next chunk that waits, or why there is none. `None` where the source must be read: then others wake this subscriber as one that waits.
    fn read_queue(&self, partition: usize) -> Result<Option<Read>, SourceError> {
        let mut queues = self.shared.queues();
        let queue = queues.queue(self.slot);
        if queue.has_fallen_behind {
            return Err(self.fallen_behind());
        }
        let waiting = queue.chunks[partition].len();
        let Some(chunk) = queue.chunks[partition].pop_front() else {
            queue.is_waiting = true;
            if let Some(error) = &queues.failure {
                return Err(error.clone());
            }
            return Ok(queues.ended[partition].then_some(Read::End));
        };
        queue.is_waiting = false;
        if waiting == CHUNKS_WAITING_MAX || waiting == 1 {
            self.shared.wake_waiting(&mut queues);
        }
        drop(queues);
        Ok(Some(self.chunk(chunk)))
    }

    fn chunk(&self, chunk: Arc<SharedChunk>) -> Read {
        let (shared, columns, schema) = (self.shared.clone(), self.columns.clone(), self.schema.clone());
        Read::Chunk(Box::new(move || chunk.rows(&shared, &columns, &schema)))
    }

    fn fallen_behind(&self) -> SourceError {
        let problem = format!(
            "the query fell more than {CHUNKS_WAITING_MAX} chunks of rows behind the others that read the table: \
             SET 'pelton.sharing.on-lag' = 'wait' has these wait for it"
        );
        SourceError::Input { place: self.shared.table.clone(), problem }
    }

    /// Reads the source for all.
    fn read_source(&self, input: &mut Input, partition: usize, ready: &mut Ready) -> Result<Option<Read>, SourceError> {
        let shared = &*self.shared;
        let read = input.source.read_ready(partition, ready);
        let partitions = input.source.partitions();
        let mut queues = shared.queues();
        if partitions > queues.ended.len() {
            queues.grow(partitions);
            shared.partitions.store(partitions, Ordering::Relaxed);
        }
        match read {
            Ok(Some(Read::Chunk(chunk))) => {
                let chunk = Arc::new(SharedChunk::new(input.columns.clone(), chunk));
                self.publish(&mut queues, partition, &chunk);
                Ok(Some(self.chunk(chunk)))
            }
            Ok(None) => {
                if queues.others(self.slot).next().is_some() {
                    let rows = Ready { batches: ready.batches.clone(), blocks: ready.blocks.clone(), wait: None };
                    let chunk = SharedChunk::new(input.columns.clone(), rows.into_chunk());
                    self.publish(&mut queues, partition, &Arc::new(chunk));
                } else {
                    shared.note_times(&input.columns, &ready.batches, &ready.blocks);
                }
                queues.queue(self.slot).is_waiting = ready.wait.is_some();
                let projection = Projection::new(&input.columns, &self.columns, &self.schema);
                if !projection.is_identity() {
                    ready.batches.iter_mut().for_each(|batch| *batch = projection.batch(batch));
                    ready.blocks.iter_mut().for_each(|block| *block = projection.block(block));
                }
                Ok(None)
            }
            Ok(Some(Read::End)) => {
                queues.ended[partition] = true;
                shared.wake_waiting(&mut queues);
                Ok(Some(Read::End))
            }
            Ok(Some(wait)) => Ok(Some(wait)),
            Err(error) => {
                queues.failure = Some(error.clone());
                shared.wake_waiting(&mut queues);
                Err(error)
            }
        }
    }

    /// Queues a chunk for all others.
    fn publish(&self, queues: &mut super::Queues, partition: usize, chunk: &Arc<SharedChunk>) {
        queues.queue(self.slot).is_waiting = false;
        queues.note(chunk, &self.shared);
        for (_, queue) in queues.others(self.slot).filter(|(_, queue)| !queue.has_fallen_behind) {
            queue.chunks[partition].push_back(chunk.clone());
        }
        self.shared.wake_waiting(queues);
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut queues = self.shared.queues();
        queues.subscribers[self.slot] = None;
        self.shared.bell.remove(self.slot);
        // They may have waited for this one.
        self.shared.wake_waiting(&mut queues);
    }
}
