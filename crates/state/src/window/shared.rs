//! Slices that several windows are put together from (LightSaber, section 5.3: one slice store that serves many windows).

use std::sync::Arc;

use pelton_data::Micros;
use pelton_data::window::Window;

use super::{CloseLimits, OpenWindows, Work};
use crate::layout::EntryLayout;
use crate::sealed::SealedSlices;
use crate::slice::SliceId;
use crate::snapshot::{Reader, Snapshot, SnapshotError, Writer};
use crate::table::Table;

/// Slices of one stream that the watermark has not passed, or that have not been handed to all windows that are put together from them.
///
/// They are cut by a grid that has all edges of these windows ([`Window::grid`]). What is left of a row's windows when it comes is those that end last, whichever
/// window it is of: a slice and the first end of the grid that its rows count for tell each window's share ([`SliceId::share_of`]).
#[derive(Debug)]
pub struct SharedSlices {
    grid: Window,
    layout: Arc<EntryLayout>,
    sealed: SealedSlices,
    /// All slices that windows need which end at or before this have been handed on.
    shared_until: Micros,
}

impl SharedSlices {
    /// None yet. Their tables will have this layout.
    pub fn new(grid: Window, layout: Arc<EntryLayout>) -> SharedSlices {
        SharedSlices { grid, layout, sealed: SealedSlices::default(), shared_until: Micros::MIN }
    }

    /// Takes one worker's table of a slice which that worker adds no more rows to.
    ///
    /// # Panics
    /// Where such slices have been handed on.
    pub fn seal(&mut self, id: SliceId, table: Table) {
        assert!(self.takes(id), "a slice is sealed before its windows close");
        self.sealed.add(id, table);
    }

    pub(super) fn takes(&self, id: SliceId) -> bool {
        id.first_end > self.shared_until && !id.corrects
    }

    pub(super) fn grid(&self) -> &Window {
        &self.grid
    }

    /// Hands slices on that windows need which end by `limits.until`, up to which all must have been sealed: each once, in their order, with what all workers have
    /// of it; `hand_on` returns tables that are not needed. These are cleared and added to `spare`. Returns up to which end all have been handed on: what is left the next call goes on with.
    ///
    /// # Errors
    /// What `hand_on` returns.
    pub fn share<E>(
        &mut self,
        limits: CloseLimits,
        spare: &mut Vec<Table>,
        mut hand_on: impl FnMut(SliceId, Table) -> Result<Option<Table>, E>,
    ) -> Result<Micros, E> {
        let mut work = Work::new(limits.groups_max);
        while !work.is_done() {
            let mut unneeded = Vec::new();
            if self.sealed.merge_next(&mut unneeded, &mut work) {
                spare.extend(unneeded.into_iter().map(cleared));
                continue;
            }
            let Some((id, table)) = self.sealed.pop_until(limits.until) else { break };
            work.spend(table.groups_about());
            spare.extend(hand_on(id, table)?.map(cleared));
        }
        // What counts for the end of a slice that has been handed on may be that of others as well.
        let next = self.next_end().filter(|&end| end <= limits.until);
        self.shared_until = self.shared_until.max(next.map_or(limits.until, |end| end.saturating_sub(1)));
        Ok(self.shared_until)
    }

    /// When the first slice is needed.
    pub fn next_end(&self) -> Option<Micros> {
        self.sealed.first_end()
    }

    /// Which slices there are.
    pub fn ids(&self) -> impl Iterator<Item = SliceId> {
        self.sealed.tables().map(|(id, _)| *id)
    }

    /// How many slices there are.
    pub fn slices(&self) -> usize {
        self.sealed.len()
    }

    /// Bytes of memory held by tables.
    pub fn bytes(&self) -> usize {
        self.sealed.bytes()
    }
}

fn cleared(mut table: Table) -> Table {
    table.clear();
    table
}

impl OpenWindows {
    /// Takes what a slice has that other windows need as well.
    ///
    /// # Panics
    /// As [`OpenWindows::seal`].
    pub fn seal_copy(&mut self, id: SliceId, table: &Table) {
        assert!(id.first_end > self.closed_until, "a slice is sealed before its windows close");
        self.sealed.add_copy(id, table);
    }

    /// The same, where nobody needs the table any more: what is left of one, if anything, is returned.
    ///
    /// # Panics
    /// As [`OpenWindows::seal`].
    pub fn seal_merged(&mut self, id: SliceId, table: Table) -> Option<Table> {
        assert!(id.first_end > self.closed_until, "a slice is sealed before its windows close");
        self.sealed.add_merged(id, table)
    }
}

impl Snapshot for SharedSlices {
    fn description(&self) -> String {
        format!("slices of {:?}, {}", self.grid, self.layout.description())
    }

    fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        if self.sealed.is_merging() {
            return Err(SnapshotError::UnderWay("slices are being handed on"));
        }
        out.instant(self.shared_until);
        out.count(self.sealed.tables_written());
        self.sealed.write_to(out)
    }

    fn read_from(&mut self, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        self.shared_until = input.instant("up to where slices have been handed on")?;
        let slices = SealedSlices::read(&self.grid, &self.layout, |id| self.takes(id), input)?;
        slices.into_iter().for_each(|(id, table)| self.seal(id, table));
        Ok(())
    }
}
