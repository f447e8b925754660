//! Windows of so many rows of each key, and how they close.
//!
//! The rows of a key are numbered, and its windows are made of slices of as many rows as divide their size and their slide. Entries are such
//! slices: their last key column is the slice's number. Rows come in pieces, what a block has of a slice. Pieces are merged in the order of
//! their blocks; a slice is complete when it has all of its rows, and then all slices of its key before it are. A window closes when its
//! last slice is complete, and is put together from its slices. When the input has ended, windows that are not complete close as well.
//!
//! Entries of slices that no window needs any more are emptied, and go with the table once they are the most.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::Int64Type;
use pelton_data::Micros;
use pelton_data::time::WATERMARK_MAX;
use pelton_data::window::{ResultKind, slice_rows};

use crate::layout::EntryLayout;
use crate::slice::SliceId;
use crate::table::{ABSENT, KeyScratch, Table};
use crate::waiting::Leaving;
use crate::window::{CloseLimits, ClosedGroups, ClosedWindow, Contents};

/// With fewer entries than this, those that are empty stay: they cost little.
const EMPTY_ENTRIES_MIN: usize = 1024;

/// The open windows of one aggregation.
#[derive(Debug)]
pub struct OpenCounts {
    size: i64,
    /// Rows of a slice.
    slice_rows: i64,
    /// Slices of a window.
    slices: i64,
    /// Slices from the start of one window to that of the next.
    slide: i64,
    /// The accumulator that counts rows.
    counter: usize,
    /// What blocks have, over all workers, that has not been merged.
    sealed: BTreeMap<SliceId, Table>,
    /// Tables that have been merged into others.
    spare: Vec<Table>,
    table: Table,
    /// Entries of `table` that are empty.
    empty: usize,
    /// Windows that close, while they do.
    windows: Table,
    /// So many rows of all keys have been merged.
    merged_until: Micros,
    scratch: KeyScratch,
}

impl OpenCounts {
    /// No window is open. Tables will have this layout: its last key is the number of a slice.
    ///
    /// # Panics
    /// Where the layout has no accumulator that counts rows.
    pub fn new(size: i64, slide: i64, layout: &Arc<EntryLayout>) -> OpenCounts {
        let counter = layout.accumulators().iter().position(|slot| slot.accumulator.counts_rows());
        let slice_rows = slice_rows(size, slide);
        OpenCounts {
            size,
            slice_rows,
            slices: size / slice_rows,
            slide: slide / slice_rows,
            counter: counter.expect("the rows of a slice are counted"),
            sealed: BTreeMap::new(),
            spare: Vec::new(),
            table: Table::new(layout.clone()),
            empty: 0,
            windows: Table::list(layout.clone()),
            merged_until: Micros::MIN,
            scratch: KeyScratch::default(),
        }
    }

    /// Takes what a block has.
    ///
    /// # Panics
    /// Where later blocks have been merged.
    pub fn seal(&mut self, id: SliceId, table: Table) {
        assert!(id.first_end > self.merged_until, "blocks are sealed in their order");
        match self.sealed.get_mut(&id) {
            Some(merged) => self.spare.push(merged.merge(table)),
            None => {
                self.sealed.insert(id, table);
            }
        }
    }

