//! Looks for brokers, and for the partitions of a table's topics: a task of the network runtime, whose requests wait on a thread that may.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::metadata::Metadata;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep, sleep_until};

use super::client::{Context, Events, Properties, problem};
use super::offsets::{Bounds, Resolver, Startup};
use super::topics::Topics;
use crate::ConnectorError;
use crate::condition::Condition;
use crate::io::inbox::Bell;
use crate::io::runtime;
use crate::options::{Options, parse_duration};

/// How long one request may take.
pub(super) const ATTEMPT_MAX: Duration = Duration::from_secs(5);

/// Between the first two attempts. It doubles from one to the next.
const BACKOFF_MIN: Duration = Duration::from_millis(100);

/// Topics of the cluster's own, which no pattern means.
const INTERNAL_TOPICS: [&str; 2] = ["__consumer_offsets", "__transaction_state"];

/// What is read, and how long it is looked for.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) topics: Topics,
    pub(super) startup: Startup,
    pub(super) bounds: Option<Bounds>,
    /// Between two looks for new partitions; zero: there is one look.
    pub(super) interval: Duration,
    pub(super) patience: Patience,
}

/// How often something is tried again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// Attempts beside the first.
    retries_max: u32,
    /// Between two attempts, at most.
    backoff_max: Duration,
}

impl Patience {
    pub(super) fn of(options: &Options) -> Result<Patience, ConnectorError> {
        let backoff_max = options.duration("connect.backoff-max")?;
        Ok(Patience {
            retries_max: options
                .or_default("connect.retries-max", options.number("connect.retries-max")?, |text| text.parse().ok()),
            backoff_max: options.or_default("connect.backoff-max", backoff_max, parse_duration),
        })
    }

    /// Does something until it is done, has failed for good, or was tried often enough.
    pub(super) fn tried<T>(&self, attempt: impl Fn() -> Result<T, Failed>) -> Result<T, String> {
        let (mut backoff, mut attempts) = (BACKOFF_MIN, 0);
        loop {
            let Failed { problem, is_final } = match attempt() {
                Ok(done) => return Ok(done),
                Err(failed) => failed,
            };
            attempts += 1;
            if is_final {
                return Err(problem);
            }
            if attempts > self.retries_max {
                return Err(given_up(&problem, attempts));
            }
            std::thread::sleep(backoff.min(self.backoff_max));
            backoff *= 2;
        }
    }
}

/// An attempt that has failed.
pub(super) struct Failed {
    pub(super) problem: String,
    /// Whether others would as well.
    pub(super) is_final: bool,
}

/// What is said of something that was tried often enough.
fn given_up(problem: &str, attempts: u32) -> String {
    let times = if attempts == 1 { "once".to_owned() } else { format!("{attempts} times") };
    format!("{problem}; it was tried {times}, as 'connect.retries-max' says")
}

/// A partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TopicPartition {
    pub(super) topic: String,
    pub(super) partition: i32,
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "topic '{}', partition {}", self.topic, self.partition)
    }
}

/// A partition to read, from where to where.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) partition: TopicPartition,
    pub(super) start: i64,
    /// Reading ends before this offset.
    pub(super) stop: Option<i64>,
}

/// A partition that an earlier run has read.
#[derive(Debug, Clone)]
pub(super) struct Resumed {
    pub(super) partition: TopicPartition,
    /// The offset of the next message; without it, the partition has ended.
    pub(super) next: Option<i64>,
    /// As [`Found::stop`].
    pub(super) stop: Option<i64>,
}

/// The partitions that were found, in order, or why there are none.
pub(super) type Finding = Result<Vec<Found>, String>;

/// The task.
pub(super) struct Discovery {
    pub(super) plan: Arc<Plan>,
    pub(super) consumer: Arc<BaseConsumer<Context>>,
    pub(super) properties: Properties,
    pub(super) findings: Sender<Finding>,
    pub(super) bell: Arc<Bell>,
    pub(super) condition: Condition,
    /// Partitions that an earlier run has read, which are the first.
    pub(super) resumed: Vec<Resumed>,
}

impl Discovery {
    /// Tells of partitions, at first of all there are, until nobody reads them any more.
    pub(super) async fn run(self) {
        let findings = self.findings.clone();
        tokio::select! {
            () = self.discover() => {}
            () = findings.closed() => {}
        }
        // The last one that has the consumer waits for its threads.
        drop(runtime().spawn_blocking(move || drop(self)));
    }

    async fn discover(&self) {
        let mut known = BTreeSet::new();
        loop {
            let found = self.find(&known).await;
            let is_first = known.is_empty();
            let is_failed = found.is_err();
            if let Ok(found) = &found {
                known.extend(found.iter().map(|found| found.partition.clone()));
            }
            if is_first || is_failed || found.as_ref().is_ok_and(|found| !found.is_empty()) {
                // Where nobody takes it, nobody reads any more.
                let _ = self.findings.send(found).await;
                self.bell.ring();
            }
            if is_failed {
                return std::future::pending().await;
            }
            self.watch().await;
        }
    }

