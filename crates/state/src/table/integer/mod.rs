//! Groups by one key of at most eight bytes: entries side by side by key ([`dense`]), or found by hash ([`hashed`]), as suits the range of the keys ([`range`]) and became of it before ([`attempts`]).

mod dense;

mod hashed;

mod attempts;

mod range;

use std::ops::Range;
use std::sync::OnceLock;

use super::allowance::Allowance;
use super::capacity::{capacity_for, first_capacity};
use super::line::is_cached;
use super::region::Region;
use super::spread::Homes;
use super::{ABSENT, TableHint};
use crate::layout::{DenseKeys, EntryLayout};

pub(super) use self::attempts::Attempts;
use self::attempts::Outcome;
pub use self::range::DENSE_LENGTH_MAX;
use self::range::{dense_suits, distance, holds, is_crowded, suits_known, takes_little_more, union, with_room};
use crate::vector::prefetch;

/// Dense entries that take no more bytes than this stay prepared when they are cleared: the next slice's keys need not be looked at before
/// their entries are touched.
const KEPT_EXTENT_BYTES: usize = 8 << 10;

/// Of a dense table with more places than this groups are estimated where they are not asked for themselves, from so many places in a row of so many: to look at
/// all entries takes as long as to bring them from memory.
const SAMPLED_LENGTH_MIN: usize = 1 << 17;
const SAMPLED_SLOTS: usize = 1 << 10;
const SAMPLED_EVERY: usize = 1 << 14;

/// The bytes of eight entries that are all in use.
const ALL_PRESENT: u64 = 0x0101_0101_0101_0101;

/// So many groups, or fewer, move at once where entries get other places: it takes about a millisecond. More are left behind, if they may be.
const MOVED_GROUPS_MAX: usize = 1 << 15;

/// How entries of integer keys are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntegerMode {
    /// Entry `key - base`, for keys in `base..base + length`, at `(key - base) *` [`EntryLayout::dense_stride`] bytes.
    Dense {
        /// The key of entry 0.
        base: i64,
        /// Entries.
        length: usize,
    },
    /// By hash.
    Hash,
}

#[derive(Debug)]
pub(super) struct IntegerGroups {
    entries: Region,
    mode: Mode,
    /// Groups of a dense table, but for the NULL key's, once they have been counted.
    counted: OnceLock<usize>,
    /// How often entries have got other places.
    moves: u64,
    null_present: bool,
    /// Smallest and largest key that the table was prepared for since it was cleared, and where they are near of before.
    extent: Option<(i64, i64)>,
    /// Whether the extent is that of before the table was cleared, and nobody has asked for another since.
    extent_is_kept: bool,
    /// Rows that the table was prepared for since it was cleared: those of keys that it was prepared for already need not be among them.
    rows: usize,
    /// What is expected before it is seen.
    expected: TableHint,
    /// Whether entries that lay side by side went over to hashes since the table was cleared.
    was_dense: bool,
    /// Whether these are groups that were left behind, because others are found in another way,
    is_left: bool,
    /// and how many were left behind by these since the table was cleared.
    left_groups: usize,
    /// What the table of the slice has taught to which these groups have been added, where it finds its groups in another way.
    learned: Option<TableHint>,
    /// Whether nothing has come since that was learned.
    has_learned: bool,
    /// Bytes of entries that have been cleared, while groups are being forgotten.
    cleared_bytes: usize,
    /// What it may take when it doubles.
    pub(super) allowance: Allowance,
}

#[derive(Debug)]
enum Mode {
    Undecided,
    /// Entries 0 to `length - 1`, then the NULL key's. One byte of `present` for each but the last: it is 1 where the entry is in use, unless the
    /// layout's [`EntryLayout::use_word`] shows that.
    Dense {
        base: i64,
        length: usize,
        present: Region,
    },
    /// Slots, then the NULL key's entry, then the sentinel's.
    Hash {
        homes: Homes,
        groups: usize,
        sentinel_present: bool,
    },
}

