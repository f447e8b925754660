//! Hopping windows by several keys, of which each has a small range: a group's place among all that there may be is computed.

use std::collections::VecDeque;
use std::ops::{AddAssign, Range};

use pelton_data::{Block, Micros};

use super::hop::{Lengths, Mean, TwoStacks, slices};
use super::{floats, integers};

/// Results handed on at a time.
const BATCH_ROWS: usize = 1 << 13;

/// A key: a column of integers, divided by a constant, from 0 on.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The column.
    pub column: usize,
    /// What its values are divided by; they are not negative.
    pub divisor: i64,
    /// Keys there are: from 0 to this, exclusive.
    pub keys: usize,
}

/// Results in columns, as those of a query are.
#[derive(Debug)]
pub struct Rows<V> {
    /// The end of each one's window.
    pub ends: Vec<Micros>,
    /// Its keys.
    pub keys: Vec<Vec<i64>>,
    /// Its value.
    pub values: Vec<V>,
}

impl<V> Rows<V> {
    fn new(keys: usize) -> Rows<V> {
        Rows { ends: Vec::new(), keys: vec![Vec::new(); keys], values: Vec::new() }
    }

    /// Has a batch taken where there is one, or what there is at last.
    fn leave(&mut self, is_last: bool, take: &mut impl FnMut(&mut Rows<V>)) {
        if is_last || self.values.len() >= BATCH_ROWS {
            take(self);
            self.ends.clear();
            self.keys.iter_mut().for_each(Vec::clear);
            self.values.clear();
        }
    }
}

/// The keys of a place.
fn keys_of(place: usize, keys: &[Key], mut take: impl FnMut(usize, i64)) {
    keys.iter().enumerate().rev().fold(place, |place, (index, key)| {
        take(index, (place % key.keys) as i64);
        place / key.keys
    });
}

/// The place of each row's group among all, the first key changing slowest.
fn places(block: &Block, keys: &[Key], rows: Range<usize>, places: &mut Vec<u32>) {
    places.clear();
    places.resize(rows.len(), 0);
    for key in keys {
        let values = &integers(block, key.column)[rows.clone()];
        let count = key.keys as u32;
        match key.divisor {
            1 => places.iter_mut().zip(values).for_each(|(place, value)| *place = *place * count + *value as u32),
            divisor => {
                // Dividing 32 bits is quicker, and the values have no more.
                let divisor = divisor as u32;
                let divided = values.iter().map(|value| *value as u32 / divisor);
                places.iter_mut().zip(divided).for_each(|(place, key)| *place = *place * count + key);
            }
        }
    }
}

/// Sums and counts of all groups; none at all before the first.
#[derive(Debug, Clone, Default)]
struct Means(Vec<Mean>);

impl AddAssign<&Means> for Means {
    fn add_assign(&mut self, other: &Means) {
        if self.0.is_empty() {
            self.0.clone_from(&other.0);
        } else {
            self.0.iter_mut().zip(&other.0).for_each(|(mine, other)| *mine += other);
        }
    }
}

