//! `pelton run` and `pelton explain`.

use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use pelton::query::QueryControl;
use pelton::{Outcome, Query, Session, Summary};

use crate::Failure;
use crate::arguments::{Format, RunArguments, ScriptArguments};
use crate::output::output;
use crate::print::{Printer, count, short};
use crate::stop;

/// How often a long insert says how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Executes a script's statements in order.
pub fn run(arguments: &RunArguments) -> Result<(), Failure> {
    stop::listen()?;
    let session = Session::new();
    if let Some(workers) = arguments.workers {
        session.set("pelton.workers", &workers.to_string())?;
    }
    let script = script(&arguments.script)?;
    for statement in session.prepare(&script)? {
        match session.execute(&statement)? {
            Outcome::Done => {}
            Outcome::Rows(rows) => {
                let mut printer = Printer::new(arguments.format, rows.schema());
                printer.print(&rows, &mut output())?;
            }
            Outcome::Running(query) => finish(query, arguments.format)?,
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
    let script = script(arguments)?;
    for statement in session.prepare(&script)? {
        if let Some(text) = session.explain(&statement)? {
            writeln!(output(), "-- line {}\n{}\n", statement.line(), text.trim_end())?;
        }
    }
    Ok(())
}

fn script(arguments: &ScriptArguments) -> Result<String, Failure> {
    if let Some(statements) = &arguments.statements {
        return Ok(statements.clone());
    }
    match &arguments.script {
        Some(path) => std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()).into()),
        None => {
            if io::stdin().is_terminal() {
                eprintln!("type SQL statements and end them with Ctrl-D, or name a script: pelton run script.sql");
            }
            let mut text = String::new();
            io::stdin().read_to_string(&mut text)?;
            Ok(text)
        }
    }
}

/// Prints a query's rows as they come, or waits for an insert's end; then says what was left out.
fn finish(mut query: Query, format: Format) -> Result<(), Failure> {
    let control = query.control();
    stop::attend(Some(control.clone()));
    let summary = if query.schema().fields().is_empty() {
        let summary = with_progress(control, || query.wait())?;
        report_insert(&summary);
        summary
    } else {
        let mut printer = Printer::new(format, query.schema().clone());
        let mut out = BufWriter::new(output());
        while let Some(rows) = query.next_batch()? {
            printer.print(&rows, &mut out)?;
        }
        printer.finish(&mut out)?;
        query.wait()?
    };
    stop::attend(None);
    report_left_out(&summary);
    if stop::was_asked() {
        report_read(&summary);
    }
    Ok(())
}

/// Says once a second how far the query is, where a person may be waiting.
fn with_progress<T>(control: QueryControl, wait: impl FnOnce() -> T) -> T {
    if !io::stderr().is_terminal() {
        return wait();
    }
    let (done, waiting) = mpsc::channel::<()>();
    let reporter = std::thread::spawn(move || {
        let mut before = 0;
        while waiting.recv_timeout(PROGRESS_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            let rows: u64 = control.progress().sources.iter().map(|source| source.rows).sum();
            let rate = (rows - before) as f64 / PROGRESS_INTERVAL.as_secs_f64();
            eprint!("\r\x1b[K{} rows read, {} a second", count(rows), short(rate));
            before = rows;
        }
        eprint!("\r\x1b[K");
    });
    let result = wait();
    drop(done);
    // A reporter that failed has only failed to report.
    drop(reporter.join());
    result
}

fn report_insert(summary: &Summary) {
    for sink in &summary.sinks {
        eprintln!("{}: {} rows written in {:.3} s", sink.name, count(sink.rows), summary.elapsed.as_secs_f64());
    }
}

/// Nothing is lost silently.
fn report_left_out(summary: &Summary) {
    for source in summary.sources.iter().filter(|source| source.rejected_count > 0) {
        eprintln!("warning: {}: {} rows could not be read and were skipped", source.name, count(source.rejected_count));
        for rejected in &source.rejected {
            eprintln!("  {}", rejected.error);
        }
    }
    for window in summary.windows.iter().filter(|window| window.late_rows > 0) {
        let late = count(window.late_rows);
        eprintln!("warning: {}: {late} rows came after their window had closed and were left out", window.name);
    }
    for over in summary.overs.iter().filter(|over| over.late_rows > 0) {
        let late = count(over.late_rows);
        eprintln!("warning: {}: {late} rows came after the watermark had passed them and were left out", over.name);
    }
    for over in summary.overs.iter().filter(|over| over.waiting_rows_dropped > 0) {
        let rows = count(over.waiting_rows_dropped);
        eprintln!("warning: {}: stopped while {rows} rows waited for the watermark, which are not reported", over.name);
    }
    for window in summary.windows.iter().filter(|window| window.open_slices_dropped > 0) {
        let open = count(window.open_slices_dropped);
        eprintln!("warning: {}: stopped with {open} windows open, which are not reported", window.name);
    }
}

fn report_read(summary: &Summary) {
    let mut err = io::stderr().lock();
    for source in &summary.sources {
        // Standard error may be closed by now, and there is nowhere else to say so.
        drop(writeln!(
            err,
            "{}: {} rows read in {:.3} s",
            source.name,
            count(source.rows),
            summary.elapsed.as_secs_f64()
        ));
    }
    for sink in &summary.sinks {
        drop(writeln!(err, "{}: {} rows written", sink.name, count(sink.rows)));
    }
}
