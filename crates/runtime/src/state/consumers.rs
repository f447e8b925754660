//! Who reads a stream.

use std::sync::Arc;

use crate::graph::{Graph, StreamRef};

/// Who reads a stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct Consumers {
    pub pipelines: Vec<usize>,
    /// Operators that state is handed on to.
    pub operators: Vec<usize>,
    pub sinks: Vec<usize>,
}

impl Consumers {
    pub fn of(graph: &Graph, stream: StreamRef) -> Arc<Consumers> {
        let pipelines = graph.pipelines.iter().enumerate().filter(|(_, p)| p.input == stream).map(|(i, _)| i);
        let sinks = graph.sinks.iter().enumerate();
        let sinks = sinks.flat_map(|(i, s)| s.inputs.iter().filter(|&&input| input == stream).map(move |_| i));
        let operators = match stream {
            StreamRef::Operator(operator) => graph.operators[operator].0.subscribers().to_vec(),
            _ => Vec::new(),
        };
        Arc::new(Consumers { pipelines: pipelines.collect(), operators, sinks: sinks.collect() })
    }
}
