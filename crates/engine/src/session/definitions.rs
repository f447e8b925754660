//! Creates and drops tables and views. Permanent ones are the engine's, and temporary ones the session's.

use pelton_plan::PlanError;
use pelton_plan::catalog::Dependent;
use pelton_plan::parse::{Dropped, TableDefinition, ViewDefinition};
use pelton_plan::query::{check_computed_columns, check_view};

use super::Session;
use super::jobs::STOPPING_MAX;
use crate::error::Error;
use crate::job::Job;
use crate::statement::Outcome;
use crate::table;

impl Session {
    pub(super) fn create_table(&self, definition: &TableDefinition) -> Result<(), Error> {
        let table = table::define(definition.clone())?;
        check_computed_columns(&self.snapshot().catalog, &table)?;
        match definition.temporary {
            true => self.own().catalog.add_table(table)?,
            false => self.engine().known().catalog_mut().add_table(table)?,
        }
        Ok(())
    }

    /// Creates a view. The tables of files that a permanent one reads are the engine's as well.
    pub(super) fn create_view(&self, definition: &ViewDefinition) -> Result<(), Error> {
        let catalog = self.snapshot().catalog;
        let view = ViewDefinition { reads: check_view(&catalog, definition)?, ..definition.clone() };
        if view.temporary {
            self.own().catalog.add_view(view)?;
            return Ok(());
        }
        if let Some(name) = view.reads.iter().find(|name| catalog.is_temporary(name)) {
            let message = format!("the view {} cannot read {name}, which is temporary", view.name);
            return Err(PlanError::invalid(view.place, message).with_hint("use CREATE TEMPORARY VIEW").into());
        }
        let files: Vec<_> = view.reads.iter().filter_map(|name| catalog.file(name).cloned()).collect();
        let mut known = self.engine().known();
        let known = known.catalog_mut();
        known.add_view(view)?;
        files.into_iter().for_each(|file| known.add_file(file));
        Ok(())
    }

    /// Drops a table or view. Views that read it and jobs that need it are an error, or go as well with `CASCADE`.
    pub(super) fn drop_relation(&self, dropped: &Dropped) -> Result<Outcome, Error> {
        let mut stopped = Vec::new();
        for _ in 0..ATTEMPTS_MAX {
            let jobs = {
                let (mut own, mut known) = (self.own(), self.engine().known());
                let catalog = own.catalog.over(known.catalog.clone());
                if !catalog.check_dropped(dropped)? {
                    return Ok(Outcome::Done);
                }
                let views = catalog.dependents(&dropped.target.name);
                let table = catalog.declared(&dropped.target.name);
                let needs_it = |job: &&Job| table.is_some_and(|table| job.needs(table));
                let jobs: Vec<Job> = known.jobs().filter(needs_it).cloned().collect();
                let is_needed = !views.is_empty() || !jobs.is_empty();
                if is_needed && !dropped.cascades {
                    return Err(refused(dropped, &views, &jobs));
                }
                if jobs.is_empty() {
                    let target = Dependent { view: dropped.target.name.clone(), is_temporary: dropped.is_temporary };
                    for Dependent { view: name, is_temporary } in views.iter().chain([&target]) {
                        match is_temporary {
                            true => own.catalog.remove(name),
                            false => known.remove(name),
                        }
                    }
                    return Ok(cascaded(&views, &stopped));
                }
                jobs
            };
            jobs.iter().for_each(Job::stop);
            if let Some(job) = jobs.iter().find(|job| !job.wait_for(STOPPING_MAX)) {
                let message = format!("the job {job}, which needs {}, has not ended yet", dropped.target.name);
                let error = PlanError::invalid(dropped.target.place, message);
                return Err(error.with_hint("STOP JOB once more ends it at once").into());
            }
            stopped.extend(jobs);
        }
        let message = format!("jobs that need {} are started again and again", dropped.target.name);
        Err(PlanError::invalid(dropped.target.place, message).with_hint("stop those who start them").into())
    }
}

/// How often jobs are stopped that need a table which is dropped: others may be started meanwhile.
const ATTEMPTS_MAX: usize = 8;

/// Names that a message has at most of each kind.
const NAMES_MAX: usize = 5;

/// The error where something needs what is dropped.
fn refused(dropped: &Dropped, views: &[Dependent], jobs: &[Job]) -> Error {
    let (kind, name) = (dropped.kind, &dropped.target.name);
    let by = [of_views(views), of_jobs(jobs)].into_iter().flatten().collect::<Vec<_>>().join(" and ");
    let message = format!("the {} {name} is needed by {by}", kind.name());
    let first = match (views.is_empty(), jobs.is_empty()) {
        (false, true) => "drop",
        (true, false) => "stop",
        _ => "drop and stop",
    };
    let those = if views.len() + jobs.len() == 1 { "it" } else { "these" };
    let hint = format!("{first} {those} first, or add CASCADE");
    PlanError::invalid(dropped.target.place, message).with_hint(hint).into()
}

/// Says what went with what was dropped.
fn cascaded(views: &[Dependent], jobs: &[Job]) -> Outcome {
    let dropped = of_views(views).map(|views| format!("dropped {views}"));
    let stopped = of_jobs(jobs).map(|jobs| format!("stopped {jobs}"));
    let notes: Vec<String> = dropped.into_iter().chain(stopped).collect();
    if notes.is_empty() { Outcome::Done } else { Outcome::Noted(notes.join(", and ")) }
}

fn of_views(views: &[Dependent]) -> Option<String> {
    listed("view", views.iter().map(|dependent| dependent.view.as_str()).collect())
}

fn of_jobs(jobs: &[Job]) -> Option<String> {
    listed("job", jobs.iter().map(Job::name).collect())
}

/// What there are several of, by their names.
fn listed(kind: &str, names: Vec<&str>) -> Option<String> {
    match names.as_slice() {
        [] => None,
        [name] => Some(format!("the {kind} {name}")),
        names if names.len() > NAMES_MAX => {
            let more = names.len() - NAMES_MAX;
            Some(format!("the {kind}s {} and {more} more", names[..NAMES_MAX].join(", ")))
        }
        [first @ .., last] => Some(format!("the {kind}s {} and {last}", first.join(", "))),
    }
}
