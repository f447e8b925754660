//! How fast buckets are built and probed, against loops written by hand for one integer key.
//!
//! `cargo run --release -p pelton-state --example bucket_speed [ROWS [WORKERS]]` prints for each kind of keys how many million rows a second become a bucket, from
//! batches of 16,384 rows with a key and a value on, with one thread and with several, and how many find their match, the middle of five times each.
//!
//! `… --example bucket_speed load [ROWS [WORKERS [dense]]]` loads a table once, of BIGINT keys and values that are made on the way, and prints the rate and the memory that
//! the process has at its peak, in parts of the bytes of the rows.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringViewArray, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema};
use pelton_state::join::build::{TableRows, Unit};
use pelton_state::join::{Bucket, BucketBuild, UNMATCHED};

const BATCH_ROWS: usize = 16 * 1024;
const REPEATS: usize = 5;
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

fn main() {
    if std::env::args().nth(1).is_some_and(|first| first == "load") {
        let mut arguments = std::env::args().skip(2);
        let mut number =
            |otherwise: usize| arguments.next().map_or(otherwise, |number| number.parse().expect("a number"));
        let (rows, workers) = (number(10_000_000), number(2));
        return load(rows, workers, std::env::args().nth(4).is_some());
    }
    let mut arguments = std::env::args().skip(1).map(|number| number.parse().expect("a number"));
    let (rows, workers) = (arguments.next().unwrap_or(10_000_000), arguments.next().unwrap_or(2));
    println!(
        "{:<28} {:>7} {:>8} {:>8} {:>6}   {:>8} {:>8} {:>6}",
        "keys", "threads", "build", "by hand", "ratio", "probe", "by hand", "ratio"
    );
    for (bytes, is_dense, rows_per_key) in itertools::iproduct!([4, 8], [true, false], [1, 4]) {
        let name = format!("{}, {bytes} bytes, {rows_per_key} a key", if is_dense { "dense" } else { "hashed" });
        let batches = batches(rows, rows_per_key, |numbers| integers(numbers, bytes, is_dense));
        for workers in [1, workers] {
            compare(&name, &batches, workers, is_dense);
        }
    }
    let text = |number: &u64| format!("advertisement {number}");
    let strings = |numbers: &[u64]| Arc::new(StringViewArray::from_iter_values(numbers.iter().map(text))) as ArrayRef;
    let batches = batches(rows, 1, strings);
    for workers in [1, workers] {
        compare("strings, 1 a key", &batches, workers, false);
    }
}

/// Loads a table of so many rows.
fn load(rows: usize, workers: usize, is_dense: bool) {
    let schema = Arc::new(Schema::new(["k", "v"].map(|name| Field::new(name, DataType::Int64, false)).to_vec()));
    let step = (((rows * 5 / 8) | 1)..).step_by(2).find(|&step| divisor(step as u64, rows as u64) == 1).unwrap_or(1);
    let mut table = TableRows::new(schema.clone());
    let (mut making, began) = (0.0, Instant::now());
    for first in (0..rows).step_by(BATCH_ROWS) {
        let (batch, seconds) = timed(|| {
            let numbers: Vec<u64> = (first..rows.min(first + BATCH_ROWS))
                .map(|row| (row as u128 * step as u128 % rows as u128) as u64)
                .collect();
            let values: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers.iter().map(|&number| number as i64)));
            RecordBatch::try_new(schema.clone(), vec![integers(&numbers, 8, is_dense), values]).expect("two columns")
        });
        making += seconds;
        table.push(&batch).expect("the columns are those of the table");
    }
    let pushed = began.elapsed().as_secs_f64() - making;
    let raw = table.bytes();
    let (bucket, indexed) = timed(|| {
        let mut build = BucketBuild::of_table(table, &[0]);
        while !build.is_built() {
            run(build.units(workers), workers);
            build.advance().expect("all batches have the same columns");
        }
        build.finish()
    });
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let memory = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        kilobytes.map_or(f64::NAN, |kilobytes| kilobytes * 1024.0 / raw as f64)
    };
    println!(
        "{rows} rows, {workers} threads: {:.1} M rows/s (appended in {pushed:.2} s, indexed in {indexed:.2} s); in parts of the rows: index {:.2}, at rest {:.2}, at the peak {:.2}",
        rows as f64 / (pushed + indexed) / 1e6,
        (bucket.bytes() - raw) as f64 / raw as f64,
        memory("VmRSS"),
        memory("VmHWM"),
    );
}

/// A key for each number, close together or not.
fn integers(numbers: &[u64], bytes: usize, is_dense: bool) -> ArrayRef {
    let key = |&number: &u64| if is_dense { number } else { number.wrapping_mul(MULTIPLIER) };
    match bytes {
        // The lower half of a product with an odd number differs for all numbers that are different there.
        4 => Arc::new(Int32Array::from_iter_values(numbers.iter().map(|number| key(number) as i32))),
        _ => Arc::new(Int64Array::from_iter_values(numbers.iter().map(|number| key(number) as i64))),
    }
}

