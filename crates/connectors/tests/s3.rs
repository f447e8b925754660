//! Tables in buckets of S3. Where there is no server to test with, these tests say so and do nothing.
#![cfg(feature = "s3")]

mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use pelton_connectors::{
    CommittingJob, Host, JobTransaction, LocalDisk, ObjectDirectory, TableRequest, declared, open_sink, open_source,
};
use pelton_runtime::source::{Position, Read, Source};
use support::moto::{Server, server, strict_server};
use support::{options, read, request, restored, rows, schema};

/// A table of a column of numbers at `path`, whose job has checkpoints if it has a name.
fn numbers(server: &Server, path: &str, job: &str, pairs: &[&str]) -> TableRequest {
    table(&server.endpoint(), path, job, pairs)
}

fn table(endpoint: &str, path: &str, job: &str, pairs: &[&str]) -> TableRequest {
    let endpoint = format!("s3.endpoint={endpoint}");
    let keys = ["s3.access-key=key", "s3.secret-key=secret", "s3.region=us-east-1", endpoint.as_str()];
    let committed_by = (!job.is_empty()).then(|| CommittingJob {
        name: job.into(),
        interval: None,
        transaction: JobTransaction::default(),
        disk: Arc::new(LocalDisk),
    });
    let host = Host { committed_by, ..Host::default() };
    TableRequest { host, ..request(schema("n BIGINT"), options(path, &[&keys, pairs].concat())) }
}

fn batch(first: i64, count: i64) -> RecordBatch {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + count));
    RecordBatch::try_new(Arc::new(schema("n BIGINT")), vec![values]).unwrap()
}

