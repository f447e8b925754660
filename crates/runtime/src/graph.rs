//! What the runtime runs.

use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use pelton_data::arrangement::Arrangement;
use pelton_data::{Micros, TimeColumn};

use crate::adapt::KernelSlot;
pub use crate::operators::OperatorNode;
pub use crate::operators::over::OverNode;
pub use crate::operators::timed_join::TimedJoinNode;
pub use crate::operators::unmatched::UnmatchedNode;
pub use crate::operators::window::{ReadOut, SharedBy, WindowNode, WindowStore};
pub use crate::operators::window_join::WindowJoinNode;
use crate::output::sink::Sink;
use crate::source::Source;

/// The nodes of one or more queries. Upstream nodes have smaller indices than downstream ones of their kind, but for slices that windows share.
pub struct Graph {
    /// Inputs.
    pub sources: Vec<SourceNode>,
    /// Pipelines, each over one stream.
    pub pipelines: Vec<PipelineNode>,
    /// Stateful operators, fed by the pipelines that target them.
    pub operators: Vec<OperatorNode>,
    /// Outputs.
    pub sinks: Vec<SinkNode>,
}

/// A stream of blocks. All streams carry watermark, idleness and end; that of a pipeline has them from its input, also where no row is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamRef {
    /// `Graph::sources[i]`.
    Source(usize),
    /// `Graph::pipelines[i]`.
    Pipeline(usize),
    /// The results of `Graph::operators[i]`.
    Operator(usize),
}

/// A node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeRef {
    /// Reading and decoding of `Graph::sources[i]`.
    Source(usize),
    /// `Graph::pipelines[i]`.
    Pipeline(usize),
    /// What becomes of the state of `Graph::operators[i]`.
    Operator(usize),
    /// `Graph::sinks[i]`.
    Sink(usize),
}

/// An input.
pub struct SourceNode {
    /// For people: the table's name.
    pub name: String,
    /// Reads it.
    pub source: Box<dyn Source>,
    /// Schema of its blocks.
    pub schema: SchemaRef,
    /// How its rows are placed in time.
    pub time: SourceTime,
    /// A partition that has delivered nothing for so long does not hold event time back; none does without it.
    pub idle_timeout: Option<Duration>,
    /// How far it may be ahead of others.
    pub alignment: Option<Alignment>,
}

/// Sources whose event times stay close to each other (Flink's watermark alignment).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alignment {
    /// Those of one name are aligned with each other.
    pub group: Arc<str>,
    /// A source is not read while its watermark is further ahead of that of the last of the group, in microseconds.
    pub drift_max: Micros,
}

/// How a source's rows are placed in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceTime {
    /// Not at all.
    None,
    /// Not at all, but a column says when they were made: latency is measured by it.
    Noted {
        /// The column.
        column: TimeColumn,
    },
    /// By a column, with the watermark trailing the partition's largest time by `delay` microseconds.
    Event {
        /// The column.
        column: TimeColumn,
        /// How far the watermark trails.
        delay: Micros,
        /// A row whose time is further ahead of the clock does not move the watermark, where there is a bound.
        ahead_max: Option<Micros>,
    },
    /// By the engine's clock when a block is taken in; the sequencer appends it as the last column
    /// (`Timestamp(Millisecond, "+00:00")`, not null) of what the source decoded.
    Processing,
}

/// A pipeline: its code can be replaced at any time, and takes effect with the next block.
pub struct PipelineNode {
    /// For people.
    pub name: String,
    /// Where its blocks come from.
    pub input: StreamRef,
    /// Its code.
    pub kernel: Arc<KernelSlot>,
    /// Where its rows go.
    pub target: PipelineTarget,
}

/// Where a pipeline's rows go.
#[derive(Debug, Clone)]
pub enum PipelineTarget {
    /// Into its own stream.
    Stream {
        /// Schema of that stream.
        schema: SchemaRef,
        /// The column of the event times that rows of the input have, where pipelines that read the stream go by these. It is passed on as it is.
        time: Option<TimeColumn>,
    },
    /// Into a port of an operator.
    Operator {
        /// `Graph::operators[i]`.
        operator: usize,
        /// Which of its ports: they are numbered from 0, and one pipeline feeds each.
        port: usize,
    },
}

/// An output, fed by one or more streams.
pub struct SinkNode {
    /// For people.
    pub name: String,
    /// Streams that feed it; rows of one stream keep their order.
    pub inputs: Vec<StreamRef>,
    /// Which of the rows are written, and in which order.
    pub arrangement: Arrangement,
    /// Takes the rows.
    pub sink: Box<dyn Sink>,
}

impl Graph {
    /// The operators that rows of a source, or what they become, come to.
    pub(crate) fn operators_fed_by(&self, source: usize) -> Vec<usize> {
        let mut streams = vec![StreamRef::Source(source)];
        let mut operators: Vec<usize> = Vec::new();
        let mut next = 0;
        while let Some(&stream) = streams.get(next) {
            next += 1;
            for (number, pipeline) in self.pipelines.iter().enumerate().filter(|(_, node)| node.input == stream) {
                match pipeline.target {
                    PipelineTarget::Stream { .. } => streams.push(StreamRef::Pipeline(number)),
                    PipelineTarget::Operator { operator, .. } => {
                        let subscribers = self.operators[operator].0.subscribers();
                        for &fed in std::iter::once(&operator).chain(subscribers) {
                            if !operators.contains(&fed) {
                                operators.push(fed);
                                streams.push(StreamRef::Operator(fed));
                            }
                        }
                    }
                }
            }
        }
        operators
    }

    /// How many streams feed an operator.
    pub(crate) fn ports(&self, operator: usize) -> usize {
        let pipelines = self
            .pipelines
            .iter()
            .filter(|node| matches!(node.target, PipelineTarget::Operator { operator: fed, .. } if fed == operator));
        let handed_on = self.operators.iter().filter(|node| node.0.subscribers().contains(&operator));
        pipelines.count() + handed_on.count()
    }
}