/// Rows whose keys are those of the numbers before `rows / rows_per_key` in no order, and a value.
fn batches(rows: usize, rows_per_key: usize, keys: impl Fn(&[u64]) -> ArrayRef) -> Vec<RecordBatch> {
    let distinct = (rows / rows_per_key) as u64;
    // A step that has no divisor in common with the number of keys meets each of them before it meets one again.
    let step = (((distinct * 5 / 8) | 1)..).step_by(2).find(|&step| divisor(step, distinct) == 1).unwrap_or(1);
    let numbers: Vec<u64> = (0..rows as u64).map(|row| row * step % distinct).collect();
    let batch = |numbers: &[u64]| {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers.iter().map(|&number| number as i64)));
        RecordBatch::try_from_iter([("k", keys(numbers)), ("v", values)]).expect("both columns have the same rows")
    };
    numbers.chunks(BATCH_ROWS).map(batch).collect()
}

/// The keys of all rows in another order: each batch has every so manieth row.
fn reordered(batches: &[RecordBatch]) -> Vec<RecordBatch> {
    let all = concat_batches(&batches[0].schema(), batches).expect("all batches have the same columns");
    let (rows, count) = (all.num_rows() as u64, batches.len() as u64);
    let batch = |first: u64| {
        let rows: UInt32Array = (first..rows).step_by(count as usize).map(|row| row as u32).collect();
        take_record_batch(&all, &rows).expect("the rows are there")
    };
    (0..count).map(batch).collect()
}

fn divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { divisor(other, one % other) }
}

fn compare(name: &str, batches: &[RecordBatch], workers: usize, is_dense: bool) {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let probing = reordered(batches);
    let is_text = *batches[0].column(0).data_type() == DataType::Utf8View;
    let [mut builds, mut hands, mut probes, mut hand_probes] = [const { Vec::new() }; 4];
    for _ in 0..REPEATS {
        let (bucket, seconds) = timed(|| built(batches, workers));
        builds.push(seconds);
        let (found, seconds) = timed(|| probed(&probing, &bucket));
        probes.push(seconds);
        if is_text {
            continue;
        }
        let (hand, seconds) = timed(|| Hand::build(batches, workers, is_dense));
        hands.push(seconds);
        let (found_by_hand, seconds) = timed(|| hand.probe(&probing));
        hand_probes.push(seconds);
        assert_eq!(found, found_by_hand, "{name}");
    }
    let rate = |mut seconds: Vec<f64>| {
        seconds.sort_by(f64::total_cmp);
        seconds.get(seconds.len() / 2).map_or(f64::NAN, |middle| rows as f64 / middle / 1e6)
    };
    let [build, hand, probe, hand_probe] = [builds, hands, probes, hand_probes].map(rate);
    println!(
        "{name:<28} {workers:>7} {build:>8.1} {hand:>8.1} {:>6.2}   {probe:>8.1} {hand_probe:>8.1} {:>6.2}",
        build / hand,
        probe / hand_probe
    );
}

fn timed<R>(work: impl FnOnce() -> R) -> (R, f64) {
    let began = Instant::now();
    let result = black_box(work());
    (result, began.elapsed().as_secs_f64())
}

fn built(batches: &[RecordBatch], workers: usize) -> Bucket {
    let mut rows = TableRows::new(batches[0].schema());
    batches.iter().for_each(|batch| rows.push(batch).expect("all batches have the same columns"));
    let mut build = BucketBuild::of_table(rows, &[0]);
    while !build.is_built() {
        run(build.units(workers), workers);
        build.advance().expect("all batches have the same columns");
    }
    build.finish()
}

fn run(units: Vec<Unit<'_>>, workers: usize) {
    let units = Mutex::new(units.into_iter());
    let next = || units.lock().expect("no unit panics").next();
    let work = || {
        while let Some(unit) = next() {
            unit();
        }
    };
    std::thread::scope(|scope| {
        (1..workers).for_each(|_| drop(scope.spawn(work)));
        work();
    });
}

/// The number of matches of all rows, and the sum of these.
fn probed(batches: &[RecordBatch], bucket: &Bucket) -> (usize, u64) {
    let (mut rows, mut matches, mut found) = (Vec::new(), Vec::new(), (0, 0));
    for batch in batches {
        bucket.probe(&batch.columns()[..1], None, batch.num_rows(), false, &mut rows, &mut matches);
        found = sum(found, &matches);
    }
    found
}

fn sum((count, sum): (usize, u64), matches: &[u32]) -> (usize, u64) {
    (count + matches.len(), sum + matches.iter().map(|&row| u64::from(row)).sum::<u64>())
}

/// An index by hand: of each key the first row, and of each row the next one with its key. Each thread puts the keys of its own part of the table in.
struct Hand {
    kind: HandKind,
    next: Vec<AtomicU32>,
    _columns: (Vec<i64>, Vec<i64>),
}

