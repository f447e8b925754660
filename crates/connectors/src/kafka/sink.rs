//! Rows to messages: librdkafka's threads send what is in its queue. Pipelines wait where it is full.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::buffer::NullBuffer;
use pelton_runtime::sink::{Sink, SinkError};
use pelton_runtime::wake::Awaited;
use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, Partitioner, Producer, ProducerContext, ThreadedProducer};

use super::client::{Properties, problem, refused};
use super::metadata::Written;
use crate::condition::Condition;
use crate::format::message::MessageEncoder;
use crate::options::Options;
use crate::{ConnectorError, TableRequest};

/// Bytes that wait to be confirmed, from which on no more rows are taken.
const UNCONFIRMED_BYTES_MAX: usize = 32 << 20;

/// How long one wait for confirmations takes at the end, before failures are looked at again.
const FLUSH_WAIT: Duration = Duration::from_millis(200);

/// What holds for a producer unless the table says otherwise: as Java's producer, messages go to partitions by the same hash, and are acknowledged by all replicas.
const DEFAULTS: &[(&str, &str)] = &[
    ("partitioner", "murmur2_random"),
    // Rows are counted by bytes before they get there.
    ("queue.buffering.max.messages", "10000000"),
    ("queue.buffering.max.kbytes", "2097151"),
    ("linger.ms", "1"),
];

/// What is promised of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guarantee {
    AtLeastOnce,
    None,
}

/// To which partitions messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spread {
    /// By the key's hash; at random, some messages at a time, without one.
    Default,
    /// All to one.
    Fixed,
    /// To each in turn.
    RoundRobin,
}

/// How rows are delivered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delivery {
    guarantee: Guarantee,
    spread: Spread,
}

impl Delivery {
    pub(super) fn of(options: &Options, has_key: bool) -> Result<Delivery, ConnectorError> {
        const GUARANTEE: &str = "sink.delivery-guarantee";
        const PARTITIONER: &str = "sink.partitioner";
        let guarantees =
            [("at-least-once", Some(Guarantee::AtLeastOnce)), ("none", Some(Guarantee::None)), ("exactly-once", None)];
        let guarantee = match options.choice(GUARANTEE, &guarantees)? {
            Some(Some(guarantee)) => guarantee,
            Some(None) => {
                let problem =
                    "is 'exactly-once', which needs transactions, and these are not supported; use 'at-least-once'";
                return Err(ConnectorError::option(GUARANTEE, problem));
            }
            None => Guarantee::AtLeastOnce,
        };
        if options.text("sink.transactional-id-prefix").is_some() {
            let problem = "needs 'sink.delivery-guarantee' = 'exactly-once', which is not supported";
            return Err(ConnectorError::option("sink.transactional-id-prefix", problem));
        }
        let spreads = [("default", Spread::Default), ("fixed", Spread::Fixed), ("round-robin", Spread::RoundRobin)];
        let spread = options.choice(PARTITIONER, &spreads)?.unwrap_or(Spread::Default);
        if spread == Spread::RoundRobin && has_key {
            let problem = "is 'round-robin', and rows with a 'key.format' go where their key says; use 'default'";
            return Err(ConnectorError::option(PARTITIONER, problem));
        }
        Ok(Delivery { guarantee, spread })
    }
}

/// What messages are made of.
pub(super) struct Shape {
    pub(super) topic: String,
    /// The encoder of keys, and the columns of the table that they have.
    pub(super) key: Option<(MessageEncoder, Vec<usize>)>,
    /// The same of values.
    pub(super) value: (MessageEncoder, Vec<usize>),
    pub(super) metadata: Written,
}

/// Messages that are not confirmed yet, and what became of others.
struct Confirmations {
    bytes: AtomicUsize,
    messages: AtomicUsize,
    failure: Mutex<Option<String>>,
    waker: Option<Waker>,
    awaited: Awaited,
}

impl Confirmations {
    /// Whether something is so; if it is not, workers are woken when it may be.
    fn is(&self, is_so: impl Fn(&Confirmations) -> bool) -> bool {
        is_so(self) || {
            self.awaited.ask();
            is_so(self)
        }
    }

