//! A running query and its results.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures_core::Stream;
use pelton_data::Micros;
use pelton_runtime::adapt::story::Stories;
use pelton_runtime::pool::Pool;
use pelton_runtime::run::{Run, RunHandle, WeakRunHandle};

use crate::adaptation_events::AdaptationEvents;
use crate::checkpoints::parts::LazyParts;
use crate::error::Error;
use crate::inserts::Inserts;
use crate::job::{Job, JobDescription};
use crate::progress::Progress;
use crate::results::Results;
use crate::running_program::RunningProgram;

/// The progress of a query at its end.
pub type Summary = Progress;

/// A running query. Dropping it stops the query.
///
/// Rows of a `SELECT` are read with [`Query::next_batch`], [`Query::collect`] or as a [`Stream`]; a slow reader slows the
/// query down, and nothing else. An `INSERT` has no rows to read: [`Query::wait`] for its end, or [`Query::detach`] it.
pub struct Query {
    run: Option<Run>,
    handle: RunHandle,
    schema: SchemaRef,
    /// Where it has a result that is still read.
    results: Option<Results>,
    stories: Vec<NamedStories>,
    inserts: Arc<Inserts>,
    parts: Arc<LazyParts>,
    /// Where it is an insert.
    job: Option<Job>,
}

/// What becomes of the code of a query's pipelines, with their names.
pub(crate) type NamedStories = (String, Stories);

impl Query {
    pub(crate) fn new(
        run: Run,
        schema: SchemaRef,
        results: Option<Results>,
        stories: Vec<NamedStories>,
        (inserts, parts): (Inserts, Arc<LazyParts>),
    ) -> Query {
        let inserts = Arc::new(inserts);
        Query { handle: run.handle(), run: Some(run), schema, results, stories, inserts, parts, job: None }
    }

    /// Makes an insert a job.
    pub(crate) fn name_job(&mut self, description: JobDescription, pool: Pool) -> Job {
        let run = RunningProgram { run: self.handle.clone(), parts: self.parts.clone(), pool };
        let job = Job::new(description, self.inserts.clone(), run);
        self.job.insert(job).clone()
    }

    /// How far the event time of its rows has come behind those that have been read, where it was started so that it tells.
    pub(crate) fn watermark(&self) -> Option<Micros> {
        self.results.as_ref().and_then(Results::watermark)
    }

    /// The parts of its program.
    pub(crate) fn parts(&self) -> &Arc<LazyParts> {
        &self.parts
    }

