//! Growth of open-addressing tables with linear probing, in place and part by part (Litwin, Linear hashing, 1980).
//!
//! A larger table needs fresh memory only for what it has more: fresh pages cost the system more than their entries cost the table. With twice
//! the slots an entry's home is where it was, or as many slots further on as there were, so entries move little and in order. A slot's entries are spread
//! over its two at any time after the table has grown: one number says how many slots have been, and with that where a search begins. So no
//! row waits for a large table to be gone through.

/// So many slots at least are spread at a time. Unit tests see large tables grow with few groups.
const PART_SLOTS: usize = if cfg!(test) { 16 } else { 1 << 12 };

/// For each row that may be a new group so many slots are spread: where seven of ten were in use, all are before those are full that have not been, which get
/// the groups that come meanwhile as well.
const SLOTS_PER_ROW: usize = 8;

/// Where searches begin. A search goes from slot to slot until it finds its key or a free one. Several slots may have one home, the first of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Homes {
    /// The last slot.
    last: usize,
    /// The bits of a hash that say where its home is.
    mask: usize,
    /// Both as they were before the table grew, as long as not all slots have been spread, else also what they are now.
    last_before: usize,
    mask_before: usize,
    /// How many have been spread of the slots that there were.
    spread_slots: usize,
}

/// The slots of a table, each of which begins with a word that is zero where it is free and otherwise has a hash.
#[derive(Clone, Copy)]
pub(super) struct SlotArray<H> {
    /// The first slot.
    pub start: *mut u8,
    /// Bytes of a slot, a multiple of eight.
    pub stride: usize,
    /// The hash of an entry's first word.
    pub hash: H,
}

/// How many slots are to be spread before the groups of so many rows are looked for.
pub(super) fn part_for(rows: usize) -> usize {
    rows.saturating_mul(SLOTS_PER_ROW).max(PART_SLOTS)
}

impl Homes {
    /// Of a table with so many slots, of which so many are one home's, both powers of two.
    pub fn new(capacity: usize, slots_of_home: usize) -> Homes {
        debug_assert!(capacity.is_power_of_two() && slots_of_home.is_power_of_two() && capacity >= slots_of_home);
        let (last, mask) = (capacity - 1, capacity - slots_of_home);
        Homes { last, mask, last_before: last, mask_before: mask, spread_slots: 0 }
    }

    /// Slots.
    pub fn capacity(self) -> usize {
        self.last + 1
    }

    /// Slots that there were before the table grew, while entries are being moved.
    pub fn capacity_before(self) -> Option<usize> {
        (self.last_before != self.last).then_some(self.last_before + 1)
    }

    /// The slot where the search for a hash begins.
    #[inline(always)]
    pub fn home(self, hash: u64) -> usize {
        let before = hash as usize & self.mask_before;
        if before < self.spread_slots { hash as usize & self.mask } else { before }
    }

    /// The slot where the search for a hash is most likely to begin: to fetch its line, for less than [`Homes::home`].
    #[inline(always)]
    pub fn likely_home(self, hash: u64) -> usize {
        hash as usize & self.mask_before
    }

    /// The slot behind another.
    #[inline(always)]
    pub fn next(self, slot: usize) -> usize {
        (slot + 1) & self.last
    }

    /// How far a slot is from where the search for a hash begins.
    pub fn distance(self, hash: u64, slot: usize) -> usize {
        slot.wrapping_sub(self.home(hash)) & self.last
    }

    /// The table has so many slots from now on, at least twice as many as it had, over which its entries are to be spread, and at least as many of each home.
    ///
    /// # Safety
    /// `slots` must be `capacity`, aligned to eight, that nothing else refers to; those behind the ones that there were must be free. One at least of these must
    /// be free, every entry where a search finds it, and all must have been spread.
    pub unsafe fn grow(&mut self, slots: SlotArray<impl Fn(u64) -> u64 + Copy>, capacity: usize, slots_of_home: usize) {
        assert!(capacity.is_power_of_two() && capacity > self.capacity() && self.capacity_before().is_none());
        // SAFETY: slots are only asked for below `capacity`, by the caller's promise.
        let first_free = unsafe { (0..=self.last).find(|&slot| slots.word(slot).read() == 0) };
        let first_free = first_free.expect("a table has a free slot");
        // Entries before the first free slot may belong to the end of the old slots, which is followed by other slots now.
        let mut first = vec![0_u64; first_free * slots.stride / 8];
        // SAFETY: both are `first_free` slots long and aligned to eight, and the vector is apart from the table.
        unsafe { first.as_mut_ptr().copy_from_nonoverlapping(slots.start.cast(), first.len()) };
        // SAFETY: the slots lie in the table.
        (0..first_free).for_each(|slot| unsafe { slots.word(slot).write(0) });
        assert!(slots_of_home >= self.capacity() - self.mask);
        (self.last, self.mask, self.spread_slots) = (capacity - 1, capacity - slots_of_home, first_free);
        for entry in first.chunks_exact(slots.stride / 8) {
            // SAFETY: the entry is a slot long, and its target lies in the table: more slots are free than there are entries here.
            unsafe {
                let target = self.free_slot(slots, self.home((slots.hash)(entry[0])));
                slots.word(target).copy_from_nonoverlapping(entry.as_ptr(), entry.len());
            }
        }
    }

