//! `pelton sql --connect`: the shell as a client of `pelton serve`.

mod client;
mod rows;

use std::io::BufWriter;
use std::time::Instant;

use pelton::display::Zone;
use pelton::job::JobState;
use pgwire::error::ErrorInfo;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::data::RowDescription;
use pgwire::messages::response::ErrorResponse;

use crate::failure::Failure;
use crate::output::{output, say};
use crate::print::Printer;
use crate::run::{Execution, report_rows, terminal_columns};
use crate::script::Script;
pub use client::{Canceller, Client};
use rows::Batch;

/// Executes a script's statements in order, and prints what the server answers.
pub fn execute(client: &mut Client, script: &Script, execution: &Execution) -> Result<(), Failure> {
    client.send(script.text())?;
    let (mut result, mut failure) = (None, None);
    let mut begun = Instant::now();
    loop {
        if !client.has_message()
            && let Some(rows) = &mut result
        {
            // What has come is shown before more is waited for.
            print(rows)?;
        }
        match client.receive()? {
            PgWireBackendMessage::RowDescription(columns) => result = Some(Printing::new(&columns, execution)),
            PgWireBackendMessage::DataRow(row) => {
                let rows = result.as_mut().ok_or("the server sends rows without columns")?;
                rows.batch.push(&row)?;
                if rows.batch.is_full() {
                    print(rows)?;
                }
            }
            PgWireBackendMessage::CommandComplete(_) => {
                if let Some(mut rows) = result.take() {
                    print(&mut rows)?;
                    rows.printer.finish(&mut BufWriter::new(output()))?;
                    if execution.is_interactive {
                        report_rows(&rows.printer, begun.elapsed());
                    }
                }
                begun = Instant::now();
            }
            PgWireBackendMessage::NoticeResponse(told) => {
                let told = ErrorInfo::from(ErrorResponse::new(told.fields));
                let prefix = if told.severity == "WARNING" { "warning: " } else { "" };
                say!("{prefix}{}", told.message);
            }
            PgWireBackendMessage::ErrorResponse(error) => {
                // Rows that came before it are valid.
                result.as_mut().map_or(Ok(()), print)?;
                result = None;
                failure = Some(ErrorInfo::from(error));
            }
            PgWireBackendMessage::ReadyForQuery(_) => break,
            _ => {}
        }
    }
    match failure {
        None => Ok(()),
        // What the user has ended is no failure.
        Some(error) if error.code == QUERY_CANCELED => Ok(()),
        Some(error) => Err(located(script, &error)),
    }
}

const QUERY_CANCELED: &str = "57014";

/// Rows of a result that come and are printed.
struct Printing {
    printer: Printer,
    batch: Batch,
}

impl Printing {
    fn new(columns: &RowDescription, execution: &Execution) -> Printing {
        let batch = Batch::new(columns);
        let printer =
            Printer::new(execution.format, batch.schema().clone(), Zone::named("UTC").expect("UTC is a zone"));
        let printer = if execution.is_interactive { printer.fitting(terminal_columns()) } else { printer };
        Printing { printer, batch }
    }
}

/// Prints the rows that have come.
fn print(rows: &mut Printing) -> Result<(), Failure> {
    match rows.batch.take()? {
        Some(batch) => rows.printer.print(&batch, &mut BufWriter::new(output())),
        None => Ok(()),
    }
}

fn located(script: &Script, error: &ErrorInfo) -> Failure {
    let hint = error.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
    let message = format!("{}{hint}", error.message);
    match error.position.as_ref().and_then(|position| position.parse().ok()) {
        Some(character) => script.failure_at(message, character),
        None => message.into(),
    }
}

/// The first column of what a statement shows; nothing where it fails.
pub fn listed(client: &mut Client, statement: &str) -> Vec<String> {
    shown(client, statement).into_iter().filter_map(|row| row.into_iter().next().flatten()).collect()
}

/// The names of the jobs that run.
pub fn running_jobs(client: &mut Client) -> Vec<String> {
    let job = |row: Vec<Option<String>>| match row.as_slice() {
        [_, Some(name), Some(state), ..] if state == JobState::Running.name() => Some(name.clone()),
        _ => None,
    };
    shown(client, "SHOW JOBS").into_iter().filter_map(job).collect()
}

/// The rows that a statement shows; none where it fails.
fn shown(client: &mut Client, statement: &str) -> Vec<Vec<Option<String>>> {
    let mut found = Vec::new();
    if client.send(statement).is_err() {
        return found;
    }
    while let Ok(message) = client.receive() {
        match message {
            PgWireBackendMessage::DataRow(row) => found.push(rows::values(&row).map(Option::flatten).collect()),
            PgWireBackendMessage::ReadyForQuery(_) => break,
            _ => {}
        }
    }
    found
}
