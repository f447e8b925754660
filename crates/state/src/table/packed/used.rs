//! Which slots are in use: those of a small table are marked, those of a large one are gone through.

use std::ops::Range;

use super::PackedGroups;
use crate::layout::EntryLayout;
use crate::table::TableHint;
use crate::table::capacity::{first_capacity, is_hardly_used};
use crate::table::line::slots_of_home;
use crate::table::spread::Homes;

/// Up to this many slots are marked when they are used: tables that are so small have many more slots than groups.
const MARKED_SLOTS_MAX: usize = 1 << 14;

/// Slots are cleared one by one where fewer than this part of them are in use.
const CLEARED_ONE_BY_ONE: usize = 4;

/// Words of bits that mark the slots in use: none in a large table.
pub(super) fn marked_words(capacity: usize) -> usize {
    if capacity <= MARKED_SLOTS_MAX { capacity.div_ceil(64) } else { 0 }
}

impl PackedGroups {
    /// Marks the slots in use, after entries have moved.
    pub(super) fn mark_used(&mut self, layout: &EntryLayout) {
        let (start, stride, capacity) = (self.entries.as_ptr(), layout.stride(), self.homes.capacity());
        self.used.clear();
        self.used.resize(marked_words(capacity), 0);
        if self.used.is_empty() {
            return;
        }
        assert!(capacity * stride <= self.entries.bytes());
        for slot in 0..capacity {
            // SAFETY: the slot lies within the region, as just checked, and begins with its hash.
            let is_used = unsafe { start.add(slot * stride).cast::<u64>().read() } != 0;
            self.used[slot / 64] |= u64::from(is_used) << (slot % 64);
        }
    }

    /// Places that an entry may be in.
    pub(in crate::table) fn slots(&self, layout: &EntryLayout) -> usize {
        self.entries.bytes() / layout.stride()
    }

    /// Appends the entries in use that are in some slots, ascending.
    pub(in crate::table) fn push_entries(&self, layout: &EntryLayout, slots: Range<usize>, out: &mut Vec<u32>) {
        let (start, stride) = (self.entries.as_ptr(), layout.stride());
        assert!(slots.end <= self.slots(layout), "a slot is one of the table");
        out.reserve(self.groups.min(slots.len()));
        if !self.used.is_empty() {
            let marked = self.marked_slots().filter(|slot| slots.contains(slot));
            return out.extend(marked.map(|slot| (slot * (stride / 8)) as u32));
        }
        for slot in slots {
            // SAFETY: the slot lies within the region.
            if unsafe { start.add(slot * stride).cast::<u64>().read() } != 0 {
                out.push((slot * (stride / 8)) as u32);
            }
        }
    }

    /// The slots that are marked as used, ascending.
    fn marked_slots(&self) -> impl Iterator<Item = usize> {
        self.used.iter().enumerate().flat_map(|(at, &word)| {
            let rest = std::iter::successors(Some(word), |word| Some(word & word.wrapping_sub(1)));
            rest.take_while(|&word| word != 0).map(move |word| at * 64 + word.trailing_zeros() as usize)
        })
    }

    /// Forgets all groups, at a cost proportional to what was used, so many bytes of them at a time: whether all have been forgotten.
    pub(in crate::table) fn clear(&mut self, layout: &EntryLayout, bytes_max: usize) -> bool {
        if self.cleared_bytes == 0 {
            self.expected = TableHint { groups: self.groups, rows: self.rows, ..TableHint::default() };
            if let Some(grid) = &mut self.grid {
                grid.clear(self.rows);
            }
            self.rows = 0;
        }
        let capacity = self.homes.capacity();
        self.homes = Homes::new(capacity, slots_of_home(layout.stride(), capacity));
        if is_hardly_used(self.groups, capacity) {
            self.make(layout, first_capacity(layout, &self.expected));
        } else if !self.used.is_empty() && self.groups < capacity / CLEARED_ONE_BY_ONE {
            let (start, stride) = (self.entries.as_ptr(), layout.stride());
            for slot in self.marked_slots() {
                // SAFETY: the slot lies within the region, and its entry begins with the hash: zero says that it is free.
                unsafe { start.add(slot * stride).cast::<u64>().write(0) };
            }
            self.used.fill(0);
        } else {
            let (first, bytes) = (self.cleared_bytes, self.entries.bytes());
            self.cleared_bytes = bytes.min(first.saturating_add(bytes_max.max(1)));
            self.entries.clear(first, self.cleared_bytes - first);
            if self.cleared_bytes < bytes {
                return false;
            }
            self.used.fill(0);
        }
        self.cleared_bytes = 0;
        self.groups = 0;
        self.arena.clear();
        true
    }
}
