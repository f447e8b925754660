//! What can be said on the command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use pelton::checkpoints::RestoreFrom;

/// Pelton: SQL over streams, inside one process, at the speed of the machine.
#[derive(Debug, Parser)]
#[command(name = "pelton", version, args_conflicts_with_subcommands = true)]
pub struct Arguments {
    /// What to do; the interactive shell where nothing is said in a terminal.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Without a command they are those of `pelton sql`.
    #[command(flatten)]
    pub shell: ShellArguments,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Type SQL statements and see their results; also what `pelton` alone does in a terminal
    Sql(ShellArguments),
    /// Execute the statements of a script in order; a SELECT prints its rows
    Run(RunArguments),
    /// Show each query's logical plan, pipelines and kernels, and what Flink would not understand
    Explain(ScriptArguments),
    /// Watch one query count the bids of a generated auction, live
    Demo(DemoArguments),
    /// Serve clients of Postgres, such as psql: they share tables and running queries
    Serve(ServeArguments),
}

/// Where the statements come from.
#[derive(Debug, Args)]
pub struct ScriptArguments {
    /// A file of SQL statements; standard input where there is none, or -
    #[arg(conflicts_with = "statements")]
    pub script: Option<PathBuf>,
    /// The statements themselves
    #[arg(short = 'e', long = "execute", value_name = "SQL", allow_hyphen_values = true)]
    pub statements: Option<String>,
}

/// `pelton run`
#[derive(Debug, Args)]
pub struct RunArguments {
    /// Where the statements come from.
    #[command(flatten)]
    pub script: ScriptArguments,
    /// How rows are printed
    #[arg(long, value_enum, default_value = "table")]
    pub format: Format,
    /// Go on from a checkpoint of each INSERT: the latest, if there is one, or that of a number (SET 'execution.state-recovery.path')
    #[arg(long, value_name = "latest|NUMBER", num_args = 0..=1, default_missing_value = "latest", value_parser = checkpoint)]
    pub restore: Option<String>,
    /// Threads that do the work; all that the process may use where not given
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub workers: Option<u64>,
    /// While a query runs, say every so many seconds how it is, what it waits for and what its operators cost (SHOW QUERIES, SHOW PROGRESS, SHOW OPERATORS), on standard error
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = clap::value_parser!(u64).range(1..))]
    pub status: Option<u64>,
}

/// `latest`, or the number of a checkpoint.
fn checkpoint(value: &str) -> Result<String, String> {
    match RestoreFrom::parse(value) {
        Some(_) => Ok(value.to_owned()),
        None => Err("it is neither 'latest' nor the number of a checkpoint".to_owned()),
    }
}

/// `pelton sql`
#[derive(Debug, Default, Args)]
pub struct ShellArguments {
    /// Execute the statements of a file first
    #[arg(short = 'f', long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Execute these statements and exit
    #[arg(short = 'e', long = "execute", value_name = "SQL", allow_hyphen_values = true)]
    pub statements: Option<String>,
    /// How rows are printed
    #[arg(long, value_enum, default_value = "table")]
    pub format: Format,
    /// Execute the statements on a server, `pelton serve`, and not in this process
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "workers")]
    pub connect: Option<String>,
    /// Threads that do the work; all that the process may use where not given
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub workers: Option<u64>,
}

/// How rows are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// In columns, for people
    #[default]
    Table,
    /// An object a line
    Json,
    /// With a header
    Csv,
}

/// `pelton demo`
#[derive(Debug, Args)]
pub struct DemoArguments {
    /// End by itself after so many seconds
    #[arg(long)]
    pub seconds: Option<u64>,
    /// Bids a second
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub rate: u64,
    /// Threads that do the work; all that the process may use where not given
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub workers: Option<u64>,
}

/// `pelton serve`
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// The address and the port to listen on; port 0 takes a free one. Whoever reaches it may do everything: only addresses of this machine are allowed
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5433")]
    pub postgres: SocketAddr,
    /// Keep tables, views and jobs in a directory: a server that is started again with it goes on from their checkpoints
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Execute the statements of a file first; inserts become jobs
    #[arg(short = 'f', long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Clients that may be connected at the same time
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub connections_max: u32,
    /// Threads that do the work; all that the process may use where not given
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub workers: Option<u64>,
}
