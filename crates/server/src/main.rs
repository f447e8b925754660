//! The command line: an SQL shell, scripts to run or explain, a demo to watch, a server for clients of Postgres.

mod failure;

mod arguments;

mod scan;

mod shell;

mod connect;

mod lateness;

mod absence;

mod left_out;

mod run;

mod script;

mod output;

mod print;

mod stop;

mod demo;

mod serve;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use arguments::{Arguments, Command, ShellArguments};
use failure::{EXIT_INTERRUPTED, EXIT_READER_GONE, EXIT_USAGE};
use output::say;

/// Workers allocate blocks and batches on one thread and free them on another: this allocator takes that well.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let Arguments { command, shell } = Arguments::parse();
    let Some(command) = command.or_else(|| shell_without_command(shell)) else {
        say!("{}", Arguments::command().render_help().to_string().trim_end());
        return ExitCode::from(EXIT_USAGE);
    };
    let result = match command {
        Command::Sql(arguments) => shell::shell(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Explain(arguments) => run::explain(&arguments),
        Command::Demo(arguments) => demo::demo(&arguments),
        Command::Serve(arguments) => serve::serve(&arguments),
    };
    match result {
        Ok(()) if stop::was_asked() => ExitCode::from(EXIT_INTERRUPTED),
        Ok(()) => ExitCode::SUCCESS,
        Err(_) if output::reader_has_gone() => ExitCode::from(EXIT_READER_GONE),
        Err(error) => {
            say!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The command where none is given: the shell, if there are statements for it or somebody can type and read there.
fn shell_without_command(arguments: ShellArguments) -> Option<Command> {
    let has_statements = arguments.statements.is_some() || arguments.file.is_some();
    (has_statements || shell::terminal::is_there()).then_some(Command::Sql(arguments))
}
