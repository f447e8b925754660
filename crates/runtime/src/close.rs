//! How a worker closes windows, reports them before their time, and gives each its share of slices that several have in common.

use pelton_data::Micros;
use pelton_data::window::Window;
use pelton_state::kernel::KernelError;
use pelton_state::session::LateSessions;
use pelton_state::table::Table;
use pelton_state::waiting::{CopiedGroups, Leaving};
use pelton_state::window::{CloseLimits, Open, Share};

use crate::late;
use crate::operator::Part;
use crate::results::Timed;
use crate::run::RunError;
use crate::task::Worker;
use crate::window::Closed;

/// A task that closes windows leaves what is left to the next one when it has done something with about as many groups, or as two blocks have rows: other
/// tasks wait, and those that wait for the rows may be full.
const CLOSED_GROUPS_MAX: usize = 1 << 15;

/// Where others work meanwhile, windows of so many groups are put together by whoever reads them out. To hand on what is put together of fewer costs as much
/// as it saves: with 176 groups nothing is won.
const PARTS_GROUPS_MIN: usize = 256;

/// What windows that have closed leave.
struct Left {
    /// All that end at or before this have.
    until: Micros,
    /// In the order of their ends.
    groups: Vec<LeftGroups>,
    late: Option<LateSessions>,
}

/// Groups of windows that have closed.
enum LeftGroups {
    /// As rows, where they have any, with when the last of the windows was over.
    Rows(Option<Timed>),
    /// To be read out.
    Copied(Box<CopiedGroups>),
}

