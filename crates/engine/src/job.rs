//! Jobs: inserts and statement sets that run under a name, with or without a session.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use pelton_connectors::Conditions;
use pelton_data::Micros;
use pelton_plan::Table;
use pelton_runtime::run::{Run, RunError, RunHandle};

use crate::checkpoints::watched::{CheckpointStatus, Wanted, Watched};
use crate::engine::journal::Journal;
use crate::error::Error;
use crate::inserts::Inserts;
use crate::progress::Progress;
use crate::running_program::RunningProgram;
use crate::settings::Settings;

/// An `INSERT INTO` or a statement set that runs, or has ended.
///
/// Each has a name: the value of `SET 'pipeline.name' = '…'`, or else `insert_into_` and the table. As long as its [`Query`](crate::Query) is there, the job ends
/// with it; [`Query::detach`](crate::Query::detach) leaves it to the engine, which runs it until its input ends, it fails or is stopped. A job that fails ends
/// alone. The last [`ENDED_JOBS_MAX`] jobs that have ended are still listed by [`Engine::jobs`](crate::Engine::jobs) and `SHOW JOBS`.
///
/// Clones refer to the same job, which does not end when they are dropped.
///
/// ```
/// use pelton::job::JobState;
/// let session = pelton::Session::new();
/// let numbers = session.push_table("numbers", "i BIGINT NOT NULL")?;
/// let job = session
///     .sql(
///         "CREATE TABLE hole (i BIGINT) WITH ('connector' = 'blackhole');
///          INSERT INTO hole SELECT i FROM numbers",
///     )?
///     .detach()?;
/// assert_eq!((job.name(), job.state()), ("insert_into_hole", JobState::Running));
/// drop(numbers); // ends the stream
/// job.wait()?;
/// assert_eq!(job.state(), JobState::Finished);
/// # Ok::<(), pelton::Error>(())
/// ```
#[derive(Clone)]
pub struct Job(Arc<Inner>);

/// What has become of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// It runs, or is being stopped.
    Running,
    /// Its input has ended, and all rows are written.
    Finished,
    /// An error ended it: [`Job::error`].
    Failed,
    /// It was stopped, or its query was dropped.
    Stopped,
    /// `ALTER JOB` has put another query in its place: a job of the same name.
    Altered,
}

/// Jobs that have ended and are still listed.
pub const ENDED_JOBS_MAX: usize = 128;

/// Names of tables that the name of a job is made of at most.
const TABLES_NAMED_MAX: usize = 3;

/// What is known of a job before it starts.
pub(crate) struct JobDescription {
    /// As `SHOW QUERIES` counts, from 1.
    pub id: usize,
    pub name: String,
    /// Its text; empty where calls have built it.
    pub statement: String,
    /// The tables of the catalogue that it reads, joins with or writes.
    pub tables: Vec<Arc<Table>>,
    /// Those that it was started with.
    pub settings: Settings,
    /// By the engine's clock.
    pub started: Micros,
    /// What keeps its tables from being read or written just now.
    pub conditions: Conditions,
    /// Where it has checkpoints.
    pub checkpoints: Option<Watched>,
    /// Where it is started again when its engine is opened.
    pub journal: Option<Arc<Journal>>,
}

struct Inner {
    description: JobDescription,
    inserts: Arc<Inserts>,
    stage: Mutex<Stage>,
    /// Another query took its place.
    is_altered: AtomicBool,
}

enum Stage {
    Running {
        program: Arc<RunningProgram>,
        /// Where it is detached.
        run: Option<Run>,
        /// Whether its engine is gone.
        is_orphan: bool,
    },
    Ended(Box<Ended>),
}

/// What is kept of a job that has ended.
struct Ended {
    state: JobState,
    error: Option<RunError>,
    progress: Progress,
}

