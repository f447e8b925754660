//! The checkpoints of one job in their store.
//!
//! A checkpoint is complete with its manifest. Where the job writes rows in a transaction, the manifest is written twice: before that is committed, under the name of a pending
//! checkpoint, and behind it. A job that goes on finds out first what has become of a pending one ([`pending`]).

mod pending;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pelton_runtime::checkpoint::RunSnapshot;

use super::error::CheckpointError;
use super::manifest::{self, CheckpointKind, JobStage, Manifest, Piece};
use super::parts::ProgramParts;
use super::restore_from::RestoreFrom;
use super::store::CheckpointStore;
pub(crate) use pending::{Transaction, Undone};

/// Bytes of a piece of state at most: one of many pieces that is unchanged is not written again.
const PIECE_BYTES_MAX: usize = 4 << 20;

/// The checkpoints of one job.
pub(crate) struct Checkpoints {
    store: Arc<dyn CheckpointStore>,
    job: String,
    statement: String,
    /// Of the program of the job that runs.
    parts: ProgramParts,
    /// Checkpoints that are kept at least.
    retained: usize,
    /// Of the last checkpoint, or 0.
    last_id: u64,
    /// Pieces that are in the store.
    pieces: BTreeSet<String>,
    /// The pieces of checkpoints that were read or written.
    pieces_of: BTreeMap<String, Vec<String>>,
}

/// What was written of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    pub id: u64,
    /// Of all state.
    pub state_bytes: u64,
    /// Of the state that was not there before, and of the manifest.
    pub bytes_written: u64,
}

impl Checkpoints {
    /// Those that are in a store.
    ///
    /// # Errors
    /// Where the store cannot be read.
    pub fn open(
        store: Arc<dyn CheckpointStore>,
        job: &str,
        statement: &str,
        retained: usize,
    ) -> Result<Checkpoints, CheckpointError> {
        let mut checkpoints = Checkpoints {
            store,
            job: job.to_owned(),
            statement: statement.to_owned(),
            parts: ProgramParts::default(),
            retained,
            last_id: 0,
            pieces: BTreeSet::new(),
            pieces_of: BTreeMap::new(),
        };
        let names = checkpoints.names()?;
        let id_of = |name: &String| manifest::id_of(name).or_else(|| manifest::pending_id_of(name));
        checkpoints.last_id = names.iter().filter_map(id_of).map(|(_, id)| id).max().unwrap_or(0);
        checkpoints.pieces = names.into_iter().filter(|name| name.starts_with("state-")).collect();
        Ok(checkpoints)
    }

    /// Those that are written from now on are of this program.
    pub fn of_program(self, parts: ProgramParts) -> Checkpoints {
        Checkpoints { parts, ..self }
    }

    /// The number of the last one, or 0.
    pub fn last_id(&self) -> u64 {
        self.last_id
    }

    /// The checkpoint to go on from; `None` where there is none and the latest is wanted.
    ///
    /// # Errors
    /// Where it is not there, or cannot be read.
    pub fn load(&self, from: &RestoreFrom) -> Result<Option<Manifest>, CheckpointError> {
        let mut known: Vec<(u64, CheckpointKind)> =
            self.names()?.iter().filter_map(|name| manifest::id_of(name)).map(|(kind, id)| (id, kind)).collect();
        known.sort_unstable_by_key(|&(id, _)| id);
        let found = match from {
            RestoreFrom::Latest => known.last(),
            RestoreFrom::LatestBehind { before, .. } => known.last().filter(|(id, _)| id > before),
            RestoreFrom::Id(wanted) => known.iter().find(|(id, _)| id == wanted),
        };
        match (found, from) {
            (Some(&(id, kind)), _) => self.read(kind, id).map(Some),
            (None, RestoreFrom::Latest | RestoreFrom::LatestBehind { .. }) => Ok(None),
            (None, RestoreFrom::Id(wanted)) => {
                let numbers = known.iter().map(|(id, _)| id.to_string()).collect::<Vec<_>>().join(", ");
                let numbers = if numbers.is_empty() { "none".to_owned() } else { numbers };
                Err(self
                    .error("", format!("has no checkpoint {wanted} of the job '{}'; there are: {numbers}", self.job)))
            }
        }
    }

    fn read(&self, kind: CheckpointKind, id: u64) -> Result<Manifest, CheckpointError> {
        let mut found = self.manifest(&manifest::name_of(kind, id))?;
        for (pieces, operator) in found.states.iter().zip(&mut found.run.operators) {
            for piece in pieces {
                let bytes = self.store.get(&piece.name).map_err(|error| self.error(&piece.name, error))?;
                if !piece.is_of(&bytes) {
                    return Err(self
                        .error(&piece.name, "does not have the hash that its name tells: it was changed or cut off"));
                }
                operator.state.extend(bytes);
            }
        }
        Ok(found)
    }

