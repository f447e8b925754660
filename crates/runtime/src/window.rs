//! Window aggregations, among what the scheduler's lock guards: how far their inputs have come, and what closes next.

use std::collections::{BTreeSet, VecDeque};

use arrow::array::RecordBatch;
use pelton_data::time::WATERMARK_MIN;
use pelton_data::window::{Emission, Window};
use pelton_data::{Micros, Stamp};

use crate::graph::{Graph, StreamRef};
use crate::inputs::Inputs;
use crate::late::LateRow;
use crate::order::Reorder;
use crate::results::{Results, Timed};
use crate::run::RunError;
use crate::state::{Finished, State};

/// Which of its inputs slices are to a window that is put together from them: it has no other.
pub(crate) const SLICES_INPUT: usize = 0;

/// Windows that have closed, as rows.
pub(crate) struct Closed {
    /// All that end at or before this.
    pub until: Micros,
    /// In the order of their ends, each with the end of the last of its windows.
    pub rows: Vec<Timed>,
    /// Rows that turned out to be late only now.
    pub late_rows: u64,
    /// The last of them.
    pub late: Option<(Option<RecordBatch>, Vec<LateRow>)>,
}

pub(crate) struct WindowState {
    pub name: String,
    pub window: Window,
    /// The pipelines that feed it.
    pub inputs: Inputs,
    /// Windows that end at or before this have been closed,
    closed_until: Micros,
    /// and the next ones end then: asked for each block that waits.
    next_end: Micros,
    /// Windows that have been closed while their rows are read out, which several workers may do at once.
    pub closed: Reorder<Result<Closed, RunError>>,
    /// The rows of windows that end at or before this have been passed on.
    passed_until: Micros,
    /// When windows are corrected.
    pub corrections: BTreeSet<Micros>,
    /// A worker closes windows, or reports some.
    pub closing: bool,
    /// Some of the windows have been reported that have not ended: the others are before any is closed.
    pub reporting: bool,
    /// A worker has closed a part of what must be closed, or reported a part: something else is done before the next part, if there is anything.
    pub gives_way: bool,
    /// Up to where windows are over by the blocks that have been added ahead of closing them, but for those that end no other window than the one before.
    blocks_ahead: VecDeque<Micros>,
    /// When windows are reported besides when their time has come.
    emission: Emission,
    /// When the first row was read that has come since.
    pub rows_since_ns: Option<u64>,
    pub ended: bool,
    pub results: Results,
    pub late_rows: u64,
    /// Rows that came, but for late ones.
    pub rows_in: u64,
    /// Of them, those that had come when windows were closed last.
    pub rows_in_closed: u64,
    /// How far the time of sources had come when the last of them came.
    filled_until: Micros,
    pub busy_ns: u64,
}

impl WindowState {
    /// `inputs` pipelines feed it.
    pub fn new(graph: &Graph, index: usize, inputs: usize) -> WindowState {
        let node = &graph.windows[index];
        WindowState {
            name: node.name.clone(),
            window: node.window,
            inputs: Inputs::new(inputs),
            closed_until: WATERMARK_MIN,
            next_end: WATERMARK_MIN,
            closed: Reorder::default(),
            passed_until: WATERMARK_MIN,
            corrections: BTreeSet::new(),
            closing: false,
            reporting: false,
            gives_way: false,
            blocks_ahead: VecDeque::new(),
            emission: node.emission,
            rows_since_ns: None,
            ended: false,
            results: Results::new(graph, StreamRef::Window(index), node.time_column),
            late_rows: 0,
            rows_in: 0,
            rows_in_closed: 0,
            filled_until: WATERMARK_MIN,
            busy_ns: 0,
        }
    }

    /// Up to where its windows are over by the watermark of its inputs.
    pub fn watermark(&self) -> Micros {
        self.over_until(self.inputs.watermark())
    }

    /// Up to where its windows are over when their input has come to a watermark.
    pub fn over_until(&self, watermark: Micros) -> Micros {
        self.window.over_until(self.emission.delayed(watermark))
    }

    /// Whether the rows of all windows that have been closed have been passed on, and none is being closed.
    pub fn is_at_rest(&self) -> bool {
        !self.closing && !self.reporting && self.closed.outstanding() == 0 && !self.must_close()
    }

    /// Whether windows are to be closed, of those whose rows are read out at a time so many runs at most.
    pub fn can_close(&self, read_out_max: usize) -> bool {
        !self.closing && !self.reporting && self.closed.outstanding() < read_out_max && self.must_close()
    }

    /// Whether windows are to be reported then that have not ended.
    pub fn can_report(&self, now_ns: u64) -> bool {
        match self.reporting {
            true => !self.closing,
            // Between two parts of a close the windows are neither open nor closed.
            false => self.report_ns().is_some_and(|at| at <= now_ns) && self.is_at_rest(),
        }
    }

