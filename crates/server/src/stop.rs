//! Ctrl-C: the first drains the queries that run, the second ends them at once, and the process where
//! that does not, as where nobody reads its output. Where none runs there is nothing to wait for.

use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pelton::Session;
use pelton::query::QueryControl;

use crate::EXIT_INTERRUPTED;

/// What ends at once ends in less; what then still goes on waits for something that may never come.
const ENDING_MAX: Duration = Duration::from_secs(1);

/// A query runs a little before the session is free again that starts it; what takes longer is still being planned, or read.
const STARTING_MAX: Duration = Duration::from_millis(200);
const STARTING_STEP: Duration = Duration::from_millis(5);

static ASKED: AtomicUsize = AtomicUsize::new(0);
static RUNNING: Mutex<Option<QueryControl>> = Mutex::new(None);

/// Listens for Ctrl-C from now on.
pub fn listen(session: &Session) -> Result<(), ctrlc::Error> {
    let session = session.clone();
    ctrlc::set_handler(move || {
        let before = ASKED.fetch_add(1, Ordering::SeqCst);
        // Of an attended query all is printed that is left, also where it has ended. Others run where a statement waits for them.
        let attended = running().clone();
        let queries = attended.map(|query| vec![query]).or_else(|| started(&session)).unwrap_or_default();
        if queries.is_empty() {
            process::exit(EXIT_INTERRUPTED.into());
        }
        queries.iter().for_each(|query| if before == 0 { query.drain() } else { query.abort() });
        if before > 0 {
            thread::sleep(ENDING_MAX);
            process::exit(EXIT_INTERRUPTED.into());
        }
    })
}

/// The queries that run, as soon as the session is free; `None` where it is not before long.
fn started(session: &Session) -> Option<Vec<QueryControl>> {
    let asked = Instant::now();
    loop {
        let queries = session.queries();
        if queries.is_some() || asked.elapsed() >= STARTING_MAX {
            return queries;
        }
        thread::sleep(STARTING_STEP);
    }
}

/// The query that Ctrl-C stops from now on.
pub fn attend(query: Option<QueryControl>) {
    if was_asked()
        && let Some(query) = &query
    {
        query.drain();
    }
    *running() = query;
}

/// Whether Ctrl-C was pressed.
pub fn was_asked() -> bool {
    ASKED.load(Ordering::SeqCst) > 0
}

fn running() -> std::sync::MutexGuard<'static, Option<QueryControl>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}
