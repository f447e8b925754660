//! Ctrl-C: the first drains the queries that run, the second ends them at once, and the process where
//! that does not, as where nobody reads its output. Where none runs there is nothing to wait for.
//! In the shell Ctrl-C ends the statement instead of the program.

use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pelton::Session;
use pelton::progress::Progress;
use pelton::query::QueryControl;

use crate::connect::Canceller;
use crate::failure::EXIT_INTERRUPTED;
use crate::output;
use crate::shell::terminal;

/// What ends at once ends in less; what then still goes on waits for something that may never come.
const ENDING_MAX: Duration = Duration::from_millis(300);

/// What is drained ends in less; of what takes longer it is said what it waits for.
const DRAINING_MAX: Duration = Duration::from_millis(500);

static ASKED: AtomicUsize = AtomicUsize::new(0);
static RUNNING: Mutex<Option<QueryControl>> = Mutex::new(None);

/// Whether the shell executes a statement.
static EXECUTES: AtomicBool = AtomicBool::new(false);

/// What Ctrl-C ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt {
    EndsProgram,
    EndsStatement,
}

/// What runs that Ctrl-C ends.
pub enum Interrupted {
    /// Queries of this process.
    Queries(Session),
    /// A statement that a server executes.
    Statement(Canceller),
}

/// Listens for Ctrl-C from now on.
pub fn listen(interrupted: Interrupted, interrupt: Interrupt) -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(move || match (interrupt, &interrupted) {
        (Interrupt::EndsProgram, Interrupted::Queries(session)) => end_program(session),
        // The server ends the statement when its client has gone.
        (Interrupt::EndsProgram, Interrupted::Statement(_)) => process::exit(EXIT_INTERRUPTED.into()),
        (Interrupt::EndsStatement, interrupted) => end_statement(interrupted),
    })
}

fn end_program(session: &Session) {
    let before = ASKED.fetch_add(1, Ordering::SeqCst);
    let queries = queries(session);
    if queries.is_empty() {
        process::exit(EXIT_INTERRUPTED.into());
    }
    end(queries, before);
    if before > 0 {
        thread::sleep(ENDING_MAX);
        process::exit(EXIT_INTERRUPTED.into());
    }
}

/// The first Ctrl-C drains the statement's queries, the second ends them at once, and the third ends the program.
/// At the prompt Ctrl-C is a key: there a signal is one to end the program.
fn end_statement(interrupted: &Interrupted) {
    let before = ASKED.fetch_add(1, Ordering::SeqCst);
    let executes = EXECUTES.load(Ordering::SeqCst);
    if before > 1 || (!executes && terminal::is_at_prompt()) {
        terminal::restore();
        process::exit(EXIT_INTERRUPTED.into());
    }
    // The statement may have ended just before.
    if !executes {
        return;
    }
    // The terminal has shown ^C: what is printed from now on begins on a line of its own.
    output::say!("");
    match interrupted {
        Interrupted::Queries(session) => end(queries(session), before),
        Interrupted::Statement(canceller) => canceller.cancel(),
    }
}

fn end(queries: Vec<QueryControl>, asked_before: usize) {
    queries.iter().for_each(|query| if asked_before == 0 { query.drain() } else { query.abort() });
    if asked_before == 0 && !queries.is_empty() {
        // This thread waits for the next Ctrl-C.
        thread::spawn(move || say_what_is_waited_for(&queries));
    }
}

/// What Ctrl-C stops. Of an attended query all is printed that is left, also where it has ended. Others run where a
/// statement waits for them.
fn queries(session: &Session) -> Vec<QueryControl> {
    let attended = running().clone();
    attended.map_or_else(|| session.queries(), |query| vec![query])
}

/// Executes statements of the shell, which Ctrl-C ends.
pub fn during_statements<T>(execute: impl FnOnce() -> T) -> T {
    forget();
    EXECUTES.store(true, Ordering::SeqCst);
    let result = execute();
    EXECUTES.store(false, Ordering::SeqCst);
    forget();
    result
}

/// Goes on as if Ctrl-C had not been pressed.
pub fn forget() {
    ASKED.store(0, Ordering::SeqCst);
}

/// Says what queries wait for that have not ended a while after they were asked to.
fn say_what_is_waited_for(queries: &[QueryControl]) {
    thread::sleep(DRAINING_MAX);
    if ASKED.load(Ordering::SeqCst) != 1 {
        return;
    }
    let progress = queries.iter().filter(|query| !query.has_ended()).map(QueryControl::progress);
    let waits_for: Vec<String> = progress.map(|progress| waits_for(&progress)).collect();
    let waits_for = match (waits_for.first(), output::is_writing()) {
        (_, true) => "standard output, which nobody reads".to_owned(),
        (Some(first), false) => first.clone(),
        // Its rows have been computed, and are being printed.
        (None, false) => return,
    };
    output::say!("stopping: waiting for {waits_for}; press Ctrl-C again to end at once");
}

/// What a query waits for that is being drained.
fn waits_for(progress: &Progress) -> String {
    let read = progress.sources.iter().find(|source| source.is_being_read);
    let written = progress.sinks.iter().find(|sink| sink.is_held_up);
    match (read, written) {
        (Some(source), _) => format!("the input of table {}, which gives nothing back yet", source.name),
        (None, Some(sink)) => format!("the output {}, whose reader takes no rows", sink.name),
        (None, None) => "the rest of the rows that were read".to_owned(),
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
