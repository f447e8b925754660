//! Takes the state of a run at a cut.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use pelton_state::snapshot::SnapshotError;

use super::{OperatorSnapshot, PartitionSnapshot, RunSnapshot, SinkSnapshot, SourceSnapshot};
use crate::error::RunError;
use crate::output::outlet::Outlet;
use crate::run::RunHandle;
use crate::shared::Shared;
use crate::state::{SinkState, State};
use crate::sync::MutexGuard;
use crate::sync::atomic::Ordering;

/// Why there is no cut.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    /// The run has ended, or failed, before.
    #[error("the query has ended")]
    Ended,
    /// Rows are still under way when the time is over: a sink may take none.
    #[error("rows are still on their way to a sink that does not take them")]
    Busy,
    /// The state of an operator cannot be written.
    #[error("{operator}: {error}")]
    Operator {
        /// Its name.
        operator: String,
        /// Why.
        error: SnapshotError,
    },
    /// A sink cannot commit rows before its last.
    #[error("{output}: {problem}")]
    Unprepared {
        /// Its name.
        output: String,
        /// Why.
        problem: String,
    },
    /// Rows wait in front of a sink that cannot be written.
    #[error(
        "{0}: rows that wait for the end of the input to be put in order (ORDER BY) have no snapshot; leave ORDER BY out"
    )]
    Sorted(String),
}

impl State {
    /// Whether nothing is under way: every row that was read has come to an operator's state or to a sink.
    pub fn is_quiet(&self) -> bool {
        let sources = || self.sources.iter().all(|node| !node.reading && node.sequencer.chunks.outstanding() == 0);
        let pipelines = || self.pipelines.iter().all(|node| node.queue.is_empty() && node.order.outstanding() == 0);
        let operators = || self.operators.iter().all(|node| node.is_at_rest());
        let sinks = || self.sinks.iter().all(|node| node.is_quiet(self.holds_ends));
        self.tasks_running == 0 && sources() && pipelines() && operators() && sinks()
    }

    /// Whether somebody waits for what has come about now.
    pub fn is_awaited(&self) -> bool {
        self.is_held && self.is_quiet() || self.holds_ends && self.has_all_output()
    }
}

impl SinkState {
    /// Whether nothing waits for it, and no rows that it has taken wait in it.
    fn is_quiet(&self, holds_ends: bool) -> bool {
        let has_nothing = self.waiting() == 0 && !self.writing && !self.unflushed;
        self.ended || has_nothing && !self.wants_end(holds_ends)
    }
}

impl RunHandle {
    /// Takes what the run is at a cut. Reading waits meanwhile; rows that are under way are processed first. Blocks until then.
    ///
    /// Rows that sinks have taken are prepared to be committed ([`crate::sink::Sink::prepare`]), and those behind the cut are not among them.
    ///
    /// # Errors
    /// [`CutError`]. The run goes on, unless it has ended.
    pub fn cut(&self) -> Result<RunSnapshot, CutError> {
        self.at_cut(None, Shared::snapshot_at_cut)
    }

    /// Has reading wait, so that a cut comes about, which [`RunHandle::try_cut`] takes.
    pub fn hold(&self) {
        self.0.state().is_held = true;
        self.0.waker.wake();
    }

    /// Waits until [`RunHandle::try_cut`] can take a cut, but not for longer than that.
    pub fn wait_for_cut(&self, timeout: Duration) {
        drop(self.wait_until_quiet(Instant::now().checked_add(timeout)));
    }

    /// As [`RunHandle::cut`], but does not block: `None` while rows are under way, and reading is held then.
    pub fn try_cut(&self) -> Option<Result<RunSnapshot, CutError>> {
        // Another cut may have let reading go on.
        self.hold();
        let state = self.0.unchanged_state();
        if !state.is_quiet() && !self.0.has_ended() && !state.must_stop() {
            return None;
        }
        Some(self.act_at_cut(state, Shared::snapshot_at_cut))
    }

    /// Does something while reading is held and nothing is under way. Gives up at the deadline.
    pub(super) fn at_cut<T, E: From<CutError>>(
        &self,
        deadline: Option<Instant>,
        act: impl FnOnce(&Shared) -> Result<T, E>,
    ) -> Result<T, E> {
        self.hold();
        let state = self.wait_until_quiet(deadline);
        self.act_at_cut(state, act)
    }

