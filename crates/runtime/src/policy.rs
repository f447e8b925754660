//! What runs next.
//!
//! One simple policy for now: what is furthest downstream first, so that rows leave before new ones enter, and inputs
//! only while there is room. Whether there is room is the backpressure: it reaches from a slow sink up to its sources,
//! and to nothing else.

use arrow::array::RecordBatch;
use pelton_data::time::{WATERMARK_MIN, slice_start};
use pelton_data::{Block, Micros};

use crate::clock::Clock;
use crate::graph::{SourceTime, StreamRef};
use crate::state::{State, Stop, TargetState};
use crate::wake::Seen;
use crate::window::WindowState;

/// Blocks that may wait in front of a pipeline, or batches in front of a sink, for each worker.
const QUEUED_PER_WORKER_MAX: usize = 8;

/// Chunks of a source that may be in decoding at once, beyond one for each worker.
const CHUNKS_AHEAD_MAX: usize = 2;

/// Blocks that one task takes at most: more would delay what is downstream, fewer cost more in scheduling.
const BLOCKS_PER_TASK_MAX: usize = 8;

/// Rows that a task's results should have at most: more would leave the cache before they are written.
const OUTPUT_ROWS_PER_TASK_MAX: usize = 16 * 1024;

/// Slices that a task's blocks should have rows of at most: the tables of more would leave the cache before their windows close.
const SLICES_PER_TASK_MAX: usize = 64;

/// Blocks that each worker but one may add to windows while others are being closed.
const BLOCKS_AHEAD_PER_WORKER: usize = 2;

/// How often processing time is said to have passed while no input comes, in nanoseconds.
const PROCESSING_TICK_NS: u64 = 5_000_000;

/// Something for one worker to do.
pub(crate) enum Task {
    /// Take a chunk of this partition and decode it.
    Read { source: usize, partition: usize },
    /// Run the pipeline's kernel over these blocks.
    Compute { pipeline: usize, blocks: Vec<(u64, Block)> },
    /// Close the windows that end at or before the watermark.
    Close { window: usize, watermark: Micros },
    /// Report what the windows come to so far that have not ended.
    Report { window: usize },
    /// Put these rows, with the numbers of their inputs, in order, and compute those before the watermark.
    Order { over: usize, rows: Vec<(usize, RecordBatch)>, watermark: Micros },
    /// Write what waits, or flush, or end the sink.
    Write { sink: usize },
}

/// What a worker finds when it looks for work in a run.
pub(crate) enum Next {
    /// This.
    Task(Task),
    /// Nothing before so many nanoseconds have passed, or something happens; for ever without a number.
    Wait(Option<u64>),
    /// Nothing any more: said once.
    Finished,
}

/// Chooses the next task for one of `workers` workers and marks it as taken. `seen` is the count of events so far.
pub(crate) fn next(state: &mut State, workers: usize, seen: Seen, clock: &Clock) -> Next {
    let now_ns = clock.nanos();
    let room = workers * QUEUED_PER_WORKER_MAX;
    let must_stop = state.must_stop();
    let task = match must_stop {
        true if state.must_write() => write(state, seen),
        true => None,
        false => write(state, seen)
            .or_else(|| close(state, room, workers, false))
            .or_else(|| other(state, room, workers, seen, now_ns))
            .or_else(|| close(state, room, workers, true)),
    };
    if let Some(task) = task {
        state.tasks_running += 1;
        return Next::Task(task);
    }
    if must_stop {
        return if state.must_finish() { Next::Finished } else { Next::Wait(None) };
    }
    if tick(state, now_ns, clock.micros()) {
        return next(state, workers, seen, clock);
    }
    Next::Wait(wait_ns(state, now_ns))
}

fn write(state: &mut State, seen: Seen) -> Option<Task> {
    let sink = (0..state.sinks.len()).find(|&index| {
        let node = &state.sinks[index];
        let free = !node.writing && !node.ended && node.blocked_at != Some(seen.outside);
        free && (!node.queue.is_empty() || node.unflushed || node.must_end())
    })?;
    state.sinks[sink].writing = true;
    Some(Task::Write { sink })
}

/// A task that is neither writing nor closing. Closing has given way to it.
fn other(state: &mut State, room: usize, workers: usize, seen: Seen, now_ns: u64) -> Option<Task> {
    let task = report(state, room, now_ns)
        .or_else(|| order(state, room))
        .or_else(|| compute(state, room, workers))
        .or_else(|| read(state, room, workers, seen, now_ns))?;
    state.windows.iter_mut().for_each(|node| node.gives_way = false);
    Some(task)
}

/// Closing goes on in parts, between which something else has its turn: what waits for it waits for no more than a part.
fn close(state: &mut State, room: usize, workers: usize, in_any_case: bool) -> Option<Task> {
    let window = (0..state.windows.len()).find(|&index| {
        let node = &state.windows[index];
        let is_its_turn = in_any_case || !node.gives_way;
        let is_free = !node.closing && node.closed.outstanding() < workers;
        is_its_turn && is_free && node.must_close() && has_room(state, StreamRef::Window(index), room)
    })?;
    let node = &mut state.windows[window];
    node.closing = true;
    Some(Task::Close { window, watermark: node.watermark() })
}

