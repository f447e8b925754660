//! How a worker does each kind of task.

use std::iter;
use std::sync::Arc;
use std::sync::PoisonError;

use arrow::array::{ArrayRef, RecordBatch, TimestampMillisecondArray};
use pelton_data::time::WATERMARK_MIN;
use pelton_data::{Block, Micros, TimeColumn};
use pelton_state::kernel::{KernelCall, KernelError, KernelInput, Scratch};

use crate::adapt::Ran;
use crate::error::RunError;
use crate::graph::{NodeRef, SourceTime};
use crate::operators::context::{RunContext, TaskContext};
use crate::operators::{Advanced, Due, Leaving};
use crate::scheduler::buffers::TaskBuffers;
use crate::scheduler::dispatch::Task;
use crate::shared::Shared;
use crate::source::sequence::{DecodedChunk, cut};
use crate::source::{Chunk, LeftOut, Read, Ready, Rows};
use crate::state::finished::Finished;
use crate::state::{TargetState, streams};
use crate::sync::atomic::Ordering;

/// One worker on a task of a run.
pub(crate) struct Worker<'a> {
    pub shared: &'a Shared,
    /// Which of the workers, from 0: windows have a slice store for each.
    pub index: usize,
    /// When it began with the task.
    pub started_ns: u64,
    pub scratch: &'a mut Scratch,
    pub buffers: &'a mut TaskBuffers,
}

