//! What of an engine outlives its process: permanent tables and views, settings of the engine, and the jobs that run.
//!
//! `catalog.sql` is a script that makes the tables and views again, in the order in which they were made, and `job-<hash>.json` are the jobs. Both are replaced as a
//! whole when something changes, before the statement that changed it returns.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pelton_connectors::LocalDisk;
use pelton_plan::Catalog;
use serde::{Deserialize, Serialize};

use crate::checkpoints::store::{CheckpointStore, LocalStore};
use crate::error::Error;

/// The script of tables and views.
const CATALOG: &str = "catalog.sql";

/// The directory of checkpoints below the data directory.
const CHECKPOINTS: &str = "checkpoints";

/// The data directory of an engine.
pub(crate) struct Journal {
    directory: PathBuf,
    store: LocalStore,
    written: Mutex<Written>,
    /// What is executed is in the script already.
    is_replaying: AtomicBool,
}

/// What `catalog.sql` says.
#[derive(Default)]
struct Written {
    settings: BTreeMap<String, String>,
    /// Names, and the statements that made them.
    relations: Vec<(String, String)>,
}

/// A job that is started again when the engine is opened.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct JobRecord {
    pub name: String,
    pub statement: String,
    /// Those of the session that started it.
    pub settings: BTreeMap<String, String>,
    /// Checkpoints of an earlier job of this name have numbers up to this.
    pub checkpoints_before: u64,
    /// Those up to this are of the query that it was altered from.
    #[serde(default)]
    pub altered_at: u64,
}

impl JobRecord {
    /// The name of its value.
    fn value(name: &str) -> String {
        format!("job-{:016x}.json", twox_hash::XxHash3_64::oneshot(name.as_bytes()))
    }
}

impl Journal {
    /// Opens a data directory, which is made where it is not there.
    ///
    /// # Errors
    /// Where it cannot be.
    pub fn open(directory: &Path) -> Result<Journal, Error> {
        let store = LocalStore::open(Arc::new(LocalDisk), directory).map_err(|error| unreadable(directory, &error))?;
        Ok(Journal {
            directory: directory.to_owned(),
            store,
            written: Mutex::default(),
            is_replaying: AtomicBool::new(true),
        })
    }

    /// Where the checkpoints of its jobs are.
    pub fn checkpoints(&self) -> PathBuf {
        self.directory.join(CHECKPOINTS)
    }

    /// Writes what changes from now on: the script has been executed.
    pub fn begin(&self) {
        self.is_replaying.store(false, Ordering::SeqCst);
    }

    /// The script of tables, views and settings; empty where there is none.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn script(&self) -> Result<String, Error> {
        match self.store.get(CATALOG) {
            Ok(bytes) => String::from_utf8(bytes)
                .map_err(|_| unreadable(&self.directory.join(CATALOG), &io::Error::other("it is not UTF-8"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(unreadable(&self.directory.join(CATALOG), &error)),
        }
    }

    /// The jobs that ran when the engine ended.
    ///
    /// # Errors
    /// Where one cannot be read.
    pub fn jobs(&self) -> Result<Vec<JobRecord>, Error> {
        let names = self.store.list().map_err(|error| unreadable(&self.directory, &error))?;
        let mut jobs = Vec::new();
        for name in names.iter().filter(|name| name.starts_with("job-") && name.ends_with(".json")) {
            let path = self.directory.join(name);
            let bytes = self.store.get(name).map_err(|error| unreadable(&path, &error))?;
            let job = serde_json::from_slice(&bytes).map_err(|error| unreadable(&path, &error.into()))?;
            jobs.push(job);
        }
        jobs.sort_by(|one: &JobRecord, other| one.name.cmp(&other.name));
        Ok(jobs)
    }

    /// Notes a table or view that was made by this statement.
    ///
    /// # Errors
    /// Where that cannot be written.
    pub fn relation_made(&self, name: &str, statement: &str) -> Result<(), Error> {
        let mut written = self.written();
        if !written.relations.iter().any(|(known, _)| known == name) {
            written.relations.push((name.to_owned(), statement.trim().trim_end_matches(';').to_owned()));
        }
        self.write(&written)
    }

    /// Notes that tables or views were dropped: those that the catalogue has not.
    ///
    /// # Errors
    /// Where that cannot be written.
    pub fn relations_dropped(&self, catalog: &Catalog) -> Result<(), Error> {
        let mut written = self.written();
        written.relations.retain(|(name, _)| catalog.get(name).is_some());
        self.write(&written)
    }

    /// Notes the value of a setting of the engine; `None` where it was reset.
    ///
    /// # Errors
    /// Where that cannot be written.
    pub fn setting_changed(&self, key: &str, value: Option<&str>) -> Result<(), Error> {
        let mut written = self.written();
        match value {
            Some(value) => written.settings.insert(key.to_owned(), value.to_owned()),
            None => written.settings.remove(key),
        };
        self.write(&written)
    }

    /// Notes a job that has started.
    ///
    /// # Errors
    /// Where that cannot be written.
    pub fn job_started(&self, job: &JobRecord) -> Result<(), Error> {
        let name = JobRecord::value(&job.name);
        let bytes = serde_json::to_vec_pretty(job).expect("all of it has a form in JSON");
        self.store.put(&name, &bytes).map_err(|error| unwritable(&self.directory.join(name), &error))
    }

    /// Notes that a job does not start again.
    ///
    /// # Errors
    /// Where that cannot be written.
    pub fn job_ended(&self, name: &str) -> Result<(), Error> {
        let value = JobRecord::value(name);
        let removed = self.store.remove(std::slice::from_ref(&value));
        removed.map_err(|error| unwritable(&self.directory.join(value), &error))
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, written: &Written) -> Result<(), Error> {
        // A process that ends meanwhile leaves the whole script.
        if self.is_replaying.load(Ordering::SeqCst) {
            return Ok(());
        }
        let quoted = |text: &str| text.replace('\'', "''");
        let mut script = String::from("-- Written by Pelton: it is read when the engine is opened.\n");
        for (key, value) in &written.settings {
            let _ = writeln!(script, "SET '{}' = '{}';", quoted(key), quoted(value));
        }
        for (_, statement) in &written.relations {
            let _ = write!(script, "\n{statement};\n");
        }
        let put = self.store.put(CATALOG, script.as_bytes());
        put.map_err(|error| unwritable(&self.directory.join(CATALOG), &error))
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Error {
    Error::Usage(format!("{} cannot be read: {error}", path.display()))
}

fn unwritable(path: &Path, error: &io::Error) -> Error {
    Error::Usage(format!(
        "{} cannot be written, so that what was done is lost with the process: {error}",
        path.display()
    ))
}
