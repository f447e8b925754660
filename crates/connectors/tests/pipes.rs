//! Files whose bytes come when somebody writes them.
#![cfg(unix)]

mod support;

use std::fs::OpenOptions;
use std::io::Write;
use std::process::Command;
use std::time::Duration;

use pelton_connectors::{declared, open_source};
use pelton_runtime::source::{Read, Source};
use support::*;

fn pipe(directory: &Directory) -> String {
    let path = directory.path().join("pipe").to_str().unwrap().to_string();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

/// The next rows, however long they are in coming; `None` at the end.
fn next(source: &mut dyn Source) -> Option<Vec<String>> {
    loop {
        match source.read(0).unwrap() {
            Read::Chunk(chunk) => {
                let batches = chunk().unwrap().rows.into_batches();
                return Some(batches.iter().flat_map(rows).collect());
            }
            Read::Wait(wait) => std::thread::sleep(wait),
            Read::End => return None,
        }
    }
}

#[test]
fn rows_of_a_pipe_are_there_as_soon_as_they_are_written() {
    let directory = Directory::new();
    let path = pipe(&directory);
    let mut source =
        open_source(&request(schema("a BIGINT, b STRING"), options(&path, &["format=csv", "csv.header=true"])))
            .unwrap();
    // Nobody has opened it for writing, and nobody waits for that.
    assert!(matches!(source.read(0).unwrap(), Read::Wait(_)));
    let mut writer = OpenOptions::new().write(true).open(&path).unwrap();
    let mut write = |text: &str| writer.write_all(text.as_bytes()).unwrap();
    write("a,");
    std::thread::sleep(Duration::from_millis(20));
    assert!(matches!(source.read(0).unwrap(), Read::Wait(_)));
    write("b\n1,one\n2,\"tw");
    assert_eq!(next(source.as_mut()).unwrap(), ["1|one"]);
    assert!(matches!(source.read(0).unwrap(), Read::Wait(_)));
    write("o\n\"\n");
    assert_eq!(next(source.as_mut()).unwrap(), ["2|two\n"]);
    write("3,three");
    drop(writer);
    assert_eq!(next(source.as_mut()).unwrap(), ["3|three"]);
    assert_eq!(next(source.as_mut()), None);
}

#[test]
fn a_header_of_a_pipe_may_come_in_pieces() {
    let directory = Directory::new();
    let path = pipe(&directory);
    let csv = ["format=csv", "csv.header=true", "csv.allow-comments=true"];
    let mut source = open_source(&request(schema("a BIGINT, b STRING"), options(&path, &csv))).unwrap();
    assert!(matches!(source.read(0).unwrap(), Read::Wait(_)));
    let mut writer = OpenOptions::new().write(true).open(&path).unwrap();
    let mut write = |text: &str| writer.write_all(text.as_bytes()).unwrap();
    // A line end in quotes, or behind a comment, ends no header.
    for text in ["# comment\n", "\n", "b,\"\n", "a\"", "\n"] {
        write(text);
        std::thread::sleep(Duration::from_millis(20));
        assert!(matches!(source.read(0).unwrap(), Read::Wait(_)), "{text:?}");
    }
    write("one,1\n");
    assert_eq!(next(source.as_mut()).unwrap(), ["1|one"]);
    drop(writer);
    assert_eq!(next(source.as_mut()), None);
}

#[test]
fn objects_of_a_pipe_may_go_over_several_lines() {
    let directory = Directory::new();
    let path = pipe(&directory);
    let request = request(schema("a BIGINT, b STRING"), options(&path, &["format=json"]));
    let mut source = open_source(&request).unwrap();
    assert!(matches!(source.read(0).unwrap(), Read::Wait(_)));
    let mut writer = OpenOptions::new().write(true).open(&path).unwrap();
    let mut write = |text: &str| writer.write_all(text.as_bytes()).unwrap();
    for text in ["\n", "{\n", "  \n"] {
        write(text);
        std::thread::sleep(Duration::from_millis(20));
        assert!(matches!(source.read(0).unwrap(), Read::Wait(_)), "after {text:?}");
    }
    write("  \"a\": 1,\n  \"b\": \"one\"\n}\n");
    assert_eq!(next(source.as_mut()).unwrap(), ["1|one"]);
    write("{ \"a\":\n2}");
    drop(writer);
    assert_eq!(next(source.as_mut()).unwrap(), ["2|NULL"]);
    assert_eq!(next(source.as_mut()), None);
}

#[test]
fn the_columns_of_a_pipe_must_be_declared() {
    let directory = Directory::new();
    let path = pipe(&directory);
    let error = declared(&options(&path, &["format=csv"])).unwrap_err().to_string();
    assert_eq!(error.replace(&path, "PIPE"), "PIPE: is read once: name its columns and their types");
}
