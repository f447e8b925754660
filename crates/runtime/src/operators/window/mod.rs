//! Window aggregations, sessions, counted windows and the first rows of windows: workers add rows to slices of their own, which are merged
//! when the watermark passes, put together to windows, and read out.

mod assign;

mod close;

mod late;

mod control;

mod slices;

mod store;

mod take;

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use pelton_data::time::{WATERMARK_MAX, WATERMARK_MIN};
use pelton_data::window::{Combination, Emission, SessionSlots, Window};
use pelton_data::{Block, Micros, Stamp, TimeColumn};
use pelton_state::count::RowCounter;
use pelton_state::kernel::{KernelCall, KernelError};
use pelton_state::layout::EntryLayout;
use pelton_state::ranking::Ranker;
use pelton_state::slice::{SliceId, SliceStore};
use pelton_state::window::{Contents, Open, SharedSlices};

pub(crate) use self::assign::{assign, late};
pub(crate) use self::control::WindowControl;
use self::slices::WorkerSlices;
pub use self::store::WindowStore;
pub(crate) use self::take::{delayed, undelay};
use super::{
    Advanced, Control, Due, EarlyRows, Holding, OpenWindows, OperatorNode, Restored, SnapshotError, Start,
    StatefulOperator,
};
use crate::operators::context::RunContext;
use crate::operators::context::TaskContext;
use crate::state::finished::Finished;
use crate::state::results::Timed;

/// A window aggregation, or the first rows of windows, fed by the pipelines that target it.
pub struct WindowNode {
    /// For people.
    pub name: String,
    /// Which windows.
    pub window: Window,
    /// How they are put together from slices.
    pub combination: Combination,
    /// When they are reported besides when their time has come.
    pub emission: Emission,
    /// Which accumulators tell the sessions, where the windows are sessions.
    pub session_slots: Option<SessionSlots>,
    /// What an entry of its tables holds.
    pub layout: Arc<EntryLayout>,
    /// Whether what is read out says when windows begin or end.
    pub has_bounds: bool,
    /// Chooses the rows that are kept, where these are not groups.
    pub ranker: Option<Arc<Ranker>>,
    /// Reads groups or rows of closed windows out.
    pub read_out: ReadOut,
    /// Reads all rows of groups out, group by group, where rows are kept with groups and `read_out` gives the first of them.
    pub read_all: Option<ReadOut>,
    /// Schema of what is read out.
    pub schema: SchemaRef,
    /// Its event-time column, if any.
    pub time_column: Option<TimeColumn>,
    /// Its state.
    pub store: WindowStore,
    /// The state of the slices that it is put together from, where it shares them with others: then no pipeline feeds it.
    pub put_together_from: Option<WindowStore>,
    /// Windows that are put together from its slices. Where there are any, that is all that becomes of them, and `window` is what they are
    /// cut by (`Window::grid`).
    pub shared_by: Vec<SharedBy>,
}

/// A window that is put together from slices that it shares with others.
#[derive(Clone)]
pub struct SharedBy {
    /// `Graph::operators[i]`.
    pub operator: usize,
    /// Which windows.
    pub window: Window,
    /// Its state.
    pub store: WindowStore,
}

