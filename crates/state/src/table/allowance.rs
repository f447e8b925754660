//! How much more memory a table may take while rows are added.
//!
//! Tables that find keys by hash double, and what they would be then may be more than there is for them. Where it is, a table fills up instead, as far as it can,
//! and says what it lacks: whoever counts what state takes counts that too, before it is there, and ends what goes over its limit.

use super::{DISTANCE_MAX, groups_max};

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

    /// How many groups there may be in so many slots of a table that has seen so many rows, and how far from its place a new key: more where memory is lacking, but so
    /// many that searches still come to free slots.
    pub fn limits(&self, capacity: usize, rows: usize) -> (usize, usize) {
        match self.lacking {
            None => (groups_max(capacity, rows), DISTANCE_MAX),
            Some(_) => (capacity / 16 * 15, usize::MAX),
        }
    }
}
