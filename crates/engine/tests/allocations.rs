//! How often the allocator is called while a query runs on: never for a row, and for a block only for what leaves the engine.
//!
//! A query is run over its input twice, and twice as often: what the longer run calls more often is steady state, and all that only a start
//! needs cancels out. One thread moves the engine, so that counts are the same each time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use pelton::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use pelton::{Query, Session};
use pelton_runtime::clock::{Clock, Hands};
use pelton_runtime::pool::{ManualWorkers, Pool};

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
        // Machine code from the first block on.
        Engine::with("pelton.tier", "compile")
    }

    fn with(setting: &str, value: &str) -> Engine {
        let hands = Arc::new(Hands::default());
        let (pool, workers) = Pool::manual(1, Clock::Manual(hands.clone()));
        let session = Session::with_pool(pool);
        session.set("pelton.block-rows", &BLOCK_ROWS.to_string()).unwrap();
        session.set("pelton.tier", "compile").unwrap();
        // Other code is tried at random times and ever more seldom, and allocated then: in the longer of two runs only.
        session.set("pelton.adapt", "off").unwrap();
        session.set(setting, value).unwrap();
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
fn calls_of_insert(mut engine: Engine, columns: &str, select: &str, passes: i64) -> u64 {
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
    calls_per_block_with(("pelton.tier", "compile"), columns, select, 20)
}

/// The same, with this setting and its value, from runs of so many passes and of twice as many.
fn calls_per_block_with((setting, value): (&str, &str), columns: &str, select: &str, passes: i64) -> f64 {
    let calls = |passes| calls_of_insert(Engine::with(setting, value), columns, select, passes) as f64;
    (calls(2 * passes) - calls(passes)) / (passes * PASS_BLOCKS) as f64
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
    let calls = |dense_keys| {
        let setting = ("pelton.adapt.dense-keys", dense_keys);
        calls_per_block_with(setting, "e TIMESTAMP(3), k BIGINT, s BIGINT", select, 20) * WINDOW_BLOCKS
    };
    let by_hash = calls("forbid");
    assert!((by_hash - OF_WINDOW).abs() < GROWING, "{by_hash} calls a window instead of {OF_WINDOW}");
    // The code for keys side by side is there at a moment that differs from run to run.
    let side_by_side = calls("pin");
    assert!((side_by_side - OF_WINDOW).abs() < 2.0, "{side_by_side} calls a window with keys side by side");
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

/// What interpreted code and queues of events take was counted, and may not grow: lists of columns and what DataFusion computes, records as columns,
/// but nothing for a row.
#[test]
fn interpreted_code_and_queues_cost_so_much_a_block() {
    let day = "FROM TUMBLE(TABLE n, DESCRIPTOR(at), INTERVAL '1' DAY) GROUP BY window_start, window_end";
    // The last one's records are wider than an event.
    for (columns, select, interpreted, queued) in [
        ("i BIGINT, k BIGINT", "SELECT i, k FROM n".to_owned(), 2.0, 38.0),
        ("i BIGINT, k BIGINT", "SELECT i, k FROM n WHERE k < 0".to_owned(), 9.0, 19.0),
        ("i BIGINT, k BIGINT", "SELECT i, k FROM n WHERE k < 50".to_owned(), 17.0, 44.0),
        ("i BIGINT, k BIGINT", "SELECT i, k + 1 AS k FROM n WHERE k < 50".to_owned(), 24.0, 44.0),
        ("s BIGINT", format!("SELECT SUM(i) AS s {day}"), 2.0, 27.0),
        ("k BIGINT, s BIGINT", format!("SELECT k, SUM(i) AS s {day}, k"), 4.0, 34.0),
        ("k BIGINT, s BIGINT", format!("SELECT k, SUM(i * k) AS s {day}, k"), 8.0, 34.0),
        (
            "i BIGINT, a BIGINT, b BIGINT, c BIGINT, d BIGINT, e BIGINT, f BIGINT",
            "SELECT i, i + 1 AS a, i + 2 AS b, i + 3 AS c, i + 4 AS d, i + 5 AS e, i + 6 AS f FROM n".to_owned(),
            45.0,
            86.0,
        ),
    ] {
        for (setting, most) in
            [(("pelton.tier", "interpret"), interpreted), (("pelton.data-passing", "queues"), queued)]
        {
            let calls = calls_per_block_with(setting, columns, &select, 2);
            assert!(calls < most + GROWING, "{calls} calls a block, more than {most}: {setting:?}, {select}");
        }
    }
}

#[test]
fn rows_that_are_decoded_cost_columns_and_nothing_for_a_row() {
    // A block's worth of lines becomes a block, and of each of its columns an array. What a chunk of the file takes is shared by its blocks.
    const OF_BLOCK: f64 = 1.0;
    const OF_CHUNK: f64 = 2.0;
    // The bytes of longer strings, and the list that has them.
    const OF_TEXT: f64 = 2.0;
    for format in ["csv", "json"] {
        for (columns, select) in [
            ("i BIGINT, k BIGINT", "SELECT i, k FROM n WHERE k < 0"),
            ("i BIGINT, k BIGINT, s STRING", "SELECT i, k, s FROM n WHERE k < 0"),
            ("i BIGINT, s STRING", "SELECT i, s FROM n WHERE i < 0"),
        ] {
            const BLOCKS: i64 = 20;
            let calls = |blocks| calls_of_lines(format, columns, select, blocks) as f64;
            let calls = (calls(2 * BLOCKS) - calls(BLOCKS)) / BLOCKS as f64;
            let text = if columns.contains("STRING") { OF_TEXT } else { 0.0 };
            let most = OF_BLOCK + OF_BATCH + columns.split(", ").count() as f64 * OF_COLUMN + text + OF_CHUNK;
            assert!(calls < most, "{calls} calls a block's worth of lines, more than {most}: {format}, {select}");
        }
    }
}

/// Calls while so many blocks of rows are decoded from a file.
fn calls_of_lines(format: &str, columns: &str, select: &str, blocks: i64) -> u64 {
    let path = std::env::temp_dir().join(format!("pelton-allocations-{}.{format}", std::process::id()));
    let line = |row: i64| match format {
        "csv" => format!("{row},{},text number {row}\n", row % 100),
        _ => format!("{{\"i\": {row}, \"k\": {}, \"s\": \"text number {row}\"}}\n", row % 100),
    };
    std::fs::write(&path, (0..blocks * BLOCK_ROWS).map(line).collect::<String>()).unwrap();
    let mut engine = Engine::new();
    let script = format!(
        "CREATE TABLE n (i BIGINT NOT NULL, k BIGINT NOT NULL, s STRING NOT NULL) WITH (
             'connector' = 'filesystem', 'path' = '{}', 'format' = '{format}');
         CREATE TABLE nowhere ({columns}) WITH ('connector' = 'blackhole');
         INSERT INTO nowhere {select}",
        path.display()
    );
    let query: Query = engine.session.sql(&script).unwrap();
    let control = query.control();
    let calls = calls(|| {
        while !control.has_ended() {
            engine.step();
        }
    });
    std::fs::remove_file(&path).unwrap();
    assert_eq!(query.wait().unwrap().pipelines[0].rows, (blocks * BLOCK_ROWS) as u64);
    calls
}
