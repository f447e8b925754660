//! Takes checkpoints of a job while it runs, and one when it ends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pelton_runtime::checkpoint::{CutError, Outputs};
use pelton_runtime::run::RunHandle;

use super::{CheckpointKind, Checkpoints, JobStage};
use crate::error::Error;

/// How often a coordinator looks whether a savepoint was asked for, at least.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// What has become of the checkpoints of a job.
#[derive(Debug, Clone, Default)]
pub struct CheckpointStatus {
    /// Checkpoints that were written.
    pub completed: u64,
    /// Checkpoints that could not be taken or written.
    pub failed: u64,
    /// The last that was written.
    pub last: Option<LastCheckpoint>,
    /// Why the last one that failed did, where none was written since.
    pub error: Option<String>,
    /// The number of the checkpoint that the job went on from.
    pub restored_from: Option<u64>,
}

/// A checkpoint that was written.
#[derive(Debug, Clone, Copy)]
pub struct LastCheckpoint {
    /// Its number.
    pub id: u64,
    /// When it was complete.
    pub completed: SystemTime,
    /// From its beginning until then.
    pub duration: Duration,
    /// For how long nothing was read: until all rows under way were processed and the state was taken.
    pub pause: Duration,
    /// Of all state.
    pub state_bytes: u64,
    /// Of what was written.
    pub bytes_written: u64,
}

/// The checkpoints of a job that runs, as others see them.
#[derive(Clone, Default)]
pub(crate) struct Watched(Arc<Mutex<Progress>>);

#[derive(Default)]
struct Progress {
    status: CheckpointStatus,
    /// The next one is a savepoint.
    is_savepoint_wanted: bool,
}

impl Watched {
    /// Of a job that went on from that checkpoint.
    pub fn restored_from(id: Option<u64>) -> Watched {
        let watched = Watched::default();
        watched.lock().status.restored_from = id;
        watched
    }

    pub fn status(&self) -> CheckpointStatus {
        self.lock().status.clone()
    }

    /// Has the next checkpoint be a savepoint, which is taken soon.
    pub fn want_savepoint(&self) {
        self.lock().is_savepoint_wanted = true;
    }

    fn is_savepoint_wanted(&self) -> bool {
        self.lock().is_savepoint_wanted
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A job whose checkpoints are taken.
pub(crate) struct Coordinator {
    pub checkpoints: Checkpoints,
    /// Between the beginnings of two checkpoints; without one there is only that at the end.
    pub interval: Option<Duration>,
    pub run: RunHandle,
    pub watched: Watched,
}

impl Coordinator {
    /// Takes checkpoints until the run has ended, on a thread of its own.
    ///
    /// # Errors
    /// Where the system has no thread.
    pub fn start(mut self) -> Result<(), Error> {
        let thread = std::thread::Builder::new().name("pelton-checkpoint".to_owned());
        let started = thread.spawn(move || self.serve());
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
            if is_due || self.watched.is_savepoint_wanted() {
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
                self.run.fail(pelton_runtime::run::RunError::Internal(format!("its last checkpoint failed: {problem}")));
            }
        }
    }

    /// Takes a checkpoint, and commits what it has prepared. Returns whether it was written.
    fn take(&mut self, stage: JobStage) -> bool {
        let began = Instant::now();
        let is_savepoint = std::mem::take(&mut self.watched.lock().is_savepoint_wanted);
        let kind = if is_savepoint { CheckpointKind::Savepoint } else { CheckpointKind::Checkpoint };
        let cut = match self.run.cut() {
            Ok(cut) => cut,
            // It is told as the error of the job.
            Err(CutError::Ended) => return false,
            Err(error) => return self.failed(error.to_string()),
        };
        let pause = began.elapsed();
        let created_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64;
        match self.checkpoints.write(&cut, (kind, stage), created_ms) {
            Ok(written) => {
                self.run.commit(&cut);
                let mut progress = self.watched.lock();
                progress.status.completed += 1;
                progress.status.error = None;
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
            Err(error) => self.failed(error.to_string()),
        }
    }

    fn failed(&self, problem: String) -> bool {
        let mut progress = self.watched.lock();
        progress.status.failed += 1;
        progress.status.error = Some(problem);
        false
    }
}
