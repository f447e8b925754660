//! The slices that one worker has rows of, and what other workers take of them.
//!
//! A worker holds its store as long as it adds a block to it. Who closes windows does not wait for that: what the worker has put aside, and when
//! the first of the slices that it still has is needed, is behind a lock that nobody holds for long.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use pelton_data::Micros;
use pelton_data::time::WATERMARK_MAX;
use pelton_state::count::{CompleteWindows, RowCounter};
use pelton_state::slice::{SliceId, SliceStore};
use pelton_state::small_slices::SmallSlices;
use pelton_state::table::Table;
use pelton_state::window::Open;

use crate::sync::{Mutex, MutexGuard};

/// A block with rows of so many slices is the last for nearly all of them: they are put aside.
const PUT_ASIDE_SLICES_MIN: usize = 8;

/// The slices of one window that one worker has rows of: on lines of memory that no other worker's are on.
#[repr(align(128))]
pub(super) struct WorkerSlices {
    store: Mutex<SliceStore>,
    shared: Mutex<SharedSlices>,
    has_others: bool,
    /// Whether all rows are of one stream. Those of another may be behind, and each slice would be taken apart.
    has_one_stream: bool,
}

#[derive(Default)]
struct SharedSlices {
    /// A slice may occur several times.
    put_aside: Vec<(SliceId, Table)>,
    /// What there is of small slices, in the order in which it came.
    pieces: Vec<Arc<SmallSlices>>,
    /// Windows that count rows by key and are complete, in the order of their blocks.
    complete: Vec<CompleteWindows>,
    /// Cleared tables for later slices.
    spare: Vec<Table>,
    /// When the first of the slices is needed that are in the store, but for those of the block that is being added: these are needed later
    /// than any that may be taken meanwhile.
    first_end: Option<Micros>,
    /// Cleared tables that the store has,
    store_spare: usize,
    /// and bytes of it, when a block was added or slices were taken last.
    store_bytes: usize,
}

impl SharedSlices {
    fn bytes(&self) -> usize {
        let tables = self.put_aside.iter().map(|(_, table)| table).chain(&self.spare);
        let complete: usize = self.complete.iter().map(CompleteWindows::bytes).sum();
        self.store_bytes + complete + tables.map(Table::bytes).sum::<usize>()
    }

    /// Puts aside the slices of a store that windows need which end at or before `end`: who closes these does not wait for the rows that are added next.
    fn put_aside_until(&mut self, end: Micros, store: &mut SliceStore) {
        if store.first_end().is_some_and(|first_end| first_end <= end) {
            self.put_aside.extend(store.take_until(end));
            self.look_at(store);
        }
    }

    /// Notes what is in the store.
    fn look_at(&mut self, store: &SliceStore) {
        (self.first_end, self.store_bytes) = (store.first_end(), store.bytes());
        self.store_spare = store.spare_tables();
    }
}

impl WorkerSlices {
    /// No slices yet; `has_others`: whether other workers may take them; `has_one_stream`: whether all rows are of one.
    pub fn new(store: SliceStore, has_others: bool, has_one_stream: bool) -> WorkerSlices {
        WorkerSlices { store: Mutex::new(store), shared: Mutex::default(), has_others, has_one_stream }
    }

