//! The native module of the Python package `pelton`: the engine's sessions and queries as Python classes.
//!
//! The package itself is Python code in `python/pelton/`; what it shows to users is documented there. In reading order: `error` (exceptions), `process` (forks), `waiting` (blocking calls that Ctrl-C ends),
//! `table_types` (Arrow types as those of tables), `to_python` and `from_python` (values), `batch` (rows), `session`, `query`, `tables` (push and pull tables), `functions` (user-defined functions), `aggregates`,
//! `jobs` (jobs, progress, adaptation events), `ipc` (rows of a served engine).
//!
//! Every call into the engine releases the interpreter's lock: workers take it for Python functions, and must not wait for a thread that waits for them.

// The test harness is an executable, which cannot be linked without an interpreter.
#![cfg(not(test))]

mod aggregates;
mod batch;
mod error;
mod from_python;
mod functions;
mod ipc;
mod jobs;
mod process;
mod query;
mod session;
mod table_types;
mod tables;
mod to_python;
mod waiting;

/// The module `pelton._native`.
#[pyo3::pymodule(gil_used = false)]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::batch::{Array, Batch};
    #[pymodule_export]
    use crate::error::{Error, served_error};
    #[pymodule_export]
    use crate::ipc::{ArrowReader, ArrowWriter, table_rows};
    #[pymodule_export]
    use crate::jobs::{AdaptationEvents, Job};
    #[pymodule_export]
    use crate::query::Query;
    #[pymodule_export]
    use crate::session::{Session, Statement};
    #[pymodule_export]
    use crate::tables::{PullTable, PushTable};

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::error::set_defaults(module.py())
    }
}
