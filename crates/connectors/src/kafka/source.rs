//! Takes messages of each partition out of its queue.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use pelton_runtime::source::{Position, Read, Source, SourceError};
use rdkafka::Message;
use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{Receiver, channel};

use super::client::{Context, Properties, problem, refused};
use super::discovery::{Discovery, Finding, Found, Plan, Resumed, TopicPartition};
use super::messages::{MessageChunk, MessageReading};
use super::offsets::Bounds;
use crate::io::inbox::Bell;
use crate::io::runtime;
use crate::{ConnectorError, TableRequest};

/// Bytes in a chunk, about, as in files.
const CHUNK_BYTES: usize = 512 << 10;

/// Blocks' worth of messages in a chunk, at most.
const CHUNK_BLOCKS: usize = 8;

/// Findings that wait for the source to look at them.
const FINDINGS_MAX: usize = 4;

/// How soon a partition that had nothing is asked again, where nobody is woken when it has, and where somebody is.
const POLL_WAIT: Duration = Duration::from_millis(2);
const WOKEN_WAIT: Duration = Duration::from_secs(60);

/// What holds for a consumer unless the table says otherwise. Offsets are committed where that is asked for; what is no longer there is an error.
const DEFAULTS: &[(&str, &str)] = &[
    ("enable.auto.commit", "false"),
    ("auto.offset.reset", "error"),
    ("enable.partition.eof", "true"),
    // Of each partition: as much as is there while a chunk is decoded, and what holds brokers back.
    ("queued.max.messages.kbytes", "16384"),
    ("fetch.wait.max.ms", "100"),
];

/// Messages of the partitions of some topics.
pub(super) struct KafkaSource {
    // The partitions go first: they hold on to the consumer, whose last owner waits for its threads.
    partitions: Vec<Partition>,
    consumer: Arc<BaseConsumer<Context>>,
    place: String,
    reading: Arc<MessageReading>,
    /// Whether the partitions that were there at first are.
    is_assigned: bool,
    is_bounded: bool,
    ends_with_log: bool,
    has_waker: bool,
    chunk_messages_max: usize,
    bell: Arc<Bell>,
    /// Partitions of an earlier run that this one goes on with, until they are assigned: each has the place that it will have.
    resumed: Vec<Resumed>,
    /// Whether the offsets of checkpoints are committed, as there is a group.
    commits_offsets: bool,
    /// Looks for partitions, from the first read on.
    discovery: Option<Discovery>,
    findings: Receiver<Finding>,
}

/// A partition, and how far it has been read.
struct Partition {
    queue: PartitionQueue<Context>,
    /// For messages.
    place: Arc<str>,
    topic: Arc<str>,
    number: i32,
    /// The offset of the next message, or less.
    next: i64,
    stop: Option<i64>,
    /// Whether the end of the log is behind `stop`, wherever that is.
    ends_with_log: bool,
    /// Why there is no more, where messages before that had to be delivered first.
    failure: Option<SourceError>,
}

/// Makes a consumer, and begins to look for partitions.
pub(super) fn open(
    request: &TableRequest,
    plan: Plan,
    properties: &Properties,
    reading: MessageReading,
) -> Result<KafkaSource, ConnectorError> {
    let mut config = properties.config(DEFAULTS);
    config.set("group.id", properties.group());
    let context = Context::default();
    let mut consumer: BaseConsumer<Context> = config.create_with_context(context.clone()).map_err(refused)?;
    consumer.set_nonempty_callback(move || context.0.happened.notify_one());
    let consumer = Arc::new(consumer);
    let (sender, findings) = channel(FINDINGS_MAX);
    let bell = Bell::new(request.host.waker.clone());
    let place = plan.topics.place();
    let is_bounded = plan.bounds.is_some();
    let ends_with_log = is_bounded && !matches!(plan.bounds, Some(Bounds::Offsets(_)));
    let discovery = Discovery {
        plan: Arc::new(plan),
        consumer: consumer.clone(),
        properties: properties.clone(),
        findings: sender,
        bell: bell.clone(),
        condition: request.host.conditions.of(&request.name),
        resumed: Vec::new(),
    };
    Ok(KafkaSource {
        partitions: Vec::new(),
        consumer,
        place,
        reading: Arc::new(reading),
        is_assigned: false,
        is_bounded,
        ends_with_log,
        has_waker: request.host.waker.is_some(),
        chunk_messages_max: request.block_rows.saturating_mul(CHUNK_BLOCKS),
        bell,
        resumed: Vec::new(),
        commits_offsets: properties.get("group.id").is_some(),
        discovery: Some(discovery),
        findings,
    })
}

