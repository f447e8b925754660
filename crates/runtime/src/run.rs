//! A run: one graph, from its start to its end.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::checkpoint::{RestoreError, RunSnapshot, StateMapping};
use crate::clock::Clock;
pub use crate::error::RunError;
use crate::graph::Graph;
pub use crate::options::RunOptions;
use crate::progress::Progress;
use crate::scheduler::pool::Pool;
use crate::scheduler::wake::Waker;
use crate::shared::Shared;
use crate::state::Stop;

/// A graph in execution. Dropping it stops it.
pub struct Run {
    shared: Arc<Shared>,
    /// Its threads are there as long as the run is.
    _pool: Pool,
}

/// Watches and stops a run from elsewhere.
#[derive(Clone)]
pub struct RunHandle(pub(crate) Arc<Shared>);

/// Finds a run again as long as somebody has it.
#[derive(Clone)]
pub struct WeakRunHandle(Weak<Shared>);

impl WeakRunHandle {
    /// The run, if somebody still has it.
    pub fn upgrade(&self) -> Option<RunHandle> {
        self.0.upgrade().map(RunHandle)
    }
}

impl Run {
    /// Hands a graph to the workers of a pool; the options are made for it.
    pub fn start(graph: Graph, options: RunOptions, pool: &Pool) -> Run {
        Run::begin(Arc::new(Shared::new(graph, options, pool.crew().clone())), pool)
    }

    /// As [`Run::start`], where another run of the same graph was at a cut. Nothing is read before all is as it was then.
    ///
    /// # Errors
    /// [`RestoreError`].
    pub fn restore(
        graph: Graph,
        options: RunOptions,
        pool: &Pool,
        snapshot: &RunSnapshot,
    ) -> Result<Run, RestoreError> {
        let mapping = StateMapping::of_same_graph(snapshot, &graph)?;
        Run::restore_mapped(graph, options, pool, (snapshot, &mapping))
    }

    /// As [`Run::restore`], of another graph that has parts of that one.
    ///
    /// # Errors
    /// [`RestoreError`].
    pub fn restore_mapped(
        mut graph: Graph,
        options: RunOptions,
        pool: &Pool,
        (snapshot, mapping): (&RunSnapshot, &StateMapping),
    ) -> Result<Run, RestoreError> {
        snapshot.seek(&mut graph.sources, mapping)?;
        let shared = Arc::new(Shared::new(graph, options, pool.crew().clone()));
        shared.restore(snapshot, mapping)?;
        shared.restore_sinks(snapshot, mapping)?;
        Ok(Run::begin(shared, pool))
    }

    /// Hands what is ready to run to the workers of its pool.
    pub(crate) fn begin(shared: Arc<Shared>, pool: &Pool) -> Run {
        pool.take(shared.clone());
        Run { shared, _pool: pool.clone() }
    }

    /// Something to watch and stop the run with, which may outlive it.
    pub fn handle(&self) -> RunHandle {
        RunHandle(self.shared.clone())
    }

    /// Waits until the run has ended.
    ///
    /// # Errors
    /// The first error in the order of the input, where the run failed.
    pub fn wait(self) -> Result<Progress, RunError> {
        self.shared.ended.wait();
        let handle = self.handle();
        match handle.failure() {
            Some(error) => Err(error),
            None => Ok(handle.progress()),
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.shared.ended.is_set() {
            self.handle().stop_with(Stop::Abort);
            self.shared.ended.wait();
        }
    }
}

impl RunHandle {
    /// Reads nothing more, processes what was read, and ends. Windows that are still open are not reported.
    pub fn drain(&self) {
        self.stop_with(Stop::Drain);
    }

    /// Reads nothing more, and ends as if all inputs had ended: windows that are open are reported.
    pub fn end_inputs(&self) {
        self.stop_with(Stop::EndInputs);
    }

    /// Ends at once.
    pub fn abort(&self) {
        self.stop_with(Stop::Abort);
    }

    /// Ends with an error that nothing of the graph has made.
    pub fn fail(&self, error: RunError) {
        self.0.state().fail(error);
        self.stop_with(Stop::Abort);
    }

    fn stop_with(&self, stop: Stop) {
        let mut state = self.0.state();
        // What is being stopped in one way goes on to be, unless it is to end at once.
        if state.stop == Stop::No || stop == Stop::Abort {
            state.stop = stop;
        }
        for source in 0..state.sources.len() {
            state.end_source_if_done(source);
        }
        // Where no worker is on it, none need be waited for: all may be busy with other runs.
        let must_finish = state.must_finish();
        drop(state);
        if must_finish {
            self.0.finish();
        }
        self.0.waker.wake();
    }

    /// Whether that is a waker of the run.
    pub fn is_woken_by(&self, waker: &Waker) -> bool {
        self.0.waker == *waker
    }

    /// The same, without keeping what the run holds.
    pub fn downgrade(&self) -> WeakRunHandle {
        WeakRunHandle(Arc::downgrade(&self.0))
    }

    /// Whether nothing is left to do.
    pub fn has_ended(&self) -> bool {
        self.0.state().has_ended()
    }

    /// Whether all is done and let go of.
    pub fn is_over(&self) -> bool {
        self.0.has_ended()
    }

    /// Waits for so long at most until all is done and let go of, and returns whether it is.
    pub fn wait_for(&self, timeout: Duration) -> bool {
        self.0.ended.wait_for(timeout)
    }

    /// Whether somebody has stopped it, or is stopping it.
    pub fn was_stopped(&self) -> bool {
        self.0.unchanged_state().stop != Stop::No
    }

    /// What its workers know the time from.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// The error that stopped the run, if one did.
    pub fn failure(&self) -> Option<RunError> {
        self.0.state().failure.clone()
    }

    /// What has been done so far.
    pub fn progress(&self) -> Progress {
        self.0.progress()
    }

    /// Rows that the first pipeline has computed: a look that costs next to nothing, and changes nothing.
    pub fn rows_computed(&self) -> u64 {
        self.0.unchanged_state().pipelines.first().map_or(0, |pipeline| pipeline.rows)
    }
}
