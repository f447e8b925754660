//! Engines: what sessions share.

pub(crate) mod journal;

mod known;

mod restored;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pelton_connectors::{Disk, LocalDisk};
use pelton_runtime::clock::Clock;
use pelton_runtime::pool::Pool;

use crate::error::Error;
use crate::job::Job;
use crate::query::QueryControl;
use crate::settings::CHECKPOINT_INTERVAL;
use journal::Journal;
pub(crate) use known::{Known, SessionId};

/// The time between two checkpoints of a job of an engine that has a directory, unless it is set.
const CHECKPOINT_INTERVAL_DEFAULT: &str = "10 s";

/// The threads that run queries, the memory that these may take, the tables, views and functions with permanent names, and the queries that run.
///
/// Statements are executed in sessions ([`Engine::session`]), of which an engine may have several at a time: what one of them creates is there for all others at once.
/// Settings that concern all queries, such as `pelton.workers` and `pelton.memory`, are the engine's, and all others are those of the session that sets them.
///
/// Clones refer to the same engine. It lives as long as one of them, or one of its sessions.
///
/// ```
/// let engine = pelton::Engine::new();
/// let [writer, reader] = [engine.session(), engine.session()];
/// let numbers = writer.push_table("numbers", "i BIGINT NOT NULL")?;
/// let query = reader.sql("SELECT i FROM numbers")?;
/// assert_eq!(engine.queries().len(), 1);
/// drop(numbers); // ends the stream
/// assert!(query.collect()?.is_empty());
/// # Ok::<(), pelton::Error>(())
/// ```
#[derive(Clone)]
pub struct Engine(Arc<Shared>);

/// What the handles of an engine share.
struct Shared {
    known: Mutex<Known>,
    /// Where it outlives its process.
    journal: OnceLock<Arc<Journal>>,
    /// Where checkpoints are.
    disk: Arc<dyn Disk>,
}

impl Engine {
    /// An engine without tables. Its threads are started with the first query.
    ///
    /// ```
    /// let engine = pelton::Engine::new();
    /// assert!(engine.queries().is_empty());
    /// ```
    pub fn new() -> Engine {
        Engine::with_clock(Clock::default())
    }

    /// An engine with this clock, as [`crate::Session::with_clock`].
    #[doc(hidden)]
    pub fn with_clock(clock: Clock) -> Engine {
        Engine::of(Known::new(clock), Arc::new(LocalDisk))
    }

    fn of(known: Known, disk: Arc<dyn Disk>) -> Engine {
        Engine(Arc::new(Shared { known: Mutex::new(known), journal: OnceLock::new(), disk }))
    }

    /// An engine that outlives its process: its permanent tables and views, its settings and its jobs are kept in a directory, which is made where it is not there. Jobs have
    /// [checkpoints](crate::checkpoints) there, one every ten seconds unless `execution.checkpointing.interval` says otherwise. Those that ran are started
    /// again by [`Engine::restart_jobs`]. Only one engine at a time may have the directory.
    ///
    /// # Errors
    /// Where the directory cannot be read or written, or a table of it cannot be made again.
    ///
    /// ```
    /// let directory = std::env::temp_dir().join(format!("pelton-engine-{}", std::process::id()));
    /// let engine = pelton::Engine::open(&directory)?;
    /// let create = "CREATE TABLE n (i BIGINT) WITH ('connector' = 'datagen')";
    /// let session = engine.session();
    /// session.execute(&session.prepare(create)?[0])?;
    /// drop((session, engine));
    /// assert!(pelton::Engine::open(&directory)?.session().table("n").is_ok());
    /// # std::fs::remove_dir_all(&directory).unwrap();
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn open(directory: impl AsRef<Path>) -> Result<Engine, Error> {
        let journal = Journal::open(directory.as_ref())?;
        let script = journal.script()?;
        let engine = Engine::new();
        {
            let mut known = engine.known();
            let checkpoints = journal.checkpoints().display().to_string();
            known.catalog_mut().set("execution.checkpointing.dir", checkpoints);
            known.catalog_mut().set(CHECKPOINT_INTERVAL, CHECKPOINT_INTERVAL_DEFAULT);
        }
        let _ = engine.0.journal.set(Arc::new(journal));
        restored::define(&engine, &script)?;
        Ok(engine)
    }

    /// Starts the jobs again that ran when an engine of the same directory ended, each from its last checkpoint. Returns those that could not be started, with the error: they
    /// stay in the directory.
    ///
    /// # Errors
    /// Where the directory cannot be read.
    pub fn restart_jobs(&self) -> Result<Vec<(String, Error)>, Error> {
        restored::restart_jobs(self)
    }

    /// Where it outlives its process.
    pub(crate) fn journal(&self) -> Option<&Arc<Journal>> {
        self.0.journal.get()
    }

    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.0.disk
    }

    /// An engine with this pool, as [`crate::Session::with_pool`].
    #[doc(hidden)]
    pub fn with_pool(pool: Pool) -> Engine {
        Engine::simulated(pool, Arc::new(LocalDisk))
    }

    /// An engine with this pool, whose checkpoints are on this disk.
    #[doc(hidden)]
    pub fn simulated(pool: Pool, disk: Arc<dyn Disk>) -> Engine {
        let mut known = Known::new(pool.clock().clone());
        known.catalog_mut().set("pelton.workers", pool.workers().to_string());
        known.pool = Some(pool);
        Engine::of(known, disk)
    }

    /// The running queries of all sessions. Those of one are [`crate::Session::queries`].
    ///
    /// ```
    /// let engine = pelton::Engine::new();
    /// let numbers = engine.session().push_table("numbers", "i BIGINT")?;
    /// let query = engine.session().sql("SELECT i FROM numbers")?;
    /// engine.queries().iter().for_each(|query| query.drain());
    /// assert!(query.collect()?.is_empty());
    /// # drop(numbers);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn queries(&self) -> Vec<QueryControl> {
        let running = self.known().running_queries(None);
        running.into_iter().map(QueryControl::of).collect()
    }

    /// The inserts and statement sets that run, and the last that have ended, in the order in which they were started.
    ///
    /// ```
    /// let engine = pelton::Engine::new();
    /// let session = engine.session();
    /// session.sql("CREATE TABLE hole (a INT) WITH ('connector' = 'blackhole'); INSERT INTO hole VALUES (1)")?.wait()?;
    /// assert_eq!(engine.jobs()[0].to_string(), "insert_into_hole");
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn jobs(&self) -> Vec<Job> {
        self.known().jobs().cloned().collect()
    }

    /// The job of this name that runs, or else the last that has ended.
    ///
    /// ```
    /// assert!(pelton::Engine::new().job("insert_into_hole").is_none());
    /// ```
    pub fn job(&self, name: &str) -> Option<Job> {
        self.known().job(name).cloned()
    }

    /// State size of all queries in bytes, as last measured.
    ///
    /// ```
    /// assert_eq!(pelton::Engine::new().state_bytes(), 0);
    /// ```
    pub fn state_bytes(&self) -> usize {
        self.known().budget.bytes()
    }

    /// Bytes of buffered rows in all queries.
    ///
    /// ```
    /// assert_eq!(pelton::Engine::new().waiting_bytes(), 0);
    /// ```
    pub fn waiting_bytes(&self) -> usize {
        self.known().budget.waiting_bytes()
    }

    /// Locks what the engine knows. Nothing that may wait is done under this lock: no planning, no reading of files, no loading, no compiling.
    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Engine {
    fn default() -> Engine {
        Engine::new()
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("queries", &self.queries().len()).finish_non_exhaustive()
    }
}
