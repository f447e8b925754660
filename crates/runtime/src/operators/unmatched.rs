//! Joins that keep the rows of a bounded table: pairs pass, and when their streams have ended, the rows of the table leave that are in none.

use std::sync::{Arc, PoisonError};

use arrow::datatypes::SchemaRef;
use pelton_data::time::{WATERMARK_MAX, WATERMARK_MIN};
use pelton_data::{Block, Micros, TimeColumn};
use pelton_state::join::Bucket;
use pelton_state::join::unmatched::UnmatchedRows;
use pelton_state::kernel::{KernelCall, KernelError, KernelInput};
use pelton_state::snapshot::{renew, replace, take_into};

use super::{
    Advanced, Control, Due, Holding, Leaving, Left, OperatorNode, Restored, Seen, SnapshotError, Start,
    StatefulOperator, WaitingRows,
};
use crate::operators::context::TaskContext;
use crate::operators::inputs::Inputs;
use crate::state::finished::Finished;
use crate::sync::{Mutex, MutexGuard};

/// Pairs of rows of streams and of a table, and the rows of the table that are in none.
pub struct UnmatchedNode {
    /// For people.
    pub name: String,
    /// The table.
    pub bucket: Arc<Bucket>,
    /// The table's column that each column is; NULL without one. Pairs have the number of the table's row behind them.
    pub columns: Vec<Option<usize>>,
    /// The columns.
    pub schema: SchemaRef,
}

struct UnmatchedOperator {
    node: UnmatchedNode,
    /// Which of the graph's operators, once it has started.
    index: Option<usize>,
    rows: Mutex<UnmatchedRows>,
}

impl UnmatchedNode {
    fn rows(&self) -> UnmatchedRows {
        UnmatchedRows::new(self.bucket.clone(), self.columns.clone(), self.schema.clone())
    }
}

impl From<UnmatchedNode> for OperatorNode {
    fn from(node: UnmatchedNode) -> OperatorNode {
        let rows = Mutex::new(node.rows());
        OperatorNode(Box::new(UnmatchedOperator { node, index: None, rows }))
    }
}

impl UnmatchedOperator {
    fn rows(&self) -> MutexGuard<'_, UnmatchedRows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StatefulOperator for UnmatchedOperator {
    fn name(&self) -> &str {
        &self.node.name
    }

    fn time_column(&self) -> Option<TimeColumn> {
        None
    }

    fn is_freed_by_time(&self) -> bool {
        false
    }

    fn start(&mut self, start: &Start) -> Box<dyn Control> {
        self.index = Some(start.index);
        Box::new(UnmatchedControl { passed: WATERMARK_MIN })
    }

    fn take(
        &self,
        _port: usize,
        kernel: KernelCall<'_>,
        block: &Block,
        context: &mut TaskContext<'_>,
        finished: &mut Finished,
    ) -> Result<(), KernelError> {
        if block.rows() > 0 {
            context.emit(kernel, KernelInput::all(block), &mut finished.output)?;
            finished.rows_taken = finished.output_rows() as u64;
        }
        Ok(())
    }

    fn advance<'a>(&'a self, due: Due, context: &'a TaskContext<'_>) -> Result<Advanced<'a>, KernelError> {
        let mut rows = self.rows();
        let index = self.index.expect("the run has started");
        context.run.account.charge_frames(index, context.run.clock, || rows.bytes())?;
        let mut leaving: Vec<_> = due.rows.iter().map(|(_, arriving)| rows.pass(&arriving.rows)).collect();
        let mut until = due.until;
        if until == WATERMARK_MAX
            && let Some(unmatched) = rows.next_unmatched(due.rows_max.min(context.run.block_rows))?
        {
            leaving.push(unmatched);
            until -= 1;
        }
        let rows = leaving.into_iter().map(|batch| (batch, WATERMARK_MAX)).collect();
        let left = Left { rows, until, late_rows: 0, late: None };
        Ok(Advanced { until, leaving: Leaving::Now(Ok(left)) })
    }

    fn holding(&self) -> Holding {
        Holding::Rows(WaitingRows { are_by_time: false, rows: 0, bytes: self.rows().bytes() as u64 })
    }

    fn clear(&self) {
        *self.rows() = self.node.rows();
    }

    fn snapshot(&self, into: Vec<u8>) -> Result<Vec<u8>, SnapshotError> {
        take_into(&*self.rows(), into)
    }

    fn restore(&self, bytes: &[u8]) -> Result<Restored, SnapshotError> {
        replace(&mut *self.rows(), self.node.rows(), bytes)?;
        Ok(Restored::untimed())
    }

    fn renew(&self) -> Result<(), SnapshotError> {
        renew(&mut *self.rows(), self.node.rows())
    }
}

/// When rows leave: pairs at once, those that are in none at the end.
struct UnmatchedControl {
    /// The watermark of the pairs that have passed.
    passed: Micros,
}

impl Control for UnmatchedControl {
    fn is_due(&self, inputs: &Inputs) -> bool {
        inputs.watermark() > self.passed
    }

    fn advanced(&mut self, until: Micros) {
        self.passed = until;
    }

    fn time_due(&self, _inputs: &Inputs, _seen: &Seen) -> Option<Micros> {
        None
    }

    fn pending_rows(&self, seen: &Seen) -> u64 {
        seen.rows_in.saturating_sub(seen.rows_out)
    }
}
