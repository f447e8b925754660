//! Joins of a stream with a table of integers, whose keys are there once: rows are looked up in an array or a hash table of huge pages, whose lines are
//! asked for some rows before.

use pelton_data::Block;

use super::integers;
use super::sums::{prefetch, use_huge_pages};

/// Rows before its own in which a row's line of the table is asked for.
const ROWS_AHEAD: usize = 64;

/// A value for each key.
pub enum Table {
    /// The values of all keys from `first` on.
    Dense {
        /// The lowest key.
        first: i64,
        /// Value by value.
        values: Vec<i64>,
    },
    /// Keys with their values at the places where their hashes put them, or behind.
    Hashed {
        /// A power of two; no more than three fifths are used.
        entries: Vec<Entry>,
        /// What the hash is shifted by.
        shift: u32,
    },
}

/// A place of a hash table.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    key: i64,
    value: i64,
}

/// The key of a place that has none.
const FREE: i64 = i64::MIN;

#[inline(always)]
fn place(key: i64, shift: u32) -> usize {
    ((key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> shift) as usize
}

impl Table {
    /// A table whose keys have hardly any gaps.
    ///
    /// # Panics
    /// Where there is no row.
    pub fn dense(rows: &[(i64, i64)]) -> Table {
        let (first, last) = rows.iter().fold((i64::MAX, i64::MIN), |(min, max), row| (min.min(row.0), max.max(row.0)));
        let count = usize::try_from(last - first + 1).expect("the table has rows");
        let mut values = Vec::with_capacity(count);
        use_huge_pages(values.spare_capacity_mut());
        values.resize(count, 0);
        rows.iter().for_each(|(key, value)| values[(key - first) as usize] = *value);
        Table::Dense { first, values }
    }

    /// A table of any keys.
    pub fn hashed(rows: &[(i64, i64)]) -> Table {
        let capacity = (rows.len().max(8) * 5 / 3).next_power_of_two();
        let shift = 64 - capacity.trailing_zeros();
        let mut entries = Vec::with_capacity(capacity);
        use_huge_pages(entries.spare_capacity_mut());
        entries.resize(capacity, Entry { key: FREE, value: 0 });
        for &(key, value) in rows {
            let mut at = place(key, shift);
            while entries[at].key != FREE {
                at = (at + 1) & (capacity - 1);
            }
            entries[at] = Entry { key, value };
        }
        Table::Hashed { entries, shift }
    }

    /// Looks up the rows of a block, and writes the keys of those that are in the table, their `value`s, and what the table has for them.
    pub fn probe(&self, block: &Block, (key, value): (usize, usize), output: &mut [Vec<i64>; 3]) {
        let (keys, values) = (integers(block, key), integers(block, value));
        output.iter_mut().for_each(Vec::clear);
        match self {
            Table::Dense { first, values: table } => {
                let ask = |key: i64| prefetch(table.as_ptr().wrapping_add((key - first) as usize));
                let find = |key: i64| table.get((key - first) as usize).copied();
                probe(keys, values, ask, find, output);
            }
            Table::Hashed { entries, shift } => {
                let ask = |key: i64| prefetch(&entries[place(key, *shift)]);
                let find = |key: i64| {
                    let mut at = place(key, *shift);
                    loop {
                        let entry = entries[at & (entries.len() - 1)];
                        if entry.key == key {
                            return Some(entry.value);
                        }
                        if entry.key == FREE {
                            return None;
                        }
                        at += 1;
                    }
                };
                probe(keys, values, ask, find, output);
            }
        }
    }
}

#[inline(always)]
fn probe(
    keys: &[i64],
    values: &[i64],
    ask: impl Fn(i64),
    find: impl Fn(i64) -> Option<i64>,
    output: &mut [Vec<i64>; 3],
) {
    keys.iter().take(ROWS_AHEAD).for_each(|&key| ask(key));
    for (row, (&key, &value)) in keys.iter().zip(values).enumerate() {
        if let Some(&ahead) = keys.get(row + ROWS_AHEAD) {
            ask(ahead);
        }
        if let Some(found) = find(key) {
            output[0].push(key);
            output[1].push(value);
            output[2].push(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::block_of;
    use super::*;

    #[test]
    fn rows_that_are_in_the_table() {
        let table: Vec<(i64, i64)> = (100..1_100).map(|key| (key, key * key)).collect();
        let rows: Vec<(i64, i64, i64)> = (0..3_000).map(|row| (row, row * 7 % 1_500, row)).collect();
        let expected: Vec<(i64, i64, i64)> =
            rows.iter().filter(|row| (100..1_100).contains(&row.1)).map(|row| (row.1, row.2, row.1 * row.1)).collect();
        for table in [Table::dense(&table), Table::hashed(&table)] {
            let mut output: [Vec<i64>; 3] = Default::default();
            table.probe(&block_of(&rows), (1, 2), &mut output);
            let found = (0..output[0].len()).map(|row| (output[0][row], output[1][row], output[2][row]));
            assert_eq!(found.collect::<Vec<_>>(), expected);
        }
    }
}