impl Worker<'_> {
    pub(crate) fn close(&self, window: usize, watermark: Micros) {
        let result = match self.shared.graph.windows[window].is_shared() {
            true => self.share_slices(window, watermark),
            false => self.close_windows(window, watermark),
        };
        let failed = |error| {
            let pipeline = self.shared.graph.windows[window].name.clone();
            RunError::Kernel { pipeline, error }
        };
        let left = match result {
            Ok(left) => left,
            Err(error) => return self.shared.state().fail(failed(error)),
        };
        let mut state = self.shared.state();
        let position = state.windows_closed(window, left.until);
        let must_go_on = state.windows[window].must_close() || state.has_blocks_for(window);
        drop(state);
        if must_go_on {
            let feeding = self.shared.targets.iter().enumerate().filter(|(_, target)| target.feeds(window));
            self.shared.progressed(feeding.map(|(pipeline, _)| Part::Pipeline(pipeline)));
        }
        let closed = self.read_out(window, left).map_err(failed);
        let busy_ns = self.shared.clock.nanos() - self.started_ns;
        let mut state = self.shared.state();
        state.windows[window].busy_ns += busy_ns;
        state.windows_read_out(window, position, closed);
    }

    /// Merges the workers' tables of each slice that has ended, and closes the windows that have ended, in the order of their ends: a part of all
    /// that, where it is much.
    fn close_windows(&self, window: usize, watermark: Micros) -> Result<Left, KernelError> {
        let node = &self.shared.graph.windows[window];
        let mut open = self.shared.open_windows(window);
        let mut spare = Vec::new();
        for slices in &self.shared.slices[window] {
            slices.take_pieces().into_iter().for_each(|pieces| open.seal_pieces(pieces));
            slices.take_until(watermark).into_iter().for_each(|(slice, table)| open.seal(slice, table));
            let (complete, ended) = slices.take_complete(watermark);
            open.seal_counts(complete, ended);
        }
        self.give_back_slices(window)?;
        let has_others = self.shared.options.workers > 1;
        let limits = self.close_limits(watermark);
        let mut groups = Vec::new();
        let mut hand_on = |mut leaving: Leaving<'_>| {
            groups.push(match &mut leaving {
                // Another worker may close the next windows meanwhile.
                Leaving::Later(copied) if has_others => {
                    LeftGroups::Copied(Box::new(copied.take(self.shared.copied(window).pop())))
                }
                _ => LeftGroups::Rows(node.rows(leaving.contents())?),
            });
            Ok(())
        };
        let mut hand_on: HandOn<'_> = &mut hand_on;
        let until = open.close(limits, &mut spare, &mut hand_on)?;
        let late = open.take_late();
        self.shared.charge_windows(window, &open)?;
        drop(open);
        self.recycle(self.shared.graph.slices_of(window), spare)?;
        Ok(Left { until, groups, late })
    }

    fn close_limits(&self, until: Micros) -> CloseLimits {
        let block_rows = self.shared.options.block_rows;
        CloseLimits {
            until,
            groups_at_once: block_rows.min(CLOSED_GROUPS_MAX),
            groups_max: block_rows.saturating_mul(2).min(CLOSED_GROUPS_MAX),
            parts_min: if self.shared.options.workers > 1 { PARTS_GROUPS_MIN } else { usize::MAX },
        }
    }

    /// Charges workers no more for slices that were taken from them, before windows are charged for these.
    fn give_back_slices(&self, window: usize) -> Result<(), KernelError> {
        let mut workers = 0..self.shared.slices[window].len();
        workers.try_for_each(|worker| self.shared.charge_slices_now(window, worker))
    }

    /// Gives workers tables back that have been cleared.
    fn recycle(&self, window: usize, spare: Vec<Table>) -> Result<(), KernelError> {
        let workers = &self.shared.slices[window];
        for table in spare {
            // Who has none takes fresh memory for his next slice.
            let nearest_first = workers.iter().cycle().skip(self.index).take(workers.len());
            let taker = nearest_first.min_by_key(|slices| slices.spare_tables()).expect("there is a worker");
            taker.recycle(table);
        }
        let now_ns = self.shared.clock.nanos();
        (0..workers.len()).try_for_each(|worker| self.shared.charge_slices(window, worker, now_ns))
    }

    /// Merges the workers' tables of each slice that has ended, and has every window take its share: a part of all that, where it is much.
    fn share_slices(&self, window: usize, watermark: Micros) -> Result<Left, KernelError> {
        let node = &self.shared.graph.windows[window];
        let mut open = self.shared.open_windows(window);
        let Open::Shared(slices) = &mut *open else { unreachable!("windows share slices") };
        for worker in &self.shared.slices[window] {
            worker.take_until(watermark).into_iter().for_each(|(slice, table)| slices.seal(slice, table));
        }
        self.give_back_slices(window)?;
        let mut spare = Vec::new();
        let take = |nth: usize, id, share: Share<'_>| match &mut *self.shared.open_windows(node.shared_by[nth]) {
            Open::Windows(windows) => Ok::<_, KernelError>(windows.take_share(id, share)),
            _ => unreachable!("only windows by time share slices"),
        };
        let windows: Vec<Window> =
            node.shared_by.iter().map(|&window| self.shared.graph.windows[window].window).collect();
        let until = slices.share(self.close_limits(watermark), &windows, &mut spare, take)?;
        self.shared.charge_windows(window, &open)?;
        drop(open);
        for &window in &node.shared_by {
            self.shared.charge_windows(window, &self.shared.open_windows(window))?;
        }
        self.recycle(window, spare)?;
        Ok(Left { until, groups: Vec::new(), late: None })
    }

    /// Reads out what windows have left that have closed.
    fn read_out(&self, window: usize, left: Left) -> Result<Closed, KernelError> {
        let node = &self.shared.graph.windows[window];
        let (mut rows, mut cleared) = (Vec::new(), Vec::new());
        for groups in left.groups {
            match groups {
                LeftGroups::Rows(batch) => rows.extend(batch),
                LeftGroups::Copied(mut copied) => {
                    rows.extend(node.rows(copied.contents())?);
                    copied.clear();
                    cleared.push(*copied);
                }
            }
        }
        self.shared.copied(window).append(&mut cleared);
        let late_rows = left.late.as_ref().map_or(0, |late| late.rows);
        let late = left.late.map(|late| late::of_sessions(node, &late));
        Ok(Closed { until: left.until, rows, late_rows, late })
    }

    /// Reports what windows that have not ended come to so far: a part of that, where it is much.
    pub(crate) fn report(&self, window: usize) {
        let result = self.report_windows(window);
        let busy_ns = self.shared.clock.nanos() - self.started_ns;
        let mut state = self.shared.state();
        state.windows[window].busy_ns += busy_ns;
        match result {
            Ok((rows, is_done)) => state.windows_reported(window, rows, is_done),
            Err(error) => {
                let pipeline = self.shared.graph.windows[window].name.clone();
                state.fail(RunError::Kernel { pipeline, error });
            }
        }
    }

    /// Returns rows of windows, and whether all have been reported.
    fn report_windows(&self, window: usize) -> Result<(Vec<Timed>, bool), KernelError> {
        let node = &self.shared.graph.windows[window];
        let mut open = self.shared.open_windows(window);
        if !open.is_reporting() {
            // Workers go on with other tables, which are merged with these by whoever needs both: nothing is copied, and nothing is reported that comes meanwhile.
            for slices in &self.shared.slices[window] {
                slices.take_until(Micros::MAX).into_iter().for_each(|(slice, table)| open.seal(slice, table));
            }
            self.give_back_slices(window)?;
        }
        let (mut batches, mut spare) = (Vec::new(), Vec::new());
        let mut hand_on = |mut leaving: Leaving<'_>| {
            batches.extend(node.rows(leaving.contents())?);
            Ok(())
        };
        let mut hand_on: HandOn<'_> = &mut hand_on;
        let is_done = open.report_early(self.close_limits(Micros::MAX), &mut spare, &mut hand_on)?;
        self.shared.charge_windows(window, &open)?;
        drop(open);
        self.recycle(self.shared.graph.slices_of(window), spare)?;
        Ok((batches, is_done))
    }
}

/// Takes what windows hold: of one type, so that what hands it on is compiled once.
type HandOn<'a> = &'a mut dyn FnMut(Leaving<'_>) -> Result<(), KernelError>;
