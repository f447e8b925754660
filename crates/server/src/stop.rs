//! Ctrl-C: the first drains the running query, the second ends it at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use pelton::query::QueryControl;

static ASKED: AtomicUsize = AtomicUsize::new(0);
static RUNNING: Mutex<Option<QueryControl>> = Mutex::new(None);

/// Listens for Ctrl-C from now on.
pub fn listen() -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(|| {
        let before = ASKED.fetch_add(1, Ordering::SeqCst);
        if let Some(query) = running().as_ref() {
            if before == 0 { query.drain() } else { query.abort() }
        }
    })
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