impl Worker<'_> {
    /// Does the task.
    pub fn run(&mut self, task: Task) {
        self.shared.options.budget.allowance().set();
        match task {
            Task::Read { source, partition, ready } => self.read(source, partition, ready),
            Task::Compute { pipeline, blocks } => self.compute(pipeline, blocks),
            Task::Advance { operator, due } => self.advance(operator, due),
            Task::Report { operator } => self.report_early(operator),
            Task::Write { sink } => self.write(sink),
            Task::Send { link } => self.send(link),
            Task::Receive { link } => self.receive(link),
        }
    }

    /// Takes a chunk; from then on the next worker may take the next one while this one decodes. A partition that has nothing now is left
    /// until its time, or until there was another event outside.
    fn read(&self, source: usize, partition: usize, mut ready: Ready) {
        let shared = self.shared;
        let seen = shared.waker.seen();
        let mut node = shared.sources[source].lock().unwrap_or_else(PoisonError::into_inner);
        let source_read = node.as_mut().expect("a source is there until the run has ended");
        let read = source_read.read_ready(partition, &mut ready);
        if let Some(time) = source_read.began_behind() {
            for &operator in &shared.graph.sources[source].operators {
                shared.began_behind[operator].fetch_max(time, Ordering::Relaxed);
            }
        }
        let (partitions, watermark) = (source_read.partitions(), source_read.watermark(partition));
        drop(node);
        let wait_behind = ready.wait.take();
        let ingested_ns = shared.clock.nanos();
        let ingested_micros = shared.clock.micros_at(ingested_ns);
        let mut state = shared.state();
        let node = &mut state.sources[source];
        node.reading = false;
        node.asked_ns = ingested_ns;
        let sequencer = &mut node.sequencer;
        sequencer.grow(partitions);
        let chunk = match read {
            Ok(None) => None,
            Ok(Some(Read::Chunk(chunk))) => Some(chunk),
            Ok(Some(Read::Wait(wait))) => {
                node.emptied.push(ready);
                if sequencer.wait(partition, seen.outside, ingested_ns, wait) {
                    state.partition_stopped(source, ingested_ns);
                }
                return state.end_source_if_done(source);
            }
            Ok(Some(Read::End)) => {
                sequencer.partitions[partition].ended = true;
                state.partition_stopped(source, ingested_ns);
                return state.end_source_if_done(source);
            }
            Err(error) => {
                let position = sequencer.hand_out(partition);
                let error = RunError::Source { table: node.name.clone(), error: Box::new(error) };
                return state.chunk_decoded(source, position, Err(error));
            }
        };
        let position = sequencer.hand_out(partition);
        if let Some(wait) = wait_behind {
            // What was read is outstanding, so it is not idle.
            sequencer.wait(partition, seen.outside, ingested_ns, wait);
        }
        // A policy that lets others wait has blocks of one size, whatever they cost.
        let block_rows = match shared.crew.policy().is_fair() {
            true => state.statistics.block_rows(source, shared.options.block_rows),
            false => shared.options.block_rows,
        };
        let (is_chunk, are_blocks) = (chunk.is_some(), ready.batches.is_empty());
        let decode = || {
            let decoded = self.decode(source, chunk, ready, ingested_micros, block_rows);
            decoded.map(|chunk| DecodedChunk { partition, ingested_ns, ingested_micros, watermark, ..chunk })
        };
        if !is_chunk && are_blocks && shared.graph.sources[source].time != SourceTime::Processing {
            // They need only be handed on. Whoever looked before that would find nothing, and read more than is needed.
            return state.chunk_decoded(source, position, decode());
        }
        drop(state);
        if is_chunk {
            shared.progressed(iter::once(NodeRef::Source(source)));
        }
        let decoded = decode();
        shared.state().chunk_decoded(source, position, decoded);
    }

    /// Makes blocks of at most `block_rows` rows of a chunk, or of the rows that are `ready`.
    fn decode(
        &self,
        source: usize,
        chunk: Option<Chunk>,
        mut ready: Ready,
        now: Micros,
        block_rows: usize,
    ) -> Result<DecodedChunk, RunError> {
        let node = &self.shared.graph.sources[source];
        let failed = |error| RunError::Source { table: node.name.clone(), error: Box::new(error) };
        let (mut left_out, mut provenance) = (LeftOut::default(), None);
        if let Some(chunk) = chunk {
            let decoded = chunk().map_err(failed)?;
            (left_out, provenance) = (decoded.left_out, decoded.provenance);
            match decoded.rows {
                Rows::Batches(batches) => ready.batches = batches,
                Rows::Blocks(blocks) => ready.blocks = blocks,
            }
        }
        let Ready { batches, blocks, .. } = &mut ready;
        if node.time == SourceTime::Processing {
            batches.extend(blocks.drain(..).map(|block| block.to_record_batch()));
        }
        let time_column = match node.time {
            SourceTime::Event { column, .. } => Some(column),
            SourceTime::Processing => {
                let last = node.schema.fields().len() - 1;
                TimeColumn::new(last, node.schema.field(last).data_type())
            }
            SourceTime::None | SourceTime::Noted { .. } => None,
        };
        let mut rows_before = 0;
        let mut block = |batch: RecordBatch, rows_of_all: usize| {
            let provenance = provenance.as_ref().map(|provenance| provenance.from_row(rows_before));
            rows_before += batch.num_rows();
            let block = Block::part(batch, time_column, rows_of_all).map_err(|error| {
                failed(crate::source::SourceError::Input { place: node.name.clone(), problem: error.to_string() })
            });
            block.map(|mut block| {
                block.provenance = provenance;
                block
            })
        };
        if blocks.iter().any(|block| block.rows() > block_rows) {
            let large = std::mem::take(blocks);
            blocks.extend(
                large
                    .iter()
                    .flat_map(|block| cut(block.rows(), block_rows).map(|(first, rows)| block.slice(first, rows))),
            );
        }
        for mut batch in batches.drain(..) {
            if node.time == SourceTime::Processing {
                batch = append_processing_time(batch, &node.schema, now);
            }
            let rows = batch.num_rows();
            if (1..=block_rows).contains(&rows) {
                blocks.push(block(batch, rows)?);
                continue;
            }
            for (first, part_rows) in cut(rows, block_rows) {
                blocks.push(block(batch.slice(first, part_rows), rows)?);
            }
        }
        if let SourceTime::Event { ahead_max: Some(ahead_max), .. } = node.time {
            take_apart(blocks, now.saturating_add(ahead_max));
        }
        Ok(DecodedChunk { partition: 0, ready, ingested_ns: 0, ingested_micros: now, watermark: None, left_out })
    }

    fn compute(&mut self, pipeline: usize, mut blocks: Vec<(u64, Block)>) {
        let shared = self.shared;
        let node = &shared.graph.pipelines[pipeline];
        let mut pick = node.kernel.pick();
        self.scratch.checks_nulls = pick.checks_nulls;
        // All blocks of a task find rows of the same tables.
        let lookups = node.kernel.lookups();
        pick.sample(&blocks, &lookups, self.scratch);
        let thread_ns = || shared.clock.thread_nanos();
        let misses_before = pick.is_measured.then(|| self.buffers.counters.misses()).flatten();
        let begun_ns = pick.is_measured.then(thread_ns);
        let (rows, count) = (blocks.iter().map(|(_, block)| block.rows() as u64).sum::<u64>(), blocks.len() as u64);
        let mut results = std::mem::take(&mut self.buffers.results);
        let kernel = KernelCall { kernel: pick.kernel.as_ref(), lookups: &lookups };
        match shared.targets[pipeline] {
            TargetState::Stream { is_output: true, .. } => self.emit_together(kernel, &blocks, &mut results),
            target => {
                let computed = |(_, block): &_| (1, self.compute_block(target, kernel, block));
                results.extend(blocks.iter().map(computed));
            }
        }
        let cost_ns = begun_ns.map(|begun_ns| thread_ns() - begun_ns);
        let misses = misses_before.and_then(|before| Some(self.buffers.counters.misses()?.since(before)));
        let ended_ns = shared.clock.nanos();
        let busy_ns = ended_ns - self.started_ns;
        self.charge(pipeline, &mut results, ended_ns);
        let met = std::mem::take(&mut self.scratch.met);
        let at_ns = ended_ns - shared.started_ns;
        node.kernel.ran(pick, &Ran { worker: self.index, rows, blocks: count, busy_ns, cost_ns, misses, at_ns, met });
        let succeeded = || results.iter().flat_map(|(_, result)| result);
        let output_rows: usize = succeeded().map(Finished::output_rows).sum();
        let slices: usize = succeeded().map(|finished| finished.slices).sum();
        let mut state = shared.state();
        let progress = &mut state.pipelines[pipeline];
        progress.output_rows_per_block = output_rows / blocks.len().max(1);
        progress.slices_per_block = slices / blocks.len().max(1);
        progress.rows += rows;
        progress.rows_out += match shared.targets[pipeline] {
            TargetState::Operator { .. } => succeeded().map(|finished| finished.rows_taken).sum(),
            TargetState::Stream { .. } => output_rows as u64,
        };
        progress.blocks += count;
        progress.busy_ns += busy_ns;
        if let Some((_, oldest)) = blocks.first().filter(|_| rows > 0) {
            state.load.passed(ended_ns.saturating_sub(oldest.stamp.ingested_ns));
        }
        let mut first = 0;
        for (count, result) in results.drain(..) {
            let result = result.map_err(|error| RunError::Kernel { pipeline: node.name.clone(), error });
            state.blocks_finished(pipeline, (blocks[first].0, count), result);
            first += count;
        }
        blocks.clear();
        state.emptied.blocks.push(blocks);
        drop(state);
        self.buffers.results = results;
    }

    /// Charges what this worker has of the operator that a pipeline feeds, if that is due; where it is too much, the last block has failed.
    fn charge(&mut self, pipeline: usize, results: &mut [(usize, Result<Finished, KernelError>)], now_ns: u64) {
        let TargetState::Operator { operator, .. } = self.shared.targets[pipeline] else { return };
        let node = self.shared.operator(operator);
        if let Err(error) = node.charge(&self.context(Some(operator)), now_ns)
            && let Some((_, last)) = results.last_mut().filter(|(_, last)| last.is_ok())
        {
            *last = Err(error);
        }
    }

    /// Computes the rows of several blocks. Each batch counts as one of the first blocks', none of whose rows have waited less than its own, and the
    /// last one as that of all blocks that are left. Where a block fails, the rows before it leave first, so the error is the last block's.
    fn emit_together(
        &mut self,
        kernel: KernelCall<'_>,
        blocks: &[(u64, Block)],
        results: &mut Vec<(usize, Result<Finished, KernelError>)>,
    ) {
        let with_rows = blocks.iter().filter(|(_, block)| block.rows() > 0);
        let mut inputs = self.buffers.inputs();
        inputs.extend(with_rows.map(|(_, block)| KernelInput::all(block)));
        let emitted = kernel.emit(&inputs, &mut self.buffers.batches, self.scratch);
        self.buffers.take_back(inputs);
        let (mut left, last) = blocks.split_at(blocks.len() - usize::from(emitted.is_err()));
        // A batch has rows of several blocks where there are fewer: the newest may be of the last.
        let with_rows = || left.iter().filter(|(_, block)| block.rows() > 0);
        let newest = with_rows().map(|(_, block)| block.stamp.event_time).max();
        let newest = newest.filter(|_| self.buffers.batches.len() < with_rows().count());
        let mut batches = self.buffers.batches.drain(..);
        while !left.is_empty() {
            // There are seldom more batches than blocks.
            let count = if batches.len() > 1 { 1 } else { left.len() };
            let (of_batch, others) = left.split_at(count);
            // Without rows only what marks latency is passed on.
            let is_marker = |(_, block): &&(u64, Block)| block.stamp.is_marker && batches.len() == 0;
            let (_, block) = of_batch.iter().find(is_marker).unwrap_or(&of_batch[0]);
            let mut finished = Finished::new(block);
            finished.stamp.event_time = newest.unwrap_or(block.stamp.event_time);
            let batches_max = if others.is_empty() { usize::MAX } else { 1 };
            batches.by_ref().take(batches_max).for_each(|batch| finished.output.push(batch));
            results.push((count, Ok(finished)));
            left = others;
        }
        drop(batches);
        if let (Err(error), [_]) = (emitted, last) {
            results.push((1, Err(error)));
        }
    }

    fn compute_block(
        &mut self,
        target: TargetState,
        kernel: KernelCall<'_>,
        block: &Block,
    ) -> Result<Finished, KernelError> {
        let mut finished = Finished::new(block);
        match target {
            TargetState::Stream { time, .. } => {
                finished.blocks = streams::compute(kernel, block, time, &mut self.context(None))?;
            }
            TargetState::Operator { operator, port } => {
                let node = self.shared.operator(operator);
                node.take(port, kernel, block, &mut self.context(Some(operator)), &mut finished)?;
            }
        }
        Ok(finished)
    }

    /// What an operator, or a pipeline that has none, is given for the task.
    fn context(&mut self, operator: Option<usize>) -> TaskContext<'_> {
        let shared = self.shared;
        let began_behind = |operator: usize| shared.began_behind[operator].load(Ordering::Relaxed);
        let run = RunContext {
            account: &shared.account,
            budget: &shared.options.budget,
            clock: &shared.clock,
            block_rows: shared.options.block_rows,
            workers: shared.options.workers,
            began_behind: operator.map_or(WATERMARK_MIN, began_behind),
        };
        TaskContext { run, worker: self.index, scratch: self.scratch, buffers: self.buffers }
    }

    /// Advances an operator: while its rows are read out, another worker may advance it further.
    fn advance(&mut self, operator: usize, due: Due) {
        let shared = self.shared;
        let node = shared.operator(operator);
        let failed = |error| RunError::Kernel { pipeline: node.name().to_owned(), error };
        let started_ns = self.started_ns;
        let busy_ns = || shared.clock.nanos() - started_ns;
        let context = self.context(Some(operator));
        let Advanced { until, leaving } = match node.advance(due, &context) {
            Ok(advanced) => advanced,
            Err(error) => return shared.state().fail(failed(error)),
        };
        let read_out = match leaving {
            Leaving::Now(left) => {
                let busy_ns = busy_ns();
                let mut state = shared.state();
                state.operators[operator].busy_ns += busy_ns;
                let position = state.operator_advanced(operator, until);
                return state.rows_left(operator, position, left.map_err(failed));
            }
            Leaving::Later(read_out) => read_out,
        };
        let mut state = shared.state();
        let position = state.operator_advanced(operator, until);
        let must_go_on = state.operators[operator].is_due() || state.has_blocks_for(operator);
        drop(state);
        if must_go_on {
            let feeding = shared.targets.iter().enumerate().filter(|(_, target)| target.feeds(operator));
            shared.progressed(feeding.map(|(pipeline, _)| NodeRef::Pipeline(pipeline)));
        }
        let left = read_out().map_err(failed);
        let busy_ns = busy_ns();
        let mut state = shared.state();
        state.operators[operator].busy_ns += busy_ns;
        state.rows_left(operator, position, left);
    }

    /// Reports what an operator comes to so far.
    fn report_early(&mut self, operator: usize) {
        let node = self.shared.operator(operator);
        let result = node.report_early(&self.context(Some(operator)));
        let busy_ns = self.shared.clock.nanos() - self.started_ns;
        let mut state = self.shared.state();
        state.operators[operator].busy_ns += busy_ns;
        match result {
            Ok(early) => state.reported_early(operator, early),
            Err(error) => state.fail(RunError::Kernel { pipeline: node.name().to_owned(), error }),
        }
    }
}

