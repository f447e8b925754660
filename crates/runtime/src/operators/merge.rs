//! An operator that only tests have: it merges streams in event-time order. It shows what an operator needs, and its tests show that the
//! contract holds: nothing else of the runtime knows it.

use std::sync::{Arc, PoisonError};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use pelton_data::time::{WATERMARK_MAX, WATERMARK_MIN};
use pelton_data::{Block, Micros, TimeColumn};
use pelton_state::kernel::{KernelCall, KernelError, KernelInput};

use super::{
    Advanced, Control, Due, Holding, Leaving, Left, OperatorNode, Restored, Seen, SnapshotError, Start,
    StatefulOperator, WaitingRows,
};
use crate::operators::context::TaskContext;
use crate::operators::inputs::Inputs;
use crate::state::finished::Finished;
use crate::sync::{Mutex, MutexGuard};

mod tests;

/// Rows that leave in one part.
const PART_ROWS: usize = 3;

/// Two columns: numbers, and their times.
struct Merge {
    /// Which of the graph's operators, once it has started.
    index: Option<usize>,
    /// Times and numbers of rows that the watermark has not passed.
    waiting: Mutex<Vec<(Micros, i64)>>,
}

/// All rows before this have left.
struct MergeControl(Micros);

fn node() -> OperatorNode {
    OperatorNode(Box::new(Merge { index: None, waiting: Mutex::default() }))
}

/// Rows of these times and numbers.
fn batch(rows: &[(Micros, i64)]) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1)));
    let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.0)));
    RecordBatch::try_from_iter([("v", numbers), ("at", times)]).expect("columns are as long as each other")
}

fn rows(batch: &RecordBatch) -> impl Iterator<Item = (Micros, i64)> {
    let times = batch.column(1).as_primitive::<TimestampMicrosecondType>().values();
    times.iter().copied().zip(batch.column(0).as_primitive::<Int64Type>().values().iter().copied())
}

impl Merge {
    fn waiting(&self) -> MutexGuard<'_, Vec<(Micros, i64)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StatefulOperator for Merge {
    fn name(&self) -> &str {
        "merge"
    }

    fn time_column(&self) -> Option<TimeColumn> {
        TimeColumn::new(1, batch(&[]).schema().field(1).data_type())
    }

    fn start(&mut self, start: &Start) -> Box<dyn Control> {
        self.index = Some(start.index);
        Box::new(MergeControl(WATERMARK_MIN))
    }

    fn take(
        &self,
        _port: usize,
        kernel: KernelCall<'_>,
        block: &Block,
        context: &mut TaskContext<'_>,
        finished: &mut Finished,
    ) -> Result<(), KernelError> {
        context.emit(kernel, KernelInput::all(block), &mut finished.output)?;
        finished.rows_taken = finished.output_rows() as u64;
        Ok(())
    }

    fn advance<'a>(&'a self, due: Due, context: &'a TaskContext<'_>) -> Result<Advanced<'a>, KernelError> {
        let mut waiting = self.waiting();
        waiting.extend(due.rows.iter().flat_map(|(_, arriving)| rows(&arriving.rows)));
        waiting.sort_unstable();
        let count = waiting.partition_point(|(time, _)| *time < due.until).min(PART_ROWS);
        let leaving: Vec<(Micros, i64)> = waiting.drain(..count).collect();
        let until = waiting.first().map_or(due.until, |(time, _)| due.until.min(*time));
        let operator = self.index.expect("the run has started");
        context.run.account.charge_now(operator, 0, size_of_val(waiting.as_slice()))?;
        let rows = leaving.last().map(|(newest, _)| (batch(&leaving), *newest)).into_iter().collect();
        Ok(Advanced { until, leaving: Leaving::Now(Ok(Left { rows, until, late_rows: 0, late: None })) })
    }

    fn holding(&self) -> Holding {
        let waiting = self.waiting();
        let bytes = size_of_val(waiting.as_slice()) as u64;
        Holding::Rows(WaitingRows { are_by_time: true, rows: waiting.len() as u64, bytes })
    }

    fn clear(&self) {
        self.waiting().clear();
    }

    fn snapshot(&self, mut into: Vec<u8>) -> Result<Vec<u8>, SnapshotError> {
        into.clear();
        into.extend(
            self.waiting().iter().flat_map(|(time, number)| [time.to_le_bytes(), number.to_le_bytes()].concat()),
        );
        Ok(into)
    }

    fn restore(&self, bytes: &[u8]) -> Result<Restored, SnapshotError> {
        let numbers = bytes.chunks_exact(8).map(|bytes| i64::from_le_bytes(bytes.try_into().expect("they are eight")));
        let numbers: Vec<i64> = numbers.collect();
        *self.waiting() = numbers.chunks_exact(2).map(|row| (row[0], row[1])).collect();
        Ok(Restored::untimed())
    }

    fn renew(&self) -> Result<(), SnapshotError> {
        let bytes = self.snapshot(Vec::new())?;
        self.restore(&bytes).map(|_| ())
    }
}

impl Control for MergeControl {
    fn is_due(&self, inputs: &Inputs) -> bool {
        inputs.watermark() > self.0
    }

    fn advanced(&mut self, until: Micros) {
        self.0 = until;
    }

    fn gives_way(&self) -> bool {
        true
    }

    fn time_due(&self, _inputs: &Inputs, seen: &Seen) -> Option<Micros> {
        (self.0 <= seen.filled_until && self.0 != WATERMARK_MAX).then(|| self.0.saturating_add(1))
    }
}
