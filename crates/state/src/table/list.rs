//! Groups side by side in the order in which they were appended: none is found by its key, and a key may occur several times.
//!
//! Partial results whose groups are numbered already are lists without keys, and so are the rows of windows that have closed, with keys.

use std::sync::Arc;

use pelton_data::aggregate::Accumulate;

use super::arena::Arena;
use super::packed::long_string;
use super::region::Region;
use super::{Groups, Table};
use crate::layout::{EntryLayout, KeyLayout, PACKED_HEADER, is_string};

/// Groups for which a list has room at first.
const LENGTH_MIN: usize = 16;

#[derive(Debug)]
pub(super) struct ListedGroups {
    entries: Region,
    groups: usize,
    /// Entries whose integer key is NULL, ascending.
    nulls: Vec<u32>,
    /// Bytes of long strings that keys point to.
    arena: Arena,
}

impl ListedGroups {
    pub(super) fn new() -> ListedGroups {
        ListedGroups { entries: Region::empty(), groups: 0, nulls: Vec::new(), arena: Arena::default() }
    }

    pub(super) fn groups(&self) -> usize {
        self.groups
    }

    pub(super) fn bytes(&self) -> usize {
        self.entries.bytes() + self.arena.bytes()
    }

    pub(super) fn entries_bytes(&self) -> usize {
        self.entries.bytes()
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.entries.as_ptr()
    }

    pub(super) fn clear(&mut self) {
        self.groups = 0;
        self.nulls.clear();
        self.arena.clear();
    }

    pub(super) fn push_entries(&self, layout: &EntryLayout, out: &mut Vec<u32>) {
        let units = layout.stride() / 8;
        out.extend((0..self.groups).map(|group| (group * units) as u32));
    }

    /// The integer key of an entry; `None` where it is NULL.
    pub(super) fn integer_key(&self, entry: u32) -> Option<i64> {
        assert!(entry as usize * 8 + 8 <= self.entries.bytes(), "an entry lies within its table");
        if !self.nulls.is_empty() && self.nulls.binary_search(&entry).is_ok() {
            return None;
        }
        // SAFETY: the eight bytes lie within the region, as just checked, which is aligned to them.
        Some(unsafe { self.entries.as_ptr().add(entry as usize * 8).cast::<i64>().read() })
    }

    /// Appends `count` groups, whose bytes the caller must write. Returns the number of the first.
    fn extend(&mut self, layout: &EntryLayout, count: usize) -> usize {
        let first = self.groups;
        let (used, wanted) = (first * layout.stride(), (first + count) * layout.stride());
        if wanted > self.entries.bytes() {
            assert!(wanted as u64 <= 8 << 32, "a table is limited to 32 GiB: entries have 32-bit numbers");
            let room = wanted.max(2 * used).max(LENGTH_MIN * layout.stride());
            let old = std::mem::replace(&mut self.entries, Region::zeroed(room));
            // SAFETY: both regions are at least this long, and different allocations.
            unsafe { self.entries.as_ptr().copy_from_nonoverlapping(old.as_ptr(), used) };
        }
        self.groups += count;
        first
    }
}

/// Copies so many words of eight bytes. Entries are few words long: a call would cost more than they do.
///
/// # Safety
/// Both must point to that many words, which do not overlap.
#[inline(always)]
unsafe fn copy_words(from: *const u8, to: *mut u8, words: usize) {
    for word in 0..words {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<u64>().add(word).write_unaligned(from.cast::<u64>().add(word).read_unaligned()) };
    }
}

impl Table {
    /// Groups in a list of this layout: see [`Table::append`]. Nothing can be found in it by key.
    pub fn list(layout: Arc<EntryLayout>) -> Table {
        Table::of(layout, Groups::Listed(ListedGroups::new()))
    }

    /// Appends copies of some groups of another table to a list. Where this one has one accumulator more, it counts the tables that had
    /// the group.
    ///
    /// # Panics
    /// Where this is no list, the layouts differ otherwise, or an entry is not in use.
    pub fn append(&mut self, other: &Table, entries: &[u32]) {
        let first = self.append_keys(other, entries);
        if !Arc::ptr_eq(&self.layout, &other.layout) || self.layout.has_references() {
            let to: Vec<u32> = (first..first + entries.len()).map(|group| self.listed_entry(group)).collect();
            return self.add_at(other, entries, &to);
        }
        let (stride, bytes) = (self.layout.stride(), self.layout.initial().len());
        let room = other.entries_bytes();
        for (at, &entry) in entries.iter().enumerate() {
            let from = entry as usize * 8 + stride - bytes;
            assert!(from + bytes <= room, "an entry lies within its table");
            // SAFETY: the accumulators lie within the other table, as just checked, and within the entry just appended.
            unsafe {
                let to = self.start().add((first + at + 1) * stride - bytes);
                copy_words(other.start().add(from), to, bytes / 8);
            }
        }
    }

