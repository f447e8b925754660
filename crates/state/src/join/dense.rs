//! Rows by the distance of an integer key from the smallest.

use super::UNMATCHED;
use super::index::{Matches, remove_rows_without_key};
use super::keys::KeyColumns;

/// An array with an element for each integer from the smallest key to the largest.
#[derive(Debug)]
pub(super) struct DenseIndex {
    /// The smallest key.
    pub base: i64,
    pub rows: DenseRows,
}

/// What a dense index has for each key.
#[derive(Debug)]
pub(super) enum DenseRows {
    /// Its row, or [`UNMATCHED`].
    Unique(Vec<u32>),
    /// Where its rows begin in the bucket's list of rows; the last element is their number.
    Several(Vec<u32>),
}

impl DenseIndex {
    /// Appends the matches of each row.
    pub fn find(&self, keys: &KeyColumns, selection: Option<&[u32]>, found: &mut Vec<Matches>) {
        let mut integers = Vec::new();
        keys.integers(selection, &mut integers);
        let distances = integers.iter().map(|key| key.wrapping_sub(self.base) as u64 as usize);
        match &self.rows {
            DenseRows::Unique(rows) => found.extend(distances.map(|distance| match rows.get(distance) {
                Some(&row) if row != UNMATCHED => Matches { first: row, count: 1 },
                _ => Matches::default(),
            })),
            DenseRows::Several(starts) => {
                let length = starts.len() - 1;
                found.extend(distances.map(|distance| {
                    if distance >= length {
                        return Matches::default();
                    }
                    let first = starts[distance];
                    Matches { first, count: starts[distance + 1] - first }
                }));
            }
        }
        remove_rows_without_key(keys, selection, found);
    }

    pub fn bytes(&self) -> usize {
        let (DenseRows::Unique(elements) | DenseRows::Several(elements)) = &self.rows;
        size_of_val(elements.as_slice())
    }
}
