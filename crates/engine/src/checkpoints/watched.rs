//! The checkpoints of a job that runs, as others see them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// What has become of the checkpoints of a job.
#[derive(Debug, Clone, Default)]
pub struct CheckpointStatus {
    /// Checkpoints that were written.
    pub completed: u64,
    /// Checkpoints that could not be taken or written.
    pub failed: u64,
    /// The last that was written.
    pub last: Option<LastCheckpoint>,
    /// The longest time for which nothing was read.
    pub pause_max: Duration,
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
pub(crate) struct Watched(Arc<Shared>);

#[derive(Default)]
struct Shared {
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Default)]
pub(super) struct Progress {
    pub status: CheckpointStatus,
    pub wanted: Wanted,
    /// Nothing more is written.
    pub has_ended: bool,
}

/// Which checkpoint is to be a savepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Wanted {
    /// None.
    #[default]
    None,
    /// One that is taken soon.
    Savepoint,
    /// That at the end of the job.
    SavepointAtEnd,
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

    /// Has a checkpoint be a savepoint.
    pub fn want(&self, wanted: Wanted) {
        self.lock().wanted = wanted;
    }

    /// Whether a savepoint is to be taken now.
    pub(super) fn wants_savepoint(&self) -> bool {
        self.lock().wanted == Wanted::Savepoint
    }

    /// Says that nothing more is written.
    pub(super) fn end(&self) {
        self.lock().has_ended = true;
        self.0.changed.notify_all();
    }

    /// Waits until nothing more is written, but not for longer than that. Returns whether it is so: before, another job must not go on from these checkpoints.
    pub fn wait_for_end(&self, timeout: Duration) -> bool {
        let is_running = |progress: &mut Progress| !progress.has_ended;
        let waited = self.0.changed.wait_timeout_while(self.lock(), timeout, is_running);
        waited.unwrap_or_else(PoisonError::into_inner).0.has_ended
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Progress> {
        self.0.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
