//! Standard output and standard error, and what becomes of them when their reader goes away (`pelton run … | head`).

use std::io::{self, ErrorKind, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};

static READER_GONE: AtomicBool = AtomicBool::new(false);
static WRITING: AtomicBool = AtomicBool::new(false);

/// Standard output; all that is printed there goes through this.
pub struct Output(Stdout);

/// Standard output.
pub fn output() -> Output {
    Output(io::stdout())
}

/// Whether nobody reads any more what is printed: no failure, but the end.
pub fn reader_has_gone() -> bool {
    READER_GONE.load(Ordering::Relaxed)
}

/// Whether something is being written there at this moment: for long only where nobody reads it.
pub fn is_writing() -> bool {
    WRITING.load(Ordering::Relaxed)
}

/// Does something with standard output that may wait for its reader.
fn writing<T>(write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    WRITING.store(true, Ordering::Relaxed);
    let result = noticed(write());
    WRITING.store(false, Ordering::Relaxed);
    result
}

/// Passes a result on, and remembers whether the reader has gone.
fn noticed<T>(result: io::Result<T>) -> io::Result<T> {
    if result.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
        READER_GONE.store(true, Ordering::Relaxed);
    }
    result
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        writing(|| self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        writing(|| self.0.flush())
    }
}

/// A line on standard error. Where that is closed there is nowhere else to say so, and no reason to stop.
macro_rules! say {
    ($($argument:tt)*) => {
        drop(std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{}\n", format_args!($($argument)*))))
    };
}

pub(crate) use say;
