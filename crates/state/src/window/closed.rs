//! What windows that have ended hold, and how much of it one call hands on.

use arrow::array::RecordBatch;
use pelton_data::Micros;
use pelton_data::window::ResultKind;

use crate::table::{Chosen, Table};

/// What windows that have ended hold.
#[derive(Debug, Clone, Copy)]
pub enum Contents<'a> {
    /// Groups.
    Groups(ClosedGroups<'a>),
    /// The first rows of one window.
    Rows(ClosedRows<'a>),
}

impl<'a> Contents<'a> {
    /// What the windows hold that begin after `time`, neighbours together.
    pub fn beginning_after(self, time: Micros) -> Vec<Contents<'a>> {
        match self {
            Contents::Rows(rows) => Some(self).into_iter().filter(|_| rows.window.start > time).collect(),
            Contents::Groups(groups) => groups.beginning_after(time).into_iter().map(Contents::Groups).collect(),
        }
    }

    /// When the last of the windows was over; where there is none, the largest time.
    pub fn end(&self) -> Micros {
        match self {
            Contents::Groups(groups) => groups.windows.last().map_or(Micros::MAX, |window| window.end),
            Contents::Rows(rows) => rows.window.end,
        }
    }
}

/// A window that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosedWindow {
    /// First instant.
    pub start: Micros,
    /// First instant after it.
    pub end: Micros,
    /// Groups of it, which follow those of the window before.
    pub groups: usize,
    /// What the groups are.
    pub kind: ResultKind,
}

/// Groups of windows that have ended, in the order of the windows' ends.
#[derive(Debug, Clone, Copy)]
pub struct ClosedGroups<'a> {
    /// Holds the groups.
    pub table: &'a Table,
    /// Which of its entries they are. There is none only for the one window of a whole input.
    pub entries: Chosen<'a>,
    /// Which windows' groups these are.
    pub windows: &'a [ClosedWindow],
}

impl<'a> ClosedGroups<'a> {
    fn beginning_after(self, time: Micros) -> Vec<ClosedGroups<'a>> {
        let (mut found, mut first_group) = (Vec::new(), 0);
        for windows in self.windows.chunk_by(|one, next| (one.start > time) == (next.start > time)) {
            let groups = windows.iter().map(|window| window.groups).sum::<usize>();
            let entries = self.entries.part(first_group..first_group + groups);
            first_group += groups;
            if windows[0].start > time {
                found.push(ClosedGroups { entries, windows, ..self });
            }
        }
        found
    }
}

/// The first rows of windows that have ended.
#[derive(Debug, Clone, Copy)]
pub struct ClosedRows<'a> {
    /// Rows of the ranking's schema: key by key, and by rank.
    pub rows: &'a RecordBatch,
    /// Their ranks.
    pub ranks: &'a [i64],
    /// Which window they are of.
    pub window: ClosedWindow,
}

/// Limits of one call that closes windows.
#[derive(Debug, Clone, Copy)]
pub struct CloseLimits {
    /// Windows that end after this stay open.
    pub until: Micros,
    /// Groups read out at a time.
    pub groups_at_once: usize,
    /// Once about so many groups have been merged, combined or read out, what is left waits for the next call.
    pub groups_max: usize,
    /// Small windows of at least so many groups may leave as what they are put together from.
    pub parts_min: usize,
}
