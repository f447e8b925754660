//! The source of one subscriber.

use std::any::Any;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, TryLockError};
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use pelton_data::Micros;
use pelton_data::time::WATERMARK_MIN;

use super::chunk::{Projection, SharedChunk};
use super::group::Member;
use super::{CHUNKS_WAITING_MAX, Input, Seen, Shared};
use crate::source::{Chunk, Decoded, LeftOut, Position, Read, Ready, Rows, Source, SourceError, read_as_chunk};
use crate::sync::atomic::Ordering;

/// How long a subscriber waits at most while another one reads. That one wakes it where it has read something.
const READER_WAIT: Duration = Duration::from_millis(1);

/// Rows of chunks that a subscriber takes together at most.
const ROWS_TOGETHER_MAX: usize = 1 << 17;

/// How long a subscriber waits at most for one whose queue is full, which wakes it.
const LAG_WAIT: Duration = Duration::from_millis(100);

pub(super) struct Subscription {
    pub shared: Arc<Shared>,
    pub slot: usize,
    /// The columns of the table that it reads,
    pub columns: Vec<usize>,
    /// and their names and types.
    pub schema: SchemaRef,
    /// Where it takes partial results in the place of rows: these have the names and types.
    pub member: Option<Arc<Member>>,
    /// Held as long as it is there.
    pub _lease: Option<Box<dyn Any + Send>>,
    /// What had been read when it came; until it reads for the first time.
    pub seen: Option<Seen>,
    /// See [`Source::began_behind`].
    pub began_behind: Option<Micros>,
    /// See [`Source::watermark`].
    pub watermark: Cell<Option<Micros>>,
}

impl Source for Subscription {
    fn partitions(&self) -> usize {
        self.shared.partitions.load(Ordering::Relaxed)
    }

    fn may_grow(&self) -> bool {
        self.shared.may_grow
    }

    fn read(&mut self, partition: usize) -> Result<Read, SourceError> {
        read_as_chunk(self, partition)
    }

    fn began_behind(&self) -> Option<Micros> {
        self.began_behind
    }

    fn watermark(&self, _partition: usize) -> Option<Micros> {
        self.watermark.get()
    }

    /// The number of the chunk that it takes next, and of the exchange.
    fn position(&self, partition: usize) -> Option<Position> {
        let row = self.shared.queues().queue(self.slot).chunk_next[partition];
        Some(Position { row, byte: self.shared.number, end: None })
    }

    fn has_lasting_positions(&self) -> bool {
        false
    }

    /// Goes on where another subscriber of the exchange is, which has taken all chunks that were read before this one came.
    fn resume(&mut self, partition: &str, position: Option<Position>) -> bool {
        let shared = self.shared.clone();
        let mut queues = shared.queues();
        let number = partition.parse().ok().filter(|&number: &usize| number < queues.ended.len());
        let Some(partition) = number else { return false };
        // One that has ended has ended for all.
        let has_ended = queues.ended[partition];
        let queue = queues.queue(self.slot);
        let Some(position) = position else {
            queue.chunks[partition].clear();
            return has_ended;
        };
        let next = &mut queue.chunk_next[partition];
        if position.byte != shared.number || position.row < *next || queue.has_fallen_behind {
            return false;
        }
        while *next < position.row && queue.chunks[partition].pop_front().is_some() {
            *next += 1;
        }
        let is_there = *next == position.row;
        shared.wake_waiting(&mut queues);
        // All rows before have been seen, by the one that it goes on from.
        self.seen = None;
        is_there
    }

