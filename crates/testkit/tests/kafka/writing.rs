//! What a query writes to topics.

use pelton::Session;
use pelton_testkit::kafka_broker::{broker, shown};

use crate::{all, definition, execute, topic};

fn written(broker: &pelton_testkit::kafka_broker::Broker, topic: &str) -> Vec<String> {
    broker.read(topic).iter().map(shown).collect()
}

/// Runs an INSERT to its end.
fn insert(session: &Session, statement: &str) -> u64 {
    session.sql(statement).unwrap().wait().unwrap().sinks[0].rows
}

#[test]
fn rows_are_messages_with_keys_timestamps_and_headers() {
    let Some(broker) = broker() else { return };
    let topic = topic(broker, 1);
    let session = Session::new();
    execute(&session, "SET 'table.local-time-zone' = 'UTC'");
    let columns =
        "id BIGINT, text STRING, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', headers MAP<STRING, BYTES> METADATA,
                   `offset` BIGINT METADATA VIRTUAL";
    let options =
        "'key.format' = 'raw', 'key.fields' = 'text', 'value.format' = 'json', 'scan.startup.mode' = 'earliest-offset',
                   'scan.bounded.mode' = 'latest-offset'";
    execute(&session, &definition("t", broker, columns, &topic, options));
    let rows = insert(
        &session,
        "INSERT INTO t SELECT id, text, TO_TIMESTAMP_LTZ(id * 1000, 3), MAP['a', CAST(x'6263' AS BYTES)]
         FROM (VALUES (CAST(1 AS BIGINT), 'x'), (2, CAST(NULL AS STRING))) AS v (id, text)",
    );
    assert_eq!(rows, 2);
    assert_eq!(written(broker, &topic), [r#"0|x|{"id":1,"text":"x"}|a=bc"#, r#"0|-|{"id":2,"text":null}|a=bc"#]);
    assert_eq!(
        all(&session, "SELECT id, text, ts, `offset` FROM t"),
        ["1 | x | 1970-01-01 00:00:01.000Z | 0", "2 | NULL | 1970-01-01 00:00:02.000Z | 1"]
    );
}

#[test]
fn rows_go_to_partitions_as_the_table_says() {
    let Some(broker) = broker() else { return };
    let session = Session::new();
    let partitions = |options: &str| {
        let topic = topic(broker, 3);
        execute(&session, &definition("t", broker, "id INT", &topic, &format!("'value.format' = 'csv', {options}")));
        insert(&session, "INSERT INTO t VALUES (0), (1), (2), (3), (4), (5)");
        execute(&session, "DROP TABLE t");
        broker.read(&topic).iter().map(shown).collect::<Vec<_>>()
    };
    assert_eq!(partitions("'sink.partitioner' = 'fixed'"), ["0|-|0", "0|-|1", "0|-|2", "0|-|3", "0|-|4", "0|-|5"]);
    assert_eq!(
        partitions("'sink.partitioner' = 'round-robin'"),
        ["0|-|0", "0|-|3", "1|-|1", "1|-|4", "2|-|2", "2|-|5"]
    );
    // As Java's producer has them: murmur2 of the key.
    let keyed = "'key.format' = 'csv', 'key.fields' = 'id', 'sink.delivery-guarantee' = 'none'";
    let by_hash: Vec<String> = partitions(keyed);
    assert_eq!(by_hash.len(), 6);
    assert_eq!(by_hash, partitions(keyed));
}

#[test]
fn a_query_passes_rows_from_topic_to_topic() {
    let Some(broker) = broker() else { return };
    let session = Session::new();
    let (numbers, sums) = (topic(broker, 2), topic(broker, 1));
    let common = "'format' = 'json', 'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'";
    execute(
        &session,
        &definition("numbers", broker, "n BIGINT", &numbers, &format!("{common}, 'sink.partitioner' = 'round-robin'")),
    );
    execute(&session, &definition("sums", broker, "parity BIGINT, total BIGINT", &sums, common));
    let rows = insert(
        &session,
        "INSERT INTO numbers SELECT n FROM (VALUES (CAST(1 AS BIGINT))) AS v (one)
         CROSS JOIN LATERAL TABLE(GENERATE_SERIES(one, 50000)) AS s (n)",
    );
    assert_eq!(rows, 50_000);
    insert(&session, "INSERT INTO sums SELECT n * n, n FROM numbers WHERE n < 4");
    assert_eq!(all(&session, "SELECT parity, total FROM sums"), ["1 | 1", "4 | 2", "9 | 3"]);
    assert_eq!(all(&session, "SELECT COUNT(*), SUM(n) FROM numbers"), ["50000 | 1250025000"]);
}

#[test]
fn formats_of_messages_are_read_as_they_are_written() {
    let Some(broker) = broker() else { return };
    let session = Session::new();
    for format in ["json", "csv", "avro", "debezium-json"] {
        let topic = topic(broker, 2);
        let options = format!(
            "'key.format' = '{format}', 'key.fields' = 'id', 'value.format' = '{format}', 'value.fields-include' = 'EXCEPT_KEY',
             'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'"
        );
        let columns = "id BIGINT, text STRING, price DECIMAL(10, 2), at_ TIMESTAMP(3)";
        execute(&session, &definition("t", broker, columns, &topic, &options));
        insert(
            &session,
            "INSERT INTO t SELECT CAST(n AS BIGINT), CAST(n AS STRING) || ' ü', CAST(n AS DECIMAL(10, 2)) / 4, TIMESTAMP '2024-01-01 00:00:00.123'
             FROM (VALUES (1), (2), (3)) AS v (n)",
        );
        assert_eq!(
            all(&session, "SELECT * FROM t"),
            [
                "1 | 1 ü | 0.25 | 2024-01-01 00:00:00.123",
                "2 | 2 ü | 0.50 | 2024-01-01 00:00:00.123",
                "3 | 3 ü | 0.75 | 2024-01-01 00:00:00.123"
            ],
            "{format}"
        );
        execute(&session, "DROP TABLE t");
    }
}
