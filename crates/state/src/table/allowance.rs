//! How much more memory a table may take while rows are added.
//!
//! Tables that find keys by hash double, and what they would be then may be more than there is for them. Where it is, a table fills up instead, as far as it can,
//! and says what it lacks: whoever counts what state takes counts that too, before it is there, and ends what goes over its limit.

use super::capacity::{DISTANCE_MAX, groups_max};
use super::spread::Homes;

/// As [`DISTANCE_MAX`], while the slots that there were get more groups than they would have room for if these were not about to move.
const DISTANCE_WHILE_GROWING_MAX: usize = 8 * DISTANCE_MAX;

/// What a table may take, and what it lacks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowance {
    left: usize,
    lacking: Option<usize>,
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance { left: usize::MAX, lacking: None }
    }
}

impl Allowance {
    /// Allows so many bytes more from now on.
    pub fn allow(&mut self, bytes: usize) {
        self.left = bytes;
    }

    /// Bytes that are left of what was allowed.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Allows anything. Returns what was lacking, if anything was: nothing more where the table has taken it all the same.
    pub fn settle(&mut self) -> Option<usize> {
        std::mem::take(self).lacking
    }

    /// Whether a table should double, which takes so many bytes, after a search that found too little room: where it may, and where it has filled up.
    pub fn doubles(&mut self, bytes: usize) -> bool {
        if let Some(left) = self.left.checked_sub(bytes) {
            (self.left, self.lacking) = (left, None);
            return true;
        }
        let was_lacking = self.lacking.is_some();
        self.lacking = Some(if was_lacking { 0 } else { bytes });
        was_lacking
    }

    /// How many groups there may be in a table that has seen so many rows, and how far from its place a new key: more where memory is lacking, but so many that
    /// searches still come to free slots, and more while the groups of the slots that there were move to others.
    pub fn limits(&self, homes: Homes, rows: usize) -> (usize, usize) {
        match (homes.capacity_before(), self.lacking) {
            (Some(capacity_before), _) => (capacity_before / 16 * 15, DISTANCE_WHILE_GROWING_MAX),
            (None, None) => (groups_max(homes.capacity(), rows), DISTANCE_MAX),
            (None, Some(_)) => (homes.capacity() / 16 * 15, usize::MAX),
        }
    }
}
