//! Directories that are written: when files begin and end, and what of them is visible.

mod support;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use pelton_connectors::{Host, TableRequest, open_sink};
use pelton_runtime::sink::Sink;
use support::{Directory, options, read, request, rows, schema};

/// A table of a column of numbers in a directory, whose job has checkpoints if it has a name.
fn numbers(directory: &Directory, job: &str, pairs: &[&str]) -> TableRequest {
    let path = directory.path().join("out");
    let committed_by = (!job.is_empty()).then(|| job.into());
    let host = Host { committed_by, ..Host::default() };
    TableRequest { host, ..request(schema("n BIGINT"), options(path.to_str().unwrap(), pairs)) }
}

fn batch(first: i64, count: i64) -> RecordBatch {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + count));
    RecordBatch::try_new(Arc::new(schema("n BIGINT")), vec![values]).unwrap()
}

/// The visible files of a directory, with their bytes, and how many are hidden.
fn files(directory: &Directory) -> (Vec<(String, u64)>, usize) {
    let mut names = Vec::new();
    collect(&directory.path().join("out"), "", &mut names);
    names.sort();
    let hidden = names.iter().filter(|(name, _)| name.contains("/.") || name.starts_with('.')).count();
    names.retain(|(name, _)| !name.contains("/.") && !name.starts_with('.'));
    (names, hidden)
}

fn collect(directory: &Path, above: &str, names: &mut Vec<(String, u64)>) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{above}{}", entry.file_name().to_string_lossy());
        match entry.metadata().unwrap() {
            metadata if metadata.is_dir() => collect(&entry.path(), &format!("{name}/"), names),
            metadata => names.push((name, metadata.len())),
        }
    }
}

fn names(directory: &Directory) -> Vec<String> {
    files(directory).0.into_iter().map(|(name, _)| name).collect()
}

fn content(directory: &Directory, name: &str) -> String {
    fs::read_to_string(directory.path().join("out").join(name)).unwrap()
}

