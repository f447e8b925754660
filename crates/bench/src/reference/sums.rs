//! Tumbling SUM by a key, for any number of keys: open addressing, entries inline, hashes and prefetches a batch ahead of the probes.

use arrow::array::{Array, AsArray, StringViewArray};
use pelton_data::{Block, Micros};

use super::{each_window, integers};

/// Rows hashed and prefetched before they are probed: as many cache misses as the memory system overlaps, and more.
const BATCH_ROWS: usize = 256;
/// Tables up to this size stay in a second-level cache, where prefetching costs more than it gains.
const PREFETCH_FROM_BYTES: usize = 1 << 20;
/// Tables get as many entries as this where that is more than they need.
const SMALL_TABLE_ENTRIES: usize = 4096;
/// A random odd number: multiplying by it spreads keys over the high bits.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
const SPREAD_HIGH: u64 = 0xD6E8_FEB8_6659_FD93;

/// Results handed on at a time.
const RESULTS_AT_ONCE: usize = 1 << 13;

/// Sums by integers over one tumbling window after the other, of rows in order of time. The memory of one serves the next.
pub struct IntegerSums {
    table: IntegerTable,
    results: Vec<(i64, i64)>,
}

impl IntegerSums {
    /// For at most `groups` keys.
    pub fn new(groups: usize) -> IntegerSums {
        IntegerSums { table: IntegerTable::new(groups), results: Vec::with_capacity(RESULTS_AT_ONCE) }
    }

    /// Sums the column `value` by the column `key`. `take` gets the start of each window with the sums of some keys, in no order.
    pub fn sum(
        &mut self,
        blocks: &[Block],
        (key, value): (usize, usize),
        window: Micros,
        mut take: impl FnMut(Micros, &[(i64, i64)]),
    ) {
        each_window(
            (blocks, window),
            |block| (integers(block, key), integers(block, value)),
            self,
            |sums, (keys, values), rows| sums.table.add(&keys[rows.clone()], &values[rows]),
            |sums, closed| sums.table.drain(&mut sums.results, |sums| take(closed, sums)),
        );
    }
}

/// A string as it is kept: its length and bytes where there are at most 12, else its length, its first four bytes and where it begins in the table's own
/// bytes.
pub type View = [u64; 2];

/// Sums by strings over one tumbling window after the other, of rows in order of time. The memory of one serves the next.
pub struct StringSums {
    table: StringTable,
    results: Vec<(View, i64)>,
}

impl StringSums {
    /// For at most `groups` keys.
    pub fn new(groups: usize) -> StringSums {
        StringSums { table: StringTable::new(groups), results: Vec::with_capacity(RESULTS_AT_ONCE) }
    }

    /// Sums the column `value` by the column `key`. `take` gets the start of each window with the sums of some keys, in no order, and the bytes
    /// that long keys are in.
    pub fn sum(
        &mut self,
        blocks: &[Block],
        (key, value): (usize, usize),
        window: Micros,
        mut take: impl FnMut(Micros, &[(View, i64)], &[u8]),
    ) {
        let columns = |block| {
            let keys: &StringViewArray = Block::raw_columns(block)[key].as_string_view();
            assert_eq!(keys.null_count(), 0, "the reference loops know no NULLs");
            (keys, integers(block, value))
        };
        each_window(
            (blocks, window),
            columns,
            self,
            |sums, (keys, values), rows| sums.table.add(keys, rows, values),
            |sums, closed| sums.table.drain(&mut sums.results, |sums, bytes| take(closed, sums, bytes)),
        );
    }
}

/// Zero in all bits is an entry without a key, so that a new table costs nothing before it is written to.
#[derive(Clone, Copy, Default)]
struct IntegerEntry {
    /// The key, exclusive or [`EMPTY`].
    tag: i64,
    sum: i64,
}

/// The key whose tag means that there is none; it has an entry of its own, the table's last.
const EMPTY: i64 = i64::MIN;

struct IntegerTable {
    entries: Vec<IntegerEntry>,
    shift: u32,
    has_empty_key: bool,
}

impl IntegerTable {
    fn new(groups: usize) -> IntegerTable {
        let capacity = capacity(groups);
        let entries = vec![IntegerEntry::default(); capacity + 1];
        use_huge_pages(&entries);
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
            if entry.tag == key ^ EMPTY {
                return slot;
            }
            if entry.tag == 0 {
                entry.tag = key ^ EMPTY;
                return slot;
            }
            slot = (slot + 1) & last;
        }
    }

    /// Gives what there is, some at a time, and leaves none.
    fn drain(&mut self, results: &mut Vec<(i64, i64)>, mut take: impl FnMut(&[(i64, i64)])) {
        let capacity = self.capacity();
        if std::mem::take(&mut self.has_empty_key) {
            take(&[(EMPTY, std::mem::take(&mut self.entries[capacity].sum))]);
        }
        for entries in self.entries[..capacity].chunks_mut(RESULTS_AT_ONCE) {
            let known = entries.iter().filter(|entry| entry.tag != 0);
            results.extend(known.map(|entry| (entry.tag ^ EMPTY, entry.sum)));
            entries.fill(IntegerEntry::default());
            take(results);
            results.clear();
        }
    }
}

