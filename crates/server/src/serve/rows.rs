//! The rows of a statement on their way to a client.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use bytes::BytesMut;
use futures_core::Stream;
use pelton::arrow::array::RecordBatch;
use pelton::arrow::datatypes::{Schema, SchemaRef};
use pelton::display::Zone;
use pelton::{Error, PullSink, Query, Summary};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::data::{FieldDescription, RowDescription};
use tokio::task::spawn_blocking;

use super::encode::{Columns, Form};
use super::failure::End;
use super::types::pg_type;
use super::wire::UNSENT_BYTES_MAX;

/// The rows of a statement, some of which may have been sent.
pub struct Rows {
    schema: SchemaRef,
    zone: Zone,
    /// How the command is named at the end.
    tag: &'static str,
    /// What has not been sent.
    rest: Batches,
    batch: Option<Batch>,
    sent: u64,
}

/// Rows as they come, batch by batch.
pub enum Batches {
    /// Those of a statement that is done.
    Ready(Option<RecordBatch>),
    /// Those of a query while it runs.
    Query(Option<Query>),
    /// Those that are inserted into a table.
    Table(Box<PullSink>),
}

/// Rows that are being sent.
struct Batch {
    columns: Columns,
    rows: usize,
    sent: usize,
}

/// What to do next.
pub enum Step {
    /// So many bytes were written that they should be sent.
    Send,
    /// As many rows were written as were wanted.
    Full,
    /// More rows are needed.
    Read,
}

impl Rows {
    pub fn of_query(query: Query, zone: Zone) -> Rows {
        let schema = query.schema().clone();
        Rows { schema, zone, tag: "SELECT", rest: Batches::Query(Some(query)), batch: None, sent: 0 }
    }

    pub fn of_batch(rows: RecordBatch, zone: Zone, tag: &'static str) -> Rows {
        Rows { schema: rows.schema(), zone, tag, rest: Batches::Ready(Some(rows)), batch: None, sent: 0 }
    }

    /// The rows as the engine has them, and their columns.
    pub fn into_batches(self) -> (SchemaRef, Batches) {
        (self.schema, self.rest)
    }

    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// What the answer is called at the end, with the rows that were sent since the last time.
    pub fn tag(&mut self) -> String {
        format!("{} {}", self.tag, std::mem::take(&mut self.sent))
    }

    fn take(&mut self, rows: &RecordBatch) -> Result<(), End> {
        let columns = Columns::of(rows, self.zone).map_err(End::internal)?;
        self.batch = Some(Batch { columns, rows: rows.num_rows(), sent: 0 });
        Ok(())
    }

    /// Writes rows that are there, as many as are wanted.
    pub fn write(&mut self, forms: &[Form], wanted: &mut u64, out: &mut BytesMut) -> Step {
        while *wanted > 0 {
            let Some(batch) = self.batch.as_mut().filter(|batch| batch.sent < batch.rows) else {
                self.batch = None;
                return Step::Read;
            };
            if out.len() >= UNSENT_BYTES_MAX {
                return Step::Send;
            }
            batch.columns.put_row(batch.sent, forms, out);
            batch.sent += 1;
            self.sent += 1;
            *wanted -= 1;
        }
        Step::Full
    }

    /// Takes the next rows where some are there: `Ready(false)` where no more will come.
    pub async fn poll_next(&mut self) -> Result<Poll<bool>, End> {
        let mut next = pin!(self.next());
        poll_fn(|context| match next.as_mut().poll(context) {
            Poll::Ready(result) => Poll::Ready(result.map(Poll::Ready)),
            Poll::Pending => Poll::Ready(Ok(Poll::Pending)),
        })
        .await
    }

    /// Waits for the next rows: `false` where no more will come.
    pub async fn next(&mut self) -> Result<bool, End> {
        match self.rest.next().await? {
            Some(rows) => self.take(&rows).map(|()| true),
            None => Ok(false),
        }
    }

    /// Where the summary of the query is found when all rows have been read.
    pub fn rest(&mut self) -> &mut Batches {
        &mut self.rest
    }
}

impl Batches {
    /// Waits for the next rows: `None` where no more will come.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>, End> {
        match self {
            Batches::Ready(rows) => Ok(rows.take()),
            Batches::Query(None) => Ok(None),
            Batches::Query(Some(query)) => {
                let next = poll_fn(|context| Pin::new(&mut *query).poll_next(context)).await;
                next.transpose().map_err(|error| of_run(&error))
            }
            Batches::Table(sink) => Ok(poll_fn(|context| Pin::new(&mut **sink).poll_next(context)).await),
        }
    }

    /// The summary of the query, when all rows have been read.
    pub async fn end(&mut self) -> Result<Option<Summary>, End> {
        let Batches::Query(query) = self else { return Ok(None) };
        let Some(query) = query.take() else { return Ok(None) };
        let summary = spawn_blocking(|| query.wait()).await.map_err(End::internal)?;
        summary.map(Some).map_err(|error| of_run(&error))
    }
}

/// A query ends when nobody reads its rows. That may take a moment.
impl Drop for Batches {
    fn drop(&mut self) {
        if let Batches::Query(query) = self
            && let Some(query) = query.take()
        {
            query.control().abort();
            drop(spawn_blocking(|| drop(query)));
        }
    }
}

/// The error of a query that had begun: it has no place in the statement.
fn of_run(error: &Error) -> End {
    End::of(error, |_| 1)
}

/// What a client is told of the columns.
pub fn description(schema: &Schema, form: impl Fn(usize) -> Form) -> PgWireBackendMessage {
    let column = |(index, field): (usize, &pelton::arrow::datatypes::FieldRef)| {
        let pg_type = pg_type(field.data_type());
        let format = i16::from(form(index) == Form::Binary);
        FieldDescription::new(field.name().clone(), 0, 0, pg_type.oid, pg_type.size, pg_type.modifier, format)
    };
    PgWireBackendMessage::RowDescription(RowDescription::new(schema.fields().iter().enumerate().map(column).collect()))
}
