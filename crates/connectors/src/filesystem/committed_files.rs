//! Files of a job that has checkpoints: each checkpoint makes the rows before it visible, as a file of their own.
//!
//! A part is closed and durable when a checkpoint is prepared, and gets its name when that is complete. A job that goes on from a checkpoint gives the parts of that
//! their names, which may have been done, and removes those behind it: their rows are written again.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use pelton_runtime::sink::{Sink, SinkError};

use super::files::problem;
use super::part::{Part, left_behind, new_part, temporary};
use super::sink::extension;
use crate::ConnectorError;
use crate::format::Format;

/// Parts of a directory.
pub(super) struct CommittedFiles {
    directory: PathBuf,
    job: String,
    format: Format,
    schema: SchemaRef,
    /// Where rows go, once there is one since the last checkpoint.
    part: Option<Part>,
    /// Names of parts that were prepared, and are not committed.
    prepared: Vec<String>,
    /// Parts before this number are there.
    next_number: u64,
}

impl CommittedFiles {
    pub fn open(
        directory: &Path,
        job: &str,
        format: &Format,
        schema: &SchemaRef,
    ) -> Result<CommittedFiles, ConnectorError> {
        let failed = |error: io::Error| ConnectorError::place(directory.to_string_lossy(), problem(&error));
        fs::create_dir_all(directory).map_err(failed)?;
        Ok(CommittedFiles {
            directory: directory.to_owned(),
            job: job.to_owned(),
            format: format.clone(),
            schema: schema.clone(),
            part: None,
            prepared: Vec::new(),
            next_number: 0,
        })
    }

    fn error(&self, problem: impl ToString) -> SinkError {
        SinkError { place: self.directory.to_string_lossy().into_owned(), problem: problem.to_string() }
    }

    fn part(&mut self) -> Result<&mut Part, SinkError> {
        if self.part.is_none() {
            let target = new_part(&self.directory, &self.job, extension(&self.format), self.next_number);
            let target = target.map_err(|error| self.error(problem(&error)))?;
            let part = Part::new(target, &self.format, &self.schema).map_err(|error| self.error(error))?;
            self.next_number += 1;
            self.part = Some(part);
        }
        Ok(self.part.as_mut().expect("it is there now"))
    }

    /// Gives a part its name, and makes that durable.
    fn publish(&self, name: &str) -> io::Result<()> {
        let path = self.directory.join(name);
        match fs::rename(temporary(&path), &path) {
            // It has it already.
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.exists() => Ok(()),
            renamed => renamed,
        }
    }

    /// Makes the names of the directory's files durable.
    fn sync_names(&self) -> io::Result<()> {
        // Elsewhere than on Unix a directory cannot be opened as a file, and names are durable with the files.
        if cfg!(unix) { File::open(&self.directory)?.sync_all() } else { Ok(()) }
    }
}

impl Sink for CommittedFiles {
    fn write(&mut self, rows: &RecordBatch) -> Result<(), SinkError> {
        self.part()?.write(rows)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.part.as_mut().map_or(Ok(()), Part::flush)
    }

    fn prepare(&mut self) -> Result<Option<String>, SinkError> {
        if let Some(mut part) = self.part.take() {
            part.close(true)?;
            let name = part.path().file_name().map_or("".into(), |name| name.to_string_lossy());
            self.prepared.push(name.into_owned());
            self.sync_names().map_err(|error| self.error(problem(&error)))?;
        }
        Ok((!self.prepared.is_empty()).then(|| self.prepared.join("/")))
    }

    fn commit(&mut self, prepared: &str) -> Result<(), SinkError> {
        for name in prepared.split('/') {
            let published = self.publish(name);
            published.map_err(|error| self.error(format!("the part {name} of a checkpoint: {}", problem(&error))))?;
            self.prepared.retain(|known| known != name);
        }
        self.sync_names().map_err(|error| self.error(problem(&error)))
    }

    fn recover(&mut self) -> Result<(), SinkError> {
        let removed =
            left_behind(&self.directory, &self.job).and_then(|parts| parts.iter().try_for_each(fs::remove_file));
        removed.map_err(|error| self.error(problem(&error)))
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        match &self.part {
            // All rows are behind the last checkpoint, which comes after them.
            None => Ok(()),
            Some(_) => Err(self.error("rows were written behind the last checkpoint")),
        }
    }
}