impl IntegerGroups {
    pub(super) fn new(expected: TableHint) -> IntegerGroups {
        IntegerGroups {
            entries: Region::empty(),
            mode: Mode::Undecided,
            counted: OnceLock::new(),
            moves: 0,
            null_present: false,
            extent: None,
            extent_is_kept: false,
            rows: 0,
            expected,
            was_dense: false,
            is_left: false,
            left_groups: 0,
            learned: None,
            has_learned: false,
            cleared_bytes: 0,
            allowance: Allowance::default(),
        }
    }

    pub(super) fn mode(&self) -> Option<IntegerMode> {
        match self.mode {
            Mode::Undecided => None,
            Mode::Dense { base, length, .. } => Some(IntegerMode::Dense { base, length }),
            Mode::Hash { .. } => Some(IntegerMode::Hash),
        }
    }

    pub(super) fn moves(&self) -> u64 {
        self.moves
    }

    /// Moves entries in so many slots that are to be moved since the table has grown: whether there were some.
    pub(super) fn grow_part(&mut self, layout: &EntryLayout, slots_max: usize) -> bool {
        matches!(self.mode, Mode::Hash { .. }) && self.spread(layout, slots_max)
    }

    pub(super) fn extent(&self) -> Option<(i64, i64)> {
        self.extent
    }

    pub(super) fn entries_bytes(&self) -> usize {
        self.entries.bytes()
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.entries.as_ptr()
    }

