//! Rows from TCP: tasks of the network runtime fill an inbox for each connection, and stop reading where it is full.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use pelton_runtime::source::{Read, Source, SourceError};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::connect::{pause, prepare};
use super::{Endpoint, Mode, NEWLINE, OnClose};
use crate::filesystem::text_stream::{TextReading, TextStream};
use crate::io::inbox::{Bell, Inbox, InboxSender, PIECE_BYTES, inbox};
use crate::io::runtime;
use crate::{ConnectorError, TableRequest};

/// Connections that wait for the source to look at them.
const ARRIVALS_MAX: usize = 16;

/// Lines of one connection, or of several, a chunk of each in turn.
pub(super) struct TcpSource {
    reading: TextReading,
    place: String,
    arrivals: Receiver<Arrival>,
    /// Those that are there. The first is read next.
    streams: VecDeque<TextStream>,
    bell: Arc<Bell>,
}

/// A connection: who it is with, and what comes; or why there is none.
type Arrival = Result<(String, Inbox), String>;

/// Begins to listen or to connect.
pub(super) fn open(
    request: &TableRequest,
    endpoint: Endpoint,
    connections_max: usize,
    reading: TextReading,
) -> Result<TcpSource, ConnectorError> {
    let (sender, arrivals) = channel(ARRIVALS_MAX);
    let bell = Bell::new(request.host.waker.clone());
    let place = endpoint.place();
    let door = Door { endpoint: Arc::new(endpoint), arrivals: sender, bell: bell.clone() };
    match door.endpoint.mode {
        Mode::Listen => {
            let listener = door.endpoint.listen()?;
            drop(runtime().spawn(door.accept(listener, connections_max)));
        }
        Mode::Connect => drop(runtime().spawn(door.connect())),
    }
    Ok(TcpSource { reading, place, arrivals, streams: VecDeque::new(), bell })
}

impl Source for TcpSource {
    fn partitions(&self) -> usize {
        1
    }

    fn read(&mut self, _partition: usize) -> Result<Read, SourceError> {
        // Whatever comes from now on wakes the workers.
        self.bell.ask();
        let has_more = self.take_arrivals()?;
        for _ in 0..self.streams.len() {
            let mut stream = self.streams.pop_front().expect("so many are there");
            let read = self.reading.read(&mut stream)?;
            if !matches!(read, Read::End) {
                self.streams.push_back(stream);
            }
            if let Read::Chunk(_) = read {
                return Ok(read);
            }
        }
        Ok(if has_more || !self.streams.is_empty() { self.reading.wait() } else { Read::End })
    }
}

impl TcpSource {
    /// Takes new connections. Says whether more may come.
    fn take_arrivals(&mut self) -> Result<bool, SourceError> {
        loop {
            match self.arrivals.try_recv() {
                Ok(Ok((peer, inbox))) => self.streams.push_back(TextStream::of_reader(peer, Box::new(inbox))),
                Ok(Err(problem)) => return Err(SourceError::Input { place: self.place.clone(), problem }),
                Err(TryRecvError::Empty) => return Ok(true),
                Err(TryRecvError::Disconnected) => return Ok(false),
            }
        }
    }
}

/// Where connections come in.
struct Door {
    endpoint: Arc<Endpoint>,
    arrivals: Sender<Arrival>,
    bell: Arc<Bell>,
}

/// When it is gone, nothing more comes: that is found now.
impl Drop for Door {
    fn drop(&mut self) {
        self.arrivals = channel(1).0;
        self.bell.ring();
    }
}

impl Door {
    /// Lets a connection in. Says whether somebody still wants it.
    async fn admit(&self, arrival: Arrival) -> bool {
        let is_wanted = self.arrivals.send(arrival).await.is_ok();
        self.bell.ring();
        is_wanted
    }

    /// Connects, and connects again where that is asked for, until nobody reads any more.
    async fn connect(self) {
        loop {
            let stream = tokio::select! {
                stream = self.endpoint.connect() => stream,
                () = self.arrivals.closed() => return,
            };
            let stream = match stream {
                Ok(stream) => stream,
                Err(problem) => {
                    self.admit(Err(problem)).await;
                    return;
                }
            };
            let (sender, inbox) = inbox(self.bell.clone());
            if !self.admit(Ok((self.endpoint.place(), inbox))).await {
                return;
            }
            deliver(stream, sender, &self.endpoint).await;
            if self.endpoint.on_close == OnClose::End {
                return;
            }
            pause().await;
        }
    }

    /// Accepts clients, so many at the same time, until nobody reads any more.
    async fn accept(self, listener: TcpListener, connections_max: usize) {
        let places = Arc::new(Semaphore::new(connections_max.max(1)));
        let mut tasks = tokio::task::JoinSet::new();
        loop {
            let accepted = async {
                let place = places.clone().acquire_owned().await;
                (listener.accept().await, place)
            };
            let (accepted, place) = tokio::select! {
                accepted = accepted => accepted,
                Some(_) = tasks.join_next(), if !tasks.is_empty() => {
                    // With the last client the table ends, where that is asked for.
                    if tasks.is_empty() && self.endpoint.on_close == OnClose::End {
                        return;
                    }
                    continue;
                }
                () = self.arrivals.closed() => return,
            };
            let Ok((stream, peer)) = accepted else { continue };
            prepare(&stream);
            let (sender, inbox) = inbox(self.bell.clone());
            if !self.admit(Ok((format!("tcp://{peer}"), inbox))).await {
                return;
            }
            let endpoint = self.endpoint.clone();
            tasks.spawn(async move {
                deliver(stream, sender, &endpoint).await;
                drop(place);
            });
        }
    }
}

/// Puts what comes into an inbox, until there is no more or nobody takes it.
async fn deliver(mut stream: TcpStream, sender: InboxSender, endpoint: &Endpoint) {
    let mut ends_in_row = false;
    loop {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        let read = tokio::select! {
            read = stream.read_buf(&mut piece) => read,
            () = sender.closed() => return,
        };
        match read {
            Ok(0) => return,
            Ok(_) => {
                ends_in_row = piece.last() != Some(&endpoint.delimiter);
                translate(&mut piece, endpoint.delimiter);
                if !sender.send(Ok(piece)).await {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Between two rows nothing is lost.
            Err(_) if !ends_in_row && endpoint.on_close == OnClose::Reconnect => return,
            Err(error) => {
                let within = if ends_in_row { "within a row" } else { "before its end" };
                let error = io::Error::new(error.kind(), format!("the connection broke {within}: {error}"));
                sender.send(Err(error)).await;
                return;
            }
        }
    }
}

/// Ends rows with the byte with which formats of lines end them.
fn translate(bytes: &mut [u8], delimiter: u8) {
    if delimiter != NEWLINE {
        bytes.iter_mut().filter(|byte| **byte == delimiter).for_each(|byte| *byte = NEWLINE);
    }
}
