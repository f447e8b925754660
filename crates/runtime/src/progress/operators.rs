//! What the scheduler knows of each operator.

use std::time::Duration;

use crate::graph::NodeRef;
use crate::scheduler::statistics::NodeStatistics;
use crate::shared::Shared;
use crate::state::State;

/// One node as the scheduler sees it (Enjima, section 3.2): reading and decoding of a source, a pipeline, a stateful operator, or an output.
#[derive(Debug, Clone)]
pub struct OperatorProgress {
    /// Which.
    pub name: String,
    /// Rows that it is done with: of windows that have closed, of what is read those that have been decoded,
    pub rows_in: u64,
    /// and rows that have left it.
    pub rows_out: u64,
    /// What a row that comes costs, of late; `None` before any has been measured. Of sources what decoding one costs.
    pub nanos_per_row: Option<f64>,
    /// Rows that leave for each row that comes, of late; `None` as above.
    pub selectivity: Option<f64>,
    /// Rows that wait in front of it, of an output those as well that nobody has read,
    pub rows_waiting: u64,
    /// and their bytes.
    pub bytes_waiting: u64,
    /// Bytes of what it remembers, when that was measured last.
    pub state_bytes: u64,
    /// How long workers were busy with it.
    pub busy: Duration,
    /// How long ago a worker was told to run it last; `None` before any was.
    pub ran: Option<Duration>,
}

impl State {
    /// Rows that an operator has been done with, and that have left it.
    pub fn rows_of(&self, node: NodeRef) -> (u64, u64) {
        match node {
            NodeRef::Source(index) => (self.sources[index].rows, self.sources[index].rows),
            NodeRef::Pipeline(index) => (self.pipelines[index].rows, self.pipelines[index].rows_out),
            NodeRef::Operator(index) => {
                let operator = &self.operators[index];
                let seen = operator.seen();
                // State that is handed on has all rows.
                (seen.rows_done, if operator.is_shared() { seen.rows_done } else { seen.rows_out })
            }
            NodeRef::Sink(index) => (self.sinks[index].rows, self.sinks[index].rows),
        }
    }
}

impl Shared {
    /// All operators, each behind those of the kinds that feed it.
    pub(crate) fn operators(&self, state: &State, now_ns: u64) -> Vec<OperatorProgress> {
        let nodes = state.statistics.nodes().zip(&state.statistics.all);
        let look = |(node, statistics): (NodeRef, &NodeStatistics)| {
            let (rows_in, rows_out) = state.rows_of(node);
            let (rows_waiting, bytes_waiting) = state.waiting_at(node);
            let is_measured = statistics.is_measured();
            OperatorProgress {
                name: self.name(node).to_owned(),
                rows_in,
                rows_out,
                nanos_per_row: is_measured.then_some(statistics.cost_ns),
                selectivity: is_measured.then_some(statistics.selectivity),
                rows_waiting,
                bytes_waiting: bytes_waiting as u64,
                state_bytes: self.state_bytes(node) as u64,
                busy: Duration::from_nanos(statistics.done.busy_ns),
                ran: (statistics.turn > 0).then(|| Duration::from_nanos(now_ns.saturating_sub(statistics.last_run_ns))),
            }
        };
        nodes.map(look).collect()
    }

    /// Bytes that are charged for what an operator remembers.
    fn state_bytes(&self, node: NodeRef) -> usize {
        match node {
            NodeRef::Source(_) | NodeRef::Pipeline(_) => 0,
            NodeRef::Operator(_) | NodeRef::Sink(_) => self.account.operator_bytes(self.accounted(node)),
        }
    }
}
