//! Files that others change while they are read.

mod support;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use pelton_connectors::{open_sink, open_source};
use pelton_runtime::source::{Read, Source};
use support::{Directory, options, request, schema};

/// Rows of a file: several chunks of text, and several parts of a Parquet file.
const ROWS: usize = 120_000;

/// A file of rows "row N", in the format that its name says, written a minute ago.
fn write(path: &Path, first: usize, rows: usize) {
    let columns: ArrayRef =
        Arc::new(StringViewArray::from_iter_values((first..first + rows).map(|row| format!("row {row:07}"))));
    let batch = RecordBatch::try_new(Arc::new(schema("a STRING")), vec![columns]).unwrap();
    // A sink appends to a file that is there.
    drop(std::fs::remove_file(path));
    let mut sink = open_sink(&request(schema("a STRING"), options(path.to_str().unwrap(), &[]))).unwrap();
    sink.write(&batch).unwrap();
    sink.finish().unwrap();
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
}

/// How many rows are read, and why there are no more, where `change` happens behind the first chunk.
fn read(path: &Path, change: impl FnOnce()) -> (usize, Option<String>) {
    let mut source: Box<dyn Source> =
        open_source(&request(schema("a STRING"), options(path.to_str().unwrap(), &[]))).unwrap();
    let (mut rows, mut change) = (0, Some(change));
    loop {
        let decoded = match source.read(0) {
            Ok(Read::Chunk(chunk)) => chunk(),
            Ok(Read::End) => return (rows, None),
            Ok(Read::Wait(_)) => panic!("files do not wait"),
            Err(error) => Err(error),
        };
        match decoded {
            Ok(decoded) => rows += decoded.rows.into_batches().iter().map(RecordBatch::num_rows).sum::<usize>(),
            Err(error) => return (rows, Some(error.to_string().replace(path.to_str().unwrap(), "FILE"))),
        }
        change.take().into_iter().for_each(|change| change());
    }
}

fn bytes(path: &Path) -> u64 {
    path.metadata().unwrap().len()
}

const FORMATS: [&str; 5] = ["t.csv", "t.json", "t.csv.gz", "t.json.zst", "t.parquet"];

#[test]
fn a_file_that_is_cut_off_or_overwritten_ends_with_an_error() {
    let directory = Directory::new();
    for name in FORMATS {
        let path = directory.path().join(name);
        write(&path, 0, ROWS);
        let from = bytes(&path);
        let (rows, error) = read(&path, || File::options().write(true).open(&path).unwrap().set_len(from / 2).unwrap());
        assert!((1..ROWS).contains(&rows), "{name}: {rows}");
        let problem = format!("the file was cut off while it was read: it had {from} bytes and has {}", from / 2);
        assert_eq!(error, Some(format!("FILE: the rows from {} on are not there: {problem}", rows + 1)), "{name}");

        // Emptied first, as those who write a file anew do.
        write(&path, 0, ROWS);
        let (rows, error) = read(&path, || drop(File::create(&path).unwrap()));
        let problem = format!("the file was cut off while it was read: it had {from} bytes and has 0");
        assert_eq!(error, Some(format!("FILE: the rows from {} on are not there: {problem}", rows + 1)), "{name}");

        // Other rows of the same length, and more of them.
        for more in [0, ROWS] {
            write(&path, 0, ROWS);
            let other = directory.path().join(format!("other.{name}"));
            write(&other, 1_000_000, ROWS + more);
            let (rows, error) = read(&path, || {
                let content = std::fs::read(&other).unwrap();
                OpenOptions::new().write(true).open(&path).unwrap().write_all(&content).unwrap();
            });
            let problem = "the file was overwritten while it was read";
            let expected = format!("FILE: the rows from {} on are not there: {problem}", rows + 1);
            assert_eq!(error, Some(expected), "{name}, {more} more");
        }
    }
}

#[test]
fn a_file_that_is_removed_or_replaced_is_read_to_its_end() {
    let directory = Directory::new();
    for name in FORMATS {
        let path = directory.path().join(name);
        write(&path, 0, ROWS);
        assert_eq!(read(&path, || std::fs::remove_file(&path).unwrap()), (ROWS, None), "{name}");
        write(&path, 0, ROWS);
        let other = directory.path().join(format!("other.{name}"));
        write(&other, 0, 1);
        assert_eq!(read(&path, || std::fs::rename(&other, &path).unwrap()), (ROWS, None), "{name}");
    }
}

#[test]
fn rows_that_are_appended_are_read_and_half_rows_are_not() {
    let directory = Directory::new();
    for (name, row, half) in [("t.csv", "row\n", "ro"), ("t.json", "{\"a\":\"row\"}\n", "{\"a\":")] {
        let path = directory.path().join(name);
        let append =
            |text: &str| OpenOptions::new().append(true).open(&path).unwrap().write_all(text.as_bytes()).unwrap();
        write(&path, 0, ROWS);
        assert_eq!(read(&path, || append(row)), (ROWS + 1, None), "{name}");
        write(&path, 0, ROWS);
        let (_, error) = read(&path, || append(half));
        let problem = "has no line end, and the file was appended to while it was read: it may be half a row; \
                       read the file when it is complete";
        assert_eq!(error, Some(format!("FILE: the row at line {} {problem}", ROWS + 1)), "{name}");
        // Without a line end at the end, and nobody writing, it is a row.
        write(&path, 0, ROWS);
        append(row.trim_end());
        assert_eq!(read(&path, || ()), (ROWS + 1, None), "{name}");
    }
    let path = directory.path().join("t.parquet");
    write(&path, 0, ROWS);
    let (rows, error) =
        read(&path, || OpenOptions::new().append(true).open(&path).unwrap().write_all(b"more").unwrap());
    let problem = "the file was appended to while it was read";
    assert_eq!(error, Some(format!("FILE: the rows from {} on are not there: {problem}", rows + 1)));
}
