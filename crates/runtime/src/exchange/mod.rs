//! Sources that several runs read.
//!
//! A source is read once and each of its chunks is decoded once, however many runs subscribe to it (HDES, section 3.3.1). There is no thread in between: the
//! subscriber that asks first reads the next chunk from the source, the others find it in their queues, and the first that needs the rows decodes them. A source
//! with one subscriber is read as if there were no exchange.
//!
//! A subscriber gets all chunks that are read after it has subscribed. The source is not read while a subscriber that others wait for has a full queue.

mod bell;
mod chunk;
mod group;
mod query_sets;
mod subscription;
mod summary;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, Weak};

use arrow::array::RecordBatch;
use arrow::compute::kernels::aggregate;
use arrow::datatypes::SchemaRef;
use pelton_data::block::ticks;
use pelton_data::time::WATERMARK_MIN;
use pelton_data::{Block, Micros, TimeColumn};

pub use self::bell::Bell;
use self::chunk::{Before, SharedChunk};
pub use self::group::{Group, GroupState, Member};
use self::subscription::Subscription;
pub use self::summary::{ColumnFunction, Summarizer, Sums};
use crate::memory::budget::Budget;
use crate::source::{Chunk, Source, SourceError};
use crate::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard};
use crate::wake::Waker;

/// Chunks of a partition that wait for a subscriber at most.
pub const CHUNKS_WAITING_MAX: usize = 16;

/// Exchanges that there have been in this process.
static EXCHANGES: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// A source that several runs read. It is closed with the last subscriber.
#[derive(Clone)]
pub struct Exchange(Arc<Shared>);

/// Finds an exchange as long as it has a subscriber.
#[derive(Clone, Default)]
pub struct WeakExchange(Weak<Shared>);

/// A run that subscribes.
pub struct Subscriber {
    /// For people: the query.
    pub name: String,
    /// Wakes its workers.
    pub waker: Waker,
    /// The columns of the table that it reads, in this order.
    pub columns: Vec<usize>,
    /// Their names and types.
    pub schema: SchemaRef,
    /// What happens when its queue is full.
    pub on_lag: OnLag,
    /// Where it takes partial results of a group in the place of rows. These have the names and types of `schema`.
    pub member: Option<Member>,
    /// Held as long as it subscribes.
    pub lease: Option<Box<dyn Any + Send>>,
}

/// What happens to a subscriber that does not keep up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnLag {
    /// The others wait for it.
    #[default]
    Wait,
    /// It fails, and the others go on.
    Fail,
}

struct Shared {
    /// The table's name.
    table: String,
    /// No other exchange of the process has it: positions are those of one exchange.
    number: u64,
    bell: Bell,
    /// The event time, by its place among the table's columns.
    time: Option<TimeColumn>,
    /// The largest event time of rows that have been decoded.
    time_max: AtomicI64,
    /// Partitions of the source so far.
    partitions: AtomicUsize,
    may_grow: bool,
    /// Locked before `queues`.
    input: Mutex<Input>,
    queues: Mutex<Queues>,
    budget: Budget,
}

/// What is read, by one subscriber at a time.
struct Input {
    source: Box<dyn Source>,
    /// The columns of the table that its chunks have.
    columns: Arc<[usize]>,
}

struct Queues {
    /// Chunks of each partition that have been read.
    chunks_read: Vec<u64>,
    /// Slots, which are used again when a subscriber has left.
    subscribers: Vec<Option<Queue>>,
    /// Partitions that have ended.
    ended: Vec<bool>,
    /// Why the source cannot be read any more.
    failure: Option<SourceError>,
    /// Chunks that have been read, and perhaps not decoded.
    undecoded: Vec<Arc<SharedChunk>>,
}

/// What had been read of an exchange at one time.
pub struct Seen {
    shared: Arc<Shared>,
    /// Chunks that had perhaps not been decoded,
    undecoded: Vec<Arc<SharedChunk>>,
    /// and the largest event time of those that had been.
    time_max: Micros,
}

/// How a subscriber fares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriberState {
    /// See [`Subscriber`].
    pub name: String,
    /// How many columns it reads.
    pub columns: usize,
    /// Chunks that wait for it.
    pub chunks_waiting: usize,
    /// Where it takes partial results.
    pub group: Option<GroupState>,
    /// The run's, by which it is known.
    pub waker: Waker,
}

/// What waits for a subscriber.
struct Queue {
    name: String,
    waker: Waker,
    columns: usize,
    /// Where it takes partial results.
    group: Option<Arc<Group>>,
    /// By partition.
    chunks: Vec<VecDeque<Arc<SharedChunk>>>,
    /// The number of the chunk of each partition that it takes next.
    chunk_next: Vec<u64>,
    on_lag: OnLag,
    has_fallen_behind: bool,
    /// It has been told to wait.
    is_waiting: bool,
}

