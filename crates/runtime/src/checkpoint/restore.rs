//! Gives a run that has not begun what another run of the same graph was at a cut.

use std::sync::PoisonError;

use pelton_data::Micros;
use pelton_data::time::WATERMARK_MIN;
use pelton_state::snapshot::SnapshotError;

use super::{OperatorSnapshot, PartitionSnapshot, RunSnapshot, StateMapping};
use crate::graph::{SourceNode, SourceTime};
use crate::operators::Restored;
use crate::shared::{Fixed, FixedSource, Shared};
use crate::sink::SinkError;
use crate::source::Source;
use crate::sync::Mutex;
use crate::sync::atomic::Ordering;

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
    pub(crate) fn seek(&self, sources: &mut [SourceNode], mapping: &StateMapping) -> Result<(), RestoreError> {
        for (node, from) in sources.iter_mut().zip(&mapping.sources) {
            let Some(snapshot) = from.map(|from| &self.sources[from]) else { continue };
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
    /// Becomes what the snapshot says, but for the sources, which have been put where they were, and the sinks.
    pub(crate) fn restore(&self, snapshot: &RunSnapshot, mapping: &StateMapping) -> Result<(), RestoreError> {
        let mut restored = Vec::with_capacity(mapping.operators.len());
        for (index, from) in mapping.operators.iter().enumerate() {
            let Some(operator) = from.map(|from| &snapshot.operators[from]) else {
                self.began_behind[index].store(snapshot.time_read(mapping, &self.graph), Ordering::Relaxed);
                restored.push(None);
                continue;
            };
            self.began_behind[index].store(operator.began_behind, Ordering::Relaxed);
            let state = self.operator(index).restore(&operator.state);
            let state = state.map_err(|error| RestoreError::Operator { operator: operator.name.clone(), error })?;
            restored.push(Some((operator, state)));
        }
        self.restore_streams(snapshot, mapping, restored);
        Ok(())
    }

    /// Has sinks commit what they had prepared, and remove what was written behind that.
    pub(crate) fn restore_sinks(&self, snapshot: &RunSnapshot, mapping: &StateMapping) -> Result<(), RestoreError> {
        let outlets = || self.sinks.iter().map(|outlet| outlet.lock().unwrap_or_else(PoisonError::into_inner));
        for (mut outlet, from) in outlets().zip(&mapping.sinks) {
            let Some(sink) = from.map(|from| &snapshot.sinks[from]) else { continue };
            let outlet = outlet.as_mut().expect("a sink is there until the run has ended");
            outlet.restore(sink).map_err(RestoreError::Sink)?;
        }
        for mut outlet in outlets() {
            let outlet = outlet.as_mut().expect("a sink is there until the run has ended");
            outlet.recover().map_err(RestoreError::Sink)?;
        }
        let mut state = self.state();
        for (node, from) in state.sinks.iter_mut().zip(&mapping.sinks) {
            node.closed |= from.is_some_and(|from| snapshot.sinks[from].rows_left == Some(0));
        }
        Ok(())
    }

    /// Numbers and times of streams go on where they were.
    fn restore_streams(
        &self,
        snapshot: &RunSnapshot,
        mapping: &StateMapping,
        operators: Vec<Option<(&OperatorSnapshot, Restored)>>,
    ) {
        let names: Vec<Vec<String>> = self.partition_names();
        let mut state = self.state();
        for (node, from) in state.pipelines.iter_mut().zip(&mapping.pipelines) {
            from.iter().for_each(|&from| node.passed_on.restore(&snapshot.pipelines[from]));
        }
        for (index, restored) in operators.into_iter().enumerate() {
            let Some((operator, restored)) = restored else { continue };
            let node = &mut state.operators[index];
            node.results.restore(&operator.stream);
            node.late_rows = operator.late_rows;
            state.operator_restored(index, restored);
        }
        for (node, from) in state.sinks.iter_mut().zip(&mapping.sinks) {
            node.rows = from.map_or(0, |from| snapshot.sinks[from].rows);
        }
        for (index, from) in mapping.sources.iter().enumerate() {
            let Some(source) = from.map(|from| &snapshot.sources[from]) else { continue };
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

impl RunSnapshot {
    /// The event times of rows that had been read go up to this: an operator that begins anew has not seen them.
    fn time_read(&self, mapping: &StateMapping, graph: &Fixed) -> Micros {
        let of_source = |(source, from): (&FixedSource, &Option<usize>)| {
            let SourceTime::Event { delay, .. } = source.time else { return WATERMARK_MIN };
            let Some(snapshot) = from.map(|from| &self.sources[from]) else { return WATERMARK_MIN };
            let partitions = snapshot.partitions.iter().filter(|known| !known.has_ended);
            let times = partitions.map(|known| known.watermark).filter(|&watermark| watermark > WATERMARK_MIN);
            times.map(|watermark| watermark.saturating_add(delay)).max().unwrap_or(WATERMARK_MIN)
        };
        graph.sources.iter().zip(&mapping.sources).map(of_source).max().unwrap_or(WATERMARK_MIN)
    }
}