    /// Waits until nothing is under way, the run has ended, or the deadline.
    fn wait_until_quiet(&self, deadline: Option<Instant>) -> MutexGuard<'_, State> {
        let shared = &self.0;
        let mut state = shared.unchanged_state();
        let has_time = || deadline.is_none_or(|deadline| Instant::now() < deadline);
        while !state.is_quiet() && !shared.has_ended() && !state.must_stop() && has_time() {
            state = match deadline {
                None => shared.awaited.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    shared.awaited.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        state
    }

    /// Does something at a cut, if that has come about, and lets reading go on.
    fn act_at_cut<T, E: From<CutError>>(
        &self,
        mut state: MutexGuard<'_, State>,
        act: impl FnOnce(&Shared) -> Result<T, E>,
    ) -> Result<T, E> {
        let shared = &self.0;
        if shared.has_ended() || state.must_stop() || !state.is_quiet() {
            let error = if state.must_stop() || shared.has_ended() { CutError::Ended } else { CutError::Busy };
            state.is_held = false;
            drop(state);
            shared.waker.wake();
            return Err(error.into());
        }
        // It is a task, so that nobody else ends the run meanwhile. What a stop makes possible waits.
        state.tasks_running += 1;
        state.is_being_cut = true;
        drop(state);
        let done = catch_unwind(AssertUnwindSafe(|| act(shared)));
        let mut state = shared.state();
        (state.is_held, state.is_being_cut) = (false, false);
        state.tasks_running -= 1;
        let must_finish = state.must_finish();
        drop(state);
        if must_finish {
            shared.finish();
        }
        shared.waker.wake();
        done.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Takes the memory of a snapshot that nobody needs any more, for the next one.
    pub fn recycle(&self, snapshot: RunSnapshot) {
        for (buffer, operator) in self.0.recycled().iter_mut().zip(snapshot.operators) {
            *buffer = operator.state;
        }
    }
}

impl Shared {
    /// What the run is at a cut, and what sinks have prepared there.
    fn snapshot_at_cut(&self) -> Result<RunSnapshot, CutError> {
        let (mut snapshot, sinks) = (self.take_snapshot()?, self.prepare_sinks()?);
        self.forget_passing_positions(&mut snapshot);
        Ok(RunSnapshot { sinks, ..snapshot })
    }

    fn recycled(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.recycled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of a run of which nothing is under way, nor will be before this is done. Sinks are not prepared.
    pub(super) fn take_snapshot(&self) -> Result<RunSnapshot, CutError> {
        let mut states = Vec::with_capacity(self.graph.operators.len());
        for index in 0..self.graph.operators.len() {
            let operator = self.operator(index);
            let into = std::mem::take(&mut self.recycled()[index]);
            let state = operator.snapshot(into);
            states.push(state.map_err(|error| CutError::Operator { operator: operator.name().to_owned(), error })?);
        }
        let positions = self.positions();
        let state = self.state();
        let sources = state.sources.iter().zip(positions).map(|(node, (partitions, completed))| SourceSnapshot {
            name: node.name.clone(),
            partitions,
            completed,
            watermark: node.sequencer.watermark(),
            stream: node.sequencer.stream(),
        });
        let began_behind = self.began_behind.iter().map(|time| time.load(Ordering::Relaxed));
        let operators = state.operators.iter().zip(states).zip(began_behind);
        let operators = operators.map(|((node, state), began_behind)| OperatorSnapshot {
            name: node.name.clone(),
            state,
            stream: node.results.stream(),
            late_rows: node.late_rows,
            began_behind,
        });
        let sinks = state.sinks.iter().zip(&self.graph.sinks).map(|(node, sink)| SinkSnapshot {
            name: sink.name.clone(),
            rows: node.rows,
            offset: 0,
            rows_left: None,
            prepared: None,
        });
        Ok(RunSnapshot {
            sources: sources.collect(),
            pipelines: state.pipelines.iter().map(|node| node.passed_on.stream()).collect(),
            operators: operators.collect(),
            sinks: sinks.collect(),
        })
    }

    /// How far the partitions of each source have been read, and what has been completed before.
    fn positions(&self) -> Vec<(Vec<PartitionSnapshot>, Vec<String>)> {
        let partitions_of = |index: usize| {
            let source = self.sources[index].lock().unwrap_or_else(PoisonError::into_inner);
            let source = source.as_ref().expect("a source is there until the run has ended");
            let state = self.unchanged_state();
            let partitions = state.sources[index].sequencer.partitions.iter().enumerate();
            let snapshot = partitions.map(|(partition, known)| PartitionSnapshot {
                name: source.partition_name(partition).into_owned(),
                position: source.position(partition),
                watermark: known.watermark,
                has_ended: known.ended,
                is_idle: known.is_idle,
            });
            (snapshot.collect(), source.completed())
        };
        (0..self.sources.len()).map(partitions_of).collect()
    }

    /// Leaves positions out that mean nothing to a later process.
    fn forget_passing_positions(&self, snapshot: &mut RunSnapshot) {
        for (source, snapshot) in self.sources.iter().zip(&mut snapshot.sources) {
            let source = source.lock().unwrap_or_else(PoisonError::into_inner);
            if source.as_ref().is_some_and(|source| !source.has_lasting_positions()) {
                snapshot.partitions.iter_mut().for_each(|partition| partition.position = None);
            }
        }
    }

    /// Has sinks prepare to commit the rows that they have taken. One that cannot fails the run.
    fn prepare_sinks(&self) -> Result<Vec<SinkSnapshot>, CutError> {
        let is_last = self.unchanged_state().has_all_output();
        for (index, sink) in self.sinks.iter().enumerate().filter(|_| !is_last) {
            let outlet = sink.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(problem) = outlet.as_ref().and_then(Outlet::unprepared) {
                return Err(CutError::Unprepared { output: self.graph.sinks[index].name.clone(), problem });
            }
        }
        let mut snapshots = Vec::with_capacity(self.sinks.len());
        for (index, sink) in self.sinks.iter().enumerate() {
            let name = self.graph.sinks[index].name.clone();
            let mut outlet = sink.lock().unwrap_or_else(PoisonError::into_inner);
            let outlet = outlet.as_mut().expect("a sink is there until the run has ended");
            if outlet.is_sorting() {
                return Err(CutError::Sorted(name));
            }
            outlet.advance(self.unchanged_state().watermark_of_sink(index));
            match outlet.snapshot(name.clone(), is_last) {
                Ok(snapshot) => {
                    snapshots.push(SinkSnapshot { rows: self.unchanged_state().sinks[index].rows, ..snapshot })
                }
                Err(error) => {
                    self.state().fail(RunError::Sink { sink: name, error });
                    return Err(CutError::Ended);
                }
            }
        }
        Ok(snapshots)
    }
}
