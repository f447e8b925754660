//! Checkpoints of jobs: what a job was at a cut, kept so that it can go on from there after a failure.
//!
//! A checkpoint is a manifest (JSON with a hash) and pieces of operators' state. Pieces are named by a hash of their content and written once, before the
//! manifest; so a checkpoint that is there is whole. [`coordinator`] takes them while a job runs.

pub(crate) mod coordinator;

mod manifest;

mod store;

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use pelton_runtime::checkpoint::RunSnapshot;
use pelton_runtime::run::RunHandle;

use coordinator::Coordinator;
pub(crate) use coordinator::Watched;
pub use coordinator::{CheckpointStatus, LastCheckpoint};
pub use manifest::{CheckpointKind, JobStage};
pub(crate) use manifest::{Manifest, Piece};
pub use store::{CheckpointStore, LocalStore};

use crate::error::Error;
use crate::settings::Settings;

/// Bytes of a piece of state at most: one of many pieces that is unchanged is not written again.
const PIECE_BYTES_MAX: usize = 4 << 20;

/// Why a checkpoint cannot be written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct CheckpointError {
    /// The directory, with the checkpoint where there is one.
    pub place: String,
    /// What happened.
    pub problem: String,
}

/// Which checkpoint a job goes on from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoreFrom {
    /// The newest, savepoints too; none where there is none.
    Latest,
    /// The one of this number.
    Id(u64),
}

impl RestoreFrom {
    /// Reads `latest` or a number.
    pub fn parse(text: &str) -> Option<RestoreFrom> {
        match text {
            "latest" => Some(RestoreFrom::Latest),
            number => number.parse().ok().filter(|&id| id > 0).map(RestoreFrom::Id),
        }
    }
}

/// A job that has checkpoints, before it starts.
pub(crate) struct Checkpointed {
    pub name: Arc<str>,
    pub checkpoints: Checkpoints,
    pub interval: Option<Duration>,
    /// The one that it goes on from.
    manifest: Option<Manifest>,
}

impl Checkpointed {
    /// The checkpoints of a job of that name, where settings say where they are; the one that it goes on from is read.
    ///
    /// # Errors
    /// Where these cannot be read.
    pub fn of(name: &str, statement: &str, settings: &Settings) -> Result<Option<Checkpointed>, CheckpointError> {
        let Some(directory) = &settings.checkpoint_directory else {
            return match settings.restore_from {
                None => Ok(None),
                Some(_) => Err(CheckpointError {
                    place: format!("of the job '{name}'"),
                    problem: "'execution.checkpointing.dir' does not say where it is".to_owned(),
                }),
            };
        };
        let failed = |error: io::Error| CheckpointError {
            place: directory.display().to_string(),
            problem: error.to_string(),
        };
        let store = local_store(directory, name).map_err(failed)?;
        let checkpoints = Checkpoints::open(store, name, statement, settings.checkpoints_retained)?;
        let manifest = match &settings.restore_from {
            Some(from) => checkpoints.load(from)?,
            None => None,
        };
        Ok(Some(Checkpointed { name: name.into(), checkpoints, interval: settings.checkpoint_interval, manifest }))
    }

    /// What people call the checkpoint that it goes on from, and what the run was.
    pub fn restored(&self) -> Option<(String, &RunSnapshot)> {
        self.manifest.as_ref().map(|manifest| (manifest.id.to_string(), &manifest.run))
    }

    /// Takes checkpoints of the run from now on.
    ///
    /// # Errors
    /// Where the system has no thread.
    pub fn watch(self, run: RunHandle) -> Result<Watched, Error> {
        let watched = Watched::restored_from(self.manifest.map(|manifest| manifest.id));
        let Checkpointed { checkpoints, interval, .. } = self;
        Coordinator { checkpoints, interval, run, watched: watched.clone() }.start()?;
        Ok(watched)
    }
}

