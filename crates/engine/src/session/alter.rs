//! `ALTER JOB`: another query takes the place of a job.

use std::sync::Arc;

use arrow::array::RecordBatch;
use pelton_plan::PlanError;
use pelton_plan::parse::{Named, Statement};
use pelton_plan::query::plan_statements;

use super::Session;
use super::jobs::STOPPING_MAX;
use super::start::{Origin, StoppedJob};
use crate::checkpoints::parts::{Fate, ProgramParts};
use crate::display::text_rows;
use crate::error::Error;
use crate::job::{Job, JobState};
use crate::query::Query;
use crate::running_program::RunningProgram;

/// What `ALTER JOB` shows of each part of the job.
pub(super) const COLUMNS: [&str; 2] = ["part", "state"];

impl Session {
    /// `ALTER JOB name AS statement`. Where the new query cannot be started, the job goes on as it is.
    pub(super) fn alter_job(&self, named: &Named, statement: &Statement, text: &str) -> Result<RecordBatch, Error> {
        let job = self.named_job(named)?;
        let refused = |message: String| Error::from(PlanError::invalid(named.place, message));
        let program = job.program().filter(|_| !job.is_stopping());
        let Some(program) = program else {
            let state = if job.state() == JobState::Running { "is being stopped" } else { "has ended" };
            return Err(refused(format!("the job {job} {state}, and only jobs that run are altered")));
        };
        self.check_tables(&job, &program)?;
        let before = program.parts.clone();
        let query = match job.checkpoints() {
            None => self.take_place(&job, &program, (statement, text))?,
            Some(_) => {
                drop(program);
                self.restart_altered(&job, (statement, text), refused)?
            }
        };
        let parts = query.parts().clone();

        query.detach()?;
        Ok(shown(&parts, &before))
    }

    /// Tables of the job are still those that have their names.
    fn check_tables(&self, job: &Job, program: &RunningProgram) -> Result<(), Error> {
        let catalog = self.snapshot().catalog;
        let is_same = |name: &String| {
            let known = job.tables().iter().find(|table| table.definition.name == *name);
            known.is_none_or(|known| catalog.declared(name).is_some_and(|now| Arc::ptr_eq(now, known)))
        };
        match program.parts.sources.iter().chain(&program.parts.outputs).find(|name| !is_same(name)) {
            None => Ok(()),
            Some(name) => {
                let problem = format!(
                    "the job {job} reads or writes a table {name} that is hidden by another one of this session"
                );
                Err(Error::Usage(format!("{problem}: DROP TEMPORARY TABLE {name}")))
            }
        }
    }

    /// The query goes on at a cut of the job.
    fn take_place(
        &self,
        job: &Job,
        program: &RunningProgram,
        (statement, text): (&Statement, &str),
    ) -> Result<Query, Error> {
        // Whoever looks when the run has ended finds that.
        job.note_altered(true);
        let started = self.start_statement((statement, text), Origin::Running(job, program));
        job.note_altered(started.is_ok());
        started
    }

    /// Stops the job behind a last checkpoint, from which the query goes on. Where it does not start, the job is started again.
    fn restart_altered(
        &self,
        job: &Job,
        (statement, text): (&Statement, &str),
        refused: impl Fn(String) -> Error,
    ) -> Result<Query, Error> {
        plan_statements(&self.snapshot().catalog, &[statement])?;
        job.note_altered(true);
        job.suspend();
        if !job.wait_for(STOPPING_MAX) {
            job.note_altered(false);
            return Err(refused(format!("the job {job} is being stopped to be altered, and has not ended yet")));
        }
        let checkpoint = job.checkpoints().and_then(|status| status.last).map(|last| last.id);
        let Some(checkpoint) = checkpoint.filter(|_| matches!(job.state(), JobState::Altered | JobState::Finished))
        else {
            return Err(refused(format!(
                "the job {job} ended while it was stopped to be altered: it is {}",
                job.state()
            )));
        };
        let stopped = StoppedJob { job, checkpoint };
        self.start_statement((statement, text), Origin::Stopped(&stopped)).map_err(|error| {
            let again = self.start_again(&stopped).and_then(Query::detach);
            match again {
                Ok(_) => Error::Usage(format!("the job was not altered, and goes on as it was: {error}")),
                Err(other) => Error::Usage(format!(
                    "the job was not altered, and has stopped with its checkpoint {checkpoint}: {error}; it could not be started again: {other}"
                )),
            }
        })
    }

    fn start_again(&self, stopped: &StoppedJob<'_>) -> Result<Query, Error> {
        let prepared = self.prepare(stopped.job.statement())?;
        let built = || Error::Usage("its query was built by calls".to_owned());
        let statement = &prepared.first().ok_or_else(built)?.0.statement;
        self.start_statement((statement, stopped.job.statement()), Origin::Stopped(stopped))
    }

    fn start_statement(&self, (statement, text): (&Statement, &str), from: Origin<'_>) -> Result<Query, Error> {
        self.start_at(text, |catalog| plan_statements(catalog, &[statement]), from)
    }
}

/// What has become of the parts of a job.
fn shown(parts: &ProgramParts, before: &ProgramParts) -> RecordBatch {
    let word = |fate: Fate| match fate {
        Fate::Kept => "kept",
        Fate::New => "new",
        Fate::Gone => "dropped",
    };
    let fates = parts.fates(before).into_iter();
    text_rows(&COLUMNS, fates.map(|(part, fate)| vec![part, word(fate).to_owned()]))
}
