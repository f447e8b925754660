//! Bytes that go outside, on their way from the workers.

use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tokio::sync::Notify;

/// Bytes from which on no more is taken, beside those that are being sent.
pub(crate) const WAITING_BYTES_MAX: usize = 1 << 20;

/// Where workers put bytes in. When it is dropped before [`Outbox::finish`], nobody sends them any more.
pub(crate) struct Outbox(Arc<Shared>);

/// Where bytes are taken out to be sent.
pub(crate) struct OutboxReader(Arc<Shared>);

struct Shared {
    pending: Mutex<Pending>,
    /// Something was put in, or nothing more will be.
    added: Notify,
    /// Nobody wants what is here.
    given_up: Notify,
    /// All is sent, or will never be.
    settled: Condvar,
    waker: Option<Waker>,
}

#[derive(Default)]
struct Pending {
    bytes: Vec<u8>,
    is_sending: bool,
    /// Nothing comes behind this.
    has_ended: bool,
    /// Nobody takes anything out any more.
    is_closed: bool,
    /// Workers were told that there is no room, or that something is not sent yet: they are woken when that has changed.
    is_awaited: bool,
    failure: Option<String>,
}

impl Pending {
    fn is_settled(&self) -> bool {
        self.failure.is_some() || self.bytes.is_empty() && !self.is_sending
    }

    fn has_room(&self) -> bool {
        self.failure.is_some() || self.bytes.len() < WAITING_BYTES_MAX
    }

    fn result(&self) -> Result<(), String> {
        self.failure.clone().map_or(Ok(()), Err)
    }
}

/// An outbox and where it is emptied.
pub(crate) fn outbox(waker: Option<Waker>) -> (Outbox, OutboxReader) {
    let pending = Mutex::default();
    let shared =
        Arc::new(Shared { pending, added: Notify::new(), given_up: Notify::new(), settled: Condvar::new(), waker });
    (Outbox(shared.clone()), OutboxReader(shared))
}

impl Outbox {
    /// Whether there is room for more; where there is none, workers are woken when there is.
    pub(crate) fn has_room(&self) -> bool {
        self.0.asked(Pending::has_room)
    }

    /// Whether all is sent, or will never be; else workers are woken when it is.
    pub(crate) fn is_settled(&self) -> bool {
        self.0.asked(Pending::is_settled)
    }

    /// Takes bytes, also where there is no room. Says as well what has become of the bytes before.
    pub(crate) fn push(&self, bytes: &[u8]) -> Result<(), String> {
        let mut pending = self.0.pending();
        pending.result()?;
        pending.bytes.extend_from_slice(bytes);
        self.0.added.notify_one();
        Ok(())
    }

    /// What has become of the bytes so far.
    pub(crate) fn result(&self) -> Result<(), String> {
        self.0.pending().result()
    }

    /// Waits until all is sent.
    pub(crate) fn finish(&self) -> Result<(), String> {
        let mut pending = self.0.pending();
        pending.has_ended = true;
        self.0.added.notify_one();
        while !pending.is_closed && pending.failure.is_none() {
            pending = self.0.settled.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
        pending.result()
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        let mut pending = self.0.pending();
        let is_finished = pending.has_ended;
        pending.has_ended = true;
        if !is_finished {
            pending.bytes.clear();
            self.0.given_up.notify_one();
        }
        self.0.added.notify_one();
    }
}

impl OutboxReader {
    /// Takes what there is into `bytes`, which has been sent. `false` where nothing more will come.
    pub(crate) async fn next(&self, bytes: &mut Vec<u8>) -> bool {
        bytes.clear();
        loop {
            {
                let mut pending = self.0.pending();
                mem::swap(bytes, &mut pending.bytes);
                pending.is_sending = !bytes.is_empty();
                let goes_on = pending.is_sending || !pending.has_ended;
                self.0.changed(pending);
                if !bytes.is_empty() || !goes_on {
                    return goes_on;
                }
            }
            self.0.added.notified().await;
        }
    }

    /// Waits until nobody wants what is here.
    pub(crate) async fn given_up(&self) {
        self.0.given_up.notified().await;
    }

    /// Nothing can be sent any more.
    pub(crate) fn fail(&self, problem: String) {
        let mut pending = self.0.pending();
        pending.failure = Some(problem);
        self.0.changed(pending);
    }
}

impl Drop for OutboxReader {
    fn drop(&mut self) {
        let mut pending = self.0.pending();
        pending.is_closed = true;
        self.0.changed(pending);
    }
}

impl Shared {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether something is so; if it is not, it is awaited.
    fn asked(&self, is_so: fn(&Pending) -> bool) -> bool {
        let mut pending = self.pending();
        let is_so = is_so(&pending);
        pending.is_awaited |= !is_so;
        is_so
    }

    /// Tells whoever waits for a change.
    fn changed(&self, mut pending: MutexGuard<'_, Pending>) {
        let is_awaited = mem::take(&mut pending.is_awaited);
        drop(pending);
        self.settled.notify_all();
        if is_awaited {
            self.waker.iter().for_each(Waker::wake_by_ref);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::runtime;

    #[test]
    fn bytes_are_taken_in_order_and_the_end_waits_for_them() {
        let (outbox, reader) = outbox(None);
        let mut expected = Vec::new();
        while outbox.has_room() {
            let line = format!("{}\n", expected.len());
            outbox.push(line.as_bytes()).unwrap();
            expected.extend_from_slice(line.as_bytes());
        }
        assert!(expected.len() >= WAITING_BYTES_MAX && !outbox.is_settled());
        let reading = runtime().spawn(async move {
            let (mut all, mut bytes) = (Vec::new(), Vec::new());
            while reader.next(&mut bytes).await {
                all.extend_from_slice(&bytes);
            }
            all
        });
        outbox.finish().unwrap();
        assert!(outbox.has_room() && outbox.is_settled());
        assert_eq!(runtime().block_on(reading).unwrap(), expected);
    }

    #[test]
    fn a_failure_makes_room_and_is_told() {
        let (outbox, reader) = outbox(None);
        outbox.push(&vec![0; WAITING_BYTES_MAX]).unwrap();
        assert!(!outbox.has_room());
        reader.fail("gone".to_owned());
        assert!(outbox.has_room() && outbox.is_settled());
        assert_eq!(outbox.push(b"a"), Err("gone".to_owned()));
        assert_eq!(outbox.finish(), Err("gone".to_owned()));
    }

    #[test]
    fn what_nobody_wants_is_dropped() {
        let (outbox, reader) = outbox(None);
        outbox.push(b"row").unwrap();
        drop(outbox);
        runtime().block_on(reader.given_up());
        assert!(!runtime().block_on(reader.next(&mut Vec::new())));
    }
}
