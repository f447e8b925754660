//! Rows by the distance of an integer key from the smallest.

use super::UNMATCHED;
use super::index::{Matches, remove_rows_without_key};
use super::keys::KeyColumns;
use crate::vector::prefetch;

/// Indexes of fewer bytes stay in the second-level cache, and are not prefetched.
pub(super) const CACHED_BYTES: usize = 1 << 20;

/// How many keys before its own the element of a key is prefetched.
const KEYS_AHEAD: usize = 64;

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
    /// Nothing, for so many keys: each has the row of its distance from the smallest.
    InOrder(usize),
    /// Its row, or [`UNMATCHED`].
    Unique(Vec<u32>),
    /// Where its rows begin in the bucket's list of rows; the last element is their number.
    Several(Vec<u32>),
}

/// The places of unique integer keys: their distances from the smallest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DensePlaces<'a> {
    /// The smallest key.
    pub base: i64,
    /// The number of places.
    pub length: usize,
    /// For each place the row, or [`UNMATCHED`]; nothing where the place is the row.
    pub rows: Option<&'a [u32]>,
}

impl DensePlaces<'_> {
    /// The place of a key, if it has one.
    pub fn place(&self, key: i64) -> Option<usize> {
        let place = key.wrapping_sub(self.base) as u64;
        (place < self.length as u64).then_some(place as usize)
    }

    /// The row at a place, or [`UNMATCHED`].
    pub fn row(&self, place: usize) -> u32 {
        match self.rows {
            Some(rows) => rows.get(place).copied().unwrap_or(UNMATCHED),
            None if place < self.length => place as u32,
            None => UNMATCHED,
        }
    }
}

impl DenseIndex {
    /// The places of keys, where these are unique.
    pub fn places(&self) -> Option<DensePlaces<'_>> {
        match &self.rows {
            DenseRows::InOrder(length) => Some(DensePlaces { base: self.base, length: *length, rows: None }),
            DenseRows::Unique(rows) => Some(DensePlaces { base: self.base, length: rows.len(), rows: Some(rows) }),
            DenseRows::Several(_) => None,
        }
    }

    /// Appends the matches of each row.
    pub fn find(&self, keys: &KeyColumns, selection: Option<&[u32]>, found: &mut Vec<Matches>) {
        let mut integers = Vec::new();
        keys.integers(selection, &mut integers);
        let distance = |key: i64| key.wrapping_sub(self.base) as u64 as usize;
        match &self.rows {
            DenseRows::InOrder(length) => found.extend(integers.iter().map(|&key| match distance(key) {
                distance if distance < *length => Matches { first: distance as u32, count: 1 },
                _ => Matches::default(),
            })),
            DenseRows::Unique(rows) => {
                find_each(rows, &integers, distance, found, |distance| match rows.get(distance) {
                    Some(&row) if row != UNMATCHED => Matches { first: row, count: 1 },
                    _ => Matches::default(),
                });
            }
            DenseRows::Several(starts) => {
                let length = starts.len() - 1;
                find_each(starts, &integers, distance, found, |distance| {
                    if distance >= length {
                        return Matches::default();
                    }
                    let first = starts[distance];
                    Matches { first, count: starts[distance + 1] - first }
                });
            }
        }
        remove_rows_without_key(keys, selection, found);
    }

    /// The most rows of one key.
    pub fn matches_max(&self) -> usize {
        match &self.rows {
            DenseRows::InOrder(_) | DenseRows::Unique(_) => 1,
            DenseRows::Several(starts) => starts.windows(2).map(|pair| (pair[1] - pair[0]) as usize).max().unwrap_or(0),
        }
    }

    pub fn bytes(&self) -> usize {
        match &self.rows {
            DenseRows::InOrder(_) => 0,
            DenseRows::Unique(elements) | DenseRows::Several(elements) => size_of_val(elements.as_slice()),
        }
    }
}

/// Appends what `find` makes of the distance of each key, whose element is prefetched before where there are many.
#[inline(always)]
fn find_each(
    elements: &[u32],
    keys: &[i64],
    distance: impl Fn(i64) -> usize,
    found: &mut Vec<Matches>,
    find: impl Fn(usize) -> Matches,
) {
    if size_of_val(elements) <= CACHED_BYTES {
        found.extend(keys.iter().map(|&key| find(distance(key))));
        return;
    }
    found.extend(keys.iter().enumerate().map(|(at, &key)| {
        if let Some(&ahead) = keys.get(at + KEYS_AHEAD) {
            prefetch(elements.as_ptr().wrapping_add(distance(ahead)).cast());
        }
        find(distance(key))
    }));
}
