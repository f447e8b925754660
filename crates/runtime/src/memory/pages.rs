//! The thread that prepares memory before it is needed (Enjima, section 3.1).
//!
//! It is one for the process, as memory is. It sleeps until a table has taken pages, prepares as many as the table may take next, and gives back
//! to the system what nobody has taken for a while.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use pelton_state::table::stock;

/// Pages that nobody has taken or put away for so long go back to the system: longer than most windows are open.
const KEPT: Duration = Duration::from_secs(30);

static THREAD: OnceLock<Thread> = OnceLock::new();

/// There is something to do.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Starts the thread, unless it runs.
pub(crate) fn start() {
    THREAD.get_or_init(|| {
        stock::when_moved(tell);
        let builder = thread::Builder::new().name("pelton-memory".to_owned());
        builder.spawn(prepare).expect("the system can start a thread").thread().clone()
    });
}

fn tell() {
    if !ASKED.swap(true, Ordering::SeqCst)
        && let Some(thread) = THREAD.get()
    {
        thread.unpark();
    }
}

fn prepare() {
    loop {
        ASKED.store(false, Ordering::SeqCst);
        while stock::prepare() {}
        let until = Instant::now() + KEPT;
        if is_asked_before(until) {
            continue;
        }
        while stock::give_back() {
            if ASKED.load(Ordering::SeqCst) {
                break;
            }
        }
        while !ASKED.load(Ordering::SeqCst) {
            thread::park();
        }
    }
}

/// Sleeps until there is something to do, or that instant: whether there is.
fn is_asked_before(until: Instant) -> bool {
    loop {
        if ASKED.load(Ordering::SeqCst) {
            return true;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        thread::park_timeout(left);
    }
}
