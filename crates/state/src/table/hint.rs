//! What the table of one slice teaches about that of the next.

use super::integer::Attempts;

/// What one slice's table teaches about the next one's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableHint {
    pub(super) groups: usize,
    pub(super) rows: usize,
    pub(super) extent: Option<(i64, i64)>,
    pub(super) attempts: Attempts,
}

impl TableHint {
    /// How many groups the table had.
    pub(crate) fn groups(&self) -> usize {
        self.groups
    }
}