/// Two in a cache line. Zero in all bits is an entry without a key.
#[derive(Clone, Copy, Default)]
#[repr(C, align(32))]
struct StringEntry {
    /// The hash of the key, never zero.
    hash: u64,
    sum: i64,
    view: View,
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
        let capacity = capacity(groups);
        let entries = vec![StringEntry::default(); capacity];
        use_huge_pages(&entries);
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
        let view = [view as u64, (view >> 64) as u64];
        while self.entries[slot].hash != 0 {
            let entry = &self.entries[slot];
            if entry.hash == hash && self.is_equal(entry.view, view, keys, row) {
                return slot;
            }
            slot = (slot + 1) & last;
        }
        let view = if view[0] as u32 <= INLINE_BYTES_MAX { view } else { self.keep(view, keys.value(row)) };
        self.entries[slot] = StringEntry { hash, sum: 0, view };
        slot
    }

    fn keep(&mut self, view: View, text: &str) -> View {
        let place = self.bytes.len() as u64;
        self.bytes.extend_from_slice(text.as_bytes());
        [view[0], place]
    }

    fn is_equal(&self, kept: View, view: View, keys: &StringViewArray, row: usize) -> bool {
        if view[0] as u32 <= INLINE_BYTES_MAX {
            return kept == view;
        }
        let place = kept[1] as usize;
        kept[0] == view[0] && &self.bytes[place..place + kept[0] as u32 as usize] == keys.value(row).as_bytes()
    }

    /// Gives what there is, some at a time, with the bytes of long strings, and leaves none.
    fn drain(&mut self, results: &mut Vec<(View, i64)>, mut take: impl FnMut(&[(View, i64)], &[u8])) {
        for entries in self.entries.chunks_mut(RESULTS_AT_ONCE) {
            let known = entries.iter().filter(|entry| entry.hash != 0);
            results.extend(known.map(|entry| (entry.view, entry.sum)));
            entries.fill(StringEntry::default());
            take(results, &self.bytes);
            results.clear();
        }
        self.bytes.clear();
    }
}

/// Entries for so many groups: at most three fifths of them are used, and far fewer in small tables, where room costs nothing and every
/// second look into the table costs a wrongly predicted branch.
fn capacity(groups: usize) -> usize {
    (groups.max(8) * 5 / 3).max((groups * 16).min(SMALL_TABLE_ENTRIES)).next_power_of_two()
}

/// Asks for pages of two megabytes, without which every probe of a large table misses the processor's address cache as well.
pub(super) fn use_huge_pages<T>(entries: &[T]) {
    const HUGE: usize = 2 << 20;
    let begin = (entries.as_ptr() as usize).next_multiple_of(HUGE);
    let end = (entries.as_ptr() as usize + size_of_val(entries)) / HUGE * HUGE;
    if begin < end {
        // SAFETY: the range lies inside the allocation, and the advice changes no content.
        unsafe { libc::madvise(begin as *mut libc::c_void, end - begin, libc::MADV_HUGEPAGE) };
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
    (product as u64 ^ (product >> 64) as u64).wrapping_mul(SPREAD) | 1
}

/// Asks for a line into the second-level cache: more of these are waited for at a time than of those into the first.
pub(super) fn prefetch<T>(entry: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetching changes nothing that a program can see.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(entry.cast());
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

    fn text_of(view: View, bytes: &[u8]) -> String {
        let length = view[0] as u32;
        let inside = (u128::from(view[0]) | u128::from(view[1]) << 64).to_le_bytes();
        let bytes = match length <= INLINE_BYTES_MAX {
            true => &inside[4..][..length as usize],
            false => &bytes[view[1] as usize..][..length as usize],
        };
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn sums_by_integer() {
        for groups in [215, 100_000] {
            let mut sums = IntegerSums::new(groups);
            for _ in 0..2 {
                let mut found: BTreeMap<Micros, BTreeMap<i64, i64>> = BTreeMap::new();
                sums.sum(&[block()], (0, 2), 1_000_000, |start, sums| {
                    found.entry(start).or_default().extend(sums.iter().copied())
                });
                assert_eq!(found.into_iter().collect::<Vec<_>>(), expected(key));
            }
        }
    }

    #[test]
    fn sums_by_string() {
        for groups in [1000, 100_000] {
            let mut sums = StringSums::new(groups);
            for _ in 0..2 {
                let mut found: BTreeMap<Micros, BTreeMap<String, i64>> = BTreeMap::new();
                sums.sum(&[block()], (1, 2), 1_000_000, |start, sums, bytes| {
                    let sums = sums.iter().map(|(view, sum)| (text_of(*view, bytes), *sum));
                    found.entry(start).or_default().extend(sums);
                });
                assert_eq!(found.into_iter().collect::<Vec<_>>(), expected(text));
            }
        }
    }
}
