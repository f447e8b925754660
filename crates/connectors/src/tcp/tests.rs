//! Tables over TCP, on loopback.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read as _, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use pelton_runtime::source::{Read, Rows, Source, SourceError};

use crate::{TableRequest, open_sink, open_source};

const PATIENCE: Duration = Duration::from_secs(60);

/// A table of one column over TCP, with these options beside those that all have.
fn request(port: u16, options: &[(&str, &str)]) -> TableRequest {
    let given = [("connector", "tcp"), ("hostname", "127.0.0.1"), ("format", "csv"), ("connect.backoff-max", "10 ms")];
    let given = given.iter().chain(options).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let mut all: BTreeMap<String, String> = given.collect();
    all.insert("port".to_owned(), port.to_string());
    TableRequest {
        name: "t".to_owned(),
        schema: Arc::new(Schema::new(vec![Field::new("i", DataType::Int64, true)])),
        columns: vec![0],
        metadata: BTreeMap::new(),
        partition_keys: Vec::new(),
        lengths: BTreeMap::new(),
        options: all,
        event_time: None,
        block_rows: 1024,
        seed: 0,
        strict_values: false,
        host: crate::Host::default(),
    }
}

/// A port that nobody listens on.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Reads numbers until there are so many, or the table ends.
fn numbers(source: &mut dyn Source, wanted: usize) -> Result<Vec<i64>, SourceError> {
    let (began, mut found) = (Instant::now(), Vec::new());
    while found.len() < wanted {
        assert!(began.elapsed() < PATIENCE, "there are {} numbers only", found.len());
        match source.read(0)? {
            Read::Chunk(decode) => match decode()?.rows {
                Rows::Batches(batches) => batches.iter().for_each(|rows| {
                    found.extend(rows.column(0).as_primitive::<Int64Type>().iter().flatten());
                }),
                _ => panic!("text is decoded into batches"),
            },
            Read::Wait(_) => thread::sleep(Duration::from_millis(1)),
            Read::End => break,
        }
    }
    Ok(found)
}

fn rows(numbers: std::ops::Range<i64>) -> RecordBatch {
    let values = Int64Array::from_iter_values(numbers);
    RecordBatch::try_from_iter([("i", Arc::new(values) as _)]).unwrap()
}

fn until(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "it does not happen");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_table_connects_and_ends_with_the_connection() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut source = open_source(&request(server.local_addr().unwrap().port(), &[])).unwrap();
    let mut stream = server.accept().unwrap().0;
    // A row in two pieces, and one that nothing ends.
    stream.write_all(b"1\n2").unwrap();
    assert_eq!(numbers(&mut *source, 1).unwrap(), [1]);
    stream.write_all(b"2\n3").unwrap();
    drop(stream);
    assert_eq!(numbers(&mut *source, usize::MAX).unwrap(), [22, 3]);
}

#[test]
fn a_server_that_comes_later_is_waited_for_and_one_that_does_not_come_is_an_error() {
    let port = free_port();
    let mut source = open_source(&request(port, &[("connect.retries-max", "1000")])).unwrap();
    assert!(matches!(source.read(0), Ok(Read::Wait(_))));
    let server = TcpListener::bind(("127.0.0.1", port)).unwrap();
    server.accept().unwrap().0.write_all(b"1\n").unwrap();
    assert_eq!(numbers(&mut *source, usize::MAX).unwrap(), [1]);

    let mut source = open_source(&request(free_port(), &[("connect.retries-max", "2")])).unwrap();
    let error = numbers(&mut *source, 1).unwrap_err().to_string();
    assert!(error.starts_with("tcp://127.0.0.1:"), "{error}");
    assert!(error.ends_with("; it was tried 3 times, as 'connect.retries-max' says"), "{error}");
}

