//! Why a run stopped before its end.

use pelton_data::spelling::is_file;
use pelton_state::kernel::KernelError;

use crate::output::sink::SinkError;
use crate::source::SourceError;

/// A table's name before what is said of it. Of a file that stands in the place of a table the error names the path itself.
fn named(table: &str) -> String {
    if is_file(table) { String::new() } else { format!("table '{table}': ") }
}

/// Why a run stopped before its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// An input. The user's error or the environment's.
    #[error("{}{error}", named(.table))]
    Source {
        /// Which.
        table: String,
        /// What happened.
        error: Box<SourceError>,
    },
    /// A computation. The user's error.
    #[error("{error} (in {pipeline})")]
    Kernel {
        /// Which pipeline or window.
        pipeline: String,
        /// What happened.
        error: KernelError,
    },
    /// An output. The environment's error.
    #[error("{sink}: {error}")]
    Sink {
        /// Which.
        sink: String,
        /// What happened.
        error: SinkError,
    },
    /// A broken invariant: ours.
    #[error("internal error: {0}")]
    Internal(String),
}