/// All rows that are visible, as numbers in order.
fn visible(request: &TableRequest) -> Vec<i64> {
    let mut numbers: Vec<i64> =
        rows(&read(request).unwrap().rows).iter().map(|row| row.split('|').next().unwrap().parse().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn a_file_ends_when_it_is_large_enough() {
    for format in ["csv", "json", "parquet"] {
        let directory = Directory::new();
        let table = numbers(&directory, "", &[&format!("format={format}"), "sink.rolling-policy.file-size=8 kb"]);
        let mut sink = open_sink(&table).unwrap();
        for part in 0..40 {
            sink.write(&batch(part * 1_000, 1_000)).unwrap();
        }
        let (before_the_end, hidden) = files(&directory);
        assert!(before_the_end.len() >= 5, "{format}: {before_the_end:?}");
        assert!(format == "parquet" || before_the_end.iter().all(|(_, bytes)| *bytes >= 8 << 10), "{before_the_end:?}");
        assert!(hidden <= 1);
        sink.finish().unwrap();
        assert_eq!(files(&directory).1, 0);
        assert_eq!(visible(&table), (0..40_000).collect::<Vec<_>>(), "{format}");
    }
}

#[test]
fn a_file_ends_when_it_is_old_also_where_no_rows_come() {
    let directory = Directory::new();
    let policy =
        ["format=csv", "sink.rolling-policy.rollover-interval=20 ms", "sink.rolling-policy.check-interval=5 ms"];
    let mut sink = open_sink(&numbers(&directory, "", &policy)).unwrap();
    sink.write(&batch(0, 2)).unwrap();
    assert!(names(&directory).is_empty());
    let (began, mut flushed) = (Instant::now(), 0);
    while let Some(wait) = sink.flush_again() {
        assert!(wait <= Duration::from_millis(5));
        std::thread::sleep(wait);
        sink.flush().unwrap();
        flushed += 1;
        assert!(flushed < 1_000, "it does not end");
    }
    assert!(flushed > 0 && began.elapsed() >= Duration::from_millis(20));
    assert_eq!((names(&directory), content(&directory, "part-0.csv")), (vec!["part-0.csv".into()], "0\n1\n".into()));
    sink.write(&batch(2, 1)).unwrap();
    sink.finish().unwrap();
    assert_eq!(content(&directory, "part-1.csv"), "2\n");
}

/// What is left of a job that is killed, and goes on from what a checkpoint says.
fn restored(table: &TableRequest, prepared: Option<&str>) -> Box<dyn Sink> {
    let mut sink = open_sink(table).unwrap();
    prepared.iter().for_each(|prepared| sink.commit(prepared).unwrap());
    sink.recover().unwrap();
    sink
}

#[test]
fn a_file_of_lines_goes_on_behind_checkpoints_and_after_a_failure() {
    let directory = Directory::new();
    let policy = ["format=csv", "csv.header=true", "sink.rolling-policy.file-size=100 b"];
    let table = numbers(&directory, "it", &policy);
    let mut sink = open_sink(&table).unwrap();
    sink.write(&batch(0, 10)).unwrap();
    let first = sink.prepare().unwrap();
    assert_eq!(first.as_deref(), Some("open 22 part-it-0.csv"));
    sink.commit(first.as_deref().unwrap()).unwrap();
    assert_eq!(files(&directory), (vec![], 1), "it is not complete");
    sink.write(&batch(10, 10)).unwrap();
    drop(sink);
    // Rows behind the checkpoint are written again.
    let mut sink = restored(&table, first.as_deref());
    sink.write(&batch(10, 10)).unwrap();
    sink.write(&batch(20, 30)).unwrap();
    sink.write(&batch(50, 5)).unwrap();
    let second = sink.prepare().unwrap();
    assert_eq!(second.as_deref(), Some("complete part-it-0.csv\nopen 17 part-it-1.csv"));
    sink.write(&batch(55, 50)).unwrap();
    drop(sink);
    // What was prepared is committed, however often.
    for _ in 0..2 {
        drop(restored(&table, second.as_deref()));
        assert_eq!(files(&directory), (vec![("part-it-0.csv".into(), 142)], 1));
    }
    let mut sink = restored(&table, second.as_deref());
    let last = sink.prepare_end().unwrap();
    assert_eq!(last.as_deref(), Some("complete part-it-1.csv"));
    sink.commit(last.as_deref().unwrap()).unwrap();
    sink.finish().unwrap();
    assert_eq!(files(&directory).1, 0);
    assert_eq!(visible(&table), (0..55).collect::<Vec<_>>());
    assert_eq!(content(&directory, "part-it-1.csv"), "n\n50\n51\n52\n53\n54\n");
}

#[test]
fn a_parquet_file_ends_with_each_checkpoint() {
    let directory = Directory::new();
    let table = numbers(&directory, "it", &["format=parquet", "sink.rolling-policy.rollover-interval=1 h"]);
    let mut sink = open_sink(&table).unwrap();
    for checkpoint in 0..3 {
        sink.write(&batch(checkpoint * 10, 10)).unwrap();
        let prepared = sink.prepare().unwrap();
        assert_eq!(prepared, Some(format!("complete part-it-{checkpoint}.parquet")));
        sink.commit(&prepared.unwrap()).unwrap();
        assert_eq!(visible(&table), (0..(checkpoint + 1) * 10).collect::<Vec<_>>());
    }
    sink.write(&batch(30, 10)).unwrap();
    let error = sink.finish().unwrap_err().to_string();
    assert!(error.ends_with("/out: rows were written behind the last checkpoint"), "{error}");
}

#[test]
fn what_a_policy_does_not_hold_for_is_refused() {
    let directory = Directory::new();
    let refusal = |path: &str, pairs: &[&str]| {
        let path = directory.path().join(path);
        open_sink(&request(schema("n BIGINT"), options(path.to_str().unwrap(), pairs))).err().unwrap().to_string()
    };
    assert_eq!(
        refusal("one.csv", &["sink.rolling-policy.file-size=1 mb"]),
        "option 'sink.rolling-policy.file-size' is for directories, and the path has the name of a file; name a directory, or leave it out"
    );
    assert_eq!(
        refusal("out", &["format=csv", "sink.rolling-policy.file-size=0"]),
        "option 'sink.rolling-policy.file-size' must be more than 0"
    );
    assert_eq!(
        refusal("out", &["format=csv", "sink.rolling-policy.check-interval=0"]),
        "option 'sink.rolling-policy.check-interval' must be more than 0"
    );
    assert_eq!(
        refusal("out", &["format=csv", "sink.rolling-policy.rollover-interval=soon"]),
        "option 'sink.rolling-policy.rollover-interval' must be a duration such as '500 ms', '10 s', '1 min', '2 h' or '1 d', not 'soon'"
    );
}