fn report(state: &mut State, room: usize, now_ns: u64) -> Option<Task> {
    let window = (0..state.windows.len()).find(|&index| {
        let node = &state.windows[index];
        // Between two parts of a close the windows are neither open nor closed.
        node.is_at_rest()
            && node.report_ns().is_some_and(|at| at <= now_ns)
            && has_room(state, StreamRef::Window(index), room)
    })?;
    let node = &mut state.windows[window];
    node.closing = true;
    node.rows_since_ns = None;
    Some(Task::Report { window })
}

fn order(state: &mut State, room: usize) -> Option<Task> {
    let over = (0..state.overs.len()).find(|&index| {
        let node = &state.overs[index];
        !node.busy && node.must_run() && has_room(state, StreamRef::Over(index), room)
    })?;
    let node = &mut state.overs[over];
    node.busy = true;
    Some(Task::Order { over, rows: node.queue.drain(..).collect(), watermark: node.inputs.watermark() })
}

fn compute(state: &mut State, room: usize, workers: usize) -> Option<Task> {
    let pipeline = (0..state.pipelines.len()).rev().find(|&index| {
        let node = &state.pipelines[index];
        !node.queue.is_empty()
            && match node.target {
                TargetState::Stream { .. } => has_room(state, StreamRef::Pipeline(index), room),
                TargetState::Over { over, .. } => state.overs[over].queue.len() < room,
                TargetState::Window { window, .. } => may_run_ahead(&state.windows[window], workers),
            }
    })?;
    // How far time has come where the rows go. It is behind the blocks' own time but for one whose stream was idle.
    let time = match state.pipelines[pipeline].target {
        TargetState::Stream { .. } => WATERMARK_MIN,
        TargetState::Window { window, .. } => state.windows[window].inputs.watermark(),
        TargetState::Over { over, .. } => state.overs[over].inputs.watermark(),
    };
    let node = &mut state.pipelines[pipeline];
    let by_rows = OUTPUT_ROWS_PER_TASK_MAX / node.output_rows_per_block.max(1);
    let by_slices = SLICES_PER_TASK_MAX / node.slices_per_block.max(1);
    let blocks_max = by_rows.min(by_slices).clamp(1, BLOCKS_PER_TASK_MAX);
    let count = node.queue.len().div_ceil(workers).min(blocks_max);
    let blocks = node.queue.drain(..count).map(|(position, mut block)| {
        block.stamp.watermark_before = block.stamp.watermark_before.max(time);
        (position, block)
    });
    Some(Task::Compute { pipeline, blocks: blocks.collect() })
}

/// Whether a window takes rows: while its windows are being closed, only as many as other workers need to be busy meanwhile. Slices wait for their
/// turn in memory, and outside of the cache.
fn may_run_ahead(node: &WindowState, workers: usize) -> bool {
    !node.must_close() || node.blocks_ahead() < (workers - 1) * BLOCKS_AHEAD_PER_WORKER
}

fn read(state: &mut State, room: usize, workers: usize, seen: Seen, now_ns: u64) -> Option<Task> {
    if state.stop != Stop::No {
        return None;
    }
    let readable = (0..state.sources.len()).filter_map(|index| {
        let node = &state.sources[index];
        let free = !node.reading
            && !node.ended
            && node.sequencer.chunks.outstanding() < workers + CHUNKS_AHEAD_MAX
            && has_room(state, StreamRef::Source(index), room);
        Some((index, free.then(|| node.sequencer.partition_to_read(seen.outside, now_ns)).flatten()?))
    });
    // Of several inputs the one that has delivered least goes first: none starves, and their times advance together.
    let (source, partition) = readable.min_by_key(|&(index, _)| state.sources[index].rows)?;
    state.sources[source].reading = true;
    Some(Task::Read { source, partition })
}

fn has_room(state: &State, stream: StreamRef, room: usize) -> bool {
    let consumers = state.consumers(stream);
    consumers.pipelines.iter().all(|&pipeline| state.pipelines[pipeline].order.outstanding() < room)
        && consumers.sinks.iter().all(|&sink| state.sinks[sink].queue.len() < room)
}

/// Says that processing time has passed, for sources that have nothing to read. Returns whether it said so.
fn tick(state: &mut State, now_ns: u64, now: Micros) -> bool {
    let mut ticked = false;
    for index in 0..state.sources.len() {
        let node = &mut state.sources[index];
        let quiet = !node.ended && !node.reading && node.sequencer.chunks.outstanding() == 0;
        if node.time == SourceTime::Processing && quiet && state.stop == Stop::No && node.tick_ns <= now_ns {
            node.tick_ns = now_ns + PROCESSING_TICK_NS;
            state.punctuate(index, slice_start(now, 1_000, 0), now_ns);
            ticked = true;
        }
    }
    ticked
}

fn wait_ns(state: &State, now_ns: u64) -> Option<u64> {
    let sources = state.sources.iter().filter(|node| !node.ended && !node.reading);
    let reads = sources.filter_map(|node| {
        let tick = (node.time == SourceTime::Processing).then_some(node.tick_ns);
        // A partition that may be read already waits for room, not for time.
        let read = node.sequencer.wait_until_ns().filter(|&at| at > now_ns);
        [tick, read].into_iter().flatten().min()
    });
    // One that is due already waits for room, or for what is being done to its windows.
    let reports = state.windows.iter().filter_map(WindowState::report_ns).filter(|&at| at > now_ns);
    reads.chain(reports).min().map(|at| at.saturating_sub(now_ns).max(1))
}
