//! The server as a process: its limits, its end, and clients that do not keep to the protocol.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use crate::program::{PATIENCE, Server};

/// A message: its type, and its bytes behind their number.
fn message(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len() + 4).unwrap().to_be_bytes();
    [&[kind], length.as_slice(), bytes].concat()
}

/// A client that speaks by hand.
fn raw(server: &Server) -> TcpStream {
    let mut socket = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let startup = message(0, b"\x00\x03\x00\x00user\x00test\x00\x00");
    socket.write_all(&startup[1..]).unwrap();
    socket
}

/// The next message of the server: its kind, and its bytes.
fn received(socket: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut header = [0; 5];
    socket.read_exact(&mut header).unwrap();
    let bytes = u32::from_be_bytes(header[1..].try_into().unwrap()) as usize - 4;
    let mut body = vec![0; bytes];
    socket.read_exact(&mut body).unwrap();
    (header[0], body)
}

/// The messages up to the next one of a kind, with it.
fn received_until(socket: &mut TcpStream, last: u8) -> Vec<(u8, Vec<u8>)> {
    let mut messages = Vec::new();
    while messages.last().is_none_or(|(kind, _)| *kind != last) {
        messages.push(received(socket));
    }
    messages
}

fn kinds(messages: &[(u8, Vec<u8>)]) -> String {
    messages.iter().map(|(kind, _)| char::from(*kind)).collect()
}

/// Sends a statement, and returns what the server answers before it is ready.
fn answered(socket: &mut TcpStream, statement: &str) -> Vec<(u8, Vec<u8>)> {
    socket.write_all(&message(b'Q', &[statement.as_bytes(), b"\0"].concat())).unwrap();
    received_until(socket, b'Z')
}

/// What the server sends before it closes the connection.
fn told(mut socket: TcpStream) -> String {
    let mut bytes = Vec::new();
    // A connection that is reset has told what it could.
    let _ = socket.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn others_than_this_machine_are_refused() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_pelton")).args(["serve", "--postgres", "0.0.0.0:0"]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.starts_with("error: --postgres 0.0.0.0:0: clients need no password"), "{error}");
}

#[test]
fn whoever_does_not_keep_to_the_protocol_is_told_and_let_go() {
    let server = Server::start(&[]);
    let mut socket = raw(&server);
    socket.write_all(&message(b'?', b"")).unwrap();
    assert!(told(socket).contains("08P01"));
    let mut socket = raw(&server);
    // A message of two gigabytes.
    socket.write_all(b"Q\x7f\xff\xff\xff").unwrap();
    let answer = told(socket);
    assert!(answer.contains("54000") && answer.contains("16777216"), "{answer}");
    let mut socket = raw(&server);
    // Counts more parameters than there are.
    socket.write_all(&message(b'B', b"\x00\x00\x00\x00\xff\xff")).unwrap();
    told(socket);
    let mut socket = raw(&server);
    socket.write_all(&message(b'Q', b"SELECT 'here' AS a\x00")).unwrap();
    socket.write_all(&message(b'X', b"")).unwrap();
    assert!(told(socket).contains("here"), "the server goes on");
}

#[test]
fn statements_of_a_file_are_executed_first_and_inserts_become_jobs() {
    let file = std::env::temp_dir().join(format!("pelton_serve_first_{}.sql", std::process::id()));
    let script = "CREATE TABLE hole (i BIGINT) WITH ('connector' = 'blackhole');
        CREATE TABLE endless (i BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '10');
        INSERT INTO hole SELECT i FROM endless;";
    std::fs::write(&file, script).unwrap();
    let server = Server::start(&["--file", file.to_str().unwrap()]);
    std::fs::remove_file(&file).unwrap();
    server.signal("-TERM");
    let (status, said) = server.ended();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.starts_with("job insert_into_hole: stopped after "), "{said}");
}