    fn read_ready(&mut self, partition: usize, ready: &mut Ready) -> Result<Option<Read>, SourceError> {
        self.begin();
        self.watermark.set(None);
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
        if let Some(seen) = self.seen.take() {
            self.began_behind = Some(seen.time_max()).filter(|&time| time > WATERMARK_MIN);
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
        let chunks = take_together(&mut queue.chunks[partition]);
        queue.chunk_next[partition] += chunks.len() as u64;
        if chunks.is_empty() {
            queue.is_waiting = true;
            if let Some(error) = &queues.failure {
                return Err(error.clone());
            }
            return Ok(queues.ended[partition].then_some(Read::End));
        }
        queue.is_waiting = false;
        if waiting == CHUNKS_WAITING_MAX || queue.chunks[partition].is_empty() {
            self.shared.wake_waiting(&mut queues);
        }
        drop(queues);
        self.watermark.set(chunks.iter().filter_map(|chunk| chunk.watermark).max());
        Ok(Some(self.rows_of(chunks)))
    }

    /// The rows of chunks that follow each other.
    fn rows_of(&self, chunks: Vec<Arc<SharedChunk>>) -> Read {
        let (shared, schema) = (self.shared.clone(), self.schema.clone());
        let (columns, member) = (self.columns.clone(), self.member.clone());
        let rows = move |chunk: &SharedChunk| match &member {
            Some(member) => chunk.partial_results(&shared, member, &schema),
            None => chunk.rows(&shared, &columns, &schema),
        };
        Read::Chunk(Box::new(move || {
            let (first, others) = chunks.split_first().expect("there is a chunk");
            let mut all = rows(first)?;
            for chunk in others {
                let next = rows(chunk)?;
                let mut batches = all.rows.into_batches();
                batches.extend(next.rows.into_batches());
                all.rows = Rows::Batches(batches);
                all.left_out.add(next.left_out);
            }
            Ok(all)
        }))
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
        let chunks_max = shared.queues().chunks_together();
        let (read, behind) = match input.source.read_ready(partition, ready) {
            Ok(Some(Read::Chunk(first))) if chunks_max > 1 => {
                let (chunk, behind) = read_together(&mut *input.source, partition, first, chunks_max);
                (Ok(Some(Read::Chunk(chunk))), behind)
            }
            read => (read, None),
        };
        let (partitions, watermark) = (input.source.partitions(), input.source.watermark(partition));
        self.watermark.set(watermark);
        let mut queues = shared.queues();
        if partitions > queues.ended.len() {
            queues.grow(partitions);
            shared.partitions.store(partitions, Ordering::Relaxed);
        }
        match read {
            Ok(Some(Read::Chunk(chunk))) => {
                let chunk = self.publish(&mut queues, partition, &input.columns, (chunk, watermark));
                match behind {
                    Some(Ok(Read::End)) => queues.ended[partition] = true,
                    Some(Err(error)) => queues.failure = Some(error),
                    _ => {}
                }
                Ok(Some(self.rows_of(vec![chunk])))
            }
            Ok(None) if self.member.is_some() => {
                let chunk = (std::mem::take(ready).into_chunk(), watermark);
                let chunk = self.publish(&mut queues, partition, &input.columns, chunk);
                Ok(Some(self.rows_of(vec![chunk])))
            }
            Ok(None) => {
                if queues.others(self.slot).next().is_some() {
                    let rows = Ready { batches: ready.batches.clone(), blocks: ready.blocks.clone(), wait: None };
                    self.publish(&mut queues, partition, &input.columns, (rows.into_chunk(), watermark));
                } else {
                    queues.chunks_read[partition] += 1;
                    queues.queue(self.slot).chunk_next[partition] += 1;
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
    fn publish(
        &self,
        queues: &mut super::Queues,
        partition: usize,
        columns: &Arc<[usize]>,
        chunk: (Chunk, Option<Micros>),
    ) -> Arc<SharedChunk> {
        queues.chunks_read[partition] += 1;
        let queue = queues.queue(self.slot);
        queue.is_waiting = false;
        queue.chunk_next[partition] += 1;
        let chunk = queues.note(columns, chunk, &self.shared);
        for (_, queue) in queues.others(self.slot).filter(|(_, queue)| !queue.has_fallen_behind) {
            queue.chunks[partition].push_back(chunk.clone());
        }
        self.shared.wake_waiting(queues);
        chunk
    }
}

/// Reads the chunks behind the first one that are there, up to so many in all. Returns all as one, and what was found behind them in the place of a chunk.
pub(super) fn read_together(
    source: &mut dyn Source,
    partition: usize,
    first: Chunk,
    chunks_max: usize,
) -> (Chunk, Option<Result<Read, SourceError>>) {
    let mut chunks = vec![first];
    while chunks.len() < chunks_max {
        match source.read(partition) {
            Ok(Read::Chunk(chunk)) => chunks.push(chunk),
            behind => return (one_of(chunks), Some(behind)),
        }
    }
    (one_of(chunks), None)
}

/// The rows of chunks that follow each other, as those of one.
fn one_of(mut chunks: Vec<Chunk>) -> Chunk {
    if chunks.len() == 1 {
        return chunks.remove(0);
    }
    Box::new(move || {
        let mut all = Decoded { rows: Rows::Batches(Vec::new()), left_out: LeftOut::default(), provenance: None };
        let mut batches = Vec::new();
        for chunk in chunks {
            let Decoded { rows, left_out, .. } = chunk()?;
            batches.extend(rows.into_batches());
            all.left_out.add(left_out);
        }
        all.rows = Rows::Batches(batches);
        Ok(all)
    })
}

/// Takes the first chunk that waits, and those behind it that are decoded as it is: many small tasks cost more than one.
fn take_together(waiting: &mut VecDeque<Arc<SharedChunk>>) -> Vec<Arc<SharedChunk>> {
    let Some(first) = waiting.pop_front() else { return Vec::new() };
    let mut rows = first.rows_without_place();
    let mut taken = vec![first];
    while let (Some(before), Some(next)) = (rows, waiting.front()) {
        rows = next.rows_without_place().map(|next| before + next).filter(|&rows| rows <= ROWS_TOGETHER_MAX);
        if rows.is_some() {
            taken.extend(waiting.pop_front());
        }
    }
    taken
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
