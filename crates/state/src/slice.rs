//! The tables of the slices that are open.

use std::sync::Arc;

use pelton_data::Micros;

use crate::layout::EntryLayout;
use crate::table::{Table, TableHint};

/// Cleared tables kept for the next slices.
const RECYCLED_TABLES_MAX: usize = 2;

/// Which slice, and from which window on its rows count: rows of one slice that came when some of its windows had closed are
/// kept apart. Ordered by when they are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceId {
    /// End of the first window that the rows count in.
    pub first_end: Micros,
    /// First instant of the slice.
    pub start: Micros,
}

/// The slices of one window that one worker has rows of.
#[derive(Debug)]
pub struct SliceStore {
    layout: Arc<EntryLayout>,
    /// Ascending.
    slices: Vec<(SliceId, Table)>,
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

    /// The table of a slice, which is opened where it is not yet.
    pub fn table(&mut self, id: SliceId) -> &mut Table {
        if self.slices.get(self.last).is_none_or(|slice| slice.0 != id) {
            self.last = match self.slices.binary_search_by_key(&id, |slice| slice.0) {
                Ok(index) => index,
                Err(index) => {
                    let table = self.new_table();
                    self.slices.insert(index, (id, table));
                    index
                }
            };
        }
        &mut self.slices[self.last].1
    }

    fn new_table(&mut self) -> Table {
        self.recycled.pop().unwrap_or_else(|| Table::with_hint(self.layout.clone(), self.hint))
    }

    /// Removes the slices that windows need which end at or before `end`, ascending.
    pub fn take_until(&mut self, end: Micros) -> Vec<(SliceId, Table)> {
        let count = self.slices.partition_point(|slice| slice.0.first_end <= end);
        self.last = self.last.saturating_sub(count);
        let taken: Vec<_> = self.slices.drain(..count).collect();
        if let Some((_, table)) = taken.last() {
            self.hint = table.hint();
        }
        taken
    }

    /// Takes back a table whose groups are no longer needed, for a later slice.
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

    /// Open slices.
    pub fn len(&self) -> usize {
        self.slices.len()
    }

    /// Whether no slice is open.
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// Bytes of memory held by tables, recycled ones included.
    pub fn bytes(&self) -> usize {
        let open = self.slices.iter().map(|slice| &slice.1);
        open.chain(&self.recycled).map(Table::bytes).sum()
    }
}
