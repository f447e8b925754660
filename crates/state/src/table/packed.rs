//! Groups by packed keys: several columns, strings, floats, decimals.
//!
//! An entry is the key's hash, the key, the accumulators. Hashes are compared before keys, and growing needs no key at all.
//! Long strings live in the arena; a key that is looked for points to the bytes of its column.

mod used;

use arrow::array::ArrayRef;

use self::used::marked_words;
use super::allowance::Allowance;
use super::arena::Arena;
use super::capacity::first_capacity;
use super::grid::Grid;
use super::key_shape::{ANY, FOUR_WORDS, KeyShape, ONE_WORD, long_string, with_form};
use super::line::{InLine, Unfound, find_in_line, is_cached, slots_of_home};
use super::pack::{KeyRows, pack_keys};
use super::probing::{ABSENT, BATCH, PREFETCH_KEYS};
use super::region::Region;
use super::spread::{Homes, SlotArray, part_for};
use super::{Chosen, TableHint};
use crate::layout::{EntryLayout, KeyLayout, PACKED_HEADER};
use crate::vector::prefetch;

#[derive(Debug)]
pub(super) struct PackedGroups {
    entries: Region,
    /// Of one slot where there are none yet.
    homes: Homes,
    groups: usize,
    /// Rows whose entries were looked for since the table was cleared.
    rows: usize,
    /// One bit for each slot, in a small table: whether it is in use.
    used: Vec<u64>,
    /// How often entries have got other places.
    moves: u64,
    arena: Arena,
    shape: KeyShape,
    /// Knows the entries of keys that are integers close together.
    grid: Option<Box<Grid>>,
    expected: TableHint,
    /// Bytes of entries that have been cleared, while groups are being forgotten.
    cleared_bytes: usize,
    /// What it may take when it doubles.
    pub(super) allowance: Allowance,
}

/// There is no room for another group.
#[derive(Debug)]
pub(super) struct Full;

/// What a search needs to know, in registers.
#[derive(Clone, Copy)]
struct Slots {
    start: *const u8,
    homes: Homes,
    stride: usize,
}

impl Slots {
    /// The entry of one key, or the free slot where its search ended.
    ///
    /// # Safety
    /// These must be the slots of a table whose keys are of this shape and form; `key` must point to a packed key, and its strings
    /// must be there.
    #[inline(always)]
    unsafe fn locate<const FORM: u8>(self, shape: &KeyShape, key: *const u8, hash: u64) -> Result<u32, usize> {
        let mut slot = self.homes.home(hash);
        loop {
            // SAFETY: the slot is one of the region's, of `stride` bytes; keys of entries in use point into the arena.
            unsafe {
                let entry = self.start.add(slot * self.stride);
                let held = entry.cast::<u64>().read();
                if held == hash && shape.equal::<FORM>(entry.add(PACKED_HEADER), key) {
                    return Ok((slot * (self.stride / 8)) as u32);
                }
                if held == 0 {
                    return Err(slot);
                }
            }
            slot = self.homes.next(slot);
        }
    }
}

impl PackedGroups {
    pub(super) fn new(layout: &EntryLayout, expected: TableHint) -> PackedGroups {
        let KeyLayout::Packed { width, columns } = layout.keys() else { panic!("the layout's keys are not packed") };
        PackedGroups {
            entries: Region::empty(),
            homes: Homes::new(1, 1),
            groups: 0,
            rows: 0,
            used: Vec::new(),
            moves: 0,
            arena: Arena::default(),
            shape: KeyShape::new(*width, columns),
            grid: Grid::suits(columns, layout.dense_keys()).then(Box::default),
            expected,
            cleared_bytes: 0,
            allowance: Allowance::default(),
        }
    }

