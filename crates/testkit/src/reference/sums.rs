//! Tumbling SUM by a key, for any number of keys: open addressing, entries inline, hashes and prefetches a batch ahead of the probes.

use arrow::array::{Array, AsArray, StringViewArray};
use pelton_data::{Block, Micros};

use super::{integers, windows};

/// Rows hashed and prefetched before they are probed: as many cache misses as the memory system overlaps, and more.
const BATCH_ROWS: usize = 256;
/// Tables up to this size stay in a second-level cache, where prefetching costs more than it gains.
const PREFETCH_FROM_BYTES: usize = 1 << 20;
/// A random odd number: multiplying by it spreads keys over the high bits.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
const SPREAD_HIGH: u64 = 0xD6E8_FEB8_6659_FD93;

/// One window's sums, in no order.
pub type Window<K> = (Micros, Vec<(K, i64)>);

/// Sums `value` by the integer `key`, at most `groups` of them, over tumbling windows of rows in order of time.
pub fn by_integer(blocks: &[Block], key: usize, value: usize, groups: usize, window: Micros) -> Vec<Window<i64>> {
    let mut open: Option<(Micros, IntegerTable)> = None;
    let mut closed = Vec::new();
    for block in blocks {
        let (keys, values) = (integers(block, key), integers(block, value));
        windows(block, window, |start, rows| {
            if open.as_ref().is_none_or(|(open, _)| *open != start) {
                closed.extend(open.take().map(|(start, table)| (start, table.rows())));
                open = Some((start, IntegerTable::new(groups)));
            }
            open.as_mut().expect("opened above").1.add(&keys[rows.clone()], &values[rows]);
        });
    }
    closed.extend(open.map(|(start, table)| (start, table.rows())));
    closed
}

/// Sums `value` by the string `key`, at most `groups` of them, over tumbling windows of rows in order of time.
pub fn by_string(blocks: &[Block], key: usize, value: usize, groups: usize, window: Micros) -> Vec<Window<String>> {
    let mut open: Option<(Micros, StringTable)> = None;
    let mut closed = Vec::new();
    for block in blocks {
        let keys = block.raw_columns()[key].as_string_view();
        assert_eq!(keys.null_count(), 0, "the reference loops know no NULLs");
        let values = integers(block, value);
        windows(block, window, |start, rows| {
            if open.as_ref().is_none_or(|(open, _)| *open != start) {
                closed.extend(open.take().map(|(start, table)| (start, table.rows())));
                open = Some((start, StringTable::new(groups)));
            }
            open.as_mut().expect("opened above").1.add(keys, rows, values);
        });
    }
    closed.extend(open.map(|(start, table)| (start, table.rows())));
    closed
}

#[derive(Clone, Copy)]
struct IntegerEntry {
    key: i64,
    sum: i64,
}

/// Marks an entry that holds no key; the key of this value has an entry of its own, the table's last.
const EMPTY: i64 = i64::MIN;

struct IntegerTable {
    entries: Vec<IntegerEntry>,
    shift: u32,
    has_empty_key: bool,
}

impl IntegerTable {
    fn new(groups: usize) -> IntegerTable {
        let capacity = (groups.max(8) * 2).next_power_of_two();
        let entries = vec![IntegerEntry { key: EMPTY, sum: 0 }; capacity + 1];
        IntegerTable { entries, shift: 64 - capacity.trailing_zeros(), has_empty_key: false }
    }

    fn capacity(&self) -> usize {
        self.entries.len() - 1
    }

    fn slot(&self, key: i64) -> usize {
        let spread = (key as u64 ^ key as u64 >> 32).wrapping_mul(SPREAD);
        (spread >> self.shift) as usize
    }

