//! The tables of the slices that are open.

use std::sync::Arc;

use pelton_data::Micros;

use crate::layout::EntryLayout;
use crate::table::{Table, TableHint};

/// Cleared tables kept for the next slices.
const RECYCLED_TABLES_MAX: usize = 2;

/// The slices of one window that one worker has rows of, by start.
#[derive(Debug)]
pub struct SliceStore {
    layout: Arc<EntryLayout>,
    /// Ascending by start.
    slices: Vec<(Micros, Table)>,
    /// Index of the slice asked for last: most rows belong to it.
    last: usize,
    hint: TableHint,
    recycled: Vec<Table>,
}

impl SliceStore {
    /// No slices yet. Their tables will have this layout.
    pub fn new(layout: Arc<EntryLayout>) -> SliceStore {
        SliceStore { layout, slices: Vec::new(), last: 0, hint: TableHint::default(), recycled: Vec::new() }
    }

    /// The layout of the tables' entries.
    pub fn layout(&self) -> &Arc<EntryLayout> {
        &self.layout
    }

    /// The table of the slice that starts at `start`, which is opened where it is not yet.
    pub fn table(&mut self, start: Micros) -> &mut Table {
        if self.slices.get(self.last).is_none_or(|slice| slice.0 != start) {
            self.last = match self.slices.binary_search_by_key(&start, |slice| slice.0) {
                Ok(index) => index,
                Err(index) => {
                    let table = self.new_table();
                    self.slices.insert(index, (start, table));
                    index
                }
            };
        }
        &mut self.slices[self.last].1
    }

    fn new_table(&mut self) -> Table {
        self.recycled.pop().unwrap_or_else(|| Table::with_hint(self.layout.clone(), self.hint))
    }

    /// Removes the slices that start before `end`, ascending by start.
    pub fn take_until(&mut self, end: Micros) -> Vec<(Micros, Table)> {
        let count = self.slices.partition_point(|slice| slice.0 < end);
        self.last = self.last.saturating_sub(count);
        let taken: Vec<_> = self.slices.drain(..count).collect();
        if let Some((_, table)) = taken.last() {
            self.hint = table.hint();
        }
        taken
    }

    /// Takes back a table whose groups have been read out, for a later slice.
    ///
    /// # Panics
    /// Where the table is not of this store's layout.
    pub fn recycle(&mut self, mut table: Table) {
        assert!(table.layout() == &self.layout, "a table goes back to a store of its layout");
        if self.recycled.len() < RECYCLED_TABLES_MAX {
            table.clear();
            self.recycled.push(table);
        }
    }

    /// Start of the earliest open slice.
    pub fn first_start(&self) -> Option<Micros> {
        self.slices.first().map(|slice| slice.0)
    }

    /// Whether no slice is open.
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// Open slices.
    pub fn len(&self) -> usize {
        self.slices.len()
    }

    /// Bytes of memory held by tables, recycled ones included.
    pub fn bytes(&self) -> usize {
        let open = self.slices.iter().map(|slice| &slice.1);
        open.chain(&self.recycled).map(Table::bytes).sum()
    }
}
