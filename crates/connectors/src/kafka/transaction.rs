//! The transaction in which a job writes messages exactly once.
//!
//! All sinks of a job share one producer, and so one transaction: it begins with the first row behind a checkpoint, and is committed when the next checkpoint has been
//! written. No client can commit the transaction of a process that has ended: the next producer of the same transactional id aborts it. Therefore a
//! checkpoint that has been written counts only once its transaction is committed, and each transaction contains a *marker*, which tells that: offsets of a consumer group
//! are committed with the messages, or not at all, and carry the name of the transaction as their metadata.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pelton_runtime::sink::SinkError;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::Producer;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::{Value, json};

use super::client::{Context, Properties, problem, refused};
use super::discovery::{ATTEMPT_MAX, Failed, Patience};
use super::producer::{DEFAULTS, MessageProducer, Spread, explained};
use crate::condition::Condition;
use crate::job_transaction::{self, TransactionOutcome};
use crate::{CommittingJob, ConnectorError, TableRequest};

const TIMEOUT: &str = "transaction.timeout.ms";

/// How long a transaction may be open unless the table says otherwise: the longest that brokers allow by default.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(15 * 60);

/// How long a request may take; without it, it would be the transaction's timeout.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Brokers forget offsets after some days. A marker of this age is written again, even if there are no messages.
const MARKER_AGE_MAX: Duration = Duration::from_secs(3_600);

/// How long an attempt to commit waits before it is looked whether the job still wants that.
const COMMIT_ATTEMPT: Duration = Duration::from_secs(1);

/// Between two attempts.
const COMMIT_PAUSE: Duration = Duration::from_millis(50);

/// How long whoever lets go of an open transaction waits until it is aborted. Otherwise brokers do, later.
const ABORT_MAX: Duration = Duration::from_secs(1);

/// What the sinks of a job must have in common.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub(super) topic: String,
    pub(super) properties: Properties,
    pub(super) prefix: String,
    pub(super) spread: Spread,
    pub(super) patience: Patience,
}

impl Setup {
    fn check_same(&self, other: &Setup, table: &str) -> Result<(), ConnectorError> {
        let differing = match self.properties.first_difference(&other.properties) {
            Some(property) => property,
            None if self.prefix != other.prefix => "sink.transactional-id-prefix".to_owned(),
            None if self.spread != other.spread => "sink.partitioner".to_owned(),
            None => return Ok(()),
        };
        let problem = format!(
            "is not that of the table '{table}', which the job writes exactly once as well: both are written in one transaction of one producer. \
             Give both tables the same one, or write them in two jobs"
        );
        Err(ConnectorError::option(differing, problem))
    }
}

/// A transaction, and the producer that has one after the other.
pub(super) struct Transaction {
    /// The transactional id.
    id: String,
    /// The group of the markers.
    group: String,
    /// The first table that is written in it.
    table: String,
    setup: Setup,
    timeout: Duration,
    producer: MessageProducer,
    /// Reads markers.
    consumer: BaseConsumer<Context>,
    condition: Condition,
    progress: Mutex<Progress>,
}

struct Progress {
    stage: Stage,
    /// What transactions of this run are called, with their numbers.
    run: u128,
    number: u64,
    /// The last marker that was committed, and when.
    marker: String,
    marked: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing was written since the last was committed.
    Closed,
    Open,
    /// It ends at a cut, whose checkpoint is being written. No rows are taken.
    Prepared,
}

impl Progress {
    /// What the present transaction is called.
    fn name(&self) -> String {
        format!("{:x}.{}", self.run, self.number)
    }
}

impl job_transaction::Transaction for Transaction {
    fn table(&self) -> &str {
        &self.table
    }

    fn fence(&self) -> Result<(), ConnectorError> {
        // A topic that brokers make when it is asked for is there afterwards.
        self.tried("the topic is not known", || {
            let metadata = self.producer.client().client().fetch_metadata(Some(&self.setup.topic), ATTEMPT_MAX)?;
            let error = metadata.topics().iter().find_map(|topic| topic.error());
            error.map_or(Ok(()), |error| Err(KafkaError::MetadataFetch(RDKafkaErrorCode::from(error))))
        })?;
        self.tried("no transactions", || self.producer.client().init_transactions(ATTEMPT_MAX))
    }

