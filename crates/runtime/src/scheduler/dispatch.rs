//! What can run in a run, and what of it does: the policy ranks the operators that can.
//!
//! What is furthest downstream is looked at first, and inputs only while there is room ([`backpressure`]).

use pelton_data::time::{WATERMARK_MIN, slice_start};
use pelton_data::{Block, Micros};

use crate::clock::Clock;
use crate::data_passing::Passing;
use crate::graph::{NodeRef, StreamRef};
use crate::operators::Due;
use crate::operators::state::OperatorState;
use crate::scheduler::fairness::{Order, Region};
use crate::scheduler::policy::{Candidate, Policy, Rank};
use crate::scheduler::statistics::NodeStatistics;
use crate::scheduler::wake::Seen;
use crate::source::Ready;
use crate::state::{PipelineState, State, Stop, TargetState};

mod alignment;

pub(crate) mod backpressure;

pub(crate) mod next;

use alignment::{NextRead, Readable};
use backpressure::{QUEUED_PER_WORKER_MAX, has_memory, has_room, takes_block};
use next::{Choice, Next, WORTH_WAKING_NS};

/// Chunks of a source that may be in decoding at once, beyond one for each worker.
const CHUNKS_AHEAD_MAX: usize = 2;

/// A run that is held back by the limit of memory is looked at again after so long.
const ROOM_WAIT_NS: u64 = 5_000_000;

/// Rows that a task's results should have at most: more would leave the cache before they are written.
const OUTPUT_ROWS_PER_TASK_MAX: usize = 16 * 1024;

/// Slices that a task's blocks should have rows of at most: the tables of more would leave the cache before their windows close.
const SLICES_PER_TASK_MAX: usize = 64;

/// How often processing time is said to have passed at most while no input comes, in nanoseconds.
const PROCESSING_TICK_NS: u64 = 5_000_000;

/// Something for one worker to do.
pub(crate) enum Task {
    /// Take a chunk of this partition and decode it; what needs no decoding goes into these lists.
    Read { source: usize, partition: usize, ready: Ready },
    /// Run the pipeline's kernel over these blocks.
    Compute { pipeline: usize, blocks: Vec<(u64, Block)> },
    /// Turn state of an operator into rows that is due, with the rows that have waited for it.
    Advance { operator: usize, due: Due },
    /// Report state of an operator that is not due.
    Report { operator: usize },
    /// Write what waits, or flush, or end the sink.
    Write { sink: usize },
    /// Hand rows on, event by event.
    Send { link: usize },
    /// Take the events that there are.
    Receive { link: usize },
}

/// What a worker looks for work with.
pub(crate) struct Look<'a> {
    pub policy: &'a dyn Policy,
    /// For how long priorities hold.
    pub epoch_ns: u64,
    /// Whether operators have threads of their own, which must know what can run.
    pub has_threads: bool,
    pub workers: usize,
    /// Whether there are other runs,
    pub has_runs: bool,
    /// and workers who have nothing to do.
    pub has_idle: bool,
    /// The region of the run that the worker was on last, if it was on any.
    pub last_region: Option<usize>,
    /// Whether what other workers are on is left to them.
    pub leaves_to_others: bool,
    /// The count of events so far.
    pub seen: Seen,
    pub clock: &'a Clock,
    pub now_ns: u64,
}

/// What a run has for workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    /// Something of this rank, or, where it is [`Rank::NONE`], nothing; it holds until that instant, or until something happens.
    Rank(Rank, u64),
    /// Nothing any more: said once.
    Finished,
}

/// A task that a worker has taken.
pub(crate) struct Taken {
    pub task: Task,
    pub node: NodeRef,
    /// Whether the run has something meanwhile that another worker is worth waking for,
    pub has_others: bool,
    /// or when it will, if nothing happens.
    pub until_ns: u64,
}

/// Looks at what a run has for workers, and notes it in the state.
pub(crate) fn offer(state: &mut State, look: &Look<'_>) -> Offer {
    if look.now_ns >= state.epoch_end_ns {
        state.epoch_end_ns = (look.now_ns / look.epoch_ns + 1) * look.epoch_ns;
        state.begin_epoch(look.now_ns);
    }
    // What there is no limit for is not counted.
    let is_limited = state.waiting.is_limited();
    let bytes = if is_limited { state.bytes_waiting() + state.bytes_decoding() } else { 0 };
    state.waiting.set(bytes);
    let mut can_run = std::mem::take(&mut state.can_run);
    can_run.clear();
    state.next = next(state, look, None, &mut can_run);
    state.can_run = can_run;
    if let Some(next) = state.next {
        return Offer::Rank(next.rank, state.epoch_end_ns);
    }
    if state.must_stop() {
        return if state.must_finish() { Offer::Finished } else { Offer::Rank(Rank::NONE, u64::MAX) };
    }
    if tick(state, look.now_ns, look.clock.micros()) {
        return offer(state, look);
    }
    Offer::Rank(Rank::NONE, wait_until_ns(state, look))
}

