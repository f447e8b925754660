//! Rows that your own program feeds to queries.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, SchemaRef};
use pelton_data::{BLOCK_ROWS_DEFAULT, TimeColumn};
use pelton_plan::pipeline::SourceUse;
use pelton_runtime::budget::{Budget, ChargedRows};
use pelton_runtime::exchange::{Bell, Exchange, SubscriberState, WeakExchange};
use pelton_runtime::source::{Read, Ready, Source, SourceError, read_as_chunk};
use pelton_runtime::wake::Waker;
use tokio::sync::Notify;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use crate::display::type_names;
use crate::error::Error;
use crate::reader::Reader;
use crate::shared_aggregations::SharedAggregations;

/// Batches that may wait for queries where memory is not limited; where it is, as many as there is room for.
const PUSHED_BATCHES_WAITING_MAX: usize = 16;

/// So many rows, or batches, are enough for one task; batches are not cut.
const ROWS_AT_ONCE_MAX: usize = BLOCK_ROWS_DEFAULT;
const BATCHES_AT_ONCE_MAX: usize = 16;

/// How long a worker sleeps at most when nothing is pushed: a push wakes it earlier.
const PUSH_WAIT: Duration = Duration::from_secs(1);

/// Writes rows into a table created by [`crate::Session::push_table`]. Dropping it ends the table's stream. Rows that wait for a query are charged to `pelton.memory`.
pub struct PushSource {
    sender: UnboundedSender<Pushed>,
    table: Arc<PushTable>,
}

/// Rows, and what is charged for them.
type Pushed = (RecordBatch, ChargedRows);

/// The engine's end of a push table.
pub(crate) struct PushTable {
    schema: SchemaRef,
    /// What has been pushed, unless the table is gone.
    receiver: Mutex<Option<UnboundedReceiver<Pushed>>>,
    /// What the queries read that read the table now.
    exchange: Mutex<WeakExchange>,
    /// Aggregations that queries share.
    aggregations: SharedAggregations,
    /// Rung when something is pushed; another one for each exchange.
    bell: Mutex<Option<std::task::Waker>>,
    /// Readers that there have been.
    readers: AtomicUsize,
    /// The last of them has left: nobody waits for rows.
    is_left: AtomicBool,
    room: Room,
}

/// How much may wait.
struct Room {
    budget: Budget,
    /// Batches that wait.
    batches: AtomicUsize,
    /// Tells that fewer do, or that nobody reads any more.
    changed: Notify,
}

/// Reads all columns, for all queries.
struct PushReader {
    table: Arc<PushTable>,
    /// Which of the readers it is.
    number: usize,
}

impl PushSource {
    pub(crate) fn new(schema: SchemaRef, budget: Budget) -> (PushSource, Arc<PushTable>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let table = Arc::new(PushTable {
            schema,
            receiver: Mutex::new(Some(receiver)),
            exchange: Mutex::default(),
            aggregations: SharedAggregations::default(),
            bell: Mutex::new(None),
            readers: AtomicUsize::new(0),
            is_left: AtomicBool::new(false),
            room: Room { budget, batches: AtomicUsize::new(0), changed: Notify::new() },
        });
        (PushSource { sender, table: table.clone() }, table)
    }

    /// Passes rows to the queries that read the table: a query gets all that are pushed after it was added, and the first one those that were pushed before. Waits while the buffer is full: 16 batches, or, where `pelton.memory` is set, an
    /// eighth of it, including rows that wait in queries. An empty buffer always takes one batch.
    ///
    /// # Errors
    /// [`Error::Usage`] where the schema of the rows differs, or the last query has ended; the rows were not taken. When another query reads the table, rows are taken again.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use pelton::arrow::array::{Int64Array, RecordBatch};
    /// # futures_util::future::FutureExt::now_or_never(async {
    /// let session = pelton::Session::new();
    /// let numbers = session.push_table("numbers", "i BIGINT NOT NULL")?;
    /// let query = session.sql("SELECT i FROM numbers")?;
    /// let rows = RecordBatch::try_new(numbers.schema().clone(), vec![Arc::new(Int64Array::from(vec![1, 2]))]).unwrap();
    /// numbers.push(rows).await?;
    /// drop(numbers);
    /// assert_eq!(query.collect()?[0].num_rows(), 2);
    /// # Ok::<(), pelton::Error>(()) }).expect("there is room")?;
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub async fn push(&self, rows: RecordBatch) -> Result<(), Error> {
        self.check(&rows)?;
        let mut unsent = self.send(rows)?;
        while let Some(rows) = unsent {
            let mut changed = std::pin::pin!(self.table.room.changed.notified());
            changed.as_mut().enable();
            // Whoever made room before that is not heard.
            unsent = self.send(rows)?;
            if unsent.is_some() {
                changed.await;
            }
        }
        Ok(())
    }