    fn outcome(&self, prepared: &str) -> Result<TransactionOutcome, ConnectorError> {
        let Some(prepared) = Prepared::of_text(prepared) else {
            return Ok(TransactionOutcome::Unknown("it does not say what its transaction is called".to_owned()));
        };
        if prepared.id != self.id {
            let problem = format!("its transactional id was '{}', and is '{}' now", prepared.id, self.id);
            return Ok(TransactionOutcome::Unknown(problem));
        }
        let marker = self.marker(&prepared.topic)?;
        Ok(match marker {
            Some(marker) if marker == prepared.own => TransactionOutcome::Committed,
            Some(marker) if marker == prepared.before => TransactionOutcome::Aborted,
            Some(_) => TransactionOutcome::Unknown(format!(
                "the group '{}' has the marker of another run, which used the same transactional id",
                self.group
            )),
            None => TransactionOutcome::Unknown(format!(
                "the group '{}' has no marker of it any more, as brokers forget offsets ('offsets.retention.minutes')",
                self.group
            )),
        })
    }

    fn begin(&self, checkpoint: u64) -> Result<(), ConnectorError> {
        let mut progress = self.progress();
        self.producer.client().begin_transaction().map_err(|error| self.failed(explained(&error, meaning)))?;
        let name = progress.name();
        let began = Instant::now();
        let marked = self.mark(checkpoint, &name, REQUEST_TIMEOUT);
        marked
            .and_then(|()| self.end(&|| began.elapsed() > REQUEST_TIMEOUT))
            .map_err(|problem| self.failed(problem))?;
        progress.committed(name);
        Ok(())
    }

    fn prepared(&self) -> Option<String> {
        let progress = self.progress();
        let prepared = || Prepared {
            id: self.id.clone(),
            topic: self.setup.topic.clone(),
            own: progress.name(),
            before: progress.marker.clone(),
        };
        (progress.stage == Stage::Prepared).then(|| prepared().to_text())
    }

    fn commit(&self, checkpoint: u64, is_over: &dyn Fn() -> bool) -> Result<(), SinkError> {
        let name = self.progress().name();
        let committed = self.mark(checkpoint, &name, self.timeout).and_then(|()| self.end(is_over));
        committed.map_err(|problem| SinkError { place: self.place(), problem })?;
        self.progress().committed(name);
        self.producer.hold(false);
        Ok(())
    }

    fn reopen(&self) {
        let mut progress = self.progress();
        if progress.stage == Stage::Prepared {
            progress.stage = Stage::Open;
            self.producer.hold(false);
        }
    }
}

impl Transaction {
    /// The transaction of a sink, which other sinks of the job have as well.
    pub(super) fn join(
        request: &TableRequest,
        job: &CommittingJob,
        setup: Setup,
    ) -> Result<Arc<Transaction>, ConnectorError> {
        let check = |known: &Transaction| known.setup.check_same(&setup, &known.table);
        job.transaction.join(|| Transaction::open(request, job, setup.clone()), check)
    }

    fn open(request: &TableRequest, job: &CommittingJob, setup: Setup) -> Result<Transaction, ConnectorError> {
        let timeout = timeout(&setup.properties, job.interval)?;
        let id = format!("{}-{}", setup.prefix, job.name);
        let group = format!("{id}-checkpoints");
        let mut config = setup.properties.config(DEFAULTS);
        config.set("transactional.id", &id).set(TIMEOUT, timeout.as_millis().to_string());
        if setup.properties.get("socket.timeout.ms").is_none() && timeout > REQUEST_TIMEOUT {
            config.set("socket.timeout.ms", REQUEST_TIMEOUT.as_millis().to_string());
        }
        let producer = MessageProducer::open(request, config, setup.spread, meaning)?;
        let mut config = setup.properties.config(&[]);
        // Markers of a transaction that is not yet committed do not count.
        config.set("group.id", &group).set("enable.auto.commit", "false").set("isolation.level", "read_committed");
        let consumer = config.create_with_context(Context::default()).map_err(refused)?;
        let run = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let progress = Progress { stage: Stage::Closed, run, number: 0, marker: String::new(), marked: Instant::now() };
        Ok(Transaction {
            id,
            group,
            table: request.name.clone(),
            condition: request.host.conditions.of(&request.name),
            setup,
            timeout,
            producer,
            consumer,
            progress: Mutex::new(progress),
        })
    }