impl Source for KafkaSource {
    /// One before any is known.
    fn partitions(&self) -> usize {
        self.partitions.len().max(self.resumed.len()).max(1)
    }

    fn may_grow(&self) -> bool {
        true
    }

    fn read(&mut self, partition: usize) -> Result<Read, SourceError> {
        if let Some(discovery) = self.discovery.take() {
            let discovery = Discovery { resumed: self.resumed.clone(), ..discovery };
            drop(runtime().spawn(discovery.run()));
        }
        // Whatever comes from now on wakes the workers.
        self.bell.ask();
        self.take_findings()?;
        let Some(partition) = self.partitions.get_mut(partition) else {
            return Ok(if self.is_assigned && self.is_bounded { Read::End } else { self.wait() });
        };
        if let Some(failure) = partition.failure.take() {
            return Err(failure);
        }
        let mut chunk = self.reading.chunk(partition.place.clone(), partition.topic.clone(), partition.number);
        let is_at_end = partition.fill(&mut chunk, self.chunk_messages_max);
        if !chunk.is_empty() {
            let reading = self.reading.clone();
            return Ok(Read::Chunk(Box::new(move || reading.decode(chunk))));
        }
        match partition.failure.take() {
            Some(failure) => Err(failure),
            None if is_at_end => Ok(Read::End),
            None => Ok(self.wait()),
        }
    }

    fn partition_name(&self, partition: usize) -> Cow<'_, str> {
        match self.partitions.get(partition) {
            Some(partition) => Cow::Owned(name(&partition.topic, partition.number)),
            None => self.resumed.get(partition).map_or(Cow::Borrowed(""), |Resumed { partition, .. }| {
                Cow::Owned(name(&partition.topic, partition.partition))
            }),
        }
    }

    /// A partition has the same place as before, and is looked for when all are.
    fn resume(&mut self, name: &str, position: Option<Position>) -> bool {
        let Some((topic, number)) = name.rsplit_once('/') else { return false };
        let Ok(number) = number.parse() else { return false };
        let offset = |number| i64::try_from(number).unwrap_or(i64::MAX);
        self.resumed.push(Resumed {
            partition: TopicPartition { topic: topic.to_owned(), partition: number },
            next: position.map(|position| offset(position.row)),
            stop: position.and_then(|position| position.end).map(offset),
        });
        true
    }

    fn position(&self, partition: usize) -> Option<Position> {
        let (next, stop) = match self.partitions.get(partition) {
            Some(partition) => (partition.next, partition.stop),
            // It has not been found again yet.
            None => self.resumed.get(partition).and_then(|resumed| Some((resumed.next?, resumed.stop)))?,
        };
        Some(Position { end: stop.map(i64::unsigned_abs), ..Position::of_row(next.unsigned_abs()) })
    }

    /// Commits offsets in the group of the table, for those who watch it. Nothing depends on them: where that fails, the next checkpoint does.
    fn commit(&mut self, positions: &[Option<Position>]) {
        if !self.commits_offsets {
            return;
        }
        let mut list = TopicPartitionList::new();
        for (partition, position) in self.partitions.iter().zip(positions) {
            let Some(next) = position.and_then(|position| i64::try_from(position.row).ok()) else { continue };
            // A partition is in the list once.
            let _ = list.add_partition_offset(&partition.topic, partition.number, Offset::Offset(next));
        }
        if list.count() > 0 {
            let _ = self.consumer.commit(&list, CommitMode::Async);
        }
    }
}

