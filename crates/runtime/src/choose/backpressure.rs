//! Whether there is room for more: the backpressure, which reaches from a slow sink up to its sources, and to nothing else.

use crate::graph::StreamRef;
use crate::operator::Part;
use crate::state::{PipelineState, State, TargetState};
use crate::turn::Region;
use crate::window::WindowState;

/// Blocks that may wait in front of a pipeline, or batches in front of a sink, for each worker.
pub(super) const QUEUED_PER_WORKER_MAX: usize = 8;

/// Blocks that each worker but one may add to windows while others are being closed.
const BLOCKS_AHEAD_PER_WORKER: usize = 2;

/// Of windows longer than blocks, so many ends are passed meanwhile, however many workers there are.
const ENDS_AHEAD_MAX: usize = 2;

/// Whether a window takes rows: while its windows are being closed, only as many as other workers need to be busy meanwhile. Slices wait for their
/// turn in memory, and outside of the cache: of windows longer than blocks as much waits for each end as the window has.
pub(super) fn may_run_ahead(node: &WindowState, feeding: &PipelineState, workers: usize) -> bool {
    let most = (workers - 1) * BLOCKS_AHEAD_PER_WORKER;
    let most = if feeding.slices_per_block <= 1 { most.min(ENDS_AHEAD_MAX) } else { most };
    !node.must_close() || node.blocks_ahead() < most
}

/// Whether all who read a stream have room.
pub(super) fn has_room(state: &State, stream: StreamRef, room: usize) -> bool {
    let consumers = state.consumers(stream);
    consumers.pipelines.iter().all(|&pipeline| pipeline_has_room(state, pipeline, room))
        && !consumers.windows.iter().any(|&window| state.windows[window].must_close())
        && consumers.sinks.iter().all(|&sink| sink_has_room(state, sink, room))
}

/// Whether so many blocks do not wait in front of a pipeline, nor as much as an operator may have waiting.
fn pipeline_has_room(state: &State, pipeline: usize, room: usize) -> bool {
    let node = &state.pipelines[pipeline];
    node.order.outstanding() < room && !state.waiting.is_full_of(node.queue.bytes())
}

fn sink_has_room(state: &State, sink: usize, room: usize) -> bool {
    let node = &state.sinks[sink];
    node.waiting() < room && !state.waiting.is_full_of(node.queue.bytes())
}

/// Whether functions OVER rows take what a pipeline makes of its blocks.
pub(super) fn over_has_room(state: &State, over: usize, room: usize) -> bool {
    let queue = &state.overs[over].queue;
    queue.len() < room && !state.waiting.is_full_of(queue.bytes())
}

/// Whether more may wait of what a region reads, where rows of the run may wait at all if `has_room`: no region fills the room of the others, and one of which nothing
/// waits may read in any case.
pub(super) fn has_memory(state: &State, region: &Region, has_room: bool) -> bool {
    if !state.waiting.is_limited() || !state.regions.are_several() {
        return has_room;
    }
    let share = state.waiting.share(state.regions.all.len());
    if has_room && state.waiting.bytes() < share {
        return true;
    }
    let bytes = state.bytes_in(region);
    bytes == 0 || has_room && bytes < share
}

/// What keeps sources from being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeldBackBy {
    /// It has no room.
    Part(Part),
    /// There is none for rows that wait.
    Memory,
}

/// What a source that could be read waits for, if it does: what is furthest downstream of it and has no room.
pub(crate) fn held_back_by(state: &State, workers: usize) -> Option<HeldBackBy> {
    let mut sources = (0..state.sources.len()).filter(|&source| !state.sources[source].ended);
    let part = sources.find_map(|source| full(state, StreamRef::Source(source), workers * QUEUED_PER_WORKER_MAX));
    let lacks_memory = || {
        let has_room = state.waiting.has_room();
        let is_open = |region: &&Region| region.sources.iter().any(|&source| !state.sources[source].ended);
        state.regions.all.iter().filter(is_open).any(|region| !has_memory(state, region, has_room))
    };
    part.map(HeldBackBy::Part).or_else(|| lacks_memory().then_some(HeldBackBy::Memory))
}

/// What keeps a stream from going on.
fn full(state: &State, stream: StreamRef, room: usize) -> Option<Part> {
    let consumers = state.consumers(stream);
    if let Some(&sink) = consumers.sinks.iter().find(|&&sink| !sink_has_room(state, sink, room)) {
        return Some(Part::Sink(sink));
    }
    if let Some(&window) = consumers.windows.iter().find(|&&window| state.windows[window].must_close()) {
        return full(state, StreamRef::Window(window), room).or(Some(Part::Window(window)));
    }
    let pipeline = *consumers.pipelines.iter().find(|&&pipeline| !pipeline_has_room(state, pipeline, room))?;
    let below = match state.pipelines[pipeline].target {
        TargetState::Stream { .. } => full(state, StreamRef::Pipeline(pipeline), room),
        TargetState::Over { over, .. } if over_has_room(state, over, room) => None,
        TargetState::Over { over, .. } => full(state, StreamRef::Over(over), room).or(Some(Part::Over(over))),
        TargetState::Window { window, .. } if !state.windows[window].must_close() => None,
        TargetState::Window { window, .. } => {
            full(state, StreamRef::Window(window), room).or(Some(Part::Window(window)))
        }
    };
    below.or(Some(Part::Pipeline(pipeline)))
}
