//! Statements about jobs.

use std::time::Duration;

use arrow::array::RecordBatch;
use pelton_plan::parse::Named;
use pelton_plan::{PlanError, closest};

use super::Session;
use crate::error::Error;
use crate::job::{Job, JobState};
use crate::shown_jobs;
use crate::statement::Outcome;

/// How long `STOP JOB` and `DROP … CASCADE` wait for the end of a job.
pub(super) const STOPPING_MAX: Duration = Duration::from_secs(10);

impl Session {
    /// `SHOW JOBS`
    pub(super) fn show_jobs(&self, is_verbose: bool) -> RecordBatch {
        shown_jobs::listed(&self.engine().jobs(), self.time_zone(), is_verbose)
    }

    /// `DESCRIBE JOB`
    pub(super) fn describe_job(&self, job: &Named) -> Result<RecordBatch, Error> {
        Ok(shown_jobs::described(&self.named_job(job)?, self.time_zone()))
    }

    /// `STOP JOB`. One that is being stopped already is ended at once.
    pub(super) fn stop_job(&self, named: &Named, (with_savepoint, with_drain): (bool, bool)) -> Result<Outcome, Error> {
        let job = self.named_job(named)?;
        if job.state() != JobState::Running {
            let message = format!("the job {job} has ended already: it is {}", job.state());
            return Err(PlanError::invalid(named.place, message).with_hint("SHOW JOBS lists those that run").into());
        }
        if with_savepoint {
            let refused = |error: Error| PlanError::invalid(named.place, error.to_string());
            job.end_with_savepoint().map_err(refused)?;
        }
        match (job.is_stopping(), with_drain) {
            (true, _) => job.abort(),
            (false, true) => job.stop_with_drain(),
            (false, false) => job.stop(),
        }
        if job.wait_for(STOPPING_MAX) {
            let savepoint = job.checkpoints().and_then(|status| status.last).filter(|_| with_savepoint);
            return Ok(match savepoint {
                Some(last) => Outcome::Noted(format!("the savepoint of the job {job} is its checkpoint {}", last.id)),
                None => Outcome::Done,
            });
        }
        let note = format!("the job {job} is being stopped, and has not ended yet; STOP JOB once more ends it at once");
        Ok(Outcome::Noted(note))
    }

    /// The job of a name, or else of a number.
    pub(super) fn named_job(&self, named: &Named) -> Result<Job, Error> {
        let Named { name, place } = named;
        if let Some(job) = self.engine().job(name) {
            return Ok(job);
        }
        let jobs = self.engine().jobs();
        let numbered = name.parse().ok().and_then(|number: usize| jobs.iter().find(|job| job.id() == number));
        if let Some(job) = numbered {
            return Ok(job.clone());
        }
        let error = PlanError::invalid(*place, format!("there is no job {name}"));
        Err(Error::Plan(match closest(name, jobs.iter().map(Job::name)) {
            Some(meant) => error.with_hint(format!("did you mean {meant}?")),
            None => error.with_hint("SHOW JOBS lists what there is"),
        }))
    }
}