    /// As [`PushSource::push`], for code that is not async.
    ///
    /// # Errors
    /// As [`PushSource::push`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use pelton::arrow::array::{Int64Array, RecordBatch};
    /// let session = pelton::Session::new();
    /// let numbers = session.push_table("numbers", "i BIGINT NOT NULL")?;
    /// let query = session.sql("SELECT i FROM numbers")?;
    /// let rows = RecordBatch::try_new(numbers.schema().clone(), vec![Arc::new(Int64Array::from(vec![1, 2]))]).unwrap();
    /// numbers.push_blocking(rows)?;
    /// drop(numbers);
    /// assert_eq!(query.collect()?[0].num_rows(), 2);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn push_blocking(&self, rows: RecordBatch) -> Result<(), Error> {
        futures_executor::block_on(self.push(rows))
    }

    /// As [`PushSource::push`], but does not wait. Returns whether the rows were taken.
    ///
    /// # Errors
    /// As [`PushSource::push`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use pelton::arrow::array::{Int64Array, RecordBatch};
    /// let session = pelton::Session::new();
    /// let numbers = session.push_table("numbers", "i BIGINT NOT NULL")?;
    /// let query = session.sql("SELECT i FROM numbers")?;
    /// let rows = RecordBatch::try_new(numbers.schema().clone(), vec![Arc::new(Int64Array::from(vec![1, 2]))]).unwrap();
    /// assert!(numbers.try_push(rows)?);
    /// drop(numbers);
    /// assert_eq!(query.collect()?[0].num_rows(), 2);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn try_push(&self, rows: RecordBatch) -> Result<bool, Error> {
        self.check(&rows)?;
        Ok(self.send(rows)?.is_none())
    }

    /// Sends rows that have the table's columns, and returns them where there is no room for them.
    fn send(&self, rows: RecordBatch) -> Result<Option<RecordBatch>, Error> {
        let Room { budget, batches, .. } = &self.table.room;
        if self.sender.is_closed() || self.table.is_left.load(Ordering::SeqCst) {
            return Err(ended());
        }
        let waiting = batches.load(Ordering::Relaxed);
        let has_room = match budget.has_room_before_inputs() {
            Some(has_room) => has_room || waiting == 0,
            None => waiting < PUSHED_BATCHES_WAITING_MAX,
        };
        if !has_room {
            return Ok(Some(rows));
        }
        batches.fetch_add(1, Ordering::Relaxed);
        let charged = budget.charge_waiting(&rows);
        self.sender.send((rows, charged)).map_err(|_| ended())?;
        self.table.wake();
        Ok(None)
    }

    /// The schema that pushed rows must have.
    ///
    /// ```
    /// let numbers = pelton::Session::new().push_table("numbers", "i BIGINT NOT NULL, s STRING")?;
    /// assert_eq!(numbers.schema().field(1).name(), "s");
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn schema(&self) -> &SchemaRef {
        &self.table.schema
    }

    /// Whether rows have the table's columns: their names, types and order, and none that may be NULL where the table's is not.
    fn check(&self, rows: &RecordBatch) -> Result<(), Error> {
        let (have, want) = (rows.schema(), &self.table.schema);
        if have.fields().len() != want.fields().len() {
            let (have, want) = (have.fields().len(), want.fields().len());
            return Err(Error::Usage(format!("the rows pushed have {have} columns, but the table has {want}")));
        }
        let fits = |have: &Field, want: &Field| {
            have.name() == want.name()
                && have.data_type() == want.data_type()
                && (want.is_nullable() || !have.is_nullable())
        };
        let differing = have.fields().iter().zip(want.fields()).position(|(have, want)| !fits(have, want));
        let Some(column) = differing else { return Ok(()) };
        let written = |field: &Field, data_type: &str| {
            let not_null = if field.is_nullable() { "" } else { " NOT NULL" };
            format!("{} of type {data_type}{not_null}", field.name())
        };
        let (have, want) = (have.field(column), want.field(column));
        let [have_type, want_type] = type_names(have.data_type(), want.data_type());
        let (have, want) = (written(have, &have_type), written(want, &want_type));
        let column = column + 1;
        Err(Error::Usage(format!("column {column} of the rows pushed is {have}, but that of the table is {want}")))
    }
}

impl Drop for PushSource {
    fn drop(&mut self) {
        // The channel closes when the sender is dropped, which is after this: the reader finds out at its next look.
        let (closed, _) = mpsc::unbounded_channel();
        drop(std::mem::replace(&mut self.sender, closed));
        self.table.wake();
    }
}

