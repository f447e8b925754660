//! `pelton run` and `pelton explain`; the shell executes statements in the same way.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::rc::Rc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use pelton::display::Zone;
use pelton::query::QueryControl;
use pelton::{Outcome, Query, Session, Summary};

use crate::absence::AbsenceWarning;
use crate::arguments::{Format, RunArguments, ScriptArguments};
use crate::failure::Failure;
use crate::lateness::{EarlyWarning, LOOK_INTERVAL};
use crate::left_out::left_out;
use crate::output::{output, say};
use crate::print::{Printer, count, short};
use crate::script::Script;
use crate::shell::BackgroundJobs;
use crate::stop::{self, Interrupt, Interrupted};

/// How often a long insert says how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// How statements are executed and what is printed of them.
pub struct Execution {
    pub format: Format,
    /// Seconds between reports of how the query is.
    pub status: Option<u64>,
    /// A person looks on: rows are fitted to the terminal, and each query's number of rows and time are printed.
    pub is_interactive: bool,
    /// Takes inserts that need not be waited for.
    pub background: Option<Rc<BackgroundJobs>>,
}

/// `pelton run`
pub fn run(arguments: &RunArguments) -> Result<(), Failure> {
    let session = new_session(arguments.workers)?;
    stop::listen(Interrupted::Queries(session.clone()), Interrupt::EndsProgram)?;
    if let Some(checkpoint) = &arguments.restore {
        session.set("execution.state-recovery.path", checkpoint)?;
    }
    let script = Script::read(&arguments.script)?;
    let RunArguments { format, status, .. } = *arguments;
    execute(&session, &script, &Execution { format, status, is_interactive: false, background: None })
}

/// A session with as many workers as the command line says.
pub fn new_session(workers: Option<u64>) -> Result<Session, Failure> {
    let session = Session::new();
    if let Some(workers) = workers {
        session.set("pelton.workers", &workers.to_string())?;
    }
    Ok(session)
}

/// Executes a script's statements in order.
pub fn execute(session: &Session, script: &Script, execution: &Execution) -> Result<(), Failure> {
    for statement in script.statements(session)? {
        let begun = Instant::now();
        match session.execute(&statement).map_err(|error| script.failure(&error, &statement))? {
            Outcome::Done => {}
            Outcome::Noted(note) => say!("{note}"),
            Outcome::Rows(rows) => {
                let mut printer = Printer::of_statement(execution.format, rows.schema(), session.time_zone());
                printer.print(&rows, &mut output())?;
            }
            Outcome::Running(query) => {
                stop::attend(Some(query.control()));
                let query = match &execution.background {
                    Some(background) => background.start(session, query, stop::was_asked)?,
                    None => Some(query),
                };
                let Some(query) = query else {
                    stop::attend(None);
                    continue;
                };
                let finished = match execution.status {
                    Some(seconds) => {
                        let report = || status(session);
                        let finish = || finish(query, execution, (begun, session.time_zone()), false);
                        reporting(Duration::from_secs(seconds), report, finish)
                    }
                    None => finish(query, execution, (begun, session.time_zone()), io::stderr().is_terminal()),
                };
                stop::attend(None);
                finished.map_err(|failure| script.located(failure, &statement))?;
            }
        }
        if stop::was_asked() {
            break;
        }
    }
    Ok(())
}

/// Explains each query of a script; definitions are executed, so that later queries know them.
pub fn explain(arguments: &ScriptArguments) -> Result<(), Failure> {
    let session = Session::new();
    stop::listen(Interrupted::Queries(session.clone()), Interrupt::EndsProgram)?;
    let script = Script::read(arguments)?;
    for statement in script.statements(&session)? {
        if let Some(text) = session.explain(&statement).map_err(|error| script.failure(&error, &statement))? {
            writeln!(output(), "-- line {}\n{}\n", statement.line(), text.trim_end())?;
        }
        if stop::was_asked() {
            break;
        }
    }
    Ok(())
}