    /// Writes a checkpoint, and removes those that are not kept any longer. Where there is a transaction, it is committed in between.
    ///
    /// # Errors
    /// How far it came. The checkpoints before it are there still.
    pub fn write(
        &mut self,
        run: &RunSnapshot,
        kind: (CheckpointKind, JobStage),
        created_ms: i64,
        transaction: Option<Transaction<'_>>,
    ) -> Result<Written, Undone> {
        let prepared = transaction.as_ref().map(|transaction| transaction.prepared.clone());
        let written = match self.write_manifest(run, kind, created_ms, prepared) {
            Ok(written) => written,
            Err(error) => {
                // What is in the store may not be what it was.
                let names = self.names().unwrap_or_default();
                self.pieces = names.into_iter().filter(|name| name.starts_with("state-")).collect();
                return Err(Undone::Unwritten(error));
            }
        };
        if let Some(transaction) = transaction {
            (transaction.commit)(written.id).map_err(Undone::Uncommitted)?;
            self.complete(kind.0, written.id).map_err(Undone::Incomplete)?;
        }
        // What cannot be removed takes room, and nothing else.
        let _ = self.remove_old();
        Ok(written)
    }

    /// Writes state, and the manifest, which is that of a pending checkpoint where there is a transaction.
    fn write_manifest(
        &mut self,
        run: &RunSnapshot,
        (kind, stage): (CheckpointKind, JobStage),
        created_ms: i64,
        transaction: Option<String>,
    ) -> Result<Written, CheckpointError> {
        let (mut state_bytes, mut bytes_written) = (0, 0);
        let mut states = Vec::with_capacity(run.operators.len());
        for operator in &run.operators {
            let mut pieces = Vec::new();
            for bytes in operator.state.chunks(PIECE_BYTES_MAX) {
                let piece = Piece::of(bytes);
                state_bytes += piece.bytes;
                if !self.pieces.contains(&piece.name) {
                    self.store.put(&piece.name, bytes).map_err(|error| self.error(&piece.name, error))?;
                    self.pieces.insert(piece.name.clone());
                    bytes_written += piece.bytes;
                }
                pieces.push(piece);
            }
            states.push(pieces);
        }
        // What fails may be there all the same, and must not be taken for the next one.
        self.last_id += 1;
        let id = self.last_id;
        let name = match transaction {
            None => manifest::name_of(kind, id),
            Some(_) => manifest::pending_name_of(kind, id),
        };
        let manifest = Manifest {
            format: manifest::FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            id,
            kind,
            job: self.job.clone(),
            statement: self.statement.clone(),
            created_ms,
            stage,
            transaction,
            parts: self.parts.clone(),
            run: run.without_state(),
            states,
        };
        let text = manifest.to_text();
        self.store.put(&name, text.as_bytes()).map_err(|error| self.error(&name, error))?;
        self.pieces_of.insert(name, manifest.pieces());
        Ok(Written { id, state_bytes, bytes_written: bytes_written + text.len() as u64 })
    }

    /// Removes checkpoints beyond those that are kept, and pieces that none has.
    fn remove_old(&mut self) -> Result<(), CheckpointError> {
        self.remove_overtaken()?;
        let names = self.names()?;
        let mut ids: Vec<u64> = names
            .iter()
            .filter_map(|name| manifest::id_of(name))
            .filter(|(kind, _)| *kind == CheckpointKind::Checkpoint)
            .map(|(_, id)| id)
            .collect();
        ids.sort_unstable();
        let old = ids.len().saturating_sub(self.retained.max(1));
        let old_names = ids[..old].iter().map(|&id| manifest::name_of(CheckpointKind::Checkpoint, id));
        self.remove(&old_names.collect::<Vec<_>>())?;
        let oldest_kept = ids.get(old).copied();
        let is_kept = |name: &String| match manifest::id_of(name) {
            Some((CheckpointKind::Checkpoint, id)) => oldest_kept.is_some_and(|oldest| id >= oldest),
            Some((CheckpointKind::Savepoint, _)) => true,
            None => manifest::pending_id_of(name).is_some(),
        };
        let kept: BTreeSet<&String> = names.iter().filter(|name| is_kept(name)).collect();
        self.pieces_of.retain(|name, _| kept.contains(name));
        for name in kept {
            if !self.pieces_of.contains_key(name) {
                // What cannot be read may need any piece.
                let pieces = self.manifest(name)?.pieces();
                self.pieces_of.insert(name.clone(), pieces);
            }
        }
        let used: BTreeSet<&String> = self.pieces_of.values().flatten().collect();
        let is_unused = |name: &&String| name.starts_with("state-") && !used.contains(*name);
        let unused: Vec<String> = names.iter().filter(is_unused).cloned().collect();
        self.remove(&unused)
    }

    /// Removes values for good.
    fn remove(&mut self, names: &[String]) -> Result<(), CheckpointError> {
        for name in names {
            self.pieces_of.remove(name);
            self.pieces.remove(name);
        }
        self.store.remove(names).map_err(|error| self.error("", error))
    }

    fn manifest(&self, name: &str) -> Result<Manifest, CheckpointError> {
        let text = self.store.get(name).map_err(|error| self.error(name, error))?;
        let text = String::from_utf8(text).map_err(|_| self.error(name, "is not UTF-8"))?;
        Manifest::of_text(&text).map_err(|problem| self.error(name, problem))
    }

    fn names(&self) -> Result<Vec<String>, CheckpointError> {
        self.store.list().map_err(|error| self.error("", error))
    }

    fn error(&self, name: &str, problem: impl ToString) -> CheckpointError {
        let place = match name {
            "" => self.store.place(),
            name => format!("{}/{name}", self.store.place()),
        };
        CheckpointError { place, problem: problem.to_string() }
    }
}

#[cfg(test)]
mod tests;
