//! How fast tables find entries, against loops written by hand for one type of key and one accumulator each.
//!
//! `cargo run --release -p pelton-state --example table_speed [ROWS [dense|integers|short|long]…]` prints, for SUM by keys of each kind and number, nanoseconds of
//! processor time a row: `steady` when all keys are in the table, `slice` from a cleared table on, which inserts them.

use std::slice::from_ref;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::datatypes::{DataType, Int64Type};
use pelton_data::aggregate::{Accumulate, Accumulator, KeyColumn};
use pelton_state::table::{EntryLayout, IntegerMode, KeyRows, Table};

const BLOCK_ROWS: usize = 16 * 1024;
const REPEATS: usize = 5;

fn main() {
    let rows: usize = std::env::args().nth(1).map_or(4 << 20, |rows| rows.parse().expect("a number of rows"));
    let kinds: Vec<String> = std::env::args().skip(2).collect();
    let wanted = |kind: &str| kinds.is_empty() || kinds.iter().any(|wanted| wanted == kind);
    println!(
        "{:<24} {:>9} {:>9} {:>6}   {:>9} {:>9} {:>6}",
        "keys", "steady", "by hand", "ratio", "slice", "by hand", "ratio"
    );
    for keys in [1_000, 10_000, 100_000, 1_000_000].into_iter().filter(|_| wanted("dense")) {
        compare(&format!("dense {keys}"), &integers(rows, keys, |key| key as i64), Hand::dense);
    }
    for keys in [1, 1_000, 100_000, 1_000_000, 10_000_000].into_iter().filter(|_| wanted("integers")) {
        let rows = rows.max(2 * keys);
        let spread = |key: u64| key.wrapping_mul(0x9e37_79b9_7f4a_7c15) as i64;
        compare(&format!("integers {keys}"), &integers(rows, keys, spread), Hand::integers);
    }
    for keys in [1, 1_000, 100_000, 1_000_000, 10_000_000].into_iter().filter(|_| wanted("short")) {
        let rows = rows.max(2 * keys);
        compare(&format!("short strings {keys}"), &strings(rows, keys, |key| format!("k{key}")), Hand::short_strings);
    }
    for keys in [1, 1_000, 100_000, 1_000_000].into_iter().filter(|_| wanted("long")) {
        let long = |key| format!("https://example.org/{key}");
        compare(&format!("long strings {keys}"), &strings(rows, keys, long), Hand::long_strings);
    }
}

/// Rows with keys drawn at random, in blocks.
struct Input {
    blocks: Vec<(ArrayRef, Vec<i64>)>,
    rows: usize,
    keys: usize,
}

fn draw(state: &mut u64, keys: usize) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    ((u128::from(*state) * keys as u128) >> 64) as u64
}

fn integers(rows: usize, keys: usize, key: impl Fn(u64) -> i64) -> Input {
    let mut state = 88_172_645_463_325_252;
    blocks(rows, keys, || {
        let drawn: Vec<i64> = (0..BLOCK_ROWS).map(|_| key(draw(&mut state, keys))).collect();
        Arc::new(arrow::array::Int64Array::from(drawn))
    })
}

fn strings(rows: usize, keys: usize, key: impl Fn(u64) -> String) -> Input {
    let mut state = 88_172_645_463_325_252;
    blocks(rows, keys, || {
        let drawn = (0..BLOCK_ROWS).map(|_| key(draw(&mut state, keys)));
        Arc::new(StringViewArray::from_iter_values(drawn))
    })
}

fn blocks(rows: usize, keys: usize, mut column: impl FnMut() -> ArrayRef) -> Input {
    let count = rows.div_ceil(BLOCK_ROWS);
    let values: Vec<i64> = (0..BLOCK_ROWS as i64).collect();
    Input { blocks: (0..count).map(|_| (column(), values.clone())).collect(), rows: count * BLOCK_ROWS, keys }
}

