//! Gives a run that has not begun what another run of the same graph was at a cut.

use std::sync::PoisonError;

use pelton_data::time::WATERMARK_MIN;
use pelton_state::snapshot::SnapshotError;

use super::{PartitionSnapshot, RunSnapshot};
use crate::graph::SourceNode;
use crate::operators::Restored;
use crate::shared::{Fixed, Shared};
use crate::sink::SinkError;
use crate::source::Source;
use crate::sync::Mutex;

/// Why a run cannot go on from a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// It is of another graph.
    #[error("the snapshot has {found}, and the query {wanted}")]
    OtherGraph {
        /// What it has: `the sources bids`.
        found: String,
        /// What the run has.
        wanted: String,
    },
    /// A partition of an input that was read is not there any more.
    #[error("{table}: {partition} was read in part, and is not there any more")]
    PartitionGone {
        /// The input.
        table: String,
        /// Its partition.
        partition: String,
    },
    /// The state of an operator is not one of this operator.
    #[error("{operator}: {error}")]
    Operator {
        /// Its name.
        operator: String,
        /// What is wrong.
        error: SnapshotError,
    },
    /// A sink cannot commit the rows that it had prepared, or remove those behind.
    #[error("{0}")]
    Sink(SinkError),
}

impl RunSnapshot {
    /// Puts sources where they were: before the run begins. Partitions that are new are read from their start.
    pub(crate) fn seek(&self, sources: &mut [SourceNode]) -> Result<(), RestoreError> {
        let wanted = sources.iter().map(|source| source.name.as_str());
        check_names("sources", self.sources.iter().map(|source| source.name.as_str()), wanted)?;
        for (snapshot, node) in self.sources.iter().zip(sources) {
            for name in &snapshot.completed {
                node.source.resume(name, None);
            }
            for known in snapshot.partitions.iter().filter(|known| known.has_ended || known.position.is_some()) {
                let position = known.position.filter(|_| !known.has_ended);
                if !node.source.resume(&known.name, position) {
                    let (table, partition) = (node.name.clone(), known.name.clone());
                    return Err(RestoreError::PartitionGone { table, partition });
                }
            }
        }
        Ok(())
    }
}

impl Shared {
    /// Becomes what the snapshot says, but for the sources, which have been put where they were.
    pub(crate) fn restore(&self, snapshot: &RunSnapshot) -> Result<(), RestoreError> {
        let Fixed { operators, sinks, .. } = &self.graph;
        let found = snapshot.operators.iter().map(|operator| operator.name.as_str());
        check_names("operators", found, operators.iter().map(|node| node.0.name()))?;
        let found = snapshot.sinks.iter().map(|sink| sink.name.as_str());
        check_names("outputs", found, sinks.iter().map(|sink| sink.name.as_str()))?;
        let mut restored = Vec::with_capacity(operators.len());
        for (index, operator) in snapshot.operators.iter().enumerate() {
            let state = self.operator(index).restore(&operator.state);
            restored.push(state.map_err(|error| RestoreError::Operator { operator: operator.name.clone(), error })?);
        }
        let outlets = || self.sinks.iter().map(|outlet| outlet.lock().unwrap_or_else(PoisonError::into_inner));
        for (mut outlet, sink) in outlets().zip(&snapshot.sinks) {
            let outlet = outlet.as_mut().expect("a sink is there until the run has ended");
            outlet.restore(sink).map_err(RestoreError::Sink)?;
        }
        for mut outlet in outlets() {
            let outlet = outlet.as_mut().expect("a sink is there until the run has ended");
            outlet.recover().map_err(RestoreError::Sink)?;
        }
        self.restore_streams(snapshot, restored);
        Ok(())
    }

    /// Numbers and times of streams go on where they were.
    fn restore_streams(&self, snapshot: &RunSnapshot, restored: Vec<Restored>) {
        let names: Vec<Vec<String>> = self.partition_names();
        let mut state = self.state();
        for (node, stream) in state.pipelines.iter_mut().zip(&snapshot.pipelines) {
            node.passed_on.restore(stream);
        }
        for (index, restored) in restored.into_iter().enumerate() {
            let node = &mut state.operators[index];
            node.results.restore(&snapshot.operators[index].stream);
            node.late_rows = snapshot.operators[index].late_rows;
            state.operator_restored(index, restored);
        }
        for (node, sink) in state.sinks.iter_mut().zip(&snapshot.sinks) {
            node.rows = sink.rows;
            node.closed |= sink.rows_left == Some(0);
        }
        for (index, source) in snapshot.sources.iter().enumerate() {
            let known = |name: &String| source.partitions.iter().find(|known: &&PartitionSnapshot| known.name == *name);
            let partitions: Vec<Option<&PartitionSnapshot>> = names[index].iter().map(known).collect();
            let sequencer = &mut state.sources[index].sequencer;
            sequencer.restore(source, &partitions);
            let watermark = sequencer.watermark();
            // All that reads the stream learns how far its time had come.
            if watermark > WATERMARK_MIN && !sequencer.has_ended() {
                let now_ns = self.clock.nanos();
                state.punctuate(index, watermark, now_ns);
            }
            state.end_source_if_done(index);
        }
    }

    fn partition_names(&self) -> Vec<Vec<String>> {
        let names = |source: &Mutex<Option<Box<dyn Source>>>| {
            let source = source.lock().unwrap_or_else(PoisonError::into_inner);
            let source = source.as_ref().expect("a source is there until the run has ended");
            (0..source.partitions()).map(|partition| source.partition_name(partition).into_owned()).collect()
        };
        self.sources.iter().map(names).collect()
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
