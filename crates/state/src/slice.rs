//! The tables of the slices that are open, and pieces of small ones.

mod id;

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use pelton_data::window::Combination;
use pelton_data::{Block, Micros};

use crate::count::RowCounter;
use crate::kernel::KernelInput;
use crate::layout::EntryLayout;
use crate::small_slices::{SmallSliceWriter, SmallSlices};
use crate::table::{Table, TableHint};

pub use self::id::SliceId;
pub(crate) use self::id::covered;

/// Cleared tables kept for the next slices, however large.
const RECYCLED_TABLES_MIN: usize = 2;

/// More are kept up to so many bytes: a block may have rows of many small slices.
const RECYCLED_BYTES_MAX: usize = 4 << 20;

/// A block with rows of fewer slices has a table for each.
const SMALL_SLICES_MIN: usize = 8;

/// Slices of more rows each have tables of their own.
const SMALL_SLICE_ROWS_MAX: usize = 1024;

/// Rows of a block that go into one slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceRows {
    /// Which slice, and from which window on the rows count.
    pub slice: SliceId,
    /// The rows lie in here.
    pub rows: Range<usize>,
    /// Which of them.
    pub belong: Belong,
}

/// The slices of a block are told apart by looking at the times of all its rows, once for each, where they are no more than this.
pub const SLICES_BY_TIME_MAX: usize = 8;

/// Which rows of a range belong to a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Belong {
    /// All.
    All,
    /// Those whose value in the block's raw event-time column is one of these, both inclusive.
    Ticks(RangeInclusive<i64>),
    /// Those with a bit here: one for every row of the block.
    Mask(Vec<u64>),
}

impl SliceRows {
    /// All rows of a range.
    pub fn all(slice: SliceId, rows: Range<usize>) -> SliceRows {
        SliceRows { slice, rows, belong: Belong::All }
    }

    /// The rows for a kernel. `mask` is a buffer for one bit a row.
    pub fn input<'a>(&'a self, block: &'a Block, mask: &'a mut Vec<u64>) -> KernelInput<'a> {
        let mask = match &self.belong {
            Belong::All => None,
            Belong::Mask(mask) => Some(mask.as_slice()),
            Belong::Ticks(belonging) => {
                let ticks = block.raw_ticks().expect("rows with event times belong to a slice by them");
                let (first, last) = (*belonging.start(), *belonging.end());
                let belongs = |tick: i64| u64::from(first <= tick) & u64::from(tick <= last);
                // Word by word: what is not in a register is written and read again for each row.
                let word = |ticks: &[i64]| (0..).zip(ticks).fold(0, |word, (bit, tick)| word | belongs(*tick) << bit);
                mask.clear();
                mask.extend(ticks.chunks(64).map(word));
                Some(mask.as_slice())
            }
        };
        KernelInput { block, first: self.rows.start, end: self.rows.end, mask }
    }
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
    recycled_bytes: usize,
    /// Where rows go of slices that begin and end within a block, where they are kept so.
    pieces: Option<Box<SmallSliceWriter>>,
    /// Whether others have rows of the same slices: the block before may be theirs, and the one behind.
    has_others: bool,
    /// Where rows go that are counted by key, instead of slices.
    counter: Option<Box<RowCounter>>,
    /// Bytes that tables may take of rows that are being added, where that is limited,
    allowed_bytes: Option<usize>,
    /// and what they have lacked for those that were added last.
    lacking_bytes: usize,
}

impl SliceStore {
    /// No slices yet. Their tables will have this layout.
    pub fn new(layout: Arc<EntryLayout>) -> SliceStore {
        SliceStore {
            layout,
            slices: Vec::new(),
            last: 0,
            hint: TableHint::default(),
            recycled: Vec::new(),
            recycled_bytes: 0,
            pieces: None,
            has_others: false,
            counter: None,
            allowed_bytes: None,
            lacking_bytes: 0,
        }
    }

    /// As [`SliceStore::new`], and small slices may be kept as pieces, for windows that are put together so; `has_others`: where other workers have rows of the
    /// same slices.
    pub fn with_small_slices(layout: Arc<EntryLayout>, combination: Combination, has_others: bool) -> SliceStore {
        let pieces = Some(Box::new(SmallSliceWriter::new(layout.clone(), combination)));
        SliceStore { pieces, has_others, ..SliceStore::new(layout) }
    }

