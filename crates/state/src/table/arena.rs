//! Bytes that entries point to: strings, and chunks of lists of values.

use super::region::Region;

const CHUNK_BYTES_MIN: usize = 16 << 10;
const CHUNK_BYTES_MAX: usize = 8 << 20;

/// Bytes that stay where they are until the table is cleared.
#[derive(Debug, Default)]
pub(super) struct Arena {
    /// Those before `filling` are full, and those behind it empty.
    chunks: Vec<Region>,
    /// Which of them is being filled, and how many of its bytes are in use.
    filling: usize,
    used: usize,
    /// Chunks that were in use when all was forgotten last.
    needed: usize,
}

impl Arena {
    /// The address of `bytes` uninitialised bytes (zeros, or what was here before), aligned to 8.
    pub(super) fn allocate(&mut self, bytes: usize) -> *mut u8 {
        let bytes = bytes.next_multiple_of(8);
        let room = self.chunks.get(self.filling).map_or(0, |chunk| chunk.bytes() - self.used);
        if room < bytes {
            self.add_chunk(bytes);
        }
        let chunk = &self.chunks[self.filling];
        // SAFETY: `used + bytes` lies within the chunk: it had the room, or is empty and large enough.
        let start = unsafe { chunk.as_ptr().add(self.used) };
        self.used += bytes;
        start
    }

    /// Goes on to an empty chunk with room for so many bytes.
    #[inline(never)]
    fn add_chunk(&mut self, bytes: usize) {
        let next = (self.filling + 1).min(self.chunks.len());
        if self.chunks.get(next).is_none_or(|chunk| chunk.bytes() < bytes) {
            let before = next.checked_sub(1).map_or(CHUNK_BYTES_MIN, |last| self.chunks[last].bytes() * 2);
            self.chunks.insert(next, Region::zeroed(before.min(CHUNK_BYTES_MAX).max(bytes)));
        }
        (self.filling, self.used) = (next, 0);
    }

    /// The address of a copy of `bytes`.
    pub(super) fn store(&mut self, bytes: &[u8]) -> *const u8 {
        let start = self.allocate(bytes.len());
        // SAFETY: `allocate` gave this many bytes, which nothing else refers to.
        unsafe { start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        start
    }

    /// Forgets all bytes. What this time or the time before needed is kept: to touch fresh memory costs more than what is done with it.
    pub(super) fn clear(&mut self) {
        let needed = if self.used > 0 { self.filling + 1 } else { 0 };
        self.chunks.truncate(needed.max(std::mem::replace(&mut self.needed, needed)));
        (self.filling, self.used) = (0, 0);
    }

    pub(super) fn bytes(&self) -> usize {
        self.chunks.iter().map(Region::bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Allocates so many bytes in pieces, and returns where the first and the last of these are.
    fn fill(arena: &mut Arena, bytes: usize) -> [*mut u8; 2] {
        let pieces: Vec<*mut u8> = (0..bytes / 1_000).map(|_| arena.allocate(1_000)).collect();
        [pieces[0], pieces[pieces.len() - 1]]
    }

    #[test]
    fn memory_is_used_again_as_long_as_it_is_needed() {
        let mut arena = Arena::default();
        let first = fill(&mut arena, 500_000);
        let bytes = arena.bytes();
        assert!((500_000..1_500_000).contains(&bytes));
        arena.clear();
        assert_eq!((fill(&mut arena, 500_000), arena.bytes()), (first, bytes));
        arena.clear();
        // Less is needed: the rest is given back a clear later.
        fill(&mut arena, 10_000);
        arena.clear();
        assert_eq!(arena.bytes(), bytes);
        fill(&mut arena, 10_000);
        arena.clear();
        assert_eq!(arena.bytes(), CHUNK_BYTES_MIN);
        arena.clear();
        arena.clear();
        assert_eq!(arena.bytes(), 0, "nothing was needed");
    }

    #[test]
    fn what_is_longer_than_a_chunk_has_one_of_its_own() {
        let mut arena = Arena::default();
        fill(&mut arena, 100_000);
        arena.clear();
        arena.allocate(1);
        let long = arena.allocate(50_000);
        let after = arena.allocate(8);
        // SAFETY: the bytes were just allocated.
        unsafe { long.write_bytes(1, 50_000) };
        assert!(!(long..long.wrapping_add(50_000)).contains(&after));
        assert_eq!(arena.chunks[1].bytes(), 50_000);
    }
}
