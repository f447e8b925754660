//! What the scheduler's lock guards of a stateful operator, whichever it is.

use pelton_data::Micros;
use pelton_data::time::WATERMARK_MIN;
use pelton_state::over::Arriving;

use super::{Control, Left, Seen, StatefulOperator};
use crate::error::RunError;
use crate::graph::{Graph, StreamRef};
use crate::operators::inputs::Inputs;
use crate::state::finished::Finished;
use crate::state::queue::Queue;
use crate::state::reorder::Reorder;
use crate::state::results::Results;

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
    pub left_until: Micros,
    pub ended: bool,
    pub results: Results,
    pub late_rows: u64,
    pub rows_in: u64,
    pub rows_done: u64,
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
    pub fn note_rows(&mut self, finished: &mut Finished, time: Micros) {
        self.rows_in += finished.rows_taken;
        if finished.rows > 0 {
            self.filled_until = time;
        }
        self.control.came(finished);
    }
}
