//! Entries of integer keys side by side, by key.

use std::ops::Range;

use super::range::{CROWDED_LENGTH_FREE, DENSE_LENGTH_MAX, crowded_length_max, distance};
use super::{ALL_PRESENT, IntegerGroups, Mode};
use crate::layout::{EntryLayout, UseWord};
use crate::table::region::Region;

/// A long range that grows gets room for one of so many parts of it more.
const LONG_ROOM_PART: u64 = 4;

/// A range that grows keeps what it had before where the whole is so many times as long as the range of its keys.
const KEPT_INTEGERS_PER_KEY: u64 = 4;

/// Which entries of a dense table are in use.
pub(super) struct InUse<'a> {
    /// One byte for each entry.
    present: &'a [u8],
    /// The address of the word of entry 0, bytes from one to the next, and what it is at first.
    word: Option<(*const u8, usize, u64)>,
}

impl InUse<'_> {
    /// Whether one is.
    pub(super) fn one(&self, entry: usize) -> bool {
        self.bytes(entry, 1) != 0
    }

    /// For each of `count` entries from `first` on, at most eight, a byte that is 1 where it is.
    #[inline(always)]
    pub(super) fn bytes(&self, first: usize, count: usize) -> u64 {
        let present = &self.present[first..first + count];
        let mut bytes = match present.first_chunk() {
            Some(all) => u64::from_le_bytes(*all),
            None => present.iter().rev().fold(0, |bytes, &byte| bytes << 8 | u64::from(byte)),
        };
        if let Some((start, stride, initial)) = self.word {
            for at in 0..count {
                // SAFETY: the entry is one of the table, which is borrowed: it has a byte, as just checked, and so a word.
                let word = unsafe { start.add((first + at) * stride).cast::<u64>().read_unaligned() };
                bytes |= u64::from(word != initial) << (8 * at);
            }
        }
        bytes
    }

    /// Hands on eight entries after another, and the rest: the first of them, and the bytes.
    #[inline(always)]
    fn each(&self, entries: Range<usize>, mut take: impl FnMut(usize, u64)) {
        let whole = entries.start + entries.len() / 8 * 8;
        (entries.start..whole).step_by(8).for_each(|first| take(first, self.bytes(first, 8)));
        if whole < entries.end {
            take(whole, self.bytes(whole, entries.end - whole));
        }
    }

    /// How many of some entries are.
    pub(super) fn count(&self, entries: Range<usize>) -> usize {
        let mut count = 0;
        self.each(entries, |_, bytes| count += bytes.count_ones() as usize);
        count
    }

    /// Appends those of some entries that are, each as its number times `units`.
    pub(super) fn list(&self, entries: Range<usize>, units: u32, out: &mut Vec<u32>) {
        out.reserve(entries.len());
        self.each(entries, |first, bytes| {
            let first = first as u32;
            if bytes == ALL_PRESENT {
                // Nearly all keys of a crowded table have come.
                return out.extend((first..first + 8).map(|entry| entry * units));
            }
            let mut rest = bytes;
            while rest != 0 {
                out.push((first + rest.trailing_zeros() / 8) * units);
                rest &= rest - 1;
            }
        });
    }
}