    /// The schema of the result; it has no columns for an `INSERT`.
    ///
    /// ```
    /// let query = pelton::Session::new().sql("SELECT a, 'x' AS b FROM (VALUES (1), (2)) AS t (a)")?;
    /// let names: Vec<&str> = query.schema().fields().iter().map(|field| field.name().as_str()).collect();
    /// assert_eq!(names, ["a", "b"]);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next rows, or `None` after the last. Blocks; in async code use the query as a [`Stream`].
    ///
    /// # Errors
    /// [`Error::Run`] where the query failed; the rows before the error are valid.
    ///
    /// ```
    /// let mut query = pelton::Session::new().sql("SELECT a FROM (VALUES (1), (2)) AS t (a)")?;
    /// let mut rows = 0;
    /// while let Some(batch) = query.next_batch()? {
    ///     rows += batch.num_rows();
    /// }
    /// assert_eq!(rows, 2);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, Error> {
        match self.results.as_mut().and_then(Results::next) {
            Some(batch) => Ok(Some(batch)),
            None => self.ended().map(|()| None),
        }
    }

    /// The next rows, or `None` if there are none yet or no more will come. Does not block.
    ///
    /// # Errors
    /// [`Error::Run`] where the query failed.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// let numbers = session.push_table("numbers", "i BIGINT NOT NULL")?;
    /// let mut query = session.sql("SELECT i FROM numbers")?;
    /// // Nothing was pushed yet.
    /// assert!(query.try_next_batch()?.is_none());
    /// # drop(numbers);
    /// # query.collect()?;
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn try_next_batch(&mut self) -> Result<Option<RecordBatch>, Error> {
        match self.results.as_mut().map_or(Poll::Ready(None), Results::try_next) {
            Poll::Ready(Some(batch)) => Ok(Some(batch)),
            Poll::Ready(None) => self.ended().map(|()| None),
            Poll::Pending => Ok(None),
        }
    }

    /// All rows. Blocks until the query has ended.
    ///
    /// # Errors
    /// [`Error::Run`] where the query failed.
    ///
    /// ```
    /// let batches = pelton::Session::new().sql("SELECT a FROM (VALUES (1), (2)) AS t (a)")?.collect()?;
    /// assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn collect(mut self) -> Result<Vec<RecordBatch>, Error> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next_batch()? {
            batches.push(batch);
        }
        self.wait()?;
        Ok(batches)
    }

    /// Blocks until the query has ended. Unread rows are dropped.
    ///
    /// # Errors
    /// [`Error::Run`] where the query failed.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// let insert = session.sql(
    ///     "CREATE TABLE hole (a BIGINT) WITH ('connector' = 'blackhole');
    ///      INSERT INTO hole SELECT a FROM (VALUES (1), (2)) AS t (a)",
    /// )?;
    /// let summary = insert.wait()?;
    /// assert_eq!(summary.sinks[0].rows, 2);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn wait(mut self) -> Result<Summary, Error> {
        while self.results.as_mut().and_then(Results::next).is_some() {}
        let run = self.run.take().expect("a query is waited for once");
        run.wait().map(Progress::from).map_err(|error| self.inserts.named(error))
    }

    /// Leaves an `INSERT` or a statement set to its engine, which runs it until its input ends, it fails or it is stopped. An engine that nobody holds any more, by
    /// itself or one of its sessions, ends its jobs.
    ///
    /// # Errors
    /// [`Error::Usage`] where it is a `SELECT`, whose rows only its query can read.
    ///
    /// ```
    /// let engine = pelton::Engine::new();
    /// let numbers = engine.session().push_table("numbers", "i BIGINT NOT NULL")?;
    /// let mut out = engine.session().pull_table("out", "i BIGINT NOT NULL")?;
    /// engine.session().sql("INSERT INTO out SELECT i + 1 FROM numbers")?.detach()?;
    /// let job = engine.job("insert_into_out").expect("it runs");
    /// drop(numbers); // ends the stream
    /// assert!(out.next_batch().is_none());
    /// job.wait()?;
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn detach(mut self) -> Result<Job, Error> {
        let Some(job) = self.job.take() else {
            let message = "a SELECT cannot be detached: its rows are read from its query; use INSERT INTO a table";
            return Err(Error::Usage(message.to_owned()));
        };
        if let Some(run) = self.run.take() {
            job.detach(run);
        }
        Ok(job)
    }

    /// The job that an `INSERT` or a statement set is.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// session.set("pipeline.name", "numbers")?;
    /// let query = session.sql(
    ///     "CREATE TABLE hole (a INT) WITH ('connector' = 'blackhole');
    ///      INSERT INTO hole VALUES (1), (2)",
    /// )?;
    /// assert_eq!(query.job().map(|job| job.name()), Some("numbers"));
    /// # query.wait()?;
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn job(&self) -> Option<&Job> {
        self.job.as_ref()
    }

    /// The progress of the query, and what its operators wait for.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// let clicks = session.push_table("clicks", "at TIMESTAMP(3) NOT NULL, WATERMARK FOR at AS at")?;
    /// let query = session.sql(
    ///     "SELECT window_end, COUNT(*) AS hits FROM TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '1' MINUTE)
    ///      GROUP BY window_start, window_end",
    /// )?;
    /// let progress = query.progress();
    /// assert_eq!(progress.operators[0].held_back_by, Some(("clicks".to_owned(), 0)));
    /// # drop(clicks);
    /// # query.collect()?;
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn progress(&self) -> Progress {
        self.handle.progress().into()
    }

    /// The adaptation events of the query's code, from its start on and as they occur. `EXPLAIN ANALYZE VERBOSE` prints them.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// session.set("pelton.tier", "compile")?;
    /// let numbers = session.push_table("numbers", "i BIGINT NOT NULL")?;
    /// let query = session.sql("SELECT i FROM numbers")?;
    /// let mut events = query.adaptation_events();
    /// let first = events.next().expect("the query has code");
    /// assert_eq!(first.pipeline, "pipeline 0: numbers → rows");
    /// assert_eq!(first.summary, "variant 0 runs: compiled, generic");
    /// // Nothing more has happened yet; it may be asked again, and when the query has ended.
    /// assert!(events.next().is_none());
    /// # drop(numbers);
    /// # query.collect()?;
    /// assert_eq!((events.count(), first.number), (0, 0));
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn adaptation_events(&self) -> AdaptationEvents {
        AdaptationEvents::of(&self.stories)
    }

    /// Finds the query again as long as it is there.
    pub(crate) fn run_handle(&self) -> RunHandle {
        self.handle.clone()
    }

    pub(crate) fn weak(&self) -> WeakRunHandle {
        self.handle.downgrade()
    }

    /// What becomes of its code, also when it has ended.
    pub(crate) fn stories(&self) -> &[NamedStories] {
        &self.stories
    }

    /// A handle to observe and stop the query from another thread.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// let numbers = session.push_table("numbers", "i BIGINT NOT NULL")?;
    /// let query = session.sql("SELECT i FROM numbers")?;
    /// let control = query.control();
    /// std::thread::spawn(move || control.drain());
    /// // Nothing was pushed; the query ends because it was told to.
    /// assert!(query.collect()?.is_empty());
    /// # drop(numbers);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn control(&self) -> QueryControl {
        QueryControl(self.handle.clone())
    }

    fn ended(&self) -> Result<(), Error> {
        match self.handle.failure() {
            Some(error) => Err(self.inserts.named(error)),
            None => Ok(()),
        }
    }
}

