//! Rows to TCP: a task of the network runtime sends what is in an outbox. Pipelines wait where it is full.

use std::time::Duration;

use arrow::array::RecordBatch;
use pelton_runtime::sink::{Sink, SinkError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::connect::{pause, prepare};
use super::{Endpoint, Mode, NEWLINE, OnClose};
use crate::format::TextFormat;
use crate::format::write::TextWriter;
use crate::io::outbox::{Outbox, OutboxReader, outbox};
use crate::io::runtime;
use crate::{ConnectorError, TableRequest};

/// How long a client may take to close its side, where the last row has been sent.
const FAREWELL_MAX: Duration = Duration::from_secs(1);

/// Encodes rows as lines, which are sent to one peer at a time.
pub(super) struct TcpSink {
    place: String,
    writer: TextWriter,
    delimiter: u8,
    bytes: Vec<u8>,
    outbox: Outbox,
}

/// Begins to listen or to connect.
pub(super) fn open(
    request: &TableRequest,
    endpoint: Endpoint,
    write_timeout: Duration,
    format: &TextFormat,
) -> Result<TcpSink, ConnectorError> {
    let listener = match endpoint.mode {
        Mode::Listen => Some(endpoint.listen()?),
        Mode::Connect => None,
    };
    let (outbox, reader) = outbox(request.host.waker.clone());
    let (place, delimiter) = (endpoint.place(), endpoint.delimiter);
    let names = request.schema.fields().iter().map(|field| field.name().clone()).collect();
    let sending = Sending { endpoint, listener, write_timeout, reader };
    drop(runtime().spawn(sending.run()));
    Ok(TcpSink { place, writer: TextWriter::new(format, names, false), delimiter, bytes: Vec::new(), outbox })
}

impl TcpSink {
    fn failed(&self, problem: String) -> SinkError {
        SinkError { place: self.place.clone(), problem }
    }
}

impl Sink for TcpSink {
    fn is_ready(&self) -> bool {
        self.outbox.has_room()
    }

    fn is_settled(&self) -> bool {
        self.outbox.is_settled()
    }

    fn write(&mut self, rows: &RecordBatch) -> Result<(), SinkError> {
        self.bytes.clear();
        let mut bytes = std::mem::take(&mut self.bytes);
        let written = self.writer.begin(&mut bytes).and_then(|()| self.writer.write(rows, &mut bytes));
        written.map_err(|problem| self.failed(problem))?;
        if self.delimiter != NEWLINE {
            bytes.iter_mut().filter(|byte| **byte == NEWLINE).for_each(|byte| *byte = self.delimiter);
        }
        let pushed = self.outbox.push(&bytes);
        self.bytes = bytes;
        pushed.map_err(|problem| self.failed(problem))
    }

    /// The network sends what it has as soon as it can.
    fn flush(&mut self) -> Result<(), SinkError> {
        self.outbox.result().map_err(|problem| self.failed(problem))
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.outbox.finish().map_err(|problem| self.failed(problem))
    }
}

/// The task that sends.
struct Sending {
    endpoint: Endpoint,
    listener: Option<TcpListener>,
    write_timeout: Duration,
    reader: OutboxReader,
}

/// Bytes that have been taken out of the outbox, and how many of them were sent.
#[derive(Default)]
struct Unsent {
    bytes: Vec<u8>,
    sent: usize,
}

impl Unsent {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Goes back to the beginning of the row that was cut off: whoever is connected next gets all of it.
    fn rewind(&mut self, delimiter: u8) {
        self.sent = memchr::memrchr(delimiter, &self.bytes[..self.sent]).map_or(0, |end| end + 1);
    }
}

impl Sending {
    async fn run(self) {
        let sent = tokio::select! {
            sent = self.send() => sent,
            () = self.reader.given_up() => return,
        };
        match sent {
            Ok(stream) => {
                drop(self.reader);
                farewell(stream).await;
            }
            Err(problem) => self.reader.fail(problem),
        }
    }

    /// Sends all that is in the outbox, to one peer after the other where that is asked for. Gives the last connection, which is closed for writing.
    async fn send(&self) -> Result<TcpStream, String> {
        let mut unsent = Unsent::default();
        loop {
            let mut stream = self.peer().await?;
            match self.send_to(&mut stream, &mut unsent).await {
                Ok(()) => return Ok(stream),
                Err(problem) if self.endpoint.on_close == OnClose::End => return Err(problem),
                Err(_) => {
                    unsent.rewind(self.endpoint.delimiter);
                    pause().await;
                }
            }
        }
    }

    async fn peer(&self) -> Result<TcpStream, String> {
        let Some(listener) = &self.listener else { return self.endpoint.connect().await };
        let (stream, _) = listener.accept().await.map_err(|error| error.to_string())?;
        prepare(&stream);
        Ok(stream)
    }

    /// Sends to a peer until nothing more comes.
    ///
    /// # Errors
    /// Where the peer goes, or takes nothing for too long.
    async fn send_to(&self, stream: &mut TcpStream, unsent: &mut Unsent) -> Result<(), String> {
        let (mut read, mut write) = stream.split();
        loop {
            while !unsent.rest().is_empty() {
                match timeout(self.write_timeout, write.write(unsent.rest())).await {
                    Ok(Ok(count)) if count > 0 => unsent.sent += count,
                    Ok(Ok(_)) => return Err("the peer has closed the connection".to_owned()),
                    Ok(Err(error)) => return Err(error.to_string()),
                    Err(_) => {
                        let seconds = self.write_timeout.as_secs_f64();
                        return Err(format!(
                            "the peer has taken no bytes for {seconds} s, as long as 'write.timeout' allows"
                        ));
                    }
                }
            }
            unsent.sent = 0;
            tokio::select! {
                goes_on = self.reader.next(&mut unsent.bytes) => if !goes_on {
                    return write.shutdown().await.map_err(|error| error.to_string());
                },
                () = gone(&mut read) => return Err("the peer has closed the connection".to_owned()),
            }
        }
    }
}

/// Waits until a peer closes the connection. What it says meanwhile is of no interest.
async fn gone(read: &mut tokio::net::tcp::ReadHalf<'_>) {
    let mut bytes = [0; 1024];
    while read.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
}

/// Gives a peer the time to take what was sent: a connection that is dropped with unread bytes is reset.
async fn farewell(mut stream: TcpStream) {
    let (mut read, _) = stream.split();
    // A peer that stays has got what there is.
    let _ = timeout(FAREWELL_MAX, gone(&mut read)).await;
}
