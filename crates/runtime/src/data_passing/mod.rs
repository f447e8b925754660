//! Rows that pass from operator to operator one by one, through a bounded queue of events: the classical way, to compare blocks with.
//!
//! An operator's output is taken apart into records, each an event, and the operator behind it puts the events that it takes together again
//! to columns, as far as its block or batch goes. What is computed is the same either way. An operator's rows pass in order, so that one worker
//! at a time hands them on, and one takes them. What a pipeline computes for a window or for functions OVER rows goes there by itself.

mod records;

mod transfer;

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use pelton_data::column::bytes_of;
use pelton_data::{Block, Origin};

use self::records::{Records, put_together};
use crate::graph::{Graph, NodeRef, StreamRef};
use crate::sync::{
    Mutex,
    atomic::{AtomicI64, Ordering},
    mpsc::{Receiver, SyncSender, sync_channel},
};

/// What a stream passes to the operators that read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DataPassing {
    /// Blocks of columns.
    #[default]
    Blocks,
    /// Events, one by one through a bounded queue.
    Queues,
}

/// Events that a queue holds at most: a quarter of a megabyte. In a model of threads it is full soon.
const EVENTS_MAX: i64 = if cfg!(feature = "shuttle") { 2 } else { 4 * 1024 };

/// So many events at a time are said to have come or gone.
const EVENTS_NOTED: i64 = if cfg!(feature = "shuttle") { 1 } else { 512 };

/// Bytes of a record that an event holds: it has 56 bytes, and of wider records each is a part.
const EVENT_BYTES: usize = 54;

enum Event {
    /// A record, or the last part of it, of so many bytes.
    Last([u8; EVENT_BYTES], u8),
    /// A part of a record, which the next event goes on with.
    Part([u8; EVENT_BYTES]),
    /// A block or a batch is complete.
    End,
}

/// What passes as a whole: the events of its rows, and an end.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    /// A block at its position among those of a pipeline.
    Block(u64, Block),
    /// Rows for a sink, and when and at which event time they came.
    Batch(RecordBatch, Origin),
}

/// The queue in front of a pipeline or a sink.
pub(crate) struct Link {
    sending: Mutex<Sending>,
    receiving: Mutex<Receiving>,
    count: Arc<EventCount>,
    to: NodeRef,
    from: NodeRef,
}

struct Sending {
    events: SyncSender<Event>,
    /// What is being handed on, and the next of its events.
    unfinished: Option<(Records, usize)>,
    /// The record that events are parts of.
    wide: Vec<u8>,
}

struct Receiving {
    events: Receiver<Event>,
    /// Records of the item that comes, one behind the other,
    bytes: Vec<u8>,
    /// and how many they are.
    rows: usize,
}

/// Events that a queue holds, as far as that has been noted.
#[derive(Debug, Default)]
pub(crate) struct EventCount(AtomicI64);

/// What the scheduler's lock guards of a queue.
pub(crate) struct Passing {
    /// Whose rows pass; of several the first.
    pub from: NodeRef,
    pub to: NodeRef,
    count: Arc<EventCount>,
    unsent: VecDeque<Item>,
    /// What has not arrived as a whole. It holds what records only point to.
    sent: VecDeque<Item>,
    /// The last of these still has rows to be handed on.
    is_unfinished: bool,
    pub sending: bool,
    pub receiving: bool,
}

impl EventCount {
    fn get(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Notes that events have come. Returns whether the queue seemed empty before.
    fn come(&self, count: i64) -> bool {
        let before = self.0.fetch_add(count, Ordering::SeqCst);
        before <= 0 && before + count > 0
    }

    /// Notes that events have gone. Returns whether the queue seemed full before.
    fn gone(&self, count: i64) -> bool {
        let before = self.0.fetch_sub(count, Ordering::SeqCst);
        before >= EVENTS_MAX && before - count < EVENTS_MAX
    }
}

impl Item {
    pub fn rows(&self) -> usize {
        match self {
            Item::Block(_, block) => block.rows(),
            Item::Batch(rows, _) => rows.num_rows(),
        }
    }

    fn ingested_ns(&self) -> u64 {
        match self {
            Item::Block(_, block) => block.stamp.ingested_ns,
            Item::Batch(_, origin) => origin.ingested_ns,
        }
    }

    fn batch(&self) -> RecordBatch {
        match self {
            Item::Block(_, block) => block.to_record_batch(),
            Item::Batch(rows, _) => rows.clone(),
        }
    }

    /// The same, of rows that have arrived as records.
    fn arrived(&self, bytes: &[u8], rows: usize) -> Result<Item, ArrowError> {
        Ok(match self {
            Item::Block(position, block) if block.rows() > 0 => {
                let batch = put_together(&block.to_record_batch(), bytes, rows)?;
                let mut arrived = Block::new(batch, block.time_column())?;
                arrived.stamp = block.stamp;
                arrived.provenance = block.provenance.clone();
                Item::Block(*position, arrived)
            }
            Item::Block(..) => self.clone(),
            Item::Batch(batch, origin) => Item::Batch(put_together(batch, bytes, rows)?, *origin),
        })
    }
}

impl DataPassing {
    /// The queues of a graph: in front of all pipelines and, behind these, of all sinks.
    pub(crate) fn queues(self, graph: &Graph) -> Vec<Passing> {
        match self {
            DataPassing::Blocks => Vec::new(),
            DataPassing::Queues => Passing::of(graph),
        }
    }
}

impl Passing {
    fn of(graph: &Graph) -> Vec<Passing> {
        let pipelines = graph.pipelines.iter().enumerate().map(|(index, node)| (node.input, NodeRef::Pipeline(index)));
        let sinks = graph.sinks.iter().enumerate();
        let sinks = sinks.map(|(index, node)| (node.inputs[0], NodeRef::Sink(index)));
        let passing = |(input, to)| Passing {
            from: node_of(input),
            to,
            count: Arc::default(),
            unsent: VecDeque::new(),
            sent: VecDeque::new(),
            is_unfinished: false,
            sending: false,
            receiving: false,
        };
        pipelines.chain(sinks).map(passing).collect()
    }

