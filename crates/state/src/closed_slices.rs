//! Closed slices, to which no worker adds rows any more, of windows that have not ended: a table for each.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use pelton_data::Micros;
use pelton_data::window::Window;

use crate::layout::EntryLayout;
use crate::slice::SliceId;
use crate::snapshot::{Reader, Snapshot, SnapshotError, Writer};
use crate::table::{Merging, Table};
use crate::work::Work;

/// Bytes of a table that are cleared at a time.
const CLEARED_BYTES: usize = 1 << 20;

/// So many bytes are cleared in the time that it takes to do something with one group.
const CLEARED_BYTES_PER_GROUP: usize = 128;

/// Clears a part of a table that is no longer needed, which is added to `spare` with the last part: whether there was one.
pub(crate) fn clear_next(unneeded: &mut Vec<Table>, spare: &mut Vec<Table>, work: &mut Work) -> bool {
    let Some(mut table) = unneeded.pop() else { return false };
    work.spend(table.bytes().min(CLEARED_BYTES) / CLEARED_BYTES_PER_GROUP);
    if table.clear_part(CLEARED_BYTES) { spare } else { unneeded }.push(table);
    true
}

/// Slices, over all workers: one table for each, and what is to be merged with it.
#[derive(Debug, Default)]
pub(crate) struct ClosedSlices {
    /// Ascending.
    slices: VecDeque<(SliceId, Table)>,
    /// What other workers have of these slices, and how far the first of them has been merged.
    unmerged: VecDeque<(SliceId, Table)>,
    merging: Option<Merging>,
}

impl ClosedSlices {
    /// Takes one worker's table of a slice.
    pub fn add(&mut self, id: SliceId, table: Table) {
        if self.slices.back().is_none_or(|last| last.0 < id) {
            return self.slices.push_back((id, table));
        }
        match self.find(id) {
            Ok(_) => self.unmerged.push_back((id, table)),
            Err(index) => self.slices.insert(index, (id, table)),
        }
    }

    fn find(&self, id: SliceId) -> Result<usize, usize> {
        self.slices.binary_search_by_key(&id, |slice| slice.0)
    }

    /// Whether there is a slice.
    pub fn has(&self, id: SliceId) -> bool {
        self.find(id).is_ok()
    }

    /// Whether a table has been merged in part.
    pub fn is_merging(&self) -> bool {
        self.merging.is_some()
    }

    /// Merges some groups of the first table that is to be merged, which is added to `unneeded` with the last of them: whether there was one.
    pub fn merge_next(&mut self, unneeded: &mut Vec<Table>, work: &mut Work) -> bool {
        let Some((id, other)) = self.unmerged.front_mut() else { return false };
        let index =
            self.slices.binary_search_by_key(id, |slice| slice.0).expect("it is merged with one that is sealed");
        let into = &mut self.slices[index].1;
        let merging = self.merging.get_or_insert_with(|| {
            into.become_larger(other);
            Merging::new(into, other)
        });
        match merging.advance(into, other) {
            Some(merged) => merged.spend(work),
            None => {
                self.merging = None;
                other.learn_from(into);
                unneeded.extend(self.unmerged.pop_front().map(|(_, table)| table));
            }
        }
        true
    }

    /// When the first slice is needed.
    pub fn first_end(&self) -> Option<Micros> {
        self.slices.front().map(|(id, _)| id.first_end)
    }

    /// Takes the first slice, where a window needs it that ends at or before `end`: merged with all that there is of it.
    pub fn pop_until(&mut self, end: Micros) -> Option<(SliceId, Table)> {
        self.pop_if(|id| id.first_end <= end)
    }

    /// Takes the first slice, where `is_taken` says so: merged with all that there is of it.
    pub fn pop_if(&mut self, is_taken: impl FnOnce(SliceId) -> bool) -> Option<(SliceId, Table)> {
        debug_assert!(self.unmerged.is_empty(), "what is to be merged belongs to one of the slices");
        self.slices.pop_front_if(|(id, _)| is_taken(*id))
    }

    /// Takes, of the slices that are needed first, the one that begins last: merged with all that there is of it.
    pub fn pop_last_of_first(&mut self) -> Option<(SliceId, Table)> {
        debug_assert!(self.unmerged.is_empty(), "what is to be merged belongs to one of the slices");
        let first_end = self.first_end()?;
        let count = self.slices.partition_point(|(id, _)| id.first_end == first_end);
        self.slices.remove(count - 1)
    }

    /// The table of a slice, an empty one where there was none.
    pub fn table(&mut self, id: SliceId, empty: impl FnOnce() -> Table) -> &mut Table {
        let index = self.find(id).unwrap_or_else(|index| {
            self.slices.insert(index, (id, empty()));
            index
        });
        &mut self.slices[index].1
    }

