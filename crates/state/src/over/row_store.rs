//! Rows of one key, column by column: only the columns that are looked back at, contiguous in chunks, 8 bytes for a double and no more.
//!
//! (Mendes, Bizarro, Marques: section 3.4, the column store with projection, and 3.5, appended in runs that fit a cache.) Where a
//! whole chunk lies side by side in a column that came, it stays there: what is long ago would leave the cache twice, once to be kept and once to be looked back at.

use std::collections::VecDeque;
use std::ops::Range;

use arrow::array::{Array, ArrowPrimitiveType, PrimitiveArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::ArrowNativeType;

use crate::snapshot::{Reader, SnapshotError, Writer};

/// Rows of a chunk, at most.
const CHUNK_ROWS_MAX: u64 = 1024;

/// Rows of a chunk, at least.
const CHUNK_ROWS_MIN: u64 = 8;

/// A chunk of fewer rows is copied from its column: this costs less than to hold the column.
const SHARED_ROWS_MIN: usize = 256;

/// A column that is held takes at most so many times the bytes of its values.
const SHARED_BYTES_RATIO_MAX: usize = 2;

/// Values of one column, by the position of their row among all rows of the key. Values at the front can be forgotten.
#[derive(Debug)]
pub(super) struct ColumnStore<T: ArrowNativeType> {
    /// A chunk has `1 << shift` rows; chunk `n` begins at position `n << shift`.
    shift: u32,
    chunks: VecDeque<Chunk<T>>,
    /// Number of the first chunk.
    first: u64,
    /// One past the last position.
    end: u64,
    /// Whether a bit is kept for each value.
    nullable: bool,
    /// A chunk that was emptied, for the next one.
    spare: Option<Chunk<T>>,
}

#[derive(Debug)]
struct Chunk<T: ArrowNativeType> {
    values: Values<T>,
    /// One bit for each value, set where it is not NULL.
    valid: Vec<u64>,
}

#[derive(Debug)]
enum Values<T: ArrowNativeType> {
    Copied(Vec<T>),
    /// A part of a column, and how many bytes are held for it.
    Shared(ScalarBuffer<T>, usize),
}

impl<T: ArrowNativeType> std::ops::Deref for Values<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Values::Copied(values) => values,
            Values::Shared(values, _) => values,
        }
    }
}

/// Values that come side by side.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coming<'a, T: ArrowNativeType> {
    pub values: &'a ScalarBuffer<T>,
    /// Which are NULL: these are kept as zeros.
    pub nulls: Option<&'a NullBuffer>,
    /// Whether all of the column is of one key.
    pub is_whole: bool,
}

impl<T: ArrowNativeType> ColumnStore<T> {
    /// An empty store in which about `rows` rows will be looked back at, where that is known.
    pub fn new(nullable: bool, rows: Option<u64>) -> ColumnStore<T> {
        let rows = rows
            .map_or(CHUNK_ROWS_MIN * 16, |rows| (rows / 2).clamp(CHUNK_ROWS_MIN, CHUNK_ROWS_MAX).next_power_of_two());
        ColumnStore { shift: rows.trailing_zeros(), chunks: VecDeque::new(), first: 0, end: 0, nullable, spare: None }
    }

    /// Adds some rows of the values that come.
    pub fn append(&mut self, coming: Coming<'_, T>, rows: Range<usize>) {
        let chunk_rows = 1 << self.shift;
        let mut row = rows.start;
        while row < rows.end {
            let offset = (self.end & ((1 << self.shift) - 1)) as usize;
            let count = (chunk_rows - offset).min(rows.end - row);
            if count == chunk_rows && coming.can_be_shared(count) {
                let mut chunk = coming.shared(row, count);
                if self.nullable {
                    chunk.valid.resize(count / 64, u64::MAX);
                }
                self.chunks.push_back(chunk);
            } else {
                if offset == 0 {
                    let chunk = self.new_chunk();
                    self.chunks.push_back(chunk);
                }
                let chunk = self.chunks.back_mut().expect("a chunk was just added where there was no room");
                chunk.copied().extend_from_slice(&coming.values[row..row + count]);
                if self.nullable {
                    chunk.append_bits(offset, coming.nulls, row, count);
                }
            }
            self.end += count as u64;
            row += count;
        }
    }

    fn new_chunk(&mut self) -> Chunk<T> {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        // A key's first chunk grows with its rows: most keys may have few.
        let rows = if self.end == 0 { 0 } else { 1 << self.shift };
        Chunk { values: Values::Copied(Vec::with_capacity(rows)), valid: Vec::new() }
    }

