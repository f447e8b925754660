//! Slices that several windows are put together from (LightSaber, section 5.3: one slice store that serves many windows).

use std::sync::Arc;

use pelton_data::Micros;
use pelton_data::window::Window;

use super::{CloseLimits, OpenWindows};
use crate::closed_slices::{ClosedSlices, clear_next};
use crate::layout::EntryLayout;
use crate::slice::SliceId;
use crate::snapshot::{Reader, Snapshot, SnapshotError, Writer};
use crate::table::{Merging, Table};
use crate::work::{GROUPS_PER_WINDOW, Work};

/// Slices of one stream that the watermark has not passed, or that have not been handed to all windows that are put together from them.
///
/// They are cut by a grid that has all edges of these windows ([`Window::grid`]). What is left of a row's windows when it comes is those that end last, whichever
/// window it is of: a slice and the first end of the grid that its rows count for tell each window's share ([`SliceId::share_of`]).
#[derive(Debug)]
pub struct SharedSlices {
    grid: Window,
    layout: Arc<EntryLayout>,
    sealed: ClosedSlices,
    /// The one that is being handed on.
    leaving: Option<LeavingSlice>,
    /// All slices that windows need which end at or before this have been handed on.
    shared_until: Micros,
    /// Tables that are no longer needed, and have not been cleared.
    unneeded: Vec<Table>,
}

/// A slice on its way to the windows that share it.
#[derive(Debug)]
struct LeavingSlice {
    id: SliceId,
    table: Option<Table>,
    /// How many of the windows have it,
    shared: usize,
    /// and how far it has been merged with what the next one has.
    merging: Option<Merging>,
}

/// A slice that is merged with what a window has of its own slice, which holds it.
#[derive(Debug)]
pub struct Share<'a> {
    /// There until a window takes it that is the last which needs it.
    table: &'a mut Option<Table>,
    is_last: bool,
    merging: &'a mut Option<Merging>,
    spare: &'a mut Vec<Table>,
    work: &'a mut Work,
}

impl SharedSlices {
    /// None yet. Their tables will have this layout.
    pub fn new(grid: Window, layout: Arc<EntryLayout>) -> SharedSlices {
        SharedSlices {
            grid,
            layout,
            sealed: ClosedSlices::default(),
            leaving: None,
            shared_until: Micros::MIN,
            unneeded: Vec::new(),
        }
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

    /// Hands slices on that windows need which end by `limits.until`, up to which all must have been sealed: each once to each of these windows, in their order, with
    /// what all workers have of it; `take` has one of the windows take its share by [`OpenWindows::take_share`], and says whether it has. Tables that are no longer
    /// needed are cleared and added to `spare`. Returns up to which end all have been handed on: what is left the next call goes on with.
    ///
    /// # Errors
    /// What `take` returns.
    pub fn share<E>(
        &mut self,
        limits: CloseLimits,
        windows: &[Window],
        spare: &mut Vec<Table>,
        mut take: impl FnMut(usize, SliceId, Share<'_>) -> Result<bool, E>,
    ) -> Result<Micros, E> {
        let mut work = Work::new(limits.groups_max);
        while !work.is_done() {
            if clear_next(&mut self.unneeded, spare, &mut work) || self.sealed.merge_next(&mut self.unneeded, &mut work)
            {
                continue;
            }
            let next = self.leaving.take().or_else(|| self.sealed.pop_until(limits.until).map(LeavingSlice::new));
            let Some(mut leaving) = next else { break };
            leaving.share(windows, spare, &mut work, &mut take)?;
            match leaving.shared < windows.len() {
                true => self.leaving = Some(leaving),
                false => self.unneeded.extend(leaving.table),
            }
        }
        // What counts for the end of a slice that has been handed on may be that of others as well.
        let next = self.next_end().filter(|&end| end <= limits.until);
        self.shared_until = self.shared_until.max(next.map_or(limits.until, |end| end.saturating_sub(1)));
        Ok(self.shared_until)
    }

    /// When the first slice is needed.
    pub fn next_end(&self) -> Option<Micros> {
        self.leaving.as_ref().map(|leaving| leaving.id.first_end).or_else(|| self.sealed.first_end())
    }

    /// Which slices there are.
    pub fn ids(&self) -> impl Iterator<Item = SliceId> {
        self.leaving.iter().map(|leaving| leaving.id).chain(self.sealed.tables().map(|(id, _)| *id))
    }

    /// How many slices there are.
    pub fn slices(&self) -> usize {
        self.sealed.len() + usize::from(self.leaving.is_some())
    }

    /// Bytes of memory held by tables.
    pub fn bytes(&self) -> usize {
        let tables = self.leaving.iter().filter_map(|leaving| leaving.table.as_ref()).chain(&self.unneeded);
        self.sealed.bytes() + tables.map(Table::bytes).sum::<usize>()
    }
}

impl LeavingSlice {
    fn new((id, table): (SliceId, Table)) -> LeavingSlice {
        LeavingSlice { id, table: Some(table), shared: 0, merging: None }
    }

    /// Has windows take their shares until so much has been done.
    fn share<E>(
        &mut self,
        windows: &[Window],
        spare: &mut Vec<Table>,
        work: &mut Work,
        take: &mut impl FnMut(usize, SliceId, Share<'_>) -> Result<bool, E>,
    ) -> Result<(), E> {
        while self.shared < windows.len() && !work.is_done() {
            let LeavingSlice { id, table, shared, merging } = self;
            let is_last = windows[*shared + 1..].iter().all(|window| id.share_of(window).is_none());
            if take(*shared, *id, Share { table, is_last, merging, spare, work })? {
                *shared += 1;
                *merging = None;
            }
        }
        Ok(())
    }
}

impl OpenWindows {
    /// Takes a part of what a shared slice has, where any window still needs it: whether all has been taken.
    ///
    /// # Panics
    /// Where a window that it counts in has closed.
    pub fn take_share(&mut self, id: SliceId, share: Share<'_>) -> bool {
        let Some(id) = id.share_of(&self.window) else { return true };
        assert!(id.first_end > self.closed_until, "a slice is sealed before its windows close");
        let Share { table, is_last, merging, spare, work } = share;
        if is_last && merging.is_none() && !self.sealed.has(id) {
            table.take().into_iter().for_each(|table| self.sealed.add(id, table));
            work.spend(GROUPS_PER_WINDOW);
            return true;
        }
        let own = self.sealed.table(id, || spare.pop().unwrap_or_else(|| Table::new(self.sliced.clone())));
        let table = table.as_mut().expect("nobody else takes it");
        let merging = merging.get_or_insert_with(|| {
            if is_last {
                own.become_larger(table);
            }
            Merging::new(own, table)
        });
        match merging.advance(own, table) {
            Some(merged) => {
                merged.spend(work);
                false
            }
            None => true,
        }
    }
}

impl Snapshot for SharedSlices {
    fn description(&self) -> String {
        format!("slices of {:?}, {}", self.grid, self.layout.description())
    }

    fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        if self.sealed.is_merging() || self.leaving.is_some() {
            return Err(SnapshotError::UnderWay("slices are being handed on"));
        }
        out.instant(self.shared_until);
        out.count(self.sealed.tables_written());
        self.sealed.write_to(out)
    }

    fn read_from(&mut self, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        self.shared_until = input.instant("up to where slices have been handed on")?;
        let slices = ClosedSlices::read(&self.grid, &self.layout, |id| self.takes(id), input)?;
        slices.into_iter().for_each(|(id, table)| self.seal(id, table));
        Ok(())
    }
}
