//! What the scheduler's lock guards of a stateful operator, whichever it is: how far its inputs have come, what waits at its ports, and what
//! leaves it.

use std::collections::BTreeSet;

use pelton_data::time::WATERMARK_MIN;
use pelton_data::{Micros, Stamp};
use pelton_state::over::Arriving;

use super::{Control, EarlyRows, Left, Restored, Seen, StatefulOperator};
use crate::graph::{Graph, StreamRef};
use crate::inputs::Inputs;
use crate::order::Reorder;
use crate::queued::Queue;
use crate::results::Results;
use crate::run::RunError;
use crate::state::{Finished, State};

/// Which port state comes to that another operator hands on: a subscriber has no other.
const SUBSCRIBED_PORT: usize = 0;

pub(crate) struct OperatorState {
    pub name: String,
    /// What is due.
    pub control: Box<dyn Control>,
    /// The streams that feed it, by port.
    pub inputs: Inputs,
    /// Rows that no worker has taken yet, with the port of each batch; those of one port in their order.
    pub queue: Queue<(usize, Arriving)>,
    /// Blocks come one after the other, in their order.
    pub takes_in_order: bool,
    /// See [`StatefulOperator::is_freed_by_time`].
    pub is_freed_by_time: bool,
    /// A worker advances it, or reports.
    pub advancing: bool,
    /// Some of its state has been reported that is not due: the rest is before it advances.
    pub reporting: bool,
    /// A part of what is due has been done: something else of the run is done before the next part, if there is anything.
    pub gives_way: bool,
    /// What has been taken out while its rows are read out, which several workers may do at once.
    pub leaving: Reorder<Result<Left, RunError>>,
    /// Rows that were due at or before this have left.
    left_until: Micros,
    pub ended: bool,
    pub results: Results,
    pub late_rows: u64,
    rows_in: u64,
    rows_done: u64,
    filled_until: Micros,
    pub busy_ns: u64,
}

impl OperatorState {
    /// Of an operator that so many streams feed.
    pub fn new(graph: &Graph, index: usize, ports: usize, control: Box<dyn Control>) -> OperatorState {
        let operator: &dyn StatefulOperator = graph.operators[index].0.as_ref();
        OperatorState {
            name: operator.name().to_owned(),
            control,
            inputs: Inputs::new(ports),
            queue: Queue::default(),
            takes_in_order: operator.takes_in_order(),
            is_freed_by_time: operator.is_freed_by_time(),
            advancing: false,
            reporting: false,
            gives_way: false,
            leaving: Reorder::default(),
            left_until: WATERMARK_MIN,
            ended: false,
            results: Results::new(graph, StreamRef::Operator(index), operator.time_column()),
            late_rows: 0,
            rows_in: 0,
            rows_done: 0,
            filled_until: WATERMARK_MIN,
            busy_ns: 0,
        }
    }

    /// Up to where results are final by the watermark of its inputs.
    pub fn reach(&self) -> Micros {
        self.control.reach(&self.inputs)
    }

    pub fn seen(&self) -> Seen {
        let (rows_in, rows_done, filled_until) = (self.rows_in, self.rows_done, self.filled_until);
        Seen { rows_in, rows_done, rows_out: self.results.rows, filled_until }
    }

    /// Whether the watermark has passed something.
    pub fn is_due(&self) -> bool {
        self.control.is_due(&self.inputs)
    }

    /// Whether there is something to take or to turn into rows.
    pub fn must_advance(&self) -> bool {
        !self.ended && (!self.queue.is_empty() || self.is_due())
    }

    /// Whether it can be advanced, where so many parts at most are read out at a time.
    pub fn can_advance(&self, read_out_max: usize) -> bool {
        !self.advancing && !self.reporting && self.leaving.outstanding() < read_out_max && self.must_advance()
    }

    /// Whether state is to be reported then that is not due.
    pub fn can_report(&self, now_ns: u64) -> bool {
        match self.reporting {
            true => !self.advancing,
            // Between two parts of what is due, state is neither there nor reported.
            false => self.report_ns().is_some_and(|at| at <= now_ns) && self.is_at_rest(),
        }
    }

    /// When state is to be reported that is not due.
    pub fn report_ns(&self) -> Option<u64> {
        self.control.report_ns().filter(|_| !self.ended)
    }

    /// Whether all rows have left that were due.
    pub fn is_at_rest(&self) -> bool {
        !self.advancing && !self.reporting && self.leaving.outstanding() == 0 && !self.must_advance()
    }

    /// Whether it is other operators that have what becomes of its state.
    pub fn is_shared(&self) -> bool {
        !self.results.consumers.operators.is_empty()
    }

    /// See [`Control::time_due`].
    pub fn time_due(&self) -> Option<Micros> {
        if self.ended || self.rows_in == 0 { None } else { self.control.time_due(&self.inputs, &self.seen()) }
    }

    /// See [`Control::pending_rows`].
    pub fn pending_rows(&self) -> u64 {
        self.control.pending_rows(&self.seen())
    }

    /// Notes what a pipeline made of a block, when the time of sources was `time`.
    fn note_rows(&mut self, finished: &mut Finished, time: Micros) {
        self.rows_in += finished.rows_taken;
        if finished.rows > 0 {
            self.filled_until = time;
        }
        self.control.came(finished);
    }
}