impl Drop for Query {
    fn drop(&mut self) {
        drop(self.run.take());
        // A job that has ended lets go of what ran, behind a checkpoint that is written.
        if let Some(job) = &self.job {
            job.wait_for(Duration::MAX);
        }
    }
}

impl Stream for Query {
    type Item = Result<RecordBatch, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(results) = self.results.as_mut() else { return Poll::Ready(None) };
        match results.poll_next(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(batch)) => Poll::Ready(Some(Ok(batch))),
            Poll::Ready(None) => {
                self.results = None;
                Poll::Ready(self.ended().err().map(Err))
            }
        }
    }
}

/// Observes and stops a query from another thread.
#[derive(Clone)]
pub struct QueryControl(RunHandle);

impl QueryControl {
    pub(crate) fn of(run: RunHandle) -> QueryControl {
        QueryControl(run)
    }

    /// Stops reading, processes and writes the rows already read, and ends the query. Windows that are still open are not reported.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// let numbers = session.push_table("numbers", "i BIGINT NOT NULL")?;
    /// let query = session.sql("SELECT i FROM numbers")?;
    /// query.control().drain();
    /// assert!(query.collect()?.is_empty());
    /// # drop(numbers);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn drain(&self) {
        self.0.drain();
    }

    /// Stops the query immediately.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// let numbers = session.push_table("numbers", "i BIGINT NOT NULL")?;
    /// let query = session.sql("SELECT i FROM numbers")?;
    /// query.control().abort();
    /// assert!(query.collect()?.is_empty());
    /// # drop(numbers);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn abort(&self) {
        self.0.abort();
    }

    /// Whether the query has ended.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// let numbers = session.push_table("numbers", "i BIGINT NOT NULL")?;
    /// let query = session.sql("SELECT i FROM numbers")?;
    /// let control = query.control();
    /// assert!(!control.has_ended());
    /// control.drain();
    /// query.wait()?;
    /// assert!(control.has_ended());
    /// # drop(numbers);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    /// The progress of the query.
    ///
    /// ```
    /// let query = pelton::Session::new().sql("SELECT a FROM (VALUES (1), (2)) AS t (a)")?;
    /// let control = query.control();
    /// query.collect()?;
    /// assert_eq!(control.progress().sources[0].rows, 2);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn progress(&self) -> Progress {
        self.0.progress().into()
    }

    /// What runs, for the project's own tests of it.
    #[doc(hidden)]
    pub fn run(&self) -> &RunHandle {
        &self.0
    }
}
