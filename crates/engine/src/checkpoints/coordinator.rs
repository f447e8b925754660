//! Takes checkpoints of a job while it runs, and one when it ends.
//!
//! It does so step by step, on a thread of its own or when a simulation says: between two steps the run goes on, and none of them waits for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, SystemTime};

use pelton_connectors::JobTransaction;
use pelton_runtime::attendants::{Patience, Step};
use pelton_runtime::checkpoint::{CutError, Outputs, RunSnapshot};
use pelton_runtime::pool::Pool;
use pelton_runtime::run::{RunError, RunHandle};

use super::history::{Checkpoints, Transaction, Undone};
use super::manifest::{CheckpointKind, JobStage};
use super::watched::{LastCheckpoint, Wanted, Watched};
use crate::error::Error;

/// How often a coordinator looks whether a savepoint was asked for, at least.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// A job whose checkpoints are taken.
pub(crate) struct Coordinator {
    checkpoints: Checkpoints,
    /// Between the beginnings of two checkpoints; without one there is only that at the end.
    interval: Option<Duration>,
    /// In which the job writes rows to Kafka exactly once.
    transaction: JobTransaction,
    run: RunHandle,
    watched: Watched,
    /// Told once.
    ended: Option<Ended>,
    phase: Phase,
    /// When the next checkpoint begins by itself, as all times here by the run's clock, in nanoseconds.
    next_ns: Option<u64>,
}

/// Is told when a job has failed, or come to the end of its input: it need not be started again.
pub(crate) type Ended = Box<dyn FnOnce() + Send>;

/// How far the checkpoint has come that is being taken.
enum Phase {
    /// None is.
    Waiting,
    /// Reading is held until nothing is under way.
    Holding(Begun),
    /// The state was taken, after a pause, and is to be written.
    Writing(Begun, Duration, RunSnapshot),
}

/// A checkpoint that is being taken.
#[derive(Clone, Copy)]
struct Begun {
    at_ns: u64,
    stage: JobStage,
}

impl Coordinator {
    pub fn new(
        (checkpoints, interval, transaction): (Checkpoints, Option<Duration>, JobTransaction),
        run: RunHandle,
        watched: Watched,
        ended: Ended,
    ) -> Coordinator {
        let next_ns = next(run.clock().nanos(), interval);
        let (ended, phase) = (Some(ended), Phase::Waiting);
        Coordinator { checkpoints, interval, transaction, run, watched, ended, phase, next_ns }
    }

    /// Takes checkpoints until the run has ended, beside the workers of that pool.
    ///
    /// # Errors
    /// Where the system has no thread.
    pub fn start(mut self, pool: &Pool) -> Result<(), Error> {
        let step = move |patience| {
            // Nobody else would end a run that waits for its last checkpoint.
            let step = catch_unwind(AssertUnwindSafe(|| self.step(patience))).unwrap_or_else(|_| {
                self.run.fail(RunError::Internal("taking a checkpoint panicked".to_owned()));
                Step::Ended
            });
            if step == Step::Ended {
                self.end();
            }
            step
        };
        let started = pool.attend("pelton-checkpoint", step);
        started.map_err(|error| Error::Usage(format!("no thread for checkpoints: {error}")))
    }

    fn end(&mut self) {
        if let Some(ended) = self.ended.take()
            && (self.run.failure().is_some() || !self.run.was_stopped())
        {
            ended();
        }
        self.watched.end();
    }

    /// Does the next thing, if there is one.
    fn step(&mut self, patience: Patience) -> Step {
        match std::mem::replace(&mut self.phase, Phase::Waiting) {
            Phase::Waiting => self.look(patience),
            Phase::Holding(begun) => self.try_cut(begun, patience),
            Phase::Writing(begun, pause, cut) => {
                let is_written = self.write((begun, pause), cut);
                self.took(begun, is_written)
            }
        }
    }