    /// No slices: the rows of each key are counted.
    pub fn counting(counter: RowCounter) -> SliceStore {
        let store = SliceStore::new(counter.layout().clone());
        SliceStore { counter: Some(Box::new(counter)), ..store }
    }

    /// Where rows are counted by key.
    ///
    /// # Panics
    /// Where they are not, or no more come.
    pub fn counter(&mut self) -> &mut RowCounter {
        self.counter.as_mut().expect("rows are counted by key")
    }

    /// Where rows are counted by key, if they are and more may come.
    pub(crate) fn known_counter(&self) -> Option<&RowCounter> {
        self.counter.as_deref()
    }

    /// Whether windows are open that count rows by key.
    pub fn has_open_counts(&self) -> bool {
        self.counter.as_ref().is_some_and(|counter| counter.has_open())
    }

    /// Takes what the rows were counted with, where they were: no more come.
    pub fn take_counter(&mut self) -> Option<Box<RowCounter>> {
        self.counter.take()
    }

    /// Where the rows of slices go that a block begins and ends, in the order of the slices, and which of them these are: the first may have begun
    /// before the block, and the last may go on behind it. `None` where each has a table of its own: because they are few, have many rows, or must.
    pub fn pieces(&mut self, slices: &[SliceRows]) -> Option<(&mut SmallSliceWriter, Range<usize>)> {
        let (first, last) = (slices.first()?, slices.last()?);
        let rows = last.rows.end.saturating_sub(first.rows.start);
        let are_small = slices.len() >= SMALL_SLICES_MIN && rows <= slices.len() * SMALL_SLICE_ROWS_MAX;
        let pieces = self.pieces.as_deref_mut().filter(|pieces| are_small && pieces.is_next(first.slice))?;
        // What a worker alone has of the first and the last is one table's, over several blocks; of several workers it would be a table for each block, and these
        // would be merged by their keys.
        let inner = if self.has_others { 0..slices.len() } else { 1..slices.len() - 1 };
        slices.is_sorted_by(|one, next| one.slice < next.slice).then_some((pieces, inner))
    }

    /// Takes what there is of small slices.
    pub fn take_small_slices(&mut self) -> Vec<Arc<SmallSlices>> {
        self.pieces.as_mut().map_or(Vec::new(), |pieces| pieces.take())
    }

    /// The layout of the tables' entries.
    pub fn layout(&self) -> &Arc<EntryLayout> {
        &self.layout
    }

    /// Adds rows by `add`, for which tables that double may take so many bytes together, beside what they lacked the last time: that has been counted since. Returns
    /// whether it must be counted at once what they take now, and what they lack.
    ///
    /// # Errors
    /// What `add` returns.
    pub fn add_within<E>(
        &mut self,
        bytes: usize,
        add: impl FnOnce(&mut SliceStore) -> Result<(), E>,
    ) -> (Result<(), E>, bool) {
        if bytes == usize::MAX {
            self.lacking_bytes = 0;
            return (add(self), false);
        }
        let allowed = bytes.saturating_add(std::mem::take(&mut self.lacking_bytes));
        self.allowed_bytes = Some(allowed);
        let added = add(self);
        self.take_back_allowance();
        let left = self.allowed_bytes.take();
        let lacking: Vec<usize> = self.slices.iter_mut().filter_map(|(_, table)| table.settle()).collect();
        self.lacking_bytes = lacking.iter().sum();
        (added, !lacking.is_empty() || left != Some(allowed))
    }

    /// Takes back what the table asked for last has left of what is allowed.
    fn take_back_allowance(&mut self) {
        if let (Some(allowed), Some((_, table))) = (&mut self.allowed_bytes, self.slices.get_mut(self.last)) {
            *allowed = table.allowed_bytes().map_or(*allowed, |left| left.min(*allowed));
        }
    }

    /// The table of a slice, which is opened where it is not yet.
    pub fn table(&mut self, id: SliceId) -> &mut Table {
        self.take_back_allowance();
        if self.slices.last().is_none_or(|last| last.0 < id) {
            let table = self.new_table(id);
            self.slices.push((id, table));
            self.last = self.slices.len() - 1;
        } else if self.slices.get(self.last).is_none_or(|slice| slice.0 != id) {
            self.last = match self.slices.binary_search_by_key(&id, |slice| slice.0) {
                Ok(index) => index,
                Err(index) => {
                    let table = self.new_table(id);
                    self.slices.insert(index, (id, table));
                    index
                }
            };
        }
        let table = &mut self.slices[self.last].1;
        if let Some(allowed) = self.allowed_bytes {
            table.allow(allowed);
        }
        table
    }

