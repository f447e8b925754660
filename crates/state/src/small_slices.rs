//! Small slices: what a worker has of slices of few rows, many of them in one table.
//!
//! A slice of few rows is not worth a table of its own, which must be made, merged and cleared. A worker finds the groups of all of its small slices in one
//! table instead, which numbers them; a small slice is a list of numbers and what each of these groups has accumulated. Whoever closes windows looks the key
//! of each number up once, and from then on combines slices by number (LightSaber, section 4: threads have partial results of their own until slices are
//! merged). Small slices begin and end within a block; where several workers have rows of one, each has a part of it.
//!
//! Numbers are valid as long as their table is small and pays. Then it begins anew, with other numbers, and forgets keys that have no more rows.

use std::ops::Range;
use std::sync::Arc;

use pelton_data::window::Combination;

use crate::layout::EntryLayout;
use crate::slice::SliceId;
use crate::table::{SliceGroups, Table};

/// The table of keys begins anew when those that have a number take more than this: searches would leave the second-level cache.
const KEY_BYTES_MAX: usize = 512 << 10;

/// It begins anew as well when it has seen so many rows for each of its groups, for some of which none may come any more.
const ROWS_PER_GROUP_MAX: usize = 256;

/// With fewer groups than this, those that come no more cost nothing.
const FORGOTTEN_GROUPS_MIN: u32 = 1024;

/// A slice of one row for so many of all groups has a place for each of them.
const GROUPS_PER_ROW_MAX: usize = 2;

/// Small slices that nobody reads any more, kept for the next block.
const SPARE_SMALL_SLICES_MAX: usize = 2;

/// What tells the numbers of groups from those that have the same elsewhere: each is another allocation.
#[derive(Debug, Default)]
pub(crate) struct SmallSliceSource;

/// What one worker has of some slices.
#[derive(Debug)]
pub struct SmallSlices {
    /// Those whose numbers are of the same groups have the same source.
    source: Arc<SmallSliceSource>,
    /// Keys of the groups that come after those of all earlier pieces of the source.
    keys: Table,
    /// The numbers of the groups of one slice after the other.
    numbers: Vec<u32>,
    /// The entries of these groups.
    entries: Vec<u32>,
    /// What they have accumulated.
    values: Table,
    /// Where the groups of each slice end, in ascending order of slices.
    slices: Vec<(SliceId, usize)>,
}

impl SmallSlices {
    fn new(layout: &Arc<EntryLayout>, keys: &Arc<EntryLayout>, source: Arc<SmallSliceSource>) -> SmallSlices {
        SmallSlices {
            source,
            keys: Table::list(keys.clone()),
            numbers: Vec::new(),
            entries: Vec::new(),
            values: Table::unkeyed(layout.clone()),
            slices: Vec::new(),
        }
    }

    fn clear(&mut self, source: Arc<SmallSliceSource>) {
        self.source = source;
        self.keys.clear();
        self.numbers.clear();
        self.entries.clear();
        self.values.clear();
        self.slices.clear();
    }

    /// What tells the groups of these pieces from those that have the same numbers elsewhere.
    pub(crate) fn source(&self) -> &Arc<SmallSliceSource> {
        &self.source
    }

    /// Keys of the groups whose numbers follow those of earlier pieces of the source.
    pub(crate) fn keys(&self) -> &Table {
        &self.keys
    }

    /// The slices, ascending.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = SliceId> {
        self.slices.iter().map(|(id, _)| *id)
    }

    /// One of the slices, and which groups are its; `None` behind the last.
    pub(crate) fn slice(&self, index: usize) -> Option<(SliceId, Range<usize>)> {
        let &(id, end) = self.slices.get(index)?;
        Some((id, index.checked_sub(1).map_or(0, |before| self.slices[before].1)..end))
    }

    /// The numbers of some groups.
    pub(crate) fn numbers(&self, groups: Range<usize>) -> &[u32] {
        &self.numbers[groups]
    }

    /// What some groups have accumulated: a table, and their entries.
    pub(crate) fn values(&self, groups: Range<usize>) -> (&Table, &[u32]) {
        (&self.values, &self.entries[groups])
    }

    fn bytes(&self) -> usize {
        self.keys.bytes() + self.values.bytes() + 4 * (self.numbers.capacity() + self.entries.capacity())
    }
}

