//! The first rows of windows before their time.

use std::collections::VecDeque;

use pelton_data::Micros;
use pelton_data::window::{ResultKind, Window};

use super::keys::Keys;
use super::{Candidates, RankedSlice, RankedWindows, WORK_PER_ROW};
use crate::coalesce::Leaving;
use crate::kernel::KernelError;
use crate::slice::SliceId;
use crate::window::CloseLimits;
use crate::work::{SLICES_PER_GROUP, Work};

/// To add a candidate to its slice takes as long as to do something with so many groups.
const WORK_PER_CANDIDATE: usize = 4;

/// A report of the windows that have not ended, of which a part has been done.
#[derive(Debug)]
pub(super) struct EarlyReport {
    /// Windows that end at or before this have been reported, early or when their time had come.
    reported_until: Micros,
    /// The one that is reported now: when it ends, and which of its keys have not been.
    window: Option<(Micros, Keys)>,
    /// Rows that have come since, in their order.
    arrived: VecDeque<(SliceId, Candidates)>,
}

/// A slice that counts in windows which have not ended.
struct OpenSlice<'a> {
    start: Micros,
    /// The end of the first of them,
    first_end: Micros,
    /// and of the last.
    last_end: Micros,
    slice: &'a RankedSlice,
}

impl EarlyReport {
    /// Keeps rows until all windows have been reported.
    pub fn keep(&mut self, id: SliceId, candidates: Candidates) {
        self.arrived.push_back((id, candidates));
    }

    /// Bytes of memory that rows take which have come since it began.
    pub fn bytes(&self) -> usize {
        self.arrived.iter().map(|(_, candidates)| candidates.bytes()).sum()
    }

    /// The window that is reported next; `None` where there are no more.
    fn next(&mut self, window: &Window, slices: &[OpenSlice<'_>]) -> Option<&mut (Micros, Keys)> {
        if self.window.is_none() {
            let next_end = |slice: &OpenSlice<'_>| {
                let end = window.next_end(self.reported_until).max(slice.first_end);
                (end <= slice.last_end).then_some(end)
            };
            self.window = slices.iter().filter_map(next_end).min().map(|end| (end, Keys::new()));
        }
        self.window.as_mut()
    }
}

impl RankedWindows {
    /// Whether a report has been done in part.
    pub fn is_reporting(&self) -> bool {
        self.early.is_some()
    }

    /// Reports what the windows that have not ended come to so far, in the order of their ends. Returns whether all have been reported: the next call goes on, and
    /// nothing may be closed before.
    ///
    /// # Errors
    /// Where rows cannot be decoded, or what `hand_on` returns.
    pub fn report_early<E: From<KernelError>>(
        &mut self,
        limits: CloseLimits,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let (rows_at_once, mut work) = (limits.groups_at_once.max(1), Work::new(limits.groups_max));
        let begin = || EarlyReport { reported_until: self.closed_until, window: None, arrived: VecDeque::new() };
        let mut report = self.early.take().unwrap_or_else(begin);
        let are_all = self.report_windows(&mut report, rows_at_once, &mut work, hand_on)?;
        if are_all && self.add_arrived(&mut report, &mut work) {
            return Ok(true);
        }
        self.early = Some(report);
        Ok(false)
    }

    /// Reports windows, or a part of them: whether all have been.
    fn report_windows<E: From<KernelError>>(
        &self,
        report: &mut EarlyReport,
        rows_at_once: usize,
        work: &mut Work,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let slices = self.open_slices();
        while let Some((end, keys)) = report.next(&self.window, &slices) {
            if work.is_done() {
                return Ok(false);
            }
            work.spend(slices.len() / SLICES_PER_GROUP);
            let end = *end;
            let bounds = self.window.start(end)..end;
            let counts = |slice: &&OpenSlice<'_>| slice.first_end <= end && bounds.contains(&slice.start);
            let counting: Vec<&RankedSlice> = slices.iter().filter(counts).map(|slice| slice.slice).collect();
            match keys.next(&counting, work) {
                Some(keys) => {
                    let leaving = self.first_rows(&counting, &keys);
                    work.spend(leaving.len() * WORK_PER_ROW);
                    self.hand_on_rows((end, ResultKind::Early), &leaving, rows_at_once, hand_on)?;
                }
                None => (report.reported_until, report.window) = (end, None),
            }
        }
        Ok(true)
    }

    /// The slices of windows that have not ended. Rows that correct windows count in all that have not been reported.
    fn open_slices(&self) -> Vec<OpenSlice<'_>> {
        let first_open = self.window.next_end(self.closed_until);
        let slices = self.slices.iter().map(|(id, slice)| (slice.next_end, id.start, slice));
        let correcting = self.corrections.iter().map(|(id, slice)| (first_open, id.start, slice));
        let open = slices.chain(correcting).map(|(next_end, start, slice)| {
            let covered = self.window.slice(start).covered.expect("a slice with rows belongs to a window");
            OpenSlice { start, first_end: next_end.max(covered.first_end), last_end: slice.last_end, slice }
        });
        open.collect()
    }

    /// Adds rows that came during a report: whether all have been added.
    fn add_arrived(&mut self, report: &mut EarlyReport, work: &mut Work) -> bool {
        while let Some((id, candidates)) = report.arrived.pop_front_if(|_| !work.is_done()) {
            work.spend(candidates.places.len() * WORK_PER_CANDIDATE);
            self.add_now(id, &candidates);
        }
        report.arrived.is_empty()
    }
}
