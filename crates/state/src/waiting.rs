//! Windows that have closed, on their way out: small ones leave together.

use std::sync::Arc;

use crate::layout::EntryLayout;
use crate::table::{Chosen, Table};
use crate::window::{ClosedGroups, ClosedWindow};

/// A window that has more groups than this part of those read out at a time is read out by itself.
const LARGE_WINDOWS_PER_READ_OUT: usize = 4;

/// Copies of groups of windows, in their order.
#[derive(Debug)]
pub(crate) struct Waiting {
    groups: Table,
    windows: Vec<ClosedWindow>,
}

/// Whether a window is read out by itself. A copy costs less than a batch of its own, unless the batch is large.
pub fn is_large(entries: Chosen<'_>, groups_at_once: usize) -> bool {
    entries.len() > groups_at_once / LARGE_WINDOWS_PER_READ_OUT
}

impl Waiting {
    /// None yet. Groups will be copied from tables of this layout.
    pub fn new(layout: &Arc<EntryLayout>) -> Waiting {
        Waiting { groups: Table::list(layout.clone()), windows: Vec::new() }
    }

    /// A window without groups, which is reported all the same.
    pub fn take_empty(&mut self, window: ClosedWindow) {
        self.windows.push(window);
    }

    pub fn bytes(&self) -> usize {
        self.groups.bytes()
    }

    /// Takes a window's groups, or hands all of them on where they are many.
    pub fn take_or_hand_on<E>(
        &mut self,
        window: ClosedWindow,
        (table, entries): (&Table, Chosen<'_>),
        groups_at_once: usize,
        read_out: &mut impl FnMut(ClosedGroups<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if !is_large(entries, groups_at_once) {
            return self.take(window, (table, entries), groups_at_once, read_out);
        }
        self.leave(read_out)?;
        entries.chunks(groups_at_once).try_for_each(|entries| {
            let window = ClosedWindow { groups: entries.len(), ..window };
            read_out(ClosedGroups { table, entries, windows: &[window] })
        })
    }

    /// Takes the groups of a small window.
    pub fn take<E>(
        &mut self,
        window: ClosedWindow,
        (table, entries): (&Table, Chosen<'_>),
        groups_at_once: usize,
        read_out: &mut impl FnMut(ClosedGroups<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.groups.groups() + entries.len() > groups_at_once {
            self.leave(read_out)?;
        }
        self.groups.append(table, entries);
        self.windows.push(ClosedWindow { groups: entries.len(), ..window });
        Ok(())
    }

    /// Hands on what waits.
    pub fn leave<E>(&mut self, read_out: &mut impl FnMut(ClosedGroups<'_>) -> Result<(), E>) -> Result<(), E> {
        if self.windows.is_empty() {
            return Ok(());
        }
        let entries = Chosen::first(self.groups.groups());
        let result = read_out(ClosedGroups { table: &self.groups, entries, windows: &self.windows });
        self.groups.clear();
        self.windows.clear();
        result
    }
}
