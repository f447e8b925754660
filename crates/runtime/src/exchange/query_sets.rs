//! Which of a group's predicates are true for each row, as a number: that of the row's query set (AStream).
//!
//! Predicates are evaluated a column at a time, so each has one bit for every row. These bits are transposed, so that each row has one bit for every predicate, and
//! equal sets get one number. Rows are grouped by that number, and a query finds its rows by a look at its bit of each set, of which there are few.

use std::collections::HashMap;

use arrow::buffer::BooleanBuffer;

/// The number of the set without any predicate.
#[cfg(test)]
const NO_QUERY: i64 = 0;

/// Sets that are found without hashing: a power of two.
const RECENT_SETS: usize = 1024;

const WORD_BITS: usize = 64;

/// The query sets of a chunk, in the order in which they were met.
pub(super) struct QuerySets {
    /// Words of a set, bit by bit a predicate each.
    width: usize,
    /// Set by set.
    words: Vec<u64>,
    numbers: HashMap<Vec<u64>, u32>,
    /// Numbers of sets by a hash of their words: the set of a row is mostly that of another one shortly before.
    recent: Vec<u32>,
}

impl QuerySets {
    /// Only the set of no query. There are so many predicates.
    pub fn new(predicates: usize) -> QuerySets {
        let width = predicates.div_ceil(WORD_BITS).max(1);
        let none = vec![0; width];
        let numbers = HashMap::from([(none.clone(), 0)]);
        QuerySets { width, words: none, numbers, recent: vec![0; RECENT_SETS] }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.words.len() / self.width
    }

    /// Of each set whether the predicate is in it.
    pub fn having(&self, predicate: usize) -> Vec<bool> {
        let has = |set: &[u64]| set[predicate / WORD_BITS] >> (predicate % WORD_BITS) & 1 == 1;
        self.words.chunks_exact(self.width).map(has).collect()
    }

    /// The set of each of so many rows, where these are the rows that each predicate is true for. Where there is none, it is true for no row.
    pub fn of_rows(&mut self, predicates: &[Option<BooleanBuffer>], rows: usize) -> Vec<i64> {
        let width = self.width;
        let words_of = |rows: &Option<BooleanBuffer>| match rows {
            Some(rows) => rows.bit_chunks().iter_padded().collect(),
            None => Vec::new(),
        };
        let by_predicate: Vec<Vec<u64>> = predicates.iter().map(words_of).collect();
        let mut by_row = vec![0_u64; width * WORD_BITS];
        let mut sets = Vec::with_capacity(rows);
        for first in (0..rows).step_by(WORD_BITS) {
            for (word, predicates) in by_predicate.chunks(WORD_BITS).enumerate() {
                let mut square = [0_u64; WORD_BITS];
                for (bits, rows) in square.iter_mut().zip(predicates) {
                    *bits = rows.get(first / WORD_BITS).copied().unwrap_or(0);
                }
                transpose(&mut square);
                square.iter().enumerate().for_each(|(row, bits)| by_row[row * width + word] = *bits);
            }
            let count = WORD_BITS.min(rows - first);
            sets.extend(by_row.chunks_exact(width).take(count).map(|set| i64::from(self.number(set))));
        }
        sets
    }

    fn number(&mut self, set: &[u64]) -> u32 {
        let mix = |hash: u64, word: &u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let hash = set.iter().fold(0, mix) >> (WORD_BITS - RECENT_SETS.trailing_zeros() as usize);
        let recent = self.recent[hash as usize];
        let first = recent as usize * self.width;
        if self.words[first..first + self.width] == *set {
            return recent;
        }
        let number = match self.numbers.get(set) {
            Some(number) => *number,
            None => {
                let number = self.count() as u32;
                self.words.extend(set);
                self.numbers.insert(set.to_vec(), number);
                number
            }
        };
        self.recent[hash as usize] = number;
        number
    }
}

/// Transposes 64 by 64 bits: bit `i` of word `j` becomes bit `j` of word `i` (Hacker's Delight, section 7-3).
fn transpose(square: &mut [u64; WORD_BITS]) {
    let mut distance = WORD_BITS / 2;
    let mut mask = u64::MAX >> distance;
    while distance > 0 {
        for word in (0..WORD_BITS).filter(|word| word & distance == 0) {
            let swapped = ((square[word] >> distance) ^ square[word | distance]) & mask;
            square[word] ^= swapped << distance;
            square[word | distance] ^= swapped;
        }
        distance /= 2;
        mask ^= mask << distance;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_the_set_of_the_predicates_that_are_true_for_it() {
        for predicates in [1, 3, 64, 65, 200] {
            let rows = 1_000;
            let holds = |predicate: usize, row: usize| (row * 7 + predicate * 13) % 31 < predicate % 17;
            let buffers: Vec<_> = (0..predicates)
                .map(|predicate| {
                    let rows = || BooleanBuffer::collect_bool(rows, |row| holds(predicate, row));
                    (predicate % 5 != 4).then(rows)
                })
                .collect();
            let mut sets = QuerySets::new(predicates);
            let of_rows = sets.of_rows(&buffers, rows);
            assert_eq!(of_rows.len(), rows);
            for predicate in 0..predicates {
                let having = sets.having(predicate);
                for (row, set) in of_rows.iter().enumerate() {
                    let expected = predicate % 5 != 4 && holds(predicate, row);
                    assert_eq!(having[*set as usize], expected, "predicate {predicate} of {predicates}, row {row}");
                }
            }
            assert!(sets.count() <= 32, "rows of one remainder have one set, and there is the empty one");
            let is_empty = |row: usize| (0..predicates).all(|predicate| predicate % 5 == 4 || !holds(predicate, row));
            assert!(of_rows.iter().enumerate().all(|(row, set)| (*set == NO_QUERY) == is_empty(row)));
        }
    }
}
