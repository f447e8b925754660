//! How often the allocator is called while a query runs on: never for a row, and for a block only for what leaves the engine.
//!
//! A query is run over its input twice, and twice as often: what the longer run calls more often is steady state, and all that only a start
//! needs cancels out. One thread moves the engine, so that counts are the same each time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use pelton::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use pelton::clock::{Clock, Hands};
use pelton::pool::{ManualWorkers, Pool};
use pelton::{Query, Session};

/// Counts the calls of threads that ask for it.
struct Counting;

thread_local! {
    static IS_COUNTING: Cell<bool> = const { Cell::new(false) };
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that ends has no cells any more.
    if IS_COUNTING.try_with(Cell::get).unwrap_or(false) {
        CALLS.set(CALLS.get() + 1);
    }
}

// SAFETY: the system's allocator does it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as promised to this.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as promised to this.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as promised to this.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as promised to this.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Calls of the allocator while something is done.
fn calls(what: impl FnOnce()) -> u64 {
    CALLS.set(0);
    IS_COUNTING.set(true);
    what();
    IS_COUNTING.set(false);
    CALLS.get()
}

/// Rows of a block.
const BLOCK_ROWS: i64 = 1024;

/// Blocks of a pass.
const PASS_BLOCKS: i64 = 100;

/// Milliseconds of event time in a pass: a row has one.
const PASS_MS: i64 = BLOCK_ROWS * PASS_BLOCKS;

struct Engine {
    session: Session,
    hands: Arc<Hands>,
    workers: ManualWorkers,
}

impl Engine {
    fn new() -> Engine {
        let hands = Arc::new(Hands::default());
        let (pool, workers) = Pool::manual(1, Clock::Manual(hands.clone()));
        let session = Session::with_pool(pool);
        session.set("pelton.block-rows", &BLOCK_ROWS.to_string()).unwrap();
        // Machine code from the first block on.
        session.set("pelton.tier", "compile").unwrap();
        Engine { session, hands, workers }
    }

    /// Does a task, which takes a tenth of a millisecond.
    fn step(&mut self) -> bool {
        self.hands.advance(Duration::from_micros(100));
        self.workers.step(0)
    }
}

/// What an array takes: its values, what says who else has them, and the array itself. All three leave with the batch.
const OF_COLUMN: f64 = 3.0;

/// What a batch takes besides: the list of its columns.
const OF_BATCH: f64 = 1.0;

/// Lists that grow until they are as long as they will ever be do so a little later in a longer run.
const GROWING: f64 = 0.05;

/// Calls while an insert runs whose input is replayed so many times.
fn calls_of_insert(columns: &str, select: &str, passes: i64) -> u64 {
    let mut engine = Engine::new();
    let script = format!(
        "CREATE TABLE n (i BIGINT NOT NULL, k BIGINT NOT NULL, at TIMESTAMP(3) NOT NULL, WATERMARK FOR at AS at) WITH (
             'connector' = 'datagen', 'number-of-rows' = '{PASS_MS}', 'pace' = 'flat-out',
             'base-time' = '2020-01-01 00:00:00', 'rows-per-second' = '1000',
             'fields.i.kind' = 'sequence', 'fields.i.start' = '1', 'fields.i.end' = '{PASS_MS}',
             'fields.k.min' = '0', 'fields.k.max' = '99',
             'replay' = 'memory', 'replay.passes' = '{passes}');
         CREATE TABLE nowhere ({columns}) WITH ('connector' = 'blackhole');
         INSERT INTO nowhere {select}"
    );
    let query: Query = engine.session.sql(&script).unwrap();
    let control = query.control();
    let calls = calls(|| {
        while !control.has_ended() {
            engine.step();
        }
    });
    assert_eq!(query.wait().unwrap().pipelines[0].rows, (passes * PASS_MS) as u64);
    calls
}

/// Calls for each block of an insert's input.
fn calls_per_block(columns: &str, select: &str) -> f64 {
    const PASSES: i64 = 20;
    let [few, many] = [PASSES, 2 * PASSES].map(|passes| calls_of_insert(columns, select, passes) as f64);
    (many - few) / (PASSES * PASS_BLOCKS) as f64
}

fn assert_calls(columns: &str, select: &str, expected: f64) {
    let calls = calls_per_block(columns, select);
    assert!((calls - expected).abs() < GROWING, "{calls} calls a block instead of {expected}: {select}");
}

