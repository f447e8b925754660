//! The operators of a run as the scheduler knows them: what a row costs, how many rows become of it, and what they go through before they
//! leave (Enjima, section 3.2.1).

use pelton_state::over::ROWS_AT_ONCE_MAX;

use crate::graph::{Graph, NodeRef, PipelineTarget, SourceTime, StreamRef};

/// What an operator is assumed to cost a row, in nanoseconds, before it has run.
const COST_NS_UNKNOWN: f64 = 10.0;

/// Fewer output rows of one input row than this count as this many: what has no output yet may have some.
const SELECTIVITY_MIN: f64 = 1e-9;

/// How much of what an epoch has shown goes into what is known: the rest is what was known before.
const NEW_SHARE: f64 = 0.25;

/// A task that puts rows in order takes so long, about.
const ORDER_TASK_NS: f64 = 2e6;

/// Blocks that one task takes at most: more would delay what is downstream, fewer cost more in scheduling. Where these are done with sooner, as many
/// as take about so long.
const BLOCKS_PER_TASK_MAX: usize = 8;
const BLOCKS_PER_SHORT_TASK_MAX: usize = 64;
const SHORT_TASK_NS: f64 = 2e5;

/// A task that takes several blocks, or batches, takes no longer than this, about: others wait for whoever does it.
pub(crate) const TASK_NS_MAX: f64 = 2e6;

/// A block that takes a pipeline longer than this is cut into parts that one task each is enough for,
const BLOCK_NS_MAX: f64 = 4e6;

/// if they have at least so many rows: with fewer it is looked more often what to do next than it is done.
const BLOCK_PART_ROWS_MIN: usize = 2048;

/// Rows that are put in order at once however long they take: with fewer it is looked more often which they are than they are computed.
const ORDERED_ROWS_MIN: usize = 2048;

/// What a worker did on an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Work {
    pub rows_in: u64,
    pub rows_out: u64,
    pub busy_ns: u64,
}

/// One operator.
#[derive(Debug, Clone)]
pub(crate) struct NodeStatistics {
    /// GraphStatistics that take its rows.
    downstream: Vec<usize>,
    /// Since the run began.
    pub done: Work,
    /// Of that, what `cost_ns` and `selectivity` know of.
    measured: Work,
    /// Of a row of its input.
    pub cost_ns: f64,
    /// Rows of its output for each row of its input.
    pub selectivity: f64,
    /// Rows that leave the run for each row of its input: equation 1.
    pub output_selectivity: f64,
    /// What one row costs from here until it leaves: equation 2.
    pub output_cost_ns: f64,
    /// Rows that leave the run for each nanosecond spent on a row here and behind.
    pub output_rate: f64,
    /// When a worker was told to run it last.
    pub last_run_ns: u64,
    /// How many times workers had been told to run anything when this was told last.
    pub turn: u64,
    /// Its place where each operator stands behind all that are upstream of it, and beside the last of them: the order in which a tree whose
    /// root is the output is walked, branches first.
    pub position: usize,
}

/// All operators of a run.
#[derive(Debug, Clone)]
pub(crate) struct GraphStatistics {
    pub all: Vec<NodeStatistics>,
    /// Their indices, each behind all that are downstream of it.
    upward: Vec<usize>,
    /// Where each kind begins, in the order of [`NodeRef`].
    starts: [usize; 4],
    /// For each source whose rows have the clock's time the stateful operators that may wait for that: `Graph::operators[i]`.
    by_clock: Vec<Vec<usize>>,
}

impl NodeStatistics {
    /// One of which nothing is known.
    pub fn new(downstream: Vec<usize>) -> NodeStatistics {
        NodeStatistics {
            downstream,
            done: Work::default(),
            measured: Work::default(),
            cost_ns: COST_NS_UNKNOWN,
            selectivity: 1.0,
            output_selectivity: 1.0,
            output_cost_ns: COST_NS_UNKNOWN,
            output_rate: 0.0,
            last_run_ns: 0,
            turn: 0,
            position: 0,
        }
    }

    /// Whether `cost_ns` and `selectivity` are known.
    pub fn is_measured(&self) -> bool {
        self.measured.rows_in > 0
    }

    /// GraphStatistics that take its rows.
    pub fn downstream(&self) -> &[usize] {
        &self.downstream
    }

    /// How many rows are put in order in one task: as many as take so long that others can wait for it.
    pub fn rows_in_order(&self) -> usize {
        ((ORDER_TASK_NS / self.cost_ns) as usize).clamp(ORDERED_ROWS_MIN, ROWS_AT_ONCE_MAX)
    }

    /// How many blocks of so many rows one task takes at most.
    pub fn blocks_per_task(&self, block_rows: usize) -> usize {
        let in_time = |task_ns: f64| (task_ns / (self.cost_ns * block_rows.max(1) as f64)) as usize;
        let most = in_time(SHORT_TASK_NS).clamp(BLOCKS_PER_TASK_MAX, BLOCKS_PER_SHORT_TASK_MAX);
        most.min(in_time(TASK_NS_MAX)).max(1)
    }

