//! Inserts that go on to run while the shell takes further statements.

use std::cell::RefCell;
use std::time::Duration;

use pelton::job::JobState;
use pelton::{Job, Query, Session, Summary};

use crate::failure::Failure;
use crate::left_out::left_out;
use crate::output::say;
use crate::print::count;

/// An insert that takes no longer is waited for, so that what it wrote is there for the next statement.
const FOREGROUND_MAX: Duration = Duration::from_secs(1);

/// How long the end of jobs is waited for when the shell is left.
const LEAVING_MAX: Duration = Duration::from_secs(10);

/// The jobs that the shell has started and whose end it has not told yet.
#[derive(Default)]
pub struct BackgroundJobs(RefCell<Vec<Job>>);

impl BackgroundJobs {
    /// Waits a moment for an insert, and then leaves it to the engine. Returns what is still to be waited for: a query whose rows are read, and an insert that has ended, that
    /// Ctrl-C ends, or of a session with `SET 'table.dml-sync' = 'true'`.
    pub fn start(
        &self,
        session: &Session,
        query: Query,
        is_interrupted: impl Fn() -> bool,
    ) -> Result<Option<Query>, Failure> {
        let Some(job) = query.job().cloned() else { return Ok(Some(query)) };
        if session.setting("table.dml-sync").as_deref() == Some("true") {
            return Ok(Some(query));
        }
        let has_ended = job.wait_for(FOREGROUND_MAX);
        if has_ended || is_interrupted() {
            return Ok(Some(query));
        }
        self.0.borrow_mut().push(query.detach()?);
        let name = job.name().replace('\'', "''");
        say!("{job} runs as a job: SHOW JOBS lists it, and STOP JOB '{name}' ends it");
        Ok(None)
    }

    /// Tells of the jobs that have ended since it was asked last.
    pub fn report_ended(&self) {
        self.0.borrow_mut().retain(|job| {
            let is_running = job.state() == JobState::Running;
            if !is_running {
                report(job);
            }
            is_running
        });
    }

    /// Stops the jobs that run, and waits for their ends.
    pub fn stop(&self) {
        self.report_ended();
        let jobs = self.0.borrow();
        if jobs.is_empty() {
            return;
        }
        let names: Vec<&str> = jobs.iter().map(Job::name).collect();
        say!("stopping {}", names.join(", "));
        jobs.iter().for_each(Job::stop);
        for job in jobs.iter() {
            if !job.wait_for(LEAVING_MAX) {
                say!("warning: {job} has not ended in {} s, and is ended at once", LEAVING_MAX.as_secs());
                job.abort();
            }
        }
        drop(jobs);
        self.report_ended();
    }
}

/// Says what has become of a job.
fn report(job: &Job) {
    let summary: Summary = job.progress();
    match (job.state(), job.error()) {
        (_, Some(error)) => say!("error: {job} has failed: {error}"),
        (JobState::Stopped, _) => say!("{job} was stopped"),
        _ => say!("{job} has finished"),
    }
    for sink in &summary.sinks {
        sink.remarks.iter().for_each(|remark| say!("warning: {}: {remark}", sink.name));
        say!("{}: {} rows written in {:.3} s", sink.name, count(sink.rows), summary.elapsed.as_secs_f64());
    }
    left_out(&summary).iter().for_each(|warning| say!("warning: {warning}"));
}