/// Takes the first task there is of an operator; where there is none, says when there will be, if nothing happens.
pub(crate) fn take_of(state: &mut State, look: &Look<'_>, node: NodeRef, turn: u64) -> Result<Taken, u64> {
    state.next = next(state, look, Some(node), &mut Vec::new());
    take(state, look, turn).ok_or_else(|| match node {
        NodeRef::Source(_) | NodeRef::Operator(_) => wait_until_ns(state, look),
        NodeRef::Sink(sink) => state.sinks[sink].flush_ns.map_or(u64::MAX, |at| at.max(look.now_ns + 1)),
        NodeRef::Pipeline(_) => u64::MAX,
    })
}

/// Takes what was offered last, unless that does not hold any more, as the `turn`th of all tasks.
pub(crate) fn take(state: &mut State, look: &Look<'_>, turn: u64) -> Option<Taken> {
    let next = state.next.take()?;
    let choice = next.choice;
    state.tasks_running += 1;
    let node = choice.node();
    let index = state.statistics.index(node);
    state.regions.begin(index, look.epoch_ns);
    let operator = &mut state.statistics.all[index];
    if operator.turn > state.load.walk_began {
        state.load.walk_began = turn - 1;
    }
    operator.turn = turn;
    operator.last_run_ns = look.now_ns;
    if !must_give_way(state, choice) {
        // What gives way has given way to it.
        state.operators.iter_mut().for_each(|node| node.gives_way = false);
    }
    let task = mark(state, look, choice);
    let is_left = |node: &PipelineState| !node.queue.is_empty() && !is_in_order(state, node);
    // All that there was takes so long.
    let is_long = next.work_ns >= WORTH_WAKING_NS;
    let is_left = matches!(choice, Choice::Compute(pipeline) if is_long && is_left(&state.pipelines[pipeline]));
    let has_others = next.has_others() || is_left;
    Some(Taken { task, node, has_others, until_ns: wait_until_ns(state, look) })
}

/// Whether a task is of the kind that gives way to others, or hands on what has been done.
fn must_give_way(state: &State, choice: Choice) -> bool {
    match choice {
        Choice::Write(_) | Choice::Report(_) => true,
        Choice::Advance(operator) => state.operators[operator].control.gives_way(),
        Choice::Compute(_) | Choice::Read(..) | Choice::Send(..) | Choice::Receive(..) => false,
    }
}

/// Marks a task as taken.
fn mark(state: &mut State, look: &Look<'_>, choice: Choice) -> Task {
    match choice {
        Choice::Write(sink) => {
            state.sinks[sink].writing = true;
            Task::Write { sink }
        }
        Choice::Advance(operator) => {
            let node = &mut state.operators[operator];
            node.advancing = true;
            let (rows, until) = (node.queue.take(node.queue.len()).collect(), node.reach());
            let rows_max = state.statistics.of_node(NodeRef::Operator(operator)).rows_in_order();
            Task::Advance { operator, due: Due { rows, until, rows_max } }
        }
        Choice::Report(operator) => {
            let node = &mut state.operators[operator];
            node.advancing = true;
            if !std::mem::replace(&mut node.reporting, true) {
                node.control.report_begins();
            }
            Task::Report { operator }
        }
        Choice::Compute(pipeline) => take_blocks(state, pipeline, look),
        Choice::Read(source, partition) => {
            let node = &mut state.sources[source];
            node.reading = true;
            Task::Read { source, partition, ready: node.emptied.pop().unwrap_or_default() }
        }
        Choice::Send(link, _) => {
            state.passing[link].sending = true;
            Task::Send { link }
        }
        Choice::Receive(link, _) => {
            state.passing[link].receiving = true;
            Task::Receive { link }
        }
    }
}

