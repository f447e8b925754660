//! Memory of the graph that is used again.

use std::sync::Arc;

use super::Slice;
use crate::layout::EntryLayout;
use crate::table::Table;

/// Lists that are no longer needed, kept for the next slices, however large: one leaves where one comes.
const SPARE_LISTS_MIN: usize = 2;

/// More are kept up to so many bytes: windows may have many small slices. What is larger costs less to make than to hold.
const SPARE_BYTES_MAX: usize = 256 << 10;

/// Buffers that are reused.
#[derive(Debug, Default)]
pub(super) struct Spare {
    lists: Vec<Table>,
    list_bytes: usize,
    /// What the window was before groups got other numbers.
    pub(super) window: Option<Table>,
    /// Of groups, or entries.
    numbers: Vec<Vec<u32>>,
    number_bytes: usize,
    /// Numbers of the groups inserted last.
    pub(super) to: Vec<u32>,
    pub(super) new: Vec<u32>,
    pub(super) places: Vec<u32>,
}

impl Spare {
    /// An empty list.
    pub(super) fn list(&mut self, layout: &Arc<EntryLayout>) -> Table {
        let Some(list) = self.lists.pop() else { return Table::list(layout.clone()) };
        self.list_bytes -= list.bytes();
        list
    }

    pub(super) fn bytes(&self) -> usize {
        self.list_bytes + self.number_bytes + self.window.as_ref().map_or(0, Table::bytes)
    }

    /// Forgets the groups of a list, which keeps its memory unless it is large: it would keep room for groups that have left.
    pub(super) fn empty(list: &mut Table) {
        match list.bytes() <= SPARE_BYTES_MAX {
            true => list.clear(),
            false => *list = Table::list(list.layout().clone()),
        }
    }

    /// An empty list of numbers.
    pub(super) fn numbers(&mut self) -> Vec<u32> {
        let numbers = self.numbers.pop().unwrap_or_default();
        self.number_bytes -= 4 * numbers.capacity();
        numbers
    }

    pub(super) fn keep(&mut self, slice: Slice) {
        self.keep_list(slice.values);
        slice.to.into_iter().for_each(|to| self.keep_numbers(to));
    }

    pub(super) fn keep_numbers(&mut self, mut numbers: Vec<u32>) {
        let bytes = self.number_bytes + 4 * numbers.capacity();
        if self.numbers.len() < SPARE_LISTS_MIN || bytes <= SPARE_BYTES_MAX {
            numbers.clear();
            self.number_bytes = bytes;
            self.numbers.push(numbers);
        }
    }

    pub(super) fn keep_list(&mut self, mut list: Table) {
        list.clear();
        let bytes = self.list_bytes + list.bytes();
        if self.lists.len() < SPARE_LISTS_MIN || bytes <= SPARE_BYTES_MAX {
            self.list_bytes = bytes;
            self.lists.push(list);
        }
    }
}