#[test]
fn rows_that_are_filtered_and_computed_cost_the_batches_that_leave() {
    // A batch of two columns for each block.
    let batch = OF_BATCH + 2.0 * OF_COLUMN;
    assert_calls("i BIGINT, k BIGINT", "SELECT i, k + 1 AS k FROM n WHERE k < 5", batch);
    assert_calls("i BIGINT, k BIGINT", "SELECT i, k * 2 AS k FROM n WHERE k < 50 AND i % 3 > 0", batch);
    // The columns of the block leave as they are.
    assert_calls("i BIGINT, k BIGINT", "SELECT i, k FROM n", OF_BATCH);
    assert_calls("i BIGINT, k BIGINT", "SELECT i, k FROM n WHERE k < 0", 0.0);
    // What few rows are left of several blocks leaves in one batch.
    let calls = calls_per_block("i BIGINT, k BIGINT", "SELECT i, k FROM n WHERE k < 5");
    assert!(calls < batch / 2.0, "{calls} calls a block");
}

#[test]
fn rows_that_are_aggregated_cost_nothing() {
    let day = "FROM TUMBLE(TABLE n, DESCRIPTOR(at), INTERVAL '1' DAY)";
    let by = "GROUP BY window_start, window_end";
    assert_calls("s BIGINT", &format!("SELECT SUM(i) AS s {day} {by}"), 0.0);
    assert_calls("k BIGINT, s BIGINT", &format!("SELECT k, SUM(i) AS s {day} {by}, k"), 0.0);
    assert_calls("k BIGINT, s BIGINT", &format!("SELECT k, SUM(i) AS s {day} WHERE k < 50 {by}, k"), 0.0);
    assert_calls("k BIGINT, s BIGINT", &format!("SELECT k, SUM(i * k) AS s {day} WHERE k * i > 90 {by}, k"), 0.0);
    // Of several keys one that is computed is an array before entries are found by it.
    let keys = format!("SELECT k, i % 3 AS r, SUM(i) AS s {day} {by}, k, i % 3");
    assert_calls("k BIGINT, r BIGINT, s BIGINT", &keys, OF_COLUMN);
}

#[test]
fn windows_that_close_cost_so_much_each() {
    // Nine and three quarters blocks have rows of a window.
    const WINDOW_BLOCKS: f64 = 10_000.0 / BLOCK_ROWS as f64;
    // Three columns of results; the rest takes what is in slices apart, and puts it together.
    const OF_WINDOW: f64 = OF_BATCH + 3.0 * OF_COLUMN + 12.0;
    let select = "SELECT window_end AS e, k, SUM(i) AS s FROM TUMBLE(TABLE n, DESCRIPTOR(at), INTERVAL '10' SECOND)
                  GROUP BY window_start, window_end, k";
    let calls = calls_per_block("e TIMESTAMP(3), k BIGINT, s BIGINT", select);
    assert!(calls * WINDOW_BLOCKS <= OF_WINDOW, "{} calls a window", calls * WINDOW_BLOCKS);
}

#[test]
fn rows_that_are_pushed_and_read_cost_a_block_and_a_batch() {
    const PUSHES: u64 = 200;
    // What knows who else has a block.
    let block = 1.0;
    let [few, many] = [PUSHES, 2 * PUSHES].map(|pushes| calls_of_pushes(pushes) as f64);
    let calls = (many - few) / PUSHES as f64;
    let expected = block + OF_BATCH + 2.0 * OF_COLUMN;
    assert!((calls - expected).abs() < GROWING, "{calls} calls a batch instead of {expected}");
}

/// Calls while so many batches are pushed, each is filtered, and what is left is read.
fn calls_of_pushes(pushes: u64) -> u64 {
    let mut engine = Engine::new();
    let source = engine.session.push_table("n", "i BIGINT NOT NULL, k BIGINT NOT NULL").unwrap();
    let mut query = engine.session.sql("SELECT i, k FROM n WHERE k < 500").unwrap();
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..BLOCK_ROWS));
    let columns = vec![numbers.clone(), numbers];
    let batch = || RecordBatch::try_new(source.schema().clone(), columns.clone()).unwrap();
    let batches: Vec<RecordBatch> = std::iter::repeat_with(batch).take(pushes as usize).collect();
    calls(|| {
        for batch in batches {
            assert!(source.try_push(batch).unwrap());
            engine.hands.advance(Duration::from_micros(100));
            while engine.workers.step(0) {}
            assert_eq!(query.try_next_batch().unwrap().unwrap().num_rows(), 500);
        }
    })
}
