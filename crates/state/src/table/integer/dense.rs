//! Entries of integer keys side by side, by key.

use super::{CROWDED_LENGTH_MAX, DENSE_LENGTH_MAX, IntegerGroups, Mode, distance};
use crate::layout::EntryLayout;
use crate::table::region::Region;

impl IntegerGroups {
    pub(super) fn make_dense(&mut self, layout: &EntryLayout, (minimum, maximum): (i64, i64)) {
        let length = distance(minimum, maximum) as usize + 1;
        let stride = layout.dense_stride();
        self.entries = Region::zeroed((length + 1) * stride + 8);
        self.mode = Mode::Dense { base: minimum, length, present: Region::zeroed(length) };
        self.moves += 1;
        self.initialise_dense(layout, 0, length + 1);
    }

    /// Gives `count` entries from `first` on their initial values; they are zero before.
    pub(super) fn initialise_dense(&mut self, layout: &EntryLayout, first: usize, count: usize) {
        let initial = layout.initial();
        if initial.iter().all(|&byte| byte == 0) {
            return;
        }
        let stride = layout.dense_stride();
        debug_assert_eq!(initial.len(), stride);
        assert!((first + count) * stride + 8 <= self.entries.bytes());
        for entry in first..first + count {
            // SAFETY: the accumulators of dense entry `e` are the `stride` bytes from `e * stride + 8` on, within the
            // region as just checked.
            unsafe {
                let accumulators = self.entries.as_ptr().add(entry * stride + 8);
                accumulators.copy_from_nonoverlapping(initial.as_ptr(), stride);
            }
        }
    }

    /// Makes room for the keys of `extent` besides those there are, and as much again in the direction of growth, so that keys
    /// that grow by one at a time do not move the table each time.
    pub(super) fn widen(&mut self, layout: &EntryLayout, extent: (i64, i64)) {
        let Mode::Dense { base, length, .. } = self.mode else { unreachable!("only dense tables are widened") };
        let last = base.wrapping_add(length as i64 - 1);
        let room = (distance(extent.0, extent.1) + 1).min(DENSE_LENGTH_MAX as u64) as i64;
        let generous = (
            if extent.0 < base { extent.0.saturating_sub(room / 2) } else { base },
            if extent.1 > last { extent.1.saturating_add(room) } else { last },
        );
        let fits = distance(generous.0, generous.1) < CROWDED_LENGTH_MAX as u64;
        self.move_dense(layout, if fits { generous } else { extent });
    }

    fn move_dense(&mut self, layout: &EntryLayout, wanted: (i64, i64)) {
        let old_entries = std::mem::replace(&mut self.entries, Region::empty());
        let Mode::Dense { base: old_base, length: old_length, present: old_present } =
            std::mem::replace(&mut self.mode, Mode::Undecided)
        else {
            unreachable!("only dense tables are widened")
        };
        self.make_dense(layout, wanted);
        let Mode::Dense { base, length, present } = &self.mode else { unreachable!("just made dense") };
        let stride = layout.dense_stride();
        if let Some((first, last)) = self.extent {
            let count = distance(first, last) as usize + 1;
            let from = distance(old_base, first) as usize;
            let to = distance(*base, first) as usize;
            assert!(from + count <= old_length && to + count <= *length);
            // SAFETY: both ranges of entries lie inside their tables, as just checked: see `initialise_dense` for where
            // accumulators lie. Old and new regions are different allocations.
            unsafe {
                let source = old_entries.as_ptr().add(from * stride + 8);
                let target = self.entries.as_ptr().add(to * stride + 8);
                target.copy_from_nonoverlapping(source, count * stride);
                let target = present.as_ptr().add(to);
                target.copy_from_nonoverlapping(old_present.as_ptr().add(from), count);
            }
        }
        // SAFETY: entry `length` of a dense table is the NULL key's, in the old as in the new region.
        unsafe {
            let source = old_entries.as_ptr().add(old_length * stride + 8);
            let target = self.entries.as_ptr().add(*length * stride + 8);
            target.copy_from_nonoverlapping(source, stride);
        }
    }

    /// Moves the keys that an empty table has entries for.
    pub(super) fn rebase(&mut self, minimum: i64, maximum: i64) {
        let Mode::Dense { base, length, .. } = &mut self.mode else { unreachable!("only dense tables have a base") };
        let spare = *length as u64 - 1 - distance(minimum, maximum);
        // Keys that arrive out of order lie a little before the first, most lie after it.
        *base = minimum.wrapping_sub((spare / 8) as i64);
        self.moves += 1;
    }

    /// Forgets all groups, or the next of them: whether all have been forgotten. Only entries that the table was prepared for can have changed.
    pub(super) fn clear_dense(&mut self, layout: &EntryLayout, bytes_max: usize) -> bool {
        let stride = layout.dense_stride();
        let Mode::Dense { base, length, .. } = self.mode else { unreachable!("only called for dense tables") };
        if let Some((first, last)) = self.extent {
            let from = distance(base, first) as usize;
            let count = distance(first, last) as usize + 1;
            // With no accumulators there is only the byte that says whether an entry is in use.
            let entry_bytes = stride.max(1);
            let entries_max = (bytes_max / entry_bytes).max(1);
            let cleared = self.next_to_clear(count * entry_bytes, entries_max.saturating_mul(entry_bytes));
            let (part, part_count) = (from + cleared.start / entry_bytes, cleared.len() / entry_bytes);
            let Mode::Dense { present, .. } = &mut self.mode else { unreachable!("just seen") };
            present.clear(part, part_count);
            self.entries.clear(part * stride + 8, part_count * stride);
            self.initialise_dense(layout, part, part_count);
            if cleared.end < count * entry_bytes {
                return false;
            }
        }
        self.entries.clear(length * stride + 8, stride);
        self.initialise_dense(layout, length, 1);
        true
    }
}
