//! What can go wrong, from the caller's side.

use pelton_compiler::CompileError;
use pelton_connectors::ConnectorError;
use pelton_plan::{Place, PlanError};
use pelton_runtime::run::RunError;

/// Why a statement was refused or a query stopped.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A statement that cannot be parsed or planned: yours to mend. Names line and column.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A table that cannot be opened: its options, or the files behind it.
    #[error("table '{table}': {error}")]
    Table {
        /// Which.
        table: String,
        /// What is wrong, and what would be right.
        error: ConnectorError,
    },
    /// A pipeline that cannot be turned into code.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// A query that stopped: a row that cannot be decoded or computed, an output that cannot be written.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A setting that does not exist, or a value it does not take.
    #[error("{}setting '{key}' {problem}", .place.map(|place| format!("line {}, column {}: ", place.line, place.column)).unwrap_or_default())]
    Setting {
        /// Which.
        key: String,
        /// What is wrong with it, and what would be right.
        problem: String,
        /// Where it stands, where it was set by a statement.
        place: Option<Place>,
    },
    /// A call that does not fit: rows of another schema, a script that ends in no query.
    #[error("{0}")]
    Usage(String),
}