impl Job {
    pub(crate) fn new(description: JobDescription, inserts: Arc<Inserts>, program: RunningProgram) -> Job {
        let stage = Mutex::new(Stage::Running { program: Arc::new(program), run: None, is_orphan: false });
        Job(Arc::new(Inner { description, inserts, stage, is_altered: AtomicBool::new(false) }))
    }

    /// What keeps its tables from being read or written just now, while that is tried again: a server that does not answer, for example. Tables that are read
    /// [together with other queries](crate::Engine) do not say so.
    pub fn trouble(&self) -> Option<String> {
        match self.state() {
            JobState::Running => self.0.description.conditions.shown(),
            JobState::Finished | JobState::Failed | JobState::Stopped | JobState::Altered => None,
        }
    }

    /// Its number among the queries of the engine, as `SHOW JOBS` and `SHOW QUERIES` show it.
    pub fn id(&self) -> usize {
        self.0.description.id
    }

    /// Its name. No other job of the engine that runs has the same.
    pub fn name(&self) -> &str {
        &self.0.description.name
    }

    /// The text of its statement; empty where it was built with a [`QueryBuilder`](crate::QueryBuilder).
    pub fn statement(&self) -> &str {
        &self.0.description.statement
    }

    /// What has become of it.
    pub fn state(&self) -> JobState {
        match &*self.settled() {
            Stage::Running { .. } => JobState::Running,
            Stage::Ended(ended) => ended.state,
        }
    }

    /// The error that ended it, where it has failed.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// let job = session
    ///     .sql(
    ///         "CREATE TABLE hole (i BIGINT) WITH ('connector' = 'blackhole');
    ///          INSERT INTO hole SELECT 1 / i FROM (VALUES (CAST(0 AS BIGINT))) AS t (i)",
    ///     )?
    ///     .detach()?;
    /// assert!(job.wait().is_err());
    /// assert!(job.error().is_some_and(|error| error.to_string().contains("division by zero")));
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn error(&self) -> Option<Error> {
        match &*self.settled() {
            Stage::Running { .. } => None,
            Stage::Ended(ended) => ended.error.clone().map(|error| self.0.inserts.named(error)),
        }
    }

    /// When it was started.
    pub fn started_at(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_micros(self.0.description.started.max(0).unsigned_abs())
    }

    /// When it ended.
    pub fn ended_at(&self) -> Option<SystemTime> {
        match &*self.settled() {
            Stage::Running { .. } => None,
            Stage::Ended(ended) => Some(self.started_at() + ended.progress.elapsed),
        }
    }

    /// Its figures, as they are or were at its end.
    pub fn progress(&self) -> Progress {
        match &*self.settled() {
            Stage::Running { program, .. } => program.run.progress().into(),
            Stage::Ended(ended) => ended.progress.clone(),
        }
    }