impl State {
    /// Notes what a pipeline made of a block for one of an operator's ports; whether it is the last that waits there.
    pub fn block_taken(&mut self, operator: usize, port: usize, mut finished: Finished, is_last: bool) {
        let time = self.sources_time();
        let node = &mut self.operators[operator];
        node.note_rows(&mut finished, time);
        for subscriber in node.results.consumers.clone().operators.iter() {
            self.operators[*subscriber].note_rows(&mut finished, time);
        }
        let Finished { stamp, time_shift_ticks, in_time_order, .. } = finished;
        let node = &mut self.operators[operator];
        let arriving = |rows| Arriving { rows, time_shift_ticks, in_time_order };
        finished.output.into_batches().for_each(|rows| node.queue.push_back((port, arriving(rows))));
        self.advance_input(operator, port, &stamp, is_last);
    }

    /// Notes that state was handed to an operator, and how far time has come with it.
    pub fn state_handed_on(&mut self, operator: usize, stamp: &Stamp) {
        self.advance_input(operator, SUBSCRIBED_PORT, stamp, true);
    }

    /// Lets an operator wait for the operator that hands its state on.
    pub fn wake_subscriber(&mut self, operator: usize) {
        self.wake_operator(operator, SUBSCRIBED_PORT);
    }

    /// Notes that no more state is handed on.
    pub fn end_subscriber(&mut self, operator: usize) {
        self.operators[operator].inputs.end(SUBSCRIBED_PORT);
        self.end_operator_if_done(operator);
    }

    /// Notes how far time has come at a port; whether nothing else waits there.
    fn advance_input(&mut self, operator: usize, port: usize, stamp: &Stamp, is_last: bool) {
        let node = &mut self.operators[operator];
        let has_moved = node.inputs.pass(port, stamp, is_last);
        node.control.time_passed(&mut node.inputs);
        node.results.note_input(has_moved, stamp, node.control.reach(&node.inputs));
        // What is due takes a marker along behind its rows.
        if (stamp.is_idle || node.results.marker.is_some()) && node.is_at_rest() {
            self.punctuate_operator(operator);
        }
    }

    /// Notes up to where what is due has been taken out, and lets the next part be. Returns the position of what has been.
    pub fn operator_advanced(&mut self, operator: usize, until: Micros) -> u64 {
        let node = &mut self.operators[operator];
        node.advancing = false;
        node.control.advanced(until);
        node.gives_way = node.control.gives_way() && node.is_due();
        node.leaving.hand_out()
    }

    /// Keeps rows that leave an operator, and passes on all whose turn it is.
    pub fn rows_left(&mut self, operator: usize, position: u64, left: Result<Left, RunError>) {
        let mut next = self.operators[operator].leaving.pass(position, 1, left);
        while let Some(left) = next {
            match left {
                Ok(left) => self.pass_left_on(operator, left),
                Err(error) => {
                    self.operators[operator].leaving.close();
                    return self.fail(error);
                }
            }
            next = self.operators[operator].leaving.release();
        }
        self.end_operator_if_done(operator);
    }

    fn pass_left_on(&mut self, operator: usize, left: Left) {
        let Left { rows, until, late_rows, late } = left;
        if let Some(late) = late {
            let feeding = self.pipelines.iter().filter(|node| node.target.feeds(operator));
            let sources: BTreeSet<&str> = feeding.map(|node| node.input_name.as_str()).collect();
            let source = sources.into_iter().collect::<Vec<_>>().join(", ");
            self.late.keep(&self.operators[operator].name, &source, late);
        }
        let node = &mut self.operators[operator];
        let has_moved = until > node.left_until;
        node.left_until = until.max(node.left_until);
        node.rows_done = node.rows_in - node.queue.rows();
        node.late_rows += late_rows;
        self.deliver_results(operator, rows);
        if has_moved || self.has_news_at_rest(operator) {
            self.punctuate_operator(operator);
        }
    }

    /// Passes on what is not final, which may not be all of it.
    pub fn reported_early(&mut self, operator: usize, early: EarlyRows) {
        let EarlyRows { rows, are_all } = early;
        let node = &mut self.operators[operator];
        (node.advancing, node.reporting, node.gives_way) = (false, !are_all, !are_all);
        self.deliver_results(operator, rows);
        // Nothing was said of idleness while some had not been reported.
        if self.has_news_at_rest(operator) {
            self.punctuate_operator(operator);
        }
        self.end_operator_if_done(operator);
    }

    /// Whether no more rows leave for now, and those downstream do not know.
    fn has_news_at_rest(&self, operator: usize) -> bool {
        let node = &self.operators[operator];
        (node.inputs.are_idle() || node.results.marker.is_some()) && node.is_at_rest()
    }

    /// Says downstream up to where rows have left, and whether no more leave for now.
    fn punctuate_operator(&mut self, operator: usize) {
        let node = &self.operators[operator];
        let left_until = node.left_until;
        let watermark = node.control.results_watermark(left_until);
        let is_at_rest = node.is_at_rest();
        let is_idle = node.inputs.are_idle() && is_at_rest;
        self.punctuate_results(operator, watermark, is_idle, (!is_at_rest).then_some(left_until));
    }

    /// Whether blocks wait for an operator.
    pub fn has_blocks_for(&self, operator: usize) -> bool {
        self.pipelines.iter().any(|node| node.target.feeds(operator) && !node.queue.is_empty())
    }

    /// Goes on from a snapshot.
    pub fn operator_restored(&mut self, operator: usize, restored: Restored) {
        let node = &mut self.operators[operator];
        node.control.restored(&mut node.inputs, restored);
    }

    /// Ends a stream of results where all of it has been passed on.
    pub fn end_operator_if_done(&mut self, operator: usize) {
        let node = &mut self.operators[operator];
        if node.ended || !node.inputs.have_ended() || !node.is_at_rest() {
            return;
        }
        node.ended = true;
        self.end_stream(StreamRef::Operator(operator));
    }
}