    pub(super) fn producer(&self) -> &MessageProducer {
        &self.producer
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self) -> String {
        format!("transactional id '{}'", self.id)
    }

    fn failed(&self, problem: String) -> ConnectorError {
        ConnectorError::place(self.place(), problem)
    }

    /// The marker that was committed last.
    fn marker(&self, topic: &str) -> Result<Option<String>, ConnectorError> {
        self.tried("the marker of its last transaction is not known", || {
            let mut list = TopicPartitionList::new();
            list.add_partition(topic, 0);
            let committed = self.consumer.committed_offsets(list, ATTEMPT_MAX)?;
            let elements = committed.elements();
            let Some(marker) = elements.first() else { return Ok(None) };
            marker.error()?;
            Ok(matches!(marker.offset(), Offset::Offset(_)).then(|| marker.metadata().to_owned()))
        })
    }

    /// Begins a transaction where none is open, before a row is written.
    pub(super) fn open_for_rows(&self) -> Result<(), String> {
        let mut progress = self.progress();
        match progress.stage {
            Stage::Open => Ok(()),
            Stage::Closed => self.open_next(&mut progress),
            Stage::Prepared => unreachable!("no rows are taken until the checkpoint is complete"),
        }
    }

    fn open_next(&self, progress: &mut Progress) -> Result<(), String> {
        self.producer.client().begin_transaction().map_err(|error| explained(&error, meaning))?;
        progress.stage = Stage::Open;
        Ok(())
    }

    /// Ends the transaction at a cut: all of its messages are confirmed. Each sink of the job does that, and the first one brings it about.
    pub(super) fn prepare(&self) -> Result<(), String> {
        self.producer.flush()?;
        let mut progress = self.progress();
        if progress.stage == Stage::Closed && progress.marked.elapsed() > MARKER_AGE_MAX {
            self.open_next(&mut progress)?;
        }
        if progress.stage == Stage::Open {
            progress.stage = Stage::Prepared;
            self.producer.hold(true);
        }
        Ok(())
    }

    /// Whether all that was written is committed.
    pub(super) fn is_closed(&self) -> bool {
        self.progress().stage == Stage::Closed
    }

    /// Writes the marker into the transaction. An attempt that comes to no end aborts the transaction.
    fn mark(&self, checkpoint: u64, name: &str, timeout: Duration) -> Result<(), String> {
        let mut list = TopicPartitionList::new();
        let offset = Offset::Offset(i64::try_from(checkpoint).unwrap_or(i64::MAX));
        let mut marker = list.add_partition(&self.setup.topic, 0);
        marker.set_metadata(name);
        marker.set_offset(offset).map_err(|error| error.to_string())?;
        let group = self.consumer.group_metadata().expect("a consumer of a group has it");
        let sent = self.producer.client().send_offsets_to_transaction(&list, &group, timeout);
        sent.map_err(|error| explained(&error, meaning))
    }

    /// Commits the transaction, and tries again until it is over: what was begun goes on then.
    fn end(&self, is_over: &dyn Fn() -> bool) -> Result<(), String> {
        let began = Instant::now();
        loop {
            let Err(error) = self.producer.client().commit_transaction(COMMIT_ATTEMPT) else {
                self.condition.clear();
                return Ok(());
            };
            let is_retriable = match &error {
                KafkaError::Transaction(error) => error.is_retriable(),
                KafkaError::Flush(code) => *code == RDKafkaErrorCode::OperationTimedOut,
                _ => false,
            };
            if !is_retriable || is_over() || began.elapsed() > self.timeout {
                return Err(explained(&error, meaning));
            }
            self.condition.set(&format!("its transaction is not committed: {}", problem(&error)));
            std::thread::sleep(COMMIT_PAUSE);
        }
    }