/// AVG of the floating-point `value` by keys over hopping windows of rows in order of time: of the rows whose column `filter.0` is `filter.1`, all where
/// there is none, and of the averages those `below` a bound. `take` gets the results, batch by batch.
///
/// # Panics
/// Where a key is out of its range.
pub fn averages(
    blocks: &[Block],
    (keys, value): (&[Key], usize),
    filter: Option<(usize, i64)>,
    below: f64,
    lengths: Lengths,
    mut take: impl FnMut(&mut Rows<f64>),
) {
    let groups: usize = keys.iter().map(|key| key.keys).product();
    let mut keys_by_place = vec![vec![0; groups]; keys.len()];
    (0..groups).for_each(|place| keys_of(place, keys, |index, key| keys_by_place[index][place] = key));
    let mut stacks = TwoStacks::new(lengths.slides);
    let mut slice = Means(vec![Mean::default(); groups]);
    let (mut reported, mut averages) = (vec![0_u32; groups], vec![0.0; groups]);
    let mut rows_out = Rows::new(keys.len());
    let mut found = Vec::new();
    let mut close = |slice: &mut Means, end| {
        let window = stacks.slide(std::mem::replace(slice, Means(vec![Mean::default(); groups])));
        // Which groups are reported is hardly foreseen: each is written, and those that are not by the next.
        let mut count = 0;
        for (place, mean) in (0..).zip(&window.0) {
            let average = mean.sum / mean.count as f64;
            (reported[count], averages[count]) = (place, average);
            count += usize::from(mean.count > 0 && average < below);
        }
        rows_out.ends.resize(rows_out.ends.len() + count, end);
        for (column, by_place) in rows_out.keys.iter_mut().zip(&keys_by_place) {
            match count == groups {
                true => column.extend_from_slice(by_place),
                false => column.extend(reported[..count].iter().map(|&place| by_place[place as usize])),
            }
        }
        rows_out.values.extend_from_slice(&averages[..count]);
        rows_out.leave(false, &mut take);
    };
    let visit = |slice: &mut Means, block: &Block, rows: Range<usize>| {
        let values = &floats(block, value)[rows.clone()];
        if let Some((column, wanted)) = filter {
            let tested = &integers(block, column)[rows.clone()];
            for row in (0..rows.len()).filter(|&row| tested[row] == wanted) {
                places(block, keys, rows.start + row..rows.start + row + 1, &mut found);
                slice.0[found[0] as usize] += &Mean { sum: values[row], count: 1 };
            }
            return;
        }
        places(block, keys, rows, &mut found);
        for (place, value) in found.iter().zip(values) {
            slice.0[*place as usize] += &Mean { sum: *value, count: 1 };
        }
    };
    slices(blocks, lengths, &mut slice, visit, &mut close);
    rows_out.leave(true, &mut take);
}

