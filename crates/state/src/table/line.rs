//! Searches in tables that find keys by hash and leave the cache, each in one of its lines as far as possible.
//!
//! The line of a key's home is asked for ahead. A search that goes on in the next line would wait for that alone, behind a branch that nobody can predict; so all slots
//! of a line are compared at once, and what must look further waits until the batch is through, for its lines together.

use super::probing::BATCH;
use super::spread::Homes;
use crate::vector::{LINE_BYTES, prefetch};

/// Tables of at most this many bytes stay in the second-level cache: fetching ahead would cost more than it saves.
const CACHED_BYTES: usize = 512 << 10;

/// Whether a table of so many bytes stays in the second-level cache.
pub(super) fn is_cached(bytes: usize) -> bool {
    bytes <= CACHED_BYTES
}

/// Slots of so many bytes that are in one line, where lines hold several whole ones.
const fn slots_of_line(stride: usize) -> usize {
    if stride > 0 && LINE_BYTES.is_multiple_of(stride) { LINE_BYTES / stride } else { 1 }
}

/// How many slots of so many bytes have one home, in a table of so many. In one that leaves the cache those of a line have: where a key is not at home it is mostly in
/// the same line then. In small tables keys are nearly always at home if each slot is one.
pub(super) fn slots_of_home(stride: usize, capacity: usize) -> usize {
    if is_cached(capacity * stride) { 1 } else { slots_of_line(stride) }
}

/// What the line where the search for a key begins has of it.
pub(super) enum InLine {
    /// The slot of its entry.
    Found(usize),
    /// Not its entry, but a free slot.
    NotFound,
    /// Other keys: the search goes on at this slot.
    Full(usize),
}

/// Looks into the slots of the line where the search for `hash` begins, for one that begins with `word` and has the key, which `is_key` says of a slot. Where lines hold
/// several whole ones, into all at once: no branch depends on which of them it is in. `STRIDE` is the stride or 0.
///
/// # Safety
/// There must be slots of `stride` bytes from `start` on that have these homes, to which nobody writes, and that begin with a word that is zero where they are free.
#[inline(always)]
pub(super) unsafe fn find_in_line<const STRIDE: usize>(
    (start, stride, homes): (*const u8, usize, Homes),
    word: u64,
    hash: u64,
    is_key: impl Fn(usize) -> bool,
) -> InLine {
    let stride = if STRIDE == 0 { stride } else { STRIDE };
    let home = homes.home(hash);
    // SAFETY: only slots of the table are asked for: behind a home there are as many as a line has, for it begins one, or is of before the table grew.
    let held = |slot: usize| unsafe { start.add(slot * stride).cast::<u64>().read() };
    let in_line = const { slots_of_line(STRIDE) };
    if in_line > 1 {
        let found = (0..in_line).fold(0, |found, place| found | u32::from(held(home + place) == word) << place);
        if found != 0 {
            let slot = home + found.trailing_zeros() as usize;
            return if is_key(slot) { InLine::Found(slot) } else { InLine::Full(homes.next(home + in_line - 1)) };
        }
        // Slots of a line are taken in order.
        return match held(home + in_line - 1) {
            0 => InLine::NotFound,
            _ => InLine::Full(homes.next(home + in_line - 1)),
        };
    }
    let line = |slot: usize| slot * stride / LINE_BYTES;
    let mut slot = home;
    loop {
        match held(slot) {
            held if held == word && is_key(slot) => return InLine::Found(slot),
            0 => return InLine::NotFound,
            _ => slot = homes.next(slot),
        }
        if line(slot) != line(home) {
            return InLine::Full(slot);
        }
    }
}

/// The keys of a batch whose searches go on in lines that were not asked for before.
pub(super) struct Unfound {
    rows: [u16; BATCH],
    count: usize,
}

impl Unfound {
    pub(super) fn new() -> Unfound {
        Unfound { rows: [0; BATCH], count: 0 }
    }

    /// Asks for the line of the slot at which the search for this row's key goes on.
    #[inline(always)]
    pub(super) fn push(&mut self, row: usize, slot: *const u8) {
        prefetch(slot);
        self.rows[self.count] = row as u16;
        self.count += 1;
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = usize> {
        self.rows[..self.count].iter().map(|&row| usize::from(row))
    }
}
