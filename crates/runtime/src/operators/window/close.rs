//! How a worker closes windows, reports them before their time, and gives each its share of slices that several have in common.

use pelton_data::Micros;
use pelton_data::window::Window;
use pelton_state::coalesce::{CopiedGroups, Leaving as LeavingWindows};
use pelton_state::kernel::KernelError;
use pelton_state::session::LateSessions;
use pelton_state::table::Table;
use pelton_state::window::{CloseLimits, Open, Share};

use super::late::of_sessions;
use super::{WindowOperator, charge_open};
use crate::operators::context::RunContext;
use crate::operators::context::TaskContext;
use crate::operators::{Advanced, EarlyRows, Leaving, Left};
use crate::state::results::Timed;

/// A task that closes windows leaves what is left to the next one when it has done something with about as many groups, or as two blocks have rows: other
/// tasks wait, and those that wait for the rows may be full.
const CLOSED_GROUPS_MAX: usize = 1 << 15;

/// Where others work meanwhile, windows of so many groups are put together by whoever reads them out. To hand on what is put together of fewer costs as much
/// as it saves: with 176 groups nothing is won.
const PARTS_GROUPS_MIN: usize = 256;

/// Groups of windows that have closed.
enum ClosedGroups {
    /// As rows, with when the last of the windows was over.
    Rows(Timed),
    /// To be read out.
    Copied(Box<CopiedGroups>),
}

