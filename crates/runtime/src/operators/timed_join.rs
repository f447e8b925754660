//! Joins of rows by the distance of their times: rows of both sides wait until the watermark has passed them, and are joined in the order of their times by one
//! worker at a time. The columns of pairs are put together by several at once.

use std::sync::{Arc, PoisonError};

use arrow::array::{Array, RecordBatch};
use pelton_data::block::ticks;
use pelton_data::join::{JoinSpec, Side};
use pelton_data::time::WATERMARK_MIN;
use pelton_data::{Block, Micros, TimeColumn};
use pelton_state::join::streams::{LeavingPairs, Residual, TimedJoin};
use pelton_state::kernel::{KernelCall, KernelError, KernelInput};
use pelton_state::snapshot::{renew, replace, take_into};

use super::window::late;
use super::{
    Advanced, Control, Due, Holding, Leaving, Left, OperatorNode, Restored, Seen, SnapshotError, Start,
    StatefulOperator, WaitingRows,
};
use crate::operators::context::TaskContext;
use crate::operators::inputs::Inputs;
use crate::state::finished::Finished;
use crate::state::results::Timed;
use crate::sync::{Mutex, MutexGuard};

/// A join of rows by the distance of their times, fed by the pipelines of both sides.
pub struct TimedJoinNode {
    /// For people.
    pub name: String,
    /// What is joined.
    pub spec: Arc<JoinSpec>,
    /// A condition beside keys and times.
    pub residual: Option<Residual>,
    /// The side that each port feeds.
    pub sides: Vec<Side>,
}

struct TimedJoinOperator {
    node: TimedJoinNode,
    /// Which of the graph's operators, once it has started.
    index: Option<usize>,
    rows: Mutex<TimedJoin>,
}

impl TimedJoinNode {
    fn no_rows(&self) -> TimedJoin {
        TimedJoin::new(self.spec.clone(), self.residual.clone())
    }
}

impl From<TimedJoinNode> for OperatorNode {
    fn from(node: TimedJoinNode) -> OperatorNode {
        let rows = Mutex::new(node.no_rows());
        OperatorNode(Box::new(TimedJoinOperator { node, index: None, rows }))
    }
}

impl TimedJoinOperator {
    fn index(&self) -> usize {
        self.index.expect("the run has started")
    }

    fn rows(&self) -> MutexGuard<'_, TimedJoin> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows that leave, each batch with its newest time.
    fn output(&self, pairs: &[LeavingPairs], joined: Micros) -> Result<Vec<Timed>, KernelError> {
        let mut timed = Vec::new();
        for pairs in pairs {
            let with_newest = |rows: RecordBatch| {
                let newest = self.newest(&rows, joined);
                (rows, newest)
            };
            timed.extend(pairs.output()?.into_iter().map(with_newest));
        }
        Ok(timed)
    }

    /// The newest time of rows that leave, or else that up to which rows have been joined.
    fn newest(&self, rows: &RecordBatch, joined: Micros) -> Micros {
        let newest = self.node.spec.output_time.and_then(|time| {
            let ticks = ticks(rows.column(time.index));
            let newest = (0..ticks.len()).filter(|&row| ticks.is_valid(row)).map(|row| ticks.value(row)).max();
            newest.map(|tick| tick.saturating_mul(time.micros_per_tick))
        });
        newest.unwrap_or(joined)
    }
}

impl StatefulOperator for TimedJoinOperator {
    fn name(&self) -> &str {
        &self.node.name
    }

    fn time_column(&self) -> Option<TimeColumn> {
        self.node.spec.output_time
    }

    fn start(&mut self, start: &Start) -> Box<dyn Control> {
        self.index = Some(start.index);
        Box::new(TimedJoinControl { joined: WATERMARK_MIN, aftermath: self.rows().aftermath() })
    }

    fn take(
        &self,
        _port: usize,
        kernel: KernelCall<'_>,
        block: &Block,
        context: &mut TaskContext<'_>,
        finished: &mut Finished,
    ) -> Result<(), KernelError> {
        if block.rows() == 0 {
            return Ok(());
        }
        let late = late(block);
        let mask = late.as_ref().map(|late| late.others.as_slice());
        context.emit(kernel, KernelInput { mask, ..KernelInput::all(block) }, &mut finished.output)?;
        finished.rows_taken = finished.output_rows() as u64;
        if let Some(late) = late {
            finished.late.extend(late.rows.take(block, self.index(), None));
        }
        Ok(())
    }

    /// Takes rows, and joins the next before the watermark.
    fn advance<'a>(&'a self, due: Due, context: &'a TaskContext<'_>) -> Result<Advanced<'a>, KernelError> {
        let mut join = self.rows();
        let mut late_rows = 0;
        for (port, arriving) in due.rows {
            late_rows += join.add(self.node.sides[port], arriving.rows)? as u64;
        }
        let (pairs, joined) = join.advance(due.until, due.rows_max)?;
        context.run.account.charge_frames(self.index(), context.run.clock, || join.bytes())?;
        let until = join.results_until(joined);
        drop(join);
        let leave = move || {
            let rows = self.output(&pairs, joined)?;
            Ok(Left { rows, until, late_rows, late: None })
        };
        Ok(Advanced { until: joined, leaving: Leaving::Later(Box::new(leave)) })
    }

    fn holding(&self) -> Holding {
        let join = self.rows();
        Holding::Rows(WaitingRows { are_by_time: true, rows: join.rows() as u64, bytes: join.bytes() as u64 })
    }

    fn clear(&self) {
        *self.rows() = self.node.no_rows();
    }

    fn snapshot(&self, into: Vec<u8>) -> Result<Vec<u8>, SnapshotError> {
        take_into(&*self.rows(), into)
    }

    fn restore(&self, bytes: &[u8]) -> Result<Restored, SnapshotError> {
        replace(&mut *self.rows(), self.node.no_rows(), bytes)?;
        Ok(Restored::untimed())
    }

    fn renew(&self) -> Result<(), SnapshotError> {
        renew(&mut *self.rows(), self.node.no_rows())
    }
}

/// When rows are joined.
struct TimedJoinControl {
    /// Rows before this have been joined, all of them.
    joined: Micros,
    /// So long after a row's time it leaves at the latest, if it has no match.
    aftermath: Micros,
}

impl Control for TimedJoinControl {
    fn is_due(&self, inputs: &Inputs) -> bool {
        inputs.watermark() > self.joined
    }

    fn advanced(&mut self, until: Micros) {
        self.joined = until;
    }

    /// By processing time no row has a later one than when it came.
    fn time_due(&self, _inputs: &Inputs, seen: &Seen) -> Option<Micros> {
        let last = seen.filled_until.saturating_add(self.aftermath);
        match self.joined {
            joined if joined <= seen.filled_until => Some(joined.saturating_add(1)),
            joined if joined <= last => Some(last.saturating_add(1)),
            _ => None,
        }
    }
}