/// The task of the lowest rank; of those of one rank, that of the region that has been served for fewest epochs, and there what is furthest downstream. What is left
/// to others stands behind all else. `only` of one operator, where it is given. What `can_run` at
/// all is noted where operators have threads.
fn next(state: &State, look: &Look<'_>, only: Option<NodeRef>, can_run: &mut Vec<usize>) -> Option<Next> {
    if state.is_being_cut {
        return None;
    }
    let room = look.workers * QUEUED_PER_WORKER_MAX;
    let mut search = Search { state, look, room, only, can_run, next: None, least: None };
    let (to_pipelines, to_sinks) = state.passing.split_at(state.passing.len().min(state.pipelines.len()));
    let (to_pipelines, to_sinks) = ((0, to_pipelines), (to_pipelines.len(), to_sinks));
    if state.must_stop() {
        if state.must_write() {
            search.writes();
            search.passages(to_sinks);
        }
        return search.next;
    }
    search.writes();
    search.passages(to_sinks);
    search.advances(false);
    search.computations();
    search.passages(to_pipelines);
    search.reads();
    // GraphStatistics advance in parts, between which something else of the run has its turn, as urgent as the next part: what waits for an operator waits
    // for no more than a part, and the operator for no more than one task.
    search.advances(true);
    search.next
}

/// Where nothing stands by itself.
const BEHIND_ALL: Order = (Rank::NONE, u64::MAX, true, u64::MAX);

/// What was found so far of the tasks that could be taken.
struct Search<'a> {
    state: &'a State,
    look: &'a Look<'a>,
    /// What may wait in front of anything.
    room: usize,
    /// The operator that is looked for, if not all are.
    only: Option<NodeRef>,
    can_run: &'a mut Vec<usize>,
    next: Option<Next>,
    /// Where that stands.
    least: Option<(bool, Order)>,
}

