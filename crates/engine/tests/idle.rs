//! What queries do while nothing happens: next to nothing.
#![cfg(unix)]

use std::io::Write;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use pelton::{Query, Session};

/// A query over a pipe, and the end of the pipe that is written.
fn over_a_pipe(columns: &str, query: &str) -> (Session, Query, std::io::PipeWriter) {
    let (read, write) = std::io::pipe().unwrap();
    let session = Session::new();
    session.set("pelton.workers", "2").unwrap();
    let path = format!("/dev/fd/{}", read.as_raw_fd());
    let table =
        format!("CREATE TABLE t ({columns}) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')");
    session.execute(&session.prepare(&table).unwrap().remove(0)).unwrap();
    let query = session.sql(query).unwrap();
    // It is opened by then: it has been found to have nothing.
    std::thread::sleep(Duration::from_millis(100));
    drop(read);
    (session, query, write)
}

/// How often workers are given something to do in half a second in which nothing happens.
fn decisions(query: &Query) -> u64 {
    let before = query.progress().load.decisions;
    std::thread::sleep(Duration::from_millis(500));
    query.progress().load.decisions - before
}

#[test]
fn a_pipe_in_which_nothing_comes_is_not_asked_again_and_again() {
    let (_session, mut query, mut write) = over_a_pipe("v BIGINT", "SELECT v FROM t");
    assert!(decisions(&query) <= 4);
    let mut fastest = Duration::MAX;
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(10));
        let began = Instant::now();
        write.write_all(b"7\n").unwrap();
        assert_eq!(query.next_batch().unwrap().unwrap().num_rows(), 1);
        fastest = fastest.min(began.elapsed());
    }
    assert!(fastest < Duration::from_millis(2), "the fastest of twenty rows takes {fastest:?}");
    drop(write);
    assert!(query.next_batch().unwrap().is_none());
}

#[test]
fn windows_by_the_clock_wait_for_their_ends() {
    let count = |window: &str| format!("SELECT COUNT(*) AS n FROM {window} GROUP BY window_start, window_end");
    let tumbling = count("TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' SECOND)");
    let session = count("SESSION(TABLE t, DESCRIPTOR(at), INTERVAL '50' MILLISECOND)");
    for sql in [tumbling, session] {
        let (_session, mut query, mut write) = over_a_pipe("v BIGINT, at AS PROCTIME()", &sql);
        assert!(decisions(&query) <= 4, "there is no row: {sql}");
        write.write_all(b"7\n").unwrap();
        assert_eq!(query.next_batch().unwrap().unwrap().num_rows(), 1, "the window ends by itself: {sql}");
        assert!(decisions(&query) <= 12, "its rows have left: {sql}");
        drop(write);
        assert!(query.next_batch().unwrap().is_none());
    }
}

#[test]
fn rows_over_the_clock_leave_by_themselves() {
    let sql = "SELECT SUM(v) OVER (ORDER BY at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM t";
    let (_session, mut query, mut write) = over_a_pipe("v BIGINT, at AS PROCTIME()", sql);
    for _ in 0..3 {
        write.write_all(b"7\n").unwrap();
        assert_eq!(query.next_batch().unwrap().unwrap().num_rows(), 1);
    }
    assert!(decisions(&query) <= 4);
    drop(write);
    assert!(query.next_batch().unwrap().is_none());
}
