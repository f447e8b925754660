//! Engines: what sessions share.

mod known;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pelton_runtime::clock::Clock;
use pelton_runtime::pool::Pool;

use crate::job::Job;
use crate::query::QueryControl;
pub(crate) use known::{Known, SessionId};

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
pub struct Engine(Arc<Mutex<Known>>);

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
        Engine(Arc::new(Mutex::new(Known::new(clock))))
    }

    /// An engine with this pool, as [`crate::Session::with_pool`].
    #[doc(hidden)]
    pub fn with_pool(pool: Pool) -> Engine {
        let mut known = Known::new(pool.clock().clone());
        known.catalog_mut().set("pelton.workers", pool.workers().to_string());
        known.pool = Some(pool);
        Engine(Arc::new(Mutex::new(known)))
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
