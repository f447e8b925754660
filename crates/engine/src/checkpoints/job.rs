//! A job that has checkpoints: it finds the one that it goes on from, and has others taken.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pelton_connectors::{CommittingJob, ConnectorError, Disk, JobTransaction, ObjectDirectory};
use pelton_runtime::checkpoint::RunSnapshot;
use pelton_runtime::pool::Pool;
use pelton_runtime::run::RunHandle;

use super::coordinator::{Coordinator, Ended};
use super::error::CheckpointError;
use super::history::Checkpoints;
use super::manifest::Manifest;
use super::parts::ProgramParts;
use super::restore_from::RestoreFrom;
use super::store::{CheckpointStore, LocalStore};
use super::watched::Watched;
use crate::error::Error;
use crate::settings::Settings;

/// A job that has checkpoints, before it starts.
pub(crate) struct Checkpointed {
    pub name: Arc<str>,
    pub checkpoints: Checkpoints,
    pub interval: Option<Duration>,
    /// Whether it goes on from a checkpoint, or begins anew where there is none: what an earlier run has written behind that is removed.
    pub recovers: bool,
    /// In which it writes rows to Kafka exactly once.
    pub transaction: JobTransaction,
    restore_from: Option<RestoreFrom>,
    /// Where its files are, and its checkpoints, if these are in no bucket.
    disk: Arc<dyn Disk>,
    /// The one that it goes on from, with its number as text.
    manifest: Option<(String, Manifest)>,
    /// Whether that may be one of another program, of which it keeps what it has as well.
    is_altered: bool,
}

/// What a run goes on from.
#[derive(Clone, Copy)]
pub(crate) struct Restored<'a> {
    /// Which checkpoint, for people.
    pub place: &'a str,
    pub run: &'a RunSnapshot,
    /// The parts of the program that the run was of, where they are known.
    pub parts: Option<&'a ProgramParts>,
    /// Whether the program may be another one, that begins anew where it differs.
    pub is_altered: bool,
}

impl Checkpointed {
    /// The checkpoints of a job of that name, where settings say where they are; the one that it goes on from is read.
    ///
    /// # Errors
    /// Where these cannot be read.
    pub fn of(
        name: &str,
        statement: &str,
        (settings, disk): (&Settings, &Arc<dyn Disk>),
    ) -> Result<Option<Checkpointed>, CheckpointError> {
        let Some(directory) = &settings.checkpoint_directory else {
            return match settings.restore_from {
                None => Ok(None),
                Some(_) => Err(CheckpointError {
                    place: format!("of the job '{name}'"),
                    problem: "'execution.checkpointing.dir' does not say where it is".to_owned(),
                }),
            };
        };
        let failed =
            |error: io::Error| CheckpointError { place: directory.display().to_string(), problem: error.to_string() };
        let store = store((directory, disk), name).map_err(failed)?;
        let checkpoints = Checkpoints::open(store, name, statement, settings.checkpoints_retained)?;
        let mut job = Checkpointed {
            name: name.into(),
            checkpoints,
            interval: settings.checkpoint_interval,
            recovers: settings.restore_from.is_some(),
            transaction: JobTransaction::default(),
            restore_from: settings.restore_from.clone(),
            disk: disk.clone(),
            manifest: None,
            is_altered: false,
        };
        // Whether one counts that is pending is known when the tables are open.
        if !job.checkpoints.has_pending()? {
            job.load()?;
        }
        Ok(Some(job))
    }

    fn load(&mut self) -> Result<(), CheckpointError> {
        let found = self.restore_from.as_ref().map(|from| self.checkpoints.load(from)).transpose()?.flatten();
        self.is_altered = match (&self.restore_from, &found) {
            (Some(RestoreFrom::LatestBehind { altered_at, .. }), Some(manifest)) => manifest.id <= *altered_at,
            _ => false,
        };
        self.manifest = found.map(|manifest| (manifest.id.to_string(), manifest));
        Ok(())
    }

    /// Finds out what has become of the transaction of an earlier run, and begins the first of this one: behind the opening of its tables, and before its first row.
    ///
    /// # Errors
    /// Where brokers do not answer, or a checkpoint cannot be read or written.
    pub fn begin_transactions(&mut self) -> Result<(), Error> {
        let table = self.transaction.table();
        let refused = |error| Error::Table { table: table.clone().unwrap_or_default(), place: None, error };
        self.transaction.fence().map_err(refused)?;
        if self.checkpoints.has_pending()? {
            let outcome = |prepared: &str| self.transaction.outcome(prepared).map_err(refused);
            self.checkpoints.resolve(self.restore_from.as_ref(), outcome)?;
            self.load()?;
        }
        self.transaction.begin(self.checkpoints.last_id()).map_err(refused)
    }

    /// For its tables.
    pub fn committing(&self) -> CommittingJob {
        CommittingJob {
            name: self.name.clone(),
            interval: self.interval,
            transaction: self.transaction.clone(),
            disk: self.disk.clone(),
        }
    }

    /// The checkpoint that it goes on from.
    pub fn restored(&self) -> Option<Restored<'_>> {
        let (id, Manifest { run, parts, .. }) = self.manifest.as_ref()?;
        Some(Restored { place: id, run, parts: Some(parts), is_altered: self.is_altered })
    }

    /// Takes checkpoints of the run from now on, beside the workers of its pool, and says when it has ended for good.
    ///
    /// # Errors
    /// Where the system has no thread.
    pub fn watch(self, pool: &Pool, (run, parts): (RunHandle, &ProgramParts), ended: Ended) -> Result<Watched, Error> {
        let watched = Watched::restored_from(self.manifest.map(|(_, manifest)| manifest.id));
        let Checkpointed { checkpoints, interval, transaction, .. } = self;
        let checkpoints = checkpoints.of_program(parts.clone());
        Coordinator::new((checkpoints, interval, transaction), run, watched.clone(), ended).start(pool)?;
        Ok(watched)
    }
}

/// The checkpoints of a job in a directory for all jobs, which may be one of a bucket.
fn store((directory, disk): (&Path, &Arc<dyn Disk>), job: &str) -> io::Result<Arc<dyn CheckpointStore>> {
    let is_plain = |letter: char| letter.is_alphanumeric() || ['-', '_', '.'].contains(&letter);
    let name: String = job.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect();
    // Names that differ only in other letters have directories of their own.
    let name = match name == job && !name.starts_with('.') {
        true => name,
        false => {
            format!("{}-{:08x}", name.trim_start_matches('.'), twox_hash::XxHash3_64::oneshot(job.as_bytes()) as u32)
        }
    };
    let objects = ObjectDirectory::of(&directory.to_string_lossy(), &BTreeMap::new()).map_err(|error| match error {
        ConnectorError::Option { problem, .. } => io::Error::other(problem),
        other => io::Error::other(other),
    });
    match objects? {
        Some(objects) => Ok(Arc::new(objects.below(&name))),
        None => Ok(Arc::new(LocalStore::open(disk.clone(), &directory.join(name))?)),
    }
}
