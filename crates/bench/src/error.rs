//! Why a benchmark did not run.

use crate::file::BenchmarkError;

/// Why a benchmark did not run.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A file that cannot be read, or a report that cannot be written.
    #[error("{place}: {error}")]
    File {
        /// Which.
        place: String,
        /// What happened.
        error: std::io::Error,
    },
    /// There are no benchmarks where they were looked for.
    #[error("there is no folder '{0}': run it in a clone of the repository, or say where the folder is with --folder")]
    Folder(String),
    /// A benchmark's text.
    #[error("{place}, {error}")]
    Text {
        /// Which file.
        place: String,
        /// What is wrong.
        error: BenchmarkError,
    },
    /// No benchmark, or no case of one, has the name.
    #[error("there is no benchmark '{name}'; there are {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The engine refuses or fails.
    #[error(transparent)]
    Engine(#[from] pelton::Error),
    /// What a benchmark reads or names does not fit.
    #[error("{0}")]
    Input(String),
    /// A process that was measured.
    #[error("the measured process: {0}")]
    Process(String),
}
