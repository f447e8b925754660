//! The exception that the engine's errors become.

use pelton::PlanError;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

pyo3::create_exception!(pelton, Error, PyException, "Why a statement was refused or a query failed.");

/// How the planner begins the message about a name that stands for nothing.
const UNKNOWN_TABLE: &str = "there is no table or view ";

/// The exception, with the place in the script, the hint, and the name of a table that does not exist.
pub fn raised(error: pelton::Error) -> PyErr {
    let raised = Error::new_err(error.to_string());
    Python::attach(|py| {
        let value = raised.value(py);
        let place = error.place();
        let planned = match &error {
            pelton::Error::Plan(error) => Some(error),
            _ => None,
        };
        let hint = planned.and_then(|error| error.hint.clone());
        let unknown = planned.and_then(unknown_table);
        // An exception's own attributes can always be set.
        let _ = value.setattr("line", place.map(|place| place.line));
        let _ = value.setattr("column", place.map(|place| place.column));
        let _ = value.setattr("hint", hint);
        let _ = value.setattr("unknown_table", unknown);
    });
    raised
}

fn unknown_table(error: &PlanError) -> Option<String> {
    error.message.strip_prefix(UNKNOWN_TABLE).map(str::to_owned)
}

/// A call that makes no sense.
pub fn invalid(message: impl Into<String>) -> PyErr {
    raised(pelton::Error::Usage(message.into()))
}

/// A Python exception as the text of an error: its traceback.
pub fn traceback(py: Python<'_>, error: &PyErr) -> String {
    let formatted = || -> PyResult<String> {
        let lines = py
            .import("traceback")?
            .call_method1("format_exception", (error.get_type(py), error.value(py), error.traceback(py)))?;
        Ok(lines.extract::<Vec<String>>()?.concat().trim_end().to_owned())
    };
    formatted().unwrap_or_else(|_| error.to_string())
}
