//! Text that goes where somebody may be slow to read it: a pipe, or a terminal.
//!
//! Writing there waits for as long as nobody reads, so a thread of its own does that and no worker has to. The thread ends with the output; one that nobody
//! reads when the query is given up is left to the end of the process.

use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::JoinHandle;

/// Bytes from which on no more is taken, beside what is being written.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// A thread that writes what it is given, in order.
pub(super) struct Behind {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    waiting: Mutex<Pending>,
    changed: Condvar,
    waker: Waker,
}

#[derive(Default)]
struct Pending {
    text: Vec<u8>,
    is_writing: bool,
    /// Nothing comes behind this.
    has_ended: bool,
    /// The workers were told that there is no room, or that something is not written yet: they are woken when that has changed.
    is_awaited: bool,
    failure: Option<String>,
}

impl Pending {
    fn is_settled(&self) -> bool {
        self.failure.is_some() || self.text.is_empty() && !self.is_writing
    }

    fn has_room(&self) -> bool {
        self.failure.is_some() || self.text.len() < WAITING_BYTES_MAX
    }

    fn result(&self) -> Result<(), String> {
        self.failure.clone().map_or(Ok(()), Err)
    }
}

impl Behind {
    /// Begins to write there.
    pub fn new(output: impl Write + Send + 'static, waker: Waker) -> io::Result<Behind> {
        let shared = Arc::new(Shared { waiting: Mutex::default(), changed: Condvar::new(), waker });
        let writing = shared.clone();
        let thread = std::thread::Builder::new().name("pelton-print".into()).spawn(move || writing.write(output))?;
        Ok(Behind { shared, thread: Some(thread) })
    }

    /// Whether there is room for more; where there is none, workers are woken when there is.
    pub fn has_room(&self) -> bool {
        self.shared.asked(Pending::has_room)
    }

    /// Whether all is written, or will never be; else workers are woken when it is.
    pub fn is_settled(&self) -> bool {
        self.shared.asked(Pending::is_settled)
    }

    /// Takes text. Says as well what has become of the text before.
    pub fn push(&self, text: &[u8]) -> Result<(), String> {
        let mut waiting = self.shared.waiting();
        waiting.result()?;
        waiting.text.extend_from_slice(text);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// What has become of the text so far.
    pub fn result(&self) -> Result<(), String> {
        self.shared.waiting().result()
    }

    /// Waits until all is written.
    pub fn finish(&mut self) -> Result<(), String> {
        self.shared.waiting().has_ended = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
        self.result()
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        let mut waiting = self.shared.waiting();
        waiting.has_ended = true;
        waiting.text.clear();
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Pending> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether something is so; if it is not, it is awaited.
    fn asked(&self, is_so: fn(&Pending) -> bool) -> bool {
        let mut waiting = self.waiting();
        let is_so = is_so(&waiting);
        waiting.is_awaited |= !is_so;
        is_so
    }

    /// Wakes the workers, if they wait for a change.
    fn wake(&self, mut waiting: MutexGuard<'_, Pending>) {
        let is_awaited = mem::take(&mut waiting.is_awaited);
        drop(waiting);
        if is_awaited {
            self.waker.wake_by_ref();
        }
    }

    fn write(&self, mut output: impl Write) {
        let mut text = Vec::new();
        loop {
            let mut waiting = self.waiting();
            while waiting.text.is_empty() && !waiting.has_ended {
                waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
            if waiting.text.is_empty() {
                return;
            }
            mem::swap(&mut text, &mut waiting.text);
            waiting.is_writing = true;
            self.wake(waiting);
            let written = output.write_all(&text).and_then(|()| output.flush());
            text.clear();
            let mut waiting = self.waiting();
            waiting.is_writing = false;
            let has_failed = written.is_err();
            waiting.failure = written.err().map(|error| error.to_string());
            self.wake(waiting);
            if has_failed {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use pelton_runtime::clock::Clock;
    use pelton_runtime::pool::Pool;

    use super::*;

    fn until(is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < Duration::from_secs(60), "it does not happen");
            std::thread::yield_now();
        }
    }

    #[test]
    fn whoever_reads_slowly_gets_all_in_order_and_nobody_waits_meanwhile() {
        let (mut read, write) = io::pipe().unwrap();
        let (pool, _) = Pool::manual(1, Clock::system());
        let mut behind = Behind::new(write, pool.waker().outside()).unwrap();
        let mut expected = Vec::new();
        while behind.has_room() {
            let line = format!("{}\n", expected.len());
            behind.push(line.as_bytes()).unwrap();
            expected.extend_from_slice(line.as_bytes());
        }
        assert!(expected.len() >= WAITING_BYTES_MAX && !behind.is_settled());
        let reader = std::thread::spawn(move || {
            let mut text = Vec::new();
            io::Read::read_to_end(&mut read, &mut text).map(|_| text)
        });
        until(|| behind.is_settled());
        assert!(behind.has_room());
        behind.finish().unwrap();
        assert_eq!(reader.join().unwrap().unwrap(), expected);
    }

    #[test]
    fn what_nobody_will_read_is_an_error_and_what_nobody_wants_is_dropped() {
        let (pool, _) = Pool::manual(1, Clock::system());
        let (read, write) = io::pipe().unwrap();
        let mut behind = Behind::new(write, pool.waker().outside()).unwrap();
        drop(read);
        behind.push(b"a").unwrap();
        until(|| behind.result().is_err());
        assert!(behind.has_room() && behind.is_settled() && behind.push(b"b").is_err());
        assert!(behind.finish().unwrap_err().contains("pipe"));
        let (_read, write) = io::pipe().unwrap();
        let behind = Behind::new(write, pool.waker().outside()).unwrap();
        behind.push(&vec![b'x'; 1 << 20]).unwrap();
        // Nobody reads, and dropping it waits for nobody.
        drop(behind);
    }
}
