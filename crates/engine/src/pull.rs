//! Rows that a query inserts for your own program.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures_core::Stream;
use pelton_runtime::budget::Unread;
use pelton_runtime::sink::Sink;
use pelton_runtime::wake::Waker;

use crate::error::Error;
use crate::results::{Results, Unopened, Watched, channel};

/// Reads the rows that the `INSERT`s of one query write into a table created by [`crate::Session::pull_table`], in order. A slow reader slows
/// the query down. Read the tables of one statement set concurrently: when 64 batches wait for one of them, or as much as `pelton.memory` leaves
/// room for, the others get no more either. Dropping this ends the query with an error where rows are lost: they have not been read, or it inserts more.
///
/// It is also a [`Stream`] of the same rows. [`crate::Query::wait`] tells whether the query failed.
pub struct PullSink {
    results: Results,
    schema: SchemaRef,
}

/// The engine's end of a pull table.
pub(crate) struct PullTable {
    unopened: Mutex<Option<Unopened>>,
    channel: Watched,
}

impl PullSink {
    pub(crate) fn new(schema: SchemaRef) -> (PullSink, Arc<PullTable>) {
        let (unopened, results) = channel();
        let table = PullTable { channel: unopened.watched(), unopened: Mutex::new(Some(unopened)) };
        (PullSink { results, schema }, Arc::new(table))
    }

    /// The next rows, or `None` when the inserting query has ended. Blocks, also until a query inserts; in async code use it as a [`Stream`].
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// let mut doubled = session.pull_table("doubled", "a INT NOT NULL")?;
    /// let insert = session.sql("INSERT INTO doubled SELECT a * 2 FROM (VALUES (1), (2)) AS t (a)")?;
    /// assert_eq!(doubled.next_batch().map(|rows| rows.num_rows()), Some(2));
    /// assert!(doubled.next_batch().is_none());
    /// insert.wait()?;
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn next_batch(&mut self) -> Option<RecordBatch> {
        self.results.next()
    }

    /// The next rows, or `None` if there are none yet or no more will come. Does not block.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// let mut doubled = session.pull_table("doubled", "a INT NOT NULL")?;
    /// assert!(doubled.try_next_batch().is_none() && !doubled.has_ended());
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn try_next_batch(&mut self) -> Option<RecordBatch> {
        match self.results.try_next() {
            Poll::Ready(rows) => rows,
            Poll::Pending => None,
        }
    }

    /// Whether all rows have been read and no more will come.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// let doubled = session.pull_table("doubled", "a INT NOT NULL")?;
    /// assert!(!doubled.has_ended());
    /// // Nobody can insert any more.
    /// session.execute(&session.prepare("DROP TABLE doubled")?[0])?;
    /// assert!(doubled.has_ended());
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn has_ended(&self) -> bool {
        self.results.have_ended()
    }

    /// Names and types of the rows' columns.
    ///
    /// ```
    /// let doubled = pelton::Session::new().pull_table("doubled", "a INT NOT NULL, s STRING")?;
    /// assert_eq!(doubled.schema().field(1).name(), "s");
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Stream for PullSink {
    type Item = RecordBatch;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<RecordBatch>> {
        self.results.poll_next(context)
    }
}

impl PullTable {
    /// Whether a query can insert into the table: none does, nor did.
    pub fn check_unwritten(&self, table: &str) -> Result<(), Error> {
        match self.unopened.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            true => Ok(()),
            false => Err(taken(table)),
        }
    }

    /// Whether the program reads it no more, or the query that wrote to it has ended.
    pub fn has_ended(&self) -> bool {
        self.channel.has_ended()
    }

    /// The writing end, for the one query that inserts into the table.
    pub fn open(&self, table: &str, unread: &Unread, waker: &Waker) -> Result<Box<dyn Sink>, Error> {
        let unopened = self.unopened.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(unopened.ok_or_else(|| taken(table))?.open(unread, waker, Some(table.to_owned())))
    }
}

fn taken(table: &str) -> Error {
    Error::Usage(format!("table '{table}' has the rows of a query already: the program reads those of one"))
}
