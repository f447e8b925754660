//! Directories that are written: when files begin and end, and what of them is visible.

mod support;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Date32Array, Int64Array, RecordBatch, StringViewArray};
use pelton_connectors::{CommittingJob, Host, JobTransaction, LocalDisk, TableRequest, open_sink};
use support::{Directory, options, read, request, restored, rows, schema};

/// A table of a column of numbers in a directory, whose job has checkpoints if it has a name.
fn numbers(directory: &Directory, job: &str, pairs: &[&str]) -> TableRequest {
    let path = directory.path().join("out");
    let committed_by = (!job.is_empty()).then(|| CommittingJob {
        name: job.into(),
        interval: None,
        transaction: JobTransaction::default(),
        disk: Arc::new(LocalDisk),
    });
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
    let (began, mut flushed) = (Instant::now(), 0);
    sink.write(&batch(0, 2)).unwrap();
    assert!(names(&directory).is_empty());
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
fn a_complete_file_does_not_get_rows_that_a_later_run_has_not_committed() {
    let directory = Directory::new();
    let path = directory.path().join("out.csv");
    let table =
        TableRequest { options: options(path.to_str().unwrap(), &["format=csv"]), ..numbers(&directory, "it", &[]) };
    let content = || fs::read_to_string(&path).unwrap();
    let mut first = open_sink(&table).unwrap();
    first.write(&batch(0, 2)).unwrap();
    let complete = first.prepare_end().unwrap().unwrap();
    first.commit(&complete).unwrap();
    drop(first);
    // Each run goes on behind its rows. One of them dies.
    let go_on = || {
        let mut sink = open_sink(&table).unwrap();
        sink.commit(&complete).unwrap();
        sink.recover().unwrap();
        assert_eq!(content(), "0\n1\n");
        sink.write(&batch(2, 1)).unwrap();
        sink
    };
    go_on().prepare().unwrap();
    let mut last = go_on();
    let complete = last.prepare_end().unwrap().unwrap();
    last.commit(&complete).unwrap();
    last.finish().unwrap();
    assert_eq!(content(), "0\n1\n2\n");
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

/// A table of numbers, partitioned by a name and a day.
fn partitioned(directory: &Directory, job: &str, pairs: &[&str]) -> TableRequest {
    let table = numbers(directory, job, pairs);
    TableRequest {
        schema: Arc::new(schema("n BIGINT, dt DATE, name STRING")),
        columns: vec![0, 1, 2],
        partition_keys: vec![1, 2],
        ..table
    }
}

fn days(rows: &[(i64, Option<i32>, Option<&str>)]) -> RecordBatch {
    let columns: [ArrayRef; 3] = [
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0))),
        Arc::new(Date32Array::from_iter(rows.iter().map(|row| row.1))),
        Arc::new(StringViewArray::from_iter(rows.iter().map(|row| row.2))),
    ];
    RecordBatch::try_new(Arc::new(schema("n BIGINT, dt DATE, name STRING")), columns.into()).unwrap()
}

const ROWS: [(i64, Option<i32>, Option<&str>); 6] = [
    (1, Some(0), Some("a")),
    (2, Some(1), Some("a/b=c")),
    (3, Some(0), Some("a")),
    (4, None, Some("a")),
    (5, Some(1), None),
    (6, Some(1), Some("")),
];

#[test]
fn rows_of_a_partition_are_in_its_directory() {
    for format in ["csv", "json", "parquet"] {
        let directory = Directory::new();
        let table = partitioned(&directory, "", &[&format!("format={format}"), "partition.default-name=NONE"]);
        let mut sink = open_sink(&table).unwrap();
        sink.write(&days(&ROWS)).unwrap();
        assert!(names(&directory).is_empty());
        sink.finish().unwrap();
        let parts =
            ["dt=1970-01-01/name=a", "dt=1970-01-02/name=NONE", "dt=1970-01-02/name=a%2Fb%3Dc", "dt=NONE/name=a"];
        let found: Vec<String> =
            names(&directory).iter().map(|name| name.rsplit_once('/').unwrap().0.to_owned()).collect();
        assert_eq!(found, parts);
        let mut back = rows(&read(&table).unwrap().rows);
        back.sort();
        // An empty string has the same directory as NULL.
        let expected = [
            "1|1970-01-01|a",
            "2|1970-01-02|a/b=c",
            "3|1970-01-01|a",
            "4|NULL|a",
            "5|1970-01-02|NULL",
            "6|1970-01-02|NULL",
        ];
        assert_eq!(back, expected, "{format}");
        // Columns of partitions alone.
        let mut keys = rows(&read(&TableRequest { columns: vec![2], ..table }).unwrap().rows);
        keys.sort();
        assert_eq!(keys, ["NULL", "NULL", "a", "a", "a", "a/b=c"]);
    }
}

#[test]
fn many_partitions_have_a_bounded_number_of_open_files() {
    let directory = Directory::new();
    let table = partitioned(&directory, "", &["format=csv"]);
    let mut sink = open_sink(&table).unwrap();
    for round in 0..2 {
        for day in 0..100 {
            sink.write(&days(&[(round * 100 + i64::from(day), Some(day), Some("a"))])).unwrap();
            let (visible, hidden) = files(&directory);
            assert!(hidden <= 64, "{hidden} files are open");
            assert_eq!(visible.len() + hidden, (round * 100) as usize + day as usize + 1);
        }
    }
    sink.finish().unwrap();
    assert_eq!(files(&directory).0.len(), 200);
    assert_eq!(visible(&table), (0..200).collect::<Vec<_>>());
}