    /// Appends groups to a list that have the keys of some groups of another table, and accumulators as before any value. Returns the number of
    /// the first.
    ///
    /// # Panics
    /// Where this is no list, the keys differ in their layout, or an entry is not in use.
    pub fn append_keys(&mut self, other: &Table, entries: &[u32]) -> usize {
        let has_same_keys = Arc::ptr_eq(&self.layout, &other.layout) || self.layout.keys() == other.layout.keys();
        assert!(has_same_keys, "tables that are combined have the same keys");
        let first = self.append_blank(entries.len());
        let Table { layout, groups: Groups::Listed(list), .. } = self else { unreachable!("just extended") };
        let units = layout.stride() / 8;
        match layout.keys() {
            KeyLayout::None => {}
            KeyLayout::Integer { .. } => {
                for (at, &entry) in entries.iter().enumerate() {
                    let place = (first + at) * units;
                    match other.integer_key(entry) {
                        // SAFETY: the entry was just appended, and begins with its key.
                        Some(key) => unsafe { list.entries.as_ptr().add(place * 8).cast::<i64>().write(key) },
                        None => list.nulls.push(place as u32),
                    }
                }
            }
            KeyLayout::Packed { width, columns } => {
                let bytes = other.entries_bytes();
                let strings = columns.iter().filter(|column| is_string(&column.data_type));
                let strings: Vec<usize> = strings.map(|column| PACKED_HEADER + column.offset).collect();
                for (at, &entry) in entries.iter().enumerate() {
                    assert!(entry as usize * 8 + PACKED_HEADER + width <= bytes, "an entry lies within its table");
                    // SAFETY: the key, with the hash before it, lies within the other table, as just checked, and within the
                    // entry just appended. Long strings lie in the other table's arena.
                    unsafe {
                        let from = other.start().add(entry as usize * 8);
                        let to = list.entries.as_ptr().add((first + at) * units * 8);
                        copy_words(from, to, (PACKED_HEADER + width) / 8);
                        for &string in &strings {
                            if let Some(long) = long_string(from.add(string)) {
                                to.add(string + 8).cast::<*const u8>().write(list.arena.store(long));
                            }
                        }
                    }
                }
            }
        }
        first
    }

    /// Appends groups without a key to a list, with accumulators as before any value. Returns the number of the first.
    ///
    /// # Panics
    /// Where this is no list.
    pub fn append_blank(&mut self, count: usize) -> usize {
        let Groups::Listed(list) = &mut self.groups else { panic!("groups are only appended to a list") };
        let first = list.extend(&self.layout, count);
        self.reset(first, count);
        first
    }

    /// Forgets the keys and values of a list's groups from one on.
    fn reset(&mut self, first: usize, count: usize) {
        let (stride, initial) = (self.layout.stride(), self.layout.initial());
        let key = stride - initial.len();
        let Groups::Listed(list) = &mut self.groups else { unreachable!("only lists are reset") };
        assert!((first + count) * stride <= list.entries.bytes());
        list.entries.clear(first * stride, count * stride);
        if initial.iter().all(|&byte| byte == 0) {
            return;
        }
        for group in first..first + count {
            // SAFETY: the entry lies within the region, as just checked; accumulators follow its key.
            unsafe {
                let accumulators = list.entries.as_ptr().add(group * stride + key);
                copy_words(initial.as_ptr(), accumulators, initial.len() / 8);
            }
        }
    }

    /// Gives all accumulators of a list the values that they have before any value, and keeps the keys.
    ///
    /// # Panics
    /// Where this is no list.
    pub fn reset_accumulators(&mut self) {
        let (stride, initial) = (self.layout.stride(), self.layout.initial());
        let key = stride - initial.len();
        let Groups::Listed(list) = &mut self.groups else { panic!("only lists are reset") };
        for group in 0..list.groups {
            // SAFETY: the region has an entry of `stride` bytes for each group; accumulators follow its key.
            unsafe {
                let accumulators = list.entries.as_ptr().add(group * stride + key);
                copy_words(initial.as_ptr(), accumulators, initial.len() / 8);
            }
        }
        self.clear_references();
    }

    /// Appends the entries of a list whose counter `slot` is not zero.
    ///
    /// # Panics
    /// Where this is no list, or has no such counter.
    pub fn push_counted(&self, slot: usize, out: &mut Vec<u32>) {
        let Groups::Listed(list) = &self.groups else { panic!("only lists have their groups in order") };
        let place = &self.layout.accumulators()[slot];
        assert_eq!(place.accumulator.accumulate, Accumulate::Count);
        let entries = (0..list.groups).map(|group| self.listed_entry(group));
        out.extend(entries.filter(|&entry| {
            // SAFETY: it is the address of a count, of eight bytes.
            unsafe { self.accumulator_address(place, entry).cast::<i64>().read_unaligned() != 0 }
        }));
    }

    /// The entry of a list's group.
    pub fn listed_entry(&self, group: usize) -> u32 {
        (group * (self.layout.stride() / 8)) as u32
    }
}