    pub fn push(&mut self, item: Item) {
        self.unsent.push_back(item);
    }

    /// Whether events can be handed on.
    pub fn can_send(&self) -> bool {
        !self.sending && (self.is_unfinished || !self.unsent.is_empty()) && self.count.get() < EVENTS_MAX
    }

    /// Whether there are events to be taken.
    pub fn can_receive(&self) -> bool {
        !self.receiving && self.count.get() > 0
    }

    /// What has not arrived.
    pub fn items(&self) -> impl Iterator<Item = &Item> {
        self.sent.iter().chain(&self.unsent)
    }

    /// Rows that have not arrived, and when the first of them was read.
    pub fn waiting(&self) -> (u64, u64) {
        let rows = self.items().map(|item| item.rows() as u64).sum();
        (rows, self.items().next().map_or(0, Item::ingested_ns))
    }

    /// Bytes of these rows.
    pub fn bytes(&self) -> usize {
        let bytes = |item: &Item| match item {
            Item::Block(_, block) => block.memory_bytes(),
            Item::Batch(rows, _) => bytes_of(rows),
        };
        self.items().map(bytes).sum()
    }
}

impl Link {
    pub fn new(passing: &Passing) -> Link {
        let (sender, receiver) = sync_channel(EVENTS_MAX as usize);
        Link {
            sending: Mutex::new(Sending { events: sender, unfinished: None, wide: Vec::new() }),
            receiving: Mutex::new(Receiving { events: receiver, bytes: Vec::new(), rows: 0 }),
            count: passing.count.clone(),
            to: passing.to,
            from: passing.from,
        }
    }
}

impl Sending {
    /// Hands on what there is room for. Returns how many events that were since `noted` was told last.
    fn send(&mut self, records: Records, first: usize, mut noted: impl FnMut(i64)) -> i64 {
        let mut count = 0;
        let parts = records.width().div_ceil(EVENT_BYTES).max(1);
        let end = records.rows() * parts;
        for number in first..=end {
            let event = match parts {
                _ if number == end => Event::End,
                1 => event(&records, number),
                _ => self.part(&records, number / parts, number % parts),
            };
            // The other end is there as long as this one.
            if self.events.try_send(event).is_err() {
                self.unfinished = Some((records, number));
                break;
            }
            count += 1;
            if count == EVENTS_NOTED {
                noted(std::mem::take(&mut count));
            }
        }
        count
    }

    /// A part of a record that is too wide for one event: the parts are asked for in their order.
    fn part(&mut self, records: &Records, row: usize, part: usize) -> Event {
        if part == 0 {
            self.wide.resize(records.width(), 0);
            records.write(row, &mut self.wide);
        }
        let rest = &self.wide[part * EVENT_BYTES..];
        let mut bytes = [0; EVENT_BYTES];
        match rest.first_chunk() {
            Some(first) if rest.len() > EVENT_BYTES => return Event::Part(*first),
            _ => bytes[..rest.len()].copy_from_slice(rest),
        }
        Event::Last(bytes, rest.len() as u8)
    }
}

impl Receiving {
    /// Takes what there is, up to an end. Returns how many events that were since `noted` was told last, and whether one was the end.
    fn receive(&mut self, mut noted: impl FnMut(i64)) -> (i64, bool) {
        let mut count = 0;
        while let Ok(event) = self.events.try_recv() {
            count += 1;
            match &event {
                Event::Last(bytes, length) => {
                    self.bytes.extend_from_slice(&bytes[..usize::from(*length)]);
                    self.rows += 1;
                }
                Event::Part(bytes) => self.bytes.extend_from_slice(bytes),
                Event::End => return (count, true),
            }
            if count == EVENTS_NOTED {
                noted(std::mem::take(&mut count));
            }
        }
        (count, false)
    }
}

fn event(records: &Records, row: usize) -> Event {
    let width = records.width();
    let mut bytes = [0; EVENT_BYTES];
    records.write(row, &mut bytes[..width]);
    Event::Last(bytes, width as u8)
}

impl Passing {
    /// What is handed on next.
    pub fn begin(&mut self) -> Item {
        let item = self.unsent.pop_front().expect("only where there is something it is handed on");
        self.sent.push_back(item.clone());
        item
    }
}

/// Whose output a stream is.
fn node_of(stream: StreamRef) -> NodeRef {
    match stream {
        StreamRef::Source(index) => NodeRef::Source(index),
        StreamRef::Pipeline(index) => NodeRef::Pipeline(index),
        StreamRef::Operator(index) => NodeRef::Operator(index),
    }
}
