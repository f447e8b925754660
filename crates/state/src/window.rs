//! Windows that are open, and how they close.

use std::collections::BTreeMap;
use std::sync::Arc;

use pelton_data::Micros;
use pelton_data::window::{Combination, Window};

use crate::gag::Gag;
use crate::layout::EntryLayout;
use crate::slice::SliceId;
use crate::table::Table;

/// The open windows of one aggregation, over the slices that the watermark has passed.
#[derive(Debug)]
pub struct OpenWindows {
    window: Window,
    /// Slices, over all workers, that no window needed so far.
    sealed: BTreeMap<SliceId, Table>,
    /// Slices that windows which are still open share with windows that have closed.
    gag: Gag,
    /// End of the window that closed last.
    closed_until: Micros,
}

/// A window that has ended.
#[derive(Debug)]
pub struct ClosedWindow<'a> {
    /// First instant.
    pub start: Micros,
    /// First instant after it.
    pub end: Micros,
    /// Holds its groups.
    pub table: &'a Table,
    /// Which entries of the table are its groups.
    pub entries: Vec<u32>,
}

impl OpenWindows {
    /// No window is open. Tables will have this layout.
    pub fn new(window: Window, combination: Combination, layout: &Arc<EntryLayout>) -> OpenWindows {
        let gag = Gag::new(combination, layout);
        OpenWindows { window, sealed: BTreeMap::new(), gag, closed_until: Micros::MIN }
    }

    /// Takes one worker's table of a slice which that worker adds no more rows to. Returns a table that is no longer needed, where
    /// there is one.
    ///
    /// # Panics
    /// Where a window that the slice counts in has closed.
    pub fn seal(&mut self, id: SliceId, table: Table) -> Option<Table> {
        assert!(id.first_end > self.closed_until, "a slice is sealed before its windows close");
        match self.sealed.get_mut(&id) {
            Some(merged) => Some(merged.merge(table)),
            None => {
                self.sealed.insert(id, table);
                None
            }
        }
    }

    /// Closes the next window that has rows and ends at or before `until`, up to which all slices must have been sealed. Windows close
    /// in the order of their ends. The one window of a whole input closes also without rows, as SQL wants.
    pub fn close_next(&mut self, until: Micros) -> Option<ClosedWindow<'_>> {
        self.gag.evict(self.closed_until);
        let first_sealed = self.sealed.first_key_value().map(|(id, _)| id.first_end);
        let end = if !self.gag.is_empty() {
            self.window.next_end(self.closed_until)
        } else if self.window == Window::Global && self.closed_until < Micros::MAX {
            Micros::MAX
        } else {
            first_sealed?
        };
        if end > until {
            return None;
        }
        while let Some(first) = self.sealed.first_entry().filter(|first| first.key().first_end <= end) {
            let (id, table) = first.remove_entry();
            let covered = self.window.slice(id.start).covered.expect("a slice with rows belongs to a window");
            self.gag.insert(table, covered.last_end);
        }
        self.closed_until = end;
        let (table, entries) = self.gag.window();
        Some(ClosedWindow { start: self.window.start(end), end, table, entries })
    }

    /// Tables that are no longer needed, for later slices.
    pub fn take_spare(&mut self) -> Vec<Table> {
        self.gag.take_spare()
    }

    /// Slices that no window needed so far.
    pub fn sealed_slices(&self) -> usize {
        self.sealed.len()
    }

    /// Bytes of memory held by tables.
    pub fn bytes(&self) -> usize {
        self.sealed.values().map(Table::bytes).sum::<usize>() + self.gag.bytes()
    }
}
