//! How rows and time pass through a stateful operator: how far its inputs have come, what waits at its ports, and what leaves it.

use std::collections::BTreeSet;

use pelton_data::{Micros, Stamp};
use pelton_state::over::Arriving;

use super::{EarlyRows, Left, Restored};
use crate::error::RunError;
use crate::graph::StreamRef;
use crate::state::State;
use crate::state::finished::Finished;

/// Which port state comes to that another operator hands on: a subscriber has no other.
const SUBSCRIBED_PORT: usize = 0;

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