    /// Begins a checkpoint where it is time.
    fn look(&mut self, patience: Patience) -> Step {
        let now_ns = self.run.clock().nanos();
        let left = self.next_ns.map_or(LOOK_INTERVAL, |next_ns| Duration::from_nanos(next_ns.saturating_sub(now_ns)));
        let timeout = match patience {
            Patience::Waits => left.min(LOOK_INTERVAL),
            Patience::None => Duration::ZERO,
        };
        match self.run.wait_for_outputs(timeout) {
            Outputs::Ended => return Step::Ended,
            Outputs::Complete => {
                let stage = if self.run.was_stopped() { JobStage::Stopped } else { JobStage::Finished };
                return self.hold(stage);
            }
            Outputs::Open => {}
        }
        let is_due = self.next_ns.is_some_and(|next_ns| next_ns <= self.run.clock().nanos());
        match is_due || self.watched.wants_savepoint() {
            true => self.hold(JobStage::Running),
            false => Step::Idle,
        }
    }

    fn hold(&mut self, stage: JobStage) -> Step {
        self.run.hold();
        self.phase = Phase::Holding(Begun { at_ns: self.run.clock().nanos(), stage });
        Step::Done
    }

    /// Takes the state where nothing is under way any more.
    fn try_cut(&mut self, begun: Begun, patience: Patience) -> Step {
        if patience == Patience::Waits {
            self.run.wait_for_cut(LOOK_INTERVAL);
        }
        match self.run.try_cut() {
            None => {
                self.phase = Phase::Holding(begun);
                Step::Idle
            }
            Some(Ok(cut)) => {
                self.phase = Phase::Writing(begun, self.since(begun), cut);
                Step::Done
            }
            Some(Err(error)) => {
                // That it has ended is told as the error of the job.
                if error != CutError::Ended {
                    self.transaction.reopen();
                    self.failed(error.to_string());
                }
                self.took(begun, false)
            }
        }
    }

    /// Goes on behind a checkpoint. The last one of a job is that at which its outputs are complete: then these end. Where it cannot be written, rows that were not committed
    /// are not lost only if the job goes on from the checkpoint before it.
    fn took(&mut self, begun: Begun, is_written: bool) -> Step {
        match (begun.stage, is_written) {
            (JobStage::Running, _) => {
                self.next_ns = next(begun.at_ns, self.interval);
                return Step::Done;
            }
            (JobStage::Stopped | JobStage::Finished, true) => self.run.end_outputs(),
            (JobStage::Stopped | JobStage::Finished, false) => {
                let problem = self.watched.status().error.unwrap_or_default();
                self.run.fail(RunError::Internal(format!("its last checkpoint failed: {problem}")));
            }
        }
        Step::Ended
    }

    /// Writes a checkpoint, and commits what it has prepared. Returns whether it was written.
    fn write(&mut self, (begun, pause): (Begun, Duration), cut: RunSnapshot) -> bool {
        let kind = self.kind(begun.stage);
        let created_ms = self.run.clock().micros() / 1_000;
        // Who ends a job does not wait for brokers.
        let is_over = || self.run.wait_for_outputs(Duration::ZERO) == Outputs::Ended;
        let commit = |id| self.transaction.commit(id, &is_over);
        let transaction = self.transaction.prepared().map(|prepared| Transaction { prepared, commit: &commit });
        let written = self.checkpoints.write(&cut, (kind, begun.stage), created_ms, transaction);
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
                    duration: self.since(begun),
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

    fn since(&self, begun: Begun) -> Duration {
        Duration::from_nanos(self.run.clock().nanos().saturating_sub(begun.at_ns))
    }

    fn failed(&self, problem: String) -> bool {
        let mut progress = self.watched.lock();
        progress.status.failed += 1;
        progress.status.error = Some(problem);
        false
    }
}

/// When the checkpoint begins behind one that began then.
fn next(began_ns: u64, interval: Option<Duration>) -> Option<u64> {
    interval.map(|interval| began_ns.saturating_add(u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX)))
}