impl WindowOperator {
    /// Merges the workers' tables of each slice that has ended, and closes the windows that have ended, in the order of their ends: a part of all
    /// that, where it is much.
    pub(super) fn close_windows<'a>(
        &'a self,
        watermark: Micros,
        context: &'a TaskContext<'_>,
    ) -> Result<Advanced<'a>, KernelError> {
        let (node, run) = (&self.node, context.run);
        let mut open = node.store.open();
        let mut spare = Vec::new();
        for slices in self.slices() {
            slices.take_small_slices().into_iter().for_each(|pieces| open.close_small_slices(pieces));
            slices.take_until(watermark).into_iter().for_each(|(slice, table)| open.seal(slice, table));
            let (complete, ended) = slices.take_complete(watermark);
            open.seal_counts(complete, ended);
        }
        self.give_back_slices(run)?;
        let has_others = run.workers > 1;
        let limits = close_limits(run, watermark);
        let mut groups = Vec::new();
        let mut hand_on = |mut leaving: LeavingWindows<'_>| {
            match &mut leaving {
                // Another worker may close the next windows meanwhile.
                LeavingWindows::Later(copied) if has_others => {
                    let copied = copied.take(node.store.copied().pop());
                    groups.push(ClosedGroups::Copied(Box::new(copied)));
                    Ok(())
                }
                _ => node.rows(leaving.contents(), run, |rows| groups.push(ClosedGroups::Rows(rows))),
            }
        };
        let mut hand_on: HandOn<'_> = &mut hand_on;
        let until = open.close(limits, &mut spare, &mut hand_on)?;
        let late = open.take_late();
        charge_open(self.index(), &open, run)?;
        drop(open);
        self.recycle(spare, context)?;
        let is_later = groups.iter().any(|groups| matches!(groups, ClosedGroups::Copied(_)));
        let read_out = move || self.read_out(until, groups, late, run);
        let leaving = if is_later { Leaving::Later(Box::new(read_out)) } else { Leaving::Now(read_out()) };
        Ok(Advanced { until, leaving })
    }

    /// Charges workers no more for slices that were taken from them, before windows are charged for these.
    fn give_back_slices(&self, run: RunContext<'_>) -> Result<(), KernelError> {
        (0..self.slices().len()).try_for_each(|worker| self.charge_slices_now(worker, run))
    }

    /// Gives workers tables back that have been cleared; where state is short of memory they are freed.
    fn recycle(&self, spare: Vec<Table>, context: &TaskContext<'_>) -> Result<(), KernelError> {
        let workers = self.source_slices();
        let lacks_state = context.run.budget.lacks_state();
        for table in spare.into_iter().filter(|_| !lacks_state) {
            // Who has none takes fresh memory for his next slice.
            let nearest_first = workers.iter().cycle().skip(context.worker).take(workers.len());
            let taker = nearest_first.min_by_key(|slices| slices.spare_tables()).expect("there is a worker");
            taker.recycle(table);
        }
        let now_ns = context.run.clock.nanos();
        (0..self.slices().len()).try_for_each(|index| self.charge_slices(index, context.run, now_ns))
    }

    /// Merges the workers' tables of each slice that has ended, and has every window take its share: a part of all that, where it is much.
    pub(super) fn share_slices(
        &self,
        watermark: Micros,
        context: &TaskContext<'_>,
    ) -> Result<Advanced<'_>, KernelError> {
        let (node, run) = (&self.node, context.run);
        let mut open = node.store.open();
        let Open::Shared(slices) = &mut *open else { unreachable!("windows share slices") };
        for worker in self.slices() {
            worker.take_until(watermark).into_iter().for_each(|(slice, table)| slices.seal(slice, table));
        }
        self.give_back_slices(run)?;
        let mut spare = Vec::new();
        let take = |nth: usize, id, share: Share<'_>| match &mut *node.shared_by[nth].store.open() {
            Open::Windows(windows) => Ok::<_, KernelError>(windows.take_share(id, share)),
            _ => unreachable!("only windows by time share slices"),
        };
        let windows: Vec<Window> = node.shared_by.iter().map(|shared| shared.window).collect();
        let until = slices.share(close_limits(run, watermark), &windows, &mut spare, take)?;
        charge_open(self.index(), &open, run)?;
        drop(open);
        for by in &node.shared_by {
            charge_open(by.operator, &by.store.open(), run)?;
        }
        self.recycle(spare, context)?;
        let left = Left { rows: Vec::new(), until, late_rows: 0, late: None };
        Ok(Advanced { until, leaving: Leaving::Now(Ok(left)) })
    }

    /// Reads out what windows have left that have closed, all that end at or before `until`.
    fn read_out(
        &self,
        until: Micros,
        groups: Vec<ClosedGroups>,
        late: Option<LateSessions>,
        run: RunContext<'_>,
    ) -> Result<Left, KernelError> {
        let node = &self.node;
        let (mut rows, mut cleared) = (Vec::new(), Vec::new());
        for groups in groups {
            match groups {
                ClosedGroups::Rows(batch) => rows.push(batch),
                ClosedGroups::Copied(mut copied) => {
                    node.rows(copied.contents(), run, |batch| rows.push(batch))?;
                    copied.clear();
                    cleared.push(*copied);
                }
            }
        }
        node.store.copied().append(&mut cleared);
        let late_rows = late.as_ref().map_or(0, |late| late.rows);
        let late = late.map(|late| of_sessions(node, &late));
        Ok(Left { rows, until, late_rows, late })
    }

    /// Reports what windows that have not ended come to so far: a part of that, where it is much.
    pub(super) fn report_windows(&self, context: &TaskContext<'_>) -> Result<EarlyRows, KernelError> {
        let (node, run) = (&self.node, context.run);
        let mut open = node.store.open();
        if !open.is_reporting() {
            // Workers go on with other tables, which are merged with these by whoever needs both: nothing is copied, and nothing is reported that comes meanwhile.
            for slices in self.slices() {
                slices.take_until(Micros::MAX).into_iter().for_each(|(slice, table)| open.seal(slice, table));
            }
            self.give_back_slices(run)?;
        }
        let (mut rows, mut spare) = (Vec::new(), Vec::new());
        let mut hand_on =
            |mut leaving: LeavingWindows<'_>| node.rows(leaving.contents(), run, |batch| rows.push(batch));
        let mut hand_on: HandOn<'_> = &mut hand_on;
        let are_all = open.report_early(close_limits(run, Micros::MAX), &mut spare, &mut hand_on)?;
        charge_open(self.index(), &open, run)?;
        drop(open);
        self.recycle(spare, context)?;
        Ok(EarlyRows { rows, are_all })
    }
}

fn close_limits(run: RunContext<'_>, until: Micros) -> CloseLimits {
    let block_rows = run.block_rows;
    CloseLimits {
        until,
        groups_at_once: block_rows.min(CLOSED_GROUPS_MAX),
        groups_max: block_rows.saturating_mul(2).min(CLOSED_GROUPS_MAX),
        parts_min: if run.workers > 1 { PARTS_GROUPS_MIN } else { usize::MAX },
    }
}

/// Takes what windows hold: of one type, so that what hands it on is compiled once.
type HandOn<'a> = &'a mut dyn FnMut(LeavingWindows<'_>) -> Result<(), KernelError>;
