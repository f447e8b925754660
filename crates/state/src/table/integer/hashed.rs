//! Entries of integer keys found by hash: open addressing with linear probing, one cache line a search as far as possible.

use std::ops::Range;

use super::{IntegerGroups, Mode};
use crate::layout::EntryLayout;
use crate::table::capacity::{first_capacity, is_hardly_used};
use crate::table::hash::hash_word;
use crate::table::line::{InLine, Unfound, find_in_line, is_cached, slots_of_home};
use crate::table::probing::{ABSENT, BATCH, PREFETCH_KEYS};
use crate::table::region::Region;
use crate::table::spread::{Homes, SlotArray, part_for};
use crate::vector::prefetch;

/// Keys are stored xor this, so that zeroed memory holds no key. The key with this value has an entry of its own.
const SENTINEL: u64 = 0x5eb7_1a0d_c3f2_9e61;

/// One pass over keys needs more room than there is.
struct Full;

/// What a probe needs to know, in registers.
#[derive(Clone, Copy)]
struct Slots<'a> {
    start: *mut u8,
    homes: Homes,
    stride: usize,
    groups_max: usize,
    initial: &'a [u8],
}

/// What a pass over keys changes besides entries.
struct Counts {
    groups: usize,
    sentinel_present: bool,
    /// How far from its place a key may be that is new.
    distance_max: usize,
}

impl Mode {
    fn hash_without_groups(layout: &EntryLayout, capacity: usize) -> Mode {
        let homes = Homes::new(capacity, slots_of_home(layout.stride(), capacity));
        Mode::Hash { homes, groups: 0, sentinel_present: false }
    }
}

impl IntegerGroups {
    pub(super) fn make_hash(&mut self, layout: &EntryLayout, capacity: usize) {
        debug_assert!(capacity.is_power_of_two());
        self.entries = Region::zeroed((capacity + 2) * layout.stride());
        self.assert_size();
        self.mode = Mode::hash_without_groups(layout, capacity);
        self.moves += 1;
        self.initialise_side_entries(layout, capacity);
    }

    /// Gives the entries after the slots, those of the NULL key and of the sentinel, their initial values.
    pub(super) fn initialise_side_entries(&mut self, layout: &EntryLayout, capacity: usize) {
        let initial = layout.initial();
        assert!((capacity + 2) * layout.stride() <= self.entries.bytes());
        for entry in [capacity, capacity + 1] {
            // SAFETY: the entry lies within the region, as just checked, and its accumulators follow its key.
            unsafe {
                let accumulators = self.entries.as_ptr().add(entry * layout.stride() + 8);
                accumulators.copy_from_nonoverlapping(initial.as_ptr(), initial.len());
            }
        }
    }

    /// The entries of `keys`, in hash mode.
    pub(super) fn find_or_insert_hashed(
        &mut self,
        layout: &EntryLayout,
        keys: &[i64],
        entries: &mut Vec<u32>,
        hashes: &mut Vec<u64>,
    ) {
        entries.clear();
        entries.reserve(keys.len());
        self.spread(layout, part_for(keys.len()));
        loop {
            let slots = self.probed(layout);
            if matches!(self.mode, Mode::Hash { groups, .. } if groups > slots.groups_max) {
                self.grow_once(layout, keys.len());
                continue;
            }
            let (_, distance_max) = self.allowance.limits(slots.homes, self.rows);
            let Mode::Hash { groups, sentinel_present, .. } = &mut self.mode else { unreachable!("not in hash mode") };
            let mut counts = Counts { groups: *groups, sentinel_present: *sentinel_present, distance_max };
            let cached = is_cached(slots.homes.capacity() * slots.stride);
            // SAFETY: `slots` describes this table's region, which nothing else refers to during the pass, and `entries`
            // has room for one entry a key.
            let found = unsafe { find_all(slots, keys, cached, entries.as_mut_ptr(), hashes, &mut counts) };
            (*groups, *sentinel_present) = (counts.groups, counts.sentinel_present);
            if found.is_ok() {
                break;
            }
            // Entries found so far move: they are found again.
            self.grow_once(layout, keys.len());
        }
        // SAFETY: the last pass has written an entry for each key.
        unsafe { entries.set_len(keys.len()) };
    }