/// All rows that are visible, as numbers in order.
fn visible(request: &TableRequest) -> Vec<i64> {
    let mut numbers: Vec<i64> =
        rows(&read(request).unwrap().rows).iter().map(|row| row.split('|').next().unwrap().parse().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

fn refusal(request: &TableRequest) -> String {
    read(request).err().expect("it is refused")
}

#[test]
fn rows_of_all_formats_are_read_as_they_were_written() {
    let Some(server) = server() else { return };
    server.create_bucket("formats");
    for format in ["csv", "json", "parquet", "avro"] {
        let directory = numbers(server, &format!("s3://formats/{format}/out"), "", &[&format!("format={format}")]);
        let mut sink = open_sink(&directory).unwrap();
        sink.write(&batch(0, 1_000)).unwrap();
        sink.write(&batch(1_000, 500)).unwrap();
        sink.flush().unwrap();
        assert_eq!(server.names("formats").iter().filter(|name| name.starts_with(format)).count(), 0);
        sink.finish().unwrap();
        assert_eq!(visible(&directory), (0..1_500).collect::<Vec<_>>(), "{format}");
        // One object, a pattern, and columns that it tells itself.
        for extension in ["", ".gz"].iter().filter(|extension| extension.is_empty() || format == "csv") {
            let path = format!("s3://formats/{format}-files/one.{format}{extension}");
            let one = numbers(server, &path, "", &[]);
            let mut sink = open_sink(&one).unwrap();
            sink.write(&batch(7, 3)).unwrap();
            sink.finish().unwrap();
            assert_eq!(visible(&one), [7, 8, 9], "{path}");
            let error = open_sink(&one).err().unwrap().to_string();
            assert!(error.starts_with(&format!("{path}: is there already, and an object cannot grow")), "{error}");
        }
        let pattern =
            numbers(server, &format!("s3://formats/*-files/o?e.{format}"), "", &[&format!("format={format}")]);
        assert_eq!(visible(&pattern), [7, 8, 9]);
        let mut inferred = pattern.options.clone();
        inferred.insert("path".into(), format!("s3://formats/{format}-files/one.{format}"));
        assert_eq!(declared(&inferred).unwrap().unwrap().schema.fields().len(), 1, "{format}");
    }
    let matched =
        numbers(server, "s3://formats/", "", &["format=csv", "source.path.regex-pattern=s3://formats/csv/.*"]);
    assert_eq!(visible(&matched).len(), 1_500);
}

#[test]
fn large_objects_are_sent_and_read_in_parts() {
    let Some(server) = server() else { return };
    server.create_bucket("large");
    for format in ["csv", "parquet", "avro"] {
        let options = [format!("format={format}"), "sink.rolling-policy.file-size=1 gb".to_owned()];
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let table = numbers(server, &format!("s3://large/{format}"), "", &options);
        let mut sink = open_sink(&table).unwrap();
        for first in (0..2_400_000).step_by(100_000) {
            sink.write(&batch(first, 100_000)).unwrap();
        }
        sink.finish().unwrap();
        let names = server.names("large");
        assert_eq!(names.iter().filter(|name| name.starts_with(format)).count(), 1, "{names:?}");
        assert_eq!(visible(&table), (0..2_400_000).collect::<Vec<_>>(), "{format}");
        // Goes on where another reader was.
        let mut source = open_source(&table).unwrap();
        let first = next(&mut *source).unwrap();
        let position = source.position(0).unwrap();
        let mut source = open_source(&table).unwrap();
        source.seek(0, position);
        assert_eq!(next(&mut *source).unwrap()[0], first.len() as i64, "{format}");
    }
    assert_eq!(server.uploads("large"), 0);
}

/// The numbers of the next chunk; `None` at the end.
fn next(source: &mut dyn Source) -> Option<Vec<i64>> {
    match source.read(0).unwrap() {
        Read::Chunk(chunk) => {
            let batches = chunk().unwrap().rows.into_batches();
            let numbers =
                |batch: &RecordBatch| batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec();
            Some(batches.iter().flat_map(numbers).collect())
        }
        Read::Wait(_) => Some(Vec::new()),
        Read::End => None,
    }
}

#[test]
fn a_job_that_goes_on_from_a_checkpoint_has_its_rows_once() {
    let Some(server) = server() else { return };
    server.create_bucket("once");
    for format in ["csv", "parquet", "avro"] {
        let options = [format!("format={format}"), "sink.rolling-policy.file-size=2 kb".to_owned()];
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let table = numbers(server, &format!("s3://once/{format}/"), "it", &options);
        let has_objects = || server.names("once").iter().any(|name| name.starts_with(format));
        let mut sink = open_sink(&table).unwrap();
        sink.write(&batch(0, 1_000)).unwrap();
        let first = sink.prepare().unwrap().unwrap();
        assert!(first.starts_with("uploaded ") && !has_objects(), "{first}");
        sink.write(&batch(1_000, 10)).unwrap();
        sink.commit(&first).unwrap();
        assert_eq!(visible(&table), (0..1_000).collect::<Vec<_>>());
        let second = sink.prepare().unwrap().unwrap();
        sink.write(&batch(1_010, 1_000)).unwrap();
        // Killed behind the second checkpoint, before it was committed: what was open stays as it is.
        std::mem::forget(sink);
        for _ in 0..2 {
            drop(restored(&table, Some(&second)));
            assert_eq!(visible(&table), (0..1_010).collect::<Vec<_>>());
        }
        let mut sink = restored(&table, Some(&second));
        sink.write(&batch(1_010, 5)).unwrap();
        let last = sink.prepare_end().unwrap().unwrap();
        sink.commit(&last).unwrap();
        sink.finish().unwrap();
        assert_eq!(visible(&table), (0..1_015).collect::<Vec<_>>(), "{format}");
        // What was never prepared stays unseen.
        assert!(server.uploads("once") > 0);
    }
}

#[test]
fn a_delta_table_in_a_bucket_has_each_checkpoint_once() {
    let Some(server) = server() else { return };
    server.create_bucket("delta");
    let mut table = numbers(server, "s3://delta/t", "job", &[]);
    table.options.remove("path");
    table.options.insert("connector".into(), "delta".into());
    table.options.insert("table-path".into(), "s3://delta/t".into());
    let count = |ending: &str| server.names("delta").iter().filter(|name| name.ends_with(ending)).count();
    let mut sink = open_sink(&table).unwrap();
    sink.write(&batch(0, 10)).unwrap();
    let first = sink.prepare().unwrap().unwrap();
    assert_eq!((count(".parquet"), count(".json")), (0, 0));
    sink.commit(&first).unwrap();
    sink.write(&batch(10, 10)).unwrap();
    let second = sink.prepare().unwrap().unwrap();
    std::mem::forget(sink);
    for _ in 0..2 {
        drop(restored(&table, Some(&second)));
        assert_eq!((count(".parquet"), count(".json")), (2, 2), "{:?}", server.names("delta"));
    }
    // Another run begins a table of its own accord, and takes the next number.
    let mut sink = open_sink(&table).unwrap();
    sink.write(&batch(20, 1)).unwrap();
    let last = sink.prepare_end().unwrap().unwrap();
    sink.commit(&last).unwrap();
    assert_eq!((count(".parquet"), count("00000002.json")), (3, 1));
}

/// A server that has no uploads, and any object or none. Returns its endpoint.
fn without_uploads(has_objects: bool) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
            stream.read_line(&mut first).unwrap();
            while line != "\r\n" {
                line.clear();
                stream.read_line(&mut line).unwrap();
                let value = line.to_ascii_lowercase().strip_prefix("content-length:").map(|value| value.trim().parse());
                length = value.transpose().unwrap().unwrap_or(length);
            }
            std::io::Read::read_exact(&mut stream, &mut vec![0; length]).unwrap();
            let body = "<Error><Code>NoSuchUpload</Code></Error>";
            let head = "Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\nETag: \"tag\"\r\nConnection: close";
            let answer = match first.starts_with("HEAD") {
                true if has_objects => format!("HTTP/1.1 200 OK\r\n{head}\r\nContent-Length: 2\r\n\r\n"),
                true => format!("HTTP/1.1 404 Not Found\r\n{head}\r\nContent-Length: 0\r\n\r\n"),
                false => format!("HTTP/1.1 404 Not Found\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()),
            };
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
        }
    });
    format!("http://127.0.0.1:{port}")
}

