//! Files whose bytes come when somebody writes them: pipes, and terminals.
//!
//! Reading one waits for as long as nothing is written, so a thread of its own does that and no worker has to. The thread ends with the file, or
//! at the first bytes behind the end of the query.

use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

use crate::format::compression;

/// How soon a file that had nothing is asked again.
pub(super) const LIVE_WAIT: Duration = Duration::from_millis(2);

/// Bytes read at once, if there are so many.
const PIECE_BYTES: usize = 64 << 10;

/// Pieces that wait; then whoever writes has to.
const PIECES_MAX: usize = 8;

/// What a thread has read so far. Where there is nothing more yet, reading fails with [`ErrorKind::WouldBlock`].
pub(super) struct LiveReader {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: io::Cursor<Vec<u8>>,
}

impl LiveReader {
    /// Opens the file, as soon as somebody opens it for writing, and reads it.
    pub(super) fn open(path: &Path) -> io::Result<LiveReader> {
        let (sender, pieces) = sync_channel(PIECES_MAX);
        let path = path.to_path_buf();
        std::thread::Builder::new().name("pelton-pipe".into()).spawn(move || deliver(path, sender))?;
        Ok(LiveReader { pieces, piece: io::Cursor::default() })
    }
}

impl Read for LiveReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.piece.read(bytes)?;
            if count > 0 || bytes.is_empty() {
                return Ok(count);
            }
            match self.pieces.try_recv() {
                Ok(piece) => self.piece = io::Cursor::new(piece?),
                Err(TryRecvError::Empty) => return Err(ErrorKind::WouldBlock.into()),
                Err(TryRecvError::Disconnected) => return Ok(0),
            }
        }
    }
}

fn deliver(path: PathBuf, sender: SyncSender<io::Result<Vec<u8>>>) {
    let mut reader = match compression::open(&path) {
        Ok(reader) => reader,
        // Where nobody takes it there is nobody to tell.
        Err(error) => return drop(sender.send(Err(error))),
    };
    loop {
        let mut piece = vec![0; PIECE_BYTES];
        let read = match reader.read(&mut piece) {
            Ok(0) => return,
            Ok(count) => {
                piece.truncate(count);
                Ok(piece)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let has_failed = read.is_err();
        if sender.send(read).is_err() || has_failed {
            return;
        }
    }
}