/// What a partition is called in checkpoints.
fn name(topic: &str, number: i32) -> String {
    format!("{topic}/{number}")
}

impl KafkaSource {
    fn wait(&self) -> Read {
        Read::Wait(if self.has_waker { WOKEN_WAIT } else { POLL_WAIT })
    }

    fn take_findings(&mut self) -> Result<(), SourceError> {
        loop {
            match self.findings.try_recv() {
                Ok(Ok(found)) => {
                    self.is_assigned = true;
                    self.assign(&found).map_err(|problem| self.failed(problem))?;
                }
                Ok(Err(problem)) => return Err(self.failed(problem)),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Ok(()),
            }
        }
    }

    fn failed(&self, problem: String) -> SourceError {
        SourceError::Input { place: self.place.clone(), problem }
    }

    /// Begins to fetch partitions, each into a queue of its own.
    fn assign(&mut self, found: &[Found]) -> Result<(), String> {
        let mut list = TopicPartitionList::with_capacity(found.len());
        for Found { partition, start, stop } in found {
            let split = self.consumer.split_partition_queue(&partition.topic, partition.partition);
            let mut queue = split.ok_or_else(|| format!("{partition} has no queue"))?;
            let bell = self.bell.clone();
            queue.set_nonempty_callback(move || bell.ring());
            // What has nothing to read is not fetched.
            if stop.is_none_or(|stop| *start < stop) {
                let added = list.add_partition_offset(&partition.topic, partition.partition, Offset::Offset(*start));
                added.map_err(|error| format!("{partition}: {}", problem(&error)))?;
            }
            self.partitions.push(Partition {
                queue,
                place: partition.to_string().into(),
                topic: partition.topic.as_str().into(),
                number: partition.partition,
                next: *start,
                stop: *stop,
                ends_with_log: self.ends_with_log,
                failure: None,
            });
        }
        self.consumer.incremental_assign(&list).map_err(|error| problem(&error))
    }
}

impl Partition {
    fn is_at_stop(&self) -> bool {
        self.stop.is_some_and(|stop| self.next >= stop)
    }

    /// Takes messages that are there, about a chunk of them. Says whether there will be no more.
    fn fill(&mut self, chunk: &mut MessageChunk, messages_max: usize) -> bool {
        while !self.is_at_stop() && chunk.bytes_len() < CHUNK_BYTES && chunk.len() < messages_max {
            match self.queue.poll(Duration::ZERO) {
                Some(Ok(message)) => {
                    let offset = message.offset();
                    // Behind messages that were taken out of the log, or of transactions, others may come that are too late.
                    if self.stop.is_none_or(|stop| offset < stop) {
                        chunk.push(&message);
                    }
                    self.next = offset + 1;
                }
                // The last offset may have no message, as behind a transaction.
                Some(Err(KafkaError::PartitionEOF(_))) if self.ends_with_log => {
                    self.next = self.stop.unwrap_or(self.next);
                }
                Some(Err(KafkaError::PartitionEOF(_))) => {}
                Some(Err(error)) => {
                    self.failure = Some(self.failed(&error));
                    return false;
                }
                None => return false,
            }
        }
        self.is_at_stop()
    }

    fn failed(&self, error: &KafkaError) -> SourceError {
        use rdkafka::error::RDKafkaErrorCode::{AutoOffsetReset, OffsetOutOfRange};
        let problem = match error.rdkafka_error_code() {
            Some(AutoOffsetReset | OffsetOutOfRange) => format!(
                "the messages from offset {} on are no longer there: say where to go on with \
                 'properties.auto.offset.reset' = 'earliest' or 'latest', or begin elsewhere",
                self.next
            ),
            _ => problem(error),
        };
        SourceError::Input { place: self.place.to_string(), problem }
    }
}
