//! Rows by the hash of a key.
//!
//! The upper bits of a hash say which partition a key belongs to. Each partition has slots of its own, of which half are free, and is searched from the slot
//! that the next bits of the hash choose. Partitions depend on the number of rows alone, and are built independently of each other.

use super::index::{Matches, remove_rows_without_key};
use super::keys::{KeyColumns, Packing};
use crate::table::KeyRows;
use crate::table::hash::hash_word;
use crate::vector::prefetch;

/// Slots of fewer bytes stay in the second-level cache, and are not prefetched.
const CACHED_BYTES: usize = 1 << 20;

/// Keys whose slots are prefetched before the first of them is read.
const PREFETCH_KEYS: usize = 64;

/// A key and its matches. A slot without matches is free.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slot {
    /// The integer that the key is, or its hash.
    pub word: u64,
    pub matches: Matches,
}

/// Which of the slots of how many partitions a key's search begins at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Partitioning {
    /// There are two to the power of it.
    bits: u32,
}

impl Partitioning {
    pub fn new(bits: u32) -> Partitioning {
        Partitioning { bits }
    }

    pub fn count(self) -> usize {
        1 << self.bits
    }

    #[inline(always)]
    pub fn partition(self, hash: u64) -> usize {
        // Two shifts, as one by all bits is none.
        (hash >> 1 >> (u64::BITS - 1 - self.bits)) as usize
    }

    /// The first of `slots` slots to look at.
    #[inline(always)]
    pub fn home(self, hash: u64, slots: usize) -> usize {
        ((u128::from(hash << self.bits) * slots as u128) >> 64) as usize
    }
}

/// The slot of a key, or the free one where it would be.
///
/// # Panics
/// Where all slots are taken by other keys.
#[inline(always)]
pub(super) fn locate(slots: &[Slot], home: usize, word: u64, mut is_equal: impl FnMut(Matches) -> bool) -> usize {
    let mut at = home;
    for _ in 0..slots.len() {
        let slot = &slots[at];
        if slot.matches.count == 0 || slot.word == word && is_equal(slot.matches) {
            return at;
        }
        at = if at + 1 == slots.len() { 0 } else { at + 1 };
    }
    panic!("a partition has free slots")
}

/// What is needed to find keys by their words.
#[derive(Debug)]
pub(super) enum HashedKeys {
    /// A word is the key.
    Integer,
    /// A word is the key's hash; the packed keys of all rows.
    Packed {
        packing: Packing,
        /// Of all rows, one behind the other. They point into the bucket's columns.
        keys: Vec<u8>,
    },
}

impl HashedKeys {
    /// The hash of a key with this word. Hashes of packed keys leave the highest bit out.
    #[inline(always)]
    pub fn hash(&self, word: u64) -> u64 {
        match self {
            HashedKeys::Integer => hash_word(word),
            HashedKeys::Packed { .. } => word << 1,
        }
    }

    pub fn bytes(&self) -> usize {
        match self {
            HashedKeys::Integer => 0,
            HashedKeys::Packed { keys, .. } => keys.len(),
        }
    }
}

/// A hash table of the keys of a bucket.
#[derive(Debug)]
pub(super) struct HashedIndex {
    keys: HashedKeys,
    partitioning: Partitioning,
    /// The slots of each partition.
    slots: Vec<Box<[Slot]>>,
    /// Whether all slots stay in the second-level cache.
    is_cached: bool,
}

impl HashedIndex {
    pub fn new(keys: HashedKeys, partitioning: Partitioning, slots: Vec<Box<[Slot]>>) -> HashedIndex {
        let is_cached = bytes_of_slots(&slots) <= CACHED_BYTES;
        HashedIndex { keys, partitioning, slots, is_cached }
    }

    /// Appends the matches of each row. `rows` is the bucket's list of rows, empty where keys are unique.
    pub fn find(&self, columns: &KeyColumns, selection: Option<&[u32]>, rows: &[u32], found: &mut Vec<Matches>) {
        match &self.keys {
            HashedKeys::Integer => {
                let mut integers = Vec::new();
                columns.integers(selection, &mut integers);
                let word = |at: usize| integers[at].cast_unsigned();
                self.find_words(integers.len(), word, |_, _| true, found);
                remove_rows_without_key(columns, selection, found);
            }
            HashedKeys::Packed { packing, keys } => {
                let selected = selection.map_or(KeyRows::Range(0..columns.rows()), KeyRows::Listed);
                let (mut packed, mut hashes) = (Vec::new(), Vec::new());
                columns.pack(packing, selected, &mut packed);
                // SAFETY: the keys have just been packed from columns that are borrowed.
                unsafe { packing.hash(&packed, &mut hashes) };
                let width = packing.width();
                let is_equal = |at: usize, matches: Matches| {
                    let row = rows.get(matches.first as usize).map_or(matches.first, |&row| row) as usize;
                    let held = &keys[row * width..][..width];
                    // SAFETY: both are keys that this packing made; the bucket keeps the columns whose strings one points to, the caller those of the other.
                    unsafe { packing.equal(held, &packed[at * width..][..width]) }
                };
                // A key with a NULL is in no slot: such rows are not indexed.
                self.find_words(hashes.len(), |at| hashes[at], is_equal, found);
            }
        }
    }

    /// Appends the matches of so many words, where `is_equal` confirms them for the word's position.
    #[inline(always)]
    fn find_words(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        is_equal: impl Fn(usize, Matches) -> bool,
        found: &mut Vec<Matches>,
    ) {
        let mut searches = [(0, 0); PREFETCH_KEYS];
        for first in (0..count).step_by(PREFETCH_KEYS) {
            let chunk = first..count.min(first + PREFETCH_KEYS);
            for (search, at) in searches.iter_mut().zip(chunk.clone()) {
                let hash = self.keys.hash(word(at));
                let partition = self.partitioning.partition(hash);
                let slots = &*self.slots[partition];
                let home = self.partitioning.home(hash, slots.len());
                *search = (partition, home);
                if !self.is_cached {
                    prefetch(slots.as_ptr().wrapping_add(home).cast());
                }
            }
            found.extend(searches.iter().zip(chunk).map(|(&(partition, home), at)| {
                let slots = &self.slots[partition];
                slots[locate(slots, home, word(at), |matches| is_equal(at, matches))].matches
            }));
        }
    }

    /// The most rows of one key.
    pub fn matches_max(&self) -> usize {
        let counts = self.slots.iter().flat_map(|slots| slots.iter().map(|slot| slot.matches.count as usize));
        counts.max().unwrap_or(0)
    }

    pub fn bytes(&self) -> usize {
        bytes_of_slots(&self.slots) + self.keys.bytes()
    }
}

/// Bytes of the slots of all partitions.
pub(super) fn bytes_of_slots(slots: &[Box<[Slot]>]) -> usize {
    size_of_val(slots) + slots.iter().map(|slots| size_of_val(&**slots)).sum::<usize>()
}
