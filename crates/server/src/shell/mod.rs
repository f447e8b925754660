//! `pelton sql`: statements are typed, and executed as `pelton run` does.
//!
//! `crate::scan` cuts what is typed into tokens, so that `editor` knows when statements are complete, and `complete` what the
//! cursor stands in.

mod backend;

mod keywords;

mod complete;

mod editor;

mod background;

pub mod terminal;

use std::io::Write;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use clap::ValueEnum;

use crate::arguments::{Format, ShellArguments};
use crate::connect::Client;
use crate::failure::Failure;
use crate::output::{output, reader_has_gone, say};
use crate::run::{Execution, new_session};
use crate::script::Script;
use crate::stop::{self, Interrupt, Interrupted};
use backend::Backend;
pub use background::BackgroundJobs;
use editor::{Input, LineEditor};

const HELP: &str = "\
Type SQL statements and end them with a semicolon.

  SHOW TABLES;  SHOW VIEWS;  SHOW FUNCTIONS;      what there is
  DESCRIBE name;  SHOW CREATE TABLE name;         its columns, its definition
  SHOW QUERIES;  SHOW PROGRESS;  SHOW OPERATORS;  what runs
  SHOW JOBS;  STOP JOB name;                      inserts that run
  EXPLAIN query;  EXPLAIN ANALYZE query;          how a query is run
  SET;  SET 'key' = 'value';  RESET 'key';        settings

  help, \\h                     this text
  \\format table|json|csv       how rows are printed
  quit, exit, \\q, Ctrl-D       leave

  Tab     complete a name, keyword, setting, or path in quotes
  Ctrl-C  stop the query; at the prompt: drop what was typed
  Ctrl-R  search the history; ↑ and ↓ go through it
";

/// What the shell itself does.
#[derive(Debug, PartialEq, Eq)]
enum Command {
    Help,
    Quit,
    /// Print rows like this.
    Format(Format),
    /// Begins like a command, and is none.
    Unknown(String),
}

impl Command {
    /// The command that a line is, where it is none of SQL's.
    fn of(text: &str) -> Option<Command> {
        let line = text.trim().trim_end_matches(';').trim_end();
        let mut words = line.split_whitespace();
        match (words.next()?.to_ascii_lowercase().as_str(), words.next(), words.next()) {
            ("help" | "\\h" | "\\?", None, None) => Some(Command::Help),
            ("quit" | "exit" | "\\q", None, None) => Some(Command::Quit),
            ("\\format", Some(name), None) if Format::from_str(name, true).is_ok() => {
                Format::from_str(name, true).ok().map(Command::Format)
            }
            (first, ..) if first.starts_with('\\') => Some(Command::Unknown(line.to_owned())),
            _ => None,
        }
    }
}

/// `pelton sql`
pub fn shell(arguments: &ShellArguments) -> Result<(), Failure> {
    let is_interactive = arguments.statements.is_none() && terminal::is_there();
    let (backend, interrupted) = backend(arguments)?;
    let interrupt = if is_interactive { Interrupt::EndsStatement } else { Interrupt::EndsProgram };
    stop::listen(interrupted, interrupt)?;
    let first = arguments.file.as_deref().map(Script::of_file).transpose()?;
    let execution = Execution { format: arguments.format, status: None, is_interactive, background: None };
    if is_interactive {
        let jobs = Rc::new(BackgroundJobs::default());
        let result = converse(&backend, first, execution, &jobs);
        stop::during_statements(|| jobs.stop());
        return result;
    }
    if let Some(first) = first {
        backend.execute(&first, &execution)?;
        if stop::was_asked() {
            return Ok(());
        }
    }
    let script = match &arguments.statements {
        Some(statements) => Script::of_arguments(statements.clone()),
        None => Script::of_input()?,
    };
    backend.execute(&script, &execution)
}

/// Where statements are executed, and what Ctrl-C ends there.
fn backend(arguments: &ShellArguments) -> Result<(Backend, Interrupted), Failure> {
    Ok(match &arguments.connect {
        Some(server) => {
            let client = Client::connect(server)?;
            let canceller = client.canceller().clone();
            (Backend::Server(Arc::new(Mutex::new(client))), Interrupted::Statement(canceller))
        }
        None => {
            let session = new_session(arguments.workers)?;
            (Backend::Session(session.clone()), Interrupted::Queries(session))
        }
    })
}

/// Reads, executes and prints until the end. A file is executed as a script; inserts that are typed may go on in the background.
fn converse(
    backend: &Backend,
    first: Option<Script>,
    mut execution: Execution,
    jobs: &Rc<BackgroundJobs>,
) -> Result<(), Failure> {
    terminal::remember();
    writeln!(output(), "Pelton {}. Type help for help.", env!("CARGO_PKG_VERSION"))?;
    if let Some(first) = first {
        attempt(backend, &first, &execution)?;
    }
    execution.background = Some(jobs.clone());
    let mut editor = LineEditor::new(backend)?;
    loop {
        jobs.report_ended();
        let text = match editor.read()? {
            Input::Text(text) => text,
            Input::Interrupted => continue,
            Input::End => return Ok(()),
        };
        match Command::of(&text) {
            Some(Command::Quit) => return Ok(()),
            Some(Command::Help) => output().write_all(HELP.as_bytes())?,
            Some(Command::Format(format)) => execution.format = format,
            Some(Command::Unknown(line)) => say!("error: there is no command {line}; help lists all"),
            None => attempt(backend, &Script::typed(text), &execution)?,
        }
    }
}

/// Executes statements; what is wrong with them is said. Fails where nobody reads the output any more.
fn attempt(backend: &Backend, script: &Script, execution: &Execution) -> Result<(), Failure> {
    match stop::during_statements(|| backend.execute(script, execution)) {
        Err(error) if reader_has_gone() => Err(error),
        Err(error) => {
            say!("error: {error}");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_statements() {
        assert_eq!(Command::of(" help; "), Some(Command::Help));
        assert_eq!(Command::of("EXIT"), Some(Command::Quit));
        assert_eq!(Command::of("\\q"), Some(Command::Quit));
        assert_eq!(Command::of("\\format JSON"), Some(Command::Format(Format::Json)));
        assert_eq!(Command::of("\\format xml"), Some(Command::Unknown("\\format xml".to_owned())));
        assert_eq!(Command::of("help me;"), None);
        assert_eq!(Command::of("SELECT 1;"), None);
        assert_eq!(Command::of(""), None);
    }

    #[test]
    fn help_fits_on_one_screen() {
        assert!(HELP.lines().count() < 24 && HELP.lines().all(|line| line.chars().count() <= 80));
    }
}