    /// Merges blocks up to which all must have been sealed, and hands the windows that they complete to `hand_on`, those of one key in their
    /// order. Tables that are no longer needed are cleared and added to `spare`. Returns up to where blocks have been merged.
    ///
    /// # Errors
    /// What `hand_on` returns.
    pub fn close<E>(
        &mut self,
        limits: CloseLimits,
        spare: &mut Vec<Table>,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<Micros, E> {
        self.spare.iter_mut().for_each(Table::clear);
        spare.append(&mut self.spare);
        let mut windows = 0;
        while let Some(first) = self.sealed.first_entry().filter(|first| first.key().first_end <= limits.until) {
            let (id, mut pieces) = first.remove_entry();
            let complete = self.merge(&pieces);
            pieces.clear();
            spare.push(pieces);
            windows += self.close_complete(complete, limits.groups_at_once, hand_on)?;
            self.drop_empty();
            self.merged_until = id.first_end;
            if windows >= limits.groups_max {
                return Ok(self.merged_until);
            }
        }
        if limits.until == WATERMARK_MAX {
            self.close_rest(limits.groups_at_once, hand_on)?;
        }
        self.merged_until = limits.until;
        Ok(limits.until)
    }

    /// Merges what a block has. Returns the slices that are complete by it.
    fn merge(&mut self, pieces: &Table) -> Vec<u32> {
        let from = pieces.entry_offsets();
        let mut to = Vec::new();
        self.table.entries_of(pieces, from.as_slice().into(), &mut to, &mut self.scratch);
        self.table.add_at(pieces, &from, &to);
        let counts = self.table.integers(self.counter, &to);
        let pairs = to.into_iter().zip(counts);
        pairs.filter(|(_, count)| *count == self.slice_rows).map(|(entry, _)| entry).collect()
    }

    /// Closes the windows whose last slices are complete. Returns how many.
    fn close_complete<E>(
        &mut self,
        complete: Vec<u32>,
        groups_at_once: usize,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut numbered: Vec<(i64, u32)> = self.numbers(&complete).into_iter().zip(complete).collect();
        numbered.sort_unstable();
        // What lies between two windows is in none.
        let between = numbered.iter().filter(|(number, _)| number % self.slide >= self.slices);
        let between: Vec<u32> = between.map(|(_, entry)| *entry).collect();
        self.forget(&between);
        let before = self.slices - 1;
        let is_last = |number: i64| number >= before && (number - before) % self.slide == 0;
        let last: Vec<u32> =
            numbered.into_iter().filter(|(number, _)| is_last(*number)).map(|(_, last)| last).collect();
        let first = self.at_distance(&last, -before);
        let closed = first.len();
        self.read_out(&first, groups_at_once, hand_on)?;
        for distance in 0..self.slide.min(self.slices) {
            let gone = self.at_distance(&first, distance);
            self.forget(&gone);
        }
        Ok(closed)
    }

    /// Closes what there is of all windows.
    fn close_rest<E>(
        &mut self,
        groups_at_once: usize,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let entries = self.with_rows();
        // The first slice of a window goes when the window closes.
        let numbered = self.numbers(&entries).into_iter().zip(entries);
        let mut first: Vec<(i64, u32)> = numbered.filter(|(number, _)| number % self.slide == 0).collect();
        first.sort_unstable();
        let first: Vec<u32> = first.into_iter().map(|(_, entry)| entry).collect();
        self.read_out(&first, groups_at_once, hand_on)?;
        self.table.clear();
        self.empty = 0;
        Ok(())
    }

    /// Puts windows together from their slices, of which `first` are the first, and hands them on.
    fn read_out<E>(
        &mut self,
        first: &[u32],
        groups_at_once: usize,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        for first in first.chunks(groups_at_once.max(1)) {
            self.windows.clear();
            self.windows.append(&self.table, first);
            for distance in 1..self.slices {
                let found = self.find(first, distance);
                let there = (0..).zip(found).filter(|(_, slice)| *slice != ABSENT);
                let (to, from): (Vec<u32>, Vec<u32>) = there.unzip();
                self.windows.add_at(&self.table, &from, &to);
            }
            let window = |number: i64| {
                let start = number * self.slice_rows;
                ClosedWindow { start, end: start + self.size, groups: 1, kind: ResultKind::Final }
            };
            let windows: Vec<ClosedWindow> = self.numbers(first).into_iter().map(window).collect();
            let entries = self.windows.entry_offsets();
            let groups = ClosedGroups { table: &self.windows, entries: entries.as_slice().into(), windows: &windows };
            hand_on(Leaving::Now(Contents::Groups(groups)))?;
        }
        self.windows.clear();
        Ok(())
    }

    /// The numbers of slices.
    fn numbers(&self, entries: &[u32]) -> Vec<i64> {
        let number = self.table.layout().key_columns().len() - 1;
        self.table.key_array(number, entries).as_primitive::<Int64Type>().values().to_vec()
    }

    /// The slices of the same keys so many further on; [`ABSENT`] where there is none.
    fn find(&self, entries: &[u32], distance: i64) -> Vec<u32> {
        let keys = self.table.layout().key_columns().len();
        let mut columns: Vec<ArrayRef> = (0..keys - 1).map(|key| self.table.key_array(key, entries)).collect();
        let numbers = self.numbers(entries).into_iter().map(|number| number + distance);
        columns.push(Arc::new(numbers.collect::<Int64Array>()));
        let mut found = Vec::new();
        self.table.find_columns(&columns, None, &mut found, &mut Vec::new());
        found
    }

    /// As [`OpenCounts::find`], where all are known to be there.
    fn at_distance(&self, entries: &[u32], distance: i64) -> Vec<u32> {
        match distance {
            0 => entries.to_vec(),
            _ => self.find(entries, distance),
        }
    }

    fn forget(&mut self, entries: &[u32]) {
        self.table.reset_entries(entries);
        self.empty += entries.len();
    }

    /// The entries that are not empty.
    fn with_rows(&self) -> Vec<u32> {
        let entries = self.table.entry_offsets();
        let counts = self.table.integers(self.counter, &entries);
        entries.into_iter().zip(counts).filter(|(_, count)| *count > 0).map(|(entry, _)| entry).collect()
    }

    /// Takes what is left into a new table, where most entries are empty.
    fn drop_empty(&mut self) {
        if self.empty < EMPTY_ENTRIES_MIN || self.empty * 2 < self.table.groups() {
            return;
        }
        let from = self.with_rows();
        let mut table = Table::new(self.table.layout().clone());
        let mut to = Vec::new();
        table.entries_of(&self.table, from.as_slice().into(), &mut to, &mut self.scratch);
        table.add_at(&self.table, &from, &to);
        self.table = table;
        self.empty = 0;
    }

    /// What has not been merged or reported.
    pub fn slices(&self) -> usize {
        self.sealed.len() + usize::from(self.table.groups() > self.empty)
    }

    /// Bytes of memory held by tables.
    pub fn bytes(&self) -> usize {
        self.sealed.values().map(Table::bytes).sum::<usize>() + self.table.bytes() + self.windows.bytes()
    }
}
