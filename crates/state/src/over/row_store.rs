//! Rows of one key, column by column: only the columns that are looked back at, contiguous in chunks, 8 bytes for a double and no more.
//!
//! (Mendes, Bizarro, Marques: section 3.4, the column store with projection, and 3.5, appended in runs that fit a cache.)

use std::collections::VecDeque;

use arrow::buffer::NullBuffer;

/// Rows of a chunk, at most.
const CHUNK_ROWS_MAX: u64 = 1024;

/// Rows of a chunk, at least.
const CHUNK_ROWS_MIN: u64 = 8;

/// Values of one column, by the position of their row among all rows of the key. Values at the front can be forgotten.
#[derive(Debug)]
pub(super) struct ColumnStore<T> {
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
struct Chunk<T> {
    values: Vec<T>,
    /// One bit for each value, set where it is not NULL.
    valid: Vec<u64>,
}

impl<T: Copy + Default> ColumnStore<T> {
    /// An empty store in which about `rows` rows will be looked back at, where that is known.
    pub fn new(nullable: bool, rows: Option<u64>) -> ColumnStore<T> {
        let rows = rows
            .map_or(CHUNK_ROWS_MIN * 16, |rows| (rows / 2).clamp(CHUNK_ROWS_MIN, CHUNK_ROWS_MAX).next_power_of_two());
        ColumnStore { shift: rows.trailing_zeros(), chunks: VecDeque::new(), first: 0, end: 0, nullable, spare: None }
    }

    /// Adds `values[rows]`, of which `nulls` says which are NULL: these are kept as zeros.
    pub fn append(&mut self, values: &[T], nulls: Option<&NullBuffer>, rows: std::ops::Range<usize>) {
        let mut row = rows.start;
        while row < rows.end {
            let offset = (self.end & ((1 << self.shift) - 1)) as usize;
            if offset == 0 {
                let chunk = self.new_chunk();
                self.chunks.push_back(chunk);
            }
            let chunk = self.chunks.back_mut().expect("a chunk was just added where there was no room");
            let count = ((1 << self.shift) - offset).min(rows.end - row);
            chunk.values.extend_from_slice(&values[row..row + count]);
            if self.nullable {
                chunk.append_bits(offset, nulls, row, count);
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
        Chunk { values: Vec::with_capacity(rows), valid: Vec::new() }
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
            chunk.values.clear();
            chunk.valid.clear();
            self.spare = Some(chunk);
            self.first += 1;
        }
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        let chunk = |chunk: &Chunk<T>| {
            size_of::<Chunk<T>>() + chunk.values.capacity() * size_of::<T>() + chunk.valid.capacity() * 8
        };
        self.chunks.iter().chain(&self.spare).map(chunk).sum()
    }
}

impl<T: Copy + Default> Chunk<T> {
    /// Notes which of the `count` values from `row` on are NULL, which begin at `offset` of the chunk.
    fn append_bits(&mut self, offset: usize, nulls: Option<&NullBuffer>, row: usize, count: usize) {
        self.valid.resize((offset + count).div_ceil(64), 0);
        for place in offset..offset + count {
            if nulls.is_none_or(|nulls| nulls.is_valid(row + place - offset)) {
                self.valid[place / 64] |= 1 << (place % 64);
            } else {
                self.values[place] = T::default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_position_until_they_are_forgotten() {
        let values: Vec<i64> = (0..100).collect();
        let nulls: NullBuffer = values.iter().map(|value| value % 3 != 0).collect();
        let mut store = ColumnStore::new(true, Some(30));
        store.append(&values, Some(&nulls), 0..3);
        store.append(&values, Some(&nulls), 3..100);
        for position in 0..100 {
            let expected = if position % 3 == 0 { 0 } else { position as i64 };
            assert_eq!((store.get(position), store.is_valid(position)), (expected, position % 3 != 0));
        }
        store.forget(50);
        let expected: Vec<i64> = (50..100).map(|value| if value % 3 == 0 { 0 } else { value }).collect();
        assert_eq!(store.slices(50, 100).collect::<Vec<_>>().concat(), expected);
        assert_eq!(store.slices(60, 60).count(), 0);
        store.append(&values, None, 7..8);
        assert_eq!((store.get(100), store.is_valid(100)), (7, true));
    }

    #[test]
    fn a_double_takes_eight_bytes() {
        let rows = 1 << 20;
        let values = vec![1.5_f64; 1000];
        let mut store = ColumnStore::new(false, Some(rows));
        let mut end = 0;
        while end < 3 * rows {
            store.append(&values, None, 0..1000);
            end += 1000;
            store.forget(end.saturating_sub(rows));
        }
        assert!((store.bytes() as f64) < 8.1 * rows as f64, "{}", store.bytes() as f64 / rows as f64);
    }
}
