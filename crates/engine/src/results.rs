//! Results on their way from a query to whoever reads them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use pelton_data::Micros;
use pelton_runtime::budget::Unread;
use pelton_runtime::sink::{Sink, SinkError};
use pelton_runtime::wake::Waker;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{self, Receiver, Sender, WeakSender};

/// Batches that may wait for whoever reads them; after that the query waits.
const BATCHES_WAITING_MAX: usize = 64;

/// Two ends, of which no query writes to the one yet.
pub(crate) fn channel() -> (Unopened, Results) {
    let (sender, receiver) = mpsc::channel(BATCHES_WAITING_MAX);
    let ends = Arc::new(Ends::default());
    (Unopened { sender, ends: ends.clone() }, Results { receiver, ends, watermark: None })
}

/// What passes from one end to the other.
enum Passed {
    Rows(RecordBatch),
    /// How far the event time of rows has come.
    Watermark(Micros),
}

/// The writing end that waits for its query.
pub(crate) struct Unopened {
    sender: Sender<Passed>,
    ends: Arc<Ends>,
}

/// What each end knows of the other.
#[derive(Default)]
struct Ends {
    writer: OnceLock<Writer>,
    /// Rows had been written and not been read when the reading end was dropped.
    has_lost_rows: AtomicBool,
}

/// A query that writes.
struct Writer {
    unread: Unread,
    waker: Waker,
}

/// The reading end.
pub(crate) struct Results {
    receiver: Receiver<Passed>,
    ends: Arc<Ends>,
    /// How far time has come with what has been read.
    watermark: Option<Micros>,
}

/// The writing end of a query.
struct ResultSink {
    sender: Option<Sender<Passed>>,
    unread: Unread,
    ends: Arc<Ends>,
    /// Whether who reads wants to know how far time has come.
    follows_time: bool,
    /// The table that they are inserted into; nothing where whoever reads no more drops the query.
    table: Option<String>,
}

/// Knows whether both ends are still there.
pub(crate) struct Watched(WeakSender<Passed>);

impl Watched {
    /// Whether rows can no longer pass.
    pub fn has_ended(&self) -> bool {
        self.0.upgrade().is_none_or(|sender| sender.is_closed())
    }
}

impl Unopened {
    /// Watches the channel, and does not keep it.
    pub fn watched(&self) -> Watched {
        Watched(self.sender.downgrade())
    }

    /// For the query that counts what is `unread`, and writes its result, or inserts into a table.
    pub fn open(self, unread: &Unread, waker: &Waker, table: Option<String>) -> Box<dyn Sink> {
        Box::new(self.opened(unread, waker, table))
    }

    /// The same for who reads [`Results::watermark`].
    pub fn open_with_time(self, unread: &Unread, waker: &Waker) -> Box<dyn Sink> {
        Box::new(ResultSink { follows_time: true, ..self.opened(unread, waker, None) })
    }

    fn opened(self, unread: &Unread, waker: &Waker, table: Option<String>) -> ResultSink {
        let writer = Writer { unread: unread.clone(), waker: waker.clone() };
        assert!(self.ends.writer.set(writer).is_ok(), "one query writes to a channel");
        let (sender, ends) = (Some(self.sender), self.ends);
        ResultSink { sender, unread: unread.clone(), ends, follows_time: false, table }
    }
}

impl Results {
    /// The next rows, when they are there, or `None` after the last.
    pub fn next(&mut self) -> Option<RecordBatch> {
        loop {
            let passed = self.receiver.blocking_recv()?;
            if let Some(rows) = self.read(passed) {
                return Some(rows);
            }
        }
    }

    /// The next rows where some are there, or `None` after the last.
    pub fn try_next(&mut self) -> Poll<Option<RecordBatch>> {
        loop {
            match self.receiver.try_recv() {
                Ok(passed) => match self.read(passed) {
                    Some(rows) => return Poll::Ready(Some(rows)),
                    None => continue,
                },
                Err(TryRecvError::Empty) => return Poll::Pending,
                Err(TryRecvError::Disconnected) => return Poll::Ready(None),
            }
        }
    }

    /// As [`Results::try_next`], where whoever asks is told when to ask again.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<RecordBatch>> {
        loop {
            let Some(passed) = ready!(self.receiver.poll_recv(context)) else { return Poll::Ready(None) };
            if let Some(rows) = self.read(passed) {
                return Poll::Ready(Some(rows));
            }
        }
    }

    /// How far the event time of rows has come behind those that have been read, where the query tells that.
    pub fn watermark(&self) -> Option<Micros> {
        self.watermark
    }

    /// Whether the last rows have been read.
    pub fn have_ended(&self) -> bool {
        self.receiver.is_closed() && self.receiver.is_empty()
    }

    /// Counts rows no more, and wakes the workers if they wait for room.
    fn read(&mut self, passed: Passed) -> Option<RecordBatch> {
        let rows = match passed {
            Passed::Rows(rows) => Some(rows),
            Passed::Watermark(watermark) => {
                self.watermark = Some(watermark);
                None
            }
        };
        if let Some(writer) = self.ends.writer.get() {
            let unread = &writer.unread;
            if rows.as_ref().map_or_else(|| unread.has_made_room(), |rows| unread.read(rows)) {
                writer.waker.wake();
            }
        }
        rows
    }
}

/// What has not been read takes no room any more, and a sink that waits for room learns that nobody makes any.
impl Drop for Results {
    fn drop(&mut self) {
        self.receiver.close();
        while let Ok(passed) = self.receiver.try_recv() {
            if self.read(passed).is_some() {
                self.ends.has_lost_rows.store(true, Ordering::Relaxed);
            }
        }
        if let Some(writer) = self.ends.writer.get() {
            writer.waker.wake();
        }
    }
}

impl ResultSink {
    /// That rows are lost of a table that nobody reads any more; of a result that is no failure.
    fn lost(&self) -> Result<(), SinkError> {
        let error = |table: &String| {
            Err(SinkError { place: table.clone(), problem: "the program reads it no more".to_owned() })
        };
        self.table.as_ref().map_or(Ok(()), error)
    }
}

impl Sink for ResultSink {
    fn is_ready(&self) -> bool {
        let has_room = || self.sender.as_ref().is_none_or(|sender| sender.capacity() > 0 || sender.is_closed());
        if has_room() {
            return true;
        }
        self.unread.await_reader();
        has_room()
    }

    fn write(&mut self, rows: &RecordBatch) -> Result<(), SinkError> {
        self.take(rows.clone())
    }

    fn take(&mut self, rows: RecordBatch) -> Result<(), SinkError> {
        let Some(sender) = &self.sender else { return Ok(()) };
        self.unread.add(&rows);
        let Err(unsent) = sender.try_send(Passed::Rows(rows)) else {
            // Where the reading end was dropped meanwhile, it need not have seen them.
            return if sender.is_closed() { self.lost() } else { Ok(()) };
        };
        // Nobody reads any more.
        if let Passed::Rows(rows) = unsent.into_inner() {
            self.unread.read(&rows);
        }
        self.lost()
    }

    fn advance(&mut self, watermark: Micros) {
        // Where nobody reads any more, nobody wants to know. There is room, as it was ready.
        if let Some(sender) = self.sender.as_ref().filter(|_| self.follows_time) {
            drop(sender.try_send(Passed::Watermark(watermark)));
        }
    }

    fn follows_time(&self) -> bool {
        self.follows_time
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.sender = None;
        if self.ends.has_lost_rows.load(Ordering::Relaxed) { self.lost() } else { Ok(()) }
    }
}
