//! Text that goes where somebody may be slow to read it: a pipe, or a terminal.
//!
//! Writing there waits for as long as nobody reads, so a thread of its own does that and no worker has to. The thread ends with the output; one that nobody
//! reads when the query is given up is left to the end of the process.

use std::io::{self, Write};
use std::task::Waker;

use tokio::runtime::Builder;

use crate::io::outbox::{Outbox, OutboxReader, outbox};

/// What a thread writes there, in order.
pub(super) fn behind(output: impl Write + Send + 'static, waker: Waker) -> io::Result<Outbox> {
    let (outbox, reader) = outbox(Some(waker));
    let runtime = Builder::new_current_thread().build()?;
    let thread = std::thread::Builder::new().name("pelton-print".into());
    thread.spawn(move || runtime.block_on(write(reader, output)))?;
    Ok(outbox)
}

/// Nothing else runs on its thread, so that it may wait for whoever reads.
async fn write(reader: OutboxReader, mut output: impl Write) {
    let mut text = Vec::new();
    while reader.next(&mut text).await {
        if let Err(error) = output.write_all(&text).and_then(|()| output.flush()) {
            return reader.fail(error.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use pelton_runtime::clock::Clock;
    use pelton_runtime::pool::Pool;

    use super::*;
    use crate::io::outbox::WAITING_BYTES_MAX;

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
        let outbox = behind(write, pool.waker().outside()).unwrap();
        let mut expected = Vec::new();
        while outbox.has_room() {
            let line = format!("{}\n", expected.len());
            outbox.push(line.as_bytes()).unwrap();
            expected.extend_from_slice(line.as_bytes());
        }
        assert!(expected.len() >= WAITING_BYTES_MAX && !outbox.is_settled());
        let reader = std::thread::spawn(move || {
            let mut text = Vec::new();
            io::Read::read_to_end(&mut read, &mut text).map(|_| text)
        });
        until(|| outbox.is_settled());
        assert!(outbox.has_room());
        outbox.finish().unwrap();
        assert_eq!(reader.join().unwrap().unwrap(), expected);
    }

    #[test]
    fn what_nobody_will_read_is_an_error_and_what_nobody_wants_is_dropped() {
        let (pool, _) = Pool::manual(1, Clock::system());
        let (read, write) = io::pipe().unwrap();
        let outbox = behind(write, pool.waker().outside()).unwrap();
        drop(read);
        outbox.push(b"a").unwrap();
        until(|| outbox.result().is_err());
        assert!(outbox.has_room() && outbox.is_settled() && outbox.push(b"b").is_err());
        assert!(outbox.finish().unwrap_err().contains("pipe"));
        let (_read, write) = io::pipe().unwrap();
        let outbox = behind(write, pool.waker().outside()).unwrap();
        outbox.push(&vec![b'x'; 1 << 20]).unwrap();
        // Nobody reads, and dropping it waits for nobody.
        drop(outbox);
    }
}
