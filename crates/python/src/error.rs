//! The exception that the engine's errors become.

use pyo3::exceptions::PyException;
use pyo3::prelude::*;

pyo3::create_exception!(pelton, Error, PyException, "Why a statement was refused or a query failed.");

/// What an error has as attributes.
const ATTRIBUTES: [&str; 4] = ["line", "column", "hint", "unknown_table"];

/// Gives all errors their attributes: those that the package's Python code raises have none of their own.
pub fn set_defaults(py: Python<'_>) -> PyResult<()> {
    let class = py.get_type::<Error>();
    ATTRIBUTES.iter().try_for_each(|name| class.setattr(name, py.None()))
}

/// How the planner begins the message about a name that stands for nothing.
const UNKNOWN_TABLE: &str = "there is no table or view ";

/// The exception, with the place in the script, the hint, and the name of a table that does not exist.
pub fn raised(error: pelton::Error) -> PyErr {
    let place = error.place().map(|place| (place.line, place.column));
    let (unknown, hint) = match &error {
        pelton::Error::Plan(error) => (unknown_table(&error.message), error.hint.clone()),
        _ => (None, None),
    };
    with_attributes(error.to_string(), place, hint, unknown)
}

/// The exception of an error that a server tells of: its message without its place, which is a line and a column of the script.
#[pyfunction]
#[pyo3(signature = (message, hint, place))]
pub fn served_error(py: Python<'_>, message: &str, hint: Option<String>, place: Option<(u64, u64)>) -> Py<PyAny> {
    let located = place.map(|(line, column)| format!("line {line}, column {column}: ")).unwrap_or_default();
    let advised = hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
    let unknown = unknown_table(message);
    with_attributes(format!("{located}{message}{advised}"), place, hint, unknown).into_value(py).into_any()
}

fn with_attributes(
    text: String,
    place: Option<(u64, u64)>,
    hint: Option<String>,
    unknown_table: Option<String>,
) -> PyErr {
    let raised = Error::new_err(text);
    let [line, column, hint_name, unknown_table_name] = ATTRIBUTES;
    Python::attach(|py| {
        let value = raised.value(py);
        // An exception's own attributes can always be set.
        let _ = value.setattr(line, place.map(|(line, _)| line));
        let _ = value.setattr(column, place.map(|(_, column)| column));
        let _ = value.setattr(hint_name, hint);
        let _ = value.setattr(unknown_table_name, unknown_table);
    });
    raised
}

fn unknown_table(message: &str) -> Option<String> {
    message.strip_prefix(UNKNOWN_TABLE).map(str::to_owned)
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
