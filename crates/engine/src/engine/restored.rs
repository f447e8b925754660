//! Makes what an engine was again that had the same directory.

use super::Engine;
use crate::checkpoints::restore_from::RestoreFrom;
use crate::error::Error;
use crate::statement::Prepared;

/// Executes the script of tables and views. Statements of two sessions may have been noted in another order than they were executed in: what fails is tried again
/// behind the others.
pub(super) fn define(engine: &Engine, script: &str) -> Result<(), Error> {
    let session = engine.session();
    let mut left: Vec<Prepared> = session.prepare(script)?;
    while !left.is_empty() {
        let (count, mut failed, mut first) = (left.len(), Vec::new(), None);
        for statement in left {
            if let Err(error) = session.execute(&statement) {
                first.get_or_insert(error);
                failed.push(statement);
            }
        }
        match first {
            Some(error) if failed.len() == count => return Err(error),
            _ => left = failed,
        }
    }
    engine.journal().into_iter().for_each(|journal| journal.begin());
    Ok(())
}

/// See [`Engine::restart_jobs`].
pub(super) fn restart_jobs(engine: &Engine) -> Result<Vec<(String, Error)>, Error> {
    let Some(journal) = engine.journal() else { return Ok(Vec::new()) };
    let mut failed = Vec::new();
    for job in journal.jobs()? {
        let restart = || {
            let session = engine.session();
            for (key, value) in &job.settings {
                session.set(key, value)?;
            }
            session.set("pipeline.name", &job.name)?;
            let from = RestoreFrom::LatestBehind { before: job.checkpoints_before, altered_at: job.altered_at };
            session.set("execution.state-recovery.path", &from.to_string())?;
            session.sql(&job.statement)?.detach()
        };
        if let Err(error) = restart() {
            failed.push((job.name.clone(), error));
        }
    }
    Ok(failed)
}
