//! Tables over TCP, from one query to another.

use std::net::TcpListener;

use pelton::Session;
use pelton::arrow::array::AsArray;
use pelton::arrow::datatypes::Int64Type;

/// A port that nobody listens on.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A table that listens and one that connects to it.
fn tables(session: &Session, listening: &str, connecting: &str, options: &str) {
    let port = free_port();
    let listen = format!("'mode' = 'listen', 'port' = '{port}', 'on-close' = 'end', {options}");
    let connect = format!("'hostname' = '127.0.0.1', 'port' = '{port}', {options}");
    for (name, options) in [(listening, listen), (connecting, connect)] {
        let columns = "i BIGINT, a ARRAY<BIGINT>, text STRING";
        let create =
            format!("CREATE TABLE {name} ({columns}) WITH ('connector' = 'tcp', 'format' = 'json', {options})");
        session.execute(&session.prepare(&create).unwrap()[0]).unwrap();
    }
}

const ROWS: i64 = 200_000;

/// Sends rows from one table to the other, and checks that all arrive in order.
fn pass(session: &Session, from: &str, to: &str) {
    // JSON escapes the end of the line in the text.
    let insert = format!(
        "INSERT INTO {to} SELECT n, ARRAY[n, n + 1], 'line\nend'
         FROM (VALUES (CAST(1 AS BIGINT))) AS v (begin_) CROSS JOIN LATERAL TABLE(GENERATE_SERIES(begin_, {ROWS})) AS s (n)"
    );
    let read = session.sql(&format!("SELECT i, a, text FROM {from}")).unwrap();
    let insert = session.sql(&insert).unwrap();
    let batches = read.collect().unwrap();
    assert_eq!(insert.wait().unwrap().sinks[0].rows as i64, ROWS);
    let mut next = 1;
    for batch in &batches {
        for row in 0..batch.num_rows() {
            assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(row), next);
            let items = batch.column(1).as_list::<i32>().value(row);
            assert_eq!(items.as_primitive::<Int64Type>().values().as_ref(), [next, next + 1]);
            assert_eq!(batch.column(2).as_string_view().value(row), "line\nend");
            next += 1;
        }
    }
    assert_eq!(next, ROWS + 1);
}

#[test]
fn rows_pass_from_a_query_that_connects_to_one_that_listens() {
    let session = Session::new();
    tables(&session, "incoming", "outgoing", "'connect.retries-max' = '1000', 'connect.backoff-max' = '10 ms'");
    pass(&session, "incoming", "outgoing");
}

#[test]
fn rows_pass_from_a_query_that_listens_to_one_that_connects() {
    let session = Session::new();
    tables(&session, "outgoing", "incoming", "'connect.retries-max' = '1000', 'connect.backoff-max' = '10 ms'");
    pass(&session, "incoming", "outgoing");
}