fn compare(name: &str, input: &Input, hand: fn(&Input) -> Hand) {
    let mut table = Table::new(layout(input));
    let mut hand = hand(input);
    let (mut steady, mut slice) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    let (expected, found) = (hand.pass(input), pass(&mut table, input));
    assert_eq!((expected, table.groups()), (found, hand.groups()), "{name}");
    for _ in 0..REPEATS {
        steady.0.push(timed(input.rows, || pass(&mut table, input)));
        steady.1.push(timed(input.rows, || hand.pass(input)));
        slice.0.push(timed(input.rows, || {
            table.clear();
            pass(&mut table, input)
        }));
        slice.1.push(timed(input.rows, || {
            hand.clear();
            hand.pass(input)
        }));
    }
    let [a, b, c, d] = [steady.0, steady.1, slice.0, slice.1].map(median);
    println!("{name:<24} {a:>9.2} {b:>9.2} {:>6.2}   {c:>9.2} {d:>9.2} {:>6.2}", b / a, d / c);
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn timed(rows: usize, run: impl FnOnce() -> i64) -> f64 {
    let start = thread_time_ns();
    std::hint::black_box(run());
    (thread_time_ns() - start) / rows as f64
}

fn thread_time_ns() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn layout(input: &Input) -> Arc<EntryLayout> {
    let data_type = input.blocks[0].0.data_type().clone();
    let sum = Accumulator::new(Accumulate::SumInteger, Some(DataType::Int64), false);
    EntryLayout::new(&[KeyColumn { data_type, nullable: false }], &[sum])
}

/// What a kernel does with each block: find entries, then add to them.
fn pass(table: &mut Table, input: &Input) -> i64 {
    let (mut entries, mut hashes, mut packed) = (Vec::new(), Vec::new(), Vec::new());
    let mut any = 0;
    for (keys, values) in &input.blocks {
        let integers = keys.as_primitive_opt::<Int64Type>().map(|keys| keys.values().as_ref());
        if let Some(keys) = integers
            && let Some(last) = add_side_by_side(table, keys, values)
        {
            any = last;
            continue;
        }
        let rows = table.call_rows().min(values.len());
        for first in (0..values.len()).step_by(rows) {
            let values = &values[first..values.len().min(first + rows)];
            if let Some(keys) = integers {
                table.find_or_insert_integers(&keys[first..first + values.len()], &mut entries, &mut hashes);
            } else {
                let rows = KeyRows::Range(first..first + values.len());
                table.find_or_insert_columns(from_ref(keys), rows, &mut entries, &mut packed, &mut hashes);
            }
            any = add(table, &entries, values);
        }
    }
    any
}

fn add(table: &mut Table, entries: &[u32], values: &[i64]) -> i64 {
    let offset = table.layout().accumulators()[0].offset;
    let base = table.base();
    let mut any = 0;
    for (&entry, &value) in entries.iter().zip(values) {
        // SAFETY: the table gave the entry since it last changed, and its only accumulator is an `i64`.
        unsafe {
            let sum = base.add(entry as usize * 8 + offset).cast::<i64>();
            *sum = (*sum).wrapping_add(value);
            any = *sum;
        }
    }
    any
}

/// Adds to entries side by side, if the table has or can have such.
fn add_side_by_side(table: &mut Table, keys: &[i64], values: &[i64]) -> Option<i64> {
    let (mut row, mut any) = (0, 0);
    while row < keys.len() {
        if table.integer_mode() == Some(IntegerMode::Hash) {
            return None;
        }
        if let (Some(IntegerMode::Dense { base, .. }), Some((first, last))) =
            (table.integer_mode(), table.prepared_integers())
        {
            let skipped = (first - base) as usize;
            let length = (last - first) as usize + 1;
            let (sums, present) = (table.base().wrapping_add(skipped * 8 + 8), table.dense_present());
            let present = present.wrapping_add(skipped);
            for (&key, &value) in keys[row..].iter().zip(&values[row..]) {
                let entry = key.wrapping_sub(first) as usize;
                if entry >= length {
                    break;
                }
                // SAFETY: the table was prepared for the key; its entries are one `i64` each.
                unsafe {
                    let sum = sums.add(entry * 8).cast::<i64>();
                    *sum = (*sum).wrapping_add(value);
                    present.add(entry).write(1);
                    any = *sum;
                }
                row += 1;
            }
        }
        if let Some(rest) = keys.get(row..).filter(|rest| !rest.is_empty()) {
            let (minimum, maximum) = (rest.iter().min().expect("rows"), rest.iter().max().expect("rows"));
            table.prepare_integers(*minimum, *maximum, rest.len());
        }
    }
    Some(any)
}

/// A loop for one type of key.
enum Hand {
    Dense { sums: Vec<i64>, seen: Vec<u8> },
    Integers { slots: Vec<[i64; 2]>, groups: usize },
    Short { slots: Vec<Short>, groups: usize },
    Long { slots: Vec<Long>, bytes: Vec<u8>, groups: usize },
}

#[derive(Clone, Copy, Default)]
struct Short {
    view: [u64; 2],
    sum: i64,
}

#[derive(Clone, Copy, Default)]
struct Long {
    hash: u64,
    start: u32,
    length: u32,
    sum: i64,
}

fn hash(word: u64) -> usize {
    let product = u128::from(word) * 0x9e37_79b9_7f4a_7c15;
    (product as u64 ^ (product >> 64) as u64) as usize
}

fn hash_pair(words: [u64; 2]) -> usize {
    let product = u128::from(words[0] ^ 0x2545_f491_4f6c_dd1d) * u128::from(words[1] ^ 0x9e37_79b9_7f4a_7c15);
    (product as u64 ^ (product >> 64) as u64) as usize
}

fn hash_bytes(bytes: &[u8]) -> u64 {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let mut hash = bytes.len();
    let mut at = 0;
    while at + 16 < bytes.len() {
        hash = hash_pair([word(at) ^ hash as u64, word(at + 8)]);
        at += 16;
    }
    let last = bytes.len() - 16;
    hash_pair([word(last) ^ hash as u64, word(last + 8)]) as u64 | 1 << 63
}

fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint that reads nothing.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(std::ptr::from_ref(place).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Slots of a table that is never more than seven tenths full, in huge pages where the system gives them.
fn slots<T: Clone + Default>(input: &Input) -> Vec<T> {
    let mut capacity = 64;
    while capacity / 10 * 7 < input.keys {
        capacity *= 2;
    }
    let mut slots = Vec::<T>::with_capacity(capacity);
    // SAFETY: advice about memory that the vector owns.
    unsafe { libc::madvise(page(slots.as_mut_ptr().cast()), capacity * size_of::<T>(), libc::MADV_HUGEPAGE) };
    slots.resize(capacity, T::default());
    slots
}

fn page(start: *mut u8) -> *mut libc::c_void {
    start.wrapping_sub(start as usize % 4096).cast()
}

impl Hand {
    fn dense(input: &Input) -> Hand {
        Hand::Dense { sums: vec![0; input.keys], seen: vec![0; input.keys] }
    }

    fn integers(input: &Input) -> Hand {
        Hand::Integers { slots: slots(input), groups: 0 }
    }

    fn short_strings(input: &Input) -> Hand {
        Hand::Short { slots: slots(input), groups: 0 }
    }

    fn long_strings(input: &Input) -> Hand {
        Hand::Long { slots: slots(input), bytes: Vec::new(), groups: 0 }
    }

    fn groups(&self) -> usize {
        match self {
            Hand::Dense { seen, .. } => seen.iter().filter(|&&seen| seen != 0).count(),
            Hand::Integers { groups, .. } | Hand::Short { groups, .. } | Hand::Long { groups, .. } => *groups,
        }
    }

    fn clear(&mut self) {
        match self {
            Hand::Dense { sums, seen } => {
                sums.fill(0);
                seen.fill(0);
            }
            Hand::Integers { slots, groups } => {
                slots.fill([0, 0]);
                *groups = 0;
            }
            Hand::Short { slots, groups } => {
                slots.fill(Short::default());
                *groups = 0;
            }
            Hand::Long { slots, bytes, groups } => {
                slots.fill(Long::default());
                bytes.clear();
                *groups = 0;
            }
        }
    }

    fn pass(&mut self, input: &Input) -> i64 {
        let mut any = 0;
        for (keys, values) in &input.blocks {
            any = match self {
                Hand::Dense { sums, seen } => add_dense(sums, seen, int64(keys), values),
                Hand::Integers { slots, groups } => add_integers(slots, groups, int64(keys), values),
                Hand::Short { slots, groups } => add_short(slots, groups, keys.as_string_view(), values),
                Hand::Long { slots, bytes, groups } => add_long(slots, bytes, groups, keys.as_string_view(), values),
            };
        }
        any
    }
}

fn int64(keys: &ArrayRef) -> &[i64] {
    keys.as_primitive::<Int64Type>().values()
}

fn add_dense(sums: &mut [i64], seen: &mut [u8], keys: &[i64], values: &[i64]) -> i64 {
    let mut any = 0;
    for (&key, &value) in keys.iter().zip(values) {
        sums[key as usize] += value;
        seen[key as usize] = 1;
        any = sums[key as usize];
    }
    any
}

/// Tables that leave the cache are fetched ahead, the distance that measured best.
const PREFETCH_KEYS: usize = 24;
const CACHED_BYTES: usize = 1 << 20;

fn add_integers(slots: &mut [[i64; 2]], groups: &mut usize, keys: &[i64], values: &[i64]) -> i64 {
    let mask = slots.len() - 1;
    let ahead = if size_of_val(slots) > CACHED_BYTES { PREFETCH_KEYS } else { 0 };
    let mut any = 0;
    for (row, (&key, &value)) in keys.iter().zip(values).enumerate() {
        if ahead > 0 && row + ahead < keys.len() {
            prefetch(&slots[hash(keys[row + ahead] as u64 ^ 1) & mask]);
        }
        let stored = key ^ 1;
        let mut slot = hash(stored as u64) & mask;
        loop {
            let [held, sum] = &mut slots[slot];
            if *held == stored || *held == 0 {
                *groups += usize::from(*held == 0);
                *held = stored;
                *sum += value;
                any = *sum;
                break;
            }
            slot = (slot + 1) & mask;
        }
    }
    any
}

fn add_short(slots: &mut [Short], groups: &mut usize, keys: &StringViewArray, values: &[i64]) -> i64 {
    let mask = slots.len() - 1;
    let ahead = if size_of_val(slots) > CACHED_BYTES { PREFETCH_KEYS } else { 0 };
    let views: &[u128] = keys.views();
    let words = |row: usize| [views[row] as u64, (views[row] >> 64) as u64];
    let mut any = 0;
    for (row, &value) in values.iter().enumerate() {
        if ahead > 0 && row + ahead < views.len() {
            prefetch(&slots[hash_pair(words(row + ahead)) & mask]);
        }
        let view = words(row);
        let mut slot = hash_pair(view) & mask;
        loop {
            let held = &mut slots[slot];
            // No string of the input is empty.
            if held.view == view || held.view[0] == 0 {
                *groups += usize::from(held.view[0] == 0);
                held.view = view;
                held.sum += value;
                any = held.sum;
                break;
            }
            slot = (slot + 1) & mask;
        }
    }
    any
}

fn add_long(
    slots: &mut [Long],
    bytes: &mut Vec<u8>,
    groups: &mut usize,
    keys: &StringViewArray,
    values: &[i64],
) -> i64 {
    let mask = slots.len() - 1;
    let mut any = 0;
    let mut hashes = [0; BATCH];
    for first in (0..values.len()).step_by(BATCH) {
        for (at, hash) in hashes.iter_mut().enumerate() {
            *hash = hash_bytes(keys.value(first + at).as_bytes());
            prefetch(&slots[*hash as usize & mask]);
        }
        for &hash in &hashes {
            prefetch(&bytes.as_slice().get(slots[hash as usize & mask].start as usize));
        }
        for (at, &hash) in hashes.iter().enumerate() {
            let key = keys.value(first + at).as_bytes();
            let mut slot = hash as usize & mask;
            loop {
                let held = &mut slots[slot];
                if held.hash == 0 {
                    *groups += 1;
                    *held = Long { hash, start: bytes.len() as u32, length: key.len() as u32, sum: 0 };
                    bytes.extend_from_slice(key);
                }
                if held.hash == hash && &bytes[held.start as usize..][..held.length as usize] == key {
                    held.sum += values[first + at];
                    any = held.sum;
                    break;
                }
                slot = (slot + 1) & mask;
            }
        }
    }
    any
}

const BATCH: usize = 512;
