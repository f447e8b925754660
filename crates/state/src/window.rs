//! Windows that are open, and how they close.

mod closed;

mod early;

mod open;

mod run;

mod shared;

mod snapshot;

use std::sync::Arc;

use pelton_data::Micros;
use pelton_data::window::{Combination, Emission, ResultKind, Window};

use crate::closed_slices::{ClosedSlices, clear_next};
use crate::coalesce::{Coalescer, Leaving, SmallWindow, is_small, small_groups_max};
use crate::correction::Corrections;
use crate::gag::Gag;
use crate::layout::EntryLayout;
use crate::slice::SliceId;
use crate::small_slices::SmallSlices;
use crate::table::{Chosen, Table};
use crate::work::{GROUPS_PER_WINDOW, Work};

use self::early::EarlyReport;

pub use self::closed::{CloseLimits, ClosedGroups, ClosedRows, ClosedWindow, Contents};
pub use self::open::Open;
pub use self::shared::{Share, SharedSlices};
pub use self::snapshot::WindowState;

/// The open windows of one aggregation, over the slices that the watermark has passed.
#[derive(Debug)]
pub struct OpenWindows {
    window: Window,
    /// Of the tables of slices.
    sliced: Arc<EntryLayout>,
    /// Slices that no window needed so far that has ended.
    sealed: ClosedSlices,
    /// Small slices, those of one block or of a part of it together.
    pieces: Vec<ClosedSmallSlices>,
    /// The slice that is being added to the graph.
    arriving: Option<(SliceId, Table)>,
    /// Slices that windows which are still open share with windows that have closed.
    gag: Gag,
    /// End of the window that is being closed, or of the one that closed last.
    closed_until: Micros,
    /// What is done next to close it.
    step: Step,
    /// All windows that end at or before this have been closed.
    reported_until: Micros,
    /// Tables that are no longer needed, and have not been cleared.
    unneeded: Vec<Table>,
    /// Groups of small windows that wait for others to leave with them; empty between calls.
    coalescer: Coalescer,
    /// Where rows may come when their windows have been reported.
    corrections: Option<Box<Corrections>>,
    /// Where some windows have been reported that have not ended.
    early: Option<EarlyReport>,
}

/// Small slices of one worker, some of which have been added to the graph.
#[derive(Debug)]
struct ClosedSmallSlices {
    pieces: Arc<SmallSlices>,
    /// The next one.
    slice: usize,
}

impl ClosedSmallSlices {
    /// End of the first window that the next slice counts in.
    fn first_end(&self) -> Option<Micros> {
        self.pieces.slice(self.slice).map(|(id, _)| id.first_end)
    }
}

/// What is done next to close a window, or to correct some: a part of this, and when all of it is done what comes behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It is found which window that is.
    Begin,
    /// Its slices are added to the graph.
    Insert,
    /// The graph puts it together.
    Combine,
    /// Its groups are read out, from this one on.
    ReadOut(usize),
    /// The graph forgets slices that no other window needs.
    Evict,
    /// Windows that have been reported are corrected.
    Correct,
}

impl OpenWindows {
    /// No window is open. Tables will have this layout. Windows are corrected by rows that come up to `emission.lateness` after them.
    ///
    /// # Panics
    /// Where windows that have tables of their own are to be reported more than once.
    pub fn new(window: Window, combination: Combination, layout: &Arc<EntryLayout>, emission: Emission) -> OpenWindows {
        let is_once = emission.is_once();
        assert!(is_once || combination != Combination::Buckets, "windows are reported once more from their slices");
        let corrections = (!is_once).then(|| Box::new(Corrections::new(window, emission.lateness, layout)));
        let gag = Gag::new(combination, layout, matches!(window, Window::Rows { .. }));
        let coalescer = Coalescer::new(gag.layout());
        OpenWindows {
            window,
            sliced: layout.clone(),
            sealed: ClosedSlices::default(),
            pieces: Vec::new(),
            arriving: None,
            gag,
            closed_until: Micros::MIN,
            step: Step::Begin,
            reported_until: Micros::MIN,
            unneeded: Vec::new(),
            coalescer,
            corrections,
            early: None,
        }
    }