#[test]
fn a_table_connects_again_where_that_is_asked_for() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let mut source = open_source(&request(port, &[("on-close", "reconnect"), ("csv.header", "true")])).unwrap();
    for expected in 1..=3 {
        let mut stream = server.accept().unwrap().0;
        stream.write_all(format!("i\n{expected}\n").as_bytes()).unwrap();
        drop(stream);
        assert_eq!(numbers(&mut *source, 1).unwrap(), [expected]);
    }
}

#[test]
fn a_table_that_listens_reads_all_its_clients_and_each_row_is_whole() {
    let port = free_port();
    let mut source = open_source(&request(port, &[("mode", "listen"), ("on-close", "end")])).unwrap();
    let mut clients: Vec<TcpStream> = (0..3).map(|_| connect(port)).collect();
    for half in ["1", "0\n"] {
        clients.iter_mut().for_each(|client| client.write_all(half.as_bytes()).unwrap());
    }
    assert_eq!(numbers(&mut *source, 3).unwrap(), [10, 10, 10]);
    drop(clients);
    assert_eq!(numbers(&mut *source, usize::MAX).unwrap(), [0; 0]);
}

#[test]
fn more_clients_than_are_allowed_wait() {
    let port = free_port();
    let mut source = open_source(&request(port, &[("mode", "listen"), ("connections-max", "1")])).unwrap();
    let mut first = connect(port);
    first.write_all(b"1\n").unwrap();
    assert_eq!(numbers(&mut *source, 1).unwrap(), [1]);
    let mut second = connect(port);
    second.write_all(b"2\n").unwrap();
    for _ in 0..20 {
        assert!(matches!(source.read(0), Ok(Read::Wait(_))));
        thread::sleep(Duration::from_millis(1));
    }
    drop(first);
    assert_eq!(numbers(&mut *source, 1).unwrap(), [2]);
}

#[test]
fn whoever_sends_more_than_is_read_is_held_back() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut source = open_source(&request(server.local_addr().unwrap().port(), &[])).unwrap();
    let mut stream = server.accept().unwrap().0;
    stream.set_nonblocking(true).unwrap();
    let row = b"7\n".repeat(32 << 10);
    let mut sent = 0;
    let (began, mut idle_since) = (Instant::now(), Instant::now());
    // Nobody reads: sooner or later nothing more is taken.
    while idle_since.elapsed() < Duration::from_millis(300) {
        assert!(began.elapsed() < PATIENCE && sent < 256 << 20, "{sent} bytes are taken that nobody reads");
        match stream.write(&row[sent % row.len()..]) {
            Ok(count) => {
                sent += count;
                idle_since = Instant::now();
            }
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
    drop(stream);
    let found = numbers(&mut *source, usize::MAX).unwrap();
    assert_eq!(found.len(), sent.div_ceil(2));
    assert!(found.iter().all(|number| *number == 7));
}

#[test]
fn a_connection_that_breaks_within_a_row_is_an_error() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let mut source = open_source(&request(port, &[("on-close", "reconnect")])).unwrap();
    let (mut stream, _) = server.accept().unwrap();
    stream.write_all(b"1\n2").unwrap();
    assert_eq!(numbers(&mut *source, 1).unwrap(), [1]);
    reset(stream);
    let error = numbers(&mut *source, 1).unwrap_err().to_string();
    assert!(error.contains("the rows from 2 on are not there: the connection broke within a row"), "{error}");
}

/// Ends a connection as a machine does that goes down.
fn reset(stream: TcpStream) {
    tokio::net::TcpSocket::from_std_stream(stream).set_zero_linger().unwrap();
}

#[test]
fn rows_end_with_the_byte_that_is_asked_for() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let request = request(server.local_addr().unwrap().port(), &[("byte-delimiter", "59")]);
    let mut source = open_source(&request).unwrap();
    server.accept().unwrap().0.write_all(b"1;2;").unwrap();
    assert_eq!(numbers(&mut *source, usize::MAX).unwrap(), [1, 2]);
    let mut sink = open_sink(&request).unwrap();
    sink.write(&rows(3..5)).unwrap();
    let mut text = String::new();
    let mut stream = server.accept().unwrap().0;
    sink.finish().unwrap();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text, "3;4;");
}

