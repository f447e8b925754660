//! The producer of messages: librdkafka's threads send what is in its queue. Pipelines wait where it is full.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

use pelton_runtime::wake::Awaited;
use rdkafka::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, Partitioner, Producer, ProducerContext, ThreadedProducer};

use super::client::{problem, refused};
use crate::condition::Condition;
use crate::{ConnectorError, TableRequest};

/// Bytes that wait to be confirmed, from which on no more rows are taken.
const UNCONFIRMED_BYTES_MAX: usize = 32 << 20;

/// How long one wait for confirmations takes at the end, before failures are looked at again.
const FLUSH_WAIT: Duration = Duration::from_millis(200);

/// What holds for a producer unless the table says otherwise: as Java's producer, messages go to partitions by the same hash, and are acknowledged by all replicas.
pub(super) const DEFAULTS: &[(&str, &str)] = &[
    ("partitioner", "murmur2_random"),
    // Rows are counted by bytes before they get there.
    ("queue.buffering.max.messages", "10000000"),
    ("queue.buffering.max.kbytes", "2097151"),
    ("linger.ms", "1"),
];

/// To which partitions messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spread {
    /// By the key's hash; at random, some messages at a time, without one.
    Default,
    /// All to one.
    Fixed,
    /// To each in turn.
    RoundRobin,
}

/// Messages that are not confirmed yet, and what became of others.
struct Confirmations {
    bytes: AtomicUsize,
    messages: AtomicUsize,
    /// Whether no messages are taken, however few are on their way.
    is_held: AtomicBool,
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
        let has_room = self.bytes.load(Ordering::SeqCst) < UNCONFIRMED_BYTES_MAX;
        has_room && !self.is_held.load(Ordering::SeqCst) || self.result().is_err()
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
        if has_failed || are_all || !had_room && self.has_room() {
            self.tell();
        }
    }

    fn tell(&self) {
        if self.awaited.must_tell() {
            self.waker.iter().for_each(Waker::wake_by_ref);
        }
    }
}

/// What librdkafka calls back.
#[derive(Clone)]
pub(super) struct ProducerEvents {
    confirmations: Arc<Confirmations>,
    condition: Condition,
    spread: Option<Arc<SpreadPartitioner>>,
    /// Says what an error means.
    explain: fn(RDKafkaErrorCode) -> Option<&'static str>,
}

impl ClientContext for ProducerEvents {
    fn log(&self, _level: RDKafkaLogLevel, _facility: &str, _message: &str) {}

    fn error(&self, error: KafkaError, reason: &str) {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown) {
            self.condition.set(reason);
        }
    }
}

impl ProducerContext<SpreadPartitioner> for ProducerEvents {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let (message, problem) = match result {
            Ok(message) => {
                self.condition.clear();
                (message, None)
            }
            Err((error, message)) => (message, Some(explained(error, self.explain))),
        };
        self.confirmations.settle(message.payload_len() + message.key_len(), problem);
    }

    fn get_custom_partitioner(&self) -> Option<&SpreadPartitioner> {
        self.spread.as_deref()
    }
}

/// An error, and what it means.
pub(super) fn explained(error: &KafkaError, explain: fn(RDKafkaErrorCode) -> Option<&'static str>) -> String {
    let meaning = error.rdkafka_error_code().and_then(explain);
    meaning.map_or_else(|| problem(error), |meaning| format!("{}: {meaning}", problem(error)))
}

/// Spreads messages over partitions, whatever their keys are.
pub(super) struct SpreadPartitioner {
    is_fixed: bool,
    sent: AtomicUsize,
}

impl Partitioner for SpreadPartitioner {
    fn partition(&self, _: &str, _: Option<&[u8]>, partitions: i32, _: impl Fn(i32) -> bool) -> i32 {
        if self.is_fixed { 0 } else { (self.sent.fetch_add(1, Ordering::Relaxed) % partitions.max(1) as usize) as i32 }
    }
}

/// A producer, and the messages that are on their way.
pub(super) struct MessageProducer {
    confirmations: Arc<Confirmations>,
    client: ThreadedProducer<ProducerEvents, SpreadPartitioner>,
}

impl MessageProducer {
    pub(super) fn open(
        request: &TableRequest,
        mut config: ClientConfig,
        spread: Spread,
        explain: fn(RDKafkaErrorCode) -> Option<&'static str>,
    ) -> Result<MessageProducer, ConnectorError> {
        let confirmations = Arc::new(Confirmations {
            bytes: AtomicUsize::new(0),
            messages: AtomicUsize::new(0),
            is_held: AtomicBool::new(false),
            failure: Mutex::new(None),
            waker: request.host.waker.clone(),
            awaited: Awaited::default(),
        });
        let partitioner = |is_fixed| Some(Arc::new(SpreadPartitioner { is_fixed, sent: AtomicUsize::new(0) }));
        let spread = match spread {
            Spread::Default => None,
            Spread::Fixed => partitioner(true),
            Spread::RoundRobin => partitioner(false),
        };
        if spread.is_some() {
            // Else messages without a key do not get to the partitioner.
            config.set("sticky.partitioning.linger.ms", "0");
        }
        let condition = request.host.conditions.of(&request.name);
        let events = ProducerEvents { confirmations: confirmations.clone(), condition, spread, explain };
        let client = config.create_with_context(events).map_err(refused)?;
        Ok(MessageProducer { confirmations, client })
    }

    pub(super) fn client(&self) -> &ThreadedProducer<ProducerEvents, SpreadPartitioner> {
        &self.client
    }

    /// Whether messages are taken now; if not, workers are woken when they may be.
    pub(super) fn is_ready(&self) -> bool {
        self.confirmations.is(Confirmations::has_room)
    }

    /// Whether nothing is on its way; if not, workers are woken when nothing may be.
    pub(super) fn is_settled(&self) -> bool {
        self.confirmations.is(Confirmations::are_all)
    }

    /// Takes no messages, or some again.
    pub(super) fn hold(&self, is_held: bool) {
        self.confirmations.is_held.store(is_held, Ordering::SeqCst);
        if !is_held {
            self.confirmations.tell();
        }
    }

    /// Why messages were lost, if some were.
    pub(super) fn result(&self) -> Result<(), String> {
        self.confirmations.result()
    }

    /// Puts a message into the queue, which has room but for messages that are far larger than most.
    pub(super) fn send(&self, record: BaseRecord<'_, [u8], [u8]>) -> Result<(), String> {
        let bytes = record.payload.map_or(0, <[u8]>::len) + record.key.map_or(0, <[u8]>::len);
        self.confirmations.bytes.fetch_add(bytes, Ordering::SeqCst);
        self.confirmations.messages.fetch_add(1, Ordering::SeqCst);
        let mut sent = self.client.send(record);
        while let Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), record)) = sent {
            std::thread::sleep(Duration::from_millis(1));
            sent = self.client.send(record);
        }
        sent.map_err(|(error, _)| {
            self.confirmations.settle(bytes, None);
            explained(&error, self.client.context().explain)
        })
    }

    /// Waits until all messages are confirmed.
    pub(super) fn flush(&self) -> Result<(), String> {
        while !self.confirmations.are_all() {
            match self.client.flush(FLUSH_WAIT) {
                Ok(()) | Err(KafkaError::Flush(RDKafkaErrorCode::OperationTimedOut)) => {}
                Err(error) => return Err(problem(&error)),
            }
        }
        self.confirmations.result()
    }
}