    fn add(&mut self, keys: &[i64], values: &[i64]) {
        let far = self.entries.len() * size_of::<IntegerEntry>() > PREFETCH_FROM_BYTES;
        for (keys, values) in keys.chunks(BATCH_ROWS).zip(values.chunks(BATCH_ROWS)) {
            if far {
                keys.iter().for_each(|key| prefetch(&self.entries[self.slot(*key)]));
            }
            for (key, value) in keys.iter().zip(values) {
                let slot = self.find(*key);
                let sum = &mut self.entries[slot].sum;
                *sum = sum.wrapping_add(*value);
            }
        }
    }

    fn find(&mut self, key: i64) -> usize {
        if key == EMPTY {
            self.has_empty_key = true;
            return self.capacity();
        }
        let last = self.capacity() - 1;
        let mut slot = self.slot(key);
        loop {
            let entry = &mut self.entries[slot];
            if entry.key == key {
                return slot;
            }
            if entry.key == EMPTY {
                entry.key = key;
                return slot;
            }
            slot = (slot + 1) & last;
        }
    }

    fn rows(&self) -> Vec<(i64, i64)> {
        let (entries, side) = self.entries.split_at(self.capacity());
        let known = entries.iter().filter(|entry| entry.key != EMPTY);
        let side = side.iter().filter(|_| self.has_empty_key);
        known.chain(side).map(|entry| (entry.key, entry.sum)).collect()
    }
}

/// A string: its length and bytes where there are at most 12, else its length, its first four bytes and where it begins in the
/// table's own bytes. Zero in all bits is the empty string, so `occupied` tells whether the entry holds a key.
#[derive(Clone, Copy, Default)]
struct StringEntry {
    view: u128,
    sum: i64,
    occupied: bool,
}

const INLINE_BYTES_MAX: u32 = 12;

struct StringTable {
    entries: Vec<StringEntry>,
    bytes: Vec<u8>,
    shift: u32,
    hashes: Vec<u64>,
}

impl StringTable {
    fn new(groups: usize) -> StringTable {
        let capacity = (groups.max(8) * 2).next_power_of_two();
        let entries = vec![StringEntry::default(); capacity];
        StringTable { entries, bytes: Vec::new(), shift: 64 - capacity.trailing_zeros(), hashes: Vec::new() }
    }

    fn add(&mut self, keys: &StringViewArray, rows: std::ops::Range<usize>, values: &[i64]) {
        let far = self.entries.len() * size_of::<StringEntry>() > PREFETCH_FROM_BYTES;
        let end = rows.end;
        for first in rows.step_by(BATCH_ROWS) {
            let batch = first..(first + BATCH_ROWS).min(end);
            let mut hashes = std::mem::take(&mut self.hashes);
            hashes.clear();
            hashes.extend(batch.clone().map(|row| hash(keys, row)));
            if far {
                hashes.iter().for_each(|hash| prefetch(&self.entries[(hash >> self.shift) as usize]));
            }
            for (row, hash) in batch.zip(&hashes) {
                let slot = self.find(keys, row, *hash);
                let sum = &mut self.entries[slot].sum;
                *sum = sum.wrapping_add(values[row]);
            }
            self.hashes = hashes;
        }
    }

    fn find(&mut self, keys: &StringViewArray, row: usize, hash: u64) -> usize {
        let view = keys.views()[row];
        let last = self.entries.len() - 1;
        let mut slot = (hash >> self.shift) as usize;
        while self.entries[slot].occupied {
            if self.is_equal(self.entries[slot].view, view, keys, row) {
                return slot;
            }
            slot = (slot + 1) & last;
        }
        let view = if view as u32 <= INLINE_BYTES_MAX { view } else { self.keep(view, keys.value(row)) };
        self.entries[slot] = StringEntry { view, sum: 0, occupied: true };
        slot
    }

    fn keep(&mut self, view: u128, text: &str) -> u128 {
        let place = self.bytes.len() as u128;
        self.bytes.extend_from_slice(text.as_bytes());
        view & u128::from(u64::MAX) | place << 64
    }