impl WeakExchange {
    /// The exchange, if it still has a subscriber.
    pub fn upgrade(&self) -> Option<Exchange> {
        self.0.upgrade().map(Exchange)
    }
}

impl Exchange {
    /// An exchange of a source whose chunks have these columns of the table, and which rings the bell when there is something to read.
    /// `time` is the event time of the table, by its place among the table's columns; it is one of `columns`, unless the source knows it
    /// ([`Source::times_before`]).
    pub fn new(
        table: &str,
        source: Box<dyn Source>,
        (columns, time): (&[usize], Option<TimeColumn>),
        bell: Bell,
        budget: Budget,
    ) -> Exchange {
        let queues = Queues {
            chunks_read: vec![0; source.partitions()],
            subscribers: Vec::new(),
            ended: vec![false; source.partitions()],
            failure: None,
            undecoded: Vec::new(),
        };
        Exchange(Arc::new(Shared {
            table: table.to_owned(),
            number: EXCHANGES.fetch_add(1, Ordering::Relaxed),
            bell,
            time,
            time_max: AtomicI64::new(WATERMARK_MIN),
            partitions: AtomicUsize::new(queues.ended.len()),
            may_grow: source.may_grow(),
            input: Mutex::new(Input { source, columns: columns.into() }),
            queues: Mutex::new(queues),
            budget,
        }))
    }

    /// The same exchange, without keeping it open.
    pub fn downgrade(&self) -> WeakExchange {
        WeakExchange(Arc::downgrade(&self.0))
    }

    /// Parts of its source that are read one beside the other.
    pub fn partitions(&self) -> usize {
        self.0.queues().ended.len()
    }

    /// What its source rings.
    pub fn bell(&self) -> &Bell {
        &self.0.bell
    }

    /// The runs that subscribe.
    pub fn subscribers(&self) -> Vec<SubscriberState> {
        let queues = self.0.queues();
        let state = |queue: &Queue| SubscriberState {
            name: queue.name.clone(),
            columns: queue.columns,
            chunks_waiting: queue.chunks.iter().map(VecDeque::len).sum(),
            group: queue.group.as_ref().map(|group| queues.state_of(group)),
            waker: queue.waker.clone(),
        };
        queues.subscribers.iter().flatten().map(state).collect()
    }

    /// Has later chunks have further columns, if any is missing: `open` opens the same source with these columns, which goes on where this one is.
    ///
    /// # Errors
    /// That of `open`.
    pub fn widen<E>(
        &self,
        wanted: &[usize],
        open: impl FnOnce(&[usize]) -> Result<Box<dyn Source>, E>,
    ) -> Result<(), E> {
        let mut input = self.0.input();
        if wanted.iter().all(|column| input.columns.contains(column)) {
            return Ok(());
        }
        let mut columns: Vec<usize> = input.columns.iter().chain(wanted).copied().collect();
        columns.sort_unstable();
        columns.dedup();
        let mut source = open(&columns)?;
        for partition in 0..source.partitions() {
            let position = input.source.position(partition);
            source.seek(partition, position.expect("a source without positions is opened with all of its columns"));
        }
        *input = Input { source, columns: columns.into() };
        Ok(())
    }

    /// What has been read so far.
    pub fn seen(&self) -> Seen {
        let input = self.0.input();
        self.seen_of(&input, &self.0.queues())
    }

    fn seen_of(&self, input: &Input, queues: &Queues) -> Seen {
        let times = (0..input.source.partitions()).map(|partition| input.source.times_before(partition));
        let times_before = times.collect::<Option<Vec<_>>>().and_then(|times| times.into_iter().max());
        let (undecoded, time_max) = match times_before {
            Some(times_before) => (Vec::new(), times_before),
            None => (queues.undecoded.clone(), self.0.time_max.load(Ordering::SeqCst)),
        };
        Seen { shared: self.0.clone(), undecoded, time_max }
    }

    /// The source of a run that subscribes now.
    pub fn subscribe(&self, subscriber: Subscriber) -> Box<dyn Source> {
        let Subscriber { name, waker, columns, schema, on_lag, member, lease } = subscriber;
        let input = self.0.input();
        let mut queues = self.0.queues();
        let partitions = queues.ended.len();
        let queue = Queue {
            name,
            waker: waker.clone(),
            columns: columns.len(),
            group: member.as_ref().map(|member| member.group.clone()),
            chunks: vec![VecDeque::new(); partitions],
            chunk_next: queues.chunks_read.clone(),
            on_lag,
            has_fallen_behind: false,
            is_waiting: false,
        };
        let free = queues.subscribers.iter().position(Option::is_none);
        let slot = free.unwrap_or(queues.subscribers.len());
        match free {
            Some(slot) => queues.subscribers[slot] = Some(queue),
            None => queues.subscribers.push(Some(queue)),
        }
        self.0.bell.add(slot, waker);
        let seen = self.seen_of(&input, &queues);
        Box::new(Subscription {
            shared: self.0.clone(),
            slot,
            columns,
            schema,
            member: member.map(Arc::new),
            _lease: lease,
            seen: Some(seen),
            began_behind: None,
            watermark: Cell::default(),
        })
    }
}