impl Search<'_> {
    fn consider(&mut self, choice: Choice, pending_rows: Option<u64>, waiting_since_ns: u64) {
        self.place(choice, pending_rows, waiting_since_ns, false);
    }

    /// Where it gives way, it stands behind whatever else there is, which is as urgent as it then; before what is left to others.
    fn place(&mut self, choice: Choice, pending_rows: Option<u64>, waiting_since_ns: u64, gives_way: bool) {
        if !self.is_wanted(choice) {
            return;
        }
        let rank = self.rank_of(choice, pending_rows, waiting_since_ns);
        let work_ns = self.work_ns(choice, pending_rows);
        let (is_left, order) = self.order_of(choice, rank);
        let order = (is_left, if gives_way { BEHIND_ALL } else { order });
        if let Some(next) = self.next.filter(|_| self.least.is_some_and(|least| least <= order)) {
            let rank = if gives_way { next.rank.min(rank) } else { next.rank };
            self.next = Some(Next { rank, ..next.with_other(choice, work_ns) });
            return;
        }
        let next = Next { rank, choice, work_ns, others_ns: None };
        (self.next, self.least) = (Some(next.before(self.next)), Some(order));
    }

    /// Where a choice of that rank stands: behind others, where it is left to who is on its region.
    fn order_of(&self, choice: Choice, rank: Rank) -> (bool, Order) {
        let Search { state, look, .. } = *self;
        match state.regions.region(state.statistics.index(choice.node())) {
            None => (false, (rank, 0, false, 0)),
            Some(region) => {
                let service = &state.regions.all[region].service;
                let is_last = look.last_region == Some(region);
                let is_left = look.leaves_to_others && !is_last && service.is_under_way() && !rank.is_urgent();
                (is_left, state.regions.order(region, rank, is_last, look.epoch_ns, look.policy.is_fair()))
            }
        }
    }

    fn work_ns(&self, choice: Choice, pending_rows: Option<u64>) -> f64 {
        pending_rows.map_or(f64::INFINITY, |rows| rows as f64 * self.profile(choice.node()).cost_ns)
    }

    fn is_wanted(&mut self, choice: Choice) -> bool {
        let node = choice.node();
        if self.look.has_threads {
            self.can_run.push(self.state.statistics.index(node));
        }
        self.only.is_none_or(|only| only == node)
    }

    fn rank_of(&self, choice: Choice, pending_rows: Option<u64>, waiting_since_ns: u64) -> Rank {
        let operator = self.profile(choice.node());
        let Look { now_ns, epoch_ns, .. } = *self.look;
        let load = &self.state.load;
        self.look.policy.rank(&Candidate { operator, pending_rows, waiting_since_ns, load, now_ns, epoch_ns })
    }

    fn profile(&self, node: NodeRef) -> &NodeStatistics {
        &self.state.statistics.all[self.state.statistics.index(node)]
    }

    fn has_room(&self, stream: StreamRef) -> bool {
        has_room(self.state, stream, self.room)
    }

    fn writes(&mut self) {
        for (index, node) in self.state.sinks.iter().enumerate() {
            let free = !node.writing && !node.ended && node.blocked_at != Some(self.look.seen.outside);
            if free
                && (!node.queue.is_empty()
                    || node.must_flush(self.look.now_ns)
                    || node.wants_end(self.state.holds_ends))
            {
                let rows = node.queue.rows();
                // What is to be flushed or ended has waited since it was written.
                let since_ns = match node.queue.front() {
                    Some((_, origin)) => origin.ingested_ns,
                    None => self.profile(NodeRef::Sink(index)).last_run_ns,
                };
                self.consider(Choice::Write(index), Some(rows), since_ns);
            }
        }
    }

    /// Of operators that have, or have not, advanced or reported in part just now.
    fn advances(&mut self, give_way: bool) {
        let operators = self.state.operators.iter().enumerate();
        for (index, node) in operators.filter(|(_, node)| node.gives_way == give_way) {
            let choice = if node.can_advance(self.look.workers) {
                Some(Choice::Advance(index))
            } else {
                // What has been begun is done before a cut.
                let may_begin = node.reporting || !self.state.is_held;
                (may_begin && node.can_report(self.look.now_ns)).then_some(Choice::Report(index))
            };
            if let Some(choice) = choice.filter(|_| self.has_room(StreamRef::Operator(index))) {
                self.place(choice, Some(node.pending_rows()), node.results.ingested_ns, give_way);
            }
        }
    }

    fn computations(&mut self) {
        for (index, node) in self.state.pipelines.iter().enumerate().rev() {
            let Some((_, first)) = node.queue.front() else { continue };
            let has_room = match node.target {
                TargetState::Stream { .. } => self.has_room(StreamRef::Pipeline(index)),
                TargetState::Operator { operator, port } => {
                    takes_block(self.state, (operator, port), node, (self.room, self.look.workers))
                }
            };
            let is_free = !is_in_order(self.state, node) || node.order.outstanding() == node.queue.len();
            if has_room && is_free {
                self.consider(Choice::Compute(index), Some(node.queue.rows()), first.stamp.ingested_ns);
            }
        }
    }

    /// The queues from the one of this number on.
    fn passages(&mut self, (first, nodes): (usize, &[Passing])) {
        for (index, node) in nodes.iter().enumerate().rev() {
            let (rows, since_ns) = node.waiting();
            if node.can_receive() {
                self.consider(Choice::Receive(first + index, node.to), Some(rows), since_ns);
            }
            if node.can_send() {
                self.consider(Choice::Send(first + index, node.from), Some(rows), since_ns);
            }
        }
    }

    /// Of several inputs of a region the one whose event time is furthest behind, as far as it can be read.
    fn reads(&mut self) {
        let Search { state, look, room, .. } = *self;
        if state.stop != Stop::No || state.is_held {
            return;
        }
        let may_wait = state.waiting.has_room_or_awaits();
        let readable = |source: usize| {
            let node = &state.sources[source];
            let may_be_large = state.waiting.is_limited() && node.has_unknown_chunk();
            let is_free = !node.reading
                && !node.ended
                && !may_be_large
                && node.sequencer.chunks.outstanding() < look.workers + CHUNKS_AHEAD_MAX;
            match node.sequencer.partition_to_read(look.seen.outside, look.now_ns) {
                Some(partition) if is_free && has_room(state, StreamRef::Source(source), room) => {
                    Readable::Now(partition)
                }
                Some(_) if is_free => Readable::WithRoom,
                _ => Readable::No,
            }
        };
        // Rows that wait because they are ahead of others are in nobody's way: these may be read, and do not wait.
        let may_read = |region: &&Region| {
            has_memory(state, region, may_wait) || region.sources.len() > 1 && alignment::lacks_state(state)
        };
        for region in state.regions.all.iter().filter(may_read) {
            let Some(NextRead { source, partition }) = alignment::next_read(state, region, readable) else { continue };
            let asked_ns = self.profile(NodeRef::Source(source)).last_run_ns;
            self.consider(Choice::Read(source, partition), None, asked_ns);
        }
    }
}

/// Whether the blocks of a pipeline are computed one after the other.
fn is_in_order(state: &State, node: &PipelineState) -> bool {
    matches!(node.target, TargetState::Operator { operator, .. } if state.operators[operator].takes_in_order)
}

