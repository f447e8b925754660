//! Functions OVER rows: rows wait until the watermark has passed them, and are computed in the order of their times by one worker at a time.

use std::sync::PoisonError;

use arrow::array::{Int64Array, RecordBatch};
use pelton_data::block::ticks;
use pelton_data::over::OverSpec;
use pelton_data::time::{WATERMARK_MAX, WATERMARK_MIN};
use pelton_data::{Block, Micros, TimeColumn, TimeRange};
use pelton_state::kernel::{KernelCall, KernelError, KernelInput};
use pelton_state::over::OverRows;
use pelton_state::snapshot::{renew, replace, take_into};

use super::window::late;
use super::{
    Advanced, Control, Due, Holding, Leaving, Left, OperatorNode, Restored, Seen, SnapshotError, Start,
    StatefulOperator, WaitingRows,
};
use crate::operators::context::RunContext;
use crate::operators::context::TaskContext;
use crate::operators::inputs::Inputs;
use crate::state::finished::Finished;
use crate::sync::{Mutex, MutexGuard};

/// Functions of the rows around each row, fed by the pipelines that target it.
pub struct OverNode {
    /// For people.
    pub name: String,
    /// What is computed.
    pub spec: OverSpec,
    /// For each port the column of its pipeline's input that is passed on as the time of the rows, if the code looks at it for nothing else.
    pub passed_times: Vec<Option<usize>>,
}

struct OverOperator {
    node: OverNode,
    /// Once it has started.
    started: Option<Started>,
}

struct Started {
    /// Which of the graph's operators.
    index: usize,
    ports: usize,
    rows: Mutex<OverRows>,
}

impl From<OverNode> for OperatorNode {
    fn from(node: OverNode) -> OperatorNode {
        OperatorNode(Box::new(OverOperator { node, started: None }))
    }
}

impl OverOperator {
    fn started(&self) -> &Started {
        self.started.as_ref().expect("the run has started")
    }

    fn rows(&self) -> MutexGuard<'_, OverRows> {
        self.started().rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Functions of the rows of all ports, none of which have come.
    fn no_rows(&self) -> OverRows {
        OverRows::new(self.node.spec.clone(), self.started().ports)
    }

    /// The newest time of rows that leave, all of which are before `until`; the largest where they are in no order of time.
    fn newest(&self, rows: &RecordBatch, until: Micros) -> Micros {
        let spec = &self.node.spec;
        if spec.time.is_none() {
            return WATERMARK_MAX;
        }
        let times = spec.output_time().map(|time| (ticks(rows.column(time.index)), time.micros_per_tick));
        // Rows that wait for others of their keys leave in no order of time.
        let last = |ticks: &Int64Array| match spec.frame_end() {
            Some(_) => ticks.values().iter().copied().max(),
            None => ticks.values().last().copied(),
        };
        let newest = times.and_then(|(ticks, tick)| last(&ticks).map(|last| last.saturating_mul(tick)));
        newest.unwrap_or(until)
    }

    fn charge_rows(&self, rows: &OverRows, run: RunContext<'_>) -> Result<(), KernelError> {
        run.account.charge_frames(self.started().index, run.clock, || rows.bytes())
    }
}

impl StatefulOperator for OverOperator {
    fn name(&self) -> &str {
        &self.node.name
    }

    fn time_column(&self) -> Option<TimeColumn> {
        self.node.spec.output_time()
    }

    fn is_freed_by_time(&self) -> bool {
        self.node.spec.time.is_some()
    }

    fn start(&mut self, start: &Start) -> Box<dyn Control> {
        let rows = Mutex::new(OverRows::new(self.node.spec.clone(), start.ports));
        self.started = Some(Started { index: start.index, ports: start.ports, rows });
        Box::new(OverControl { passed: WATERMARK_MIN })
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
        let late = self.node.spec.time.and_then(|_| late(block));
        let mask = late.as_ref().map(|late| late.others.as_slice());
        // Times that nobody looks at stay as they lie in memory.
        let passed = block.time_column().filter(|time| self.node.passed_times[port] == Some(time.index));
        let raw = passed.map(|_| block.unshifted());
        let input = KernelInput { mask, ..KernelInput::all(raw.as_ref().unwrap_or(block)) };
        context.emit(kernel, input, &mut finished.output)?;
        finished.rows_taken = finished.output_rows() as u64;
        if let Some(time) = passed {
            finished.time_shift_ticks = block.time_shift_ticks();
            let has_all = finished.output.only().is_some_and(|all| all.num_rows() == block.rows());
            let has_all = has_all && block.in_time_order();
            let ticks = |range: TimeRange| [range.min, range.max].map(|end| end / time.micros_per_tick).into();
            finished.in_time_order = block.time_range().filter(|_| has_all).map(ticks);
        }
        if let Some(late) = late {
            finished.late.extend(late.rows.take(block, self.started().index, None));
        }
        Ok(())
    }

    /// Takes rows, and returns the next before the watermark, with what is computed for them.
    fn advance<'a>(&'a self, due: Due, context: &'a TaskContext<'_>) -> Result<Advanced<'a>, KernelError> {
        let mut ordered = self.rows();
        let mut late_rows = 0;
        for (port, arriving) in due.rows {
            late_rows += ordered.add(port, arriving)? as u64;
        }
        let (rows, passed) = ordered.advance(due.until, (due.rows_max, context.run.block_rows))?;
        self.charge_rows(&ordered, context.run)?;
        let with_newest = |rows: RecordBatch| {
            let newest = self.newest(&rows, passed);
            (rows, newest)
        };
        let rows = rows.into_iter().map(with_newest).collect();
        let left = Left { rows, until: ordered.left_until(passed), late_rows, late: None };
        Ok(Advanced { until: passed, leaving: Leaving::Now(Ok(left)) })
    }

    fn holding(&self) -> Holding {
        let rows = self.rows();
        Holding::Rows(WaitingRows {
            are_by_time: self.node.spec.time.is_some(),
            rows: rows.waiting_rows() as u64,
            bytes: rows.bytes() as u64,
        })
    }

    fn clear(&self) {
        *self.rows() = self.no_rows();
    }

    fn snapshot(&self, into: Vec<u8>) -> Result<Vec<u8>, SnapshotError> {
        take_into(&*self.rows(), into)
    }

    fn restore(&self, bytes: &[u8]) -> Result<Restored, SnapshotError> {
        replace(&mut *self.rows(), self.no_rows(), bytes)?;
        Ok(Restored::untimed())
    }

    fn renew(&self) -> Result<(), SnapshotError> {
        renew(&mut *self.rows(), self.no_rows())
    }
}

/// When rows are computed.
struct OverControl {
    /// Rows before this have come, all of them.
    passed: Micros,
}

impl Control for OverControl {
    fn is_due(&self, inputs: &Inputs) -> bool {
        inputs.watermark() > self.passed
    }

    fn advanced(&mut self, until: Micros) {
        self.passed = until;
    }

    /// By processing time no row has a later one than when it came.
    fn time_due(&self, _inputs: &Inputs, seen: &Seen) -> Option<Micros> {
        (self.passed <= seen.filled_until).then(|| self.passed.saturating_add(1))
    }

    fn pending_rows(&self, seen: &Seen) -> u64 {
        seen.rows_in.saturating_sub(seen.rows_out)
    }
}