    /// The first position that was not forgotten.
    pub fn first(&self) -> u64 {
        self.first << self.shift
    }

    /// The value at a position that was appended and not forgotten.
    #[inline]
    pub fn get(&self, position: u64) -> T {
        self.chunk(position).values[(position & ((1 << self.shift) - 1)) as usize]
    }

    /// Whether the value at a position is not NULL.
    #[inline]
    pub fn is_valid(&self, position: u64) -> bool {
        if !self.nullable {
            return true;
        }
        let offset = position & ((1 << self.shift) - 1);
        self.chunk(position).valid[(offset / 64) as usize] >> (offset % 64) & 1 == 1
    }

    /// How many of the values from one position to before another are not NULL.
    #[inline]
    pub fn count_valid(&self, start: u64, end: u64) -> u64 {
        if !self.nullable {
            return end - start;
        }
        (start..end).map(|position| u64::from(self.is_valid(position))).sum()
    }

    /// How many of the values from a position on are not NULL.
    pub fn count_valid_from(&self, start: u64) -> u64 {
        self.count_valid(start, self.end)
    }

    /// The values from one position to before another, as slices.
    pub fn slices(&self, start: u64, end: u64) -> impl DoubleEndedIterator<Item = &[T]> {
        let chunks = if start < end { start >> self.shift..((end - 1) >> self.shift) + 1 } else { 0..0 };
        chunks.map(move |number| {
            let from = start.max(number << self.shift) - (number << self.shift);
            let to = end.min((number + 1) << self.shift) - (number << self.shift);
            &self.chunks[(number - self.first) as usize].values[from as usize..to as usize]
        })
    }

    #[inline]
    fn chunk(&self, position: u64) -> &Chunk<T> {
        &self.chunks[((position >> self.shift) - self.first) as usize]
    }

    /// Forgets values before a position, as far as whole chunks hold nothing else.
    pub fn forget(&mut self, until: u64) {
        while (self.first + 1) << self.shift <= until.min(self.end) {
            let Some(mut chunk) = self.chunks.pop_front() else { break };
            self.first += 1;
            if let Values::Copied(values) = &mut chunk.values {
                values.clear();
                chunk.valid.clear();
                self.spare = Some(chunk);
            }
        }
    }

    /// Writes the values that were not forgotten.
    pub fn write_to(&self, out: &mut Writer) {
        out.number(self.first << self.shift);
        out.number(self.end);
        self.chunks.iter().for_each(|chunk| out.column(&chunk.values));
        self.chunks.iter().filter(|_| self.nullable).for_each(|chunk| out.column(&chunk.valid));
    }

    /// Becomes what was written when there were so many rows. Returns the first position.
    pub fn read_from(&mut self, rows: u64, input: &mut Reader<'_>) -> Result<u64, SnapshotError> {
        let (start, end) = (input.number("the first row that is kept")?, input.number("the end of the rows")?);
        let is_right = start <= end && end == rows && start.is_multiple_of(1 << self.shift);
        input.check(is_right, "rows that are kept, to the last")?;
        let kept = usize::try_from(end - start).unwrap_or(usize::MAX);
        input.must_have(kept, size_of::<T>(), "values that are kept")?;
        (self.first, self.end) = (start >> self.shift, end);
        let chunk_rows = 1 << self.shift;
        let lengths = (0..kept).step_by(chunk_rows).map(|first| chunk_rows.min(kept - first));
        for length in lengths {
            let mut values = Vec::with_capacity(if start == 0 { length } else { chunk_rows });
            values.extend_from_slice(&input.column::<T>(length, "values that are kept")?);
            self.chunks.push_back(Chunk { values: Values::Copied(values), valid: Vec::new() });
        }
        for chunk in self.chunks.iter_mut().filter(|_| self.nullable) {
            let rows = chunk.values.len();
            chunk.valid = input.column(rows.div_ceil(64), "which values are NULL")?.to_vec();
            // Bits of rows that have not come are not set.
            if let (Some(last), 1..) = (chunk.valid.last_mut(), rows % 64) {
                *last &= (1 << (rows % 64)) - 1;
            }
        }
        Ok(start)
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        let chunk = |chunk: &Chunk<T>| {
            let values = match &chunk.values {
                Values::Copied(values) => values.capacity() * size_of::<T>(),
                Values::Shared(_, bytes) => *bytes,
            };
            size_of::<Chunk<T>>() + values + chunk.valid.capacity() * 8
        };
        self.chunks.iter().chain(&self.spare).map(chunk).sum()
    }
}