/// Where a worker adds rows to pieces.
#[derive(Debug)]
pub struct SmallSliceWriter {
    layout: Arc<EntryLayout>,
    groups: SliceGroups,
    source: Arc<SmallSliceSource>,
    /// Rows since the table of keys began anew.
    rows: usize,
    filling: SmallSlices,
    /// Whether slices may have groups that they have no rows of: a count says so.
    may_be_empty: bool,
    /// A buffer that is reused.
    present: Vec<u8>,
    /// And another.
    found: Vec<u32>,
    /// Which groups the rows of each of several slices are of: a bit each, the first for those that have no number.
    slices_present: Vec<u64>,
    /// Complete, and not taken.
    complete: Vec<Arc<SmallSlices>>,
    /// All that are or were complete: whoever took them may still read them.
    lent: Vec<Arc<SmallSlices>>,
}

impl SmallSliceWriter {
    /// Whether pieces can be made of slices of this layout: what accumulators refer to has no place in them.
    pub fn takes(layout: &EntryLayout) -> bool {
        !layout.has_references()
    }

    /// No rows yet.
    ///
    /// # Panics
    /// Where [`SmallSliceWriter::takes`] says no.
    pub fn new(layout: Arc<EntryLayout>, combination: Combination) -> SmallSliceWriter {
        assert!(SmallSliceWriter::takes(&layout), "pieces hold all that there is of their groups");
        let (mut groups, source) = (SliceGroups::new(&layout), Arc::<SmallSliceSource>::default());
        let filling = SmallSlices::new(&layout, groups.table().layout(), source.clone());
        // A group leaves a running window with the last of its rows, and must have some in each slice.
        let may_be_empty = combination != Combination::SubtractOnEvict && layout.row_count().is_some();
        SmallSliceWriter {
            layout,
            groups,
            source,
            rows: 0,
            filling,
            may_be_empty,
            present: Vec::new(),
            found: Vec::new(),
            slices_present: Vec::new(),
            complete: Vec::new(),
            lent: Vec::new(),
        }
    }

    /// Where the next rows, so many of them, find their groups. All of a slice's must come together.
    pub fn groups(&mut self, rows: usize) -> &mut Table {
        let numbered = self.groups.numbered();
        let is_stale = numbered >= FORGOTTEN_GROUPS_MIN && self.rows >= ROWS_PER_GROUP_MAX * numbered as usize;
        if is_stale || self.groups.used_bytes() > KEY_BYTES_MAX || self.groups.is_exhausted() {
            self.finish();
            self.groups.clear();
            self.source = Arc::default();
            self.filling.source = self.source.clone();
            // Those that nobody reads are all that would keep the one before.
            let unread = self.lent.iter_mut().filter_map(Arc::get_mut);
            unread.for_each(|pieces| pieces.clear(self.source.clone()));
            self.rows = 0;
        }
        self.rows += rows;
        self.groups.table()
    }

    /// Replaces `entries` of the table of groups, of the rows of a slice, by entries of [`SmallSliceWriter::values`].
    ///
    /// # Panics
    /// Where the slice is not behind the one before, or an entry is none.
    pub fn place(&mut self, slice: SliceId, entries: &mut [u32]) {
        let SmallSlices { keys, numbers, values, entries: placed, slices, .. } = &mut self.filling;
        assert!(slices.last().is_none_or(|(last, _)| *last < slice), "slices come in their order");
        let (before, first, units) = (numbers.len(), values.groups() as u32, values.unkeyed_units());
        if self.groups.numbered() as usize > GROUPS_PER_ROW_MAX * entries.len() {
            self.groups.place(entries, (first, units), numbers, keys);
            let added = (numbers.len() - before) as u32;
            values.extend_unkeyed(added as usize);
            placed.extend((first..first + added).map(|place| place * units));
        } else {
            let present = if self.may_be_empty { None } else { Some(&mut self.present) };
            self.groups.place_all(entries, (first, units), present, keys);
            let all = self.groups.numbered();
            values.extend_unkeyed(all as usize);
            if self.may_be_empty || self.present.iter().all(|&present| present == 1) {
                numbers.extend(0..all);
                placed.extend((first..first + all).map(|place| place * units));
            } else {
                let present = (0..all).filter(|&number| self.present[number as usize] == 1);
                numbers.extend(present.clone());
                placed.extend(present.map(|number| (first + number) * units));
            }
        }
        slices.push((slice, numbers.len()));
    }

    /// As [`SmallSliceWriter::place`], of several slices: so many rows are each one's, behind those of the one before. Slices without rows are passed over.
    ///
    /// # Panics
    /// As there, or where `entries` are not of all these rows.
    pub fn place_all(&mut self, slices: impl Iterator<Item = (SliceId, usize)> + Clone, entries: &mut Vec<u32>) {
        let slices = slices.filter(|(_, rows)| *rows > 0);
        let all = self.groups.numbered();
        let has_few = |(_, rows): (SliceId, usize)| all as usize > GROUPS_PER_ROW_MAX * rows;
        let are_mostly_there = (1..u64::BITS).contains(&all) && !slices.clone().any(has_few);
        if are_mostly_there && self.place_known(slices.clone(), entries) {
            return;
        }
        let mut rest = entries.as_mut_slice();
        for (slice, rows) in slices {
            let (entries, behind) = rest.split_at_mut(rows);
            self.place(slice, entries);
            rest = behind;
        }
    }