    /// The slices that begin within `starts`, where those that begin later are needed later: merged with all that there is of them.
    pub fn begun_in(&self, starts: &Range<Micros>) -> impl Iterator<Item = &Table> {
        debug_assert!(self.unmerged.is_empty(), "what is to be merged belongs to one of the slices");
        let first = self.slices.partition_point(|(id, _)| id.start < starts.start);
        let end = self.slices.partition_point(|(id, _)| id.start < starts.end);
        self.slices.range(first..end).map(|(_, table)| table)
    }

    /// Which slices there are, ascending.
    pub fn ids(&self) -> impl Iterator<Item = SliceId> {
        self.slices.iter().map(|(id, _)| *id)
    }

    /// How many slices there are.
    pub fn len(&self) -> usize {
        self.slices.len()
    }

    /// All tables, in no order: those that are to be merged too.
    pub fn tables(&self) -> impl Iterator<Item = &(SliceId, Table)> {
        self.slices.iter().chain(&self.unmerged)
    }

    /// The same, to be changed.
    pub fn tables_mut(&mut self) -> impl Iterator<Item = &mut Table> {
        self.slices.iter_mut().chain(&mut self.unmerged).map(|(_, table)| table)
    }

    /// Bytes of memory held by tables.
    pub fn bytes(&self) -> usize {
        self.tables().map(|(_, table)| table.bytes()).sum()
    }

    /// How many tables [`ClosedSlices::write_to`] writes.
    pub fn tables_written(&self) -> usize {
        self.slices.len() + self.unmerged.len()
    }

    /// Reads what was written: slices of `window` that whoever holds them still takes.
    pub fn read(
        window: &Window,
        layout: &Arc<EntryLayout>,
        takes: impl Fn(SliceId) -> bool,
        input: &mut Reader<'_>,
    ) -> Result<Vec<(SliceId, Table)>, SnapshotError> {
        let mut slices = Vec::new();
        for _ in 0..input.count(1, "slices")? {
            let id = SliceId::read_from(window, input)?;
            input.check(takes(id), "a slice of windows that have not closed")?;
            let mut table = Table::new(layout.clone());
            table.read_from(input)?;
            slices.push((id, table));
        }
        Ok(slices)
    }

    /// Writes all tables.
    pub fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        self.tables().try_for_each(|(id, table)| {
            id.write_to(out);
            table.write_to(out)
        })
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;
    use pelton_data::aggregate::{Accumulator, KeyColumn};

    use super::*;
    use crate::slice::SliceStore;
    use crate::table::IntegerMode;

    /// Four million integers, of which each of two workers has one in seven.
    const INTEGERS: i64 = 4 << 20;

    fn fill(table: &mut Table, first: i64) {
        let keys: Vec<i64> = (first..INTEGERS).step_by(7).collect();
        for keys in keys.chunks(1 << 16) {
            // As of keys in any order.
            table.prepare_integers(0, INTEGERS - 1, keys.len());
            table.find_or_insert_integers(keys, &mut Vec::new(), &mut Vec::new());
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "a million keys take too long")]
    fn a_workers_next_table_finds_its_groups_as_that_of_the_slice_does() {
        let key = [KeyColumn { data_type: DataType::Int64, nullable: false }];
        let mut store = SliceStore::new(EntryLayout::new(&key, &[Accumulator::counting_rows()]));
        let mut take = |first: i64| {
            fill(store.table(SliceId::new(10, 0)), first);
            store.take_until(10).pop().expect("the slice was opened").1
        };
        let mut sealed = ClosedSlices::default();
        for first in [0, 3] {
            let table = take(first);
            assert_eq!(table.integer_mode(), Some(IntegerMode::Hash), "one in seven is not crowded");
            sealed.add(SliceId::new(10, 0), table);
        }
        let mut unneeded = Vec::new();
        while sealed.merge_next(&mut unneeded, &mut Work::new(usize::MAX)) {}
        let (_, merged) = sealed.pop_until(10).expect("there is a slice");
        assert!(matches!(merged.integer_mode(), Some(IntegerMode::Dense { .. })), "two in seven are");
        let mut other = unneeded.pop().expect("one of two was merged");
        other.clear();
        assert_eq!((other.bytes(), other.groups()), (0, 0));
        store.recycle(other);
        assert_eq!(store.spare_tables(), 1);
        fill(store.table(SliceId::new(20, 10)), 3);
        let next = store.known_table(SliceId::new(20, 10)).expect("it is open");
        assert!(matches!(next.integer_mode(), Some(IntegerMode::Dense { .. })));
        assert_eq!(next.groups(), (INTEGERS as usize - 3).div_ceil(7));
    }
}
