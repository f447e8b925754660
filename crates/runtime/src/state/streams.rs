//! Streams of stateless pipelines that other pipelines read: their blocks carry the time of those that they were computed from.
//!
//! A row is late by the watermark that the rows before it in its partition had reached. Behind a filter some of these rows are missing, so that watermark
//! cannot be computed from the rows that are left. It is computed from all rows, and a block is cut where a row is behind it: each
//! part passes on the watermark that its rows are judged by, and which rows are late depends neither on the filter nor on where blocks begin.

use std::sync::Arc;

use arrow::datatypes::Schema;
use pelton_data::time::WATERMARK_MIN;
use pelton_data::{Block, Micros, Stamp, TimeColumn};
use pelton_state::kernel::{KernelCall, KernelError, KernelInput};

use crate::checkpoint::StreamSnapshot;
use crate::graph::StreamRef;
use crate::operators::context::TaskContext;
use crate::state::State;
use crate::state::finished::{Finished, Output};

#[cfg(test)]
mod tests;

/// What a pipeline's stream has passed on.
#[derive(Debug)]
pub(crate) struct PassedOn {
    watermark: Micros,
    blocks: u64,
    rows: u64,
}

impl PassedOn {
    /// What its blocks are numbered up to.
    pub fn stream(&self) -> StreamSnapshot {
        StreamSnapshot { blocks: self.blocks, rows: self.rows }
    }

    /// Goes on where it was at a cut. Its time comes with the first block.
    pub fn restore(&mut self, stream: &StreamSnapshot) {
        (self.blocks, self.rows) = (stream.blocks, stream.rows);
    }
}

impl Default for PassedOn {
    fn default() -> Self {
        PassedOn { watermark: WATERMARK_MIN, blocks: 0, rows: 0 }
    }
}

/// Consecutive rows of a block that can be judged by the same watermark.
#[derive(Debug, PartialEq, Eq)]
struct Span {
    first: usize,
    end: usize,
    watermark: Micros,
}

/// Cuts a block so that, of the rows of each span, the same are late by the span's watermark as by the one that the rows before each had reached.
///
/// A row that is not behind the latter is in time by both, since watermarks never go back: it may be in any span. A row that is behind it needs a span of just
/// that watermark. Such rows are few, and do not move the watermark.
fn spans(block: &Block) -> Vec<Span> {
    let Stamp { watermark_before, watermark_delay: delay, .. } = block.stamp;
    let whole = Span { first: 0, end: block.rows(), watermark: watermark_before };
    let (Some(time), Some(range), Some(ticks)) = (block.time_column(), block.time_range(), block.raw_ticks()) else {
        return vec![whole];
    };
    // Rows in their order are behind no watermark but that of the blocks before, unless the delay is below zero.
    let in_order = block.in_time_order() && delay >= 0;
    if in_order || range.min >= watermark_before.max(range.max.saturating_sub(delay)) {
        return vec![whole];
    }
    let (mut spans, mut span, mut watermark) = (Vec::new(), whole, watermark_before);
    for (row, tick) in ticks.iter().enumerate() {
        let micros = (tick + block.time_shift_ticks()) * time.micros_per_tick;
        if micros < watermark && span.watermark != watermark {
            let next = Span { first: row, end: block.rows(), watermark };
            spans.push(Span { end: row, ..std::mem::replace(&mut span, next) });
        }
        watermark = watermark.max(micros.saturating_sub(delay));
    }
    spans.push(span);
    spans
}

/// Computes the rows of a block for pipelines that read them, with their event times in that column.
///
/// # Errors
/// What the code returns, or where a row has no event time.
pub(crate) fn compute(
    kernel: KernelCall<'_>,
    block: &Block,
    time: Option<TimeColumn>,
    context: &mut TaskContext<'_>,
) -> Result<Vec<Block>, KernelError> {
    let mut blocks = Vec::new();
    if block.rows() == 0 {
        return Ok(blocks);
    }
    for Span { first, end, watermark } in spans(block) {
        let mut output = Output::default();
        context.emit(kernel, KernelInput { block, first, end, mask: None }, &mut output)?;
        for batch in output.into_batches().filter(|batch| batch.num_rows() > 0) {
            let mut computed = Block::new(batch, time).map_err(|error| KernelError::Expression(error.to_string()))?;
            computed.stamp = Stamp {
                watermark_before: watermark,
                // No row moves the watermark: those that do may be missing.
                watermark_delay: Micros::MAX,
                is_idle: false,
                is_marker: false,
                ..block.stamp
            };
            blocks.push(computed);
        }
    }
    Ok(blocks)
}

impl State {
    /// Passes on what a pipeline made of a block to the pipelines that read its stream: how far time has come, whether nothing comes for now, and what marks
    /// latency pass on also where no row is left.
    pub fn pass_stream_on(&mut self, pipeline: usize, finished: Finished) {
        let Finished { stamp, mut blocks, .. } = finished;
        let stream = StreamRef::Pipeline(pipeline);
        if stamp.is_marker && blocks.is_empty() {
            self.mark_sinks(stream, stamp.origin());
        }
        let passed_on = &mut self.pipelines[pipeline].passed_on;
        let has_news = stamp.watermark > passed_on.watermark || stamp.is_idle || stamp.is_marker;
        if blocks.is_empty() && has_news {
            blocks.push(Block::punctuation(Arc::new(Schema::empty()), stamp));
        }
        let last = blocks.len().saturating_sub(1);
        for (number, block) in blocks.iter_mut().enumerate() {
            let is_last = number == last;
            if is_last {
                // Before it, rows of the same block are to come.
                passed_on.watermark = passed_on.watermark.max(stamp.watermark);
            }
            block.stamp.watermark = passed_on.watermark;
            block.stamp.is_idle = stamp.is_idle && is_last;
            block.stamp.is_marker = stamp.is_marker && is_last;
            block.stamp.sequence = passed_on.blocks;
            block.stamp.rows_before = passed_on.rows;
            passed_on.blocks += 1;
            passed_on.rows += block.rows() as u64;
        }
        self.deliver(stream, &mut blocks);
    }

    /// Whether no block waits that becomes rows of a pipeline.
    pub fn is_drained(&self, pipeline: usize) -> bool {
        let node = &self.pipelines[pipeline];
        let is_input_drained = match node.input {
            StreamRef::Pipeline(upstream) => self.is_drained(upstream),
            StreamRef::Source(_) | StreamRef::Operator(_) => true,
        };
        node.order.outstanding() == 0 && is_input_drained
    }
}