    fn result(&self) -> Result<(), String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone().map_or(Ok(()), Err)
    }

    fn has_room(&self) -> bool {
        self.bytes.load(Ordering::SeqCst) < UNCONFIRMED_BYTES_MAX || self.result().is_err()
    }

    fn are_all(&self) -> bool {
        self.messages.load(Ordering::SeqCst) == 0 || self.result().is_err()
    }

    /// A message is confirmed, or lost.
    fn settle(&self, bytes: usize, problem: Option<String>) {
        let has_failed = problem.is_some();
        if let Some(problem) = problem {
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(problem);
        }
        let had_room = self.bytes.fetch_sub(bytes, Ordering::SeqCst) < UNCONFIRMED_BYTES_MAX;
        let are_all = self.messages.fetch_sub(1, Ordering::SeqCst) == 1;
        // While there was room and others are still on their way, nobody waits for this one.
        let may_matter = has_failed || are_all || !had_room && self.has_room();
        if may_matter && self.awaited.must_tell() {
            self.waker.iter().for_each(Waker::wake_by_ref);
        }
    }
}

/// What librdkafka calls back.
#[derive(Clone)]
struct SinkContext {
    confirmations: Arc<Confirmations>,
    condition: Condition,
    spread: Option<Arc<SpreadPartitioner>>,
}

impl ClientContext for SinkContext {
    fn log(&self, _level: RDKafkaLogLevel, _facility: &str, _message: &str) {}

    fn error(&self, error: KafkaError, reason: &str) {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown) {
            self.condition.set(reason);
        }
    }
}

impl ProducerContext<SpreadPartitioner> for SinkContext {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let (message, problem) = match result {
            Ok(message) => {
                self.condition.clear();
                (message, None)
            }
            Err((error, message)) => (message, Some(problem(error))),
        };
        self.confirmations.settle(message.payload_len() + message.key_len(), problem);
    }

    fn get_custom_partitioner(&self) -> Option<&SpreadPartitioner> {
        self.spread.as_deref()
    }
}

/// Spreads messages over partitions, whatever their keys are.
struct SpreadPartitioner {
    is_fixed: bool,
    sent: AtomicUsize,
}

impl Partitioner for SpreadPartitioner {
    fn partition(&self, _: &str, _: Option<&[u8]>, partitions: i32, _: impl Fn(i32) -> bool) -> i32 {
        if self.is_fixed { 0 } else { (self.sent.fetch_add(1, Ordering::Relaxed) % partitions.max(1) as usize) as i32 }
    }
}

/// Encodes rows as messages of a topic. One producer sends all of them, so that what is written between two cuts can be one transaction.
pub(super) struct KafkaSink {
    place: String,
    shape: Shape,
    guarantee: Guarantee,
    confirmations: Arc<Confirmations>,
    producer: ThreadedProducer<SinkContext, SpreadPartitioner>,
    keys: Encoded,
    values: Encoded,
}

/// Encoded rows, and where each ends.
#[derive(Default)]
struct Encoded {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Which rows have none.
    nulls: Option<NullBuffer>,
}

impl Encoded {
    fn fill(&mut self, encoder: &mut MessageEncoder, columns: &[usize], rows: &RecordBatch) -> Result<(), String> {
        self.bytes.clear();
        self.ends.clear();
        let own = rows.project(columns).map_err(|error| error.to_string())?;
        self.nulls = encoder.nulls(&own);
        encoder.encode(&own, &mut self.bytes, &mut self.ends)
    }

    fn get(&self, row: usize) -> Option<&[u8]> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        Some(&self.bytes[start..self.ends[row]])
    }
}