    /// Does something after some attempts if need be, as the table says.
    fn tried<T>(&self, what: &str, attempt: impl Fn() -> Result<T, KafkaError>) -> Result<T, ConnectorError> {
        let servers = self.setup.properties.get("bootstrap.servers").unwrap_or_default();
        let tried = self.setup.patience.tried(|| {
            attempt().map_err(|error| {
                let is_final = matches!(&error, KafkaError::Transaction(error) if !error.is_retriable());
                Failed { problem: format!("{what} at {servers}: {}", explained(&error, meaning)), is_final }
            })
        });
        tried.map_err(|problem| self.failed(problem))
    }
}

impl Progress {
    fn committed(&mut self, name: String) {
        self.stage = Stage::Closed;
        self.number += 1;
        self.marker = name;
        self.marked = Instant::now();
    }
}

impl Drop for Transaction {
    /// Readers of committed messages wait for the end of a transaction.
    fn drop(&mut self) {
        if !self.is_closed() {
            // Where that fails, brokers abort it when its time is over, or the next run does.
            let _ = self.producer.client().abort_transaction(ABORT_MAX);
        }
    }
}

/// What a checkpoint remembers of its transaction.
struct Prepared {
    /// The transactional id.
    id: String,
    /// The topic at whose first partition the marker is.
    topic: String,
    /// The marker that is there once the transaction is committed,
    own: String,
    /// and until then.
    before: String,
}

impl Prepared {
    fn to_text(&self) -> String {
        let Prepared { id, topic, own, before } = self;
        json!({ "transactional-id": id, "topic": topic, "marker": own, "marker-before": before }).to_string()
    }

    fn of_text(text: &str) -> Option<Prepared> {
        let value: Value = serde_json::from_str(text).ok()?;
        let field = |name: &str| Some(value.get(name)?.as_str()?.to_owned());
        Some(Prepared {
            id: field("transactional-id")?,
            topic: field("topic")?,
            own: field("marker")?,
            before: field("marker-before")?,
        })
    }
}

/// How long a transaction may be open, which must be longer than from one checkpoint to the next.
fn timeout(properties: &Properties, interval: Option<Duration>) -> Result<Duration, ConnectorError> {
    let option = format!("properties.{TIMEOUT}");
    let timeout = match properties.get(TIMEOUT) {
        None => TIMEOUT_DEFAULT,
        Some(text) => match text.trim().parse() {
            Ok(millis) => Duration::from_millis(millis),
            Err(_) => {
                return Err(ConnectorError::option(option, format!("must be a number of milliseconds, not '{text}'")));
            }
        },
    };
    match interval.filter(|interval| *interval >= timeout) {
        None => Ok(timeout),
        Some(interval) => {
            let problem = format!(
                "is {} ms, and must be more than the 'execution.checkpointing.interval', which is {} ms: brokers abort a transaction that is open for longer",
                timeout.as_millis(),
                interval.as_millis()
            );
            Err(ConnectorError::option(option, problem))
        }
    }
}

/// What an error means to whoever has a transaction.
fn meaning(code: RDKafkaErrorCode) -> Option<&'static str> {
    use RDKafkaErrorCode::{
        Fenced, InvalidProducerEpoch, InvalidProducerIdMapping, InvalidTransactionTimeout, ProducerFenced,
        PurgeInflight, PurgeQueue,
    };
    match code {
        Fenced | InvalidProducerEpoch | InvalidProducerIdMapping | ProducerFenced | PurgeInflight | PurgeQueue => Some(
            "the brokers have aborted the transaction. It was open for longer than 'properties.transaction.timeout.ms', which must be more than \
             passes from one checkpoint to the next ('execution.checkpointing.interval'); or another job has begun with the same \
             'sink.transactional-id-prefix' and name",
        ),
        InvalidTransactionTimeout => {
            Some("'properties.transaction.timeout.ms' must not be more than the brokers' 'transaction.max.timeout.ms'")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_checkpoint_remembers_is_read_again() {
        let text = Prepared { id: "a\"b".into(), topic: "t".into(), own: "2.1".into(), before: "1.7".into() }.to_text();
        let read = Prepared::of_text(&text).unwrap();
        assert_eq!((read.id.as_str(), read.topic.as_str()), ("a\"b", "t"));
        assert_eq!((read.own.as_str(), read.before.as_str()), ("2.1", "1.7"));
        assert!(Prepared::of_text("{\"topic\": \"t\"}").is_none());
    }
}