    fn probed<'a>(&self, layout: &'a EntryLayout) -> Slots<'a> {
        let Mode::Hash { homes, .. } = self.mode else { unreachable!("not in hash mode") };
        let (start, stride) = (self.entries.as_ptr(), layout.stride());
        let (groups_max, _) = self.allowance.limits(homes, self.rows);
        Slots { start, homes, stride, groups_max, initial: layout.initial() }
    }

    /// Makes room for more groups, after a search among those of so many rows that had too little: what the table has grown by before, else twice as much, or, where
    /// that is not allowed, what there is, once. Entries may move.
    fn grow_once(&mut self, layout: &EntryLayout, rows: usize) {
        if self.spread(layout, usize::MAX) {
            return;
        }
        let Mode::Hash { homes, .. } = self.mode else { unreachable!("not in hash mode") };
        if self.allowance.doubles(homes.capacity() * layout.stride()) {
            self.grow(layout, homes.capacity() * 2);
            self.spread(layout, part_for(rows));
        }
    }

    /// Moves the next entries that are to be moved since the table has grown, those of so many slots: whether there were some.
    pub(super) fn spread(&mut self, layout: &EntryLayout, count: usize) -> bool {
        let slots = SlotArray { start: self.entries.as_ptr(), stride: layout.stride(), hash: hash_word };
        let Mode::Hash { homes, .. } = &mut self.mode else { unreachable!("not in hash mode") };
        // SAFETY: the slots are this table's, which is borrowed exclusively. It has fewer groups than slots before it grew, by more than a line has: there may be no
        // more meanwhile.
        let have_moved = unsafe { homes.spread(slots, count) };
        self.moves += u64::from(have_moved);
        have_moved
    }

    /// Replaces `entries` by the entries of `keys`, or [`ABSENT`].
    pub(super) fn find_hashed(&self, layout: &EntryLayout, keys: &[i64], entries: &mut Vec<u32>) {
        let Mode::Hash { homes, sentinel_present, .. } = self.mode else { unreachable!("not in hash mode") };
        let slots = self.probed(layout);
        let sentinel = if sentinel_present { ((homes.capacity() + 1) * slots.stride / 8) as u32 } else { ABSENT };
        let cached = is_cached(slots.homes.capacity() * slots.stride);
        entries.clear();
        for batch in keys.chunks(BATCH) {
            if !cached {
                for &key in batch {
                    let slot = homes.likely_home(hash_word(key as u64 ^ SENTINEL));
                    prefetch(slots.start.wrapping_add(slot * slots.stride));
                }
            }
            entries.extend(batch.iter().map(|&key| {
                let stored = key as u64 ^ SENTINEL;
                // SAFETY: `slots` describes this table's region, which is borrowed.
                let found = unsafe { find::<0>(slots, stored, hash_word(stored)) };
                found.unwrap_or(if stored == 0 { sentinel } else { ABSENT })
            }));
        }
    }

    /// Makes room for `capacity` slots, at least twice as many as there are, in the memory that there is and as much more. All entries must have been spread
    /// over those.
    fn grow(&mut self, layout: &EntryLayout, capacity: usize) {
        let Mode::Hash { homes, .. } = &mut self.mode else { unreachable!("not in hash mode") };
        let (old_capacity, stride) = (homes.capacity(), layout.stride());
        assert!((old_capacity + 2) * stride <= self.entries.bytes() && capacity >= 2 * old_capacity);
        self.entries.grow((capacity + 2) * stride);
        let start = self.entries.as_ptr();
        // SAFETY: the slots and the two entries after them lie within the region, before and now. Where these two were are now slots, which
        // are free: nothing is ever written to the place of their keys. The slots after them are zero, as all new memory is.
        unsafe {
            let side = start.add(old_capacity * stride);
            start.add(capacity * stride).copy_from_nonoverlapping(side, 2 * stride);
            homes.grow(
                SlotArray { start, stride, hash: hash_word },
                capacity,
                slots_of_home(layout.stride(), capacity),
            );
        }
        self.assert_size();
        self.moves += 1;
    }

    fn assert_size(&self) {
        assert!(self.entries.bytes() as u64 <= 8 << 32, "a table is limited to 32 GiB: entries have 32-bit numbers");
    }

    /// Forgets all groups, or the next of them: whether all have been forgotten. Of memory that was hardly used, only as much as was is kept.
    pub(super) fn clear_hashed(&mut self, layout: &EntryLayout, bytes_max: usize) -> bool {
        let Mode::Hash { homes, groups, .. } = self.mode else { unreachable!("not in hash mode") };
        let capacity = homes.capacity();
        if is_hardly_used(groups, capacity) {
            self.make_hash(layout, first_capacity(layout, &self.expected));
            return true;
        }
        let bytes = capacity * layout.stride();
        let part = self.next_to_clear(bytes, bytes_max.max(1));
        self.entries.clear(part.start, part.len());
        if part.end < bytes {
            return false;
        }
        self.initialise_side_entries(layout, capacity);
        self.mode = Mode::hash_without_groups(layout, capacity);
        true
    }

    /// The key of an entry in hash mode that is not the NULL key's.
    pub(super) fn hashed_key(&self, layout: &EntryLayout, capacity: usize, entry: u32) -> i64 {
        let byte = entry as usize * 8;
        if byte / layout.stride() == capacity + 1 {
            return SENTINEL as i64;
        }
        assert!(byte + 8 <= self.entries.bytes());
        // SAFETY: the eight bytes lie within the region, as just checked, which is aligned to them.
        (unsafe { self.entries.as_ptr().add(byte).cast::<u64>().read() } ^ SENTINEL) as i64
    }

    /// Appends the entries in use in some slots, and the sentinel's where that is asked for.
    pub(super) fn push_hashed_entries(
        &self,
        layout: &EntryLayout,
        slots: Range<usize>,
        with_sentinel: bool,
        out: &mut Vec<u32>,
    ) {
        let Mode::Hash { homes, groups, sentinel_present } = self.mode else { unreachable!("not in hash mode") };
        let (stride, capacity) = (layout.stride(), homes.capacity());
        assert!(slots.end <= capacity && (capacity + 2) * stride <= self.entries.bytes());
        out.reserve(groups.min(slots.len()));
        let units = stride / 8;
        for slot in slots {
            // SAFETY: the slot lies within the region, as just checked.
            if unsafe { self.entries.as_ptr().add(slot * stride).cast::<u64>().read() } != 0 {
                out.push((slot * units) as u32);
            }
        }
        if sentinel_present && with_sentinel {
            out.push(((capacity + 1) * units) as u32);
        }
    }
}