/// Cuts blocks so that each has only event times up to `limit`, or only later ones.
fn take_apart(blocks: &mut Vec<Block>, limit: Micros) {
    if blocks.iter().filter_map(Block::time_range).any(|range| range.min <= limit && limit < range.max) {
        *blocks = std::mem::take(blocks).iter().flat_map(|block| apart(block, limit)).collect();
    }
}

fn apart(block: &Block, limit: Micros) -> Vec<Block> {
    let (Some(time), Some(ticks)) = (block.time_column(), block.raw_ticks()) else { return vec![block.clone()] };
    let is_ahead = |tick: &i64| (tick + block.time_shift_ticks()) * time.micros_per_tick > limit;
    let mut first = 0;
    let runs = ticks.chunk_by(|a, b| is_ahead(a) == is_ahead(b)).map(|run| {
        first += run.len();
        block.slice(first - run.len(), run.len())
    });
    runs.collect()
}

fn append_processing_time(batch: RecordBatch, schema: &arrow::datatypes::SchemaRef, now: Micros) -> RecordBatch {
    let times = TimestampMillisecondArray::from_value(now / 1_000, batch.num_rows()).with_timezone("+00:00");
    let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
    columns.push(Arc::new(times));
    RecordBatch::try_new(schema.clone(), columns).expect("a source decodes the columns it was asked for")
}