    pub(super) fn groups(&self) -> usize {
        self.groups
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn moves(&self) -> u64 {
        self.moves
    }

    pub(super) fn bytes(&self) -> usize {
        self.entries.bytes() + self.arena.bytes() + self.grid.as_ref().map_or(0, |grid| grid.bytes())
    }

    pub(super) fn entries_bytes(&self) -> usize {
        self.entries.bytes()
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.entries.as_ptr()
    }

    /// The entries of `rows` keys.
    ///
    /// # Safety
    /// Keys must be packed in this table's layout and point to strings that are there.
    pub(super) unsafe fn find_or_insert(
        &mut self,
        layout: &EntryLayout,
        keys: &[u8],
        rows: usize,
        entries: &mut Vec<u32>,
        hashes: &mut Vec<u64>,
    ) {
        entries.clear();
        self.spread_for(layout, rows);
        // SAFETY: the caller's promise, passed on.
        while unsafe { self.append(layout, keys, rows, entries, hashes) }.is_err() {
            self.grow_once(layout, rows);
            // Entries found so far have moved: they are found again.
            entries.clear();
        }
    }

    /// Makes room for more groups, after a search among those of so many rows that had too little: what the table has grown by before, else twice as much, or, where
    /// that is not allowed, what there is, once. Entries may move.
    pub(super) fn grow_once(&mut self, layout: &EntryLayout, rows: usize) {
        if self.spread(layout, usize::MAX) {
            return;
        }
        let capacity = self.homes.capacity();
        if self.allowance.doubles(capacity * layout.stride()) {
            self.grow(layout, capacity * 2);
            self.spread_for(layout, rows);
        }
    }

    /// Moves some entries, where the table has grown and not all have been moved that are to be: more before many rows' groups are looked for.
    pub(super) fn spread_for(&mut self, layout: &EntryLayout, rows: usize) {
        self.spread(layout, part_for(rows));
    }

    /// Moves the next entries that are to be moved since the table has grown, those of so many slots: whether there were some.
    pub(super) fn spread(&mut self, layout: &EntryLayout, count: usize) -> bool {
        let slots = SlotArray { start: self.entries.as_ptr(), stride: layout.stride(), hash: |hash| hash };
        // SAFETY: the slots are this table's, which is borrowed exclusively. It has fewer groups than slots before it grew: there may be no more meanwhile.
        let have_moved = unsafe { self.homes.spread(slots, count) };
        if have_moved {
            self.mark_used(layout);
            self.moves += 1;
        }
        have_moved
    }

    /// Bytes of a packed key.
    pub(super) fn key_width(&self) -> usize {
        self.shape.width()
    }

    /// Appends the entries of `rows` keys, or of some of them before there is no more room.
    ///
    /// # Safety
    /// As for [`PackedGroups::find_or_insert`].
    pub(super) unsafe fn append(
        &mut self,
        layout: &EntryLayout,
        keys: &[u8],
        rows: usize,
        entries: &mut Vec<u32>,
        hashes: &mut Vec<u64>,
    ) -> Result<(), Full> {
        assert_eq!(keys.len(), rows * self.shape.width());
        self.expect(layout, rows)?;
        // SAFETY: the caller's promise, passed on; the keys are as many as asserted, and entries are made.
        unsafe { with_form!(self.shape.form(), self.append_formed(layout, keys, entries, hashes)) }
    }

    /// What says of keys that are integers which entries are theirs.
    pub(super) fn grid(&self) -> Option<&Grid> {
        self.grid.as_deref()
    }

    /// Appends the entries of a batch's keys by the places that integers have, or of some of them before there is no more room; whether they
    /// have any. The scratch buffers are overwritten.
    pub(super) fn append_by_places(
        &mut self,
        layout: &EntryLayout,
        columns: &[ArrayRef],
        rows: &KeyRows<'_>,
        entries: &mut Vec<u32>,
        (keys, hashes): (&mut Vec<u8>, &mut Vec<u64>),
    ) -> Result<bool, Full> {
        // What places know is forgotten whenever entries move.
        if self.homes.capacity_before().is_some() {
            return Ok(false);
        }
        let Some(mut grid) = self.grid.take() else { return Ok(false) };
        let first = entries.len();
        let found = grid.append_known(columns, rows, (self.rows, self.moves), layout.dense_keys(), entries);
        let learned = if found {
            self.learn(&mut grid, layout, (columns, rows), &mut entries[first..], (keys, hashes))
        } else {
            Ok(())
        };
        self.grid = Some(grid);
        learned.map(|()| found)
    }

    /// Finds those entries by hash that places do not know.
    fn learn(
        &mut self,
        grid: &mut Grid,
        layout: &EntryLayout,
        (columns, rows): (&[ArrayRef], &KeyRows<'_>),
        entries: &mut [u32],
        (keys, hashes): (&mut Vec<u8>, &mut Vec<u64>),
    ) -> Result<(), Full> {
        if !is_cached(self.entries.bytes()) {
            let known = entries.iter().filter(|&&entry| entry != ABSENT);
            known.for_each(|&entry| prefetch(self.entries.as_ptr().wrapping_add(entry as usize * 8)));
        }
        let missing: Vec<usize> = (0..entries.len()).filter(|&at| entries[at] == ABSENT).collect();
        self.rows += entries.len() - missing.len();
        if missing.is_empty() {
            return Ok(());
        }
        let listed: Vec<u32> = missing.iter().map(|&at| rows.row(at) as u32).collect();
        pack_keys(layout, columns, KeyRows::Listed(&listed), keys);
        let mut found = Vec::with_capacity(missing.len());
        // SAFETY: the keys were just packed with this layout from columns that are borrowed until after the call.
        unsafe { self.append(layout, keys, missing.len(), &mut found, hashes)? };
        for (&at, &entry) in missing.iter().zip(&found) {
            entries[at] = entry;
            grid.learn(at, entry);
        }
        Ok(())
    }

    /// Makes room for the groups that so many further rows are likely to have, unless that is for the caller to do.
    fn expect(&mut self, layout: &EntryLayout, rows: usize) -> Result<(), Full> {
        if self.entries.bytes() == 0 {
            self.make(layout, first_capacity(layout, &self.expected));
        }
        if self.groups > self.allowance.limits(self.homes, self.rows).0 {
            return Err(Full);
        }
        self.rows += rows;
        Ok(())
    }

    /// # Safety
    /// As for [`PackedGroups::append`]; `FORM` must be the keys'.
    unsafe fn append_formed<const FORM: u8>(
        &mut self,
        layout: &EntryLayout,
        keys: &[u8],
        entries: &mut Vec<u32>,
        hashes: &mut Vec<u64>,
    ) -> Result<(), Full> {
        let width = if let ONE_WORD..=FOUR_WORDS = FORM { 8 * FORM as usize } else { self.shape.width() };
        for batch in keys.chunks(BATCH * width) {
            // SAFETY: the caller's promise; `batch` is whole keys.
            unsafe {
                self.shape.hash_all::<FORM>(batch.as_ptr(), batch.len() / width, hashes);
                self.append_hashed::<FORM>(layout, hashes, |row| batch.as_ptr().add(row * width), entries)?;
            }
        }
        Ok(())
    }

    /// Replaces `entries` by those of the keys that some entries of another table have; new keys become groups.
    ///
    /// # Panics
    /// Where an entry is not in use.
    pub(super) fn find_or_insert_entries_of(
        &mut self,
        layout: &EntryLayout,
        (other, other_layout): (&PackedGroups, &EntryLayout),
        from: Chosen<'_>,
        entries: &mut Vec<u32>,
        hashes: &mut Vec<u64>,
    ) {
        assert!(self.shape == other.shape, "tables that are combined have the same keys");
        entries.clear();
        self.spread_for(layout, from.len());
        while self.append_entries_of(layout, (other, other_layout), from, entries, hashes).is_err() {
            self.grow_once(layout, from.len());
            entries.clear();
        }
    }

    fn append_entries_of(
        &mut self,
        layout: &EntryLayout,
        (other, other_layout): (&PackedGroups, &EntryLayout),
        from: Chosen<'_>,
        entries: &mut Vec<u32>,
        hashes: &mut Vec<u64>,
    ) -> Result<(), Full> {
        self.expect(layout, from.len())?;
        let held = |entry: u32| {
            let at = entry as usize * 8;
            assert!(at + other_layout.stride() <= other.entries.bytes(), "an entry lies within its table");
            // SAFETY: the entry lies within the table, as just checked.
            unsafe { other.entries.as_ptr().add(at) }
        };
        for from in from.chunks(BATCH) {
            hashes.clear();
            // SAFETY: an entry begins with its hash, and its key follows, whose strings are there as long as the table.
            unsafe {
                hashes.extend(from.iter().map(|entry| held(entry).cast::<u64>().read()));
                let key = |row| held(from.get(row)).add(PACKED_HEADER).cast_const();
                with_form!(self.shape.form(), self.append_hashed(layout, hashes, key, entries))?;
            }
        }
        Ok(())
    }

    /// Appends the entries of the keys with these hashes, of a batch at most, or none.
    ///
    /// # Safety
    /// `key` must give the address of a key, whose strings are there, for each of the hashes, which must be theirs; `FORM` must be the keys'.
    #[inline(always)]
    unsafe fn append_hashed<const FORM: u8>(
        &mut self,
        layout: &EntryLayout,
        hashes: &[u64],
        key: impl Fn(usize) -> *const u8,
        entries: &mut Vec<u32>,
    ) -> Result<(), Full> {
        entries.reserve(hashes.len());
        let out = entries.spare_capacity_mut().as_mut_ptr().cast::<u32>();
        // SAFETY: the caller's promise; there is room for an entry of each key, all of which have been written where they are counted. A constant stride says how
        // many slots a line has.
        unsafe {
            if is_cached(self.entries.bytes()) {
                for (row, &hash) in hashes.iter().enumerate() {
                    out.add(row).write(self.find_or_insert_one::<FORM>(layout, key(row), hash)?);
                }
            } else if layout.stride() == 32 {
                self.find_in_lines::<FORM, 32>(layout, hashes, key, out)?;
            } else {
                self.find_in_lines::<FORM, 0>(layout, hashes, key, out)?;
            }
            entries.set_len(entries.len() + hashes.len());
        }
        Ok(())
    }

    /// # Safety
    /// As for [`PackedGroups::append_hashed`].
    #[inline(always)]
    unsafe fn find_or_insert_one<const FORM: u8>(
        &mut self,
        layout: &EntryLayout,
        key: *const u8,
        hash: u64,
    ) -> Result<u32, Full> {
        let slots = Slots { start: self.entries.as_ptr(), homes: self.homes, stride: layout.stride() };
        // SAFETY: the caller's promise.
        unsafe {
            match slots.locate::<FORM>(&self.shape, key, hash) {
                Ok(entry) => Ok(entry),
                Err(free) => self.insert(layout, key, hash, free),
            }
        }
    }

    /// Writes the entry of each key to `out`, in a table that leaves the cache. `STRIDE` is the stride or 0.
    ///
    /// # Safety
    /// As for [`PackedGroups::append_hashed`]; there must be room for as many entries.
    #[inline(always)]
    unsafe fn find_in_lines<const FORM: u8, const STRIDE: usize>(
        &mut self,
        layout: &EntryLayout,
        hashes: &[u64],
        key: impl Fn(usize) -> *const u8,
        out: *mut u32,
    ) -> Result<(), Full> {
        let (start, homes, stride) = (self.entries.as_ptr(), self.homes, layout.stride());
        let fetch = |hash: u64| prefetch(start.wrapping_add(homes.likely_home(hash) * stride));
        hashes.iter().take(PREFETCH_KEYS).for_each(|&hash| fetch(hash));
        let mut waiting = Unfound::new();
        for (row, &hash) in hashes.iter().enumerate() {
            if let Some(&later) = hashes.get(row + PREFETCH_KEYS) {
                fetch(later);
            }
            // SAFETY: the caller's promise; the slots are this table's, and keys of entries in use point into the arena.
            unsafe {
                let key = key(row);
                let held = |slot: usize| start.add(slot * stride + PACKED_HEADER).cast_const();
                let is_key = |slot: usize| self.shape.equal::<FORM>(held(slot), key);
                let entry = match find_in_line::<STRIDE>((start, stride, homes), hash, hash, is_key) {
                    InLine::Found(slot) => (slot * (stride / 8)) as u32,
                    InLine::NotFound => self.find_or_insert_one::<FORM>(layout, key, hash)?,
                    InLine::Full(next) => {
                        waiting.push(row, start.wrapping_add(next * stride));
                        continue;
                    }
                };
                out.add(row).write(entry);
            }
        }
        for row in waiting.rows() {
            // SAFETY: as above.
            unsafe { out.add(row).write(self.find_or_insert_one::<FORM>(layout, key(row), hashes[row])?) };
        }
        Ok(())
    }

    /// Replaces `entries` by the entries of `rows` keys, or [`ABSENT`].
    ///
    /// # Safety
    /// As for [`PackedGroups::find_or_insert`].
    pub(super) unsafe fn find(&self, keys: &[u8], rows: usize, entries: &mut Vec<u32>, hashes: &mut Vec<u64>) {
        let width = self.shape.width();
        assert_eq!(keys.len(), rows * width);
        entries.clear();
        if self.groups == 0 {
            entries.resize(rows, ABSENT);
            return;
        }
        let stride = self.entries.bytes() / self.homes.capacity();
        let slots = Slots { start: self.entries.as_ptr(), homes: self.homes, stride };
        // SAFETY: the caller's promise; there are as many keys as asserted, and entries are made.
        unsafe {
            self.shape.hash_all::<ANY>(keys.as_ptr(), rows, hashes);
            let key = |row: usize| keys.as_ptr().add(row * width);
            let found = hashes.iter().enumerate().map(|(row, &hash)| slots.locate::<ANY>(&self.shape, key(row), hash));
            entries.extend(found.map(|entry| entry.unwrap_or(ABSENT)));
        }
    }

    /// Puts a key into a free slot.
    ///
    /// # Safety
    /// As for [`PackedGroups::append`]; `slot` must be free.
    #[inline(never)]
    unsafe fn insert(&mut self, layout: &EntryLayout, key: *const u8, hash: u64, slot: usize) -> Result<u32, Full> {
        let distance = self.homes.distance(hash, slot);
        let (groups_max, distance_max) = self.allowance.limits(self.homes, self.rows);
        if self.groups >= groups_max || (distance > distance_max && self.groups > self.homes.capacity() / 4) {
            return Err(Full);
        }
        self.groups += 1;
        if let Some(word) = self.used.get_mut(slot / 64) {
            *word |= 1 << (slot % 64);
        }
        let (stride, initial) = (layout.stride(), layout.initial());
        // SAFETY: the slot lies in the region; an entry is its hash, its key and as many bytes of accumulators as
        // `initial` has. Long strings of the key are there, by the caller's promise.
        unsafe {
            let entry = self.entries.as_ptr().add(slot * stride);
            entry.cast::<u64>().write(hash);
            let held = entry.add(PACKED_HEADER);
            held.copy_from_nonoverlapping(key, self.shape.width());
            held.add(self.shape.width()).copy_from_nonoverlapping(initial.as_ptr(), initial.len());
            for &string in self.shape.strings() {
                if let Some(bytes) = long_string(key.add(string)) {
                    held.add(string + 8).cast::<*const u8>().write(self.arena.store(bytes));
                }
            }
        }
        Ok((slot * (stride / 8)) as u32)
    }

    fn make(&mut self, layout: &EntryLayout, capacity: usize) {
        debug_assert!(capacity.is_power_of_two());
        self.entries = Region::zeroed(capacity * layout.stride());
        self.assert_size();
        self.homes = Homes::new(capacity, slots_of_home(layout.stride(), capacity));
        self.used.clear();
        self.used.resize(marked_words(capacity), 0);
        self.moves += 1;
    }

    /// Makes room for `capacity` slots, at least twice as many as there are, in the memory that there is and as much more. All entries must have been spread
    /// over those.
    fn grow(&mut self, layout: &EntryLayout, capacity: usize) {
        let (old_capacity, stride) = (self.homes.capacity(), layout.stride());
        assert!(old_capacity * stride <= self.entries.bytes() && capacity >= 2 * old_capacity);
        self.entries.grow(capacity * stride);
        self.assert_size();
        // SAFETY: the slots lie within the region, before and now, and the new ones are zero, as all new memory is.
        unsafe {
            let slots = SlotArray { start: self.entries.as_ptr(), stride, hash: |hash| hash };
            self.homes.grow(slots, capacity, slots_of_home(stride, capacity));
        }
        self.mark_used(layout);
        self.moves += 1;
    }

    fn assert_size(&self) {
        assert!(self.entries.bytes() as u64 <= 8 << 32, "a table is limited to 32 GiB: entries have 32-bit numbers");
    }
}
