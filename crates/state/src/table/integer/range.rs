//! Which ranges of integer keys suit entries side by side: short ones, those that are full of keys, and those of so many rows that the memory between keys pays.

use crate::layout::{DenseKeys, EntryLayout};
use crate::table::ABSENT;
use crate::table::capacity::capacity_for;

/// Keys that lie within this many integers of each other may have entries side by side.
pub const DENSE_LENGTH_MAX: usize = 1 << 20;

/// Within so many, where as many of them are keys as one in [`CROWDED_INTEGERS_PER_KEY`].
const CROWDED_LENGTH_MAX: u64 = 1 << 28;

/// A range that is longer must take at most [`CROWDED_BYTES_FACTOR`] of the memory that it takes by hash, and none that nobody has touched: entries that are not zero at
/// first would be written all at once.
pub(super) const CROWDED_LENGTH_FREE: u64 = 1 << 24;

/// What entries by hash take soon becomes twice as much: when the table doubles, or is merged with that of another worker, whose keys are others.
const CROWDED_BYTES_FACTOR: u64 = 2;

/// See [`CROWDED_LENGTH_MAX`].
const CROWDED_INTEGERS_PER_KEY: u64 = 4;

/// Keys are spread where as many of a short range are keys as one in so many, and fewer than crowd.
const SPREAD_INTEGERS_PER_KEY: u64 = 16;

/// To clear so many bytes, and to look whether they are in use, takes less than half as long as to find a row's entry by hash rather than by its place.
const SPREAD_BYTES_PER_ROW: u64 = 8;

/// A dense table this short is worth it for any number of rows.
const DENSE_LENGTH_FREE: u64 = 1 << 14;

/// A longer one may have this many entries for each row or expected group.
const DENSE_LENGTH_PER_ROW: u64 = 8;

/// One of so many parts of a table with most of the keys in its range is room for keys beyond it.
const ROOM_PART: u64 = 64;

/// The number of keys from `minimum` to `maximum`, less one.
pub(super) fn distance(minimum: i64, maximum: i64) -> u64 {
    maximum.wrapping_sub(minimum) as u64
}

/// Whether so many keys from `base` on include those from `minimum` to `maximum`.
pub(super) fn holds((base, length): (i64, usize), (minimum, maximum): (i64, i64)) -> bool {
    let longest = distance(base, base.wrapping_add(length as i64 - 1));
    distance(base, minimum) <= longest && distance(base, maximum) <= longest
}

pub(super) fn union(left: Option<(i64, i64)>, right: (i64, i64)) -> (i64, i64) {
    left.map_or(right, |left| (left.0.min(right.0), left.1.max(right.1)))
}

/// How many crowded keys a table may have room for: entries have numbers of 32 bits, in units of eight bytes.
pub(super) fn crowded_length_max(layout: &EntryLayout) -> u64 {
    // The NULL key's entry is one more, and the greatest number stands for none.
    let numbered = u64::from(ABSENT) / (layout.dense_stride() as u64 / 8).max(1) - 1;
    CROWDED_LENGTH_MAX.min(numbered)
}

/// What so many entries side by side take, with the bytes that say whether they are in use.
fn bytes_side_by_side(layout: &EntryLayout, entries: u64) -> u64 {
    entries.saturating_mul(layout.dense_stride() as u64 + 1)
}

/// Whether keys crowd: entries side by side take no more memory than entries found by hash would, when these are some more.
pub(super) fn is_crowded(layout: &EntryLayout, (minimum, maximum): (i64, i64), keys: usize) -> bool {
    let distance = distance(minimum, maximum);
    let is_close = distance < crowded_length_max(layout) && distance / CROWDED_INTEGERS_PER_KEY < keys as u64;
    is_close && layout.dense_keys() != DenseKeys::Never && takes_little_more(layout, distance, keys)
}

/// Whether entries side by side for a range of keys take little more memory than so many of them do by hash, or little altogether.
pub(super) fn takes_little_more(layout: &EntryLayout, distance: u64, keys: usize) -> bool {
    let is_small = || {
        let bytes = bytes_side_by_side(layout, distance);
        let bytes_by_hash = (capacity_for(keys, keys) as u64).saturating_mul(layout.stride() as u64);
        bytes <= CROWDED_BYTES_FACTOR * bytes_by_hash && layout.initial().iter().all(|&byte| byte == 0)
    };
    distance < CROWDED_LENGTH_FREE || is_small()
}

/// Whether keys are spread over a short range, and rows are so many that entries side by side pay all the same.
fn is_spread(layout: &EntryLayout, (minimum, maximum): (i64, i64), keys: usize, rows: usize) -> bool {
    let distance = distance(minimum, maximum);
    let is_close = distance < DENSE_LENGTH_MAX as u64 && distance / SPREAD_INTEGERS_PER_KEY < keys as u64;
    let pays = || bytes_side_by_side(layout, distance) / SPREAD_BYTES_PER_ROW < rows as u64;
    is_close && layout.dense_keys() != DenseKeys::Never && pays()
}

/// Whether entries side by side suit keys, of which so many are known in so many rows.
pub(super) fn suits_known(layout: &EntryLayout, extent: (i64, i64), keys: usize, rows: usize) -> bool {
    is_crowded(layout, extent, keys) || is_spread(layout, extent, keys, rows)
}

/// A range of keys that a crowded table should have, for one that it has: of keys at random the least and the greatest come late, and not to all workers.
pub(super) fn with_room(layout: &EntryLayout, (minimum, maximum): (i64, i64)) -> (i64, i64) {
    let room = (distance(minimum, maximum) / ROOM_PART) as i64;
    let roomy = (minimum.saturating_sub(room), maximum.saturating_add(room));
    if distance(roomy.0, roomy.1) < crowded_length_max(layout) { roomy } else { (minimum, maximum) }
}

/// Whether entries side by side suit this many rows.
pub(super) fn dense_suits(layout: &EntryLayout, (minimum, maximum): (i64, i64), rows: usize) -> bool {
    let allowed = match layout.dense_keys() {
        DenseKeys::WhereClose => DENSE_LENGTH_FREE.max(rows as u64 * DENSE_LENGTH_PER_ROW),
        DenseKeys::WherePossible => u64::MAX,
        DenseKeys::Never => 0,
    };
    distance(minimum, maximum) < allowed.min(DENSE_LENGTH_MAX as u64)
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;
    use pelton_data::aggregate::{Accumulator, KeyColumn};

    use super::*;

    #[test]
    fn keys_crowd_where_a_quarter_has_come_and_entries_side_by_side_take_at_most_twice_the_memory() {
        let key = [KeyColumn { data_type: DataType::Int64, nullable: false }];
        let layout = |accumulators: usize| EntryLayout::new(&key, &vec![Accumulator::counting_rows(); accumulators]);
        let (one, three) = (layout(1), layout(3));
        let crowds = |layout: &EntryLayout, integers: i64, keys: usize| is_crowded(layout, (-5, integers - 6), keys);
        // 17 million of 64 take 0.54 GB by hash.
        assert!(crowds(&one, 64_000_000, 17_000_000) && !crowds(&one, 64_000_000, 15_000_000));
        // Of entries that are three times as wide hardly any slot is free: half a gigabyte by hash, and 1.2 side by side.
        assert!(!crowds(&three, 46_500_000, 11_700_000) && crowds(&three, 40_000_000, 11_700_000));
        assert!(crowds(&three, 16_000_000, 4_100_000), "a short range may take more");
        assert!(!crowds(&one, 1 << 29, 1 << 28));
    }
}
