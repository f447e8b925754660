//! From a key to its rows.

use super::dense::DenseIndex;
use super::hashed::HashedIndex;
use super::keys::KeyColumns;

/// The rows of one key: so many from `first` on in the bucket's list of rows. Where keys are unique there is no list, and `first` is the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Matches {
    pub first: u32,
    pub count: u32,
}

/// From a key to its rows.
#[derive(Debug)]
pub(super) enum Index {
    /// By the distance of an integer from the smallest.
    Dense(DenseIndex),
    /// By hash.
    Hashed(HashedIndex),
    /// There are no key columns: each row matches all.
    All,
}

impl Index {
    /// Replaces `found` by the matches of each row of `selection`, or of all `rows` rows. `list` is the bucket's list of rows.
    pub fn find(
        &self,
        keys: &KeyColumns,
        (selection, rows): (Option<&[u32]>, usize),
        list: &[u32],
        found: &mut Vec<Matches>,
    ) {
        let count = selection.map_or(rows, <[u32]>::len);
        found.clear();
        found.reserve(count);
        match self {
            Index::Dense(dense) => dense.find(keys, selection, found),
            Index::Hashed(hashed) => hashed.find(keys, selection, list, found),
            Index::All => found.resize(count, Matches { first: 0, count: list.len() as u32 }),
        }
    }

    /// The most rows of one key, of `rows` that are listed.
    pub fn matches_max(&self, rows: usize) -> usize {
        match self {
            Index::Dense(dense) => dense.matches_max(),
            Index::Hashed(hashed) => hashed.matches_max(),
            Index::All => rows,
        }
    }

    pub fn bytes(&self) -> usize {
        match self {
            Index::Dense(dense) => dense.bytes(),
            Index::Hashed(hashed) => hashed.bytes(),
            Index::All => 0,
        }
    }
}

/// Takes away the matches of rows without a key.
pub(super) fn remove_rows_without_key(keys: &KeyColumns, selection: Option<&[u32]>, found: &mut [Matches]) {
    if keys.all_have_keys() {
        return;
    }
    for (at, matches) in found.iter_mut().enumerate() {
        if !keys.has_key(selection.map_or(at, |selection| selection[at] as usize)) {
            *matches = Matches::default();
        }
    }
}
