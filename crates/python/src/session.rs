//! Sessions of an engine.

use std::time::Duration;

use pelton::{EventTime, Outcome, PlanError, PlanErrorKind, Prepared};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::aggregates::aggregate_function;
use crate::batch::{Batch, imported};
use crate::error::{invalid, raised};
use crate::functions::{Function, argument_types, only_field};
use crate::jobs::Job;
use crate::process::check_process;
use crate::query::Query;
use crate::table_types::{as_table_rows, table_schema};
use crate::tables::{PullTable, PushTable};
use crate::waiting::wait_in_steps;

/// How often it is looked whether queries have ended.
const CLOSING_STEP: Duration = Duration::from_millis(1);

/// A session. An engine ends with the last of its sessions.
#[pyclass(frozen, module = "pelton._native")]
pub struct Session {
    session: Option<pelton::Session>,
    process: u32,
}

impl Session {
    fn of(session: pelton::Session) -> Session {
        Session { session: Some(session), process: std::process::id() }
    }

    /// The session, in the process that has its engine.
    fn own(&self) -> PyResult<&pelton::Session> {
        check_process(self.process)?;
        Ok(self.session.as_ref().expect("a session is there until it is dropped"))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let session = self.session.take();
        if check_process(self.process).is_err() {
            std::mem::forget(session);
            return;
        }
        // The engine's jobs end with its last session, and their workers may need the interpreter's lock.
        Python::try_attach(|py| py.detach(|| drop(session)));
    }
}

/// A statement that is parsed.
#[pyclass(frozen, module = "pelton._native")]
pub struct Statement(Prepared);

#[pymethods]
impl Statement {
    #[getter]
    fn text(&self) -> String {
        self.0.text().to_owned()
    }

    #[getter]
    fn line(&self) -> u64 {
        self.0.line()
    }

    #[getter]
    fn column(&self) -> u64 {
        self.0.place().column
    }
}

#[pymethods]
impl Session {
    /// A session of a new engine.
    #[new]
    fn new(py: Python<'_>) -> Session {
        Session::of(py.detach(pelton::Session::new))
    }

    /// Another session of the same engine.
    fn another(&self, py: Python<'_>) -> PyResult<Session> {
        let session = self.own()?;
        Ok(Session::of(py.detach(|| session.engine().session())))
    }

    fn prepare(&self, py: Python<'_>, script: &str) -> PyResult<Vec<Statement>> {
        let session = self.own()?;
        let statements = py.detach(|| session.prepare(script)).map_err(raised)?;
        Ok(statements.into_iter().map(Statement).collect())
    }

