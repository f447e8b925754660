//! Windows that are reported before their time.

use pelton_data::Micros;
use pelton_data::window::{Covered, ResultKind, Window};

use super::{CloseLimits, ClosedWindow, OpenWindows};
use crate::coalesce::{Coalescer, Leaving};
use crate::slice::SliceId;
use crate::table::{Merging, Table};
use crate::work::{GROUPS_PER_WINDOW, SLICES_PER_GROUP, Work, listing_work};

/// A report of the windows that have not ended, of which a part has been done.
#[derive(Debug)]
pub(super) struct EarlyReport {
    /// Windows that end at or before this have been reported, early or when their time had come.
    reported_until: Micros,
    /// The one that is reported next, where a part of it has been done.
    window: Option<EarlyWindow>,
}

/// A window that is put together and reported.
#[derive(Debug)]
struct EarlyWindow {
    end: Micros,
    /// Its groups; none where it is one slice, which is reported as it is.
    groups: Option<Table>,
    slices_merged: usize,
    /// How far the next slice has been merged.
    merging: Option<Merging>,
    /// Slots whose groups have been reported.
    slots_reported: usize,
}

/// A slice that counts in windows which have not ended.
struct OpenSlice<'a> {
    id: SliceId,
    covered: Covered,
    table: &'a Table,
}

impl OpenWindows {
    /// Whether a report has been done in part.
    pub fn is_reporting(&self) -> bool {
        self.early.is_some()
    }

    /// Reports what the windows that have not ended come to so far. Tables that are no longer needed are cleared and added to `spare`. Returns whether all have been
    /// reported: the next call goes on, and nothing may be closed before.
    ///
    /// # Panics
    /// Where windows are reported once only.
    ///
    /// # Errors
    /// What `hand_on` returns.
    pub fn report_early<E>(
        &mut self,
        limits: CloseLimits,
        spare: &mut Vec<Table>,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let mut work = Work::new(limits.groups_max);
        let mut report = self.early.take().unwrap_or(EarlyReport { reported_until: self.reported_until, window: None });
        let mut is_done = false;
        while !is_done && !work.is_done() {
            is_done = !self.tidy(&mut work, spare)
                && self.report_windows(&mut report, limits.groups_at_once, &mut work, spare, hand_on)?;
        }
        self.coalescer.leave(hand_on)?;
        self.early = (!is_done).then_some(report);
        Ok(is_done)
    }

    /// Reports windows until a table is to be cleared, or does a part of that: whether there are no more.
    fn report_windows<E>(
        &mut self,
        report: &mut EarlyReport,
        groups_at_once: usize,
        work: &mut Work,
        spare: &mut Vec<Table>,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let OpenWindows { window, sealed, coalescer, corrections, unneeded, .. } = self;
        let corrections = corrections.as_ref().expect("windows that are reported early have their slices kept");
        let sealed = sealed.tables().map(|(id, table)| (*id, table));
        let slices = corrections.slices().chain(sealed);
        let slices = slices.map(|(id, table)| OpenSlice { id, covered: corrections.covered(id.start), table });
        let slices: Vec<OpenSlice<'_>> = slices.collect();
        while !work.is_done() {
            let Some(next) = report.next(window, &slices) else { return Ok(true) };
            let bounds = window.start(next.end)..next.end;
            let counts = |slice: &&OpenSlice<'_>| slice.id.first_end <= next.end && bounds.contains(&slice.id.start);
            let counting: Vec<&Table> = slices.iter().filter(counts).map(|slice| slice.table).collect();
            let empty = || spare.pop().unwrap_or_else(|| Table::new(corrections.layout().clone()));
            let window = ClosedWindow { start: bounds.start, end: bounds.end, groups: 0, kind: ResultKind::Early };
            if next.combine(&counting, empty, work)
                && next.read_out(window, &counting, (groups_at_once.max(1), work), coalescer, hand_on)?
            {
                work.spend(GROUPS_PER_WINDOW);
                unneeded.extend(report.end_window());
            }
            work.spend(slices.len() / SLICES_PER_GROUP);
            if !unneeded.is_empty() {
                return Ok(false);
            }
        }
        Ok(false)
    }
}

impl EarlyReport {
    /// The window that is reported next; `None` where there are no more.
    fn next(&mut self, window: &Window, slices: &[OpenSlice<'_>]) -> Option<&mut EarlyWindow> {
        if self.window.is_none() {
            let next_end = |slice: &OpenSlice<'_>| {
                let before = self.reported_until.max(slice.id.first_end.saturating_sub(1));
                let end = window.next_end(before).max(slice.covered.first_end);
                (end <= slice.covered.last_end).then_some(end)
            };
            self.window = slices.iter().filter_map(next_end).min().map(EarlyWindow::new);
        }
        self.window.as_mut()
    }

    /// All of the window has been reported. Returns a table that is no longer needed.
    fn end_window(&mut self) -> Option<Table> {
        let window = self.window.take()?;
        self.reported_until = window.end;
        window.groups
    }

    /// Bytes of memory held by tables.
    pub fn bytes(&self) -> usize {
        let window = self.window.as_ref();
        window.and_then(|window| window.groups.as_ref()).map_or(0, Table::bytes)
    }
}

impl EarlyWindow {
    fn new(end: Micros) -> EarlyWindow {
        EarlyWindow { end, groups: None, slices_merged: 0, merging: None, slots_reported: 0 }
    }

    /// Puts the window together from its slices, or a part of it: whether it has been.
    fn combine(&mut self, slices: &[&Table], empty: impl FnOnce() -> Table, work: &mut Work) -> bool {
        if slices.len() == 1 {
            return true;
        }
        let groups = self.groups.get_or_insert_with(empty);
        while let Some(slice) = slices.get(self.slices_merged).filter(|_| !work.is_done()) {
            match self.merging.get_or_insert_with(|| Merging::new(groups, slice)).advance(groups, slice) {
                Some(merged) => merged.spend(work),
                None => {
                    self.merging = None;
                    self.slices_merged += 1;
                }
            }
        }
        self.slices_merged == slices.len()
    }

    /// Reports some groups of the window, which has been put together: whether these were the last.
    fn read_out<E>(
        &mut self,
        window: ClosedWindow,
        slices: &[&Table],
        (groups_at_once, work): (usize, &mut Work),
        coalescer: &mut Coalescer,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let table = self.groups.as_ref().unwrap_or_else(|| slices[0]);
        let first = self.slots_reported;
        let slots = first..table.slots().min(first + work.slots((groups_at_once / table.work_per_group()).max(1)));
        let mut entries = Vec::new();
        table.push_entries(slots.clone(), &mut entries);
        work.spend(listing_work(slots.len(), 0) + entries.len() * table.work_per_group());
        if !entries.is_empty() {
            coalescer.take_or_hand_on(window, (table, (&entries).into()), groups_at_once, hand_on)?;
        }
        self.slots_reported = slots.end;
        Ok(slots.end == table.slots())
    }
}