    fn is_equal(&self, kept: u128, view: u128, keys: &StringViewArray, row: usize) -> bool {
        if view as u32 <= INLINE_BYTES_MAX {
            return kept == view;
        }
        kept as u64 == view as u64 && self.text(&kept) == keys.value(row).as_bytes()
    }

    fn text<'a>(&'a self, view: &'a u128) -> &'a [u8] {
        let length = *view as u32 as usize;
        if length <= INLINE_BYTES_MAX as usize {
            // SAFETY: a view is sixteen bytes long, of which at most twelve follow the length.
            return unsafe { std::slice::from_raw_parts(std::ptr::from_ref(view).cast::<u8>().add(4), length) };
        }
        let place = (view >> 64) as usize;
        &self.bytes[place..place + length]
    }

    fn rows(&self) -> Vec<(String, i64)> {
        let known = self.entries.iter().filter(|entry| entry.occupied);
        known.map(|entry| (String::from_utf8_lossy(self.text(&entry.view)).into_owned(), entry.sum)).collect()
    }
}

fn hash(keys: &StringViewArray, row: usize) -> u64 {
    let view = keys.views()[row];
    if view as u32 <= INLINE_BYTES_MAX {
        return fold(view as u64, (view >> 64) as u64);
    }
    let bytes = keys.value(row).as_bytes();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    // The last sixteen bytes may overlap those before: a string here has at least thirteen, so two words always fit.
    let whole = (0..bytes.len() / 8 * 8).step_by(8).fold(bytes.len() as u64, |hash, at| fold(hash, word(at)));
    fold(whole, word(bytes.len() - 8))
}

/// The two halves of a 128-bit product, folded.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ SPREAD) * u128::from(b ^ SPREAD_HIGH);
    (product as u64 ^ (product >> 64) as u64).wrapping_mul(SPREAD)
}

fn prefetch<T>(entry: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetching changes nothing that a program can see.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(entry).cast());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMillisecondArray};
    use pelton_data::TimeColumn;

    use super::*;

    const ROWS: i64 = 3000;

    fn key(row: i64) -> i64 {
        match row % 97 {
            0 => i64::MIN,
            1 => i64::MAX,
            other => (row * other) % 211 - 100,
        }
    }

    fn text(row: i64) -> String {
        match row % 5 {
            0 => String::new(),
            1 => format!("{}", key(row)),
            2 => format!("exactly12-{:02}", key(row).rem_euclid(100)),
            _ => format!("a string that is longer than a view {}", key(row)),
        }
    }

    fn block() -> Block {
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).map(key)));
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..ROWS).map(text)));
        let times: ArrayRef = Arc::new(TimestampMillisecondArray::from_iter_values(0..ROWS));
        let time = TimeColumn::new(2, times.data_type());
        Block::new(RecordBatch::try_from_iter(vec![("k", keys), ("s", texts), ("t", times)]).unwrap(), time).unwrap()
    }

    fn expected<K: Ord>(key: impl Fn(i64) -> K) -> Vec<(Micros, BTreeMap<K, i64>)> {
        let mut windows: BTreeMap<Micros, BTreeMap<K, i64>> = BTreeMap::new();
        for row in 0..ROWS {
            *windows.entry(row / 1000 * 1_000_000).or_default().entry(key(row)).or_default() += row;
        }
        windows.into_iter().collect()
    }

    fn sorted<K: Ord>(found: Vec<Window<K>>) -> Vec<(Micros, BTreeMap<K, i64>)> {
        found.into_iter().map(|(start, groups)| (start, groups.into_iter().collect())).collect()
    }

    #[test]
    fn sums_by_integer() {
        for groups in [215, 100_000] {
            assert_eq!(sorted(by_integer(&[block()], 0, 2, groups, 1_000_000)), expected(key));
        }
    }

    #[test]
    fn sums_by_string() {
        for groups in [1000, 100_000] {
            assert_eq!(sorted(by_string(&[block()], 1, 2, groups, 1_000_000)), expected(text));
        }
    }
}
