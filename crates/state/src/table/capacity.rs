//! How many slots a table has that finds keys by hash.

use super::TableHint;
use super::region::prepared_bytes;
use crate::layout::EntryLayout;

/// Slots of a new table.
const CAPACITY_MIN: usize = 64;

/// Once a table has seen so many rows for each slot that it would have with room to spare, it is given that room.
const SPACIOUS_ROWS_PER_SLOT: usize = 8;

/// A new table takes fresh pages of so many bytes at most before it grows: the first touch of a page may take milliseconds under a hypervisor, and its first rows
/// touch all.
const FRESH_BYTES_MAX: usize = 8 << 20;

/// A new key this far from its place makes a table grow that is more than a quarter full: keys that arrive in the order of another
/// table's hashes would otherwise crowd together.
pub(super) const DISTANCE_MAX: usize = 128;

/// Whether clearing all slots would cost far more than the groups did.
pub(super) fn is_hardly_used(groups: usize, capacity: usize) -> bool {
    groups * 64 < capacity && capacity > CAPACITY_MIN
}

/// How many groups a table of `capacity` slots holds that has seen so many rows. A search that looks into a second slot costs a wrongly
/// predicted branch, and in a small table many free slots cost no more cache lines than there are groups: but they must be made and cleared, which
/// only many rows are worth, and a block may have rows of many slices, whose tables are best all small.
pub(super) fn groups_max(capacity: usize, rows: usize) -> usize {
    match capacity {
        ..=16_384 if rows / SPACIOUS_ROWS_PER_SLOT < capacity => capacity / 8 * 5,
        ..=4_096 => capacity / 16,
        4_097..=16_384 => capacity / 4,
        _ => capacity / 10 * 7,
    }
}

/// Slots for `groups` groups and a few more, and so many rows.
pub(super) fn capacity_for(groups: usize, rows: usize) -> usize {
    let mut capacity = CAPACITY_MIN;
    while groups_max(capacity, rows) < groups {
        capacity *= 2;
    }
    capacity
}

/// Slots for a new table that is expected to have as many groups as this one had, and no more than it can take without its first rows
/// waiting for fresh pages all at once: what it has more it gets part by part, while it grows.
pub(super) fn first_capacity(layout: &EntryLayout, expected: &TableHint) -> usize {
    let mut capacity = capacity_for(expected.groups, expected.rows);
    if capacity * layout.stride() <= FRESH_BYTES_MAX {
        return capacity;
    }
    let bytes_max = FRESH_BYTES_MAX.max(prepared_bytes());
    while capacity > CAPACITY_MIN && capacity * layout.stride() > bytes_max {
        capacity /= 2;
    }
    capacity
}