/// COUNT(*) by keys over hopping windows of rows in order of time. `take` gets the results, batch by batch.
///
/// # Panics
/// Where a key is out of its range.
pub fn counts(blocks: &[Block], keys: &[Key], lengths: Lengths, mut take: impl FnMut(&mut Rows<i64>)) {
    let groups: usize = keys.iter().map(|key| key.keys).product();
    // The groups of each slice's rows, oldest first; of those that have rows in the window the place, keys and count; and where each is among them.
    let mut ring = VecDeque::from(vec![Vec::new(); lengths.slides]);
    let (mut live, mut live_keys, mut counts) = (Vec::<u32>::new(), vec![Vec::new(); keys.len()], Vec::<i64>::new());
    let mut at = vec![u32::MAX; groups];
    let mut rows_out = Rows::new(keys.len());
    let mut close = |slice: &mut Vec<u32>, end| {
        let mut oldest = ring.pop_front().expect("there are as many slices as slides");
        for &place in &oldest {
            let index = at[place as usize] as usize;
            counts[index] -= 1;
            if counts[index] == 0 {
                live.swap_remove(index);
                for keys in &mut live_keys {
                    keys.swap_remove(index);
                }
                counts.swap_remove(index);
                at[place as usize] = u32::MAX;
                if let Some(&moved) = live.get(index) {
                    at[moved as usize] = index as u32;
                }
            }
        }
        for &place in slice.iter() {
            let index = &mut at[place as usize];
            if *index == u32::MAX {
                *index = live.len() as u32;
                live.push(place);
                keys_of(place as usize, keys, |key, value| live_keys[key].push(value));
                counts.push(0);
            }
            counts[*index as usize] += 1;
        }
        rows_out.ends.resize(rows_out.ends.len() + live.len(), end);
        rows_out.keys.iter_mut().zip(&live_keys).for_each(|(column, keys)| column.extend_from_slice(keys));
        rows_out.values.extend_from_slice(&counts);
        oldest.clear();
        ring.push_back(std::mem::replace(slice, oldest));
        rows_out.leave(false, &mut take);
    };
    let mut found = Vec::new();
    let visit = |slice: &mut Vec<u32>, block: &Block, rows: Range<usize>| {
        places(block, keys, rows, &mut found);
        slice.extend_from_slice(&found);
    };
    slices(blocks, lengths, &mut Vec::new(), visit, &mut close);
    rows_out.leave(true, &mut take);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, TimestampMillisecondArray};
    use pelton_data::TimeColumn;

    use super::*;

    const ROWS: i64 = 2_000;
    const LENGTHS: Lengths = Lengths { slide: 100_000, slides: 7 };
    const KEYS: [Key; 2] = [Key { column: 0, divisor: 1, keys: 3 }, Key { column: 1, divisor: 10, keys: 11 }];

    /// Time in milliseconds, two keys, a value.
    fn row(number: i64) -> (i64, i64, i64, f64) {
        (number * 3, (number * 7 / 3) % 3, (number * 31) % 101, (number * 17 % 64) as f64)
    }

    fn blocks() -> Vec<Block> {
        let block = |first: i64| {
            let rows = || (first..(first + 400).min(ROWS)).map(row);
            let column = |of: fn((i64, i64, i64, f64)) -> i64| -> ArrayRef {
                Arc::new(Int64Array::from_iter_values(rows().map(of)))
            };
            let values: ArrayRef = Arc::new(Float64Array::from_iter_values(rows().map(|row| row.3)));
            let times: ArrayRef = Arc::new(TimestampMillisecondArray::from_iter_values(rows().map(|row| row.0)));
            let time = TimeColumn::new(3, times.data_type());
            let columns = [("a", column(|row| row.1)), ("b", column(|row| row.2)), ("v", values), ("t", times)];
            Block::new(RecordBatch::try_from_iter(columns).unwrap(), time).unwrap()
        };
        (0..ROWS).step_by(400).map(block).collect()
    }

    /// The values of each window and group.
    fn windows(filter: impl Fn(i64) -> bool) -> BTreeMap<(Micros, u32), Vec<f64>> {
        let mut windows: BTreeMap<(Micros, u32), Vec<f64>> = BTreeMap::new();
        for (time, first, second, value) in (0..ROWS).map(row).filter(|row| filter(row.1)) {
            for later in 1..=LENGTHS.slides as i64 {
                let group = (first * 11 + second / 10) as u32;
                windows.entry(((time / 100 + later) * LENGTHS.slide, group)).or_default().push(value);
            }
        }
        windows
    }

    fn collected<V: Copy>(run: impl FnOnce(&mut dyn FnMut(&mut Rows<V>))) -> BTreeMap<(Micros, u32), V> {
        let mut found = BTreeMap::new();
        run(&mut |rows| {
            for (row, end) in rows.ends.iter().enumerate() {
                let group = (rows.keys[0][row] * 11 + rows.keys[1][row]) as u32;
                assert!(found.insert((*end, group), rows.values[row]).is_none());
            }
        });
        found
    }

    #[test]
    fn averages_are_those_of_the_rows() {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        for (filter, below) in [(None, f64::INFINITY), (Some((0, 1)), f64::INFINITY), (None, 30.0)] {
            let found = collected(|take| averages(&blocks(), (&KEYS, 2), filter, below, LENGTHS, take));
            let expected = windows(|first| filter.is_none_or(|(_, wanted)| first == wanted));
            let expected = expected.iter().map(|(group, values)| (*group, mean(values)));
            assert_eq!(found, expected.filter(|(_, mean)| *mean < below).collect());
        }
    }

    #[test]
    fn counts_are_those_of_the_rows() {
        let found = collected(|take| counts(&blocks(), &KEYS, LENGTHS, take));
        let expected = windows(|_| true);
        assert_eq!(found, expected.iter().map(|(group, values)| (*group, values.len() as i64)).collect());
    }
}
