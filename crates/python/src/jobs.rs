//! Jobs, and what queries report of themselves.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use pelton::{AdaptationEvent, Progress};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::error::raised;
use crate::process::check_process;
use crate::waiting::wait_in_steps;

/// An insert that the engine runs under a name.
#[pyclass(frozen, module = "pelton._native")]
pub struct Job {
    job: pelton::Job,
    process: u32,
}

impl Job {
    pub fn new(job: pelton::Job, process: u32) -> Job {
        Job { job, process }
    }
}

#[pymethods]
impl Job {
    #[getter]
    fn id(&self) -> usize {
        self.job.id()
    }

    #[getter]
    fn name(&self) -> String {
        self.job.name().to_owned()
    }

    #[getter]
    fn statement(&self) -> String {
        self.job.statement().to_owned()
    }

    #[getter]
    fn state(&self, py: Python<'_>) -> PyResult<&'static str> {
        check_process(self.process)?;
        Ok(py.detach(|| self.job.state()).name())
    }

    #[getter]
    fn error(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| self.job.error()).map(|error| error.to_string())
    }

    #[getter]
    fn started_at(&self) -> f64 {
        unix_seconds(self.job.started_at())
    }

    #[getter]
    fn ended_at(&self, py: Python<'_>) -> Option<f64> {
        py.detach(|| self.job.ended_at()).map(unix_seconds)
    }

    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let now = py.detach(|| self.job.progress());
        progress(py, &now)
    }

    fn stop(&self, py: Python<'_>, with_drain: bool) -> PyResult<()> {
        check_process(self.process)?;
        py.detach(|| if with_drain { self.job.stop_with_drain() } else { self.job.stop() });
        Ok(())
    }

    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        check_process(self.process)?;
        py.detach(|| self.job.abort());
        Ok(())
    }

    /// Whether it has ended within so many seconds. Raises its error.
    #[pyo3(signature = (timeout_s=None))]
    fn wait(&self, py: Python<'_>, timeout_s: Option<f64>) -> PyResult<bool> {
        check_process(self.process)?;
        let until = timeout_s.map(|seconds| Instant::now() + Duration::try_from_secs_f64(seconds).unwrap_or_default());
        let has_ended = wait_in_steps(py, |step| {
            let left = until.map_or(step, |until| until.saturating_duration_since(Instant::now()).min(step));
            match self.job.wait_for(left) {
                true => Some(true),
                false => until.filter(|until| Instant::now() >= *until).map(|_| false),
            }
        })?;
        match py.detach(|| self.job.error()).filter(|_| has_ended) {
            Some(error) => Err(raised(error)),
            None => Ok(has_ended),
        }
    }
}

fn unix_seconds(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// The figures of a query as a dict.
pub fn progress<'py>(py: Python<'py>, progress: &Progress) -> PyResult<Bound<'py, PyAny>> {
    let dict = PyDict::new(py);
    let load = &progress.load;
    dict.set_item("elapsed_s", progress.elapsed.as_secs_f64())?;
    dict.set_item("rows_in", progress.sources.iter().map(|source| source.rows).sum::<u64>())?;
    dict.set_item("rows_out", progress.sinks.iter().map(|sink| sink.rows).sum::<u64>())?;
    dict.set_item("rows_in_per_s", load.rows_in_per_s)?;
    dict.set_item("rows_out_per_s", load.rows_out_per_s)?;
    dict.set_item("busy_cores", load.busy_cores)?;
    dict.set_item("rows_waiting", load.rows_waiting)?;
    dict.set_item("state_bytes", load.state_bytes)?;
    dict.set_item("held_back_by", load.held_back_by.clone())?;
    dict.set_item("late_rows", progress.late_rows())?;
    let latency = progress.recent_latency();
    let latency = if latency.is_empty() { progress.latency() } else { latency };
    for (name, quantile) in [("latency_s_p50", 0.5), ("latency_s_p99", 0.99)] {
        dict.set_item(name, latency.processing(quantile).map(|latency| latency.as_secs_f64()))?;
    }
    let sources = PyList::empty(py);
    for source in &progress.sources {
        let part = PyDict::new(py);
        part.set_item("name", &source.name)?;
        part.set_item("rows", source.rows)?;
        part.set_item("rows_per_s", source.rows_per_s)?;
        part.set_item("bytes", source.bytes)?;
        part.set_item("watermark_us", source.watermark)?;
        part.set_item("skipped_rows", source.left_out.skipped_rows)?;
        part.set_item("dropped_rows", source.left_out.dropped_rows)?;
        sources.append(part)?;
    }
    dict.set_item("sources", sources)?;
    let operators = PyList::empty(py);
    for operator in &progress.operators {
        let part = PyDict::new(py);
        part.set_item("name", &operator.name)?;
        part.set_item("rows", operator.rows)?;
        part.set_item("late_rows", operator.late_rows)?;
        part.set_item("state_bytes", operator.state_bytes)?;
        part.set_item("watermark_us", operator.watermark)?;
        part.set_item("held_back_by", operator.held_back_by.as_ref().map(|(source, _)| source.clone()))?;
        operators.append(part)?;
    }
    dict.set_item("operators", operators)?;
    Ok(dict.into_any())
}

/// What happens to the code of a query.
#[pyclass(frozen, module = "pelton._native")]
pub struct AdaptationEvents(Mutex<pelton::AdaptationEvents>);

impl AdaptationEvents {
    pub fn new(events: pelton::AdaptationEvents) -> AdaptationEvents {
        AdaptationEvents(Mutex::new(events))
    }
}

#[pymethods]
impl AdaptationEvents {
    /// The next event that has happened.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let next = py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).next());
        next.map(|event| described(py, &event)).transpose()
    }

    #[getter]
    fn missed(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).missed())
    }
}

fn described<'py>(py: Python<'py>, event: &AdaptationEvent) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("pipeline", &event.pipeline)?;
    dict.set_item("number", event.number)?;
    dict.set_item("at_s", event.at.as_secs_f64())?;
    dict.set_item("rows", event.rows)?;
    dict.set_item("variant", event.variant)?;
    dict.set_item("kind", event.kind.to_string())?;
    dict.set_item("specialisation", event.specialisation)?;
    dict.set_item("summary", &event.summary)?;
    dict.set_item("figures", event.figures.as_deref())?;
    Ok(dict)
}