#[test]
fn a_slow_peer_holds_rows_back_and_gets_all_of_them() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sink = open_sink(&request(server.local_addr().unwrap().port(), &[])).unwrap();
    let stream = server.accept().unwrap().0;
    let mut written = 0;
    while sink.is_ready() {
        sink.write(&rows(written..written + 100_000)).unwrap();
        written += 100_000;
        // Until the system's buffers and the outbox are full.
        thread::sleep(Duration::from_millis(2));
    }
    let reading = thread::spawn(move || BufReader::new(stream).lines().map_while(Result::ok).collect::<Vec<_>>());
    until(|| sink.is_settled());
    assert!(sink.is_ready());
    sink.finish().unwrap();
    let lines = reading.join().unwrap();
    assert_eq!(lines.len() as i64, written);
    assert!(lines.iter().enumerate().all(|(index, line)| *line == index.to_string()));
}

#[test]
fn a_peer_that_takes_nothing_or_goes_is_an_error() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let mut sink = open_sink(&request(port, &[("write.timeout", "100 ms")])).unwrap();
    let stream = server.accept().unwrap().0;
    let error = loop {
        match sink.write(&rows(0..100_000)).and_then(|()| sink.flush()) {
            Ok(()) => thread::sleep(Duration::from_millis(1)),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.ends_with("the peer has taken no bytes for 0.1 s, as long as 'write.timeout' allows"), "{error}");
    drop(stream);

    let mut sink = open_sink(&request(port, &[])).unwrap();
    drop(server.accept().unwrap());
    until(|| sink.flush().is_err());
    assert!(sink.finish().unwrap_err().to_string().ends_with("the peer has closed the connection"));
}

#[test]
fn rows_wait_for_a_client_and_the_next_gets_the_row_that_was_cut_off() {
    let port = free_port();
    let mut sink = open_sink(&request(port, &[("mode", "listen")])).unwrap();
    sink.write(&rows(0..3)).unwrap();
    assert!(!sink.is_settled());
    let mut lines = BufReader::new(connect(port)).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "0");
    drop(lines);
    // The first client is gone when the second is served.
    let second = connect(port);
    second.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    // The system may take rows for the first client before it knows that this one is gone.
    until(|| {
        sink.write(&rows(3..5)).unwrap();
        second.peek(&mut [0]).is_ok()
    });
    second.set_read_timeout(None).unwrap();
    until(|| sink.is_settled());
    sink.finish().unwrap();
    let last = BufReader::new(second).lines().map_while(Result::ok).last();
    assert_eq!(last.as_deref(), Some("4"));
}

#[test]
fn a_query_that_is_given_up_frees_its_port() {
    let port = free_port();
    drop(open_source(&request(port, &[("mode", "listen")])).unwrap());
    until(|| TcpListener::bind(("127.0.0.1", port)).is_ok());
    drop(open_sink(&request(port, &[("mode", "listen")])).unwrap());
    until(|| TcpListener::bind(("127.0.0.1", port)).is_ok());
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let refused = |options: &[(&str, &str)]| match open_source(&request(1, options)) {
        Ok(_) => panic!("{options:?}"),
        Err(error) => error.to_string(),
    };
    assert_eq!(refused(&[("mode", "serve")]), "option 'mode' must be 'connect' or 'listen', not 'serve'");
    assert_eq!(
        refused(&[("byte-delimiter", "256")]),
        "option 'byte-delimiter' must be a byte from 0 to 255, not '256'"
    );
    let parquet = "option 'format' is 'parquet', whose rows are in files; use 'csv', 'json' or 'raw'";
    assert_eq!(refused(&[("format", "parquet")]), parquet);
    assert!(refused(&[("path", "x")]).contains("'path'"));
}
