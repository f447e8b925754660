//! Windows that are open, in snapshots.

use std::ops::RangeInclusive;

use pelton_data::Micros;
use pelton_data::window::Window;

use super::{ClosedSmallSlices, OpenWindows, Step};
use crate::closed_slices::ClosedSlices;
use crate::gag::Gag;
use crate::slice::{SliceId, SliceStore};
use crate::snapshot::{Reader, Snapshot, SnapshotError, Writer};
use crate::table::Table;
use crate::window::Open;

const CLOSING: &str = "windows are being closed";

/// All state of one window operator: what is open, and what each worker has besides. Slices that a worker has put aside, and what it has in pieces, must
/// have been sealed before.
///
/// Where the snapshot is read there may be another number of workers.
#[derive(Debug)]
pub struct WindowState<'a> {
    /// What is open.
    pub open: &'a mut Open,
    /// What each worker has.
    pub stores: Vec<&'a mut SliceStore>,
}

impl WindowState<'_> {
    /// When windows are corrected by rows that have come: whoever closes windows must be told where it is not the one that was told of the rows.
    pub fn dues(&self) -> Vec<Micros> {
        let correcting = self.stores.iter().flat_map(|store| store.ids()).filter(|id| id.corrects);
        correcting.map(|id| id.first_end).chain(self.open.dues()).collect()
    }
}

impl Snapshot for WindowState<'_> {
    fn description(&self) -> String {
        self.open.description()
    }

    fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        self.open.write_to(out)?;
        out.count(self.stores.len());
        // One worker counts the rows of all.
        self.stores.iter().enumerate().try_for_each(|(worker, store)| store.write_to(worker == 0, out))
    }

    fn read_from(&mut self, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        self.open.read_from(input)?;
        let workers = self.stores.len();
        for worker in 0..input.count(1, "workers")? {
            input.check(workers > 0, "no workers")?;
            self.stores[worker % workers].read_from(worker == 0, self.open, input)?;
        }
        Ok(())
    }
}

impl OpenWindows {
    /// Whether a slice may be sealed that was read.
    pub(crate) fn takes(&self, id: SliceId) -> bool {
        id.first_end > self.closed_until && (!id.corrects || self.corrections.is_some())
    }

    pub(crate) fn window(&self) -> &Window {
        &self.window
    }

    /// Windows that end at or before this have closed.
    pub(crate) fn closed_until(&self) -> Micros {
        self.closed_until
    }

    /// When windows are corrected, ascending.
    pub fn dues(&self) -> Vec<Micros> {
        self.corrections.iter().flat_map(|corrections| corrections.dues()).collect()
    }

    /// The ends that the last window of a slice may have which windows need that have closed and others that have not.
    fn last_ends(&self) -> RangeInclusive<Micros> {
        let last = match self.closed_until {
            Micros::MIN => None,
            closed_until => self.window.slice(closed_until - 1).covered,
        };
        self.closed_until.saturating_add(1)..=last.map_or(Micros::MIN, |covered| covered.last_end)
    }

    /// Makes sure that groups which were read have rows, where slices are subtracted: pieces of others may have a place for each group.
    pub(super) fn check_rows(&self, table: &Table, input: &Reader<'_>) -> Result<(), SnapshotError> {
        if self.gag.subtracts() { table.check_rows(input) } else { Ok(()) }
    }

    fn write_slices(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        let in_pieces = self.sealed_slices() - self.sealed.len();
        out.count(self.sealed.tables_written() + in_pieces);
        self.sealed.write_to(out)?;
        for ClosedSmallSlices { pieces, slice } in &self.pieces {
            let Gag::Combined(graph) = &self.gag else { unreachable!("pieces are combined") };
            for (id, groups) in (*slice..).map_while(|slice| pieces.slice(slice)) {
                id.write_to(out);
                graph.keys_of(pieces).write_keys(pieces.numbers(groups.clone()).into(), out)?;
                let (values, entries) = pieces.values(groups);
                values.write_values(entries.into(), out)?;
            }
        }
        Ok(())
    }
}

impl Snapshot for OpenWindows {
    fn description(&self) -> String {
        let layout = self.gag.layout().description();
        format!("{:?} by {}, {layout}, corrected: {}", self.window, self.gag.name(), self.corrections.is_some())
    }

    fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        let is_correcting = self.corrections.as_ref().is_some_and(|corrections| corrections.is_under_way());
        if self.step != Step::Begin || self.sealed.is_merging() || self.arriving.is_some() || is_correcting {
            return Err(SnapshotError::UnderWay(CLOSING));
        }
        out.instant(self.closed_until);
        out.instant(self.reported_until);
        self.write_slices(out)?;
        self.gag.write_to(out)?;
        self.corrections.as_ref().map_or(Ok(()), |corrections| corrections.write_to(out))
    }

    fn read_from(&mut self, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        self.closed_until = input.instant("up to where windows have closed")?;
        self.reported_until = input.instant("up to where windows have been reported")?;
        for (id, table) in ClosedSlices::read(&self.window, &self.sliced, |id| self.takes(id), input)? {
            self.check_rows(&table, input)?;
            self.seal(id, table);
        }
        let (last_ends, closed_until, is_subtracted) = (self.last_ends(), self.closed_until, self.gag.subtracts());
        self.gag.read_from(&last_ends, input)?;
        self.corrections
            .as_mut()
            .map_or(Ok(()), |corrections| corrections.read_from(closed_until, is_subtracted, input))
    }
}

impl SliceStore {
    /// Writes slices that are open, and what `counts` rows by key, where one does.
    pub(crate) fn write_to(&self, counts: bool, out: &mut Writer) -> Result<(), SnapshotError> {
        if self.has_small_slices() {
            return Err(SnapshotError::UnderWay("small slices have not been sealed"));
        }
        let counter = self.known_counter().filter(|_| counts);
        out.flag(counter.is_some());
        counter.map_or(Ok(()), |counter| counter.write_to(out))?;
        out.count(self.open_slices().count());
        self.open_slices().try_for_each(|(id, table)| {
            id.write_to(out);
            table.write_to(out)
        })
    }

    /// Adds slices that were read, which `open` can be sealed into.
    fn read_from(&mut self, counts: bool, open: &Open, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        if input.flag("whether rows are counted by key")? {
            input.check(self.known_counter().is_some(), "no rows that are counted by key")?;
            self.counter().read_from(input)?;
        } else if counts {
            drop(self.take_counter());
        }
        for _ in 0..input.count(1, "slices of a worker")? {
            let id = open.read_id(input)?;
            let mut table = Table::new(self.layout().clone());
            table.read_from(input)?;
            open.check_slice(id, &table, input)?;
            self.table(id).merge(table);
        }
        Ok(())
    }
}