fn has(directory: &Directory, name: &str) -> bool {
    directory.path().join("out").join(name).exists()
}

const HOUR: i64 = 3_600_000_000;

#[test]
fn a_partition_is_said_to_be_complete_when_the_watermark_has_passed_it() {
    let directory = Directory::new();
    let commit = [
        "format=csv",
        "sink.rolling-policy.file-size=1 mb",
        "sink.partition-commit.policy.kind=success-file",
        "sink.partition-commit.trigger=partition-time",
        "sink.partition-commit.delay=1 d",
        "sink.partition-commit.success-file.name=_DONE",
    ];
    let table = partitioned(&directory, "it", &commit);
    let mut sink = open_sink(&table).unwrap();
    sink.write(&days(&ROWS)).unwrap();
    sink.advance(24 * HOUR - 1);
    let prepared = sink.prepare().unwrap().unwrap();
    sink.commit(&prepared).unwrap();
    assert!(names(&directory).is_empty(), "nothing is complete");
    drop(sink);
    // What was pending is so in the next run.
    let mut sink = restored(&table, Some(&prepared));
    sink.advance(24 * HOUR);
    let prepared = sink.prepare().unwrap().unwrap();
    assert!(prepared.contains("committed dt=1970-01-01/name=a\n"), "{prepared}");
    assert!(!has(&directory, "dt=1970-01-01/name=a/_DONE"), "the checkpoint is not complete");
    drop(sink);
    let mut sink = restored(&table, Some(&prepared));
    assert!(has(&directory, "dt=1970-01-01/name=a/_DONE"));
    assert_eq!(names(&directory).len(), 2, "{:?}", names(&directory));
    // A late row makes it incomplete, until the next checkpoint says so again.
    fs::remove_file(directory.path().join("out/dt=1970-01-01/name=a/_DONE")).unwrap();
    sink.write(&days(&[(7, Some(0), Some("a"))])).unwrap();
    sink.advance(24 * HOUR);
    let prepared = sink.prepare().unwrap().unwrap();
    sink.commit(&prepared).unwrap();
    assert!(has(&directory, "dt=1970-01-01/name=a/_DONE") && !has(&directory, "dt=NONE/name=a/_DONE"));
    sink.advance(i64::MAX);
    let last = sink.prepare_end().unwrap().unwrap();
    sink.commit(&last).unwrap();
    sink.finish().unwrap();
    assert_eq!(visible(&table), [1, 2, 3, 4, 5, 6, 7]);
    let done = names(&directory).iter().filter(|name| name.ends_with("/_DONE")).count();
    assert_eq!(done, 4);
}

#[test]
fn without_checkpoints_partitions_are_complete_at_the_end() {
    let directory = Directory::new();
    let table = partitioned(&directory, "", &["format=csv", "sink.partition-commit.policy.kind=success-file"]);
    let mut sink = open_sink(&table).unwrap();
    sink.write(&days(&ROWS)).unwrap();
    sink.flush().unwrap();
    assert!(!has(&directory, "dt=1970-01-01/name=a/_SUCCESS"));
    sink.advance(i64::MAX);
    sink.finish().unwrap();
    assert!(has(&directory, "dt=1970-01-01/name=a/_SUCCESS"));
}

#[test]
fn what_makes_no_sense_of_partitions_is_refused() {
    let directory = Directory::new();
    let refusal = |pairs: &[&str]| open_sink(&partitioned(&directory, "", pairs)).err().unwrap().to_string();
    assert_eq!(
        refusal(&["format=csv", "sink.partition-commit.delay=1 h"]),
        "option 'sink.partition-commit.delay' needs 'sink.partition-commit.policy.kind' = 'success-file' beside it"
    );
    let policy = "sink.partition-commit.policy.kind=success-file";
    assert_eq!(
        refusal(&["format=csv", policy, "partition.time-extractor.timestamp-pattern=$day"]),
        "option 'partition.time-extractor.timestamp-pattern' must be a text with $dt or $name in it, not '$day'"
    );
    assert_eq!(
        refusal(&["format=csv", policy, "sink.partition-commit.watermark-time-zone=Mars"]),
        "option 'sink.partition-commit.watermark-time-zone' must be a time zone such as 'UTC' or 'Europe/Berlin', not 'Mars'"
    );
    assert_eq!(
        refusal(&["format=csv", policy, "sink.partition-commit.success-file.name=done"]),
        "option 'sink.partition-commit.success-file.name' must be a name that begins with '_' or '.', or the file would be read as rows, not 'done'"
    );
    let unpartitioned = open_sink(&numbers(&directory, "", &["format=csv", policy])).err().unwrap().to_string();
    assert_eq!(
        unpartitioned,
        "option 'sink.partition-commit.policy.kind' is for tables that are PARTITIONED BY columns; leave it out"
    );
}
