//! Windows that are open, and how they close.

use std::collections::VecDeque;
use std::sync::Arc;

use pelton_data::Micros;
use pelton_data::window::{Combination, Emission, ResultKind, SessionSlots, Window};

use crate::correction::Corrections;
use crate::gag::Gag;
use crate::kernel::KernelError;
use crate::layout::EntryLayout;
use crate::ranking::{Candidates, ClosedRows, RankedWindows, Ranker};
use crate::session::{LateSessions, OpenSessions};
use crate::slice::SliceId;
use crate::table::{Chosen, Table};

/// A window that has more groups than this part of those read out at a time is read out by itself.
const LARGE_WINDOWS_PER_READ_OUT: usize = 4;

/// What is open of one aggregation.
#[derive(Debug)]
pub enum Open {
    /// Windows that are made of slices.
    Windows(Box<OpenWindows>),
    /// Sessions, which are made of what slices have of each key.
    Sessions(Box<OpenSessions>),
    /// Windows of which the first rows are kept.
    Ranked(Box<RankedWindows>),
}

/// What windows that have ended hold.
#[derive(Debug, Clone, Copy)]
pub enum Contents<'a> {
    /// Groups.
    Groups(ClosedGroups<'a>),
    /// The first rows of one window.
    Rows(ClosedRows<'a>),
}

/// The open windows of one aggregation, over the slices that the watermark has passed.
#[derive(Debug)]
pub struct OpenWindows {
    window: Window,
    /// Slices, over all workers, that no window needed so far, ascending.
    sealed: VecDeque<(SliceId, Table)>,
    /// Slices that windows which are still open share with windows that have closed.
    gag: Gag,
    /// End of the window that closed last.
    closed_until: Micros,
    /// Groups of small windows that wait for others to leave with them; empty between calls.
    waiting: Waiting,
    /// Where rows may come when their windows have been reported.
    corrections: Option<Box<Corrections>>,
}

/// A window that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosedWindow {
    /// First instant.
    pub start: Micros,
    /// First instant after it.
    pub end: Micros,
    /// Groups of it, which follow those of the window before.
    pub groups: usize,
    /// What the groups are.
    pub kind: ResultKind,
}

/// Groups of windows that have ended, in the order of the windows' ends.
#[derive(Debug, Clone, Copy)]
pub struct ClosedGroups<'a> {
    /// Holds the groups.
    pub table: &'a Table,
    /// Which of its entries they are. There is none only for the one window of a whole input.
    pub entries: Chosen<'a>,
    /// Which windows' groups these are.
    pub windows: &'a [ClosedWindow],
}

/// Limits of one call of [`OpenWindows::close`].
#[derive(Debug, Clone, Copy)]
pub struct CloseLimits {
    /// Windows that end after this stay open.
    pub until: Micros,
    /// Groups read out at a time.
    pub groups_at_once: usize,
    /// Once so many groups have been read out, windows that have ended wait for the next call.
    pub groups_max: usize,
}

/// Copies of groups of windows, in their order.
#[derive(Debug)]
struct Waiting {
    groups: Table,
    windows: Vec<ClosedWindow>,
}

impl Open {
    /// Nothing is open. Tables will have this layout; those of sessions have `session_slots` in it. Windows other than sessions are corrected by
    /// rows that come up to `emission.lateness` after them.
    ///
    /// # Panics
    /// Where the windows are sessions, and there are no slots for them.
    pub fn groups(
        window: Window,
        combination: Combination,
        layout: &Arc<EntryLayout>,
        session_slots: Option<SessionSlots>,
        emission: Emission,
    ) -> Open {
        match window {
            Window::Session { gap } => {
                let slots = session_slots.expect("groups of sessions have the times of their rows");
                Open::Sessions(Box::new(OpenSessions::new(gap, slots, layout)))
            }
            _ => Open::Windows(Box::new(OpenWindows::new(window, combination, layout, emission))),
        }
    }

    /// Nothing is open. The rows that `ranker` chooses will be kept.
    pub fn ranked(window: Window, ranker: Arc<Ranker>) -> Open {
        Open::Ranked(Box::new(RankedWindows::new(window, ranker)))
    }