impl IntegerGroups {
    /// Which entries are in use, but for the NULL key's.
    pub(super) fn in_use(&self, layout: &EntryLayout) -> InUse<'_> {
        let Mode::Dense { length, present, .. } = &self.mode else { unreachable!("only called for dense tables") };
        // SAFETY: a dense table has one initialised byte for each of its entries but the last.
        let present = unsafe { std::slice::from_raw_parts(present.as_ptr(), *length) };
        let stride = layout.dense_stride();
        let word = layout.use_word().map(|UseWord { offset, initial }| {
            assert!(length * stride + offset + size_of::<u64>() <= self.entries.bytes());
            (self.entries.as_ptr().wrapping_add(offset).cast_const(), stride, initial)
        });
        InUse { present, word }
    }

    /// Which of some slots of `other` it was prepared for, and the slot of the first one's key here, if both tables have entries side by side and this one was
    /// prepared for all keys that the other one was.
    pub(in crate::table) fn beside(&self, other: &IntegerGroups, slots: Range<usize>) -> Option<(Range<usize>, usize)> {
        let (Mode::Dense { base, .. }, Mode::Dense { base: their_base, .. }) = (&self.mode, &other.mode) else {
            return None;
        };
        let (own, theirs) = (self.prepared_slots(), other.prepared_slots());
        let shift = their_base.wrapping_sub(*base);
        let here = |slot: usize| shift.wrapping_add(slot as i64) as u64;
        let own = own.start as u64..own.end as u64;
        if theirs.is_empty() || !own.contains(&here(theirs.start)) || !own.contains(&here(theirs.end - 1)) {
            return None;
        }
        let first = slots.start.clamp(theirs.start, theirs.end);
        Some((first..slots.end.clamp(first, theirs.end), here(first) as usize))
    }

    /// Notes which entries are in use from `to` on, to each of which an entry of `other` has just been added that is one word, those in `from`: where the word alone
    /// does not say so.
    pub(in crate::table) fn mark_beside(
        &mut self,
        layout: &EntryLayout,
        (other, other_layout): (&IntegerGroups, &EntryLayout),
        (from, to): (Range<usize>, usize),
    ) {
        self.counted.take();
        let theirs = other.in_use(other_layout);
        let own_word = self.in_use(layout).word;
        let Mode::Dense { length, present, .. } = &mut self.mode else { unreachable!("only called for dense tables") };
        assert!(to + from.len() <= *length);
        // SAFETY: there is one byte for each entry, of which there are as many, as just checked, and the table is borrowed exclusively.
        let marks = unsafe { std::slice::from_raw_parts_mut(present.as_ptr().add(to), from.len()) };
        marks.iter_mut().zip(&theirs.present[from.clone()]).for_each(|(mark, byte)| *mark |= byte);
        let (own, their) =
            own_word.zip(theirs.word).expect("one sum or count says by itself whether its entry is in use");
        assert!(own.1 == size_of::<u64>() && their.1 == own.1, "each entry is one word");
        let is_initial = |(start, _, initial): (*const u8, usize, u64), entry: usize| {
            // SAFETY: the entry is one of its table, which is borrowed: it has a byte, as just checked, and so a word.
            let word = unsafe { start.cast::<u64>().add(entry).read_unaligned() };
            word == initial
        };
        // Sums may come to what they were at first.
        for (at, mark) in marks.iter_mut().enumerate() {
            *mark |= u8::from(is_initial(own, to + at) & !is_initial(their, from.start + at));
        }
    }

    /// Lists the entries of `other` that are in use in some slots, and those of the same keys here, which become groups, if both tables have entries side by
    /// side and this one was prepared for the keys: whether that is so. No key need be looked at then.
    pub(in crate::table) fn list_beside(
        &mut self,
        layout: &EntryLayout,
        (other, other_layout): (&IntegerGroups, &EntryLayout),
        slots: Range<usize>,
        (from, to): (&mut Vec<u32>, &mut Vec<u32>),
    ) -> bool {
        let Some((listed, here)) = self.beside(other, slots.clone()) else { return false };
        let (is_last, units) = (slots.end == other.slots(), (layout.dense_stride() / 8) as u32);
        self.counted.take();
        let in_use = other.in_use(other_layout);
        let Mode::Dense { present, .. } = &mut self.mode else { unreachable!("just seen") };
        in_use.each(listed.clone(), |first, bytes| {
            let count = (listed.end - first).min(8);
            // SAFETY: the bytes are those of entries that the table was prepared for, as just checked, and the table is borrowed exclusively.
            let marks =
                unsafe { std::slice::from_raw_parts_mut(present.as_ptr().add(here + (first - listed.start)), count) };
            // Sums may come to what they were at first.
            marks.iter_mut().zip(bytes.to_le_bytes()).for_each(|(mark, byte)| *mark |= byte);
        });
        from.clear();
        in_use.list(listed.clone(), units, from);
        to.clear();
        let further = (here as u32).wrapping_sub(listed.start as u32).wrapping_mul(units);
        to.extend(from.iter().map(|&entry| entry.wrapping_add(further)));
        if let Some(null) = other.null(other_layout).filter(|_| is_last) {
            from.push(null);
            to.push(self.entry_of_new_null(layout));
        }
        true
    }

    /// The entries that the table was prepared for: only these can be in use.
    pub(in crate::table) fn prepared_slots(&self) -> Range<usize> {
        match (&self.mode, self.extent) {
            (Mode::Dense { base, length, .. }, Some((first, last))) => {
                let first_slot = distance(*base, first) as usize;
                first_slot..(first_slot + distance(first, last) as usize + 1).min(*length)
            }
            _ => 0..0,
        }
    }

    pub(super) fn make_dense(&mut self, layout: &EntryLayout, (minimum, maximum): (i64, i64)) {
        let length = distance(minimum, maximum) as usize + 1;
        let stride = layout.dense_stride();
        self.entries = Region::zeroed((length + 1) * stride + 8);
        self.mode = Mode::Dense { base: minimum, length, present: Region::zeroed(length) };
        self.moves += 1;
        self.counted.take();
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

    /// Makes room for the keys of `extent`, those there are among them, and as much again in the direction of growth, of a long one a part as much, so that keys
    /// that grow by one at a time do not move the table each time.
    pub(super) fn widen(&mut self, layout: &EntryLayout, extent: (i64, i64)) {
        let Mode::Dense { base, length, .. } = self.mode else { unreachable!("only dense tables are widened") };
        let last = base.wrapping_add(length as i64 - 1);
        let keys = distance(extent.0, extent.1) + 1;
        let room = keys.min((keys / LONG_ROOM_PART).max(DENSE_LENGTH_MAX as u64)) as i64;
        let generous = (
            if extent.0 < base { extent.0.saturating_sub(room / 2) } else { base },
            if extent.1 > last { extent.1.saturating_add(room) } else { last },
        );
        // The range before may lie far from the keys that there are: a cleared table has the one of an earlier slice.
        let length_max =
            CROWDED_LENGTH_FREE.min(keys.saturating_mul(KEPT_INTEGERS_PER_KEY)).max(keys.saturating_mul(2));
        let fits = distance(generous.0, generous.1) < length_max;
        let most = crowded_length_max(layout) - 1;
        let wanted = match distance(generous.0, generous.1) <= most {
            true if fits => generous,
            false if keys > CROWDED_LENGTH_FREE => (extent.0, extent.1.max(extent.0.saturating_add(most as i64))),
            _ => extent,
        };
        self.move_dense(layout, wanted);
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
            self.counted.take();
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
