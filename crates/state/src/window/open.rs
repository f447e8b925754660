//! What is open of an aggregation, of whichever kind its windows are.

use std::sync::Arc;

use pelton_data::Micros;
use pelton_data::window::{Combination, Emission, SessionSlots, Window};

use super::{CloseLimits, OpenWindows, SharedSlices};
use crate::coalesce::Leaving;
use crate::count::{CompleteWindows, OpenCounts, RowCounter};
use crate::kernel::KernelError;
use crate::layout::EntryLayout;
use crate::ranking::{Candidates, RankedWindows, Ranker};
use crate::session::{LateSessions, OpenSessions};
use crate::slice::SliceId;
use crate::small_slices::{SmallSliceWriter, SmallSlices};
use crate::snapshot::{Reader, Snapshot, SnapshotError, Writer};
use crate::table::Table;

/// What is open of one aggregation.
#[derive(Debug)]
pub enum Open {
    /// Windows that are made of slices.
    Windows(Box<OpenWindows>),
    /// Sessions, which are made of what slices have of each key.
    Sessions(Box<OpenSessions>),
    /// Windows of so many rows of each key.
    Counts(Box<OpenCounts>),
    /// Windows of which the first rows are kept.
    Ranked(Box<RankedWindows>),
    /// Slices that other windows are put together from.
    Shared(Box<SharedSlices>),
}

