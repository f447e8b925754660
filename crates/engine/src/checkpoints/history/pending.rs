//! Checkpoints that are written, and whose transaction may not be committed.

use pelton_connectors::TransactionOutcome;
use pelton_runtime::sink::SinkError;

use super::Checkpoints;
use super::manifest::{self, CheckpointKind};
use crate::checkpoints::error::CheckpointError;
use crate::checkpoints::restore_from::RestoreFrom;
use crate::error::Error;

/// The transaction of a checkpoint.
pub(crate) struct Transaction<'a> {
    /// What tells later whether it was committed.
    pub prepared: String,
    /// Commits it, with the number of the checkpoint.
    pub commit: &'a dyn Fn(u64) -> Result<(), SinkError>,
}

/// How far a checkpoint came that is not complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Undone {
    /// It is not there, and its transaction is as it was.
    Unwritten(CheckpointError),
    /// It is pending, and whether its transaction was committed is not known.
    Uncommitted(SinkError),
    /// It is pending, and its transaction was committed: it counts.
    Incomplete(CheckpointError),
}

impl Checkpoints {
    /// Whether there is a pending checkpoint behind those that are complete.
    ///
    /// # Errors
    /// Where the store cannot be read.
    pub fn has_pending(&self) -> Result<bool, CheckpointError> {
        let newest = self.newest_complete()?;
        Ok(self.pending()?.iter().any(|&(_, id)| id > newest))
    }

    /// Completes the newest pending checkpoint whose transaction was committed, and removes others. Where that is not known, and the job is to go on from the latest, it does not; who
    /// asks for the checkpoint by its number takes it as committed.
    ///
    /// # Errors
    /// As `outcome`, and where a checkpoint cannot be read or written.
    pub fn resolve(
        &mut self,
        from: Option<&RestoreFrom>,
        mut outcome: impl FnMut(&str) -> Result<TransactionOutcome, Error>,
    ) -> Result<(), Error> {
        self.remove_overtaken()?;
        for (kind, id) in self.pending()?.into_iter().rev() {
            let name = manifest::pending_name_of(kind, id);
            let prepared = self.manifest(&name)?.transaction.unwrap_or_default();
            let is_complete = match outcome(&prepared)? {
                TransactionOutcome::Committed => true,
                TransactionOutcome::Aborted => false,
                TransactionOutcome::Unknown(problem) => match from {
                    Some(RestoreFrom::Id(wanted)) => *wanted == id,
                    Some(RestoreFrom::LatestBehind { before, .. }) if id <= *before => false,
                    None => false,
                    Some(RestoreFrom::Latest | RestoreFrom::LatestBehind { .. }) => {
                        return Err(self.error(&name, unknown(id, &problem)).into());
                    }
                },
            };
            if is_complete {
                self.complete(kind, id)?;
                return Ok(self.remove_old()?);
            }
            self.remove(&[name])?;
        }
        Ok(())
    }

    /// Makes a pending checkpoint a complete one.
    pub(super) fn complete(&mut self, kind: CheckpointKind, id: u64) -> Result<(), CheckpointError> {
        let (pending, name) = (manifest::pending_name_of(kind, id), manifest::name_of(kind, id));
        let manifest = self.manifest(&pending)?;
        self.store.put(&name, manifest.to_text().as_bytes()).map_err(|error| self.error(&name, error))?;
        self.pieces_of.insert(name, manifest.pieces());
        Ok(())
    }

    /// Removes pending checkpoints that are complete as well, or behind which there is a complete one.
    pub(super) fn remove_overtaken(&mut self) -> Result<(), CheckpointError> {
        let newest = self.newest_complete()?;
        let overtaken = self.pending()?.into_iter().filter(|&(_, id)| id <= newest);
        let names: Vec<String> = overtaken.map(|(kind, id)| manifest::pending_name_of(kind, id)).collect();
        self.remove(&names)
    }

    /// By their numbers.
    fn pending(&self) -> Result<Vec<(CheckpointKind, u64)>, CheckpointError> {
        let mut pending: Vec<(CheckpointKind, u64)> =
            self.names()?.iter().filter_map(|name| manifest::pending_id_of(name)).collect();
        pending.sort_unstable_by_key(|&(_, id)| id);
        Ok(pending)
    }

    /// The number of the last that is complete, or 0.
    fn newest_complete(&self) -> Result<u64, CheckpointError> {
        Ok(self.names()?.iter().filter_map(|name| manifest::id_of(name)).map(|(_, id)| id).max().unwrap_or(0))
    }
}

fn unknown(id: u64, problem: &str) -> String {
    format!(
        "was written, and whether its transaction was committed is not known: {problem}. Look whether its rows are there: if they are, go on from {id}, \
         and if not, from the one before it ('execution.state-recovery.path', or --restore with a number)"
    )
}
