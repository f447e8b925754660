//! Files whose bytes come when somebody writes them: pipes, and terminals.
//!
//! Reading one waits for as long as nothing is written, so a thread of its own does that and no worker has to. The thread ends with the file, or
//! at the first bytes behind the end of the query.

use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::task::Waker;
use std::time::Duration;

use crate::format::compression;
use crate::io::inbox::{Bell, Inbox, InboxSender, PIECE_BYTES, inbox};

/// How soon a file that had nothing is asked again, where nobody can be woken when it has,
const POLL_WAIT: Duration = Duration::from_millis(2);

/// and where somebody is.
const WOKEN_WAIT: Duration = Duration::from_secs(60);

/// How soon a file that had nothing is asked again by who gave that waker.
pub(super) fn wait(waker: Option<&Waker>) -> Duration {
    waker.map_or(POLL_WAIT, |_| WOKEN_WAIT)
}

/// Opens the file, as soon as somebody opens it for writing, on a thread that reads it into an inbox.
pub(super) fn open(path: &Path, waker: Option<Waker>) -> io::Result<Inbox> {
    let (sender, inbox) = inbox(Bell::new(waker));
    let path = path.to_path_buf();
    std::thread::Builder::new().name("pelton-pipe".into()).spawn(move || deliver(&path, &sender))?;
    Ok(inbox)
}

fn deliver(path: &Path, sender: &InboxSender) {
    let mut reader = match compression::open_pipe(path) {
        Ok(reader) => reader,
        Err(error) => {
            // Where nobody takes it there is nobody to tell.
            sender.blocking_send(Err(error));
            return;
        }
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
        if !sender.blocking_send(read) || has_failed {
            return;
        }
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
        let mut reader = open(Path::new(&path), Some(pool.waker().outside())).unwrap();
        let mut bytes = [0; 8];
        let nothing = |reader: &mut Inbox| {
            assert_eq!(reader.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
            assert!(reader.is_awaited());
        };
        let is_rung = |reader: &Inbox| {
            let began = Instant::now();
            while reader.is_awaited() {
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
