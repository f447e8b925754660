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