/// Prints a query's rows as they come, or waits for an insert's end; then says what was left out.
fn finish(
    query: Query,
    execution: &Execution,
    (begun, zone): (Instant, Zone),
    shows_progress: bool,
) -> Result<(), Failure> {
    let is_insert = query.schema().fields().is_empty();
    let (control, mut late) = (query.control(), EarlyWarning::default());
    let mut absence = AbsenceWarning::default();
    let watch = || {
        let progress = control.progress();
        for text in late.look_at(&progress).into_iter().chain(absence.look_at(&progress)) {
            // Behind the line that says how far an insert is.
            say!("{}{text}", if shows_progress { "\r\x1b[K" } else { "" });
        }
    };
    let summary = reporting(LOOK_INTERVAL, watch, || to_its_end(query, execution, (begun, zone), shows_progress))?;
    absence.at_the_end(&summary).iter().for_each(|text| say!("{text}"));
    left_out(&summary).iter().for_each(|warning| say!("warning: {warning}"));
    // In the shell the line about the rows is enough.
    if stop::was_asked() && (is_insert || !execution.is_interactive) {
        report_read(&summary);
        // Of an insert that has been told.
        if !is_insert {
            report_written(&summary);
        }
    }
    Ok(())
}

fn to_its_end(
    mut query: Query,
    execution: &Execution,
    (begun, zone): (Instant, Zone),
    shows_progress: bool,
) -> Result<Summary, Failure> {
    let is_insert = query.schema().fields().is_empty();
    Ok(if is_insert {
        let control = query.control();
        let summary = if shows_progress { with_progress(control, || query.wait())? } else { query.wait()? };
        report_insert(&summary);
        summary
    } else {
        let mut printer = Printer::new(execution.format, query.schema().clone(), zone);
        if execution.is_interactive {
            printer = printer.fitting(terminal_columns());
        }
        let mut out = BufWriter::new(output());
        while let Some(rows) = query.next_batch()? {
            printer.print(&rows, &mut out)?;
        }
        printer.finish(&mut out)?;
        let summary = query.wait()?;
        if execution.is_interactive {
            report_rows(&printer, begun.elapsed());
        }
        summary
    })
}

/// Says once a second how far the query is, where a person may be waiting.
fn with_progress<T>(control: QueryControl, wait: impl FnOnce() -> T) -> T {
    let mut before = 0;
    let report = move || {
        let rows: u64 = control.progress().sources.iter().map(|source| source.rows).sum();
        let rate = (rows - before) as f64 / PROGRESS_INTERVAL.as_secs_f64();
        // Nothing is lost where a terminal does not take it.
        drop(write!(io::stderr(), "\r\x1b[K{} rows read, {} a second", count(rows), short(rate)));
        before = rows;
    };
    let result = reporting(PROGRESS_INTERVAL, report, wait);
    drop(write!(io::stderr(), "\r\x1b[K"));
    result
}

/// Reports again and again while it waits.
fn reporting<T>(interval: Duration, mut report: impl FnMut() + Send, wait: impl FnOnce() -> T) -> T {
    let (done, waiting) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while waiting.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                report();
            }
        });
        let result = wait();
        drop(done);
        result
    })
}

/// Says how the query that runs is, what its windows wait for, and what its operators cost.
fn status(session: &Session) {
    // A report that fails has only failed to report.
    let Ok(statements) = session.prepare("SHOW QUERIES; SHOW PROGRESS; SHOW OPERATORS") else { return };
    for statement in &statements {
        if let Ok(Outcome::Rows(rows)) = session.execute(statement) {
            let mut printer = Printer::of_statement(Format::Table, rows.schema(), session.time_zone());
            let _ = printer.print(&rows, &mut io::stderr());
        }
    }
}

/// Characters that fit in a line of the terminal.
pub fn terminal_columns() -> Option<usize> {
    crossterm::terminal::size().ok().map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0)
}

/// Says how many rows were printed, and how long that took.
pub fn report_rows(printer: &Printer, elapsed: Duration) {
    let rows = match printer.rows() {
        1 => "1 row".to_owned(),
        rows => format!("{} rows", count(rows as u64)),
    };
    let cut = if printer.has_cut() { "; values are cut to fit, \\format json prints all of them" } else { "" };
    say!("{rows} in {:.3} s{cut}", elapsed.as_secs_f64());
}

fn report_insert(summary: &Summary) {
    for sink in &summary.sinks {
        sink.remarks.iter().for_each(|remark| say!("warning: {}: {remark}", sink.name));
        say!("{}: {} rows written in {:.3} s", sink.name, count(sink.rows), summary.elapsed.as_secs_f64());
    }
}

fn report_read(summary: &Summary) {
    for source in &summary.sources {
        say!("{}: {} rows read in {:.3} s", source.name, count(source.rows), summary.elapsed.as_secs_f64());
    }
}

fn report_written(summary: &Summary) {
    for sink in &summary.sinks {
        say!("{}: {} rows written", sink.name, count(sink.rows));
    }
}