/// Writes the entry of each key to `entries`.
///
/// # Safety
/// `slots` must describe a region in hash mode that nothing else refers to; `entries` must have room for a number a key.
unsafe fn find_all(
    slots: Slots<'_>,
    keys: &[i64],
    cached: bool,
    entries: *mut u32,
    hashes: &mut Vec<u64>,
    counts: &mut Counts,
) -> Result<(), Full> {
    // SAFETY: the caller's promise, passed on. A constant stride makes the address of a slot a shift instead of a multiplication.
    unsafe {
        match slots.stride {
            16 => find_all_with::<16>(slots, keys, cached, entries, hashes, counts),
            32 => find_all_with::<32>(slots, keys, cached, entries, hashes, counts),
            _ => find_all_with::<0>(slots, keys, cached, entries, hashes, counts),
        }
    }
}

/// As [`find_all`]; `STRIDE` is the stride or 0.
///
/// # Safety
/// As for [`find_all`].
unsafe fn find_all_with<const STRIDE: usize>(
    slots: Slots<'_>,
    keys: &[i64],
    cached: bool,
    entries: *mut u32,
    hashes: &mut Vec<u64>,
    counts: &mut Counts,
) -> Result<(), Full> {
    let stride = if STRIDE == 0 { slots.stride } else { STRIDE };
    if cached {
        for (row, &key) in keys.iter().enumerate() {
            let stored = key as u64 ^ SENTINEL;
            // SAFETY: the caller's promise, passed on.
            unsafe {
                let entry = find_or_insert::<STRIDE>(slots, stored, hash_word(stored), counts)?;
                entries.add(row).write(entry);
            }
        }
        return Ok(());
    }
    let hash = |key: i64| hash_word(key as u64 ^ SENTINEL);
    let fetch = |hash: u64| prefetch(slots.start.wrapping_add(slots.homes.likely_home(hash) * stride));
    keys.iter().take(PREFETCH_KEYS).for_each(|&key| fetch(hash(key)));
    for (batch, first) in keys.chunks(BATCH).zip((0..).step_by(BATCH)) {
        hashes.clear();
        hashes.extend(batch.iter().map(|&key| hash(key)));
        let behind = &keys[first + batch.len()..];
        let mut waiting = Unfound::new();
        for (row, &key) in batch.iter().enumerate() {
            let later = row + PREFETCH_KEYS;
            match hashes.get(later) {
                Some(&later) => fetch(later),
                None => behind.get(later - batch.len()).map_or((), |&later| fetch(hash(later))),
            }
            let stored = key as u64 ^ SENTINEL;
            // SAFETY: the caller's promise, passed on.
            unsafe {
                let in_line = match stored {
                    0 => InLine::NotFound,
                    _ => find_in_line::<STRIDE>((slots.start, stride, slots.homes), stored, hashes[row], |_| true),
                };
                let entry = match in_line {
                    InLine::Found(slot) => (slot * (stride / 8)) as u32,
                    InLine::NotFound => find_or_insert::<STRIDE>(slots, stored, hashes[row], counts)?,
                    InLine::Full(next) => {
                        waiting.push(row, slots.start.wrapping_add(next * stride));
                        continue;
                    }
                };
                entries.add(first + row).write(entry);
            }
        }
        for row in waiting.rows() {
            // SAFETY: as above.
            unsafe {
                let stored = batch[row] as u64 ^ SENTINEL;
                entries.add(first + row).write(find_or_insert::<STRIDE>(slots, stored, hashes[row], counts)?);
            }
        }
    }
    Ok(())
}

