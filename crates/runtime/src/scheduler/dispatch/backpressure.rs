//! Whether there is room for more: the backpressure, which reaches from a slow sink up to its sources, and to nothing else.

use super::alignment;
use crate::graph::{NodeRef, StreamRef};
use crate::scheduler::fairness::Region;
use crate::state::{PipelineState, State, TargetState};

/// Blocks that may wait in front of a pipeline, or batches in front of a sink, for each worker.
pub(super) const QUEUED_PER_WORKER_MAX: usize = 8;

/// Whether an operator takes a block at a port, where so much may wait and there are so many workers. Where state is short of memory, a stream that is ahead
/// of others waits for them: what they make final is free then.
pub(super) fn takes_block(
    state: &State,
    (operator, port): (usize, usize),
    feeding: &PipelineState,
    (room, workers): (usize, usize),
) -> bool {
    let node = &state.operators[operator];
    operator_has_room(state, operator, room)
        && !(node.is_freed_by_time && node.inputs.is_ahead(port) && state.waiting.lacks_state())
        && node.control.takes_block(&node.inputs, feeding.slices_per_block <= 1, workers)
}

/// Whether all who read a stream have room.
pub(super) fn has_room(state: &State, stream: StreamRef, room: usize) -> bool {
    let consumers = state.consumers(stream);
    consumers.pipelines.iter().all(|&pipeline| pipeline_has_room(state, pipeline, room))
        && !consumers.operators.iter().any(|&operator| state.operators[operator].must_advance())
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

/// Whether rows may wait in front of an operator.
fn operator_has_room(state: &State, operator: usize, room: usize) -> bool {
    let queue = &state.operators[operator].queue;
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
    /// It has no room, or is a source whose event time is behind.
    Node(NodeRef),
    /// There is none for rows that wait.
    Memory,
}

/// What a source that could be read waits for, if it does: another source whose event time is behind, or what is
/// furthest downstream of it and has no room.
pub(crate) fn held_back_by(state: &State, workers: usize) -> Option<HeldBackBy> {
    // What is held back fills what is behind it as well.
    let awaited = state.regions.all.iter().find_map(|region| alignment::awaited(state, region)).map(NodeRef::Source);
    let full_behind = |source| full(state, StreamRef::Source(source), (workers * QUEUED_PER_WORKER_MAX, workers));
    let mut sources = (0..state.sources.len()).filter(|&source| !state.sources[source].ended);
    let node = awaited.or_else(|| sources.find_map(full_behind));
    let lacks_memory = || {
        let has_room = state.waiting.has_room();
        let is_open = |region: &&Region| region.sources.iter().any(|&source| !state.sources[source].ended);
        state.regions.all.iter().filter(is_open).any(|region| !has_memory(state, region, has_room))
    };
    node.map(HeldBackBy::Node).or_else(|| lacks_memory().then_some(HeldBackBy::Memory))
}

/// What keeps a stream from going on.
fn full(state: &State, stream: StreamRef, (room, workers): (usize, usize)) -> Option<NodeRef> {
    let consumers = state.consumers(stream);
    if let Some(&sink) = consumers.sinks.iter().find(|&&sink| !sink_has_room(state, sink, room)) {
        return Some(NodeRef::Sink(sink));
    }
    let behind = |stream| full(state, stream, (room, workers));
    let full_at = |operator| behind(StreamRef::Operator(operator)).or(Some(NodeRef::Operator(operator)));
    if let Some(&operator) = consumers.operators.iter().find(|&&operator| state.operators[operator].must_advance()) {
        return full_at(operator);
    }
    let pipeline = *consumers.pipelines.iter().find(|&&pipeline| !pipeline_has_room(state, pipeline, room))?;
    let below = match state.pipelines[pipeline].target {
        TargetState::Stream { .. } => behind(StreamRef::Pipeline(pipeline)),
        TargetState::Operator { operator, port } => {
            let takes_block = takes_block(state, (operator, port), &state.pipelines[pipeline], (room, workers));
            if takes_block { None } else { full_at(operator) }
        }
    };
    below.or(Some(NodeRef::Pipeline(pipeline)))
}
