//! Joins of rows in the same window: rows of both sides wait in slices, and are joined when the watermark of both has passed their window.
//!
//! One worker at a time closes windows and makes buckets; parts of a window are joined by several at once.

use std::sync::{Arc, PoisonError};

use arrow::array::TimestampMicrosecondArray;
use arrow::util::display::array_value_to_string;
use pelton_data::join::{JoinSpec, JoinTime, Side};
use pelton_data::time::WATERMARK_MIN;
use pelton_data::window::{Emission, Window};
use pelton_data::{Block, Micros, TimeColumn};
use pelton_state::join::streams::{Residual, WindowJoin, WindowPairs, WindowPart};
use pelton_state::kernel::{KernelCall, KernelError};
use pelton_state::snapshot::{renew, replace, take_into};

use super::window::{WindowControl, assign, delayed, undelay};
use super::{
    Advanced, Control, Due, EarlyRows, Holding, Leaving, Left, OpenWindows, OperatorNode, Restored, SnapshotError,
    Start, StatefulOperator,
};
use crate::memory::budget::Bytes;
use crate::operators::context::{RunContext, TaskContext};
use crate::state::finished::{Finished, Output};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// A join of rows in the same window, fed by the pipelines of both sides.
pub struct WindowJoinNode {
    /// For people.
    pub name: String,
    /// What is joined.
    pub spec: Arc<JoinSpec>,
    /// A condition beside keys and windows.
    pub residual: Option<Residual>,
    /// The side that each port feeds.
    pub sides: Vec<Side>,
    /// When windows are joined: how long after their end, where rows that come until then count as if they were in time, and how long after rows have come for them pairs
    /// leave that have both.
    pub emission: Emission,
}

struct WindowJoinOperator {
    node: WindowJoinNode,
    windows: [Window; 2],
    bounds: Window,
    /// Which of the graph's operators, once it has started.
    index: Option<usize>,
    open: Mutex<WindowJoin>,
    /// The window that is being joined, or reported early. Locked before `open` where both are.
    closing: Mutex<Option<Closing>>,
    /// Bytes of it: nobody waits for a worker that makes buckets to know them.
    closing_bytes: AtomicUsize,
}

struct Closing {
    end: Micros,
    pairs: WindowPairs,
}

impl From<WindowJoinNode> for OperatorNode {
    /// # Panics
    /// Where the join is not one of windows.
    fn from(node: WindowJoinNode) -> OperatorNode {
        let JoinTime::Windows { sides: windows, bounds } = node.spec.time else { panic!("the join is one of windows") };
        let open = Mutex::new(WindowJoin::new(node.spec.clone()));
        OperatorNode(Box::new(WindowJoinOperator {
            node,
            windows,
            bounds,
            index: None,
            open,
            closing: Mutex::default(),
            closing_bytes: AtomicUsize::new(0),
        }))
    }
}

impl WindowJoinOperator {
    fn index(&self) -> usize {
        self.index.expect("the run has started")
    }

    fn open(&self) -> MutexGuard<'_, WindowJoin> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn closing(&self) -> MutexGuard<'_, Option<Closing>> {
        self.closing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins with the next window that has rows and ends at or before `until`; whether there is one. Windows that had begun before the run saw all rows are left out.
    fn close_next(
        &self,
        closing: &mut Option<Closing>,
        until: Micros,
        run: RunContext<'_>,
    ) -> Result<bool, KernelError> {
        if closing.is_some() {
            return Ok(true);
        }
        let mut open = self.open();
        let (end, mut pairs) = loop {
            let Some(end) = open.next_end().filter(|end| *end <= until) else {
                open.pass(until);
                return Ok(false);
            };
            let pairs = open.close(end, self.node.residual.as_ref());
            if run.began_behind == WATERMARK_MIN || self.bounds.start(end) > run.began_behind {
                break (end, pairs);
            }
        };
        drop(open);
        pairs.prepare()?;
        self.open().keep_buckets(&pairs);
        *closing = Some(Closing { end, pairs });
        Ok(true)
    }

    /// As [`WindowJoinOperator::close_next`], for the pairs of a window that has not ended.
    fn report_next(&self, closing: &mut Option<Closing>, run: RunContext<'_>) -> Result<bool, KernelError> {
        if closing.is_none() {
            let next = self.open().report_next(self.node.residual.as_ref(), run.began_behind);
            let Some((end, mut pairs)) = next else { return Ok(false) };
            pairs.prepare()?;
            *closing = Some(Closing { end, pairs });
        }
        Ok(true)
    }

    /// The next part of the window that is being joined, with its end, and whether it is the last.
    fn next_part(
        &self,
        closing: &mut Option<Closing>,
        rows_max: usize,
        run: RunContext<'_>,
    ) -> Result<(Option<WindowPart>, Micros, bool), KernelError> {
        let Some(Closing { end, pairs }) = closing.as_mut() else { unreachable!("a window is being joined") };
        let (end, part) = (*end, pairs.next_part(rows_max)?);
        self.charge_now(closing.as_ref(), run)?;
        let is_last = closing.take_if(|closing| closing.pairs.is_done()).is_some();
        if is_last {
            self.closing_bytes.store(0, Ordering::Relaxed);
        }
        Ok((part, end, is_last))
    }

    /// Bytes of all rows, and of the buckets that have been made of them.
    fn bytes(&self) -> usize {
        self.open().bytes() + self.closing_bytes.load(Ordering::Relaxed)
    }

    fn charge_now(&self, closing: Option<&Closing>, run: RunContext<'_>) -> Result<(), KernelError> {
        self.closing_bytes.store(closing.map_or(0, |closing| closing.pairs.bytes()), Ordering::Relaxed);
        let bytes = self.bytes();
        run.account.charge_now(self.index(), 0, bytes).map_err(|error| self.with_largest(error))
    }

    /// The error where state would take more than allowed, with where most of the rows are.
    fn with_largest(&self, error: KernelError) -> KernelError {
        let (KernelError::State(message), Some((side, end, bytes))) = (&error, self.open().largest()) else {
            return error;
        };
        let side = if side == Side::Left { "left" } else { "right" };
        let end = array_value_to_string(&TimestampMicrosecondArray::from(vec![end]), 0).unwrap_or_default();
        let (bytes, end) = (Bytes(bytes), end.replace('T', " "));
        KernelError::State(format!("{message}; the {side} side has {bytes} of rows in the window that ends at {end}"))
    }

    fn no_rows(&self) -> WindowJoin {
        WindowJoin::new(self.node.spec.clone())
    }
}

/// The rows of a part of the window that ends at `end`; up to `until` no more come behind them.
fn left(part: Option<WindowPart>, end: Micros, until: Micros) -> Result<Left, KernelError> {
    let rows = part.map_or(Ok(Vec::new()), WindowPart::join)?;
    let rows = rows.into_iter().map(|batch| (batch, end)).collect();
    Ok(Left { rows, until, late_rows: 0, late: None })
}

impl StatefulOperator for WindowJoinOperator {
    fn name(&self) -> &str {
        &self.node.name
    }

