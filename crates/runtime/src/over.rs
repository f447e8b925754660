//! Functions OVER rows, among what the scheduler's lock guards: rows that wait to be put in order, by one worker at a time.

use pelton_data::Micros;
use pelton_data::time::WATERMARK_MIN;
use pelton_state::over::{Arriving, OverRows};

use crate::graph::{Graph, OverNode, StreamRef};
use crate::inputs::Inputs;
use crate::queued::Queue;
use crate::results::{Results, Timed};
use crate::state::{Finished, State, TargetState};

pub(crate) struct OverState {
    pub name: String,
    /// The pipelines that feed it.
    pub inputs: Inputs,
    /// Rows that no worker has taken yet, with the number of their input; those of one input in their order.
    pub queue: Queue<(usize, Arriving)>,
    /// A worker puts rows in order.
    pub busy: bool,
    /// Rows before this have come, all of them.
    pub passed: Micros,
    /// Rows before this have left.
    left_until: Micros,
    pub ended: bool,
    pub results: Results,
    pub late_rows: u64,
    /// Rows that came, but for late ones.
    pub rows_in: u64,
    /// How far the time of sources had come when the last of them came.
    filled_until: Micros,
    pub busy_ns: u64,
}

/// Rows that leave, with what is computed for them.
pub(crate) struct OrderedRows {
    /// Each batch with its newest time.
    pub rows: Vec<Timed>,
    /// All rows before this have come.
    pub passed: Micros,
    /// All rows before this have left, these among them.
    pub left_until: Micros,
    /// Rows that were taken and came late.
    pub late_rows: u64,
}

impl OverState {
    /// `inputs` pipelines feed it.
    pub fn new(graph: &Graph, index: usize, inputs: usize) -> OverState {
        let node = &graph.overs[index];
        OverState {
            name: node.name.clone(),
            inputs: Inputs::new(inputs),
            queue: Queue::default(),
            busy: false,
            passed: WATERMARK_MIN,
            left_until: WATERMARK_MIN,
            ended: false,
            results: Results::new(graph, StreamRef::Over(index), node.spec.output_time()),
            late_rows: 0,
            rows_in: 0,
            filled_until: WATERMARK_MIN,
            busy_ns: 0,
        }
    }

    /// The watermark of its inputs at which rows may leave next that have come, if any may. By processing time no row has a later one than when it
    /// came.
    pub fn time_due(&self) -> Option<Micros> {
        let has_rows = !self.ended && self.rows_in > 0 && self.passed <= self.filled_until;
        has_rows.then(|| self.passed.saturating_add(1))
    }

    /// Whether there are rows to take, or rows may leave.
    pub fn must_run(&self) -> bool {
        !self.ended && (!self.queue.is_empty() || self.inputs.watermark() > self.passed)
    }
}

/// Functions OVER rows, none of which have come, of those inputs whose `targets` they are.
pub(crate) fn no_over_rows(node: &OverNode, index: usize, targets: &[TargetState]) -> OverRows {
    let feeds = |target: &&TargetState| matches!(target, TargetState::Over { over, .. } if *over == index);
    OverRows::new(node.spec.clone(), targets.iter().filter(feeds).count())
}

impl State {
    /// Queues what a pipeline made of a block; whether it is the last that waits there.
    pub fn queue_over(&mut self, over: usize, input: usize, finished: Finished, is_last: bool) {
        let time = self.sources_time();
        let node = &mut self.overs[over];
        node.late_rows += finished.late_rows;
        node.rows_in += finished.output_rows() as u64;
        if finished.rows > 0 {
            node.filled_until = time;
        }
        let Finished { time_shift_ticks, in_time_order, .. } = finished;
        let arriving = |rows| Arriving { rows, time_shift_ticks, in_time_order };
        finished.output.into_batches().for_each(|rows| node.queue.push_back((input, arriving(rows))));
        let has_moved = node.inputs.pass(input, &finished.stamp, is_last);
        node.results.note_input(has_moved, &finished.stamp, node.inputs.watermark());
        if (finished.stamp.is_idle || node.results.marker.is_some()) && !node.busy && !node.must_run() {
            self.punctuate_over(over);
        }
    }

    /// Passes rows on.
    pub fn rows_ordered(&mut self, over: usize, ordered: OrderedRows) {
        let OrderedRows { rows, passed, left_until, late_rows } = ordered;
        let node = &mut self.overs[over];
        node.busy = false;
        node.late_rows += late_rows;
        let has_moved = left_until > node.left_until;
        (node.passed, node.left_until) = (passed, node.left_until.max(left_until));
        self.deliver_results(StreamRef::Over(over), rows);
        let node = &self.overs[over];
        if has_moved || node.inputs.are_idle() || node.results.marker.is_some() {
            self.punctuate_over(over);
        }
        self.end_over_if_done(over);
    }

    /// Says downstream up to where rows have left, and whether no more leave for now.
    fn punctuate_over(&mut self, over: usize) {
        let node = &self.overs[over];
        let (watermark, is_at_rest) = (node.left_until, !node.busy && !node.must_run());
        let is_idle = node.inputs.are_idle() && !node.must_run();
        self.punctuate_results(StreamRef::Over(over), watermark, is_idle, (!is_at_rest).then_some(watermark));
    }

    /// Ends the stream where all of it has been passed on.
    pub fn end_over_if_done(&mut self, over: usize) {
        let node = &mut self.overs[over];
        if node.ended || node.busy || !node.inputs.have_ended() || node.must_run() {
            return;
        }
        node.ended = true;
        self.end_stream(StreamRef::Over(over));
    }
}
