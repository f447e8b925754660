//! How fast a Kafka topic of JSON messages is read, beside what librdkafka delivers without looking into them: `cargo run --release -p pelton-bench --example kafka_json`.
//!
//! A broker is started on loopback; without Java and Maven it says so. Both read the same topic from its start to its end, in turn, some times each; the medians are shown.

use std::time::{Duration, Instant};

use pelton::Session;
use pelton_testkit::kafka_broker::{Broker, Sent, broker};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Messages of a topic, unless the first argument says how many.
const MESSAGES: usize = 1_000_000;

/// Passes of each reader.
const PASSES: usize = 5;

fn main() {
    let Some(broker) = broker() else { return };
    let messages = std::env::args().nth(1).map_or(MESSAGES, |text| text.parse().expect("a number of messages"));
    for partitions in [1, 8] {
        let topic = format!("json-{partitions}");
        broker.create_topic(&topic, partitions);
        fill(broker, &topic, partitions, messages);
        let (mut raw, mut pelton) = (Vec::new(), Vec::new());
        for _ in 0..PASSES {
            raw.push(timed(|| assert_eq!(read_raw(broker, &topic, partitions), messages)));
            pelton.push(timed(|| read_rows(broker, &topic, messages)));
        }
        let [raw, pelton] = [raw, pelton].map(|times| messages as f64 / median(times).as_secs_f64());
        println!(
            "kafka-json, {partitions} partitions: librdkafka {raw:.0} messages/s, pelton {pelton:.0} rows/s, {:.2} of it",
            pelton / raw
        );
    }
}

fn fill(broker: &Broker, topic: &str, partitions: i32, messages: usize) {
    let value = |number: usize| {
        format!(
            r#"{{"id": {number}, "user": "user-{}", "price": {}.25, "page": "/articles/{}"}}"#,
            number % 1000,
            number % 97,
            number % 31
        )
    };
    for first in (0..messages).step_by(100_000) {
        let values: Vec<String> = (first..messages.min(first + 100_000)).map(value).collect();
        broker
            .send(topic, values.iter().enumerate().map(|(number, value)| Sent::new(number as i32 % partitions, value)));
    }
}

/// Takes all messages, as one thread can that does nothing with them.
fn read_raw(broker: &Broker, topic: &str, partitions: i32) -> usize {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &broker.servers).set("group.id", "raw").set("enable.auto.commit", "false");
    config.set("enable.partition.eof", "true");
    let consumer: BaseConsumer = config.create().expect("the configuration is right");
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition_offset(topic, partition, Offset::Beginning).expect("the partition is new");
    }
    consumer.assign(&list).expect("the partitions exist");
    let (mut messages, mut bytes, mut ended) = (0, 0, 0);
    while ended < partitions {
        match consumer.poll(Duration::from_secs(30)).expect("the broker answers") {
            Ok(message) => {
                messages += 1;
                bytes += message.payload_len();
            }
            Err(KafkaError::PartitionEOF(_)) => ended += 1,
            Err(error) => panic!("{topic}: {error}"),
        }
    }
    assert!(bytes > messages);
    messages
}

/// Sums a column of all rows.
fn read_rows(broker: &Broker, topic: &str, messages: usize) {
    let session = Session::new();
    let script = format!(
        "CREATE TABLE t (id BIGINT, price DOUBLE) WITH ('connector' = 'kafka', 'topic' = '{topic}', 'format' = 'json',
         'properties.bootstrap.servers' = '{}', 'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset');
         SELECT COUNT(*), SUM(price), MAX(id) FROM t",
        broker.servers
    );
    let rows = session.sql(&script).expect("the query is right").collect().expect("the topic is read");
    assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
    let count =
        rows.iter().find(|batch| batch.num_rows() > 0).map(|batch| batch.column(0).clone()).expect("there is a row");
    let count = pelton::arrow::util::display::array_value_to_string(&count, 0).expect("it is a number");
    assert_eq!(count, messages.to_string());
}

fn timed(run: impl FnOnce()) -> Duration {
    let began = Instant::now();
    run();
    began.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