    /// Stops reading, processes and writes the rows that were read, and ends the job: `STOP JOB`. Windows that are open are not reported.
    ///
    /// Returns at once. What has ended stays as it is.
    ///
    /// ```
    /// use pelton::job::JobState;
    /// let session = pelton::Session::new();
    /// let numbers = session.push_table("numbers", "i BIGINT NOT NULL")?;
    /// session.pull_table("out", "i BIGINT NOT NULL")?;
    /// let job = session.sql("INSERT INTO out SELECT i FROM numbers")?.detach()?;
    /// job.stop();
    /// job.wait()?;
    /// assert_eq!(job.state(), JobState::Stopped);
    /// # drop(numbers);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn stop(&self) {
        self.forget();
        self.suspend();
    }

    /// As [`Job::stop`], but an engine that has a directory starts it again when it is [opened](crate::Engine::open).
    pub fn suspend(&self) {
        if let Some(handle) = self.handle() {
            handle.drain();
        }
    }

    /// Stops reading and ends the job as if its inputs had ended: `STOP JOB … WITH DRAIN`. The watermark goes to its end, so that windows that are open are
    /// reported with the rows that they have.
    ///
    /// Returns at once. What has ended or is being stopped without drain stays as it is.
    pub fn stop_with_drain(&self) {
        self.forget();
        if let Some(handle) = self.handle() {
            handle.end_inputs();
        }
    }

    /// What has become of its checkpoints; `None` where it has none.
    pub fn checkpoints(&self) -> Option<CheckpointStatus> {
        self.0.description.checkpoints.as_ref().map(Watched::status)
    }

    /// Takes a savepoint soon: a checkpoint that stays until it is removed by hand.
    ///
    /// # Errors
    /// Where it has no checkpoints, or has ended.
    pub fn savepoint(&self) -> Result<(), Error> {
        self.watched_checkpoints().map(|checkpoints| checkpoints.want(Wanted::Savepoint))
    }

    /// Has its last checkpoint, which is taken when it ends, be a savepoint.
    pub(crate) fn end_with_savepoint(&self) -> Result<(), Error> {
        self.watched_checkpoints().map(|checkpoints| checkpoints.want(Wanted::SavepointAtEnd))
    }

    fn watched_checkpoints(&self) -> Result<&Watched, Error> {
        self.0.description.checkpoints.as_ref().ok_or_else(|| {
            let name = self.name();
            Error::Usage(format!(
                "the job {name} has no checkpoints: SET 'execution.checkpointing.dir' to a directory before it starts"
            ))
        })
    }

    /// Ends the job at once. Rows that were read and are not written are dropped.
    pub fn abort(&self) {
        self.forget();
        self.suspend_at_once();
    }

    /// As [`Job::abort`], but an engine that has a directory starts it again, from its last checkpoint, when it is [opened](crate::Engine::open).
    pub fn suspend_at_once(&self) {
        if let Some(handle) = self.handle() {
            handle.abort();
        }
    }

    /// Has it not be started again.
    fn forget(&self) {
        if let Some(journal) = &self.0.description.journal {
            // Then it is started again, from its end.
            let _ = journal.job_ended(self.name());
        }
    }

    /// Whether it was told to stop, or has been stopped.
    pub fn is_stopping(&self) -> bool {
        match &*self.settled() {
            Stage::Running { program, .. } => program.run.was_stopped(),
            Stage::Ended(ended) => matches!(ended.state, JobState::Stopped | JobState::Altered),
        }
    }

    /// Blocks until the job has ended.
    ///
    /// # Errors
    /// [`Error::Run`] where it failed.
    pub fn wait(&self) -> Result<Progress, Error> {
        while !self.wait_for(Duration::MAX) {}
        self.error().map_or_else(|| Ok(self.progress()), Err)
    }

    /// Blocks until the job has ended, but not for longer than that. Returns whether it has ended.
    ///
    /// ```
    /// use std::time::Duration;
    /// let session = pelton::Session::new();
    /// let numbers = session.push_table("numbers", "i BIGINT NOT NULL")?;
    /// session.pull_table("out", "i BIGINT NOT NULL")?;
    /// let job = session.sql("INSERT INTO out SELECT i FROM numbers")?.detach()?;
    /// assert!(!job.wait_for(Duration::from_millis(1)));
    /// # drop(numbers);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn wait_for(&self, timeout: Duration) -> bool {
        let Some(handle) = self.handle() else { return true };
        // A timeout beyond what a clock can count is for ever.
        let (began, timeout) = (Instant::now(), timeout.min(WAIT_MAX));
        let writes_no_more = |checkpoints: &Watched| checkpoints.wait_for_end(timeout.saturating_sub(began.elapsed()));
        handle.wait_for(timeout)
            && self.0.description.checkpoints.as_ref().is_none_or(writes_no_more)
            && self.state() != JobState::Running
    }

    /// What runs, as long as it does.
    pub(crate) fn program(&self) -> Option<Arc<RunningProgram>> {
        match &*self.settled() {
            Stage::Running { program, .. } => Some(program.clone()),
            Stage::Ended(_) => None,
        }
    }

    fn handle(&self) -> Option<RunHandle> {
        self.program().map(|program| program.run.clone())
    }

    /// Says that another query takes its place, or does not after all.
    pub(crate) fn note_altered(&self, is_altered: bool) {
        self.0.is_altered.store(is_altered, Ordering::SeqCst);
    }

    /// Those that it was started with.
    pub(crate) fn settings(&self) -> &Settings {
        &self.0.description.settings
    }

    /// The tables of the catalogue that it reads, joins with or writes.
    pub(crate) fn tables(&self) -> &[Arc<Table>] {
        &self.0.description.tables
    }

    /// Whether it runs and needs a table.
    pub(crate) fn needs(&self, table: &Arc<Table>) -> bool {
        self.0.description.tables.iter().any(|needed| Arc::ptr_eq(needed, table)) && self.state() == JobState::Running
    }

    /// Whether it runs without its query.
    pub(crate) fn is_detached(&self) -> bool {
        matches!(&*self.stage(), Stage::Running { run: Some(_), .. })
    }

    /// Takes over what runs. Without an engine it ends.
    pub(crate) fn detach(&self, detached: Run) {
        if let Stage::Running { run, is_orphan: false, .. } = &mut *self.stage() {
            *run = Some(detached);
        }
    }

    /// Ends a job whose engine is gone, unless its query is there.
    pub(crate) fn leave(&self) {
        let run = match &mut *self.stage() {
            Stage::Running { run, is_orphan, .. } => {
                *is_orphan = true;
                run.take()
            }
            Stage::Ended(_) => None,
        };
        drop(run);
        drop(self.settled());
    }

    /// What it is now: what has ended lets go of what runs.
    fn settled(&self) -> MutexGuard<'_, Stage> {
        let mut stage = self.stage();
        if let Stage::Running { program, .. } = &*stage
            && program.run.is_over()
            // A checkpoint that is still written is its own.
            && self.0.description.checkpoints.as_ref().is_none_or(|checkpoints| checkpoints.wait_for_end(Duration::ZERO))
        {
            let handle = &program.run;
            let error = handle.failure();
            let state = match &error {
                Some(_) => JobState::Failed,
                None if !handle.was_stopped() => JobState::Finished,
                None if self.0.is_altered.load(Ordering::SeqCst) => JobState::Altered,
                None => JobState::Stopped,
            };
            *stage = Stage::Ended(Box::new(Ended { state, error, progress: handle.progress().into() }));
        }
        stage
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.0.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A wait is repeated after so long.
const WAIT_MAX: Duration = Duration::from_secs(3_600);

/// The name of a job that inserts into these tables.
pub(crate) fn default_name(tables: &[String]) -> String {
    let named = tables.iter().take(TABLES_NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join("_");
    match tables.len().saturating_sub(TABLES_NAMED_MAX) {
        0 => format!("insert_into_{named}"),
        more => format!("insert_into_{named}_and_{more}_more"),
    }
}

impl JobState {
    /// As `SHOW JOBS` shows it.
    pub fn name(self) -> &'static str {
        match self {
            JobState::Running => "RUNNING",
            JobState::Finished => "FINISHED",
            JobState::Failed => "FAILED",
            JobState::Stopped => "STOPPED",
            JobState::Altered => "ALTERED",
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("id", &self.id()).field("name", &self.name()).field("state", &self.state()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_of_tables() {
        let name = |tables: &[&str]| default_name(&tables.iter().map(|&table| table.to_owned()).collect::<Vec<_>>());
        assert_eq!(name(&["a"]), "insert_into_a");
        assert_eq!(name(&["a", "b", "c"]), "insert_into_a_b_c");
        assert_eq!(name(&["a", "b", "c", "d", "e"]), "insert_into_a_b_c_and_2_more");
    }
}