fn take_blocks(state: &mut State, pipeline: usize, look: &Look<'_>) -> Task {
    let node = &state.pipelines[pipeline];
    let target = match node.target {
        TargetState::Stream { .. } => None,
        TargetState::Operator { operator, .. } => Some(&state.operators[operator]),
    };
    // How far time has come where the rows go. It is behind the blocks' own time but for one whose stream was idle.
    let time = target.map_or(WATERMARK_MIN, |operator| operator.inputs.watermark());
    let profile = &state.statistics.all[state.statistics.index(NodeRef::Pipeline(pipeline))];
    let most = profile.blocks_per_task(node.queue.front().map_or(0, |(_, block)| block.rows()));
    // Where windows are longer than blocks, those that a block closes do not wait for the blocks behind it.
    let due = target.filter(|_| node.slices_per_block <= 1).and_then(|operator| {
        let mut watermarks = node.queue.iter().take(most).map(|(_, block)| block.stamp.watermark);
        operator.control.first_due(&operator.inputs, &mut watermarks)
    });
    let until_due = due.map_or(usize::MAX, |position| position + 1);
    let rows_max = look.policy.rows_max(profile, look.epoch_ns - look.now_ns % look.epoch_ns);
    let cost_ns = profile.cost_ns;
    let is_in_order = is_in_order(state, node);
    let mut blocks = state.emptied.blocks.pop().unwrap_or_default();
    let node = &mut state.pipelines[pipeline];
    let by_rows = OUTPUT_ROWS_PER_TASK_MAX / node.output_rows_per_block.max(1);
    let by_slices = SLICES_PER_TASK_MAX / node.slices_per_block.max(1);
    let blocks_max = by_rows.min(by_slices).clamp(1, most);
    let is_short = node.queue.rows() as f64 * cost_ns < WORTH_WAKING_NS;
    // Where the others have runs or regions of their own, each goes through the blocks of one by itself.
    let have_own = (look.has_runs || state.regions.are_several()) && !look.has_idle;
    let sharing = if is_in_order || is_short || have_own { 1 } else { look.workers };
    // What a close waits for is shared as well: the blocks up to that which it comes with, not those behind them.
    let count = node.queue.len().min(until_due).div_ceil(sharing).min(blocks_max);
    let count = node.queue.count_of(rows_max).min(count).max(1);
    blocks.extend(node.queue.take(count).map(|(position, mut block)| {
        block.stamp.watermark_before = block.stamp.watermark_before.max(time);
        (position, block)
    }));
    Task::Compute { pipeline, blocks }
}

/// Says that processing time has passed, for sources that have nothing to read, where anything waits for that. Returns whether it said so.
fn tick(state: &mut State, now_ns: u64, now: Micros) -> bool {
    let mut ticked = false;
    if state.is_held {
        return ticked;
    }
    for index in 0..state.sources.len() {
        let is_due = state.time_due(index).is_some_and(|due| due <= now);
        let node = &mut state.sources[index];
        let quiet = !node.ended && !node.reading && node.sequencer.chunks.outstanding() == 0;
        if is_due && quiet && state.stop == Stop::No && node.tick_ns <= now_ns {
            node.tick_ns = now_ns + PROCESSING_TICK_NS;
            state.punctuate(index, slice_start(now, 1_000, 0), now_ns);
            ticked = true;
        }
    }
    ticked
}

/// When there is something to do, if nothing happens.
fn wait_until_ns(state: &State, look: &Look<'_>) -> u64 {
    if state.is_held {
        return u64::MAX;
    }
    let now_ns = look.now_ns;
    let now = look.clock.micros_at(now_ns);
    let at_ns = |due: Micros| now_ns.saturating_add((due.saturating_sub(now).max(0) as u64).saturating_mul(1_000));
    let sources = state.sources.iter().enumerate().filter(|(_, node)| !node.ended && !node.reading);
    let reads = sources.filter_map(|(index, node)| {
        let tick = state.time_due(index).map(|due| at_ns(due).max(node.tick_ns));
        // A partition that may be read already waits for room, not for time.
        let read = node.sequencer.wait_until_ns().filter(|&at| at > now_ns);
        [tick, read].into_iter().flatten().min()
    });
    // One that is due already waits for room, or for what is being done to its windows.
    let reports = state.operators.iter().filter_map(OperatorState::report_ns).filter(|&at| at > now_ns);
    let flushes =
        state.sinks.iter().filter(|node| !node.ended).filter_map(|node| node.flush_ns).filter(|&at| at > now_ns);
    // TaskBuffers for rows that wait is made by others as well, who do not know whom to wake.
    let is_held_back = state.waiting.is_limited() && (!state.waiting.has_room() || alignment::lacks_state(state));
    let room = is_held_back.then(|| now_ns.saturating_add(ROOM_WAIT_NS));
    reads.chain(reports).chain(flushes).chain(room).min().map_or(u64::MAX, |at| at.max(now_ns + 1))
}
