//! Ends outputs, and commits what they have written, once that cannot be lost.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::RunSnapshot;
use crate::error::RunError;
use crate::run::RunHandle;
use crate::state::State;

/// What has become of the outputs of a run that holds their ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outputs {
    /// Rows may come.
    Open,
    /// All rows have come to the sinks, which wait for [`RunHandle::end_outputs`].
    Complete,
    /// The run has ended, or failed.
    Ended,
}

impl State {
    /// Whether each sink has all of its rows.
    pub fn has_all_output(&self) -> bool {
        self.sinks.iter().all(|sink| sink.at_end || sink.ended)
    }
}

impl RunHandle {
    /// Waits until the outputs are complete or the run has ended, but not for longer than that.
    pub fn wait_for_outputs(&self, timeout: Duration) -> Outputs {
        let until = Instant::now().checked_add(timeout);
        let mut state = self.0.unchanged_state();
        loop {
            match self.outputs_of(&state) {
                Outputs::Open => {}
                outputs => return outputs,
            }
            let left =
                until.map_or(Duration::from_secs(3_600), |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Outputs::Open;
            }
            let waited = self.0.awaited.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn outputs_of(&self, state: &State) -> Outputs {
        match () {
            () if self.0.has_ended() || state.must_stop() => Outputs::Ended,
            () if state.holds_ends && state.has_all_output() => Outputs::Complete,
            () => Outputs::Open,
        }
    }

    /// Commits what sinks had prepared at a cut, which cannot be lost any more, and tells sources of it. A sink that cannot fails the run.
    pub fn commit(&self, snapshot: &RunSnapshot) {
        for (index, prepared) in snapshot.sinks.iter().enumerate() {
            let Some(prepared) = &prepared.prepared else { continue };
            let mut outlet = self.0.sinks[index].lock().unwrap_or_else(PoisonError::into_inner);
            // A run that has ended meanwhile has let go of it: the next one commits.
            let Some(outlet) = outlet.as_mut() else { continue };
            if let Err(error) = outlet.commit(prepared) {
                let sink = self.0.graph.sinks[index].name.clone();
                self.0.state().fail(RunError::Sink { sink, error });
                self.0.waker.wake();
            }
        }
        for (index, source) in snapshot.sources.iter().enumerate() {
            let positions: Vec<_> = source.partitions.iter().map(|partition| partition.position).collect();
            let mut source = self.0.sources[index].lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(source) = source.as_mut() {
                source.commit(&positions);
            }
        }
    }

    /// Lets outputs that have all of their rows end.
    pub fn end_outputs(&self) {
        self.0.state().holds_ends = false;
        self.0.waker.wake();
    }
}
