//! Bytes that come from outside, on their way to the workers.

use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::task::Waker;

use pelton_runtime::wake::Awaited;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Bytes that are read at once, if there are so many.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

/// Pieces that wait in an inbox; then whoever sends has to.
const PIECES_MAX: usize = 8;

/// Wakes the workers when there is something that they have looked for in vain.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    waker: Option<Waker>,
    awaited: Awaited,
}

/// Where bytes are put in.
pub(crate) struct InboxSender {
    /// Gone when nothing more comes.
    sender: Option<Sender<io::Result<Vec<u8>>>>,
    bell: Arc<Bell>,
}

/// The bytes that have come so far. Where there is nothing more yet, reading fails with [`ErrorKind::WouldBlock`].
pub(crate) struct Inbox {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: io::Cursor<Vec<u8>>,
    bell: Arc<Bell>,
}

/// An inbox and where it is filled. Whoever empties it may wait for several with one bell.
pub(crate) fn inbox(bell: Arc<Bell>) -> (InboxSender, Inbox) {
    let (sender, pieces) = channel(PIECES_MAX);
    let sender = InboxSender { sender: Some(sender), bell: bell.clone() };
    (sender, Inbox { pieces, piece: io::Cursor::default(), bell })
}

impl Bell {
    pub(crate) fn new(waker: Option<Waker>) -> Arc<Bell> {
        Arc::new(Bell { waker, awaited: Awaited::default() })
    }

    /// Has whoever brings something next wake the workers. Look again behind this.
    pub(crate) fn ask(&self) {
        self.awaited.ask();
    }

    /// Something has come.
    pub(crate) fn ring(&self) {
        if self.awaited.must_tell() {
            self.waker.iter().for_each(Waker::wake_by_ref);
        }
    }
}

impl InboxSender {
    fn sender(&self) -> &Sender<io::Result<Vec<u8>>> {
        self.sender.as_ref().expect("it is there until it is dropped")
    }

    /// Puts a piece in as soon as there is room. Says whether somebody still empties the inbox.
    pub(crate) async fn send(&self, piece: io::Result<Vec<u8>>) -> bool {
        let is_taken = self.sender().send(piece).await.is_ok();
        self.bell.ring();
        is_taken
    }

    /// As [`InboxSender::send`], on a thread that may wait.
    pub(crate) fn blocking_send(&self, piece: io::Result<Vec<u8>>) -> bool {
        let is_taken = self.sender().blocking_send(piece).is_ok();
        self.bell.ring();
        is_taken
    }

    /// Waits until nobody empties the inbox any more.
    pub(crate) async fn closed(&self) {
        self.sender().closed().await;
    }
}

impl Drop for InboxSender {
    fn drop(&mut self) {
        self.sender = None;
        // That nothing more comes is found now.
        self.bell.ring();
    }
}

impl Inbox {
    /// Whether somebody has found nothing in it, and has not been told since that there is something.
    #[cfg(test)]
    pub(crate) fn is_awaited(&self) -> bool {
        self.bell.awaited.is_asked()
    }

    fn next_piece(&mut self) -> Result<io::Result<Vec<u8>>, TryRecvError> {
        match self.pieces.try_recv() {
            Err(TryRecvError::Empty) => {
                self.bell.ask();
                self.pieces.try_recv()
            }
            found => found,
        }
    }
}

impl Read for Inbox {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.piece.read(bytes)?;
            if count > 0 || bytes.is_empty() {
                return Ok(count);
            }
            match self.next_piece() {
                Ok(piece) => self.piece = io::Cursor::new(piece?),
                Err(TryRecvError::Empty) => return Err(ErrorKind::WouldBlock.into()),
                Err(TryRecvError::Disconnected) => return Ok(0),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(text: &str) -> io::Result<Vec<u8>> {
        Ok(text.as_bytes().to_vec())
    }

    #[test]
    fn whoever_has_found_nothing_is_told_when_there_is_something() {
        let bell = Bell::new(None);
        let (sender, mut inbox) = inbox(bell.clone());
        let mut bytes = [0; 8];
        assert_eq!(inbox.read(&mut bytes).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(bell.awaited.is_asked());
        assert!(sender.blocking_send(piece("row\n")));
        assert!(!bell.awaited.is_asked());
        assert_eq!((inbox.read(&mut bytes).unwrap(), &bytes[..4]), (4, b"row\n".as_slice()));
        assert!(inbox.read(&mut bytes).is_err() && bell.awaited.is_asked());
        drop(sender);
        assert!(!bell.awaited.is_asked());
        assert_eq!(inbox.read(&mut bytes).unwrap(), 0);
    }

    #[test]
    fn whoever_sends_more_than_there_is_room_for_waits() {
        let (sender, mut inbox) = inbox(Bell::new(None));
        let sending = std::thread::spawn(move || {
            (0..3 * PIECES_MAX).all(|number| sender.blocking_send(piece(&format!("{number},"))))
        });
        let mut text = String::new();
        loop {
            match inbox.read_to_string(&mut text) {
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
        assert!(sending.join().unwrap());
        let expected: String = (0..3 * PIECES_MAX).map(|number| format!("{number},")).collect();
        assert_eq!(text, expected);
    }

    #[test]
    fn whoever_sends_learns_that_nobody_reads() {
        let (sender, inbox) = inbox(Bell::new(None));
        drop(inbox);
        assert!(!sender.blocking_send(piece("row\n")));
    }
}