impl<'a, T: ArrowNativeType> Coming<'a, T> {
    /// Those of an array.
    pub fn of<A: ArrowPrimitiveType<Native = T>>(array: &'a PrimitiveArray<A>, is_whole: bool) -> Coming<'a, T> {
        Coming { values: array.values(), nulls: array.nulls().filter(|nulls| nulls.null_count() > 0), is_whole }
    }

    /// Whether so many of the values may be kept where they are: what is held for them is not much more.
    fn can_be_shared(&self, rows: usize) -> bool {
        let held = self.values.inner().capacity();
        self.is_whole
            && self.nulls.is_none()
            && rows >= SHARED_ROWS_MIN
            && held <= self.values.len() * size_of::<T>() * SHARED_BYTES_RATIO_MAX
    }

    fn shared(&self, row: usize, rows: usize) -> Chunk<T> {
        let bytes = self.values.inner().capacity() / self.values.len() * rows;
        Chunk { values: Values::Shared(self.values.slice(row, rows), bytes), valid: Vec::new() }
    }
}

impl<T: ArrowNativeType> Chunk<T> {
    /// The values, where they were copied.
    fn copied(&mut self) -> &mut Vec<T> {
        if let Values::Copied(values) = &mut self.values { values } else { unreachable!("a shared chunk is full") }
    }

    /// Notes which of the `count` values from `row` on are NULL, which begin at `offset` of the chunk.
    fn append_bits(&mut self, offset: usize, nulls: Option<&NullBuffer>, row: usize, count: usize) {
        self.valid.resize((offset + count).div_ceil(64), 0);
        for place in offset..offset + count {
            if nulls.is_none_or(|nulls| nulls.is_valid(row + place - offset)) {
                self.valid[place / 64] |= 1 << (place % 64);
            } else {
                self.copied()[place] = T::default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_position_until_they_are_forgotten() {
        let values: ScalarBuffer<i64> = (0..100).collect();
        let nulls: NullBuffer = values.iter().map(|value| value % 3 != 0).collect();
        let mut store = ColumnStore::new(true, Some(30));
        let coming = Coming { values: &values, nulls: Some(&nulls), is_whole: true };
        store.append(coming, 0..3);
        store.append(coming, 3..100);
        for position in 0..100 {
            let expected = if position % 3 == 0 { 0 } else { position as i64 };
            assert_eq!((store.get(position), store.is_valid(position)), (expected, position % 3 != 0));
        }
        store.forget(50);
        let expected: Vec<i64> = (50..100).map(|value| if value % 3 == 0 { 0 } else { value }).collect();
        assert_eq!(store.slices(50, 100).collect::<Vec<_>>().concat(), expected);
        assert_eq!(store.slices(60, 60).count(), 0);
        store.append(Coming { nulls: None, ..coming }, 7..8);
        assert_eq!((store.get(100), store.is_valid(100)), (7, true));
    }

    #[test]
    fn a_double_takes_eight_bytes() {
        for (batch_rows, is_whole) in [(1000, true), (8192, false), (8192, true)] {
            let rows = 1 << 20;
            let mut store = ColumnStore::new(false, Some(rows));
            let mut end = 0;
            while end < 3 * rows {
                let values = ScalarBuffer::from(vec![end as f64; batch_rows]);
                store.append(Coming { values: &values, nulls: None, is_whole }, 0..batch_rows);
                end += batch_rows as u64;
                store.forget(end.saturating_sub(rows));
            }
            assert!((store.bytes() as f64) < 8.1 * rows as f64, "{}", store.bytes() as f64 / rows as f64);
            assert_eq!(store.get(end - 1), (end - batch_rows as u64) as f64);
        }
    }

    #[test]
    fn a_column_that_is_part_of_a_larger_one_is_not_held() {
        let values = ScalarBuffer::from(vec![1_i64; 100_000]).slice(0, 1024);
        let mut store = ColumnStore::new(false, Some(2048));
        store.append(Coming { values: &values, nulls: None, is_whole: true }, 0..1024);
        assert!(store.bytes() < 10_000, "{}", store.bytes());
        assert_eq!(store.slices(0, 1024).collect::<Vec<_>>().concat(), [1; 1024]);
    }
}
