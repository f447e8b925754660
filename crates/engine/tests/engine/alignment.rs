//! Streams of one query whose event times are far from each other.
#![cfg(unix)]

use std::io::{PipeReader, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pelton::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, TimestampMillisecondArray};
use pelton::arrow::datatypes::Int64Type;
use pelton::{PushSource, Query, Session};

/// After so long something that must happen has not.
const PATIENCE: Duration = Duration::from_secs(60);

const COLUMNS: &str = "k BIGINT NOT NULL, at TIMESTAMP(3) NOT NULL, WATERMARK FOR at AS at";

/// So many rows of each second, all of other keys than those of other seconds.
fn seconds(table: &PushSource, second: i64, rows: i64, first_key: i64) -> RecordBatch {
    let keys = (0..rows).map(|row| first_key + second * rows + row);
    let times = (0..rows).map(|row| second * 1_000 + row * 1_000 / rows);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(keys)),
        Arc::new(TimestampMillisecondArray::from_iter_values(times)),
    ];
    RecordBatch::try_new(table.schema().clone(), columns).unwrap()
}

fn wait_until(mut has_happened: impl FnMut() -> bool) {
    let began = Instant::now();
    while !has_happened() {
        assert!(began.elapsed() < PATIENCE, "it has not happened");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn waits_for(query: &Query, table: &str) -> bool {
    query.progress().load.held_back_by.as_deref() == Some(table)
}

/// Seconds that both streams have rows of, and the rows of each.
const SECONDS: i64 = 1_000;
const FAST: i64 = 1_000;
const SLOW: i64 = 20;

/// Runs a query of both streams, whose second column must be `expected` for each second. As long as the slow stream has nothing, the fast one is taken up to where memory is
/// short; then the slow one comes ten seconds at a time.
fn run_with_little_memory(sql: &str, (workers, memory_mib): (usize, u64), expected: i64) {
    let session = Session::new();
    session.set("pelton.workers", &workers.to_string()).unwrap();
    session.set("pelton.memory", &format!("{memory_mib} mb")).unwrap();
    let [fast, slow] = ["fast", "slow"].map(|name| session.push_table(name, COLUMNS).unwrap());
    let mut query = session.sql(sql).unwrap();
    let (mut next_fast, mut found, mut state_bytes_max) = (0, Vec::new(), 0);
    let mut advance = |query: &mut Query, next_fast: &mut i64| {
        while *next_fast < SECONDS && fast.try_push(seconds(&fast, *next_fast, FAST, 0)).unwrap() {
            *next_fast += 1;
        }
        while let Some(batch) = query.try_next_batch().unwrap() {
            found.extend_from_slice(batch.column(1).as_primitive::<Int64Type>().values());
        }
        *next_fast == SECONDS
    };
    wait_until(|| advance(&mut query, &mut next_fast) || waits_for(&query, "slow"));
    assert!(next_fast < SECONDS || workers > 1, "it is never held back");
    for ten in 0..SECONDS / 10 {
        // As much as is taken: all, or until it waits for the other.
        wait_until(|| advance(&mut query, &mut next_fast) || query.progress().load.held_back_by.is_some());
        state_bytes_max = state_bytes_max.max(query.progress().load.state_bytes);
        for second in ten * 10..ten * 10 + 10 {
            slow.push_blocking(seconds(&slow, second, SLOW, -SECONDS * SLOW)).unwrap();
        }
    }
    drop(slow);
    wait_until(|| advance(&mut query, &mut next_fast));
    drop(fast);
    while let Some(batch) = query.next_batch().unwrap() {
        found.extend_from_slice(batch.column(1).as_primitive::<Int64Type>().values());
    }
    let others: Vec<(usize, &i64)> = found.iter().enumerate().filter(|(_, keys)| **keys != expected).collect();
    assert_eq!((found.len(), others), (SECONDS as usize, Vec::new()), "{workers} workers");
    assert!(state_bytes_max <= memory_mib << 20, "{state_bytes_max} bytes");
}

/// The stream that is ahead waits where its rows would fill the memory: the query does not fail, however long the other one takes.
#[test]
fn a_stream_that_is_ahead_waits_where_memory_is_short() {
    // Several workers have tables of their own, each as large as the last ones.
    for limits in [(1, 8), (2, 64)] {
        let sql = "CREATE VIEW both_streams AS SELECT * FROM fast UNION ALL SELECT * FROM slow;
             SELECT window_end, COUNT(DISTINCT k) AS ks
             FROM TUMBLE(TABLE both_streams, DESCRIPTOR(at), INTERVAL '1' SECOND) GROUP BY window_start, window_end";
        run_with_little_memory(sql, limits, FAST + SLOW);
    }
}

/// So does the side of a join.
#[test]
fn a_side_of_a_join_that_is_ahead_waits_where_memory_is_short() {
    for limits in [(1, 8), (2, 8)] {
        let sql = "SELECT a.window_end, COUNT(*) AS ks
             FROM TUMBLE(TABLE fast, DESCRIPTOR(at), INTERVAL '1' SECOND) AS a
             LEFT JOIN TUMBLE(TABLE slow, DESCRIPTOR(at), INTERVAL '1' SECOND) AS b
             ON a.k = b.k AND a.window_start = b.window_start AND a.window_end = b.window_end
             GROUP BY a.window_start, a.window_end";
        run_with_little_memory(sql, limits, FAST);
    }
}

/// A pipe that is a table: the end that the table opens once more, and the end that is written.
fn pipe(session: &Session, name: &str) -> (PipeReader, PipeWriter) {
    let (read, write) = std::io::pipe().unwrap();
    let sql = format!(
        "CREATE TABLE {name} ({COLUMNS}) WITH ('connector' = 'filesystem', 'path' = '/dev/fd/{}', 'format' = 'csv',
            'scan.watermark.alignment.group' = 'g', 'scan.watermark.alignment.max-drift' = '10 s')",
        read.as_raw_fd()
    );
    session.execute(&session.prepare(&sql).unwrap().remove(0)).unwrap();
    (read, write)
}

#[test]
fn aligned_tables_are_no_further_apart_than_they_may() {
    let session = Session::new();
    let [(fast_read, mut fast), (slow_read, mut slow)] = ["fast", "slow"].map(|name| pipe(&session, name));
    let query = session
        .sql(
            "CREATE VIEW both_streams AS SELECT * FROM fast UNION ALL SELECT * FROM slow;
             SELECT window_end, COUNT(*) AS n
             FROM TUMBLE(TABLE both_streams, DESCRIPTOR(at), INTERVAL '1' HOUR) GROUP BY window_start, window_end",
        )
        .unwrap();
    let read = || query.progress().sources.iter().map(|source| source.rows).collect::<Vec<_>>();
    let write = |file: &mut PipeWriter, second: u32| {
        writeln!(file, "1,2024-03-01 00:{:02}:{:02}.000", second / 60, second % 60).unwrap();
    };
    [&mut fast, &mut slow].into_iter().for_each(|file| write(file, 0));
    wait_until(|| read() == [1, 1]);
    drop((fast_read, slow_read));
    // Within ten seconds it goes on, and beyond them no further.
    write(&mut fast, 9);
    wait_until(|| read() == [2, 1]);
    write(&mut fast, 100);
    wait_until(|| read() == [3, 1]);
    write(&mut fast, 101);
    wait_until(|| waits_for(&query, "slow"));
    assert_eq!(read(), [3, 1]);
    write(&mut slow, 89);
    wait_until(|| read()[1] == 2);
    assert_eq!(read(), [3, 2], "eleven seconds are too many");
    write(&mut slow, 90);
    wait_until(|| read() == [4, 3]);
    drop((fast, slow));
    assert_eq!(query.collect().unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
}
