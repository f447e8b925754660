//! Tumbling SUM by a key that says where its sum is, by several threads: in an array that each has, at once or range by range, or in one that all change.

use std::ops::Range;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use pelton_data::{Block, Micros};

use super::sums::{prefetch, use_huge_pages};
use super::ysb::Window;
use super::{integers, windows};

/// Rows that a thread takes at a time.
const PART_ROWS: usize = 1 << 16;
/// Places over which the rows of the most frequent key are spread: an addition to memory waits for the one before to the same place.
const HOT_PLACES: usize = 8;
/// Rows of which the most frequent key is told.
const SAMPLE_ROWS: usize = 64;

/// Who changes which array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Each thread its own; they are added when a window is complete.
    Each,
    /// All threads the same one, by atomic additions.
    Shared,
    /// As `Shared`, with the line of each row's sum asked for some rows before.
    SharedAsked,
    /// As `Each`, with the line of each row's sum asked for some rows before.
    Asked,
    /// As `Each`, with the most frequent key of a part spread over several places.
    HotApart,
    /// As `Each`, with rows put aside by ranges of keys whose sums fit a core's cache, and added when there are many of a range.
    Partitioned,
}

/// Rows before its own in which the line of a sum is asked for.
const ROWS_AHEAD: usize = 96;

/// Keys of a range, as a power of two: sums of 256 KiB.
const RANGE_BITS: u32 = 15;
/// Rows of a range that are put aside: about as many as its sums have lines of memory.
const ASIDE_ROWS: usize = 4096;

/// Sums `value`, which is positive, by `key`, which is from 0 to `keys - 1`, over tumbling windows of rows in order of time. A sum of zero
/// is that of no rows.
pub fn sums(
    blocks: &[Block],
    (key, value): (usize, usize),
    keys: usize,
    window: Micros,
    workers: usize,
    sharing: Sharing,
) -> Vec<Window<i64>> {
    let mut parts: Vec<(Micros, Vec<KeyedRows<'_>>)> = Vec::new();
    for block in blocks {
        let (keys, values) = (integers(block, key), integers(block, value));
        windows(block, window, |start, rows: Range<usize>| {
            let pieces = keys[rows.clone()].chunks(PART_ROWS).zip(values[rows].chunks(PART_ROWS));
            match parts.last_mut().filter(|(open, _)| *open == start) {
                Some((_, parts)) => parts.extend(pieces),
                None => parts.push((start, pieces.collect())),
            }
        });
    }
    let sum = |(start, parts): (Micros, Vec<KeyedRows<'_>>)| (start, window_sums(&parts, keys, workers, sharing));
    parts.into_iter().map(sum).collect()
}

/// Keys and values of some rows.
type KeyedRows<'a> = (&'a [i64], &'a [i64]);

fn window_sums(parts: &[KeyedRows<'_>], keys: usize, workers: usize, sharing: Sharing) -> Vec<(i64, i64)> {
    let next = AtomicUsize::new(0);
    let each = |mut add: Box<dyn FnMut(KeyedRows<'_>) + '_>| {
        while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            add(*part);
        }
    };
    if matches!(sharing, Sharing::Shared | Sharing::SharedAsked) {
        let totals: Vec<AtomicI64> = (0..keys).map(|_| AtomicI64::new(0)).collect();
        use_huge_pages(&totals);
        let add = if sharing == Sharing::Shared { add_shared } else { add_shared_asked };
        in_threads(workers, || each(Box::new(|part| add(&totals, part))));
        return rows(totals.into_iter().map(AtomicI64::into_inner));
    }
    let own = in_threads(workers, || {
        let mut totals = vec![0; keys + HOT_PLACES];
        use_huge_pages(&totals);
        match sharing {
            Sharing::Asked => each(Box::new(|part| add_asked(&mut totals, part))),
            Sharing::HotApart => each(Box::new(|part| add_apart(&mut totals, part))),
            Sharing::Partitioned => {
                let mut aside = Aside::new(keys);
                each(Box::new(|part| aside.put(&mut totals, part)));
                aside.add_all(&mut totals);
            }
            Sharing::Each | Sharing::Shared | Sharing::SharedAsked => each(Box::new(|part| add(&mut totals, part))),
        }
        totals
    });
    let mut own = own.into_iter();
    let mut totals = own.next().expect("there is a thread");
    for others in own {
        totals.iter_mut().zip(others).for_each(|(total, other)| *total = total.wrapping_add(other));
    }
    totals.truncate(keys);
    rows(totals.into_iter())
}

/// What so many threads return, of which this is the first.
fn in_threads<T: Send>(threads: usize, run: impl Fn() -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(&run)).collect();
        let own = run();
        let joined = others.into_iter().map(|thread| thread.join().expect("a reference loop does not panic"));
        std::iter::once(own).chain(joined).collect()
    })
}

fn add_shared(totals: &[AtomicI64], (keys, values): KeyedRows<'_>) {
    for (key, value) in keys.iter().zip(values) {
        totals[*key as usize].fetch_add(*value, Ordering::Relaxed);
    }
}

/// As [`add_shared`]; the lines of sums are asked for before.
fn add_shared_asked(totals: &[AtomicI64], part: KeyedRows<'_>) {
    asked_ahead(totals.as_ptr(), part, |key, value| {
        totals[key as usize].fetch_add(value, Ordering::Relaxed);
    });
}

