//! Kafka tables against a real broker on loopback, which all tests share. Where there can be none, each test says so and does nothing.

mod failures;
mod killed;
mod reading;
mod restoring;
mod transactions;
mod writing;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pelton::{Query, Session};
use pelton_testkit::kafka_broker::{Broker, Sent};
use pelton_testkit::rows::row_lines;

const PATIENCE: Duration = Duration::from_secs(60);

/// A topic that no other test has.
fn topic(broker: &Broker, partitions: i32) -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let name = format!("topic-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    broker.create_topic(&name, partitions);
    name
}

fn execute(session: &Session, script: &str) {
    for statement in session.prepare(script).unwrap() {
        session.execute(&statement).unwrap();
    }
}

/// Makes a table `t` of a topic, which is read from its start, with these options beside those that all have.
fn create(session: &Session, broker: &Broker, columns: &str, topic: &str, options: &str) {
    execute(
        session,
        &definition("t", broker, columns, topic, &format!("'scan.startup.mode' = 'earliest-offset', {options}")),
    );
}

fn definition(name: &str, broker: &Broker, columns: &str, topic: &str, options: &str) -> String {
    format!(
        "CREATE TABLE {name} ({columns}) WITH ('connector' = 'kafka', 'topic' = '{topic}',
         'properties.bootstrap.servers' = '{}', {options})",
        broker.servers
    )
}

/// The rows of a query that ends, in the order of their text.
fn all(session: &Session, query: &str) -> Vec<String> {
    let batches = session.sql(query).unwrap().collect().unwrap();
    let mut lines: Vec<String> = batches.iter().flat_map(|batch| row_lines(batch).unwrap()).collect();
    lines.sort();
    lines
}

/// The next rows of a query that need not end: so many, in the order of their text.
fn next(query: &mut Query, wanted: usize) -> Vec<String> {
    let (began, mut lines) = (Instant::now(), Vec::new());
    while lines.len() < wanted {
        assert!(began.elapsed() < PATIENCE, "these come only: {lines:?}");
        match query.try_next_batch().unwrap() {
            Some(batch) => lines.extend(row_lines(&batch).unwrap()),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    lines.sort();
    lines
}

fn until(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "it does not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Values to a partition.
fn send(broker: &Broker, topic: &str, partition: i32, values: &[&str]) {
    broker.send(topic, values.iter().map(|value| Sent::new(partition, value)));
}
