//! Groups side by side in the order of their places, as entries without keys: machine code changes them as it does those of any table.
//!
//! What many small slices have is in one such table, the groups of one slice behind those of another; so is what the open windows have that count the
//! rows of each key.

use super::region::Region;
use super::{Groups, Table};
use crate::layout::EntryLayout;

/// Room for so many groups at first.
const GROUPS_MIN: usize = 1024;

#[derive(Debug)]
pub(super) struct UnkeyedGroups {
    /// The accumulators of one group after the other, as [`EntryLayout::initial`] has them.
    rows: Region,
    groups: usize,
    /// Bytes of an entry of the layout before its accumulators, which are not there.
    skipped: usize,
}

impl UnkeyedGroups {
    pub(super) fn new(layout: &EntryLayout) -> UnkeyedGroups {
        UnkeyedGroups { rows: Region::empty(), groups: 0, skipped: layout.key_bytes() }
    }

    pub(super) fn groups(&self) -> usize {
        self.groups
    }

    pub(super) fn bytes(&self) -> usize {
        self.rows.bytes()
    }

    /// Where the key of the first group would begin: accumulators lie at the layout's offsets from there, and nothing is before them.
    pub(super) fn base(&self) -> *mut u8 {
        self.rows.as_ptr().wrapping_sub(self.skipped)
    }

    /// Bytes from [`UnkeyedGroups::base`] to the end of the last group.
    pub(super) fn entries_bytes(&self, layout: &EntryLayout) -> usize {
        self.skipped + self.groups * layout.initial().len()
    }

    /// Bytes of an entry of the layout that are not there: its key's.
    pub(super) fn skipped(&self) -> usize {
        self.skipped
    }

    pub(super) fn clear(&mut self) {
        self.groups = 0;
    }

    fn extend(&mut self, layout: &EntryLayout, count: usize) {
        let (initial, groups) = (layout.initial(), self.groups + count);
        let wanted = groups * initial.len();
        if wanted > self.rows.bytes() {
            let longer = wanted.max(2 * self.rows.bytes()).max(GROUPS_MIN * initial.len());
            assert!(longer as u64 <= 8 << 32, "a table is limited to 32 GiB: entries have 32-bit numbers");
            if self.rows.bytes() == 0 {
                self.rows = Region::zeroed(longer)
            } else {
                self.rows.grow(longer)
            };
        }
        let is_zero = initial.iter().all(|&byte| byte == 0);
        // SAFETY: the region has room for `groups` entries, as just made sure of.
        unsafe {
            let first = self.rows.as_ptr().add(self.groups * initial.len());
            if is_zero {
                first.write_bytes(0, count * initial.len());
            } else {
                for at in 0..count {
                    first.add(at * initial.len()).copy_from_nonoverlapping(initial.as_ptr(), initial.len());
                }
            }
        }
        self.groups = groups;
    }
}

impl Table {
    /// Groups by their places: see [`Table::extend_unkeyed`]. The entry of a place is as many times [`Table::unkeyed_units`].
    pub(crate) fn unkeyed(layout: std::sync::Arc<EntryLayout>) -> Table {
        let groups = Groups::Unkeyed(Box::new(UnkeyedGroups::new(&layout)));
        Table::of(layout, groups)
    }

    /// From the entry of one place to that of the next.
    pub(crate) fn unkeyed_units(&self) -> u32 {
        (self.layout.initial().len() / 8) as u32
    }

    /// Appends so many groups, with accumulators as before any value.
    ///
    /// # Panics
    /// Where groups are not found by their places.
    pub(crate) fn extend_unkeyed(&mut self, count: usize) {
        let Groups::Unkeyed(groups) = &mut self.groups else { panic!("the table's groups have no places") };
        groups.extend(&self.layout, count);
    }
}
