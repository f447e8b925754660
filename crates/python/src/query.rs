//! Running queries.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use futures_core::Stream;
use pelton::query::QueryControl;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::error::PyArrowResult;

use crate::batch::{Batch, described, stream_capsule};
use crate::error::{invalid, raised};
use crate::jobs::{AdaptationEvents, Job, progress};
use crate::process::check_process;
use crate::waiting::{calling, wait_for, wait_in_steps};

/// A running query, or an insert.
#[pyclass(frozen, module = "pelton._native")]
pub struct Query {
    /// `None` where it has been closed, detached or handed to another library.
    running: Arc<Mutex<Option<pelton::Query>>>,
    control: QueryControl,
    schema: SchemaRef,
    job: Option<pelton::Job>,
    /// The process that has the engine's threads.
    process: u32,
}

impl Query {
    pub fn new(query: pelton::Query) -> Query {
        Query {
            control: query.control(),
            schema: query.schema().clone(),
            job: query.job().cloned(),
            running: Arc::new(Mutex::new(Some(query))),
            process: std::process::id(),
        }
    }

    fn check_process(&self) -> PyResult<()> {
        check_process(self.process)
    }
}

fn locked(running: &Mutex<Option<pelton::Query>>) -> MutexGuard<'_, Option<pelton::Query>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The next rows of a query; none where it is closed.
fn poll_next(
    running: &Mutex<Option<pelton::Query>>,
    context: &mut Context<'_>,
) -> Poll<Option<Result<RecordBatch, pelton::Error>>> {
    match locked(running).as_mut() {
        Some(query) => Pin::new(query).poll_next(context),
        None => Poll::Ready(None),
    }
}

#[pymethods]
impl Query {
    #[getter]
    fn columns(&self) -> Vec<(String, String)> {
        described(&self.schema)
    }

    /// The next rows, or None behind the last.
    fn next_batch(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        self.check_process()?;
        let next = wait_for(py, |context| poll_next(&self.running, context));
        let next = next.inspect_err(|_| py.detach(|| self.control.abort()))?;
        Ok(next.transpose().map_err(raised)?.map(Batch))
    }

    /// Where rows are there, or there are no more, these and True. Else `wake` is called when to ask again, by any thread.
    fn poll_batch(&self, py: Python<'_>, wake: Py<PyAny>) -> PyResult<(bool, Option<Batch>)> {
        self.check_process()?;
        let waker = calling(wake);
        match py.detach(|| poll_next(&self.running, &mut Context::from_waker(&waker))) {
            Poll::Pending => Ok((false, None)),
            Poll::Ready(next) => Ok((true, next.transpose().map_err(raised)?.map(Batch))),
        }
    }

    /// Rows that are there now.
    fn try_next_batch(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        self.check_process()?;
        let next = py.detach(|| locked(&self.running).as_mut().map_or(Ok(None), pelton::Query::try_next_batch));
        Ok(next.map_err(raised)?.map(Batch))
    }

    #[getter]
    fn has_ended(&self, py: Python<'_>) -> bool {
        // A worker may be about to release an array of Python's, for which it needs the interpreter's lock.
        py.detach(|| self.control.has_ended())
    }

    /// Ends the query behind the rows that it has read.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        self.check_process()?;
        py.detach(|| self.control.drain());
        Ok(())
    }

    /// Ends the query now.
    fn close(&self, py: Python<'_>) {
        if self.check_process().is_ok() {
            py.detach(|| {
                self.control.abort();
                let query = locked(&self.running).take();
                drop(query);
            });
        }
    }

    /// Waits for the end of an insert. An interrupt ends it.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        self.check_process()?;
        let ended = wait_in_steps(py, |step| match &self.job {
            Some(job) => job.wait_for(step).then(|| job.error()),
            None => {
                std::thread::sleep(step.min(std::time::Duration::from_millis(1)));
                self.control.has_ended().then_some(None)
            }
        });
        match ended.inspect_err(|_| py.detach(|| self.control.abort()))? {
            Some(error) => Err(raised(error)),
            None => Ok(()),
        }
    }

    /// Leaves an insert to the engine.
    fn detach(&self, py: Python<'_>) -> PyResult<Job> {
        self.check_process()?;
        let detached = py.detach(|| locked(&self.running).take().map(pelton::Query::detach));
        let job = detached.ok_or_else(|| invalid("the insert is the engine's already"))?;
        job.map(|job| Job::new(job, self.process)).map_err(raised)
    }

    #[getter]
    fn is_insert(&self) -> bool {
        self.job.is_some()
    }

    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let now = py.detach(|| self.control.progress());
        progress(py, &now)
    }

    fn adaptation_events(&self, py: Python<'_>) -> PyResult<AdaptationEvents> {
        let events = py.detach(|| locked(&self.running).as_ref().map(pelton::Query::adaptation_events));
        events.map(AdaptationEvents::new).ok_or_else(|| invalid("the query is closed"))
    }

    #[pyo3(signature = (ahead, requested_schema=None))]
    fn stream<'py>(
        &self,
        py: Python<'py>,
        ahead: Vec<PyRef<'py, Batch>>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyCapsule>> {
        self.check_process()?;
        let ahead: Vec<RecordBatch> = ahead.iter().map(|batch| batch.0.clone()).collect();
        let query = py.detach(|| locked(&self.running).take());
        let rest = Rest { query, control: self.control.clone() };
        stream_capsule(py, &self.schema, ahead.into_iter().map(Ok).chain(rest), requested_schema)
    }

    fn schema_capsule<'py>(&self, py: Python<'py>) -> PyArrowResult<Bound<'py, PyCapsule>> {
        pyo3_arrow::ffi::to_schema_pycapsule(py, self.schema.as_ref())
    }
}

/// The rows of a query that another library reads.
struct Rest {
    query: Option<pelton::Query>,
    control: QueryControl,
}

impl Iterator for Rest {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let query = self.query.as_mut()?;
        // The other library may have the interpreter's lock, which functions of the query need.
        let next = Python::try_attach(|py| wait_for(py, |context| Pin::new(&mut *query).poll_next(context)));
        match next? {
            Ok(Some(Ok(batch))) => Some(Ok(batch)),
            Ok(None) => None,
            Ok(Some(Err(error))) => Some(Err(ArrowError::ExternalError(Box::new(error)))),
            Err(interrupt) => {
                self.control.abort();
                Some(Err(ArrowError::ExternalError(Box::new(interrupt))))
            }
        }
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        let query = self.query.take();
        Python::try_attach(|py| py.detach(|| drop(query)));
    }
}

impl Drop for Query {
    fn drop(&mut self) {
        let query = locked(&self.running).take();
        if self.check_process().is_err() {
            // Its threads are those of another process: nothing of it can be waited for.
            std::mem::forget(query);
            return;
        }
        if query.is_some() {
            // Workers that call Python functions end only when they can.
            Python::try_attach(|py| py.detach(|| drop(query)));
        }
    }
}