    /// Learns from what was done since the last time.
    fn measure(&mut self) {
        let (done, before) = (self.done, std::mem::replace(&mut self.measured, self.done));
        let rows_in = done.rows_in - before.rows_in;
        if rows_in == 0 {
            // Output without input, such as a window's last rows, goes with the next.
            self.measured = before;
            return;
        }
        let cost_ns = (done.busy_ns - before.busy_ns) as f64 / rows_in as f64;
        let selectivity = (done.rows_out - before.rows_out) as f64 / rows_in as f64;
        let share = if before.rows_in == 0 { 1.0 } else { NEW_SHARE };
        self.cost_ns += (cost_ns - self.cost_ns) * share;
        self.selectivity += (selectivity - self.selectivity) * share;
    }
}

impl GraphStatistics {
    /// Those of a graph.
    pub fn of(graph: &Graph) -> GraphStatistics {
        let counts = [graph.sources.len(), graph.pipelines.len(), graph.operators.len(), graph.sinks.len()];
        let mut starts = [0; 4];
        for kind in 1..4 {
            starts[kind] = starts[kind - 1] + counts[kind - 1];
        }
        let mut downstream = vec![Vec::new(); counts.iter().sum()];
        let index = |stream: StreamRef| match stream {
            StreamRef::Source(index) => starts[0] + index,
            StreamRef::Pipeline(index) => starts[1] + index,
            StreamRef::Operator(index) => starts[2] + index,
        };
        for (pipeline, node) in graph.pipelines.iter().enumerate() {
            downstream[index(node.input)].push(starts[1] + pipeline);
            if let PipelineTarget::Operator { operator, .. } = node.target {
                downstream[starts[1] + pipeline].push(starts[2] + operator);
            }
        }
        for (operator, node) in graph.operators.iter().enumerate() {
            downstream[starts[2] + operator]
                .extend(node.0.subscribers().iter().map(|subscriber| starts[2] + subscriber));
        }
        for (sink, node) in graph.sinks.iter().enumerate() {
            node.inputs.iter().for_each(|input| downstream[index(*input)].push(starts[3] + sink));
        }
        let mut operators = GraphStatistics {
            starts,
            ..GraphStatistics::new(downstream.into_iter().map(NodeStatistics::new).collect())
        };
        let sources = graph.sources.iter().enumerate().map(|(index, node)| match node.time {
            SourceTime::Processing => operators.timed_by(index),
            _ => Vec::new(),
        });
        operators.by_clock = sources.collect();
        operators
    }

    /// Stateful operators that rows of a source reach.
    fn timed_by(&self, source: usize) -> Vec<usize> {
        let mut is_reached = vec![false; self.all.len()];
        is_reached[self.index(NodeRef::Source(source))] = true;
        // Downward.
        for &index in self.upward.iter().rev() {
            if is_reached[index] {
                self.all[index].downstream.iter().for_each(|&fed| is_reached[fed] = true);
            }
        }
        let reached = self.nodes().zip(is_reached).filter_map(|(node, is_reached)| is_reached.then_some(node));
        let operators = reached.filter_map(|node| match node {
            NodeRef::Operator(operator) => Some(operator),
            NodeRef::Source(_) | NodeRef::Pipeline(_) | NodeRef::Sink(_) => None,
        });
        operators.collect()
    }

    /// GraphStatistics that form no cycle.
    pub fn new(all: Vec<NodeStatistics>) -> GraphStatistics {
        let mut operators =
            GraphStatistics { upward: Vec::with_capacity(all.len()), all, starts: [0; 4], by_clock: Vec::new() };
        let mut inputs = vec![0; operators.all.len()];
        operators.all.iter().flat_map(|operator| &operator.downstream).for_each(|&index| inputs[index] += 1);
        let mut next: Vec<usize> = (0..inputs.len()).filter(|&index| inputs[index] == 0).collect();
        while let Some(index) = next.pop() {
            operators.all[index].position = operators.upward.len();
            operators.upward.push(index);
            for &fed in &operators.all[index].downstream {
                inputs[fed] -= 1;
                if inputs[fed] == 0 {
                    next.push(fed);
                }
            }
        }
        operators.upward.reverse();
        operators.weigh();
        operators
    }

    pub fn of_node(&mut self, node: NodeRef) -> &mut NodeStatistics {
        let index = self.index(node);
        &mut self.all[index]
    }

    /// How many rows a block of a source should have, up to `block_rows`, so that no pipeline it feeds takes long for one.
    pub fn block_rows(&self, source: usize, block_rows: usize) -> usize {
        let fed = self.all[self.index(NodeRef::Source(source))].downstream.iter();
        let cost_ns = fed.map(|&fed| self.all[fed].cost_ns).fold(0.0, f64::max);
        if cost_ns * block_rows as f64 <= BLOCK_NS_MAX {
            return block_rows;
        }
        ((TASK_NS_MAX / cost_ns) as usize).max(BLOCK_PART_ROWS_MIN).min(block_rows)
    }