    /// The table of a slice, if it is open.
    pub fn known_table(&self, id: SliceId) -> Option<&Table> {
        let index = self.slices.binary_search_by_key(&id, |slice| slice.0).ok()?;
        Some(&self.slices[index].1)
    }

    fn new_table(&mut self, id: SliceId) -> Table {
        // Few rows correct windows, and there is a slice of them for each block: room for what others have would be made in vain each time.
        if id.corrects {
            return Table::new(self.layout.clone());
        }
        let mut table = match self.recycled.pop() {
            Some(table) => {
                self.recycled_bytes -= table.bytes();
                table
            }
            None => {
                // The slice before may have more groups by now than those that were taken.
                let open = self.slices.get(self.last).map(|(_, table)| table.hint());
                let hint = open.filter(|open| open.groups() > self.hint.groups()).unwrap_or(self.hint);
                Table::with_hint(self.layout.clone(), hint)
            }
        };
        table.may_keep_previous();
        table
    }

    /// Removes the slices that windows need which end at or before `end`, ascending; of one there may be two tables.
    pub fn take_until(&mut self, end: Micros) -> Vec<(SliceId, Table)> {
        let count = self.slices.partition_point(|slice| slice.0.first_end <= end);
        self.last = self.last.saturating_sub(count);
        if let Some((_, table)) = self.slices[..count].iter().rfind(|(id, _)| !id.corrects) {
            self.hint = table.hint();
        }
        let mut taken = Vec::with_capacity(count);
        for (id, mut table) in self.slices.drain(..count) {
            taken.extend(table.take_previous().map(|previous| (id, previous)));
            taken.push((id, table));
        }
        taken
    }

    /// Takes back a table that has been cleared, for a later slice.
    ///
    /// # Panics
    /// Where the table is not of this store's layout.
    pub fn recycle(&mut self, table: Table) {
        let is_ours = Arc::ptr_eq(table.layout(), &self.layout) || table.layout() == &self.layout;
        assert!(is_ours, "a table goes back to a store of its layout");
        if let Some(counter) = &mut self.counter {
            return counter.recycle(table);
        }
        let of_table = table.bytes();
        if of_table == 0 && !table.has_learned() {
            // Its groups were left behind: what this slice has taught another table knows.
            return;
        }
        let bytes = self.recycled_bytes + of_table;
        if self.recycled.len() < RECYCLED_TABLES_MIN || bytes <= RECYCLED_BYTES_MAX {
            self.recycled_bytes = bytes;
            self.recycled.push(table);
        }
    }

    /// Cleared tables for later slices.
    pub fn spare_tables(&self) -> usize {
        self.recycled.len()
    }

    /// The slices that are open; of one there may be two tables.
    pub(crate) fn open_slices(&self) -> impl Iterator<Item = (SliceId, &Table)> {
        self.slices
            .iter()
            .flat_map(|(id, table)| std::iter::once(table).chain(table.previous()).map(|table| (*id, table)))
    }

    /// Whether there is something of small slices that was not taken.
    pub(crate) fn has_small_slices(&self) -> bool {
        self.pieces.as_ref().is_some_and(|pieces| pieces.has_any())
    }

    /// When the first slice is needed that is open.
    pub fn first_end(&self) -> Option<Micros> {
        self.slices.first().map(|(id, _)| id.first_end)
    }

    /// The slices that are open, ascending.
    pub fn ids(&self) -> impl Iterator<Item = SliceId> {
        self.slices.iter().map(|(id, _)| *id)
    }

    /// Bytes of memory held by tables, recycled ones included, and of what they lack.
    pub fn bytes(&self) -> usize {
        let open: usize = self.slices.iter().map(|(_, table)| table.bytes()).sum();
        let counter = self.counter.as_ref().map_or(0, |counter| counter.bytes());
        open + self.lacking_bytes
            + self.recycled_bytes
            + counter
            + self.pieces.as_ref().map_or(0, |pieces| pieces.bytes())
    }
}