#[test]
fn an_upload_that_is_gone_was_completed_where_its_object_is_there() {
    let commit = |has_objects: bool| {
        let table = table(&without_uploads(has_objects), "s3://once/t/", "it", &["format=csv"]);
        open_sink(&table).unwrap().commit("uploaded gone,\"tag\" part-it-0.csv")
    };
    assert_eq!(commit(true), Ok(()));
    let error = commit(false).unwrap_err().to_string();
    let expected = "s3://once/t/: the part part-it-0.csv of a checkpoint: its upload is not there any more, and was never completed";
    assert_eq!(error, expected);
}

#[test]
fn an_insert_that_fails_leaves_nothing() {
    let Some(server) = server() else { return };
    server.create_bucket("failed");
    let mut sink = open_sink(&numbers(server, "s3://failed/out", "", &["format=csv"])).unwrap();
    sink.write(&batch(0, 10)).unwrap();
    assert_eq!(server.uploads("failed"), 1);
    drop(sink);
    let began = Instant::now();
    while server.uploads("failed") > 0 {
        assert!(began.elapsed() < Duration::from_secs(30), "the upload stays");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(server.names("failed").is_empty());
}

#[test]
fn rows_are_partitioned_by_columns() {
    let Some(server) = server() else { return };
    server.create_bucket("partitions");
    let pairs = ["format=json", "sink.partition-commit.policy.kind=success-file"];
    let table = numbers(server, "s3://partitions/t", "it", &pairs);
    let columns = schema("n BIGINT, name STRING");
    let table = TableRequest { columns: vec![0, 1], schema: Arc::new(columns), partition_keys: vec![1], ..table };
    let rows_of = |values: &[(i64, Option<&str>)]| {
        let numbers: ArrayRef = Arc::new(values.iter().map(|(number, _)| *number).collect::<Int64Array>());
        let names: ArrayRef = Arc::new(values.iter().map(|(_, name)| *name).collect::<StringViewArray>());
        RecordBatch::try_new(table.schema.clone(), vec![numbers, names]).unwrap()
    };
    let mut sink = open_sink(&table).unwrap();
    sink.write(&rows_of(&[(1, Some("a/b")), (2, None), (3, Some("a/b"))])).unwrap();
    sink.advance(i64::MAX);
    let prepared = sink.prepare_end().unwrap().unwrap();
    assert!(server.names("partitions").is_empty());
    sink.commit(&prepared).unwrap();
    sink.finish().unwrap();
    let names = server.names("partitions");
    assert_eq!(names.iter().filter(|name| name.ends_with("/_SUCCESS")).count(), 2, "{names:?}");
    assert!(names.iter().any(|name| name.starts_with("t/name=a%2Fb/part-it-")), "{names:?}");
    let mut found = rows(&read(&table).unwrap().rows);
    found.sort();
    assert_eq!(found, ["1|a/b", "2|NULL", "3|a/b"]);
}

#[test]
fn new_objects_of_a_watched_directory_are_read_once() {
    let Some(server) = server() else { return };
    server.create_bucket("watched");
    let table = numbers(server, "s3://watched/in", "", &["format=csv", "source.monitor-interval=10 ms"]);
    let mut source = open_source(&table).unwrap();
    let more = |source: &mut dyn Source, count: usize| {
        let (began, mut found) = (Instant::now(), Vec::new());
        while found.len() < count {
            assert!(began.elapsed() < Duration::from_secs(30), "{found:?}");
            found.extend(next(source).expect("it does not end"));
        }
        found
    };
    assert_eq!(next(&mut *source), Some(Vec::new()), "there is nothing yet");
    server.put("watched/in/1.csv", b"1\n2\n");
    server.put("watched/in/.hidden.csv", b"100\n");
    server.put("watched/in/_x/1.csv", b"101\n");
    assert_eq!(more(&mut *source, 2), [1, 2]);
    server.put("watched/in/deeper/0.csv", b"3\n");
    assert_eq!(more(&mut *source, 1), [3]);
    assert_eq!(next(&mut *source), Some(Vec::new()));
    // Another source goes on where it is.
    let completed = source.completed();
    assert_eq!(completed.len(), 2, "{completed:?}");
    let mut source = open_source(&table).unwrap();
    assert!(completed.iter().all(|place| source.resume(place, None)));
    server.put("watched/in/2.csv", b"4\n5\n");
    let position = Position { row: 2, byte: 2, end: None };
    assert!(source.resume("s3://watched/in/2.csv", Some(position)));
    assert!(!source.resume("s3://watched/in/gone.csv", Some(position)));
    assert_eq!(more(&mut *source, 1), [5]);
}

#[test]
fn an_object_that_is_overwritten_is_not_read_as_a_mixture() {
    let Some(server) = server() else { return };
    server.create_bucket("changing");
    let text = |first: i64| (first..first + 3_000_000).map(|number| format!("{number}\n")).collect::<String>();
    server.put("changing/t.csv", text(1_000_000).as_bytes());
    let table = numbers(server, "s3://changing/t.csv", "", &[]);
    let mut source = open_source(&table).unwrap();
    assert_eq!(next(&mut *source).unwrap()[0], 1_000_000);
    server.put("changing/t.csv", text(5_000_000).as_bytes());
    let error = loop {
        match source.read(0) {
            Ok(Read::Chunk(chunk)) => {
                let batches = chunk().unwrap().rows.into_batches();
                let column = batches[0].column(0).as_any().downcast_ref::<Int64Array>().unwrap();
                assert!(column.values().iter().all(|number| *number < 5_000_000));
            }
            Ok(_) => panic!("it was read to its end"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("s3://changing/t.csv"), "{error}");
    assert!(error.ends_with("the object was overwritten while it was read"), "{error}");
}

#[test]
fn what_is_not_there_is_named() {
    let Some(server) = server() else { return };
    server.create_bucket("there");
    server.put("there/a/t.csv", b"1\n");
    let csv = |path: &str| numbers(server, path, "", &["format=csv"]);
    for path in ["s3://missing/t.csv", "s3://missing/", "s3://missing/*.csv"] {
        assert_eq!(refusal(&csv(path)), format!("{path}: there is no bucket 'missing'"));
        let watched = numbers(server, path, "", &["format=csv", "source.monitor-interval=1 s"]);
        assert_eq!(refusal(&watched), format!("{path}: there is no bucket 'missing'"));
    }
    assert_eq!(refusal(&csv("s3://there/b")), "s3://there/b: no object has this name, or is below it");
    assert_eq!(refusal(&csv("s3://there/*.csv")), "s3://there/*.csv: no file matches");
    let error = open_sink(&csv("s3://missing/out")).err().unwrap().to_string();
    assert_eq!(error, "s3://missing/out: there is no bucket 'missing'");
    let path = |path: &str| open_sink(&csv(path)).err().unwrap().to_string();
    assert_eq!(path("s3:///a"), "option 'path' must have the name of a bucket, as in s3://bucket/path, not 's3:///a'");
    let mut incomplete = csv("s3://there/a");
    incomplete.options.remove("s3.secret-key");
    assert_eq!(refusal(&incomplete), "option 's3.access-key' needs 's3.secret-key' beside it");
    let job = open_sink(&numbers(server, "s3://there/one.csv", "it", &[])).err().unwrap().to_string();
    assert!(job.starts_with("s3://there/one.csv: is one object, which is visible at its end"), "{job}");
}

#[test]
fn values_of_a_directory_are_kept_by_their_names() {
    let Some(server) = server() else { return };
    server.create_bucket("values");
    for path in ["s3://values/a/b/", "s3://values"] {
        let options = numbers(server, path, "", &[]).options;
        let above = ObjectDirectory::of(path, &options).unwrap().unwrap();
        let directory = above.below("job");
        assert_eq!(directory.place(), format!("{}/job", path.trim_end_matches('/')));
        assert_eq!(directory.list().unwrap(), [""; 0]);
        assert_eq!(directory.get("1").unwrap_err().kind(), std::io::ErrorKind::NotFound);
        let large: Vec<u8> = (0..12_000_000).map(|byte| (byte % 251) as u8).collect();
        directory.put("1", b"one").unwrap();
        directory.put("2", &large).unwrap();
        directory.below("deeper").put("3", b"three").unwrap();
        assert_eq!(directory.list().unwrap(), ["1", "2"]);
        assert_eq!(directory.get("1").unwrap(), b"one");
        assert!(directory.get("2").unwrap() == large);
        directory.put("1", b"another").unwrap();
        assert_eq!(directory.get("1").unwrap(), b"another");
        directory.remove("1").unwrap();
        directory.remove("1").unwrap();
        assert_eq!(directory.list().unwrap(), ["2"]);
    }
    assert!(ObjectDirectory::of("/tmp/checkpoints", &Default::default()).unwrap().is_none());
}

#[test]
fn keys_that_nobody_knows_are_refused() {
    let Some(server) = strict_server() else { return };
    let table = numbers(&server, "s3://there/t", "", &["format=csv"]);
    let problem = "s3://there/t: access to the bucket 'there' is denied";
    let advice = "check 's3.access-key' and 's3.secret-key', and what these may do";
    for error in [refusal(&table), open_sink(&table).err().unwrap().to_string()] {
        assert!(error.starts_with(problem) && error.ends_with(advice), "{error}");
    }
}
