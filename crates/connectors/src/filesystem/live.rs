//! Files whose bytes come when somebody writes them: pipes, and terminals.
//!
//! Reading one waits for as long as nothing is written, so a thread of its own does that and no worker has to. The thread ends with the file, or
//! at the first bytes behind the end of the query.

use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::task::Waker;
use std::time::Duration;

use pelton_runtime::wake::Awaited;

use crate::format::compression;

/// How soon a file that had nothing is asked again, where nobody can be woken when it has,
const POLL_WAIT: Duration = Duration::from_millis(2);

/// and where somebody is.
const WOKEN_WAIT: Duration = Duration::from_secs(60);

/// Bytes read at once, if there are so many.
const PIECE_BYTES: usize = 64 << 10;

/// Pieces that wait; then whoever writes has to.
const PIECES_MAX: usize = 8;

/// How soon a file that had nothing is asked again by who gave that waker.
pub(super) fn wait(waker: Option<&Waker>) -> Duration {
    waker.map_or(POLL_WAIT, |_| WOKEN_WAIT)
}

/// What a thread has read so far. Where there is nothing more yet, reading fails with [`ErrorKind::WouldBlock`].
pub(super) struct LiveReader {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: io::Cursor<Vec<u8>>,
    bell: Arc<Bell>,
}

/// Wakes whoever has found nothing, when there is something.
struct Bell {
    waker: Option<Waker>,
    awaited: Awaited,
}

impl Bell {
    fn ring(&self) {
        if self.awaited.must_tell() {
            self.waker.iter().for_each(Waker::wake_by_ref);
        }
    }
}

impl LiveReader {
    /// Opens the file, as soon as somebody opens it for writing, and reads it.
    pub(super) fn open(path: &Path, waker: Option<Waker>) -> io::Result<LiveReader> {
        let (sender, pieces) = sync_channel(PIECES_MAX);
        let path = path.to_path_buf();
        let bell = Arc::new(Bell { waker, awaited: Awaited::default() });
        let rung = bell.clone();
        let deliver = move || {
            deliver(path, sender, &rung);
            // The sender is gone: that nothing more comes is found now.
            rung.ring();
        };
        std::thread::Builder::new().name("pelton-pipe".into()).spawn(deliver)?;
        Ok(LiveReader { pieces, piece: io::Cursor::default(), bell })
    }

    /// What the thread has read, if there is anything yet.
    fn next_piece(&self) -> Result<io::Result<Vec<u8>>, TryRecvError> {
        self.pieces.try_recv().or_else(|nothing| match nothing {
            TryRecvError::Empty => {
                self.bell.awaited.ask();
                self.pieces.try_recv()
            }
            TryRecvError::Disconnected => Err(nothing),
        })
    }
}

impl Read for LiveReader {
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

fn deliver(path: PathBuf, sender: SyncSender<io::Result<Vec<u8>>>, bell: &Bell) {
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
        bell.ring();
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::Write;
    use std::time::Instant;

    use pelton_runtime::clock::Clock;
    use pelton_runtime::pool::Pool;

    use super::*;

    #[test]
    fn who_has_found_nothing_is_woken_when_there_is_something() {
        let (read, mut write) = io::pipe().unwrap();
        let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&read));
        let (pool, _) = Pool::manual(1, Clock::system());
        let mut reader = LiveReader::open(Path::new(&path), Some(pool.waker().outside())).unwrap();
        let mut bytes = [0; 8];
        let nothing = |reader: &mut LiveReader| {
            assert_eq!(reader.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
            assert!(reader.bell.awaited.is_asked());
        };
        let is_rung = |reader: &LiveReader| {
            let began = Instant::now();
            while reader.bell.awaited.is_asked() {
                assert!(began.elapsed() < Duration::from_secs(60), "nobody rings");
                std::thread::yield_now();
            }
        };
        nothing(&mut reader);
        write.write_all(b"row\n").unwrap();
        is_rung(&reader);
        assert_eq!(reader.read(&mut bytes).unwrap(), 4);
        nothing(&mut reader);
        drop(write);
        is_rung(&reader);
        assert_eq!(reader.read(&mut bytes).unwrap(), 0);
    }
}