/// Makes a producer.
pub(super) fn open(
    request: &TableRequest,
    shape: Shape,
    properties: &Properties,
    delivery: Delivery,
) -> Result<KafkaSink, ConnectorError> {
    let mut config = properties.config(DEFAULTS);
    // Messages keep their order where they are sent again.
    let is_told =
        ["enable.idempotence", "acks", "request.required.acks"].iter().any(|name| properties.get(name).is_some());
    if delivery.guarantee == Guarantee::AtLeastOnce && !is_told {
        config.set("enable.idempotence", "true");
    }
    let confirmations = Arc::new(Confirmations {
        bytes: AtomicUsize::new(0),
        messages: AtomicUsize::new(0),
        failure: Mutex::new(None),
        waker: request.host.waker.clone(),
        awaited: Awaited::default(),
    });
    let partitioner = |is_fixed| Some(Arc::new(SpreadPartitioner { is_fixed, sent: AtomicUsize::new(0) }));
    let spread = match delivery.spread {
        Spread::Default => None,
        Spread::Fixed => partitioner(true),
        Spread::RoundRobin => partitioner(false),
    };
    if spread.is_some() {
        // Else messages without a key do not get to the partitioner.
        config.set("sticky.partitioning.linger.ms", "0");
    }
    let context = SinkContext {
        confirmations: confirmations.clone(),
        condition: request.host.conditions.of(&request.name),
        spread,
    };
    let producer = config.create_with_context(context).map_err(refused)?;
    Ok(KafkaSink {
        place: format!("topic '{}'", shape.topic),
        shape,
        guarantee: delivery.guarantee,
        confirmations,
        producer,
        keys: Encoded::default(),
        values: Encoded::default(),
    })
}

impl KafkaSink {
    fn failed(&self, problem: String) -> SinkError {
        SinkError { place: self.place.clone(), problem }
    }

    fn encode(&mut self, rows: &RecordBatch) -> Result<(), String> {
        let (encoder, columns) = &mut self.shape.value;
        self.values.fill(encoder, columns, rows)?;
        match &mut self.shape.key {
            Some((encoder, columns)) => self.keys.fill(encoder, columns, rows),
            None => Ok(()),
        }
    }

    fn send(&self, rows: &RecordBatch) -> Result<(), String> {
        let metadata = self.shape.metadata.columns(rows);
        for row in 0..rows.num_rows() {
            let mut record: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(&self.shape.topic);
            record.payload = self.values.get(row);
            record.key = self.shape.key.as_ref().and_then(|_| self.keys.get(row));
            record.timestamp = metadata.timestamp(row);
            record.headers = metadata.headers(row);
            let bytes = record.payload.map_or(0, <[u8]>::len) + record.key.map_or(0, <[u8]>::len);
            self.confirmations.bytes.fetch_add(bytes, Ordering::SeqCst);
            self.confirmations.messages.fetch_add(1, Ordering::SeqCst);
            self.enqueue(record).inspect_err(|_| self.confirmations.settle(bytes, None))?;
        }
        Ok(())
    }

    /// Puts a message into the queue, which has room but for messages that are far larger than most.
    fn enqueue(&self, record: BaseRecord<'_, [u8], [u8]>) -> Result<(), String> {
        let mut sent = self.producer.send(record);
        while let Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), record)) = sent {
            std::thread::sleep(Duration::from_millis(1));
            sent = self.producer.send(record);
        }
        sent.map_err(|(error, _)| problem(&error))
    }
}

impl Sink for KafkaSink {
    fn is_ready(&self) -> bool {
        self.confirmations.is(Confirmations::has_room)
    }

    fn is_settled(&self) -> bool {
        self.guarantee == Guarantee::None || self.confirmations.is(Confirmations::are_all)
    }

    fn write(&mut self, rows: &RecordBatch) -> Result<(), SinkError> {
        self.confirmations.result().map_err(|problem| self.failed(problem))?;
        self.encode(rows).and_then(|()| self.send(rows)).map_err(|problem| self.failed(problem))
    }

    /// Messages are sent as soon as they can be.
    fn flush(&mut self) -> Result<(), SinkError> {
        self.confirmations.result().map_err(|problem| self.failed(problem))
    }

    /// Waits until all is confirmed: it is visible then, and written again where the job goes on from a checkpoint before.
    fn prepare(&mut self) -> Result<Option<String>, SinkError> {
        if self.guarantee == Guarantee::None {
            return self.flush().map(|()| None);
        }
        self.finish().map(|()| None)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        while !self.confirmations.are_all() {
            match self.producer.flush(FLUSH_WAIT) {
                Ok(()) | Err(KafkaError::Flush(RDKafkaErrorCode::OperationTimedOut)) => {}
                Err(error) => return Err(self.failed(problem(&error))),
            }
        }
        self.confirmations.result().map_err(|problem| self.failed(problem))
    }
}
