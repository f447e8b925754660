//! Rows to messages.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::NullBuffer;
use pelton_runtime::sink::{Sink, SinkError};
use rdkafka::producer::BaseRecord;

use super::client::Properties;
use super::discovery::Patience;
use super::metadata::Written;
use super::producer::{DEFAULTS, MessageProducer, Spread};
use super::transaction::{Setup, Transaction};
use crate::format::message::MessageEncoder;
use crate::options::Options;
use crate::{ConnectorError, TableRequest};

const GUARANTEE: &str = "sink.delivery-guarantee";
const PREFIX: &str = "sink.transactional-id-prefix";

/// What is promised of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Guarantee {
    AtLeastOnce,
    None,
    /// In transactions, whose ids begin with this.
    ExactlyOnce {
        prefix: String,
    },
}

impl Guarantee {
    fn of(options: &Options) -> Result<Guarantee, ConnectorError> {
        let prefix = options.text(PREFIX).filter(|prefix| !prefix.is_empty());
        if options.text("properties.transactional.id").is_some() {
            let problem = format!("is made by Pelton: say '{GUARANTEE}' = 'exactly-once', and '{PREFIX}'");
            return Err(ConnectorError::option("properties.transactional.id", problem));
        }
        match (is_exactly_once(options)?, prefix) {
            (Some(true), Some(prefix)) => Ok(Guarantee::ExactlyOnce { prefix: prefix.to_owned() }),
            (Some(true), None) => {
                let problem = format!(
                    "is 'exactly-once', and needs a '{PREFIX}' beside it, which nobody else has at these brokers"
                );
                Err(ConnectorError::option(GUARANTEE, problem))
            }
            (_, Some(_)) => Err(ConnectorError::option(PREFIX, format!("needs '{GUARANTEE}' = 'exactly-once'"))),
            (Some(false), None) => Ok(Guarantee::None),
            (None, None) => Ok(Guarantee::AtLeastOnce),
        }
    }
}

/// Whether rows are written exactly once; `false` where nothing is promised, and `None` where they are written at least once.
pub(super) fn is_exactly_once(options: &Options) -> Result<Option<bool>, ConnectorError> {
    let guarantees = [("at-least-once", None), ("none", Some(false)), ("exactly-once", Some(true))];
    Ok(options.choice(GUARANTEE, &guarantees)?.flatten())
}

/// How rows are delivered.
#[derive(Debug, Clone)]
pub(super) struct Delivery {
    guarantee: Guarantee,
    spread: Spread,
    /// How often brokers are looked for, where a transaction needs them before the first row.
    patience: Patience,
}

impl Delivery {
    pub(super) fn of(options: &Options, has_key: bool) -> Result<Delivery, ConnectorError> {
        const PARTITIONER: &str = "sink.partitioner";
        let guarantee = Guarantee::of(options)?;
        let spreads = [("default", Spread::Default), ("fixed", Spread::Fixed), ("round-robin", Spread::RoundRobin)];
        let spread = options.choice(PARTITIONER, &spreads)?.unwrap_or(Spread::Default);
        if spread == Spread::RoundRobin && has_key {
            let problem = "is 'round-robin', and rows with a 'key.format' go where their key says; use 'default'";
            return Err(ConnectorError::option(PARTITIONER, problem));
        }
        Ok(Delivery { guarantee, spread, patience: Patience::of(options)? })
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

/// Encodes rows as messages of a topic.
pub(super) struct KafkaSink {
    place: String,
    shape: Shape,
    output: Output,
    keys: Encoded,
    values: Encoded,
}

/// Where messages go.
enum Output {
    /// They are confirmed by the brokers before the end, and before a checkpoint,
    Confirmed(MessageProducer),
    /// or nobody waits for that,
    Unconfirmed(MessageProducer),
    /// or they are visible with a checkpoint.
    Transaction(Arc<Transaction>),
}

impl Output {
    fn producer(&self) -> &MessageProducer {
        match self {
            Output::Confirmed(producer) | Output::Unconfirmed(producer) => producer,
            Output::Transaction(transaction) => transaction.producer(),
        }
    }
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

/// Makes a producer, or has a job's.
pub(super) fn open(
    request: &TableRequest,
    shape: Shape,
    properties: &Properties,
    delivery: Delivery,
) -> Result<KafkaSink, ConnectorError> {
    let place = format!("topic '{}'", shape.topic);
    let Delivery { guarantee, spread, patience } = delivery;
    let output = match guarantee {
        Guarantee::ExactlyOnce { prefix } => {
            let Some(job) = &request.host.committed_by else {
                let problem = "is 'exactly-once', which needs a job with checkpoints: SET 'execution.checkpointing.dir' and 'execution.checkpointing.interval', \
                               or use 'at-least-once', as for rows that are set aside ('on-error.dead-letter-table')";
                return Err(ConnectorError::option(GUARANTEE, problem));
            };
            let setup = Setup { topic: shape.topic.clone(), properties: properties.clone(), prefix, spread, patience };
            Output::Transaction(Transaction::join(request, job, setup)?)
        }
        Guarantee::AtLeastOnce => {
            let mut config = properties.config(DEFAULTS);
            // Messages keep their order where they are sent again.
            let is_told = ["enable.idempotence", "acks", "request.required.acks"]
                .iter()
                .any(|name| properties.get(name).is_some());
            if !is_told {
                config.set("enable.idempotence", "true");
            }
            Output::Confirmed(MessageProducer::open(request, config, spread, |_| None)?)
        }
        Guarantee::None => {
            Output::Unconfirmed(MessageProducer::open(request, properties.config(DEFAULTS), spread, |_| None)?)
        }
    };
    Ok(KafkaSink { place, shape, output, keys: Encoded::default(), values: Encoded::default() })
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
            self.output.producer().send(record)?;
        }
        Ok(())
    }
}

impl Sink for KafkaSink {
    fn is_ready(&self) -> bool {
        self.output.producer().is_ready()
    }

    fn is_settled(&self) -> bool {
        matches!(self.output, Output::Unconfirmed(_)) || self.output.producer().is_settled()
    }

    fn write(&mut self, rows: &RecordBatch) -> Result<(), SinkError> {
        self.flush()?;
        if let Output::Transaction(transaction) = &self.output {
            transaction.open_for_rows().map_err(|problem| self.failed(problem))?;
        }
        self.encode(rows).and_then(|()| self.send(rows)).map_err(|problem| self.failed(problem))
    }

    /// Messages are sent as soon as they can be.
    fn flush(&mut self) -> Result<(), SinkError> {
        self.output.producer().result().map_err(|problem| self.failed(problem))
    }

    /// Waits until all is confirmed. It is visible then, and written again where the job goes on from a checkpoint before; or the job's transaction ends
    /// here, which the job itself commits.
    fn prepare(&mut self) -> Result<Option<String>, SinkError> {
        let prepared = match &self.output {
            Output::Confirmed(producer) => producer.flush(),
            Output::Unconfirmed(producer) => producer.result(),
            Output::Transaction(transaction) => transaction.prepare(),
        };
        prepared.map(|()| None).map_err(|problem| self.failed(problem))
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        let finished = match &self.output {
            Output::Confirmed(producer) | Output::Unconfirmed(producer) => producer.flush(),
            Output::Transaction(transaction) if transaction.is_closed() => Ok(()),
            Output::Transaction(_) => Err("rows were written behind the last checkpoint".to_owned()),
        };
        finished.map_err(|problem| self.failed(problem))
    }
}