impl Open {
    /// Nothing is open. Tables will have this layout; those of sessions have `session_slots` in it. Windows are corrected by rows that come up
    /// to `emission.lateness` after them.
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
                Open::Sessions(Box::new(OpenSessions::new((gap, emission.lateness), slots, layout)))
            }
            Window::RowsByKey { .. } => Open::Counts(Box::new(OpenCounts::new(layout))),
            _ => Open::Windows(Box::new(OpenWindows::new(window, combination, layout, emission))),
        }
    }

    /// Nothing is open. The rows that `ranker` chooses will be kept. Windows are corrected by rows that come up to `emission.lateness` after them.
    pub fn ranked(window: Window, ranker: Arc<Ranker>, emission: Emission) -> Open {
        Open::Ranked(Box::new(RankedWindows::new(window, ranker, emission.lateness)))
    }

    /// Whether windows can be put together from pieces of slices, which are combined without a look at their keys.
    pub fn takes_small_slices(combination: Combination, layout: &EntryLayout, emission: Emission) -> bool {
        let has_numbers = match combination {
            Combination::Recompute | Combination::SubtractOnEvict | Combination::TwoStacks | Combination::Prefix => {
                true
            }
            Combination::Single | Combination::Buckets | Combination::Merge => false,
        };
        has_numbers && emission.is_once() && SmallSliceWriter::takes(layout)
    }

    /// See [`OpenWindows::close_small_slices`].
    ///
    /// # Panics
    /// Where [`Open::takes_small_slices`] says no.
    pub fn close_small_slices(&mut self, pieces: Arc<SmallSlices>) {
        let Open::Windows(windows) = self else { panic!("only groups of windows are in pieces") };
        windows.close_small_slices(pieces);
    }

    /// See [`OpenCounts::seal`] and [`OpenCounts::end`].
    ///
    /// # Panics
    /// Where windows do not count rows by key.
    pub fn seal_counts(&mut self, complete: Vec<CompleteWindows>, ended: Option<Box<RowCounter>>) {
        if complete.is_empty() && ended.is_none() {
            return;
        }
        let Open::Counts(counts) = self else { panic!("only windows that count rows by key are complete") };
        complete.into_iter().for_each(|windows| counts.seal(windows));
        ended.into_iter().for_each(|counter| counts.end(counter));
    }

    /// See [`OpenWindows::seal`] and [`OpenSessions::seal`].
    ///
    /// # Panics
    /// Where rows are kept or counted by key, which are in no tables of slices.
    pub fn seal(&mut self, id: SliceId, table: Table) {
        match self {
            Open::Windows(windows) => windows.seal(id, table),
            Open::Sessions(sessions) => sessions.seal(id, table),
            Open::Shared(slices) => slices.seal(id, table),
            Open::Counts(_) | Open::Ranked(_) => unreachable!("rows are in no tables of slices"),
        }
    }

    /// See [`RankedWindows::add`].
    ///
    /// # Panics
    /// Where groups are kept.
    pub fn add_rows(&mut self, id: SliceId, candidates: Candidates) {
        match self {
            Open::Ranked(ranked) => ranked.add(id, candidates),
            Open::Windows(_) | Open::Sessions(_) | Open::Counts(_) | Open::Shared(_) => {
                unreachable!("groups are in tables")
            }
        }
    }

    /// See [`OpenWindows::close`], [`OpenSessions::close`], [`OpenCounts::close`] and [`RankedWindows::close`].
    ///
    /// # Panics
    /// Where it is slices that are shared.
    ///
    /// # Errors
    /// What `hand_on` returns, or where rows cannot be decoded.
    pub fn close<E: From<KernelError>>(
        &mut self,
        limits: CloseLimits,
        spare: &mut Vec<Table>,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<Micros, E> {
        match self {
            Open::Windows(windows) => windows.close(limits, spare, hand_on),
            Open::Sessions(sessions) => sessions.close(limits, spare, hand_on),
            Open::Counts(counts) => counts.close(limits, spare, hand_on),
            Open::Ranked(ranked) => ranked.close(limits, hand_on),
            Open::Shared(_) => panic!("slices are shared, and no windows"),
        }
    }

    /// Whether a report has been done in part: nothing may be sealed, closed or written down before the rest has.
    pub fn is_reporting(&self) -> bool {
        match self {
            Open::Windows(windows) => windows.is_reporting(),
            Open::Sessions(sessions) => sessions.is_reporting(),
            Open::Ranked(ranked) => ranked.is_reporting(),
            Open::Counts(_) | Open::Shared(_) => false,
        }
    }

    /// See [`OpenWindows::report_early`], [`OpenSessions::report_early`] and [`RankedWindows::report_early`].
    ///
    /// # Panics
    /// Where the windows are a key's, or it is slices that are shared.
    ///
    /// # Errors
    /// What `hand_on` returns, or where rows cannot be decoded.
    pub fn report_early<E: From<KernelError>>(
        &mut self,
        limits: CloseLimits,
        spare: &mut Vec<Table>,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        match self {
            Open::Windows(windows) => windows.report_early(limits, spare, hand_on),
            Open::Sessions(sessions) => sessions.report_early(limits, spare, hand_on),
            Open::Ranked(ranked) => ranked.report_early(limits, hand_on),
            Open::Counts(_) => panic!("windows that count rows are reported once they are complete"),
            Open::Shared(_) => panic!("slices are shared, and no windows"),
        }
    }

    /// See [`OpenSessions::take_late`]. Whether a row is too late for other windows is known before it is in a slice.
    pub fn take_late(&mut self) -> Option<LateSessions> {
        match self {
            Open::Windows(_) | Open::Counts(_) | Open::Ranked(_) | Open::Shared(_) => None,
            Open::Sessions(sessions) => sessions.take_late(),
        }
    }

    /// When windows are corrected by rows that have been sealed. Those of sessions are found when these are merged.
    pub fn dues(&self) -> Vec<Micros> {
        match self {
            Open::Windows(windows) => windows.dues(),
            Open::Ranked(ranked) => ranked.dues(),
            Open::Sessions(_) | Open::Counts(_) | Open::Shared(_) => Vec::new(),
        }
    }

    /// The watermark that rows are behind where they come when windows have closed as these have.
    pub fn reached(&self) -> Micros {
        match self {
            Open::Windows(windows) => windows.closed_until(),
            Open::Ranked(ranked) => ranked.closed_until(),
            // A session that ends there may still get rows.
            Open::Sessions(sessions) if sessions.closed_until() > Micros::MIN => {
                sessions.closed_until().saturating_add(1)
            }
            Open::Sessions(_) | Open::Counts(_) | Open::Shared(_) => Micros::MIN,
        }
    }

    /// Reads the id of a slice that can be sealed.
    pub(super) fn read_id(&self, input: &mut Reader<'_>) -> Result<SliceId, SnapshotError> {
        match self {
            Open::Windows(windows) => {
                let id = SliceId::read_from(windows.window(), input)?;
                input.check(windows.takes(id), "a slice of windows that have not closed")?;
                Ok(id)
            }
            Open::Sessions(sessions) => sessions.read_id(input),
            Open::Shared(slices) => {
                let id = SliceId::read_from(slices.grid(), input)?;
                input.check(slices.takes(id), "a slice that has not been handed on")?;
                Ok(id)
            }
            Open::Counts(_) | Open::Ranked(_) => {
                Err(SnapshotError::NoForm("rows are in no tables of slices".to_string()))
            }
        }
    }

    /// Makes sure that a table that was read can be sealed as that slice.
    pub(super) fn check_slice(&self, id: SliceId, table: &Table, input: &Reader<'_>) -> Result<(), SnapshotError> {
        match self {
            Open::Sessions(sessions) => sessions.check_slice(id, table, input),
            Open::Windows(windows) => windows.check_rows(table, input),
            Open::Counts(_) | Open::Ranked(_) | Open::Shared(_) => Ok(()),
        }
    }

    /// The end of the first window that is open and has rows in sealed slices; of sessions, the earliest that one can have. Those of each key's
    /// rows have no end in common.
    pub fn next_end(&self) -> Option<Micros> {
        match self {
            Open::Windows(windows) => windows.next_end(),
            Open::Sessions(sessions) => sessions.next_end(),
            Open::Counts(_) => None,
            Open::Ranked(ranked) => ranked.next_end(),
            Open::Shared(slices) => slices.next_end(),
        }
    }

    /// Slices that nothing was reported of.
    pub fn sealed_slices(&self) -> usize {
        match self {
            Open::Windows(windows) => windows.sealed_slices(),
            Open::Sessions(sessions) => sessions.slices(),
            Open::Counts(counts) => counts.slices(),
            Open::Ranked(ranked) => ranked.slices(),
            Open::Shared(slices) => slices.slices(),
        }
    }

    /// Bytes of memory held by tables.
    pub fn bytes(&self) -> usize {
        match self {
            Open::Windows(windows) => windows.bytes(),
            Open::Sessions(sessions) => sessions.bytes(),
            Open::Counts(counts) => counts.bytes(),
            Open::Ranked(ranked) => ranked.bytes(),
            Open::Shared(slices) => slices.bytes(),
        }
    }
}

impl Snapshot for Open {
    fn description(&self) -> String {
        match self {
            Open::Windows(windows) => windows.description(),
            Open::Sessions(sessions) => sessions.description(),
            Open::Counts(counts) => counts.description(),
            Open::Ranked(ranked) => ranked.description(),
            Open::Shared(slices) => slices.description(),
        }
    }

    fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        match self {
            Open::Windows(windows) => windows.write_to(out),
            Open::Sessions(sessions) => sessions.write_to(out),
            Open::Counts(counts) => counts.write_to(out),
            Open::Ranked(ranked) => ranked.write_to(out),
            Open::Shared(slices) => slices.write_to(out),
        }
    }

    fn read_from(&mut self, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        match self {
            Open::Windows(windows) => windows.read_from(input),
            Open::Sessions(sessions) => sessions.read_from(input),
            Open::Counts(counts) => counts.read_from(input),
            Open::Ranked(ranked) => ranked.read_from(input),
            Open::Shared(slices) => slices.read_from(input),
        }
    }
}