impl Seen {
    /// The largest event time of all rows, the least time where there are none. Decodes those that nobody has.
    pub fn time_max(self) -> Micros {
        let times = self.undecoded.iter().map(|chunk| chunk.time_max(&self.shared));
        times.fold(self.time_max, Micros::max)
    }
}

impl Shared {
    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn input(&self) -> MutexGuard<'_, Input> {
        self.input.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The largest event time of rows that have these columns of the table, which is noted.
    fn note_times(&self, columns: &[usize], batches: &[RecordBatch], blocks: &[Block]) -> Micros {
        let Some(time) = self.time else { return WATERMARK_MIN };
        // The source knows it, where it is not read.
        let Some(position) = columns.iter().position(|&column| column == time.index) else { return WATERMARK_MIN };
        let of_batch = |batch: &RecordBatch| aggregate::max(&ticks(batch.column(position)));
        let ticks = batches.iter().filter_map(of_batch).max();
        let times = ticks.map(|ticks| ticks.saturating_mul(time.micros_per_tick));
        let times = times.into_iter().chain(blocks.iter().filter_map(Block::time_range).map(|range| range.max));
        let time_max = times.max().unwrap_or(WATERMARK_MIN);
        self.time_max.fetch_max(time_max, Ordering::SeqCst);
        time_max
    }

    /// Wakes all subscribers that have been told to wait.
    fn wake_waiting(&self, queues: &mut Queues) {
        for (slot, queue) in queues.subscribers.iter_mut().enumerate() {
            if let Some(queue) = queue
                && std::mem::take(&mut queue.is_waiting)
            {
                self.bell.wake(slot);
            }
        }
    }
}

impl Queues {
    /// Notes a chunk that has been read, with these columns, and the watermark behind it.
    fn note(&mut self, columns: &Arc<[usize]>, chunk: (Chunk, Option<Micros>), shared: &Shared) -> Arc<SharedChunk> {
        self.undecoded.retain(|chunk| {
            if Arc::strong_count(chunk) == 1 {
                // Its run has stopped; what time its rows have is known all the same.
                chunk.time_max(shared);
            }
            !chunk.is_decoded()
        });
        let summaries = self.summaries();
        let before = match summaries.is_empty() {
            true => Before::default(),
            // What has been decoded was read before. Rows of several partitions may be late by each other.
            false => Before {
                undecoded: self.undecoded.clone(),
                time_max: match self.ended.len() {
                    1 => shared.time_max.load(Ordering::SeqCst),
                    _ => Micros::MAX,
                },
            },
        };
        let chunk = Arc::new(SharedChunk::new(columns.clone(), chunk, summaries, before));
        self.undecoded.push(chunk.clone());
        chunk
    }

    /// Makes room for partitions that the source has found.
    fn grow(&mut self, partitions: usize) {
        self.ended.resize(partitions, false);
        self.chunks_read.resize(partitions, 0);
        for queue in self.subscribers.iter_mut().flatten() {
            queue.chunks.resize_with(partitions, VecDeque::new);
            queue.chunk_next.resize(partitions, 0);
        }
    }

    fn queue(&mut self, slot: usize) -> &mut Queue {
        self.subscribers[slot].as_mut().expect("a subscriber has its slot until it leaves")
    }

    fn others(&mut self, slot: usize) -> impl Iterator<Item = (usize, &mut Queue)> {
        let queues = self.subscribers.iter_mut().enumerate().filter(move |(other, _)| *other != slot);
        queues.filter_map(|(other, queue)| queue.as_mut().map(|queue| (other, queue)))
    }

    /// Whether one more chunk of a partition fits the queues of all but `slot`. Subscribers that are to fail when they fall behind do.
    fn have_room(&mut self, slot: usize, partition: usize, budget: &Budget) -> bool {
        let has_memory = budget.has_room_before_inputs().unwrap_or(true);
        let mut have_room = true;
        for (_, queue) in self.others(slot) {
            let is_full = queue.chunks[partition].len() >= CHUNKS_WAITING_MAX;
            match queue.on_lag {
                OnLag::Fail if is_full => {
                    queue.has_fallen_behind = true;
                    queue.chunks.iter_mut().for_each(VecDeque::clear);
                }
                // Where memory is short, one chunk is enough.
                _ => have_room &= queue.chunks[partition].is_empty() || (has_memory && !is_full),
            }
        }
        have_room
    }
}