/// FairShare what closed windows hold into rows, where there are any.
pub type ReadOut = Box<dyn Fn(Contents<'_>) -> Result<Option<RecordBatch>, KernelError> + Send + Sync>;

impl WindowNode {
    /// Whether it is slices that windows share.
    fn is_shared(&self) -> bool {
        !self.shared_by.is_empty()
    }

    /// Up to where windows are over for the rows of a block and for those behind it in its stream, as far as its stamp tells.
    fn over_until(&self, stamp: &Stamp) -> Micros {
        over_until(&self.window, self.emission, stamp)
    }

    /// What windows hold as rows, with when the last of the windows was over; where these do not end by event time, with the
    /// largest time. Windows that had begun before the run saw all rows are left out.
    fn rows(
        &self,
        contents: Contents<'_>,
        run: RunContext<'_>,
        mut take: impl FnMut(Timed),
    ) -> Result<(), KernelError> {
        let mut read_out = |contents: Contents<'_>, end| {
            (self.read_out)(contents)?.into_iter().for_each(|batch| take((batch, end)));
            Ok(())
        };
        if self.window.counts_rows() {
            return read_out(contents, WATERMARK_MAX);
        }
        if run.began_behind == WATERMARK_MIN {
            return read_out(contents, contents.end());
        }
        // A session may go on from rows that came before.
        let gap = if let Window::Session { gap } = self.window { gap } else { 0 };
        let complete = contents.beginning_after(run.began_behind.saturating_add(gap));
        complete.into_iter().try_for_each(|contents| read_out(contents, contents.end()))
    }

    /// Windows, none of which is open.
    fn no_windows(&self) -> Open {
        match &self.ranker {
            _ if self.is_shared() => Open::Shared(Box::new(SharedSlices::new(self.window, self.layout.clone()))),
            Some(ranker) => Open::ranked(self.window, ranker.clone(), self.emission),
            None => Open::groups(self.window, self.combination, &self.layout, self.session_slots, self.emission),
        }
    }

    /// No slices yet, of one worker. `has_others`: where others have rows of the same slices.
    fn no_store(&self, has_others: bool) -> SliceStore {
        if let Window::RowsByKey { size, slide } = self.window {
            let counter = RowCounter::new((size, slide), self.combination, &self.layout, self.has_bounds);
            return SliceStore::counting(counter);
        }
        if Open::takes_small_slices(self.combination, &self.layout, self.emission) {
            return SliceStore::with_small_slices(self.layout.clone(), self.combination, has_others);
        }
        SliceStore::new(self.layout.clone())
    }

    /// What workers add rows to: nothing yet. Windows that are put together from slices of others have no rows of their own.
    fn no_slices(&self, workers: usize, ports: usize) -> Vec<WorkerSlices> {
        // One worker at a time counts rows by their keys.
        let stores = if let Window::RowsByKey { .. } = self.window { 1 } else { workers };
        let stores = if self.put_together_from.is_some() { 0 } else { stores };
        let store = |_| WorkerSlices::new(self.no_store(stores > 1), workers > 1, ports == 1);
        (0..stores).map(store).collect()
    }
}

fn over_until(window: &Window, emission: Emission, stamp: &Stamp) -> Micros {
    match window {
        // A row that comes at the watermark may belong to a session; and other windows are not over by time.
        Window::Session { .. } | Window::Rows { .. } | Window::RowsByKey { .. } | Window::Global => Micros::MIN,
        // The block's own partition may be ahead of others, whose rows come behind it. The time of results is not in their stamps.
        _ => window.over_until(emission.delayed(stamp.watermark_before.min(stamp.watermark))),
    }
}

struct WindowOperator {
    node: WindowNode,
    subscribers: Vec<usize>,
    /// Which of the graph's operators, once it has started.
    index: Option<usize>,
}

impl From<WindowNode> for OperatorNode {
    fn from(node: WindowNode) -> OperatorNode {
        let subscribers = node.shared_by.iter().map(|shared| shared.operator).collect();
        OperatorNode(Box::new(WindowOperator { node, subscribers, index: None }))
    }
}

impl WindowOperator {
    fn index(&self) -> usize {
        self.index.expect("the run has started")
    }

    /// What each worker has of it.
    fn slices(&self) -> &[WorkerSlices] {
        self.node.store.slices()
    }

    /// The workers' slices that its windows are made of: its own, or those that it shares with others.
    fn source_slices(&self) -> &[WorkerSlices] {
        self.node.put_together_from.as_ref().unwrap_or(&self.node.store).slices()
    }

    /// The slices that it shares with others, and that it is not yet put together from.
    fn shared_ids(&self) -> BTreeSet<SliceId> {
        let Some(from) = &self.node.put_together_from else { return BTreeSet::new() };
        let mut ids: BTreeSet<SliceId> = from.slices().iter().flat_map(WorkerSlices::ids).collect();
        if let Open::Shared(open) = &*from.open() {
            ids.extend(open.ids());
        }
        ids
    }

    /// Charges what a worker has, whether it is time to measure that or not: tables have grown, or are the worker's no more.
    fn charge_slices_now(&self, worker: usize, run: RunContext<'_>) -> Result<(), KernelError> {
        self.slices()[worker].charge(|measure| run.account.charge_now(self.index(), worker, measure()))
    }

    /// Charges what a worker has of slices, unless it is not time to measure it.
    fn charge_slices(&self, worker: usize, run: RunContext<'_>, now_ns: u64) -> Result<(), KernelError> {
        if !run.account.is_due(self.index(), worker, now_ns) {
            return Ok(());
        }
        let charge = |measure: &dyn Fn() -> usize| run.account.charge(self.index(), worker, run.clock, measure);
        self.slices()[worker].charge(charge)
    }
}

/// Charges what all workers share of a window.
fn charge_open(operator: usize, open: &Open, run: RunContext<'_>) -> Result<(), KernelError> {
    run.account.charge(operator, run.workers, run.clock, || open.bytes())
}

impl StatefulOperator for WindowOperator {
    fn name(&self) -> &str {
        &self.node.name
    }