    /// What the worker adds blocks to: it waits as long as this is held.
    pub fn store(&self) -> MutexGuard<'_, SliceStore> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shared(&self) -> MutexGuard<'_, SharedSlices> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds rows of so many slices, for which tables may take so many bytes. Slices are put aside before that windows need which end at or before `over_until`, as no
    /// more rows of these come, or few. Returns whether tables have grown, or lacked memory to.
    ///
    /// # Errors
    /// What `add` returns.
    pub fn add<E>(
        &self,
        slices: usize,
        over_until: Micros,
        allowed_bytes: usize,
        add: impl FnOnce(&mut SliceStore) -> Result<(), E>,
    ) -> Result<bool, E> {
        let mut store = self.store();
        let mut shared = self.shared();
        std::mem::take(&mut shared.spare).into_iter().for_each(|table| store.recycle(table));
        if self.has_others && self.has_one_stream {
            shared.put_aside_until(over_until, &mut store);
        }
        drop(shared);
        let (result, has_grown) = store.add_within(allowed_bytes, add);
        let must_put_aside = self.has_others && slices >= PUT_ASIDE_SLICES_MIN;
        let put_aside = if must_put_aside { store.take_until(Micros::MAX) } else { Vec::new() };
        let mut shared = self.shared();
        shared.put_aside.extend(put_aside);
        shared.pieces.extend(store.take_small_slices());
        shared.look_at(&store);
        result.map(|()| has_grown)
    }

    /// Counts the rows of a block by their keys, one block after the other; `until` says how many rows have come with it. Returns whether windows are
    /// complete.
    ///
    /// # Errors
    /// What `count` returns.
    pub fn count<E>(&self, until: Micros, count: impl FnOnce(&mut RowCounter) -> Result<(), E>) -> Result<bool, E> {
        let mut store = self.store();
        std::mem::take(&mut self.shared().spare).into_iter().for_each(|table| store.recycle(table));
        count(store.counter())?;
        let complete = store.counter().take_complete(until);
        let are_complete = complete.is_some();
        let mut shared = self.shared();
        shared.complete.extend(complete);
        shared.look_at(&store);
        Ok(are_complete)
    }

    /// Whether windows are open that count rows by key.
    pub fn has_open_counts(&self) -> bool {
        self.store().has_open_counts()
    }

    /// Takes the windows that count rows by key and are complete with so many rows of all; and what these were counted with, where no more come.
    pub fn take_complete(&self, until: Micros) -> (Vec<CompleteWindows>, Option<Box<RowCounter>>) {
        let counter = if until == WATERMARK_MAX { self.store().take_counter() } else { None };
        let mut shared = self.shared();
        let count = shared.complete.partition_point(|windows| windows.until() <= until);
        (shared.complete.drain(..count).collect(), counter)
    }

    /// Takes the slices that windows need which end at or before `end`, where no block comes any more that has rows of them.
    pub fn take_until(&self, end: Micros) -> Vec<(SliceId, Table)> {
        let has_more = self.shared().first_end.is_some_and(|first_end| first_end <= end);
        // Whoever holds the store may put aside what is in it.
        let mut store = has_more.then(|| self.store());
        let mut shared = self.shared();
        let mut taken: Vec<_> = shared.put_aside.extract_if(.., |(id, _)| id.first_end <= end).collect();
        if let Some(store) = &mut store {
            taken.extend(store.take_until(end));
            shared.look_at(store);
        }
        taken
    }

    /// Takes what there is of small slices, in the order in which it came.
    pub fn take_small_slices(&self) -> Vec<Arc<SmallSlices>> {
        std::mem::take(&mut self.shared().pieces)
    }

    /// Takes back a cleared table.
    pub fn recycle(&self, table: Table) {
        self.shared().spare.push(table);
    }

    /// How many cleared tables there are, as far as is known without waiting for the worker.
    pub fn spare_tables(&self) -> usize {
        let shared = self.shared();
        shared.store_spare + shared.spare.len()
    }

    /// Which slices there are.
    pub fn ids(&self) -> BTreeSet<SliceId> {
        let store = self.store();
        let shared = self.shared();
        let pieces = shared.pieces.iter().flat_map(|pieces| pieces.ids());
        store.ids().chain(shared.put_aside.iter().map(|(id, _)| *id)).chain(pieces).collect()
    }

    /// Bytes of memory held by tables, as far as is known without waiting for the worker.
    pub fn bytes(&self) -> usize {
        self.shared().bytes()
    }

    /// Lets `charge` measure these bytes. One at a time does.
    pub fn charge<R>(&self, charge: impl FnOnce(&dyn Fn() -> usize) -> R) -> R {
        let shared = self.shared();
        charge(&|| shared.bytes())
    }