    /// As [`SmallSliceWriter::place_all`], where the groups of all rows have numbers, which are fewer than a word has bits: whether that is so. Each group that has a
    /// number gets a place in each slice.
    fn place_known(&mut self, slices: impl Iterator<Item = (SliceId, usize)> + Clone, entries: &mut Vec<u32>) -> bool {
        let SmallSlices { numbers, values, entries: placed, slices: written, .. } = &mut self.filling;
        let (all, units, mut first) = (self.groups.numbered(), values.unkeyed_units(), values.groups() as u32);
        let (found, present) = (&mut self.found, &mut self.slices_present);
        found.clear();
        found.reserve(entries.len());
        present.clear();
        let known = self.groups.numbers(entries);
        for (_, rows) in slices.clone() {
            let (row, mut bits) = (found.len(), 0_u64);
            found.extend(known.part(row..row + rows).map(|number| {
                bits |= 1 << (number % u64::BITS);
                (first + number).wrapping_sub(1).wrapping_mul(units)
            }));
            present.push(bits);
            first += all;
        }
        assert_eq!(found.len(), entries.len(), "each row is one of a slice");
        if present.iter().fold(0, |any, bits| any | bits) & 1 == 1 {
            return false;
        }
        std::mem::swap(entries, found);
        let every = ((1_u64 << all) - 1) << 1;
        let mut first = values.groups() as u32;
        for ((slice, _), &bits) in slices.zip(&*present) {
            assert!(written.last().is_none_or(|(last, _)| *last < slice), "slices come in their order");
            if self.may_be_empty || bits == every {
                numbers.extend(0..all);
                placed.extend((first..first + all).map(|place| place * units));
            } else {
                let present = (0..all).filter(|number| bits >> (number + 1) & 1 == 1);
                numbers.extend(present.clone());
                placed.extend(present.map(|number| (first + number) * units));
            }
            written.push((slice, numbers.len()));
            first += all;
        }
        values.extend_unkeyed(present.len() * all as usize);
        true
    }

    /// The entry of [`SmallSliceWriter::values`] of all rows of a slice, where they have no keys.
    ///
    /// # Panics
    /// Where they have, or the slice is not behind the one before.
    pub fn place_single(&mut self, slice: SliceId) -> u32 {
        let mut entry = [self.groups(1).single_entry()];
        self.place(slice, &mut entry);
        entry[0]
    }

    /// Where accumulators change.
    pub fn values(&mut self) -> &mut Table {
        &mut self.filling.values
    }

    /// Whether the slice comes behind all that are being filled.
    pub fn is_next(&self, slice: SliceId) -> bool {
        self.filling.slices.last().is_none_or(|(last, _)| *last < slice)
    }

    /// Makes what there is complete.
    fn finish(&mut self) {
        if self.filling.slices.is_empty() {
            return;
        }
        let unread = self.lent.iter().rposition(|pieces| Arc::strong_count(pieces) == 1);
        let spare = unread.and_then(|at| Arc::into_inner(self.lent.swap_remove(at)));
        let next = match spare {
            Some(mut pieces) => {
                pieces.clear(self.source.clone());
                pieces
            }
            None => SmallSlices::new(&self.layout, self.groups.table().layout(), self.source.clone()),
        };
        let mut unread = 0;
        self.lent.retain(|pieces| {
            unread += usize::from(Arc::strong_count(pieces) == 1);
            Arc::strong_count(pieces) > 1 || unread <= SPARE_SMALL_SLICES_MAX
        });
        let complete = Arc::new(std::mem::replace(&mut self.filling, next));
        self.lent.push(complete.clone());
        self.complete.push(complete);
    }

    /// Whether there are any that were not taken.
    pub(crate) fn has_any(&self) -> bool {
        !self.complete.is_empty() || !self.filling.slices.is_empty()
    }

    /// Takes all pieces, those of one source in their order.
    pub fn take(&mut self) -> Vec<Arc<SmallSlices>> {
        self.finish();
        std::mem::take(&mut self.complete)
    }

    /// Bytes of memory held, by pieces that others read as well.
    pub fn bytes(&self) -> usize {
        let pieces = self.lent.iter().map(|pieces| pieces.bytes()).sum::<usize>();
        pieces + self.filling.bytes() + self.groups.bytes()
    }
}