enum HandKind {
    Dense(Vec<u32>),
    /// Keys and first rows, by hash, and the slots of a thread.
    Hashed(Vec<(i64, u32)>, usize),
}

/// Keys whose slots are prefetched before the first of them is read.
const AHEAD: usize = 32;

impl Hand {
    fn build(batches: &[RecordBatch], workers: usize, is_dense: bool) -> Hand {
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        let (mut keys, mut values) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        for batch in batches {
            append_keys(batch.column(0), &mut keys);
            values.extend_from_slice(batch.column(1).as_primitive::<Int64Type>().values());
        }
        let next: Vec<AtomicU32> = (0..rows).map(|_| AtomicU32::new(UNMATCHED)).collect();
        let kind = if is_dense {
            let length = keys.iter().max().map_or(0, |&key| key as usize + 1);
            let mut first = vec![UNMATCHED; length];
            let part = length.div_ceil(workers);
            std::thread::scope(|scope| {
                for (number, part_first) in first.chunks_mut(part).enumerate() {
                    let (keys, next) = (&keys, &next);
                    scope.spawn(move || {
                        for (row, &key) in keys.iter().enumerate().rev() {
                            if let Some(first) = part_first.get_mut((key as usize).wrapping_sub(number * part)) {
                                next[row].store(*first, Relaxed);
                                *first = row as u32;
                            }
                        }
                    });
                }
            });
            HandKind::Dense(first)
        } else {
            let mut slots = vec![(0, UNMATCHED); (2 * rows).next_power_of_two()];
            let part = slots.len() / workers.next_power_of_two();
            std::thread::scope(|scope| {
                for (number, slots) in slots.chunks_mut(part).enumerate() {
                    let (keys, next) = (&keys, &next);
                    scope.spawn(move || fill(keys, next, (slots, number), workers.next_power_of_two()));
                }
            });
            HandKind::Hashed(slots, part)
        };
        Hand { kind, next, _columns: (keys, values) }
    }

    fn probe(&self, batches: &[RecordBatch]) -> (usize, u64) {
        let (mut keys, mut matches, mut found) = (Vec::new(), Vec::new(), (0, 0));
        for batch in batches {
            keys.clear();
            matches.clear();
            append_keys(batch.column(0), &mut keys);
            let mut list = |mut row: u32| {
                while row != UNMATCHED {
                    matches.push(row);
                    row = self.next[row as usize].load(Relaxed);
                }
            };
            match &self.kind {
                HandKind::Dense(first) => {
                    keys.iter().for_each(|&key| list(first.get(key as usize).copied().unwrap_or(UNMATCHED)));
                }
                HandKind::Hashed(slots, part) => {
                    let shift = 64 - slots.len().ilog2();
                    for keys in keys.chunks(AHEAD) {
                        for &key in keys {
                            prefetch(&slots[(hash(key) >> shift) as usize]);
                        }
                        for &key in keys {
                            let mut at = (hash(key) >> shift) as usize;
                            while slots[at].1 != UNMATCHED && slots[at].0 != key {
                                at += 1;
                                at -= if at.is_multiple_of(*part) { *part } else { 0 };
                            }
                            list(slots[at].1);
                        }
                    }
                }
            }
            found = sum(found, &matches);
        }
        found
    }
}

/// Puts the keys of a part of the table into its slots.
fn fill(keys: &[i64], next: &[AtomicU32], (slots, number): (&mut [(i64, u32)], usize), parts: usize) {
    let shift = 64 - (slots.len() * parts).ilog2();
    let mut row = keys.len();
    for keys in keys.rchunks(AHEAD) {
        let first = number * slots.len();
        let home = |key: i64| ((hash(key) >> shift) as usize).wrapping_sub(first);
        for &key in keys {
            if let Some(slot) = slots.get(home(key)) {
                prefetch(slot);
            }
        }
        for &key in keys.iter().rev() {
            row -= 1;
            let mut at = home(key);
            if at >= slots.len() {
                continue;
            }
            while slots[at].1 != UNMATCHED && slots[at].0 != key {
                at = if at + 1 == slots.len() { 0 } else { at + 1 };
            }
            next[row].store(slots[at].1, Relaxed);
            slots[at] = (key, row as u32);
        }
    }
}

fn hash(key: i64) -> u64 {
    let product = u128::from(key as u64) * u128::from(MULTIPLIER);
    product as u64 ^ (product >> 64) as u64
}

fn prefetch<T>(address: &T) {
    pelton_state::vector::prefetch(std::ptr::from_ref(address).cast());
}

fn append_keys(column: &ArrayRef, keys: &mut Vec<i64>) {
    match column.data_type() {
        DataType::Int32 => keys.extend(column.as_primitive::<Int32Type>().values().iter().map(|&key| i64::from(key))),
        _ => keys.extend_from_slice(column.as_primitive::<Int64Type>().values()),
    }
}