    /// Whether it is slices that windows share.
    pub fn is_shared(&self) -> bool {
        !self.results.consumers.windows.is_empty()
    }

    /// Notes what a pipeline made of a block, when the time of sources was `time`.
    fn note_rows(&mut self, finished: &Finished, time: Micros) {
        self.rows_in += finished.rows as u64 - finished.late_rows;
        if finished.rows > 0 {
            self.filled_until = time;
            self.rows_since_ns.get_or_insert(finished.stamp.ingested_ns);
        }
    }

    /// How many blocks have been added that windows have to be closed for, those that end the same windows together.
    pub fn blocks_ahead(&self) -> usize {
        self.blocks_ahead.len()
    }

    /// Whether windows are over that were not when a block was added ahead last. What is of open windows goes where it is in any case.
    fn has_ended_others(&self) -> bool {
        self.blocks_ahead.back().is_none_or(|&last| self.window.next_end(last) <= self.watermark())
    }

    /// When windows are to be reported next whose time has not come.
    pub fn report_ns(&self) -> Option<u64> {
        let rows_since_ns = self.rows_since_ns.filter(|_| !self.ended)?;
        self.emission.early_after.map(|micros| rows_since_ns.saturating_add(micros as u64 * 1_000))
    }

    /// The watermark of its inputs at which rows may leave next that have come, if any may: without further rows, time need not be told before.
    pub fn time_due(&self) -> Option<Micros> {
        if self.ended || self.rows_in == 0 || self.window.counts_rows() {
            return None;
        }
        let reached = self.closed_until.max(self.watermark());
        let next = match self.window {
            _ if reached == WATERMARK_MIN => Some(WATERMARK_MIN),
            // By processing time no row has a later one than when it came.
            Window::Session { gap } if self.closed_until > self.filled_until.saturating_add(gap) => None,
            _ => Some(self.window.next_end(reached)),
        };
        let next = next.into_iter().chain(self.corrections.first().copied()).min()?;
        let behind = self.inputs.watermark().saturating_sub(self.watermark());
        Some(next.saturating_add(behind))
    }

    /// Goes on from windows that had closed when time had come so far, and are corrected then.
    pub fn restored(&mut self, reached: Micros, dues: Vec<Micros>) {
        self.corrections.extend(dues);
        // Time may have been ahead of the rows.
        if self.emission.lateness > 0 && reached != WATERMARK_MIN {
            self.inputs.raise(reached.saturating_add(self.emission.delay));
        }
    }

    /// Rows that correct windows do so when time moves on, all that have come by then together. Where nothing comes for now that would move it, an
    /// instant passes for them, unless a window would end by that.
    fn pass_instant_at_rest(&mut self) {
        let next = self.watermark().saturating_add(1);
        let ends_window = !matches!(self.window, Window::Session { .. }) && self.next_end <= next;
        if self.corrections.contains(&next) && !ends_window && self.inputs.are_idle() {
            self.inputs.pass_instant();
        }
    }

    /// Whether the watermark has passed the end of a window that may be open, or rows that correct one.
    pub fn must_close(&self) -> bool {
        self.must_close_at(self.watermark())
    }

    /// Whether they would be where windows are over up to there.
    pub fn must_close_at(&self, watermark: Micros) -> bool {
        if self.ended || watermark <= self.closed_until {
            return false;
        }
        let is_due = self.corrections.first().is_some_and(|due| *due <= watermark);
        is_due || self.next_end <= watermark
    }
}

impl State {
    /// Notes what a pipeline made of a block; whether it is the last that waits there.
    pub fn aggregated(&mut self, window: usize, input: usize, mut finished: Finished, is_last: bool) {
        let time = self.sources_time();
        let node = &mut self.windows[window];
        node.note_rows(&finished, time);
        node.corrections.extend(finished.corrections.drain(..));
        for window in node.results.consumers.clone().windows.iter() {
            self.windows[*window].note_rows(&finished, time);
        }
        self.advance_window(window, input, &finished.stamp, is_last);
    }

    /// Notes how far time has come at one of a window's inputs; whether nothing else waits there.
    pub fn advance_window(&mut self, window: usize, input: usize, stamp: &Stamp, is_last: bool) {
        let node = &mut self.windows[window];
        let has_moved = node.inputs.pass(input, stamp, is_last);
        node.pass_instant_at_rest();
        if node.must_close() && node.has_ended_others() {
            node.blocks_ahead.push_back(node.watermark());
        }
        node.results.note_input(has_moved, stamp, node.watermark());
        // Windows that close pass a marker on behind their rows.
        if stamp.is_idle && node.is_at_rest() {
            self.punctuate_window(window);
        }
        self.pass_marker_on(window);
    }

