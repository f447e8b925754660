//! What a query reads of topics.

use pelton::Session;
use pelton_testkit::kafka_broker::{Sent, broker};

use crate::{all, create, definition, execute, next, send, topic};

const BOUNDED: &str = "'scan.bounded.mode' = 'latest-offset'";

#[test]
fn a_topic_is_read_to_its_end_as_json_csv_and_raw() {
    let Some(broker) = broker() else { return };
    let session = Session::new();
    let json = topic(broker, 3);
    send(broker, &json, 0, &[r#"{"a": 1, "b": "x"}"#, "{\n  \"a\": 2,\n  \"b\": \"y\\nz\"\n}"]);
    send(broker, &json, 2, &[r#"{"b": "only"}"#, ""]);
    create(&session, broker, "a INT, b STRING", &json, &format!("'format' = 'json', {BOUNDED}"));
    assert_eq!(all(&session, "SELECT a, b FROM t"), ["1 | x", "2 | \"y\\nz\"", "NULL | only"]);
    assert_eq!(all(&session, "SELECT COUNT(*) FROM t"), ["3"]);

    let csv = topic(broker, 1);
    send(broker, &csv, 0, &["1;'two\nlines'", "2;'it''s'\n", "3;"]);
    let options = "'format' = 'csv', 'csv.field-delimiter' = ';', 'csv.quote-character' = ''''";
    execute(&session, "DROP TABLE t");
    create(&session, broker, "a INT, b STRING", &csv, &format!("{options}, {BOUNDED}"));
    assert_eq!(all(&session, "SELECT a, b FROM t"), ["1 | \"two\\nlines\"", "2 | it's", "3 | (empty)"]);

    let raw = topic(broker, 1);
    let bytes = 258_i32.to_be_bytes();
    broker.send(&raw, [Sent { value: Some(&bytes), ..Sent::new(0, "") }, Sent { value: None, ..Sent::new(0, "") }]);
    execute(&session, "DROP TABLE t");
    create(&session, broker, "a INT", &raw, &format!("'format' = 'raw', {BOUNDED}"));
    assert_eq!(all(&session, "SELECT a FROM t"), ["258", "NULL"]);
    execute(&session, "DROP TABLE t");
    create(
        &session,
        broker,
        "a INT",
        &raw,
        &format!("'value.format' = 'raw', 'value.raw.endianness' = 'little-endian', {BOUNDED}"),
    );
    assert_eq!(all(&session, "SELECT a FROM t"), ["33619968", "NULL"]);
}

#[test]
fn keys_and_metadata_are_columns() {
    let Some(broker) = broker() else { return };
    let topic = topic(broker, 2);
    let message = Sent {
        key: Some("7"),
        timestamp: Some(1_700_000_000_123),
        headers: &[("trace", "abc"), ("trace", "def")],
        ..Sent::new(1, r#"{"b": "x"}"#)
    };
    broker.send(&topic, [message, Sent { timestamp: Some(5), ..Sent::new(1, r#"{"b": "no key"}"#) }]);
    let session = Session::new();
    execute(&session, "SET 'table.local-time-zone' = 'UTC'");
    create(
        &session,
        broker,
        "k_id BIGINT, b STRING, topic STRING METADATA VIRTUAL, part INT METADATA FROM 'partition' VIRTUAL,
         `offset` BIGINT METADATA VIRTUAL, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
         kind STRING METADATA FROM 'timestamp-type' VIRTUAL, headers MAP<STRING, BYTES> METADATA",
        &topic,
        &format!(
            "'key.format' = 'csv', 'key.fields' = 'k_id', 'key.fields-prefix' = 'k_', 'value.fields-include' = 'EXCEPT_KEY',
             'value.format' = 'json', {BOUNDED}"
        ),
    );
    assert_eq!(
        all(&session, "SELECT k_id, b, part, `offset`, ts, kind, CARDINALITY(headers) FROM t"),
        [
            "7 | x | 1 | 0 | 2023-11-14 22:13:20.123Z | CreateTime | 2",
            "NULL | no key | 1 | 1 | 1970-01-01 00:00:00.005Z | CreateTime | 0"
        ]
    );
    assert_eq!(all(&session, "SELECT topic FROM t WHERE k_id = 7"), [topic.as_str()]);
    assert_eq!(all(&session, "SELECT k_id FROM t"), ["7", "NULL"]);
}

#[test]
fn reading_begins_and_ends_where_the_table_says() {
    let Some(broker) = broker() else { return };
    let topic = topic(broker, 2);
    let values = ["0", "1", "2", "3", "4"];
    broker.send(
        &topic,
        values
            .iter()
            .enumerate()
            .map(|(number, value)| Sent { timestamp: Some(1000 * (number as i64 + 1)), ..Sent::new(0, value) }),
    );
    send(broker, &topic, 1, &["10"]);
    let session = Session::new();
    let mut number = 0;
    let mut read = |options: &str| {
        number += 1;
        let name = format!("t{number}");
        execute(&session, &definition(&name, broker, "a INT", &topic, &format!("'format' = 'csv', {options}")));
        all(&session, &format!("SELECT a FROM {name}")).join(" ")
    };
    let earliest = "'scan.startup.mode' = 'earliest-offset'";
    assert_eq!(read(&format!("{earliest}, {BOUNDED}")), "0 1 10 2 3 4");
    assert_eq!(read(&format!("'scan.startup.mode' = 'latest-offset', {BOUNDED}")), "");
    let specific = "'scan.startup.mode' = 'specific-offsets', 'scan.startup.specific-offsets' = 'partition:0,offset:3'";
    assert_eq!(read(&format!("{specific}, {BOUNDED}")), "10 3 4");
    let timestamp = "'scan.startup.mode' = 'timestamp', 'scan.startup.timestamp-millis' = '2500'";
    assert_eq!(read(&format!("{timestamp}, {BOUNDED}")), "10 2 3 4");
    let end = "'scan.bounded.mode' = 'timestamp', 'scan.bounded.timestamp-millis' = '3000'";
    assert_eq!(read(&format!("{earliest}, {end}")), "0 1");
    let end = "'scan.bounded.mode' = 'specific-offsets', 'scan.bounded.specific-offsets' = 'partition:0,offset:2;partition:1,offset:0'";
    assert_eq!(read(&format!("{earliest}, {end}")), "0 1");
    let group = "'properties.group.id' = 'nobody', 'properties.auto.offset.reset' = 'earliest'";
    assert_eq!(read(&format!("{group}, {BOUNDED}")), "0 1 10 2 3 4");
    // Offsets are committed where that is asked for, and the group goes on behind them.
    let group = "'properties.group.id' = 'some', 'properties.auto.offset.reset' = 'earliest', 'properties.enable.auto.commit' = 'true'";
    assert_eq!(read(&format!("{group}, {BOUNDED}")), "0 1 10 2 3 4");
    send(broker, &topic, 1, &["11"]);
    crate::until(|| broker.committed("some", &topic) == [5, 1]);
    assert_eq!(read(&format!("{group}, {BOUNDED}")), "11");
}

#[test]
fn partitions_and_topics_that_appear_later_are_read_from_their_start() {
    let Some(broker) = broker() else { return };
    let first = topic(broker, 1);
    let pattern = format!("{first}(-more)?");
    send(broker, &first, 0, &["1"]);
    let session = Session::new();
    let options = format!(
        "'connector' = 'kafka', 'topic-pattern' = '{pattern}', 'properties.bootstrap.servers' = '{}', 'format' = 'csv',
         'scan.startup.mode' = 'latest-offset', 'scan.topic-partition-discovery.interval' = '50 ms'",
        broker.servers
    );
    execute(&session, &format!("CREATE TABLE t (a INT) WITH ({options})"));
    let mut query = session.sql("SELECT a FROM t").unwrap();
    let mut other = session.sql("SELECT a + 100 FROM t").unwrap();
    // The query begins at the end, wherever that is by then.
    let mut sent = 2;
    crate::until(|| {
        send(broker, &first, 0, &[&sent.to_string()]);
        sent += 1;
        query.try_next_batch().unwrap().is_some()
    });
    broker.add_partitions(&first, 2);
    send(broker, &first, 1, &["1000"]);
    let more = format!("{first}-more");
    broker.create_topic(&more, 1);
    send(broker, &more, 0, &["2000"]);
    let mut seen = Vec::new();
    let mut seen_by_other = Vec::new();
    while !(seen.contains(&"1000".to_owned()) && seen.contains(&"2000".to_owned())) {
        seen.extend(next(&mut query, 1));
    }
    while !(seen_by_other.contains(&"1100".to_owned()) && seen_by_other.contains(&"2100".to_owned())) {
        seen_by_other.extend(next(&mut other, 1));
    }
    assert!(!seen.contains(&"1".to_owned()), "it was there before");
}

#[test]
fn windows_wait_for_all_partitions_but_those_that_are_idle() {
    let Some(broker) = broker() else { return };
    let topic = topic(broker, 3);
    let time = |seconds: i64| Some(seconds * 1000);
    let at = |partition, seconds, value| Sent { timestamp: time(seconds), ..Sent::new(partition, value) };
    // Partition 0 is far ahead of partition 1, and partition 2 has nothing.
    broker.send(&topic, [at(0, 1, "1"), at(0, 100, "2"), at(1, 2, "4")]);
    let session = Session::new();
    execute(&session, "SET 'table.local-time-zone' = 'UTC'");
    create(
        &session,
        broker,
        "a INT, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL, WATERMARK FOR ts AS ts",
        &topic,
        "'format' = 'csv', 'scan.watermark.idle-timeout' = '200 ms'",
    );
    let windows = "SELECT window_start, SUM(a) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))
                   GROUP BY window_start, window_end";
    let mut query = session.sql(windows).unwrap();
    assert_eq!(next(&mut query, 1), ["1970-01-01 00:00:00.000 | 5"]);
    broker.send(&topic, [at(1, 205, "8"), at(0, 205, "16")]);
    assert_eq!(next(&mut query, 1), ["1970-01-01 00:01:40.000 | 2"]);
}

#[test]
fn a_topic_of_many_messages_is_read_by_all_workers() {
    let Some(broker) = broker() else { return };
    let topic = topic(broker, 4);
    let values: Vec<String> =
        (0..100_000).map(|number| format!(r#"{{"id": {number}, "text": "row {number}"}}"#)).collect();
    broker.send(&topic, values.iter().enumerate().map(|(number, value)| Sent::new(number as i32 % 4, value)));
    let session = Session::new();
    create(&session, broker, "id BIGINT, text STRING", &topic, &format!("'format' = 'json', {BOUNDED}"));
    assert_eq!(
        all(&session, "SELECT COUNT(*), SUM(id), COUNT(DISTINCT text) FROM t"),
        ["100000 | 4999950000 | 100000"]
    );
}