    /// Executes a statement: None, a note, the rows of SHOW as a batch, or a query.
    fn execute<'py>(&self, py: Python<'py>, statement: &Statement) -> PyResult<Bound<'py, PyAny>> {
        let session = self.own()?;
        match py.detach(|| session.execute(&statement.0)).map_err(raised)? {
            Outcome::Done => Ok(py.None().into_bound(py)),
            Outcome::Noted(note) => note.into_bound_py_any(py),
            Outcome::Rows(rows) => Batch(rows).into_bound_py_any(py),
            Outcome::Running(query) => Query::new(query).into_bound_py_any(py),
        }
    }

    /// Reads all rows of a query as a Rust program does, and says how many they are: what the package is measured against.
    fn count_rows(&self, py: Python<'_>, statement: &Statement) -> PyResult<usize> {
        let session = self.own()?;
        let batches = py.detach(|| match session.execute(&statement.0)? {
            Outcome::Running(query) => query.collect(),
            Outcome::Done | Outcome::Noted(_) | Outcome::Rows(_) => Ok(Vec::new()),
        });
        Ok(batches.map_err(raised)?.iter().map(arrow::array::RecordBatch::num_rows).sum())
    }

    fn explain(&self, py: Python<'_>, statement: &Statement) -> PyResult<Option<String>> {
        let session = self.own()?;
        py.detach(|| session.explain(&statement.0)).map_err(raised)
    }

    fn set(&self, py: Python<'_>, key: &str, value: &str) -> PyResult<()> {
        let session = self.own()?;
        py.detach(|| session.set(key, value)).map_err(raised)
    }

    fn setting(&self, py: Python<'_>, key: &str) -> PyResult<Option<String>> {
        let session = self.own()?;
        Ok(py.detach(|| session.setting(key)))
    }

    #[getter]
    fn time_zone(&self, py: Python<'_>) -> PyResult<String> {
        let session = self.own()?;
        Ok(py.detach(|| session.time_zone().to_string()))
    }

    /// Plans a query that is put together by calls. Says what is wrong with it, and in the call of which that is, but nothing of what cannot run yet: more calls may follow.
    #[pyo3(signature = (query, call))]
    fn check(&self, py: Python<'_>, query: &str, call: Option<&str>) -> PyResult<()> {
        let session = self.own()?;
        let planned = py.detach(|| {
            let statements = session.prepare(query)?;
            statements.iter().try_for_each(|statement| session.describe(statement).map(drop))
        });
        match planned {
            Err(pelton::Error::Plan(error)) if error.kind == PlanErrorKind::Unsupported => Ok(()),
            Err(pelton::Error::Plan(error)) => {
                let message = match call {
                    Some(call) => format!(".{call}(…): {}", error.message),
                    None => error.message,
                };
                Err(raised(pelton::Error::Plan(PlanError { message, place: None, ..error })))
            }
            other => other.map_err(raised),
        }
    }

    fn push_table(&self, py: Python<'_>, name: &str, columns: &str) -> PyResult<PushTable> {
        let session = self.own()?;
        py.detach(|| session.push_table(name, columns)).map(PushTable::new).map_err(raised)
    }

    fn pull_table(&self, py: Python<'_>, name: &str, columns: &str) -> PyResult<PullTable> {
        let session = self.own()?;
        py.detach(|| session.pull_table(name, columns)).map(PullTable::new).map_err(raised)
    }

    /// Registers Arrow data as a bounded temporary table.
    #[pyo3(signature = (name, data, event_time, delay_us))]
    fn register(
        &self,
        py: Python<'_>,
        name: &str,
        data: &Bound<'_, PyAny>,
        event_time: Option<String>,
        delay_us: u64,
    ) -> PyResult<()> {
        let session = self.own()?;
        let (rows, schema) = imported(data)?;
        let event_time = event_time.map(|column| EventTime { column, delay: Duration::from_micros(delay_us) });
        let named = |problem: String| invalid(format!("table {name}: {problem}"));
        py.detach(|| {
            let schema = table_schema(&schema).map_err(named)?;
            let rows =
                rows.iter().map(|batch| as_table_rows(batch, &schema)).collect::<Result<_, _>>().map_err(named)?;
            session.register_rows(name, schema, rows, event_time).map_err(raised)
        })
    }

    /// Forgets a registered table.
    fn unregister(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let session = self.own()?;
        py.detach(|| session.unregister_rows(name));
        Ok(())
    }

    /// Registers a scalar function; types are in SQL's words.
    fn create_function(
        &self,
        py: Python<'_>,
        name: &str,
        function: Py<PyAny>,
        signature: (String, String),
        is_by_row: bool,
    ) -> PyResult<()> {
        let session = self.own()?;
        let (arguments, returns) = (columns(&signature.0)?, only_field(&columns(&signature.1)?)?);
        let function = Function { function, is_by_row };
        let data_type = returns.data_type().clone();
        let body = move |arguments: &[_]| function.values(arguments, &returns);
        py.detach(|| session.register_function(name, argument_types(&arguments), data_type, body));
        Ok(())
    }

    /// Registers an aggregate function: a class.
    fn create_aggregate(
        &self,
        py: Python<'_>,
        name: &str,
        class: &Bound<'_, PyAny>,
        signature: (String, String),
        is_by_row: bool,
    ) -> PyResult<()> {
        let session = self.own()?;
        let (arguments, returns) = (columns(&signature.0)?, only_field(&columns(&signature.1)?)?);
        let function = aggregate_function(class, name, argument_types(&arguments), returns, is_by_row)?;
        py.detach(|| session.register_aggregate(function));
        Ok(())
    }

    /// Registers a table function.
    fn create_table_function(
        &self,
        py: Python<'_>,
        name: &str,
        function: Py<PyAny>,
        signature: (String, String),
        is_by_row: bool,
    ) -> PyResult<()> {
        let session = self.own()?;
        let (arguments, returns) = (columns(&signature.0)?, columns(&signature.1)?);
        let function = Function { function, is_by_row };
        let fields = returns.fields().iter().map(|field| field.as_ref().clone()).collect();
        let body = move |arguments: &[_]| function.output_rows(arguments, &returns);
        py.detach(|| session.register_table_function(name, argument_types(&arguments), fields, body));
        Ok(())
    }

    fn jobs(&self, py: Python<'_>) -> PyResult<Vec<Job>> {
        let engine = self.own()?.engine();
        Ok(py.detach(|| engine.jobs()).into_iter().map(|job| Job::new(job, self.process)).collect())
    }

    /// Ends the queries of the session, or all of the engine, and waits until they call no function any more.
    fn close(&self, py: Python<'_>, all_of_engine: bool) -> PyResult<()> {
        let session = self.own()?;
        let running = py.detach(|| {
            let engine = session.engine();
            let queries = if all_of_engine { engine.queries() } else { session.queries() };
            queries.iter().for_each(pelton::query::QueryControl::abort);
            queries
        });
        wait_in_steps(py, |step| {
            let has_ended = running.iter().all(pelton::query::QueryControl::has_ended);
            if !has_ended {
                std::thread::sleep(step.min(CLOSING_STEP));
            }
            has_ended.then_some(())
        })
    }

    fn state_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        let session = self.own()?;
        Ok(py.detach(|| session.state_bytes()))
    }
}

/// The columns of a list; none of an empty one.
fn columns(list: &str) -> PyResult<arrow::datatypes::SchemaRef> {
    match list.is_empty() {
        true => Ok(arrow::datatypes::Schema::empty().into()),
        false => pelton::Session::columns(list).map_err(raised),
    }
}
