//! Hopping windows over slices: each row is added to its slice once, and windows are put together incrementally, by subtracting what leaves
//! or by two stacks.

use std::ops::{AddAssign, Range};

use pelton_data::{Block, Micros, time};

use super::{floats, integers};

/// One window: its end and its value.
pub type Window<V> = (Micros, V);

/// Groups that [`sums_by_key`] knows: keys are from 0 to this, exclusive.
pub const KEYS: usize = 4;

/// Sums of partial results that are added to at a time: a chain of additions would wait for each.
const LANES: usize = 8;

/// Windows handed on at a time.
const WINDOWS_AT_ONCE: usize = 1 << 12;

/// Windows on their way to whoever takes them: some at a time, in the same memory.
struct Closed<V, T> {
    windows: Vec<Window<V>>,
    take: T,
}

impl<V, T: FnMut(&[Window<V>])> Closed<V, T> {
    fn new(take: T) -> Closed<V, T> {
        Closed { windows: Vec::with_capacity(WINDOWS_AT_ONCE), take }
    }

    fn push(&mut self, window: Window<V>) {
        self.windows.push(window);
        if self.windows.len() == WINDOWS_AT_ONCE {
            self.leave();
        }
    }

    fn leave(&mut self) {
        (self.take)(&self.windows);
        self.windows.clear();
    }
}

/// Lengths of windows whose size is a multiple of their slide.
#[derive(Debug, Clone, Copy)]
pub struct Lengths {
    /// From start to start.
    pub slide: Micros,
    /// Slides in a window.
    pub slides: usize,
}

/// SUM of the integers `value` over hopping windows of rows in order of time. `take` gets the windows, some at a time.
pub fn sums(blocks: &[Block], value: usize, lengths: Lengths, take: impl FnMut(&[Window<i64>])) {
    let (mut ring, mut at) = (vec![0; lengths.slides], 0);
    let (mut slice, mut running) = (0_i64, 0_i64);
    let mut windows = Closed::new(take);
    let mut close = |slice: &mut i64, end| {
        running = running.wrapping_add(*slice).wrapping_sub(ring[at]);
        ring[at] = std::mem::take(slice);
        at = if at + 1 == ring.len() { 0 } else { at + 1 };
        windows.push((end, running));
    };
    slices(
        blocks,
        lengths,
        &mut slice,
        |slice, block, rows| {
            *slice = integers(block, value)[rows].iter().fold(*slice, |sum, value| sum.wrapping_add(*value));
        },
        &mut close,
    );
    windows.leave();
}

/// Sum and count.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Mean {
    pub(super) sum: f64,
    pub(super) count: u64,
}

impl AddAssign<&Mean> for Mean {
    fn add_assign(&mut self, other: &Mean) {
        self.sum += other.sum;
        self.count += other.count;
    }
}

/// AVG of the floating-point `value`, as [`sums`].
pub fn averages(blocks: &[Block], value: usize, lengths: Lengths, take: impl FnMut(&[Window<f64>])) {
    let mut stacks = TwoStacks::new(lengths.slides);
    let mut slice = Mean::default();
    let mut windows = Closed::new(take);
    let mut close = |slice: &mut Mean, end| {
        let window = stacks.slide(std::mem::take(slice));
        windows.push((end, window.sum / window.count as f64));
    };
    slices(
        blocks,
        lengths,
        &mut slice,
        |slice, block, rows| {
            let values = &floats(block, value)[rows];
            let mut lanes = [0.0; LANES];
            let chunks = values.chunks_exact(LANES);
            let rest: f64 = chunks.remainder().iter().sum();
            for chunk in chunks {
                lanes.iter_mut().zip(chunk).for_each(|(lane, value)| *lane += value);
            }
            *slice += &Mean { sum: lanes.iter().sum::<f64>() + rest, count: values.len() as u64 };
        },
        &mut close,
    );
    windows.leave();
}

/// Sums and counts of all keys.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sums([Mean; KEYS]);

impl AddAssign<&Sums> for Sums {
    fn add_assign(&mut self, other: &Sums) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, other)| *mine += other);
    }
}

/// SUM of the floating-point `value` by the integer `key`, as [`sums`]. Keys without rows have no sum.
///
/// # Panics
/// Where a key is not below [`KEYS`].
pub fn sums_by_key(
    blocks: &[Block],
    (key, value): (usize, usize),
    lengths: Lengths,
    take: impl FnMut(&[Window<[Option<f64>; KEYS]>]),
) {
    let mut stacks = TwoStacks::new(lengths.slides);
    let mut slice = Sums::default();
    let mut windows = Closed::new(take);
    let mut close = |slice: &mut Sums, end| {
        let window = stacks.slide(std::mem::take(slice));
        windows.push((end, window.0.map(|group| Some(group.sum).filter(|_| group.count > 0))));
    };
    slices(
        blocks,
        lengths,
        &mut slice,
        |slice, block, rows| {
            let (keys, values) = (&integers(block, key)[rows.clone()], &floats(block, value)[rows]);
            for (key, value) in keys.iter().zip(values) {
                slice.0[*key as usize] += &Mean { sum: *value, count: 1 };
            }
        },
        &mut close,
    );
    windows.leave();
}

/// Suffixes of older slices and a prefix of younger ones, of as many slices as a window has.
pub(super) struct TwoStacks<P> {
    /// The oldest is the last.
    suffixes: Vec<P>,
    younger: Vec<P>,
    prefix: P,
    slides: usize,
}

