//! Which part of a snapshot each part of a graph goes on from.

use super::{RestoreError, RunSnapshot};
use crate::graph::Graph;

/// For each part of a graph the number of the part of a snapshot that it goes on from; `None` where it begins anew.
///
/// A stateful operator may go on from the state of one that computed the same from the same streams, and these go on then, too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateMapping {
    /// By [`Graph::sources`].
    pub sources: Vec<Option<usize>>,
    /// By [`Graph::pipelines`].
    pub pipelines: Vec<Option<usize>>,
    /// By [`Graph::operators`].
    pub operators: Vec<Option<usize>>,
    /// By [`Graph::sinks`].
    pub sinks: Vec<Option<usize>>,
}

impl StateMapping {
    /// That of the graph that the snapshot was taken of.
    pub(crate) fn of_same_graph(snapshot: &RunSnapshot, graph: &Graph) -> Result<StateMapping, RestoreError> {
        let wanted = graph.sources.iter().map(|source| source.name.as_str());
        check_names("sources", snapshot.sources.iter().map(|source| source.name.as_str()), wanted)?;
        let found = snapshot.operators.iter().map(|operator| operator.name.as_str());
        check_names("operators", found, graph.operators.iter().map(|node| node.0.name()))?;
        let found = snapshot.sinks.iter().map(|sink| sink.name.as_str());
        check_names("outputs", found, graph.sinks.iter().map(|sink| sink.name.as_str()))?;
        let all = |count: usize| (0..count).map(Some).collect();
        Ok(StateMapping {
            sources: all(snapshot.sources.len()),
            pipelines: all(snapshot.pipelines.len().min(graph.pipelines.len())),
            operators: all(snapshot.operators.len()),
            sinks: all(snapshot.sinks.len()),
        })
    }
}

/// Checks that the parts of a snapshot are those of the run, in their order.
fn check_names<'a>(
    what: &str,
    found: impl Iterator<Item = &'a str> + Clone,
    wanted: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), RestoreError> {
    if found.clone().eq(wanted.clone()) {
        return Ok(());
    }
    let listed = |names: Vec<&str>| match names.as_slice() {
        [] => format!("no {what}"),
        names => format!("the {what} {}", names.join(", ")),
    };
    Err(RestoreError::OtherGraph { found: listed(found.collect()), wanted: listed(wanted.collect()) })
}