    fn time_column(&self) -> Option<TimeColumn> {
        self.node.spec.output_time
    }

    fn delay(&self) -> Micros {
        self.node.emission.delay
    }

    fn start(&mut self, start: &Start) -> Box<dyn Control> {
        self.index = Some(start.index);
        Box::new(WindowControl::new(self.windows[0], self.node.emission, false))
    }

    fn take(
        &self,
        port: usize,
        kernel: KernelCall<'_>,
        block: &Block,
        context: &mut TaskContext<'_>,
        finished: &mut Finished,
    ) -> Result<(), KernelError> {
        if block.rows() == 0 {
            return Ok(());
        }
        let side = self.node.sides[port];
        let window = &self.windows[side.port()];
        let slices = std::mem::take(&mut context.buffers.slices);
        let delay = self.node.emission.delay;
        let delayed = (delay > 0).then(|| delayed(block, self.node.emission));
        let assignment = assign(delayed.as_ref().unwrap_or(block), window, 0, slices);
        let mut mask = std::mem::take(&mut context.scratch.slice_mask);
        for slice in &assignment.slices {
            let mut output = Output::default();
            context.emit(kernel, slice.input(block, &mut mask), &mut output)?;
            let mut open = self.open();
            for rows in output.into_batches() {
                let (count, late) = (rows.num_rows(), open.add(side, slice.slice, rows));
                finished.late_rows += late as u64;
                finished.rows_taken += (count - late) as u64;
            }
        }
        context.scratch.slice_mask = mask;
        finished.slices = assignment.slices.len();
        context.buffers.slices = assignment.slices;
        finished.late.extend(assignment.late.take(block, self.index(), Some(window)));
        undelay(&mut finished.late, delay);
        Ok(())
    }

    fn charge(&self, context: &TaskContext<'_>, now_ns: u64) -> Result<(), KernelError> {
        let run = context.run;
        if !run.account.is_due(self.index(), 0, now_ns) {
            return Ok(());
        }
        let charged = run.account.charge(self.index(), 0, run.clock, || self.bytes());
        charged.map_err(|error| self.with_largest(error))
    }

    fn advance<'a>(&'a self, due: Due, context: &'a TaskContext<'_>) -> Result<Advanced<'a>, KernelError> {
        let mut closing = self.closing();
        let has_window = self.close_next(&mut closing, due.until, context.run)?;
        if !has_window {
            let left = left(None, due.until, due.until);
            return Ok(Advanced { until: due.until, leaving: Leaving::Now(left) });
        }
        let (part, end, is_last) = self.next_part(&mut closing, due.rows_max, context.run)?;
        let until = if is_last { end } else { end - 1 };
        Ok(Advanced { until, leaving: Leaving::Later(Box::new(move || left(part, end, until))) })
    }

    fn report_early(&self, context: &TaskContext<'_>) -> Result<EarlyRows, KernelError> {
        let mut closing = self.closing();
        if !self.report_next(&mut closing, context.run)? {
            return Ok(EarlyRows { rows: Vec::new(), are_all: true });
        }
        let (part, end, _) = self.next_part(&mut closing, context.run.block_rows, context.run)?;
        let Left { rows, .. } = left(part, end, end)?;
        Ok(EarlyRows { rows, are_all: false })
    }

    fn holding(&self) -> Holding {
        let bytes = self.bytes() as u64;
        let open = self.open();
        Holding::Windows(OpenWindows {
            window: self.bounds,
            is_shared: false,
            slices: open.slices() as u64,
            bytes,
            next_end: open.next_end(),
        })
    }

    fn clear(&self) {
        *self.closing() = None;
        self.closing_bytes.store(0, Ordering::Relaxed);
        *self.open() = self.no_rows();
    }

    fn snapshot(&self, into: Vec<u8>) -> Result<Vec<u8>, SnapshotError> {
        match &*self.closing() {
            Some(_) => Err(SnapshotError::UnderWay("a window is being joined")),
            None => take_into(&*self.open(), into),
        }
    }

    fn restore(&self, bytes: &[u8]) -> Result<Restored, SnapshotError> {
        replace(&mut *self.open(), self.no_rows(), bytes)?;
        Ok(Restored::untimed())
    }

    fn renew(&self) -> Result<(), SnapshotError> {
        if self.closing().is_some() {
            return Err(SnapshotError::UnderWay("a window is being joined"));
        }
        renew(&mut *self.open(), self.no_rows())
    }
}