    /// Spreads so many slots more, or somewhat more than these: whether there was one.
    ///
    /// # Safety
    /// `slots` must be those of this table, aligned to eight, that nothing else refers to, and every entry where a search finds it.
    ///
    /// # Panics
    /// Where more are in use than there were before the table grew, less those of a home: what has moved may meet what is to be moved then.
    pub unsafe fn spread(&mut self, slots: SlotArray<impl Fn(u64) -> u64 + Copy>, count: usize) -> bool {
        let Some(capacity_before) = self.capacity_before() else { return false };
        let end = capacity_before.min(self.spread_slots.saturating_add(count));
        let mut slot = self.spread_slots;
        // The last slot is followed by a free one: no entry further on has been displaced from one of these.
        loop {
            assert!(slot <= self.last, "fewer slots are in use than there are new ones");
            // SAFETY: the slots lie in the table, as just checked, and are apart where they differ. An entry finds a free slot at its own place at the latest:
            // all slots from its home on to there were in use, round the end of the table if need be, and those of them that are gone through here have been placed.
            unsafe {
                let word = slots.word(slot);
                let stored = word.read();
                if stored == 0 {
                    if slot >= end {
                        break;
                    }
                } else {
                    let home = (slots.hash)(stored) as usize & self.mask;
                    if home != slot {
                        word.write(0);
                        let target = self.free_slot(slots, home);
                        if target != slot {
                            let source = slots.start.add(slot * slots.stride);
                            slots.word(target).cast::<u8>().copy_from_nonoverlapping(source, slots.stride);
                        }
                        slots.word(target).write(stored);
                    }
                }
            }
            slot += 1;
        }
        self.spread_slots = slot;
        if slot >= capacity_before {
            *self = Homes::new(self.capacity(), self.capacity() - self.mask);
        }
        true
    }

    /// The first free slot from a home on.
    ///
    /// # Safety
    /// `slots` must be those of this table, one of them free.
    unsafe fn free_slot(self, slots: SlotArray<impl Fn(u64) -> u64 + Copy>, home: usize) -> usize {
        let mut slot = home;
        // SAFETY: the slots are those of the table.
        while unsafe { slots.word(slot).read() } != 0 {
            slot = self.next(slot);
        }
        slot
    }
}

impl<H> SlotArray<H> {
    /// The first word of a slot.
    ///
    /// # Safety
    /// There must be such a slot.
    unsafe fn word(&self, slot: usize) -> *mut u64 {
        // SAFETY: the caller's promise.
        unsafe { self.start.add(slot * self.stride).cast() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WORDS: usize = 3;

    /// Slots of three words: a key, which is its own hash, and two numbers that depend on it.
    struct Map {
        words: Vec<u64>,
        homes: Homes,
    }

    impl Map {
        fn slots(&mut self) -> SlotArray<fn(u64) -> u64> {
            SlotArray { start: self.words.as_mut_ptr().cast(), stride: WORDS * 8, hash: |key| key }
        }

        /// The key's slot, or the free one where its search ends.
        fn search(&self, key: u64) -> usize {
            let mut slot = self.homes.home(key);
            while ![0, key].contains(&self.words[slot * WORDS]) {
                slot = self.homes.next(slot);
            }
            slot
        }

        fn insert(&mut self, key: u64) {
            let slot = self.search(key);
            self.words[slot * WORDS..][..WORDS].copy_from_slice(&[key, key * 3, key * 5]);
        }

        fn check(&self, keys: &[u64]) {
            for &key in keys {
                let slot = self.search(key);
                assert_eq!(self.words[slot * WORDS..][..WORDS], [key, key * 3, key * 5]);
            }
            let used = self.words.chunks(WORDS).filter(|slot| slot[0] != 0).count();
            assert_eq!(used, keys.len());
        }
    }

    proptest! {
        #[test]
        fn every_entry_is_found_at_any_time_while_a_table_grows(
            bits in 3..8_u32,
            home_bits in [0..3_u32, 0..3_u32],
            more_bits in 1..4_u32,
            parts in prop::collection::vec((0..40_usize, prop::collection::vec(1..u64::from(u32::MAX), 0..12)), 1..30),
            first in prop::collection::vec(1..u64::from(u32::MAX), 0..250),
            crowds in any::<[bool; 2]>(),
        ) {
            let capacity = 1 << bits;
            let (homes_before, homes_after) = (1 << home_bits[0].min(home_bits[1]), 1 << home_bits[1]);
            // Crowded at the end of the old slots, or of the new ones, so that searches go round.
            let crowded = |key: u64| {
                let end = (capacity << if crowds[1] { more_bits } else { 0 }) as u64 - 1;
                if crowds[0] { key | end & !3 } else { key }
            };
            let mut map = Map { words: vec![0; capacity * WORDS], homes: Homes::new(capacity, homes_before) };
            let mut keys = Vec::new();
            let add = |map: &mut Map, keys: &mut Vec<u64>, key: u64| {
                if keys.len() < capacity - homes_after && !keys.contains(&key) {
                    keys.push(key);
                    map.insert(key);
                }
            };
            first.iter().for_each(|&key| add(&mut map, &mut keys, crowded(key)));
            map.words.resize((capacity << more_bits) * WORDS, 0);
            let slots = map.slots();
            // SAFETY: the vector has that many slots of three words, the new ones zero; at least one of the old ones is free.
            unsafe { map.homes.grow(slots, capacity << more_bits, homes_after) };
            map.check(&keys);
            for (count, added) in parts {
                added.into_iter().for_each(|key| add(&mut map, &mut keys, crowded(key)));
                map.check(&keys);
                let (slots, was_growing) = (map.slots(), map.homes.capacity_before().is_some());
                // SAFETY: the slots are the map's.
                prop_assert_eq!(unsafe { map.homes.spread(slots, count) }, was_growing);
                map.check(&keys);
            }
            let slots = map.slots();
            // SAFETY: as above.
            unsafe { map.homes.spread(slots, usize::MAX) };
            prop_assert_eq!(map.homes, Homes::new(capacity << more_bits, homes_after));
            map.check(&keys);
        }
    }
}