    /// Passes on what marks latency, where no more windows close for now.
    fn pass_marker_on(&mut self, window: usize) {
        let node = &self.windows[window];
        if node.results.marker.is_some() && node.is_at_rest() {
            self.punctuate_window(window);
        }
    }

    /// Passes on what windows come to so far, which may not be all of them.
    pub fn windows_reported(&mut self, window: usize, rows: Vec<Timed>, are_all: bool) {
        let node = &mut self.windows[window];
        (node.closing, node.reporting, node.gives_way) = (false, !are_all, !are_all);
        self.deliver_results(StreamRef::Window(window), rows);
        let node = &self.windows[window];
        // Nothing was said of it while some had not been reported.
        if node.inputs.are_idle() && node.is_at_rest() {
            self.punctuate_window(window);
        }
        self.pass_marker_on(window);
        self.end_window_if_done(window);
    }

    /// Notes up to where windows have been closed, and lets others be closed. Returns the position of what has been.
    pub fn windows_closed(&mut self, window: usize, until: Micros) -> u64 {
        let node = &mut self.windows[window];
        node.closing = false;
        (node.closed_until, node.next_end) = (until, node.window.next_end(until));
        node.corrections = node.corrections.split_off(&until.saturating_add(1));
        node.gives_way = node.must_close();
        forget_closed(&mut node.blocks_ahead, &node.window, until);
        node.closed.hand_out()
    }

    /// Whether blocks wait to be added to a window.
    pub fn has_blocks_for(&self, window: usize) -> bool {
        self.pipelines.iter().any(|node| node.target.feeds(window) && !node.queue.is_empty())
    }

    /// Keeps the rows of closed windows, and passes on all whose turn it is.
    pub fn windows_read_out(&mut self, window: usize, position: u64, closed: Result<Closed, RunError>) {
        self.windows[window].closed.finish(position, 1, closed);
        while let Some(closed) = self.windows[window].closed.release() {
            match closed {
                Ok(closed) => self.pass_windows_on(window, closed),
                Err(error) => {
                    self.windows[window].closed.close();
                    return self.fail(error);
                }
            }
        }
        self.end_window_if_done(window);
    }

    fn pass_windows_on(&mut self, window: usize, closed: Closed) {
        let Closed { until, rows, late_rows, late } = closed;
        if let Some(late) = late {
            let feeding = self.pipelines.iter().filter(|node| node.target.feeds(window));
            let sources: BTreeSet<&str> = feeding.map(|node| node.input_name.as_str()).collect();
            let source = sources.into_iter().collect::<Vec<_>>().join(", ");
            self.late.keep(&self.windows[window].name, &source, late);
        }
        let node = &mut self.windows[window];
        let has_moved = until > node.passed_until;
        node.passed_until = until;
        node.rows_in_closed = node.rows_in;
        node.late_rows += late_rows;
        self.deliver_results(StreamRef::Window(window), rows);
        if has_moved {
            self.punctuate_window(window);
        }
        self.pass_marker_on(window);
    }

    /// Says downstream up to where windows have been closed, and whether no more close for now.
    fn punctuate_window(&mut self, window: usize) {
        let node = &self.windows[window];
        let passed_until = node.passed_until;
        let watermark = if node.is_shared() { passed_until } else { node.window.results_watermark(passed_until) };
        let (is_at_rest, passed) = (node.is_at_rest(), node.passed_until);
        let is_idle = node.inputs.are_idle() && is_at_rest;
        self.punctuate_results(StreamRef::Window(window), watermark, is_idle, (!is_at_rest).then_some(passed));
    }

    pub fn end_window_if_done(&mut self, window: usize) {
        let node = &mut self.windows[window];
        if node.ended || !node.inputs.have_ended() || !node.is_at_rest() {
            return;
        }
        node.ended = true;
        self.end_stream(StreamRef::Window(window));
    }
}

/// Forgets blocks that were added ahead, all of whose windows that are over end at or before `until`: a block goes on for some time behind the last end that it passes.
fn forget_closed(blocks_ahead: &mut VecDeque<Micros>, window: &Window, until: Micros) {
    let next_end = window.next_end(until);
    while blocks_ahead.pop_front_if(|watermark| *watermark < next_end).is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_ahead_until_the_last_window_is_closed_that_they_end() {
        let left = |window: Window, until: Micros| {
            let mut blocks_ahead = VecDeque::from([1_016, 2_010]);
            forget_closed(&mut blocks_ahead, &window, until);
            blocks_ahead.len()
        };
        let tumbling = Window::Tumbling { size: 1_000, offset: 0 };
        assert_eq!([900, 1_000, 1_999, 2_000, 2_010].map(|until| left(tumbling, until)), [2, 1, 1, 0, 0]);
        let sessions = Window::Session { gap: 10 };
        assert_eq!([1_000, 1_016, 2_009, 2_010].map(|until| left(sessions, until)), [2, 1, 1, 0]);
    }
}
