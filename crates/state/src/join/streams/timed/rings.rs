//! The rows of each key that may match rows to come, in rings of one arena.

use pelton_data::Micros;

use crate::vector::prefetch;

/// A row that may match.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    time: Micros,
    row: u64,
}

/// The rows of one key, in the order of their times.
#[derive(Debug, Clone, Copy, Default)]
struct Ring {
    /// Where it lies in the arena.
    start: u32,
    /// Its oldest row, counted from there.
    head: u32,
    length: u32,
    /// A power of two; 0 where it has no place in the arena.
    capacity: u32,
}

/// The rows of each key. Keys are small numbers.
#[derive(Debug, Default)]
pub(super) struct Rings {
    rings: Vec<Ring>,
    arena: Vec<Entry>,
    /// Starts of unused places, by the logarithm of their capacity.
    unused: [Vec<u32>; 32],
}

impl Rings {
    /// Makes room for so many keys.
    pub fn resize(&mut self, keys: usize) {
        self.rings.resize(keys, Ring::default());
    }

    /// Prefetches what says where the rows of a key lie.
    #[inline(always)]
    pub fn prefetch(&self, key: u32) {
        prefetch(self.rings.as_ptr().wrapping_add(key as usize).cast());
    }

    /// Prefetches where the rows of a key begin.
    #[inline(always)]
    pub fn prefetch_rows(&self, key: u32) {
        if let Some(ring) = self.rings.get(key as usize) {
            prefetch(self.arena.as_ptr().wrapping_add((ring.start + ring.head) as usize).cast());
        }
    }

    /// Adds a row of a key, not earlier than the others.
    #[inline(always)]
    pub fn push(&mut self, key: u32, time: Micros, row: u64) {
        if self.rings[key as usize].length == self.rings[key as usize].capacity {
            self.rings[key as usize] = self.grown(self.rings[key as usize]);
        }
        // Fields are read and written one by one: a ring that is copied whole right after one of them was written waits for the store.
        let ring = &mut self.rings[key as usize];
        let at = ring.start + ((ring.head + ring.length) & (ring.capacity - 1));
        self.arena[at as usize] = Entry { time, row };
        ring.length += 1;
    }

    fn grown(&mut self, ring: Ring) -> Ring {
        let capacity = (ring.capacity * 2).max(1);
        let start = self.unused[capacity.ilog2() as usize].pop().unwrap_or_else(|| {
            let start = self.arena.len();
            self.arena.resize(start + capacity as usize, Entry::default());
            u32::try_from(start).expect("an arena has fewer entries than 32 bits count")
        });
        for at in 0..ring.length {
            let from = ring.start + ((ring.head + at) & (ring.capacity - 1));
            self.arena[(start + at) as usize] = self.arena[from as usize];
        }
        self.free(ring);
        Ring { start, head: 0, length: ring.length, capacity }
    }

    fn free(&mut self, ring: Ring) {
        if ring.capacity > 0 {
            self.unused[ring.capacity.ilog2() as usize].push(ring.start);
        }
    }

    /// Drops the rows of a key before `from`, and visits those up to `to`, the oldest first. Returns how many.
    #[inline(always)]
    pub fn visit(&mut self, key: u32, (from, to): (Micros, Micros), mut visit: impl FnMut(u64)) -> usize {
        self.drop_before(key, from);
        let ring = &self.rings[key as usize];
        let mut visited = 0;
        while visited < ring.length {
            let at = ring.start + ((ring.head + visited) & (ring.capacity - 1));
            let entry = self.arena[at as usize];
            if entry.time > to {
                break;
            }
            visit(entry.row);
            visited += 1;
        }
        visited as usize
    }

    #[inline(always)]
    fn drop_before(&mut self, key: u32, from: Micros) {
        // An empty ring keeps its place: most keys come again soon, and sweeping gives the others back.
        let ring = &mut self.rings[key as usize];
        while ring.length > 0 && self.arena[(ring.start + ring.head) as usize].time < from {
            ring.head = (ring.head + 1) & (ring.capacity - 1);
            ring.length -= 1;
        }
    }

    /// Drops the rows of all keys before `from`.
    pub fn drop_all_before(&mut self, from: Micros) {
        for key in 0..self.rings.len() as u32 {
            self.drop_before(key, from);
        }
    }

    /// Whether a key has rows.
    pub fn has_rows(&self, key: usize) -> bool {
        self.rings[key].length > 0
    }

    /// Forgets the keys that are not `kept`, which have no rows, and numbers the others anew in their order. Unused memory is given back.
    pub fn retain(&mut self, kept: &[bool]) {
        let (rings, arena) = (std::mem::take(&mut self.rings), std::mem::take(&mut self.arena));
        self.unused.iter_mut().for_each(Vec::clear);
        for (ring, _) in rings.iter().zip(kept).filter(|(_, is_kept)| **is_kept) {
            let start = self.arena.len() as u32;
            let capacity = if ring.length == 0 { 0 } else { ring.length.next_power_of_two() };
            let entries =
                (0..ring.length).map(|at| arena[(ring.start + ((ring.head + at) & (ring.capacity - 1))) as usize]);
            self.arena.extend(entries);
            self.arena.resize((start + capacity) as usize, Entry::default());
            self.rings.push(Ring { start, head: 0, length: ring.length, capacity });
        }
    }

    /// Entries of the arena, used or not.
    pub fn capacity(&self) -> usize {
        self.arena.len()
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        let unused: usize = self.unused.iter().map(Vec::capacity).sum();
        self.rings.capacity() * size_of::<Ring>()
            + self.arena.capacity() * size_of::<Entry>()
            + unused * size_of::<u32>()
    }
}
