//! Bytes of strings that entries point to.

use super::region::Region;

const CHUNK_BYTES_MIN: usize = 16 << 10;
const CHUNK_BYTES_MAX: usize = 8 << 20;

/// Strings that stay where they are until the table is cleared.
#[derive(Debug, Default)]
pub(super) struct Arena {
    /// The last one is being filled.
    chunks: Vec<Region>,
    /// Bytes of the last chunk that are in use.
    used: usize,
}

impl Arena {
    /// The address of `bytes` uninitialised bytes (zeros or an earlier string), aligned to 8.
    pub(super) fn allocate(&mut self, bytes: usize) -> *mut u8 {
        let bytes = bytes.next_multiple_of(8);
        let room = self.chunks.last().map_or(0, |chunk| chunk.bytes() - self.used);
        if room < bytes {
            let next = self.chunks.last().map_or(CHUNK_BYTES_MIN, |chunk| chunk.bytes() * 2);
            self.chunks.push(Region::zeroed(next.min(CHUNK_BYTES_MAX).max(bytes)));
            self.used = 0;
        }
        let chunk = self.chunks.last().expect("a chunk was just made sure of");
        // SAFETY: `used + bytes` lies within the chunk: it had the room, or is new and large enough.
        let start = unsafe { chunk.as_ptr().add(self.used) };
        self.used += bytes;
        start
    }

    /// The address of a copy of `bytes`.
    pub(super) fn store(&mut self, bytes: &[u8]) -> *const u8 {
        let start = self.allocate(bytes.len());
        // SAFETY: `allocate` gave this many bytes, which nothing else refers to.
        unsafe { start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        start
    }

    /// Forgets all strings; the largest chunk is kept for the next ones.
    pub(super) fn clear(&mut self) {
        self.chunks.sort_by_key(Region::bytes);
        self.chunks.drain(..self.chunks.len().saturating_sub(1));
        self.used = 0;
    }

    pub(super) fn bytes(&self) -> usize {
        self.chunks.iter().map(Region::bytes).sum()
    }
}