fn add(totals: &mut [i64], (keys, values): KeyedRows<'_>) {
    for (key, value) in keys.iter().zip(values) {
        let total = &mut totals[*key as usize];
        *total = total.wrapping_add(*value);
    }
}

/// As [`add`]; the lines of sums are asked for before.
fn add_asked(totals: &mut [i64], part: KeyedRows<'_>) {
    asked_ahead(totals.as_ptr(), part, |key, value| {
        let total = &mut totals[key as usize];
        *total = total.wrapping_add(value);
    });
}

/// Has each row added; the lines of sums, which begin at `first`, are asked for some rows before.
fn asked_ahead<T>(first: *const T, (keys, values): KeyedRows<'_>, mut add: impl FnMut(i64, i64)) {
    let asked = keys.len().saturating_sub(ROWS_AHEAD);
    for ((key, value), later) in keys.iter().zip(values).zip(&keys[keys.len() - asked..]) {
        prefetch(first.wrapping_add(*later as usize));
        add(*key, *value);
    }
    keys[asked..].iter().zip(&values[asked..]).for_each(|(key, value)| add(*key, *value));
}

/// As [`add`]; the sums of the most frequent key are in the places behind the others meanwhile.
fn add_apart(totals: &mut [i64], (keys, values): KeyedRows<'_>) {
    let (hot, behind) = (most_frequent(keys), totals.len() - HOT_PLACES);
    for (row, (key, value)) in keys.iter().zip(values).enumerate() {
        let place = if *key == hot { behind + row % HOT_PLACES } else { *key as usize };
        let total = &mut totals[place];
        *total = total.wrapping_add(*value);
    }
    for place in behind..totals.len() {
        let apart = std::mem::take(&mut totals[place]);
        totals[hot as usize] = totals[hot as usize].wrapping_add(apart);
    }
}

/// Rows that are put aside, range by range.
struct Aside {
    keys: Vec<i64>,
    values: Vec<i64>,
    /// Of each range.
    counts: Vec<usize>,
}

impl Aside {
    fn new(keys: usize) -> Aside {
        let ranges = keys.div_ceil(1 << RANGE_BITS);
        let [keys, values] = [(); 2].map(|()| {
            let rows = vec![0; ranges * ASIDE_ROWS];
            use_huge_pages(&rows);
            rows
        });
        Aside { keys, values, counts: vec![0; ranges] }
    }

    fn put(&mut self, totals: &mut [i64], (keys, values): KeyedRows<'_>) {
        for (key, value) in keys.iter().zip(values) {
            let range = (*key >> RANGE_BITS) as usize;
            let row = range * ASIDE_ROWS + self.counts[range];
            (self.keys[row], self.values[row]) = (*key, *value);
            self.counts[range] += 1;
            if self.counts[range] == ASIDE_ROWS {
                self.add_range(totals, range);
            }
        }
    }

    fn add_range(&mut self, totals: &mut [i64], range: usize) {
        let rows = range * ASIDE_ROWS..range * ASIDE_ROWS + std::mem::take(&mut self.counts[range]);
        add(totals, (&self.keys[rows.clone()], &self.values[rows]));
    }

    fn add_all(&mut self, totals: &mut [i64]) {
        (0..self.counts.len()).for_each(|range| self.add_range(totals, range));
    }
}

fn most_frequent(keys: &[i64]) -> i64 {
    let mut sample: Vec<i64> = keys.iter().step_by((keys.len() / SAMPLE_ROWS).max(1)).copied().collect();
    sample.sort_unstable();
    let runs = sample.chunk_by(|a, b| a == b);
    runs.max_by_key(|run| run.len()).map_or(0, |run| run[0])
}

fn rows(totals: impl Iterator<Item = i64>) -> Vec<(i64, i64)> {
    (0..).zip(totals).filter(|(_, total)| *total != 0).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, TimestampMillisecondArray};
    use pelton_data::TimeColumn;

    use super::*;

    const ROWS: i64 = 200_000;
    const KEYS: i64 = 1000;

    fn key(row: i64) -> i64 {
        if row % 3 == 0 { 17 } else { row * 7919 % KEYS }
    }

    fn block(rows: Range<i64>) -> Block {
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.clone().map(key)));
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| row + 1)));
        let times: ArrayRef = Arc::new(TimestampMillisecondArray::from_iter_values(rows));
        let time = TimeColumn::new(2, times.data_type());
        Block::new(RecordBatch::try_from_iter(vec![("k", keys), ("v", values), ("t", times)]).unwrap(), time).unwrap()
    }

    #[test]
    fn all_ways_give_the_same_sums() {
        let mut expected: BTreeMap<Micros, BTreeMap<i64, i64>> = BTreeMap::new();
        for row in 0..ROWS {
            *expected.entry(row / 150_000 * 150_000_000).or_default().entry(key(row)).or_default() += row + 1;
        }
        let expected: Vec<Window<i64>> =
            expected.into_iter().map(|(start, groups)| (start, groups.into_iter().collect())).collect();
        let blocks = [block(0..90_000), block(90_000..ROWS)];
        for sharing in [
            Sharing::Each,
            Sharing::Asked,
            Sharing::Shared,
            Sharing::SharedAsked,
            Sharing::HotApart,
            Sharing::Partitioned,
        ] {
            for workers in [1, 2] {
                let found = sums(&blocks, (0, 1), KEYS as usize, 150_000_000, workers, sharing);
                assert_eq!(found, expected, "{sharing:?} with {workers}");
            }
        }
    }
}