impl PushTable {
    fn wake(&self) {
        if let Some(bell) = self.bell.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            bell.wake_by_ref();
        }
    }

    /// What the queries read that read it, where there is one.
    pub fn exchange(&self) -> Option<Exchange> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    /// The queries that read it.
    pub fn subscribers(&self) -> Vec<SubscriberState> {
        self.exchange().map_or(Vec::new(), |exchange| exchange.subscribers())
    }

    /// The aggregations of the table that queries share.
    pub fn aggregations(&self) -> &SharedAggregations {
        &self.aggregations
    }

    fn receiver(&self) -> MutexGuard<'_, Option<UnboundedReceiver<Pushed>>> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing more will be pushed.
    pub fn has_ended(&self) -> bool {
        self.receiver().as_ref().is_none_or(UnboundedReceiver::is_closed)
    }

    /// Has those look again who wait for room.
    pub fn look_again(&self) {
        self.room.changed.notify_waiters();
    }

    /// Ends a table that no query reads.
    pub fn close(&self) {
        if self.exchange().is_none() {
            drop(self.receiver().take());
        }
        self.look_again();
    }

    /// The rows that are pushed from now on, for one more query. `time` is the table's event time, by its place among the columns.
    pub fn subscribe(
        self: &Arc<Self>,
        used: &SourceUse,
        time: Option<TimeColumn>,
        reader: &Reader<'_>,
        waker: &Waker,
    ) -> Result<Box<dyn Source>, Error> {
        let mut exchange = self.exchange.lock().unwrap_or_else(PoisonError::into_inner);
        let found = exchange.upgrade().unwrap_or_else(|| {
            let bell = Bell::default();
            let reader = self.open(&bell);
            let all: Vec<usize> = (0..self.schema.fields().len()).collect();
            Exchange::new(&used.table, Box::new(reader), (&all, time), bell, self.room.budget.clone())
        });
        *exchange = found.downgrade();
        reader.subscribe(&found, used, (&self.schema, &self.aggregations), waker)
    }

    /// Reads the table. One that read it before has nothing to do with it any more.
    fn open(self: &Arc<Self>, bell: &Bell) -> PushReader {
        *self.bell.lock().unwrap_or_else(PoisonError::into_inner) = Some(bell.waker());
        let _receiver = self.receiver();
        let number = self.readers.fetch_add(1, Ordering::SeqCst) + 1;
        self.is_left.store(false, Ordering::SeqCst);
        PushReader { table: self.clone(), number }
    }
}

impl Source for PushReader {
    fn partitions(&self) -> usize {
        1
    }

    fn read(&mut self, partition: usize) -> Result<Read, SourceError> {
        read_as_chunk(self, partition)
    }

    fn read_ready(&mut self, _partition: usize, ready: &mut Ready) -> Result<Option<Read>, SourceError> {
        let mut receiver = self.table.receiver();
        let Some(receiver) = receiver.as_mut() else { return Ok(Some(Read::End)) };
        let room = &self.table.room;
        let mut rows_read = 0;
        while rows_read < ROWS_AT_ONCE_MAX && ready.batches.len() < BATCHES_AT_ONCE_MAX {
            match receiver.try_recv() {
                Ok((rows, _charged)) => {
                    room.batches.fetch_sub(1, Ordering::Relaxed);
                    rows_read += rows.num_rows();
                    ready.batches.push(rows);
                }
                Err(TryRecvError::Empty) if ready.batches.is_empty() => return Ok(Some(Read::Wait(PUSH_WAIT))),
                Err(TryRecvError::Empty) => {
                    ready.wait = Some(PUSH_WAIT);
                    break;
                }
                Err(TryRecvError::Disconnected) if ready.batches.is_empty() => return Ok(Some(Read::End)),
                Err(TryRecvError::Disconnected) => break,
            }
        }
        room.changed.notify_waiters();
        Ok(None)
    }
}

impl Drop for PushReader {
    fn drop(&mut self) {
        let mut receiver = self.table.receiver();
        // Another one may read already.
        if self.table.readers.load(Ordering::SeqCst) == self.number {
            self.table.is_left.store(true, Ordering::SeqCst);
            while receiver.as_mut().is_some_and(|receiver| receiver.try_recv().is_ok()) {
                self.table.room.batches.fetch_sub(1, Ordering::Relaxed);
            }
        }
        drop(receiver);
        self.table.look_again();
    }
}

