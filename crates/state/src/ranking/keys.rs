//! The keys of slices, part by part: a window may have many.

use std::collections::hash_map::IntoIter;
use std::iter::Peekable;

use itertools::{KMerge, kmerge};

use super::{FirstRows, Key, RankedSlice};
use crate::work::Work;

/// Keys that are copied and sorted at a time, or taken with their rows.
const KEYS_PER_RUN: usize = 4096;

/// To do that with one takes as long as to do something with so many groups.
const WORK_PER_KEY: usize = 4;

/// Keys that are handed out at a time.
const KEYS_AT_ONCE: usize = 1024;

/// All keys that have rows in any of some slices, each once, ascending.
#[derive(Debug)]
pub(super) enum Keys {
    /// So many of all slices' keys have been copied, in runs of which each is ascending.
    Copied { runs: Vec<Vec<Key>>, keys: usize },
    /// Those that have not been handed out.
    Left(Box<Peekable<KMerge<std::vec::IntoIter<Key>>>>),
}

impl Keys {
    pub fn new() -> Keys {
        Keys::Copied { runs: Vec::new(), keys: 0 }
    }

    /// The next keys, or none while not all have been copied of the slices, which are the same each time. `None` where there are no more.
    pub fn next(&mut self, slices: &[&RankedSlice], work: &mut Work) -> Option<Vec<Key>> {
        match self {
            Keys::Copied { runs, keys } => {
                let left = slices.iter().flat_map(|slice| slice.keys.keys()).skip(*keys);
                let mut run: Vec<Key> = left.take(KEYS_PER_RUN).cloned().collect();
                run.sort_unstable();
                work.spend(run.len() * WORK_PER_KEY);
                *keys += run.len();
                let are_all = run.len() < KEYS_PER_RUN;
                runs.push(run);
                if are_all {
                    *self = Keys::Left(Box::new(kmerge(std::mem::take(runs)).peekable()));
                }
                Some(Vec::new())
            }
            Keys::Left(left) => {
                let mut keys = Vec::new();
                while keys.len() < KEYS_AT_ONCE
                    && let Some(key) = left.next()
                {
                    while left.next_if_eq(&key).is_some() {}
                    keys.push(key);
                }
                (!keys.is_empty()).then_some(keys)
            }
        }
    }
}

/// Rows of a slice that is taken apart: to move or to free many rows at once takes long.
#[derive(Debug)]
pub(super) struct LeftRows {
    keys: IntoIter<Key, FirstRows>,
    bytes_per_key: usize,
}

impl LeftRows {
    /// All rows of a slice.
    pub fn of(slice: &mut RankedSlice) -> LeftRows {
        let keys = std::mem::take(&mut slice.keys);
        LeftRows { bytes_per_key: slice.bytes / keys.len().max(1), keys: keys.into_iter() }
    }

    /// Takes the rows of some keys.
    pub fn take(&mut self, work: &mut Work) -> impl Iterator<Item = (Key, FirstRows)> {
        let count = self.keys.len().min(KEYS_PER_RUN);
        work.spend(count * WORK_PER_KEY);
        self.keys.by_ref().take(count)
    }

    pub fn is_empty(&self) -> bool {
        self.keys.len() == 0
    }

    /// Bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        self.keys.len() * self.bytes_per_key
    }
}
