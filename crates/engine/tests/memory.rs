//! What queries take that have next to nothing to do: a process may have thousands of them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pelton::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use pelton::{Query, Session};

/// Knows how many bytes have been asked for and not been given back.
struct Counting;

static BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as promised to this.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as promised to this.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        BYTES.fetch_add(size, Ordering::Relaxed);
        BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as promised to this.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as promised to this.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Queries that are there before those that are counted: what all of them share is there then.
const QUERIES_BEFORE: usize = 20;

/// Queries that are counted.
const QUERIES: usize = 100;

/// What one of them takes at most.
const BYTES_MAX: usize = 40 << 10;

/// Waits until something is so, for a minute at most.
fn wait_until(is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "it has not come to be");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Starts queries of these numbers, and returns them when their code is compiled: nothing is done for them then.
fn started(session: &Session, numbers: std::ops::Range<usize>, text: &dyn Fn(usize) -> String) -> Vec<Query> {
    let queries: Vec<Query> = numbers.map(|number| session.sql(&text(number)).unwrap()).collect();
    for query in &queries {
        wait_until(|| query.progress().pipelines.iter().all(|pipeline| pipeline.code.is_compiled));
    }
    queries
}

#[test]
fn a_query_without_rows_takes_little() {
    let session = Session::new();
    session.set("pelton.workers", "2").unwrap();
    let silent = session.push_table("silent", "v BIGINT NOT NULL").unwrap();
    let hole = "CREATE TABLE hole (v BIGINT, w BIGINT) WITH ('connector' = 'blackhole')";
    session.execute(&session.prepare(hole).unwrap().remove(0)).unwrap();
    let text = |number: usize| format!("INSERT INTO hole SELECT v, v FROM silent WHERE v > {number}");
    let before = started(&session, 0..QUERIES_BEFORE, &text);
    let bytes_before = BYTES.load(Ordering::Relaxed);
    let queries = started(&session, QUERIES_BEFORE..QUERIES_BEFORE + QUERIES, &text);
    let of_query = || (BYTES.load(Ordering::Relaxed) - bytes_before) / QUERIES;
    let without_rows = of_query();
    let rows: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    silent.push_blocking(RecordBatch::try_new(silent.schema().clone(), vec![rows]).unwrap()).unwrap();
    for query in before.iter().chain(&queries) {
        wait_until(|| query.progress().sinks[0].rows > 0);
    }
    let with_rows = of_query();
    assert!(without_rows < BYTES_MAX && with_rows < BYTES_MAX, "{without_rows} bytes without rows, {with_rows} with");
    for query in before.into_iter().chain(queries) {
        query.control().abort();
        query.wait().unwrap();
    }
}
