//! Messages on a socket: packets from the client, and bytes for it.

use std::future::Future;
use std::io;

use bytes::{Buf, BytesMut};
use pgwire::messages::{DecodeContext, PgWireBackendMessage, PgWireFrontendMessage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, watch};

use super::failure::End;

/// Bytes of one message from a client, at most.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Bytes that are read from a client while one of its statements runs, at most. Of what is behind them nothing is known: not even that the client has gone.
const READ_AHEAD_BYTES_MAX: usize = 64 << 10;

/// Bytes for a client that are collected before they are sent, where more follow at once.
pub const UNSENT_BYTES_MAX: usize = 64 << 10;

/// Bytes of a buffer that is kept when it is empty.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// How far a server that is stopping has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stopping {
    No,
    /// Nothing is begun any more.
    Draining,
    /// All ends at once.
    AtOnce,
}

/// What ends a statement of a connection before its end.
pub struct Interrupts {
    /// A cancel request of the client.
    pub cancel: std::sync::Arc<Notify>,
    pub stopping: watch::Receiver<Stopping>,
}

/// The bytes that come from a client.
pub struct Incoming {
    socket: OwnedReadHalf,
    buffer: BytesMut,
}

/// The bytes that go to a client.
pub struct Outgoing {
    socket: OwnedWriteHalf,
    pub buffer: BytesMut,
}

impl Incoming {
    pub fn new(socket: OwnedReadHalf) -> Incoming {
        Incoming { socket, buffer: BytesMut::new() }
    }

    /// The next packet of the start, which has no type: it begins with its length.
    pub async fn first_packet(&mut self) -> Result<BytesMut, End> {
        self.packet_behind(0).await
    }

    /// The next message.
    pub async fn message(&mut self, context: &DecodeContext) -> Result<PgWireFrontendMessage, End> {
        let mut packet = self.packet_behind(1).await?;
        let message = PgWireFrontendMessage::decode(&mut packet, context).map_err(End::protocol)?;
        message.ok_or_else(|| End::protocol("a message that is shorter than it says"))
    }

    /// Reads until a whole packet is there. Its length stands behind so many bytes, and counts itself and what follows.
    async fn packet_behind(&mut self, type_bytes: usize) -> Result<BytesMut, End> {
        let header_bytes = type_bytes + 4;
        loop {
            if self.buffer.len() >= header_bytes {
                let bytes = (&self.buffer[type_bytes..header_bytes]).get_i32();
                let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes >= 4);
                let bytes = bytes.ok_or_else(|| End::protocol("a message with an impossible length"))?;
                if bytes > MESSAGE_BYTES_MAX {
                    return Err(End::message_too_large(bytes));
                }
                if self.buffer.len() >= type_bytes + bytes {
                    return Ok(self.buffer.split_to(type_bytes + bytes));
                }
            }
            if self.socket.read_buf(&mut self.buffer).await.unwrap_or(0) == 0 {
                return Err(End::Gone);
            }
        }
    }

    /// Reads ahead until the client has gone.
    async fn gone(&mut self) {
        while self.buffer.len() < READ_AHEAD_BYTES_MAX {
            if self.socket.read_buf(&mut self.buffer).await.unwrap_or(0) == 0 {
                return;
            }
        }
        std::future::pending().await
    }
}

impl Outgoing {
    pub fn new(socket: OwnedWriteHalf) -> Outgoing {
        Outgoing { socket, buffer: BytesMut::new() }
    }

    /// Adds a message, which is sent with the next [`Outgoing::flush`].
    pub fn put(&mut self, message: PgWireBackendMessage) {
        let length = self.buffer.len();
        if message.encode(&mut self.buffer).is_err() {
            // A tag or a name of more than 30,000 bytes: clients refuse it too.
            self.buffer.truncate(length);
        }
    }

    /// Sends what was added. What has been sent when this is dropped is not sent again.
    pub async fn flush(&mut self) -> Result<(), End> {
        while !self.buffer.is_empty() {
            match self.socket.write_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return Err(End::Gone),
                Ok(_) => {}
            }
        }
        if self.buffer.capacity() > KEPT_BYTES_MAX {
            self.buffer = BytesMut::new();
        }
        self.socket.flush().await.map_err(|_: io::Error| End::Gone)
    }

    /// Says goodbye.
    pub async fn close(&mut self) {
        // It may be gone.
        let _ = self.socket.shutdown().await;
    }
}

impl Interrupts {
    /// Forgets a cancel request that came when nothing ran.
    pub fn rearm(&self) {
        let cancelled = std::pin::pin!(self.cancel.notified());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let _ = cancelled.poll(&mut context);
    }

    /// Waits for something as long as the client is there, has not cancelled its statement, and the server is not stopping.
    pub async fn watch<T>(
        &mut self,
        incoming: &mut Incoming,
        work: impl Future<Output = Result<T, End>>,
    ) -> Result<T, End> {
        tokio::select! {
            biased;
            result = work => result,
            () = self.cancel.notified() => Err(End::cancelled()),
            () = incoming.gone() => Err(End::Gone),
            () = stopped(&mut self.stopping) => Err(End::stopping()),
        }
    }
}

/// Waits until the server is stopping.
pub async fn stopped(stopping: &mut watch::Receiver<Stopping>) {
    // The sender lives as long as the server.
    let _ = stopping.wait_for(|stopping| *stopping > Stopping::No).await;
}