    /// What each stands for, in the order of `all`.
    pub fn nodes(&self) -> impl Iterator<Item = NodeRef> + use<> {
        let starts = self.starts;
        (0..self.all.len()).map(move |index| node_of(starts, index))
    }

    /// The stateful operators that may wait for the clock's time that rows of a source have: none where they have another.
    pub fn by_clock(&self, source: usize) -> &[usize] {
        &self.by_clock[source]
    }

    pub fn index(&self, node: NodeRef) -> usize {
        match node {
            NodeRef::Source(index) => self.starts[0] + index,
            NodeRef::Pipeline(index) => self.starts[1] + index,
            NodeRef::Operator(index) => self.starts[2] + index,
            NodeRef::Sink(index) => self.starts[3] + index,
        }
    }

    /// Learns from what was done since the last time.
    pub fn measure(&mut self) {
        self.all.iter_mut().for_each(NodeStatistics::measure);
        self.weigh();
    }

    /// What follows from costs and selectivities, from the outputs upward.
    ///
    /// Of equation 2 the sum is over all that is downstream and not only what is next: otherwise what is two steps away would cost nothing,
    /// and of the five operators in the paper's example the first would go before the second.
    pub fn weigh(&mut self) {
        for &index in &self.upward {
            let operator = &self.all[index];
            let below = || operator.downstream.iter().map(|&index| &self.all[index]);
            let output_selectivity = below().map(|next| next.output_selectivity).fold(f64::NAN, f64::max);
            let own = operator.selectivity.max(SELECTIVITY_MIN);
            let output_selectivity = if output_selectivity.is_nan() { own } else { own * output_selectivity };
            let output_selectivity = output_selectivity.max(SELECTIVITY_MIN);
            let cost_below_ns: f64 = below().map(|next| next.output_cost_ns).sum();
            let path_cost_ns =
                operator.cost_ns + own * below().map(|next| next.output_selectivity / next.output_rate).sum::<f64>();
            let operator = &mut self.all[index];
            operator.output_selectivity = output_selectivity;
            operator.output_cost_ns = operator.cost_ns / output_selectivity + cost_below_ns;
            operator.output_rate = output_selectivity / path_cost_ns.max(f64::MIN_POSITIVE);
        }
    }
}

/// What an index of `all` stands for, where each kind begins there.
fn node_of(starts: [usize; 4], index: usize) -> NodeRef {
    let kind = starts.partition_point(|&start| start <= index) - 1;
    let within = index - starts[kind];
    match kind {
        0 => NodeRef::Source(within),
        1 => NodeRef::Pipeline(within),
        2 => NodeRef::Operator(within),
        _ => NodeRef::Sink(within),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operator_stands_for_a_node() {
        let mut operators = GraphStatistics::new(vec![NodeStatistics::new(Vec::new()); 6]);
        // Two sources, no pipeline, one stateful operator, three sinks.
        operators.starts = [0, 2, 2, 3];
        let nodes: Vec<NodeRef> = operators.nodes().collect();
        assert_eq!(
            nodes,
            [
                NodeRef::Source(0),
                NodeRef::Source(1),
                NodeRef::Operator(0),
                NodeRef::Sink(0),
                NodeRef::Sink(1),
                NodeRef::Sink(2)
            ]
        );
        assert!(nodes.into_iter().map(|node| operators.index(node)).eq(0..6));
    }

    #[test]
    fn tasks_take_no_longer_than_others_may_wait() {
        let mut operators = GraphStatistics::new(vec![
            NodeStatistics::new(vec![1, 2]),
            NodeStatistics::new(vec![]),
            NodeStatistics::new(vec![]),
        ]);
        let mut costs = |costs_ns: [f64; 2], block_rows: usize| {
            operators.all[1].cost_ns = costs_ns[0];
            operators.all[2].cost_ns = costs_ns[1];
            let rows = operators.block_rows(0, block_rows);
            (rows, operators.all[2].blocks_per_task(rows))
        };
        assert_eq!(costs([1.0, 0.01], 1 << 16), (1 << 16, 64));
        assert_eq!(costs([1.0, 2.0], 1 << 16), (1 << 16, 8));
        assert_eq!(costs([1.0, 20.0], 1 << 16), (1 << 16, 1), "two are more than one task does");
        assert_eq!(costs([200.0, 1.0], 1 << 16), (10_000, 20), "the dearest pipeline counts");
        assert_eq!(costs([1.0, 1e6], 1 << 16), (BLOCK_PART_ROWS_MIN, 1));
        assert_eq!(costs([1.0, 1e6], 100), (100, 1));
    }
}
