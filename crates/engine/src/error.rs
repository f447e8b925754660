//! What can go wrong, from the caller's side.

use pelton_compiler::CompileError;
use pelton_connectors::ConnectorError;
use pelton_data::spelling::is_file;
use pelton_plan::{Place, PlanError};
use pelton_runtime::run::RunError;
use pelton_runtime::source::SourceError;

use crate::checkpoints::error::CheckpointError;

/// Why a statement was refused or a query stopped.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A statement that cannot be parsed or planned, with its line and column.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A table that cannot be opened, because of its options or its files.
    #[error("{}{}{error}", shown(.place), table_of(.table, .error))]
    Table {
        /// Which.
        table: String,
        /// Where the option, the column or else the name of the table stands in its `CREATE TABLE`.
        place: Option<Place>,
        /// What is wrong, and what would be right.
        error: ConnectorError,
    },
    /// A pipeline that cannot be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// A query that failed: a row that cannot be decoded or computed, or an output that cannot be written.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A query that failed under `EXPLAIN ANALYZE`.
    #[error("{error}")]
    Analyzed {
        /// Why.
        error: RunError,
        /// What had become of its code until then.
        story: String,
    },
    /// A setting that does not exist, or a value it does not take.
    #[error("{}setting '{key}' {problem}", shown(.place))]
    Setting {
        /// Which.
        key: String,
        /// What is wrong with it, and what would be right.
        problem: String,
        /// Where it stands, where it was set by a statement.
        place: Option<Place>,
    },
    /// A checkpoint that cannot be read, or that a job cannot go on from.
    #[error("checkpoint {0}")]
    Checkpoint(#[from] CheckpointError),
    /// An invalid call: rows with another schema, or a script that does not end with a query.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// The input row at which the query failed, if there is one: file or other origin, row number or offset, column and value.
    pub fn input_row(&self) -> Option<(&str, u64, &str, &str)> {
        match self {
            Error::Run(RunError::Source { error, .. }) => match error.as_ref() {
                SourceError::Row { place, row, column, value, .. } => Some((place, *row, column, value)),
                SourceError::Message { place, offset, column, value, .. } => {
                    Some((place, u64::try_from(*offset).unwrap_or_default(), column, value))
                }
                SourceError::Input { .. } => None,
            },
            _ => None,
        }
    }

    /// The place of the error in the script, if it is an error of its text.
    ///
    /// ```
    /// let error = pelton::Session::new().sql("SELECT a,\n  b FROM (VALUES (1)) AS t (a)").err().unwrap();
    /// let place = error.place().unwrap();
    /// assert_eq!((place.line, place.column), (2, 3));
    /// ```
    pub fn place(&self) -> Option<Place> {
        match self {
            Error::Plan(error) => error.place,
            Error::Table { place, .. } | Error::Setting { place, .. } => *place,
            Error::Compile(_) | Error::Run(_) | Error::Analyzed { .. } | Error::Checkpoint(_) | Error::Usage(_) => None,
        }
    }
}

/// A table's name, as it begins what is said of it. A file that stands for a table has no other name than its own.
fn table_of(table: &str, error: &ConnectorError) -> String {
    match (is_file(table), error) {
        (true, ConnectorError::Place { .. }) => String::new(),
        (true, _) => format!("{table}: "),
        (false, _) => format!("table '{table}': "),
    }
}

fn shown(place: &Option<Place>) -> String {
    place.map(|place| format!("line {}, column {}: ", place.line, place.column)).unwrap_or_default()
}
