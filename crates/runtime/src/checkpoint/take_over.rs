//! A run that goes on in the place of another one, from a cut of it.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::cut::CutError;
use super::restore::RestoreError;
use super::{PartitionSnapshot, RunSnapshot, StateMapping};
use crate::graph::Graph;
use crate::run::{Run, RunHandle, RunOptions};
use crate::scheduler::pool::Pool;
use crate::shared::Shared;
use crate::sink::{Sink, SinkError};
use crate::state::Stop;

/// How long rows that are under way may take until the cut.
const CUT_WAIT_MAX: Duration = Duration::from_secs(10);

/// Why a run does not go on in the place of another one, which goes on itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TakeOverError {
    /// There is no cut.
    #[error(transparent)]
    Cut(#[from] CutError),
    /// A source cannot be read on from where it is.
    #[error("{0} cannot be read on by another query from where it is: its rows would be lost")]
    NoPosition(String),
    /// The new run does not take the state.
    #[error(transparent)]
    Restore(#[from] RestoreError),
}

impl RunHandle {
    /// Options for a run that takes this one's place: those who wake this run, and those who read its results, have to do with that one then.
    pub fn successor_options(&self, options: RunOptions) -> RunOptions {
        RunOptions { waker: self.0.waker.clone(), unread: self.0.options.unread.clone(), ..options }
    }
}

impl Run {
    /// Ends a run at a cut, and has another graph go on there: sources read on from where they were, operators have the state that the mapping gives them, and
    /// outputs write to the sinks of those that it names. The others end. Nothing is read meanwhile.
    ///
    /// The graph has a [`Reserved`] sink where it takes one over, and the options are [`RunHandle::successor_options`]; the pool is that of the run before.
    ///
    /// # Errors
    /// [`TakeOverError`]. The run before goes on.
    pub fn take_over(
        before: &RunHandle,
        mut graph: Graph,
        options: RunOptions,
        pool: &Pool,
        mapping: &StateMapping,
    ) -> Result<Run, TakeOverError> {
        let shared = before.at_cut(Some(Instant::now() + CUT_WAIT_MAX), |old| {
            let snapshot = old.take_snapshot()?;
            check_outlets(old)?;
            check_positions(&snapshot, mapping)?;
            snapshot.seek(&mut graph.sources, mapping)?;
            let shared = Arc::new(Shared::new(graph, options, pool.crew().clone()));
            shared.restore(&snapshot, mapping)?;
            old.hand_over_sinks(&shared, mapping);
            old.state().stop = Stop::Abort;
            Ok::<_, TakeOverError>(shared)
        })?;
        Ok(Run::begin(shared, pool))
    }
}

/// Rows that wait to be put in order cannot go on.
fn check_outlets(shared: &Shared) -> Result<(), CutError> {
    for (sink, fixed) in shared.sinks.iter().zip(&shared.graph.sinks) {
        let outlet = sink.lock().unwrap_or_else(PoisonError::into_inner);
        if outlet.as_ref().is_some_and(|outlet| outlet.is_sorting()) {
            return Err(CutError::Sorted(fixed.name.clone()));
        }
    }
    Ok(())
}

/// All partitions that are read on can be.
fn check_positions(snapshot: &RunSnapshot, mapping: &StateMapping) -> Result<(), TakeOverError> {
    let lacks_position = |known: &PartitionSnapshot| known.position.is_none() && !known.has_ended;
    let sources = mapping.sources.iter().flatten().map(|&source| &snapshot.sources[source]);
    match sources.into_iter().find(|source| source.partitions.iter().any(lacks_position)) {
        Some(source) => Err(TakeOverError::NoPosition(source.name.clone())),
        None => Ok(()),
    }
}

impl Shared {
    /// Gives its sinks to the outputs of another run, and ends the others.
    fn hand_over_sinks(&self, to: &Shared, mapping: &StateMapping) {
        for (number, outlet) in self.sinks.iter().enumerate() {
            let outlet = outlet.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(mut outlet) = outlet else { continue };
            match mapping.sinks.iter().position(|&from| from == Some(number)) {
                Some(output) => {
                    let mut taking = to.sinks[output].lock().unwrap_or_else(PoisonError::into_inner);
                    let taking = taking.as_mut().expect("a sink is there until the run has ended");
                    drop(taking.replace_sink(outlet.into_sink()));
                }
                // What it could not write is told by nobody: the run has ended.
                None => drop(outlet.finish()),
            }
        }
    }
}

/// Stands for the sink of another run that a graph is to take over, and takes no rows itself.
pub struct Reserved;

impl Sink for Reserved {
    fn is_ready(&self) -> bool {
        false
    }

    fn write(&mut self, _rows: &arrow::array::RecordBatch) -> Result<(), SinkError> {
        unreachable!("it is replaced before the first row")
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}