    /// Takes one worker's table of a slice which that worker adds no more rows to.
    ///
    /// # Panics
    /// Where a window that the slice counts in has closed.
    pub fn seal(&mut self, id: SliceId, table: Table) {
        assert!(id.first_end > self.closed_until, "a slice is sealed before its windows close");
        if id.corrects {
            let corrections = self.corrections.as_mut().expect("windows that are corrected have what corrects them");
            corrections.seal(id, table);
        } else {
            self.sealed.add(id, table);
        }
    }

    /// Takes what one worker has of small slices, to which it adds no more rows: those of one source in their order.
    ///
    /// # Panics
    /// Where a window that one of the slices counts in has closed, or each window is one slice.
    pub fn close_small_slices(&mut self, pieces: Arc<SmallSlices>) {
        assert!(pieces.ids().all(|id| id.first_end > self.closed_until), "a slice is sealed before its windows close");
        self.gag.combined().add_source(&pieces);
        self.pieces.push(ClosedSmallSlices { pieces, slice: 0 });
    }

    /// Closes windows that have rows and ended, up to which all slices must have been sealed, in the order of their ends, and hands
    /// their groups to `hand_on`; and what rows have corrected whose watermark has passed. The one window of a whole input closes also without rows, as SQL wants. Tables that are no longer needed are cleared and added to `spare`.
    /// Returns up to which end windows have been closed: what is left of those that have ended, be it of one of them, the next call goes on with.
    ///
    /// # Errors
    /// What `hand_on` returns.
    pub fn close<E>(
        &mut self,
        limits: CloseLimits,
        spare: &mut Vec<Table>,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<Micros, E> {
        let limits = CloseLimits { groups_at_once: limits.groups_at_once.max(1), ..limits };
        let mut work = Work::new(limits.groups_max);
        while !work.is_done() && self.advance(limits, &mut work, spare, hand_on)? {}
        self.coalescer.leave(hand_on)?;
        Ok(self.reported_until)
    }

    /// Does a part of what is to be done next: whether there was anything.
    fn advance<E>(
        &mut self,
        limits: CloseLimits,
        work: &mut Work,
        spare: &mut Vec<Table>,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        if self.tidy(work, spare) {
            return Ok(true);
        }
        match self.step {
            Step::Begin => return self.begin(limits, work, hand_on),
            Step::Insert => self.insert(work),
            Step::Combine => self.combine(limits, work, hand_on)?,
            Step::ReadOut(first) => self.read_out(first, limits.groups_at_once, work, hand_on)?,
            Step::Evict => self.evict(work),
            Step::Correct => self.correct(limits.groups_at_once, work, hand_on)?,
        }
        Ok(true)
    }

    /// Does a part of what comes before all else: clears what is no longer needed, and merges what there is several times of a slice. Whether there was any.
    fn tidy(&mut self, work: &mut Work, spare: &mut Vec<Table>) -> bool {
        clear_next(&mut self.unneeded, spare, work)
            || self.sealed.merge_next(&mut self.unneeded, work)
            || self.corrections.as_mut().is_some_and(|corrections| corrections.merge_next(&mut self.unneeded, work))
    }

    /// Begins to close the next window whose time has come, or corrects some: whether there was any.
    fn begin<E>(
        &mut self,
        limits: CloseLimits,
        work: &mut Work,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let end = self.next_end().filter(|&end| end <= limits.until);
        let due = self.corrections.as_ref().and_then(|corrections| corrections.next_due());
        // Rows that correct a window came when its time had come.
        match (end, due.filter(|&due| due <= limits.until)) {
            (Some(end), due) if due.is_none_or(|due| end < due) => {
                if !self.close_run(end, limits, work, hand_on)? {
                    self.closed_until = end;
                    self.step = Step::Insert;
                }
            }
            (_, Some(due)) => {
                self.corrections.as_mut().expect("something is due").begin(due);
                self.closed_until = self.closed_until.max(due - 1);
                self.step = Step::Correct;
            }
            _ => {
                if let Some(corrections) = &mut self.corrections {
                    corrections.forget(limits.until, &mut self.unneeded);
                }
                self.reported_until = limits.until;
                return Ok(!self.unneeded.is_empty());
            }
        }
        Ok(true)
    }

    /// Adds some groups of the next slice to the graph that the window needs which is being closed.
    fn insert(&mut self, work: &mut Work) {
        let end = self.closed_until;
        let Some((id, table)) = self.arriving.take().or_else(|| self.sealed.pop_until(end)) else {
            while !work.is_done() {
                if !self.insert_small_slice(work) {
                    self.step = Step::Combine;
                    return;
                }
            }
            return;
        };
        let last_end = match &self.gag {
            Gag::Single(_) => id.first_end,
            Gag::Combined(_) => self.last_end(id),
        };
        let mut table = Some(table);
        if !self.gag.insert(&mut table, last_end, work) {
            self.arriving = table.map(|table| (id, table));
        } else if let Some(table) = table {
            self.discard(id.start, table);
        }
    }

    /// Adds the next small slice to the graph that the window needs which is being closed: whether there was one.
    fn insert_small_slice(&mut self, work: &mut Work) -> bool {
        let end = self.closed_until;
        let needed = |sealed: &ClosedSmallSlices| sealed.first_end().is_some_and(|first_end| first_end <= end);
        let Some(at) = self.pieces.iter().position(needed) else { return false };
        let sealed = &self.pieces[at];
        let (id, groups) = sealed.pieces.slice(sealed.slice).expect("a slice is needed");
        let last_end = self.last_end(id);
        self.gag.combined().insert_small_slice(&sealed.pieces, groups, last_end, work);
        self.pieces[at].slice += 1;
        if self.pieces[at].first_end().is_none() {
            self.pieces.remove(at);
        }
        true
    }

    /// The end of the last window that a slice counts in.
    fn last_end(&self, id: SliceId) -> Micros {
        self.window.slice(id.start).covered.expect("a slice with rows belongs to a window").last_end
    }

    /// Puts the window together that is being closed, or a part of it. Where it is small and the sum of two lists, it leaves as these or their sum.
    fn combine<E>(
        &mut self,
        limits: CloseLimits,
        work: &mut Work,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (window, groups_at_once) = (self.closing(), limits.groups_at_once);
        if let Some(graph) = self.gag.halved(small_groups_max(groups_at_once)) {
            let groups = graph.groups();
            if groups >= limits.parts_min {
                work.spend(groups);
                self.step = Step::Evict;
                return self.coalescer.take_parts(window, graph, groups_at_once, hand_on);
            }
            if let Some(halves) = graph.halves() {
                work.spend(groups);
                self.step = Step::Evict;
                return self.coalescer.take(window, SmallWindow::Halves(halves), groups_at_once, hand_on);
            }
        }
        // Groups may get other numbers.
        self.coalescer.leave_in_parts(hand_on)?;
        if self.gag.combine(work) {
            self.step = Step::ReadOut(0);
        }
        Ok(())
    }

    /// The window that is being closed.
    fn closing(&self) -> ClosedWindow {
        let end = self.closed_until;
        ClosedWindow { start: self.window.start(end), end, groups: 0, kind: ResultKind::Final }
    }

    /// Reads out some groups of the window that is being closed.
    fn read_out<E>(
        &mut self,
        first: usize,
        groups_at_once: usize,
        work: &mut Work,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let window = self.closing();
        let (mut next, version) = (first, self.gag.keys_version());
        match self.gag.window().filter(|(_, entries)| !entries.is_empty()) {
            Some((table, entries)) if first > 0 || !is_small(table, entries, groups_at_once) => {
                self.coalescer.leave(hand_on)?;
                while next < entries.len() && (next == first || !work.is_done()) {
                    let entries = entries.part(work.part(table.work_per_group(), next..entries.len(), groups_at_once));
                    let window = ClosedWindow { groups: entries.len(), ..window };
                    let groups = ClosedGroups { table, entries, windows: &[window] };
                    hand_on(Leaving::Now(Contents::Groups(groups)))?;
                    next += entries.len();
                }
                if next < entries.len() {
                    self.step = Step::ReadOut(next);
                    return Ok(());
                }
            }
            Some((table, entries)) => {
                work.spend(entries.len());
                let small = SmallWindow::Entries(table, entries, version);
                self.coalescer.take(window, small, groups_at_once, hand_on)?;
            }
            None if self.window == Window::Global => self.coalescer.take_empty(window),
            None => {}
        }
        self.step = Step::Evict;
        Ok(())
    }

    /// Forgets what no window needs any more than the one that is being closed.
    fn evict(&mut self, work: &mut Work) {
        let mut unneeded = Vec::new();
        if self.gag.evict(self.closed_until, &mut unneeded, work) {
            work.spend(GROUPS_PER_WINDOW);
            self.step = Step::Begin;
            self.reported_until = self.closed_until;
        }
        let start = self.window.start(self.closed_until);
        unneeded.into_iter().for_each(|table| self.discard(start, table));
    }

    /// Puts a slice away that no window needs which has not been reported.
    fn discard(&mut self, start: Micros, table: Table) {
        match &mut self.corrections {
            Some(corrections) => corrections.keep(start, table),
            None => self.unneeded.push(table),
        }
    }

    /// Reports the windows once more that rows have corrected whose turn it is, or a part of them. Then the rows are added to the graph that count in windows as well
    /// which are open.
    fn correct<E>(
        &mut self,
        groups_at_once: usize,
        work: &mut Work,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let OpenWindows { corrections, coalescer, .. } = self;
        let corrections = corrections.as_mut().expect("windows are being corrected");
        let mut report = |window, table: &Table, entries: Chosen<'_>| {
            coalescer.take_or_hand_on(window, (table, entries), groups_at_once, hand_on)
        };
        if !corrections.advance(groups_at_once, work, &mut report)? {
            return Ok(());
        }
        let watermark = self.closed_until;
        let Some((start, table)) = corrections.take_corrected() else {
            self.step = Step::Begin;
            self.reported_until = watermark;
            return Ok(());
        };
        let last_end = corrections.covered(start).last_end;
        let mut left = Some(table);
        if last_end > watermark && !self.gag.insert(&mut left, last_end, work) {
            left.into_iter().for_each(|table| corrections.put_back(start, table));
        } else {
            self.unneeded.extend(left);
        }
        Ok(())
    }

