//! Rows of a block on their way into slices.

use std::sync::Arc;

use arrow::array::Int64Array;
use arrow::datatypes::FieldRef;
use pelton_data::aggregate::position;
use pelton_data::time::WATERMARK_MAX;
use pelton_data::window::{Combination, Emission, Window};
use pelton_data::{Block, Micros};
use pelton_state::count::RowCounter;
use pelton_state::kernel::{KernelCall, KernelError, KernelInput};
use pelton_state::ranking::Ranker;
use pelton_state::slice::{SliceRows, SliceStore};

use super::assign::{assign, late_rows, rows_until};
use super::{WindowOperator, charge_open};
use crate::late::{LateList, TooLate};
use crate::operators::context::TaskContext;
use crate::state::finished::Finished;

impl WindowOperator {
    pub(super) fn take_block(
        &self,
        port: usize,
        kernel: KernelCall<'_>,
        block: &Block,
        context: &mut TaskContext<'_>,
        finished: &mut Finished,
    ) -> Result<(), KernelError> {
        let node = &self.node;
        if node.window.goes_by_arrival() && block.stamp.watermark != WATERMARK_MAX {
            finished.stamp.watermark = rows_until(block);
        }
        if block.rows() == 0 {
            return Ok(());
        }
        let late = self.aggregate(port, kernel, block, context, finished)?;
        finished.rows_taken = block.rows() as u64 - late.count;
        if !node.is_shared() {
            finished.late.extend(late.take(block, self.index(), Some(&node.window)));
        }
        undelay(&mut finished.late, node.emission.delay);
        Ok(())
    }

    /// Adds a block's rows to its slices. Returns those that are late, and notes how many slices there are, and when windows are corrected.
    fn aggregate(
        &self,
        port: usize,
        kernel: KernelCall<'_>,
        block: &Block,
        context: &mut TaskContext<'_>,
        finished: &mut Finished,
    ) -> Result<LateList, KernelError> {
        let node = &self.node;
        if let Window::RowsByKey { .. } = node.window {
            return self.count(kernel, block, context, finished);
        }
        let slices = std::mem::take(&mut context.buffers.slices);
        let delayed = (node.emission.delay > 0).then(|| delayed(block, node.emission));
        let assigned = delayed.as_ref().unwrap_or(block);
        let mut assignment = assign(assigned, &node.window, node.emission.lateness, slices);
        if assignment.is_behind {
            let late = node.shared_by.iter().map(|shared| {
                let kind = &shared.window;
                late_rows(block, kind).take(block, shared.operator, Some(kind))
            });
            finished.late.extend(late.flatten());
        }
        if node.emission.lateness > 0 {
            let slices = assignment.slices.iter().map(|rows| rows.slice);
            finished
                .corrections
                .extend(slices.filter(|slice| slice.may_correct(&node.window)).map(|slice| slice.first_end));
        }
        finished.slices = assignment.slices.len();
        if let Some(ranker) = &node.ranker {
            let with_arrivals = ranker.arrival().map(|arrival| with_arrivals(block, arrival, port));
            let block = with_arrivals.as_ref().unwrap_or(block);
            self.choose(ranker, kernel, block, context, &assignment.slices)?;
            return Ok(assignment.late);
        }
        if node.combination == Combination::Buckets && node.window != Window::Global {
            assignment = assignment.into_buckets(&node.window);
            finished.slices = assignment.slices.len();
        }
        let (slices, scratch) = (&assignment.slices, &mut *context.scratch);
        let allowed_bytes = context.run.account.allowed(self.index());
        let add = |store: &mut SliceStore| kernel.aggregate_slices(block, slices, store, scratch);
        let own = &self.slices()[context.worker];
        if own.add(assignment.slices.len(), node.over_until(&block.stamp), allowed_bytes, add)? {
            self.charge_slices_now(context.worker, context.run)?;
        }
        context.buffers.slices = assignment.slices;
        Ok(assignment.late)
    }

    /// Counts a block's rows by their keys. No other worker does so meanwhile.
    fn count(
        &self,
        kernel: KernelCall<'_>,
        block: &Block,
        context: &mut TaskContext<'_>,
        finished: &mut Finished,
    ) -> Result<LateList, KernelError> {
        let count = |counter: &mut RowCounter| kernel.count(KernelInput::all(block), counter, context.scratch);
        self.slices()[0].count(rows_until(block), count)?;
        finished.slices = 1;
        Ok(LateList::default())
    }

    /// Adds the rows of a block that may be among the first of their windows.
    fn choose(
        &self,
        ranker: &Ranker,
        kernel: KernelCall<'_>,
        block: &Block,
        context: &mut TaskContext<'_>,
        slices: &[SliceRows],
    ) -> Result<(), KernelError> {
        let (mut batches, mut mask) = (Vec::new(), Vec::new());
        for slice in slices {
            kernel.emit(&[slice.input(block, &mut mask)], &mut batches, context.scratch)?;
            for batch in batches.drain(..).filter(|batch| batch.num_rows() > 0) {
                let candidates = ranker.choose(&batch)?;
                let mut open = self.node.store.open();
                open.add_rows(slice.slice, candidates);
                charge_open(self.index(), &open, context.run)?;
            }
        }
        Ok(())
    }
}

/// The same rows behind a watermark that is as far back as windows are delayed.
pub(crate) fn delayed(block: &Block, emission: Emission) -> Block {
    let mut block = block.clone();
    let stamp = &mut block.stamp;
    stamp.watermark_before = emission.delayed(stamp.watermark_before);
    stamp.watermark_delay = stamp.watermark_delay.saturating_add(emission.delay);
    block
}

/// Tells late rows how far time had come, not how far it had for windows that are delayed.
pub(crate) fn undelay(late: &mut [TooLate], delay: Micros) {
    let rows = late.iter_mut().flat_map(|late| &mut late.rows.1);
    rows.for_each(|row| row.watermark = row.watermark.saturating_add(delay));
}

/// The same rows with their positions among all rows of a window behind their columns, where these are known.
fn with_arrivals(block: &Block, (field, is_known): (FieldRef, bool), port: usize) -> Block {
    let first = position(port, block.stamp.rows_before);
    let positions = first..first + block.rows() as u64;
    let positions = positions.map(|position| if is_known { position.cast_signed() } else { 0 });
    block.with_column(field, Arc::new(Int64Array::from_iter_values(positions)))
}
