//! Growth of open-addressing tables with linear probing, in place.
//!
//! A larger table needs fresh memory only for what it has more: fresh pages cost the system more than their entries cost the table. With twice
//! the slots an entry's home is where it was, or as many slots further on as there were, so entries move little and in order.

/// Moves the entries of the first `old_capacity` slots to where searches among `capacity` slots find them. A search begins at the low bits
/// of the hash of an entry's first word, which is zero where a slot is free.
///
/// # Safety
/// `start` must point to `capacity` slots of `stride` bytes, aligned to eight, that nothing else refers to; the slots from `old_capacity` on
/// must be free. Both capacities must be powers of two, at least one of the old slots free, and every entry among them where a search finds it.
pub(super) unsafe fn spread(
    start: *mut u8,
    stride: usize,
    old_capacity: usize,
    capacity: usize,
    hash: impl Fn(u64) -> u64,
) {
    let mask = capacity - 1;
    // SAFETY: slots are only asked for below `capacity`, by the caller's promise.
    let word = |slot: usize| unsafe { start.add(slot * stride).cast::<u64>() };
    // SAFETY: as above; `word` points into the slots.
    let is_free = |slot: usize| unsafe { word(slot).read() } == 0;
    let place = |stored: u64| {
        let mut slot = hash(stored) as usize & mask;
        while !is_free(slot) {
            slot = (slot + 1) & mask;
        }
        slot
    };
    // Entries before the first free slot may belong to the end of the old slots, so they come last.
    let first_free = (0..old_capacity).find(|&slot| is_free(slot)).expect("a table has a free slot");
    let mut wrapped = vec![0_u64; first_free * stride / 8];
    // SAFETY: both are `first_free` slots long and aligned to eight, and the vector is apart from the table.
    unsafe { wrapped.as_mut_ptr().copy_from_nonoverlapping(start.cast(), wrapped.len()) };
    // SAFETY: the slots lie in the table.
    (0..first_free).for_each(|slot| unsafe { word(slot).write(0) });
    for slot in first_free + 1..old_capacity {
        // SAFETY: the slots lie in the table, and are apart where they differ. An entry finds a free slot at its own place at the latest, or
        // as far behind its new home: all entries before it have done so.
        unsafe {
            let stored = word(slot).read();
            if stored == 0 || hash(stored) as usize & mask == slot {
                continue;
            }
            word(slot).write(0);
            let target = place(stored);
            if target != slot {
                start.add(target * stride).copy_from_nonoverlapping(start.add(slot * stride), stride);
            }
            word(target).write(stored);
        }
    }
    for entry in wrapped.chunks_exact(stride / 8) {
        // SAFETY: the entry is a slot long, and its target lies in the table: more slots are free than there are entries here.
        unsafe { word(place(entry[0])).copy_from_nonoverlapping(entry.as_ptr(), entry.len()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: usize = 3;

    /// Slots of three words: a key, which is its own hash, and twice something that depends on it.
    fn put(slots: &mut [u64], key: u64) {
        let mask = slots.len() / WORDS - 1;
        let mut slot = key as usize & mask;
        while slots[slot * WORDS] != 0 {
            slot = (slot + 1) & mask;
        }
        slots[slot * WORDS..][..WORDS].copy_from_slice(&[key, key * 3, key * 5]);
    }

    fn find(slots: &[u64], key: u64) -> Option<&[u64]> {
        let mask = slots.len() / WORDS - 1;
        let mut slot = key as usize & mask;
        while slots[slot * WORDS] != key {
            if slots[slot * WORDS] == 0 {
                return None;
            }
            slot = (slot + 1) & mask;
        }
        Some(&slots[slot * WORDS..][..WORDS])
    }

    #[test]
    fn every_entry_is_found_after_growth() {
        let mut random = 88_172_645_463_325_252_u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        for round in 0..2000 {
            let old_capacity = 1 << (2 + round % 6);
            let capacity = old_capacity << (1 + round % 3);
            // Crowded at the end, so that searches go round.
            let low = |key: u64| if round % 2 == 0 { key } else { key | (old_capacity as u64 - 1) & !3 };
            let mut keys: Vec<u64> = (0..next() as usize % old_capacity).map(|_| low(next() >> 20).max(1)).collect();
            keys.sort_unstable();
            keys.dedup();
            let mut slots = vec![0; old_capacity * WORDS];
            keys.iter().for_each(|&key| put(&mut slots, key));
            slots.resize(capacity * WORDS, 0);
            // SAFETY: the vector holds `capacity` slots of three words, the new ones zero; at least one of the old ones is free.
            unsafe { spread(slots.as_mut_ptr().cast(), WORDS * 8, old_capacity, capacity, |key| key) };
            for &key in &keys {
                assert_eq!(find(&slots, key), Some([key, key * 3, key * 5].as_slice()), "round {round}");
            }
            let used = slots.chunks(WORDS).filter(|slot| slot[0] != 0).count();
            assert_eq!(used, keys.len(), "round {round}");
        }
    }
}