/// The checkpoints of one job.
pub(crate) struct Checkpoints {
    store: Arc<dyn CheckpointStore>,
    job: String,
    statement: String,
    /// Checkpoints that are kept at least.
    retained: usize,
    /// Of the last checkpoint, or 0.
    last_id: u64,
    /// Pieces that are in the store.
    pieces: BTreeSet<String>,
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
    /// Those that are in a store. Pieces that no checkpoint has are removed.
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
            retained,
            last_id: 0,
            pieces: BTreeSet::new(),
        };
        let names = checkpoints.names()?;
        checkpoints.last_id = names.iter().filter_map(|name| manifest::id_of(name)).map(|(_, id)| id).max().unwrap_or(0);
        checkpoints.pieces = names.into_iter().filter(|name| name.starts_with("state-")).collect();
        Ok(checkpoints)
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
            RestoreFrom::Id(wanted) => known.iter().find(|(id, _)| id == wanted),
        };
        match (found, from) {
            (Some(&(id, kind)), _) => self.read(kind, id).map(Some),
            (None, RestoreFrom::Latest) => Ok(None),
            (None, RestoreFrom::Id(wanted)) => {
                let numbers = known.iter().map(|(id, _)| id.to_string()).collect::<Vec<_>>().join(", ");
                let numbers = if numbers.is_empty() { "none".to_owned() } else { numbers };
                Err(self.error("", format!("has no checkpoint {wanted} of the job '{}'; there are: {numbers}", self.job)))
            }
        }
    }

    fn read(&self, kind: CheckpointKind, id: u64) -> Result<Manifest, CheckpointError> {
        let name = manifest::name_of(kind, id);
        let text = self.store.get(&name).map_err(|error| self.error(&name, error))?;
        let text = String::from_utf8(text).map_err(|_| self.error(&name, "is not UTF-8"))?;
        let mut found = Manifest::of_text(&text).map_err(|problem| self.error(&name, problem))?;
        for (pieces, operator) in found.states.iter().zip(&mut found.run.operators) {
            for piece in pieces {
                let bytes = self.store.get(&piece.name).map_err(|error| self.error(&piece.name, error))?;
                if !piece.is_of(&bytes) {
                    return Err(self.error(&piece.name, "does not have the hash that its name tells: it was changed or cut off"));
                }
                operator.state.extend(bytes);
            }
        }
        Ok(found)
    }

    /// Writes a checkpoint, and removes those that are not kept any longer.
    ///
    /// # Errors
    /// Where it cannot be written: those before it are there still.
    pub fn write(
        &mut self,
        run: &RunSnapshot,
        (kind, stage): (CheckpointKind, JobStage),
        created_ms: i64,
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
        let id = self.last_id + 1;
        let manifest = Manifest {
            format: manifest::FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            id,
            kind,
            job: self.job.clone(),
            statement: self.statement.clone(),
            created_ms,
            stage,
            run: run.clone(),
            states,
        };
        let (name, text) = (manifest.name(), manifest.to_text());
        self.store.put(&name, text.as_bytes()).map_err(|error| self.error(&name, error))?;
        self.last_id = id;
        // What cannot be removed takes room, and nothing else.
        let _ = self.remove_old();
        Ok(Written { id, state_bytes, bytes_written: bytes_written + text.len() as u64 })
    }

    /// Removes checkpoints beyond those that are kept, and pieces that none has.
    fn remove_old(&mut self) -> Result<(), CheckpointError> {
        let names = self.names()?;
        let mut ids: Vec<u64> = names
            .iter()
            .filter_map(|name| manifest::id_of(name))
            .filter(|(kind, _)| *kind == CheckpointKind::Checkpoint)
            .map(|(_, id)| id)
            .collect();
        ids.sort_unstable();
        let old = ids.len().saturating_sub(self.retained.max(1));
        for &id in &ids[..old] {
            let name = manifest::name_of(CheckpointKind::Checkpoint, id);
            self.store.remove(&name).map_err(|error| self.error(&name, error))?;
        }
        let mut used = BTreeSet::new();
        for name in self.names()?.iter().filter(|name| manifest::id_of(name).is_some()) {
            let text = self.store.get(name).map_err(|error| self.error(name, error))?;
            // What cannot be read may need any piece.
            let found = String::from_utf8(text).map_err(|error| error.to_string()).and_then(|text| Manifest::of_text(&text));
            let found = found.map_err(|problem| self.error(name, problem))?;
            used.extend(found.states.into_iter().flatten().map(|piece| piece.name));
        }
        for unused in names.iter().filter(|name| name.starts_with("state-") && !used.contains(*name)) {
            self.store.remove(unused).map_err(|error| self.error(unused, error))?;
            self.pieces.remove(unused);
        }
        Ok(())
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

/// The checkpoints of a job in a directory for all jobs.
pub(crate) fn local_store(directory: &std::path::Path, job: &str) -> io::Result<Arc<dyn CheckpointStore>> {
    let is_plain = |letter: char| letter.is_alphanumeric() || ['-', '_', '.'].contains(&letter);
    let name: String = job.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect();
    // Names that differ only in other letters have directories of their own.
    let name = match name == job && !name.starts_with('.') {
        true => name,
        false => format!("{}-{:08x}", name.trim_start_matches('.'), twox_hash::XxHash3_64::oneshot(job.as_bytes()) as u32),
    };
    Ok(Arc::new(LocalStore::open(&directory.join(name))?))
}