fn ended() -> Error {
    Error::Usage("the last query that read this table has ended, or the table is gone".to_owned())
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::{DataType, Schema};

    use super::*;

    #[test]
    fn what_is_read_says_whether_more_may_be_there() {
        let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, false)]));
        let (source, table) = PushSource::new(schema.clone(), Budget::default());
        let mut reader = table.open(&Bell::default());
        let push = |rows: usize| {
            let values = Int64Array::from(vec![7; rows]);
            source.push_blocking(RecordBatch::try_new(schema.clone(), vec![Arc::new(values)]).unwrap()).unwrap();
        };
        let mut read = || {
            let mut ready = Ready::default();
            let read = reader.read_ready(0, &mut ready).unwrap();
            let found = match read {
                None => "rows",
                Some(Read::Chunk(_)) => "a chunk",
                Some(Read::Wait(_)) => "nothing",
                Some(Read::End) => "the end",
            };
            (found, ready.batches.len(), ready.wait.is_some())
        };
        assert_eq!(read(), ("nothing", 0, false));
        push(1);
        push(2);
        assert_eq!(read(), ("rows", 2, true));
        push(ROWS_AT_ONCE_MAX);
        push(1);
        assert_eq!(read(), ("rows", 1, false), "they are enough for one task");
        assert_eq!(read(), ("rows", 1, true));
        push(1);
        drop(source);
        assert_eq!(read(), ("rows", 1, false), "the end is behind them");
        assert_eq!(read(), ("the end", 0, false));
    }

    #[test]
    fn as_much_waits_as_there_is_room_for() {
        let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, false)]));
        let budget = Budget::default();
        let (source, table) = PushSource::new(schema.clone(), budget.clone());
        let mut reader = table.open(&Bell::default());
        let rows = |count: usize| {
            RecordBatch::try_new(schema.clone(), vec![Arc::new(Int64Array::from(vec![7; count]))]).unwrap()
        };
        let fill = || std::iter::from_fn(|| source.try_push(rows(100)).unwrap().then_some(())).count();
        let read = |reader: &mut PushReader| {
            let mut ready = Ready::default();
            assert!(reader.read_ready(0, &mut ready).unwrap().is_none());
            ready.batches.len()
        };
        assert_eq!((fill(), read(&mut reader)), (PUSHED_BATCHES_WAITING_MAX, PUSHED_BATCHES_WAITING_MAX));
        assert!(source.try_push(rows(100)).unwrap());
        let batch_bytes = budget.waiting_bytes();
        assert!((800..8_000).contains(&batch_bytes), "{batch_bytes} bytes of 100 numbers");
        // An eighth of it is room for 40 batches.
        budget.limit(8 * 40 * batch_bytes);
        assert_eq!((fill(), budget.waiting_bytes()), (39, 40 * batch_bytes));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| source.push_blocking(rows(100)));
            assert!(!source.try_push(rows(100)).unwrap());
            assert_eq!(read(&mut reader), BATCHES_AT_ONCE_MAX);
            waits.join().unwrap().unwrap();
            while budget.waiting_bytes() > 0 {
                read(&mut reader);
            }
            // What is larger than all of the room goes by itself.
            source.push_blocking(rows(10_000)).unwrap();
            assert!(!source.try_push(rows(1)).unwrap());
            let mut waits = std::pin::pin!(source.push(rows(1)));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(waits.as_mut().poll(&mut context).is_pending());
            drop(reader);
            let std::task::Poll::Ready(pushed) = waits.as_mut().poll(&mut context) else { panic!("it is told") };
            assert!(pushed.is_err(), "the query has ended");
        });
        drop((source, table));
        assert_eq!(budget.waiting_bytes(), 0);
    }

    #[test]
    fn rows_of_other_columns_are_not_taken() {
        let field = |name: &str, data_type: DataType| Field::new(name, data_type, false);
        let schema = Schema::new(vec![field("a", DataType::Int64), field("b", DataType::Int64)]);
        let (source, _table) = PushSource::new(Arc::new(schema), Budget::default());
        let refused = |fields: &[Field]| {
            let rows = RecordBatch::new_empty(Arc::new(Schema::new(fields.to_vec())));
            source.push_blocking(rows).map_err(|error| error.to_string()).unwrap_err()
        };
        let [a, b] = ["a", "b"].map(|name| field(name, DataType::Int64));
        let expected = "column 1 of the rows pushed is b of type BIGINT NOT NULL, but that of the table is a of type BIGINT NOT NULL";
        assert_eq!(refused(&[b.clone(), a.clone()]), expected);
        let expected =
            "column 2 of the rows pushed is b of type INT NOT NULL, but that of the table is b of type BIGINT NOT NULL";
        assert_eq!(refused(&[a.clone(), field("b", DataType::Int32)]), expected);
        let expected =
            "column 2 of the rows pushed is b of type BIGINT, but that of the table is b of type BIGINT NOT NULL";
        assert_eq!(refused(&[a.clone(), b.clone().with_nullable(true)]), expected);
        assert_eq!(refused(std::slice::from_ref(&a)), "the rows pushed have 1 columns, but the table has 2");
        source.push_blocking(RecordBatch::new_empty(Arc::new(Schema::new(vec![a, b])))).unwrap();
    }
}
