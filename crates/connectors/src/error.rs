//! Why a table could not be opened.

/// A table definition that does not fit its connector, or an input or output that is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectorError {
    /// An option in `WITH (…)` is missing, or its value makes no sense. The user's error.
    #[error("option '{option}' {problem}")]
    Option {
        /// Name of the option.
        option: String,
        /// What is wrong with it and what would be right: "must be 'csv', 'json', 'parquet' or 'raw', not 'cvs'".
        problem: String,
    },
    /// An option in `WITH (…)` that the connector does not have. The user's error.
    #[error("unknown option '{option}'; {}", suggested(.suggestion, .known))]
    UnknownOption {
        /// Name of the option.
        option: String,
        /// The known option that is spelt most like it.
        suggestion: Option<String>,
        /// All options of the connector and format.
        known: Vec<String>,
    },
    /// A column of the table that the connector cannot deliver or take. The user's error.
    #[error("column '{column}' {problem}")]
    Column {
        /// Name of the column.
        column: String,
        /// What is wrong with it and what would be right.
        problem: String,
    },
    /// The input or output cannot be opened. The environment's error.
    #[error("{place}: {problem}")]
    Place {
        /// File or other origin or destination.
        place: String,
        /// What happened.
        problem: String,
    },
}

impl ConnectorError {
    /// An option whose value makes no sense.
    pub fn option(option: impl Into<String>, problem: impl Into<String>) -> ConnectorError {
        ConnectorError::Option { option: option.into(), problem: problem.into() }
    }

    /// A column that the connector cannot deliver or take.
    pub fn column(column: impl Into<String>, problem: impl Into<String>) -> ConnectorError {
        ConnectorError::Column { column: column.into(), problem: problem.into() }
    }

    /// An input or output that cannot be opened.
    pub fn place(place: impl Into<String>, problem: impl ToString) -> ConnectorError {
        ConnectorError::Place { place: place.into(), problem: problem.to_string() }
    }
}

fn suggested(suggestion: &Option<String>, known: &[String]) -> String {
    match suggestion {
        Some(name) => format!("did you mean '{name}'?"),
        None => format!("this table's options are {}", known.join(", ")),
    }
}
