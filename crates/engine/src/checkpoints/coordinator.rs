//! Takes checkpoints of a job while it runs, and one when it ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pelton_connectors::JobTransaction;
use pelton_runtime::checkpoint::{CutError, Outputs};
use pelton_runtime::run::{RunError, RunHandle};

use super::history::{Checkpoints, Transaction, Undone};
use super::manifest::{CheckpointKind, JobStage};
use super::watched::{LastCheckpoint, Wanted, Watched};
use crate::error::Error;

/// How often a coordinator looks whether a savepoint was asked for, at least.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// A job whose checkpoints are taken.
pub(crate) struct Coordinator {
    pub checkpoints: Checkpoints,
    /// Between the beginnings of two checkpoints; without one there is only that at the end.
    pub interval: Option<Duration>,
    /// In which the job writes rows to Kafka exactly once.
    pub transaction: JobTransaction,
    pub run: RunHandle,
    pub watched: Watched,
    pub ended: Ended,
}

/// Is told when a job has failed, or come to the end of its input: it need not be started again.
pub(crate) type Ended = Box<dyn FnOnce() + Send>;

impl Coordinator {
    /// Takes checkpoints until the run has ended, on a thread of its own.
    ///
    /// # Errors
    /// Where the system has no thread.
    pub fn start(mut self) -> Result<(), Error> {
        let thread = std::thread::Builder::new().name("pelton-checkpoint".to_owned());
        let started = thread.spawn(move || {
            // Nobody else would end a run that waits for its last checkpoint.
            if catch_unwind(AssertUnwindSafe(|| self.serve())).is_err() {
                self.run.fail(RunError::Internal("taking a checkpoint panicked".to_owned()));
            }
            if self.run.failure().is_some() || !self.run.was_stopped() {
                (self.ended)();
            }
            self.watched.end();
        });
        started.map(drop).map_err(|error| Error::Usage(format!("no thread for checkpoints: {error}")))
    }

    fn serve(&mut self) {
        let mut next = self.interval.map(|interval| Instant::now() + interval);
        loop {
            let left = next.map_or(LOOK_INTERVAL, |next| next.saturating_duration_since(Instant::now()));
            match self.run.wait_for_outputs(left.min(LOOK_INTERVAL)) {
                Outputs::Ended => return,
                Outputs::Complete => return self.finish(),
                Outputs::Open => {}
            }
            let is_due = next.is_some_and(|next| next <= Instant::now());
            if is_due || self.watched.wants_savepoint() {
                let began = Instant::now();
                self.take(JobStage::Running);
                next = self.interval.map(|interval| began + interval);
            }
        }
    }

    /// The last checkpoint of a job whose outputs are complete: then these end. Where it cannot be written, rows that were not committed are not lost only if
    /// the job goes on from the checkpoint before it.
    fn finish(&mut self) {
        let stage = if self.run.was_stopped() { JobStage::Stopped } else { JobStage::Finished };
        match self.take(stage) {
            true => self.run.end_outputs(),
            false => {
                let problem = self.watched.status().error.unwrap_or_default();
                self.run.fail(RunError::Internal(format!("its last checkpoint failed: {problem}")));
            }
        }
    }

    /// Takes a checkpoint, and commits what it has prepared. Returns whether it was written.
    fn take(&mut self, stage: JobStage) -> bool {
        let began = Instant::now();
        let kind = self.kind(stage);
        let cut = match self.run.cut() {
            Ok(cut) => cut,
            // It is told as the error of the job.
            Err(CutError::Ended) => return false,
            Err(error) => {
                self.transaction.reopen();
                return self.failed(error.to_string());
            }
        };
        let pause = began.elapsed();
        let created_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64;
        // Who ends a job does not wait for brokers.
        let is_over = || self.run.wait_for_outputs(Duration::ZERO) == Outputs::Ended;
        let commit = |id| self.transaction.commit(id, &is_over);
        let transaction = self.transaction.prepared().map(|prepared| Transaction { prepared, commit: &commit });
        let written = self.checkpoints.write(&cut, (kind, stage), created_ms, transaction);
        if written.is_ok() {
            self.run.commit(&cut);
        }
        self.run.recycle(cut);
        match written {
            Ok(written) => {
                let mut progress = self.watched.lock();
                progress.status.completed += 1;
                progress.status.error = None;
                progress.status.pause_max = progress.status.pause_max.max(pause);
                progress.status.last = Some(LastCheckpoint {
                    id: written.id,
                    completed: SystemTime::now(),
                    duration: began.elapsed(),
                    pause,
                    state_bytes: written.state_bytes,
                    bytes_written: written.bytes_written,
                });
                true
            }
            Err(Undone::Unwritten(error)) => {
                self.transaction.reopen();
                self.failed(error.to_string())
            }
            Err(Undone::Incomplete(error)) => self.failed(error.to_string()),
            Err(Undone::Uncommitted(error)) => {
                let sink = self.transaction.table().unwrap_or_default();
                let problem = error.to_string();
                self.run.fail(RunError::Sink { sink, error });
                self.failed(problem)
            }
        }
    }

    fn kind(&self, stage: JobStage) -> CheckpointKind {
        let mut progress = self.watched.lock();
        let is_savepoint = match progress.wanted {
            Wanted::None => false,
            Wanted::Savepoint => true,
            Wanted::SavepointAtEnd => stage != JobStage::Running,
        };
        if !is_savepoint {
            return CheckpointKind::Checkpoint;
        }
        progress.wanted = Wanted::None;
        CheckpointKind::Savepoint
    }

    fn failed(&self, problem: String) -> bool {
        let mut progress = self.watched.lock();
        progress.status.failed += 1;
        progress.status.error = Some(problem);
        false
    }
}