    /// See [`OpenWindows::seal`] and [`OpenSessions::seal`].
    ///
    /// # Panics
    /// Where rows are kept, which are in no tables.
    pub fn seal(&mut self, id: SliceId, table: Table) -> Option<Table> {
        match self {
            Open::Windows(windows) => windows.seal(id, table),
            Open::Sessions(sessions) => sessions.seal(id, table),
            Open::Ranked(_) => unreachable!("rows are in no tables"),
        }
    }

    /// See [`RankedWindows::add`].
    ///
    /// # Panics
    /// Where groups are kept.
    pub fn add_rows(&mut self, id: SliceId, candidates: &Candidates) {
        match self {
            Open::Ranked(ranked) => ranked.add(id, candidates),
            Open::Windows(_) | Open::Sessions(_) => unreachable!("groups are in tables"),
        }
    }

    /// See [`OpenWindows::close`], [`OpenSessions::close`] and [`RankedWindows::close`].
    ///
    /// # Errors
    /// What `read_out` returns, or where rows cannot be decoded.
    pub fn close<E: From<KernelError>>(
        &mut self,
        limits: CloseLimits,
        spare: &mut Vec<Table>,
        read_out: &mut impl FnMut(Contents<'_>) -> Result<(), E>,
    ) -> Result<Micros, E> {
        match self {
            Open::Windows(windows) => {
                windows.close(limits, spare, &mut |groups: ClosedGroups<'_>| read_out(Contents::Groups(groups)))
            }
            Open::Sessions(sessions) => {
                sessions.close(limits, spare, &mut |groups: ClosedGroups<'_>| read_out(Contents::Groups(groups)))
            }
            Open::Ranked(ranked) => ranked.close(limits, &mut |rows: ClosedRows<'_>| read_out(Contents::Rows(rows))),
        }
    }

    /// See [`OpenWindows::report_early`].
    ///
    /// # Panics
    /// Where the windows are sessions, or rows are kept.
    ///
    /// # Errors
    /// What `read_out` returns.
    pub fn report_early<E>(
        &mut self,
        unsealed: &[(SliceId, Table)],
        groups_at_once: usize,
        read_out: &mut impl FnMut(ClosedGroups<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Open::Windows(windows) => windows.report_early(unsealed, groups_at_once, read_out),
            Open::Sessions(_) | Open::Ranked(_) => panic!("only groups of windows are reported early"),
        }
    }

    /// See [`OpenSessions::take_late`]. Whether a row is too late for other windows is known before it is in a slice.
    pub fn take_late(&mut self) -> Option<LateSessions> {
        match self {
            Open::Windows(_) | Open::Ranked(_) => None,
            Open::Sessions(sessions) => sessions.take_late(),
        }
    }

    /// The end of the first window that is open and has rows in sealed slices; of sessions, the earliest that one can have.
    pub fn next_end(&self) -> Option<Micros> {
        match self {
            Open::Windows(windows) => windows.next_end(),
            Open::Sessions(sessions) => sessions.next_end(),
            Open::Ranked(ranked) => ranked.next_end(),
        }
    }

    /// Slices that nothing was reported of.
    pub fn sealed_slices(&self) -> usize {
        match self {
            Open::Windows(windows) => windows.sealed_slices(),
            Open::Sessions(sessions) => sessions.slices(),
            Open::Ranked(ranked) => ranked.slices(),
        }
    }

    /// Bytes of memory held by tables.
    pub fn bytes(&self) -> usize {
        match self {
            Open::Windows(windows) => windows.bytes(),
            Open::Sessions(sessions) => sessions.bytes(),
            Open::Ranked(ranked) => ranked.bytes(),
        }
    }
}

impl OpenWindows {
    /// No window is open. Tables will have this layout. Windows are corrected by rows that come up to `emission.lateness` after them.
    ///
    /// # Panics
    /// Where windows that have tables of their own are to be reported more than once.
    pub fn new(window: Window, combination: Combination, layout: &Arc<EntryLayout>, emission: Emission) -> OpenWindows {
        let is_once = emission == Emission::default();
        assert!(is_once || combination != Combination::Buckets, "windows are reported once more from their slices");
        let corrections = (!is_once).then(|| Box::new(Corrections::new(window, emission.lateness, layout)));
        let gag = Gag::new(combination, layout);
        let waiting = Waiting { groups: Table::list(gag.layout().clone()), windows: Vec::new() };
        OpenWindows { window, sealed: VecDeque::new(), gag, closed_until: Micros::MIN, waiting, corrections }
    }

    /// Takes one worker's table of a slice which that worker adds no more rows to. Returns a table that is no longer needed, where
    /// there is one.
    ///
    /// # Panics
    /// Where a window that the slice counts in has closed.
    pub fn seal(&mut self, id: SliceId, table: Table) -> Option<Table> {
        assert!(id.first_end > self.closed_until, "a slice is sealed before its windows close");
        if id.corrects {
            let corrections = self.corrections.as_mut().expect("windows that are corrected have what corrects them");
            return corrections.seal(id, table);
        }
        if self.sealed.back().is_none_or(|last| last.0 < id) {
            self.sealed.push_back((id, table));
            return None;
        }
        match self.sealed.binary_search_by_key(&id, |slice| slice.0) {
            Ok(index) => Some(self.sealed[index].1.merge(table)),
            Err(index) => {
                self.sealed.insert(index, (id, table));
                None
            }
        }
    }

    /// Closes windows that have rows and ended, up to which all slices must have been sealed, in the order of their ends, and hands
    /// their groups to `read_out`; and what rows have corrected whose watermark has passed. The one window of a whole input closes also without rows, as SQL wants. Tables that are no longer needed are added to `spare`.
    /// Returns up to which end windows have been closed.
    ///
    /// # Errors
    /// What `read_out` returns.
    pub fn close<E>(
        &mut self,
        limits: CloseLimits,
        spare: &mut Vec<Table>,
        read_out: &mut impl FnMut(ClosedGroups<'_>) -> Result<(), E>,
    ) -> Result<Micros, E> {
        let groups_at_once = limits.groups_at_once.max(1);
        let mut groups = 0;
        loop {
            let end = self.next_end().filter(|&end| end <= limits.until);
            let due = self.corrections.as_ref().and_then(|corrections| corrections.next_due());
            // Rows that correct a window came when its time had come.
            let until = match (end, due.filter(|&due| due <= limits.until)) {
                (Some(end), due) if due.is_none_or(|due| end < due) => {
                    groups += self.close_next(end, groups_at_once, spare, read_out)?;
                    end
                }
                (_, Some(due)) => {
                    groups += self.correct(due, groups_at_once, spare, read_out)?;
                    due - 1
                }
                _ => break,
            };
            if groups >= limits.groups_max {
                self.waiting.leave(read_out)?;
                return Ok(until);
            }
        }
        if let Some(corrections) = &mut self.corrections {
            corrections.forget(limits.until, spare);
        }
        self.waiting.leave(read_out)?;
        Ok(limits.until)
    }

    /// Closes the window that ends at `end`. Returns how many groups it has.
    fn close_next<E>(
        &mut self,
        end: Micros,
        groups_at_once: usize,
        spare: &mut Vec<Table>,
        read_out: &mut impl FnMut(ClosedGroups<'_>) -> Result<(), E>,
    ) -> Result<usize, E> {
        self.advance(end, spare);
        let window = ClosedWindow { start: self.window.start(end), end, groups: 0, kind: ResultKind::Final };
        let mut groups = 0;
        match self.gag.window().filter(|(_, entries)| !entries.is_empty()) {
            Some((table, entries)) => {
                groups = entries.len();
                self.waiting.take(window, (table, entries), groups_at_once, read_out)?;
            }
            None if self.window == Window::Global => self.waiting.windows.push(window),
            None => {}
        }
        if let Some(table) = self.gag.evict(end) {
            spare.extend(match &mut self.corrections {
                Some(corrections) => corrections.keep(window.start, table),
                None => Some(table),
            });
        }
        Ok(groups)
    }

    /// Reports the windows once more that rows have corrected whose turn it is. Returns how many groups they have.
    fn correct<E>(
        &mut self,
        due: Micros,
        groups_at_once: usize,
        spare: &mut Vec<Table>,
        read_out: &mut impl FnMut(ClosedGroups<'_>) -> Result<(), E>,
    ) -> Result<usize, E> {
        let watermark = due - 1;
        let corrections = self.corrections.as_mut().expect("something is due");
        let (pieces, windows) = corrections.correct(due);
        self.closed_until = self.closed_until.max(watermark);
        for piece in pieces {
            // The rows count in windows as well that are open.
            let unneeded = if piece.last_end > watermark {
                self.gag.insert(piece.table, piece.last_end)
            } else {
                Some(piece.table)
            };
            spare.extend(unneeded);
        }
        let mut groups = 0;
        for (bounds, table) in windows {
            let entries = table.entry_offsets();
            groups += entries.len();
            let window = ClosedWindow { start: bounds.start, end: bounds.end, groups: 0, kind: ResultKind::Correction };
            self.waiting.take(window, (&table, (&entries).into()), groups_at_once, read_out)?;
        }
        Ok(groups)
    }

    /// Reports what the windows that have not ended come to so far, with the slices that have not been sealed.
    ///
    /// # Panics
    /// Where windows are reported once only.
    ///
    /// # Errors
    /// What `read_out` returns.
    pub fn report_early<E>(
        &mut self,
        unsealed: &[(SliceId, Table)],
        groups_at_once: usize,
        read_out: &mut impl FnMut(ClosedGroups<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let others: Vec<(SliceId, &Table)> =
            self.sealed.iter().chain(unsealed).map(|(id, table)| (*id, table)).collect();
        let corrections = self.corrections.as_mut().expect("windows that are reported early have their slices kept");
        for (bounds, table) in corrections.early(self.closed_until, &others) {
            let entries = table.entry_offsets();
            let window = ClosedWindow { start: bounds.start, end: bounds.end, groups: 0, kind: ResultKind::Early };
            self.waiting.take(window, (&table, (&entries).into()), groups_at_once, read_out)?;
        }
        self.waiting.leave(read_out)
    }

    /// End of the next window that has rows.
    fn next_end(&self) -> Option<Micros> {
        if !self.gag.is_empty() {
            Some(self.window.next_end(self.closed_until))
        } else if self.window == Window::Global {
            Some(Micros::MAX).filter(|_| self.closed_until < Micros::MAX)
        } else {
            self.sealed.front().map(|(id, _)| id.first_end)
        }
    }

    /// Adds the slices to the graph that the window needs which ends at `end`.
    fn advance(&mut self, end: Micros, spare: &mut Vec<Table>) {
        while self.sealed.front().is_some_and(|(id, _)| id.first_end <= end) {
            let (id, table) = self.sealed.pop_front().expect("there is a first slice");
            let last_end = match &self.gag {
                Gag::Single(_) => id.first_end,
                Gag::Combined(_) => {
                    self.window.slice(id.start).covered.expect("a slice with rows belongs to a window").last_end
                }
            };
            if let Some(table) = self.gag.insert(table, last_end) {
                spare.extend(match &mut self.corrections {
                    Some(corrections) => corrections.keep(id.start, table),
                    None => Some(table),
                });
            }
        }
        self.closed_until = end;
    }

    /// Slices that no window needed so far.
    pub fn sealed_slices(&self) -> usize {
        self.sealed.len()
    }

    /// Bytes of memory held by tables.
    pub fn bytes(&self) -> usize {
        let sealed: usize = self.sealed.iter().map(|(_, table)| table.bytes()).sum();
        let corrections = self.corrections.as_ref().map_or(0, |corrections| corrections.bytes());
        sealed + self.gag.bytes() + self.waiting.groups.bytes() + corrections
    }
}

impl Waiting {
    /// Takes a window's groups, or hands them on where they are many.
    fn take<E>(
        &mut self,
        window: ClosedWindow,
        (table, entries): (&Table, Chosen<'_>),
        groups_at_once: usize,
        read_out: &mut impl FnMut(ClosedGroups<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.groups.groups() + entries.len() > groups_at_once {
            self.leave(read_out)?;
        }
        let window = ClosedWindow { groups: entries.len(), ..window };
        // A copy costs less than a batch of its own, unless the batch is large.
        if entries.len() > groups_at_once / LARGE_WINDOWS_PER_READ_OUT {
            self.leave(read_out)?;
            return entries.chunks(groups_at_once).try_for_each(|entries| {
                let window = ClosedWindow { groups: entries.len(), ..window };
                read_out(ClosedGroups { table, entries, windows: &[window] })
            });
        }
        self.groups.append(table, entries);
        self.windows.push(window);
        Ok(())
    }

    /// Hands on what waits.
    fn leave<E>(&mut self, read_out: &mut impl FnMut(ClosedGroups<'_>) -> Result<(), E>) -> Result<(), E> {
        if self.windows.is_empty() {
            return Ok(());
        }
        let entries = Chosen::first(self.groups.groups());
        let result = read_out(ClosedGroups { table: &self.groups, entries, windows: &self.windows });
        self.groups.clear();
        self.windows.clear();
        result
    }
}
