//! What can go wrong, from the caller's side.

use pelton_compiler::CompileError;
use pelton_connectors::ConnectorError;
use pelton_plan::{Place, PlanError};
use pelton_runtime::run::RunError;
use pelton_runtime::source::SourceError;

/// Why a statement was refused or a query stopped.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A statement that cannot be parsed or planned: yours to mend. Names line and column.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A table that cannot be opened: its options, or the files behind it.
    #[error("{}{}{error}", shown(.place), table_of(.table, .error))]
    Table {
        /// Which.
        table: String,
        /// Where the option, the column or else the name of the table stands in its `CREATE TABLE`.
        place: Option<Place>,
        /// What is wrong, and what would be right.
        error: ConnectorError,
    },
    /// A pipeline that cannot be turned into code.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// A query that stopped: a row that cannot be decoded or computed, an output that cannot be written.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A query that `EXPLAIN ANALYZE` ran, and that stopped.
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
    /// A call that does not fit: rows of another schema, a script that ends in no query.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// The row of an input that does not fit its table, where a query stopped at one: the file or other origin, the row in it, the column, and the value.
    pub fn input_row(&self) -> Option<(&str, u64, &str, &str)> {
        match self {
            Error::Run(RunError::Source { error, .. }) => match error.as_ref() {
                SourceError::Row { place, row, column, value, .. } => Some((place, *row, column, value)),
                SourceError::Input { .. } => None,
            },
            _ => None,
        }
    }

    /// Where in the script the mistake is, for those that are in its text.
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
            Error::Compile(_) | Error::Run(_) | Error::Analyzed { .. } | Error::Usage(_) => None,
        }
    }
}

/// A table's name, as it begins what is said of it. A file that stands for a table has no other name than its own.
fn table_of(table: &str, error: &ConnectorError) -> String {
    match (table.contains('\''), error) {
        (true, ConnectorError::Place { .. }) => String::new(),
        (true, _) => format!("{table}: "),
        (false, _) => format!("table '{table}': "),
    }
}

fn shown(place: &Option<Place>) -> String {
    place.map(|place| format!("line {}, column {}: ", place.line, place.column)).unwrap_or_default()
}