impl<P: Clone + Default + for<'a> AddAssign<&'a P>> TwoStacks<P> {
    pub(super) fn new(slides: usize) -> TwoStacks<P> {
        // Before the first slice there were empty ones.
        let suffixes = vec![P::default(); slides];
        TwoStacks { suffixes, younger: Vec::with_capacity(slides), prefix: P::default(), slides }
    }

    /// Evicts the oldest slice, inserts one, and gives the window.
    pub(super) fn slide(&mut self, slice: P) -> P {
        if self.suffixes.is_empty() {
            self.flip();
        }
        self.suffixes.pop();
        self.prefix += &slice;
        self.younger.push(slice);
        let mut window = self.suffixes.last().cloned().unwrap_or_default();
        window += &self.prefix;
        window
    }

    fn flip(&mut self) {
        debug_assert_eq!(self.younger.len(), self.slides);
        let mut suffix = P::default();
        for slice in self.younger.drain(..).rev() {
            suffix += &slice;
            self.suffixes.push(suffix.clone());
        }
        self.prefix = P::default();
    }
}

/// Visits the rows of each slice, then closes the window that ends with it; after the last row, those that still have rows. `slice` is
/// what both work on.
pub(super) fn slices<S>(
    blocks: &[Block],
    lengths: Lengths,
    slice: &mut S,
    mut visit: impl FnMut(&mut S, &Block, Range<usize>),
    close: &mut impl FnMut(&mut S, Micros),
) {
    let mut open: Option<Micros> = None;
    for block in blocks {
        let Some(column) = block.time_column() else { continue };
        let (ticks, shift) = (integers(block, column.index), block.time_shift_ticks());
        let micros = |tick: i64| (tick + shift) * column.micros_per_tick;
        let mut row = 0;
        while row < ticks.len() {
            let first_end = || time::slice_start(micros(ticks[row]), lengths.slide, 0) + lengths.slide;
            let end = *open.get_or_insert_with(first_end);
            let is_last = micros(ticks[ticks.len() - 1]) < end;
            let rows =
                if is_last { ticks.len() - row } else { ticks[row..].partition_point(|&tick| micros(tick) < end) };
            visit(slice, block, row..row + rows);
            row += rows;
            if row < ticks.len() {
                close(slice, end);
                open = Some(end + lengths.slide);
            }
        }
    }
    if let Some(end) = open {
        (0..lengths.slides as i64).for_each(|later| close(slice, end + later * lengths.slide));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, TimestampMillisecondArray};
    use pelton_data::TimeColumn;

    use super::*;

    const ROWS: i64 = 3_000;
    const LENGTHS: Lengths = Lengths { slide: 100_000, slides: 7 };

    fn row(number: i64) -> (i64, i64, i64) {
        (number * 3, (number * 7 / 3) % 3, (number * 31) % 101)
    }

    /// Columns key, value, float, time in milliseconds; 400 rows a block.
    fn blocks() -> Vec<Block> {
        let block = |first: i64| {
            let rows = || (first..(first + 400).min(ROWS)).map(row);
            let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(rows().map(|row| row.1)));
            let values: ArrayRef = Arc::new(Int64Array::from_iter_values(rows().map(|row| row.2)));
            let floats: ArrayRef = Arc::new(Float64Array::from_iter_values(rows().map(|row| row.2 as f64)));
            let times: ArrayRef = Arc::new(TimestampMillisecondArray::from_iter_values(rows().map(|row| row.0)));
            let time = TimeColumn::new(3, times.data_type());
            let columns = [("key", keys), ("value", values), ("float", floats), ("time", times)];
            Block::new(RecordBatch::try_from_iter(columns).unwrap(), time).unwrap()
        };
        (0..ROWS).step_by(400).map(block).collect()
    }

    /// The rows of each window, by its end.
    fn windows() -> BTreeMap<Micros, Vec<(i64, i64, i64)>> {
        let mut windows: BTreeMap<Micros, Vec<_>> = BTreeMap::new();
        for row in (0..ROWS).map(row) {
            let first_end = (row.0 / 100 + 1) * LENGTHS.slide;
            for later in 0..LENGTHS.slides as i64 {
                windows.entry(first_end + later * LENGTHS.slide).or_default().push(row);
            }
        }
        windows
    }

    #[test]
    fn windows_of_slices_are_windows_of_rows() {
        fn collected<V: Clone>(run: impl FnOnce(&mut dyn FnMut(&[Window<V>]))) -> Vec<Window<V>> {
            let mut found = Vec::new();
            run(&mut |windows| found.extend_from_slice(windows));
            found
        }
        let sum = |rows: &[(i64, i64, i64)]| rows.iter().map(|row| row.2).sum::<i64>();
        let expected = windows();
        assert_eq!(
            collected(|take| sums(&blocks(), 1, LENGTHS, take)),
            expected.iter().map(|(end, rows)| (*end, sum(rows))).collect::<Vec<_>>()
        );
        let means = expected.iter().map(|(end, rows)| (*end, sum(rows) as f64 / rows.len() as f64));
        assert_eq!(collected(|take| averages(&blocks(), 2, LENGTHS, take)), means.collect::<Vec<_>>());
        let by_key = expected.iter().map(|(end, rows)| {
            let of = |key: usize| rows.iter().copied().filter(|row| row.1 == key as i64).collect::<Vec<_>>();
            (*end, std::array::from_fn(|key| Some(sum(&of(key)) as f64).filter(|_| !of(key).is_empty())))
        });
        assert_eq!(collected(|take| sums_by_key(&blocks(), (0, 2), LENGTHS, take)), by_key.collect::<Vec<_>>());
    }
}