    /// Forgets all slices, and takes another store.
    pub fn reset(&self, store: SliceStore) {
        self.take_over(&mut self.store(), store);
    }

    /// As [`WorkerSlices::reset`], where the store is held.
    pub fn take_over(&self, held: &mut SliceStore, store: SliceStore) {
        *held = store;
        let mut shared = self.shared();
        *shared = SharedSlices::default();
        shared.look_at(held);
    }

    /// Seals all that the worker has done with.
    pub fn hand_over(&self, open: &mut Open) {
        let mut shared = self.shared();
        shared.pieces.drain(..).for_each(|pieces| open.close_small_slices(pieces));
        shared.put_aside.drain(..).for_each(|(slice, table)| open.seal(slice, table));
        open.seal_counts(std::mem::take(&mut shared.complete), None);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use pelton_data::aggregate::Accumulator;
    use pelton_state::layout::EntryLayout;

    use super::*;

    /// Opens slices of ten microseconds that end at these instants, by adding rows of them behind windows that end at or before `over_until`.
    fn open(slices: &WorkerSlices, ends: &[Micros], over_until: Micros) {
        let add = |store: &mut SliceStore| {
            for &end in ends {
                store.table(SliceId::new(end, end - 10));
            }
            Ok::<_, ()>(())
        };
        slices.add(ends.len(), over_until, usize::MAX, add).expect("nothing fails");
    }

    fn ends(taken: Vec<(SliceId, Table)>) -> Vec<Micros> {
        taken.into_iter().map(|(id, _)| id.first_end).collect()
    }

    fn slices(has_others: bool, has_one_stream: bool) -> Arc<WorkerSlices> {
        let layout = EntryLayout::new(&[], &[Accumulator::counting_rows()]);
        Arc::new(WorkerSlices::new(SliceStore::new(layout), has_others, has_one_stream))
    }

    #[test]
    fn slices_that_are_over_are_taken_while_rows_of_later_ones_are_added() {
        let slices = slices(true, true);
        open(&slices, &[10, 20], 0);
        let (taken, wait) = mpsc::channel();
        let add = |store: &mut SliceStore| {
            let others = slices.clone();
            let thread = std::thread::spawn(move || taken.send(ends(others.take_until(10))).expect("somebody waits"));
            store.table(SliceId::new(30, 20));
            Ok::<_, ()>((thread, wait.recv_timeout(Duration::from_secs(20))))
        };
        let mut done = None;
        slices.add(1, 10, usize::MAX, |store| add(store).map(|result| done = Some(result))).expect("nothing fails");
        let (thread, received) = done.expect("rows were added");
        thread.join().expect("slices are taken");
        assert_eq!(received, Ok(vec![10]), "before the rows were added");
        assert_eq!(ends(slices.take_until(30)), [20, 30]);
    }

    #[test]
    fn what_is_put_aside_is_handed_over_with_what_came_later() {
        let slices_of_many = slices(true, true);
        open(&slices_of_many, &[10, 20], 0);
        // Rows of a slice that was put aside may come all the same: of another input, which is behind.
        open(&slices_of_many, &[10, 30], 10);
        assert_eq!(slices_of_many.ids(), [10, 20, 30].map(|end| SliceId::new(end, end - 10)).into());
        assert_eq!(ends(slices_of_many.take_until(10)), [10, 10]);
        assert_eq!(ends(slices_of_many.take_until(30)), [20, 30]);
    }

    #[test]
    fn nothing_is_put_aside_where_there_are_no_other_workers_or_several_streams() {
        for slices in [slices(false, true), slices(true, false)] {
            open(&slices, &[10], 0);
            open(&slices, &[20], 10);
            assert!(slices.shared().put_aside.is_empty());
            assert_eq!(ends(slices.take_until(20)), [10, 20]);
        }
    }
}