/// The entry of the key stored as `stored`.
///
/// # Safety
/// As for [`find_all`].
#[inline(always)]
unsafe fn find_or_insert<const STRIDE: usize>(
    slots: Slots<'_>,
    stored: u64,
    hash: u64,
    counts: &mut Counts,
) -> Result<u32, Full> {
    // SAFETY: the caller's promise, passed on.
    unsafe {
        match find::<STRIDE>(slots, stored, hash) {
            Ok(entry) => Ok(entry),
            Err(free) => insert(slots, stored, hash, free, counts),
        }
    }
}

/// The entry of the key stored as `stored`, or the free slot where its search ended.
///
/// # Safety
/// `slots` must describe a region in hash mode that nobody writes to.
#[inline(always)]
unsafe fn find<const STRIDE: usize>(slots: Slots<'_>, stored: u64, hash: u64) -> Result<u32, usize> {
    let stride = if STRIDE == 0 { slots.stride } else { STRIDE };
    let mut slot = slots.homes.home(hash);
    loop {
        // SAFETY: the slot is one of the region's.
        let held = unsafe { slots.start.add(slot * stride).cast::<u64>().read() };
        if held == stored && stored != 0 {
            return Ok((slot * (stride / 8)) as u32);
        }
        if held == 0 {
            return Err(slot);
        }
        slot = slots.homes.next(slot);
    }
}

/// Puts a key into the free slot `slot`, or finds the sentinel's entry, which has no slot.
///
/// # Safety
/// As for [`find_all`]; `slot` must be free.
#[inline(never)]
unsafe fn insert(slots: Slots<'_>, stored: u64, hash: u64, slot: usize, counts: &mut Counts) -> Result<u32, Full> {
    let units = slots.stride / 8;
    if stored == 0 {
        counts.sentinel_present = true;
        return Ok(((slots.homes.capacity() + 1) * units) as u32);
    }
    let is_far = slots.homes.distance(hash, slot) > counts.distance_max;
    if counts.groups >= slots.groups_max || (is_far && counts.groups > slots.homes.capacity() / 4) {
        return Err(Full);
    }
    counts.groups += 1;
    // SAFETY: the slot lies in the region; an entry is a key of eight bytes and as many bytes of accumulators as `initial` has.
    unsafe {
        let entry = slots.start.add(slot * slots.stride);
        entry.cast::<u64>().write(stored);
        entry.add(8).copy_from_nonoverlapping(slots.initial.as_ptr(), slots.initial.len());
    }
    Ok((slot * units) as u32)
}
