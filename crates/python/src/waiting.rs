//! Blocking calls that do not keep Python from handling signals.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use pyo3::prelude::*;

/// How long a signal such as Ctrl-C waits at most for a call that blocks.
const SIGNAL_DELAY_MAX: Duration = Duration::from_millis(50);

/// Polls until there is a result, without the interpreter's lock. Raises what a signal handler raises, such as `KeyboardInterrupt`.
pub fn wait_for<T: Send>(py: Python<'_>, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T> + Send) -> PyResult<T> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        let polled = py.detach(|| {
            let mut context = Context::from_waker(&waker);
            match poll(&mut context) {
                Poll::Pending => {
                    std::thread::park_timeout(SIGNAL_DELAY_MAX);
                    poll(&mut context)
                }
                ready => ready,
            }
        });
        match polled {
            Poll::Ready(result) => return Ok(result),
            Poll::Pending => py.check_signals()?,
        }
    }
}

/// Asks again and again, where nothing tells when to, without the interpreter's lock. `wait` waits for so long at most.
pub fn wait_in_steps<T: Send>(py: Python<'_>, mut wait: impl FnMut(Duration) -> Option<T> + Send) -> PyResult<T> {
    loop {
        match py.detach(|| wait(SIGNAL_DELAY_MAX)) {
            Some(result) => return Ok(result),
            None => py.check_signals()?,
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A waker that calls a Python function, for event loops.
pub fn calling(callback: Py<PyAny>) -> Waker {
    Waker::from(Arc::new(Call(callback)))
}

struct Call(Py<PyAny>);

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        // A thread of its own attaches, since a worker may be told by a thread that has the lock. There is nobody to tell of a loop that is closed.
        Python::try_attach(|py| drop(self.0.call0(py)));
    }
}