    /// The bytes of entries, of which the caller may set some, as of words.
    pub(super) fn present(&mut self) -> *mut u8 {
        self.counted.take();
        match &self.mode {
            Mode::Dense { present, .. } => present.as_ptr(),
            _ => std::ptr::null_mut(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let present = if let Mode::Dense { present, .. } = &self.mode { present.bytes() } else { 0 };
        self.entries.bytes() + present
    }

    /// Makes room for keys from `minimum` to `maximum` in the mode that suits all rows so far. Where many groups would have to move from side by side to hashes, and
    /// it `may_have_previous` them behind, it does: they are returned, and these are none from then on.
    pub(super) fn prepare(
        &mut self,
        layout: &EntryLayout,
        (minimum, maximum): (i64, i64),
        rows: usize,
        may_have_previous: bool,
    ) -> Option<IntegerGroups> {
        debug_assert!(minimum <= maximum);
        let mut left = None;
        self.rows += rows;
        let is_known = self.extent.is_some_and(|(first, last)| first <= minimum && maximum <= last);
        if std::mem::take(&mut self.extent_is_kept) && !is_known && self.groups(layout) == 0 {
            self.extent = None;
        }
        let mut extent = union(self.extent, (minimum, maximum));
        match self.mode {
            Mode::Undecided => self.decide(layout, extent),
            Mode::Dense { base, length, .. } => {
                if !holds((base, length), (minimum, maximum)) {
                    if self.extent.is_none() && holds((minimum, length), (minimum, maximum)) {
                        self.rebase(minimum, maximum);
                    } else if self.stays_dense(layout, extent, 0) {
                        self.widen(layout, extent);
                    } else if may_have_previous && self.groups_about(layout) > MOVED_GROUPS_MAX {
                        left = Some(self.leave_behind(layout));
                        self.make_hash(layout, capacity_for(MOVED_GROUPS_MAX, self.rows));
                    } else {
                        self.change_to_hash(layout);
                    }
                }
            }
            Mode::Hash { groups, .. } => {
                if suits_known(layout, extent, groups, self.rows) && self.may_be_dense(layout) {
                    if may_have_previous && groups > MOVED_GROUPS_MAX {
                        left = Some(self.leave_behind(layout));
                        self.make_dense(layout, with_room(layout, extent));
                    } else {
                        extent = self.change_to_dense(layout, extent);
                    }
                }
            }
        }
        self.extent = Some(extent);
        left
    }

    fn decide(&mut self, layout: &EntryLayout, extent: (i64, i64)) {
        let expected = union(self.expected.extent, extent);
        let rows = self.rows.max(self.expected.groups);
        if !self.may_be_dense(layout) {
            self.make_hash(layout, first_capacity(layout, &self.expected));
        } else if suits_known(layout, expected, self.expected.groups, self.expected.rows) {
            self.make_dense(layout, with_room(layout, expected));
        } else if dense_suits(layout, expected, rows) {
            self.make_dense(layout, expected);
        } else if dense_suits(layout, extent, rows) {
            // Keys move on from slice to slice: as much room as the last slice took, most of it ahead.
            let length = self.expected.extent.map_or(0, |(first, last)| distance(first, last));
            let room = if length < DENSE_LENGTH_MAX as u64 / 2 { length as i64 } else { 0 };
            let ahead = (extent.0.saturating_sub(room / 8), extent.1.saturating_add(room));
            self.make_dense(layout, if dense_suits(layout, ahead, rows) { ahead } else { extent });
        } else {
            self.make_hash(layout, first_capacity(layout, &self.expected));
        }
    }

    /// Whether entries may lie side by side: not soon again where that has failed.
    fn may_be_dense(&self, layout: &EntryLayout) -> bool {
        layout.dense_keys() == DenseKeys::WherePossible || self.expected.attempts.is_due()
    }

    fn change_to_hash(&mut self, layout: &EntryLayout) {
        self.was_dense = true;
        let old = self.take_groups(layout);
        let wanted = capacity_for(old.keys.len(), self.rows).max(first_capacity(layout, &self.expected));
        self.make_hash(layout, wanted);
        self.put_groups(layout, &old);
    }

    /// Takes all groups, which are to be found in another way from now on. Nothing is decided for those that come.
    fn leave_behind(&mut self, layout: &EntryLayout) -> IntegerGroups {
        let (moves, rows, extent) = (self.moves, self.rows, self.extent);
        let (was_dense, left_groups) = (self.is_dense(), self.groups_about(layout));
        let allowance = std::mem::take(&mut self.allowance);
        let known = IntegerGroups {
            moves,
            rows,
            extent,
            was_dense,
            left_groups,
            allowance,
            ..IntegerGroups::new(self.expected)
        };
        IntegerGroups { is_left: true, ..std::mem::replace(self, known) }
    }

    /// Whether these groups, which lie side by side, would go over to hashes if those of another table came to them, which do not.
    pub(super) fn would_go_over(&self, layout: &EntryLayout, other: &IntegerGroups) -> bool {
        let (Mode::Dense { base, length, .. }, Some(theirs)) = (&self.mode, other.extent) else { return false };
        !holds((*base, *length), theirs) && !self.stays_dense(layout, union(self.extent, theirs), other.rows)
    }

    /// Whether groups that lie side by side may be so in a wider range, with so many rows more.
    fn stays_dense(&self, layout: &EntryLayout, extent: (i64, i64), more_rows: usize) -> bool {
        // Those that were left behind are of the same slice, and come to these when it ends.
        let groups = self.groups(layout) + self.left_groups;
        dense_suits(layout, extent, self.rows.max(groups) + more_rows) || is_crowded(layout, extent, groups)
    }

    /// Changes to dense entries for `extent`, unless there are keys outside that the table was not prepared for. Says what the extent is.
    fn change_to_dense(&mut self, layout: &EntryLayout, extent: (i64, i64)) -> (i64, i64) {
        let old = self.take_groups(layout);
        let all = old.keys.iter().fold(extent, |extent, &key| union(Some(extent), (key, key)));
        if suits_known(layout, all, old.keys.len(), self.rows) {
            self.make_dense(layout, with_room(layout, all));
        } else {
            self.make_hash(layout, capacity_for(old.keys.len(), self.rows));
        }
        self.put_groups(layout, &old);
        all
    }

    fn take_groups(&mut self, layout: &EntryLayout) -> Taken {
        let mut entries = Vec::new();
        self.push_entries(layout, 0..self.slots(), &mut entries);
        let null = self.null_entry(layout);
        entries.retain(|&entry| entry != null);
        let keys = entries.iter().map(|&entry| self.key(layout, entry)).collect();
        self.mode = Mode::Undecided;
        Taken { region: std::mem::replace(&mut self.entries, Region::empty()), keys, entries, null }
    }

    fn put_groups(&mut self, layout: &EntryLayout, old: &Taken) {
        let mut entries = Vec::new();
        self.find_or_insert(layout, &old.keys, &mut entries, &mut Vec::new());
        let width = layout.initial().len();
        let nulls = (&old.null, &self.null_entry(layout));
        for (&from, &to) in old.entries.iter().zip(&entries).chain([nulls]) {
            // SAFETY: both are entries of their tables, whose accumulators take this many bytes from the eighth on.
            unsafe {
                let source = old.region.as_ptr().add(from as usize * 8 + 8);
                self.entries.as_ptr().add(to as usize * 8 + 8).copy_from_nonoverlapping(source, width);
            }
        }
    }

    // Entries --------------------------------------------------------------------------------------------------------

    /// Whether a dense table has been prepared for these keys: others would be in no list of groups.
    pub(super) fn is_prepared(&self, keys: &[i64]) -> bool {
        let is_known = |key: &i64| self.extent.is_some_and(|(first, last)| first <= *key && *key <= last);
        !matches!(self.mode, Mode::Dense { .. }) || keys.iter().all(is_known)
    }

    /// The entries of `keys`, for which the table must have been prepared if it is dense.
    pub(super) fn find_or_insert(
        &mut self,
        layout: &EntryLayout,
        keys: &[i64],
        entries: &mut Vec<u32>,
        hashes: &mut Vec<u64>,
    ) {
        if matches!(self.mode, Mode::Undecided) {
            self.make_hash(layout, first_capacity(layout, &self.expected));
        }
        match self.mode {
            Mode::Dense { base, length, .. } => {
                let (start, present) = (self.base(), self.present());
                let is_cached = is_cached(self.entries.bytes());
                let stride = layout.dense_stride();
                entries.clear();
                entries.extend(keys.iter().map(|&key| {
                    let entry = key.wrapping_sub(base) as u64 as usize;
                    assert!(entry < length, "a dense table must be prepared for its keys");
                    if !is_cached {
                        prefetch(start.wrapping_add(entry * stride + 8));
                    }
                    // SAFETY: there is one byte for each of `length` entries.
                    unsafe { present.add(entry).write(1) };
                    (entry * stride / 8) as u32
                }));
            }
            _ => self.find_or_insert_hashed(layout, keys, entries, hashes),
        }
    }

    /// Replaces `entries` by the entries of `keys`, or [`ABSENT`].
    pub(super) fn find(&self, layout: &EntryLayout, keys: &[i64], entries: &mut Vec<u32>) {
        match self.mode {
            Mode::Undecided => {
                entries.clear();
                entries.resize(keys.len(), ABSENT);
            }
            Mode::Dense { base, length, .. } => {
                let in_use = self.in_use(layout);
                let units = layout.dense_stride() / 8;
                entries.clear();
                entries.extend(keys.iter().map(|&key| {
                    let entry = key.wrapping_sub(base) as u64 as usize;
                    let found = entry < length && in_use.one(entry);
                    if found { (entry * units) as u32 } else { ABSENT }
                }));
            }
            Mode::Hash { .. } => self.find_hashed(layout, keys, entries),
        }
    }

    /// The NULL key's entry, which from now on is a group.
    pub(super) fn entry_of_new_null(&mut self, layout: &EntryLayout) -> u32 {
        if matches!(self.mode, Mode::Undecided) {
            self.make_hash(layout, first_capacity(layout, &self.expected));
        }
        self.null_present = true;
        self.null_entry(layout)
    }

    /// The NULL key's entry, where it is a group.
    pub(super) fn null(&self, layout: &EntryLayout) -> Option<u32> {
        self.null_present.then(|| self.null_entry(layout))
    }

    fn null_entry(&self, layout: &EntryLayout) -> u32 {
        let units = match self.mode {
            Mode::Undecided => unreachable!("the table has no entries yet"),
            Mode::Dense { length, .. } => length * layout.dense_stride() / 8,
            Mode::Hash { homes, .. } => homes.capacity() * layout.stride() / 8,
        };
        units as u32
    }

    /// Whether `entry` is the NULL key's.
    pub(super) fn is_null(&self, layout: &EntryLayout, entry: u32) -> bool {
        entry == self.null_entry(layout)
    }

    /// The keys of some entries, where they are side by side and none is the NULL key's.
    pub(super) fn dense_keys(&self, layout: &EntryLayout, entries: &[u32]) -> Option<Vec<i64>> {
        let Mode::Dense { base, .. } = self.mode else { return None };
        let units = (layout.dense_stride() / 8) as u32;
        let key = |slot: u32| base.wrapping_add(i64::from(slot));
        match units {
            _ if self.null_present => None,
            1 => Some(entries.iter().map(|&entry| key(entry)).collect()),
            _ => Some(entries.iter().map(|&entry| key(entry / units)).collect()),
        }
    }

    /// The key of an entry that is not the NULL key's.
    pub(super) fn key(&self, layout: &EntryLayout, entry: u32) -> i64 {
        match self.mode {
            Mode::Undecided => unreachable!("the table has no entries yet"),
            Mode::Dense { base, .. } => base.wrapping_add((entry as usize * 8 / layout.dense_stride()) as i64),
            Mode::Hash { homes, .. } => self.hashed_key(layout, homes.capacity(), entry),
        }
    }

    pub(super) fn groups(&self, layout: &EntryLayout) -> usize {
        let besides_null = match &self.mode {
            Mode::Undecided => 0,
            Mode::Dense { .. } => *self.counted.get_or_init(|| self.in_use(layout).count(self.prepared_slots())),
            Mode::Hash { groups, sentinel_present, .. } => groups + usize::from(*sentinel_present),
        };
        besides_null + usize::from(self.null_present)
    }

    /// As [`IntegerGroups::groups`], or about as many: of many dense entries a part is counted.
    pub(super) fn groups_about(&self, layout: &EntryLayout) -> usize {
        let prepared = self.prepared_slots();
        if self.counted.get().is_some() || prepared.len() <= SAMPLED_LENGTH_MIN {
            return self.groups(layout);
        }
        let (in_use, end) = (self.in_use(layout), prepared.end);
        let parts = prepared.clone().step_by(SAMPLED_EVERY).map(|first| first..end.min(first + SAMPLED_SLOTS));
        let (counted, of) =
            parts.fold((0, 0), |(counted, of), part| (counted + in_use.count(part.clone()), of + part.len()));
        (counted as f64 / of as f64 * prepared.len() as f64) as usize
    }

    pub(super) fn is_dense(&self) -> bool {
        matches!(self.mode, Mode::Dense { .. })
    }

    /// Places that an entry may be in, the last being the NULL key's.
    pub(super) fn slots(&self) -> usize {
        match self.mode {
            Mode::Undecided => 0,
            Mode::Dense { length, .. } => length + 1,
            // The sentinel's entry is listed with the NULL key's.
            Mode::Hash { homes, .. } => homes.capacity() + 1,
        }
    }

    /// Appends the entries in use that are in some slots.
    pub(super) fn push_entries(&self, layout: &EntryLayout, slots: Range<usize>, out: &mut Vec<u32>) {
        assert!(slots.end <= self.slots(), "a slot is one of the table");
        let found_by_key = slots.start..slots.end.min(self.slots().saturating_sub(1));
        match &self.mode {
            Mode::Undecided => return,
            Mode::Dense { .. } => {
                let prepared = self.prepared_slots();
                let slots = found_by_key.start.max(prepared.start)..found_by_key.end.min(prepared.end);
                self.in_use(layout).list(slots, (layout.dense_stride() / 8) as u32, out);
            }
            Mode::Hash { .. } => self.push_hashed_entries(layout, found_by_key, slots.end == self.slots(), out),
        }
        if self.null_present && slots.end == self.slots() {
            out.push(self.null_entry(layout));
        }
    }

    /// What the next slice's table should know.
    pub(super) fn hint(&self, layout: &EntryLayout) -> TableHint {
        let groups = self.groups_about(layout);
        let attempts = self.expected.attempts;
        // A table that is cleared unused, or once more, says nothing.
        let attempts = if groups > 0 { attempts.after(self.outcome(layout, groups)) } else { attempts };
        TableHint { groups, rows: self.rows, extent: self.extent, attempts }
    }

    fn outcome(&self, layout: &EntryLayout, groups: usize) -> Outcome {
        match (self.is_dense(), self.extent) {
            (true, _) if self.is_left => Outcome::Failed,
            (true, _) => Outcome::Suited,
            (false, _) if self.was_dense => Outcome::Failed,
            (false, Some(extent)) if suits_known(layout, extent, groups, self.rows) => Outcome::Suited,
            (false, _) => Outcome::NotSuited,
        }
    }

    /// Learns from the table of the slice, to which these groups have been added: where it has entries side by side and these are found by hash, the next slice's begin as those
    /// do, unless that takes much more memory. The keys of one worker may not crowd where those of all do. What was left behind is no worker's next table.
    pub(super) fn learn_from(&mut self, layout: &EntryLayout, all: &IntegerGroups) {
        let (Mode::Hash { groups, .. }, false, true) = (&self.mode, self.is_left, all.is_dense()) else { return };
        let fits = |(first, last)| takes_little_more(layout, distance(first, last), *groups);
        self.learned = all.extent.is_some_and(fits).then(|| all.hint(layout));
    }

    /// Whether it is empty, and has learned how the groups that come are to be found.
    pub(super) fn has_learned(&self) -> bool {
        self.has_learned && matches!(self.mode, Mode::Undecided)
    }

    /// Forgets all groups, at a cost proportional to what was used, so many bytes of them at a time: whether all have been forgotten.
    pub(super) fn clear(&mut self, layout: &EntryLayout, bytes_max: usize) -> bool {
        if self.cleared_bytes == 0 {
            self.expected = self.hint(layout);
        }
        let learned = self.learned.take();
        if self.is_left || learned.is_some() {
            // What comes next begins anew, by what has been learned.
            let expected = learned.unwrap_or(self.expected);
            let has_learned = learned.is_some();
            *self = IntegerGroups { moves: self.moves, has_learned, ..IntegerGroups::new(expected) };
            return true;
        }
        let is_clear = match self.mode {
            Mode::Undecided => true,
            Mode::Dense { .. } => self.clear_dense(layout, bytes_max),
            Mode::Hash { .. } => self.clear_hashed(layout, bytes_max),
        };
        if !is_clear {
            return false;
        }
        self.cleared_bytes = 0;
        self.null_present = false;
        (self.was_dense, self.left_groups) = (false, 0);
        let is_small = |(first, last)| distance(first, last) < (KEPT_EXTENT_BYTES / layout.stride()) as u64;
        let is_dense = self.is_dense();
        self.extent = self.extent.filter(|&extent| is_dense && is_small(extent));
        self.extent_is_kept = self.extent.is_some();
        self.rows = 0;
        true
    }

    /// The next bytes to clear of `bytes`, which are at most `bytes_max`. They count as cleared.
    fn next_to_clear(&mut self, bytes: usize, bytes_max: usize) -> Range<usize> {
        let first = self.cleared_bytes;
        self.cleared_bytes = bytes.min(first.saturating_add(bytes_max));
        first..self.cleared_bytes
    }
}

/// The groups of a table that is about to find its entries another way.
struct Taken {
    region: Region,
    keys: Vec<i64>,
    entries: Vec<u32>,
    null: u32,
}