    fn time_column(&self) -> Option<TimeColumn> {
        self.node.time_column
    }

    fn subscribers(&self) -> &[usize] {
        &self.subscribers
    }

    fn delay(&self) -> Micros {
        self.node.emission.delay
    }

    fn takes_in_order(&self) -> bool {
        // Rows are counted by their keys in their order.
        matches!(self.node.window, Window::RowsByKey { .. })
    }

    fn is_freed_by_time(&self) -> bool {
        !self.node.window.counts_rows() && self.node.window != Window::Global
    }

    /// Each worker's, and what they share.
    fn accounts(&self, workers: usize) -> usize {
        workers + 1
    }

    fn start(&mut self, start: &Start) -> Box<dyn Control> {
        let node = &self.node;
        node.store.start(node.no_slices(start.workers, start.ports), node.no_windows());
        self.index = Some(start.index);
        Box::new(WindowControl::new(node.window, node.emission, node.is_shared()))
    }

    fn take(
        &self,
        port: usize,
        kernel: KernelCall<'_>,
        block: &Block,
        context: &mut TaskContext<'_>,
        finished: &mut Finished,
    ) -> Result<(), KernelError> {
        self.take_block(port, kernel, block, context, finished)
    }

    fn charge(&self, context: &TaskContext<'_>, now_ns: u64) -> Result<(), KernelError> {
        // All rows that are counted by their keys are in one store.
        self.charge_slices(context.worker.min(self.slices().len() - 1), context.run, now_ns)
    }

    fn advance<'a>(&'a self, due: Due, context: &'a TaskContext<'_>) -> Result<Advanced<'a>, KernelError> {
        if self.node.is_shared() {
            self.share_slices(due.until, context)
        } else {
            self.close_windows(due.until, context)
        }
    }

    fn report_early(&self, context: &TaskContext<'_>) -> Result<EarlyRows, KernelError> {
        self.report_windows(context)
    }

    fn holding(&self) -> Holding {
        let node = &self.node;
        let open = node.store.open();
        let (mut slices, mut bytes) = (open.sealed_slices() as u64, open.bytes() as u64);
        let mut next_end = open.next_end();
        drop(open);
        for worker in self.slices() {
            let ids = worker.ids();
            slices = slices.max(ids.len() as u64).max(u64::from(worker.has_open_counts()));
            bytes += worker.bytes() as u64;
            next_end = ids.iter().filter_map(|id| id.end_min(&node.window)).chain(next_end).min();
        }
        // Several of the slices that windows share are one of a window's own.
        let shared: BTreeSet<SliceId> =
            self.shared_ids().into_iter().filter_map(|id| id.share_of(&node.window)).collect();
        slices += shared.len() as u64;
        next_end = shared.first().map(|own| own.first_end).into_iter().chain(next_end).min();
        Holding::Windows(OpenWindows { window: node.window, is_shared: node.is_shared(), slices, bytes, next_end })
    }

    fn clear(&self) {
        let node = &self.node;
        let workers = self.slices();
        workers.iter().for_each(|slices| slices.reset(node.no_store(workers.len() > 1)));
        node.store.copied().clear();
        *node.store.open() = node.no_windows();
    }

    fn snapshot(&self, into: Vec<u8>) -> Result<Vec<u8>, SnapshotError> {
        self.node.store.hold().snapshot(into)
    }

    fn restore(&self, bytes: &[u8]) -> Result<Restored, SnapshotError> {
        let mut held = self.node.store.hold();
        let due = held.restore(&self.node, bytes)?;
        Ok(Restored { reached: held.reached(), due })
    }

    fn renew(&self) -> Result<(), SnapshotError> {
        let mut held = self.node.store.hold();
        let bytes = held.snapshot(Vec::new())?;
        // When windows are corrected is known to the control.
        held.restore(&self.node, &bytes).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_over_for_what_comes_when_they_are_for_all_partitions() {
        let tumbling = Window::Tumbling { size: 10, offset: 0 };
        let stamp = |watermark_before, watermark| Stamp { watermark_before, watermark, ..Stamp::default() };
        let until =
            |window: &Window, delay, stamp| over_until(window, Emission { delay, ..Emission::default() }, &stamp);
        assert_eq!(until(&tumbling, 0, stamp(100, 130)), 100, "the block itself has come further");
        assert_eq!(until(&tumbling, 0, stamp(100, 70)), 70, "another partition is behind");
        assert_eq!(until(&tumbling, 30, stamp(100, 130)), 70, "windows are delayed");
        assert_eq!(
            until(&Window::Session { gap: 10 }, 0, stamp(100, 130)),
            Micros::MIN,
            "the next row may belong to one"
        );
    }
}