    /// End of the next window that has rows.
    fn next_end(&self) -> Option<Micros> {
        if !matches!(self.step, Step::Begin | Step::Correct) {
            Some(self.closed_until)
        } else if !self.gag.is_empty() {
            Some(self.window.next_end(self.closed_until))
        } else if self.window == Window::Global {
            Some(Micros::MAX).filter(|_| self.closed_until < Micros::MAX)
        } else {
            self.sealed.first_end().into_iter().chain(self.pieces.iter().filter_map(ClosedSmallSlices::first_end)).min()
        }
    }

    /// Slices that no window needed so far.
    pub fn sealed_slices(&self) -> usize {
        self.sealed.len() + self.pieces.iter().map(|sealed| sealed.pieces.ids().len() - sealed.slice).sum::<usize>()
    }

    /// Bytes of memory held by tables. Small slices are their worker's.
    pub fn bytes(&self) -> usize {
        let arriving = self.arriving.iter().map(|(_, table)| table);
        let tables: usize = self.sealed.bytes() + arriving.chain(&self.unneeded).map(Table::bytes).sum::<usize>();
        let corrections = self.corrections.as_ref().map_or(0, |corrections| corrections.bytes());
        let early = self.early.as_ref().map_or(0, EarlyReport::bytes);
        tables + self.gag.bytes() + self.coalescer.bytes() + corrections + early
    }
}