    /// Waits until it is time to look for partitions: the interval has passed, or brokers are away.
    async fn watch(&self) {
        let has_next = !self.plan.interval.is_zero() && self.plan.bounds.is_none();
        let next = Instant::now() + if has_next { self.plan.interval } else { Duration::from_secs(u32::MAX.into()) };
        let events: &Events = &self.consumer.context().0;
        loop {
            tokio::select! {
                () = sleep_until(next) => return,
                () = events.happened.notified() => {}
            }
            let mut is_away = false;
            // Messages are in the queues of their partitions: here are events.
            while let Some(event) = self.consumer.poll(Duration::ZERO) {
                let code = event.err().and_then(|error| error.rdkafka_error_code());
                is_away |= code == Some(RDKafkaErrorCode::AllBrokersDown);
            }
            if is_away {
                return;
            }
        }
    }

    /// Finds partitions that are not known, after some attempts if need be.
    async fn find(&self, known: &BTreeSet<TopicPartition>) -> Finding {
        let Patience { retries_max, backoff_max } = self.plan.patience;
        let mut backoff = BACKOFF_MIN;
        let mut attempts = 0;
        loop {
            let search = Search {
                plan: self.plan.clone(),
                consumer: self.consumer.clone(),
                properties: self.properties.clone(),
                known: known.clone(),
                resumed: self.resumed.clone(),
            };
            let found = runtime().spawn_blocking(move || search.run()).await;
            let problem = match found.expect("looking for partitions does not panic") {
                Ok(found) => {
                    self.condition.clear();
                    return Ok(found);
                }
                Err(problem) => problem,
            };
            self.condition.set(&problem);
            attempts += 1;
            if attempts > retries_max {
                // What a broker said last tells more than that a request was not answered.
                let reason = self.consumer.context().0.take_error();
                let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
                return Err(given_up(&format!("{problem}{reason}"), attempts));
            }
            sleep(backoff.min(backoff_max)).await;
            backoff *= 2;
        }
    }
}

/// One look.
struct Search {
    plan: Arc<Plan>,
    consumer: Arc<BaseConsumer<Context>>,
    properties: Properties,
    known: BTreeSet<TopicPartition>,
    resumed: Vec<Resumed>,
}

impl Search {
    fn run(&self) -> Finding {
        let mut new = self.partitions()?;
        new.retain(|found| !self.known.contains(found));
        let mut all = Vec::with_capacity(new.len());
        if self.known.is_empty() {
            for Resumed { partition, next, stop } in &self.resumed {
                if !new.remove(partition) && next.is_some() {
                    return Err(format!("{partition} was read in part, and is not there any more"));
                }
                let (start, stop) = match next {
                    Some(next) => (*next, stop.filter(|_| self.plan.bounds.is_some())),
                    // One that has ended is not fetched: nothing of it is before its stop.
                    None => (0, Some(0)),
                };
                all.push(Found { partition: partition.clone(), start, stop });
            }
            if self.plan.bounds.is_some() && !self.resumed.is_empty() {
                // The table ends where it did when the earlier run began.
                new.clear();
            }
        }
        // Of a partition that has appeared since others were read, nothing is left out.
        let is_first = self.known.is_empty() && self.resumed.is_empty();
        let startup = if is_first { &self.plan.startup } else { &Startup::Earliest };
        let resolver = Resolver { consumer: &self.consumer, properties: &self.properties };
        let new: Vec<TopicPartition> = new.into_iter().collect();
        let starts = resolver.starts(startup, &new)?;
        all.extend(new.into_iter().zip(starts).map(|(partition, start)| Found { partition, start, stop: None }));
        if let Some(bounds) = &self.plan.bounds {
            let open: Vec<&mut Found> = all.iter_mut().filter(|found| found.stop.is_none()).collect();
            let partitions: Vec<TopicPartition> = open.iter().map(|found| found.partition.clone()).collect();
            for (found, stop) in open.into_iter().zip(resolver.stops(bounds, &partitions)?) {
                found.stop = Some(stop);
            }
        }
        Ok(all)
    }

    /// All partitions of the topics.
    fn partitions(&self) -> Result<BTreeSet<TopicPartition>, String> {
        let mut partitions = BTreeSet::new();
        match &self.plan.topics {
            Topics::Names(names) => {
                for name in names {
                    add_partitions(&self.metadata(Some(name))?, |_| true, &mut partitions)?;
                }
            }
            Topics::Pattern(pattern) => {
                let is_meant = |topic: &str| pattern.is_match(topic) && !INTERNAL_TOPICS.contains(&topic);
                add_partitions(&self.metadata(None)?, is_meant, &mut partitions)?;
            }
        }
        Ok(partitions)
    }

    fn metadata(&self, topic: Option<&str>) -> Result<Metadata, String> {
        let servers = self.properties.get("bootstrap.servers").unwrap_or_default();
        let metadata = self.consumer.fetch_metadata(topic, ATTEMPT_MAX);
        metadata.map_err(|error| format!("no broker at {servers} answers: {}", problem(&error)))
    }
}

fn add_partitions(
    metadata: &Metadata,
    is_meant: impl Fn(&str) -> bool,
    partitions: &mut BTreeSet<TopicPartition>,
) -> Result<(), String> {
    for topic in metadata.topics().iter().filter(|topic| is_meant(topic.name())) {
        if let Some(error) = topic.error() {
            return Err(match RDKafkaErrorCode::from(error) {
                RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic => {
                    format!("there is no topic '{}'", topic.name())
                }
                code => format!("topic '{}': {code}", topic.name()),
            });
        }
        let of_topic = topic
            .partitions()
            .iter()
            .map(|found| TopicPartition { topic: topic.name().to_owned(), partition: found.id() });
        partitions.extend(of_topic);
    }
    Ok(())
}