#[test]
fn more_clients_than_are_allowed_are_told_so() {
    let server = Server::start(&["--connections-max", "1"]);
    let mut first = raw(&server);
    let mut byte = [0];
    first.read_exact(&mut byte).unwrap();
    let answer = told(raw(&server));
    assert!(answer.contains("53300") && answer.contains("--connections-max"), "{answer}");
    drop(first);
}

#[test]
fn a_signal_ends_the_server_and_tells_its_clients() {
    let server = Server::start(&[]);
    let mut client = raw(&server);
    let mut byte = [0];
    client.read_exact(&mut byte).unwrap();
    server.signal("-TERM");
    assert!(told(client).contains("57P01"));
    assert_eq!(server.ended().0.code(), Some(0));
}

#[test]
fn rows_are_copied_as_arrow_both_ways() {
    use pelton::arrow::array::RecordBatch;
    use pelton::arrow::buffer::Buffer;
    use pelton::arrow::ipc::reader::StreamDecoder;

    let server = Server::start(&[]);
    let mut socket = raw(&server);
    received_until(&mut socket, b'Z');
    let copied = answered(
        &mut socket,
        "COPY (SELECT a, MAP['k', a] AS m FROM (VALUES (1), (2)) AS t (a)) TO STDOUT (FORMAT arrow)",
    );
    let stream: Vec<u8> =
        copied.iter().filter(|(kind, _)| *kind == b'd').flat_map(|(_, bytes)| bytes.clone()).collect();
    assert!(kinds(&copied).starts_with('H') && kinds(&copied).ends_with("cCZ"), "{}", kinds(&copied));
    let (mut decoder, mut bytes) = (StreamDecoder::new(), Buffer::from(stream.clone()));
    let batches: Vec<RecordBatch> = std::iter::from_fn(|| decoder.decode(&mut bytes).unwrap()).collect();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
    assert!(batches[0].schema().field(1).data_type().is_nested(), "a MAP comes as one");

    // The same bytes are the rows of another table, however they are cut.
    let columns = "a INT NOT NULL, m MAP<STRING, INT>";
    socket
        .write_all(&message(b'Q', format!("COPY TEMPORARY TABLE t ({columns}) FROM STDIN (FORMAT arrow)\0").as_bytes()))
        .unwrap();
    assert_eq!(received(&mut socket).0, b'G');
    for part in stream.chunks(7) {
        socket.write_all(&message(b'd', part)).unwrap();
    }
    socket.write_all(&message(b'c', b"")).unwrap();
    assert_eq!(kinds(&received_until(&mut socket, b'Z')), "CZ");
    let counted = answered(&mut socket, "SELECT CONCAT('sum ', CAST(SUM(a) AS STRING)) AS s FROM t");
    assert!(counted.iter().any(|(kind, bytes)| *kind == b'D' && bytes.ends_with(b"sum 3")), "{counted:?}");

    // What is wrong is said, and the connection goes on behind what the client had still to send.
    socket.write_all(&message(b'Q', b"COPY TEMPORARY TABLE u (a INT) FROM STDIN (FORMAT arrow)\0")).unwrap();
    assert_eq!(received(&mut socket).0, b'G');
    for bytes in [b"no stream of arrow".as_slice(), b"at all"] {
        socket.write_all(&message(b'd', bytes)).unwrap();
    }
    socket.write_all(&message(b'c', b"")).unwrap();
    assert_eq!(kinds(&received_until(&mut socket, b'Z')), "EZ");
    socket.write_all(&message(b'Q', b"COPY TEMPORARY TABLE u (a INT) FROM STDIN (FORMAT arrow)\0")).unwrap();
    assert_eq!(received(&mut socket).0, b'G');
    socket.write_all(&message(b'f', b"changed my mind\0")).unwrap();
    let failed = received_until(&mut socket, b'Z');
    assert!(String::from_utf8_lossy(&failed[0].1).contains("changed my mind"), "{failed:?}");
    assert_eq!(kinds(&answered(&mut socket, "SELECT 1 AS a")), "TDCZ");
}
