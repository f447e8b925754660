//! One file of a job that has checkpoints. It gets its name at the end; until then a checkpoint says how many of its bytes count.

use std::path::Path;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use pelton_runtime::sink::{Sink, SinkError};

use super::files::problem;
use super::part::{Part, resumed};
use super::part_file::{Publication, temporary};
use super::sink::file_target;
use crate::ConnectorError;
use crate::format::Format;
use crate::format::compression::Compression;
use crate::storage::Location;

/// What a checkpoint says of a file that is complete, in front of its bytes. A job that goes on from there writes behind its rows, in a copy of it.
const COMPLETE: &str = "complete ";

/// A file.
pub(super) struct CommittedFile {
    location: Location,
    format: Format,
    schema: SchemaRef,
    stage: Stage,
}

enum Stage {
    /// Nothing is written. Of a job that goes on from a checkpoint so many bytes count.
    Unopened {
        resumed_at: Option<u64>,
    },
    Open(Box<Part>),
    /// It is complete, with so many bytes.
    Closed {
        bytes: u64,
    },
}

impl CommittedFile {
    pub fn new(location: &Location, format: &Format, schema: &SchemaRef) -> CommittedFile {
        let stage = Stage::Unopened { resumed_at: None };
        CommittedFile { location: location.clone(), format: format.clone(), schema: schema.clone(), stage }
    }

    fn error(&self, problem: impl ToString) -> SinkError {
        SinkError { place: self.location.to_string(), problem: problem.to_string() }
    }

    /// Opens the file where it is not open.
    fn part(&mut self) -> Result<&mut Part, SinkError> {
        if let Stage::Unopened { resumed_at } = self.stage {
            let target = match resumed_at {
                Some(bytes) => resumed(&self.location, bytes).map_err(|error| problem(&error)),
                None => {
                    let place = |error: ConnectorError| match error {
                        ConnectorError::Place { problem, .. } => problem,
                        other => other.to_string(),
                    };
                    file_target(&self.location, &self.format, &self.schema).map_err(place)
                }
            };
            let target = target.map_err(|problem| self.error(problem))?;
            let part = Part::new(target, &self.format, &self.schema).map_err(|error| self.error(error))?;
            self.stage = Stage::Open(Box::new(part));
        }
        match &mut self.stage {
            Stage::Open(part) => Ok(part),
            Stage::Unopened { .. } | Stage::Closed { .. } => unreachable!("nothing is written behind the end"),
        }
    }

    /// Makes its name durable, or the one that it has until its end.
    fn sync_name(&self) -> Result<(), SinkError> {
        let directory = self.location.path().parent().filter(|directory| !directory.as_os_str().is_empty());
        let synced = self.location.disk().sync_names(directory.unwrap_or(Path::new(".")));
        synced.map_err(|error| self.error(problem(&error)))
    }

    /// Whether what was written of it is of use before its end.
    fn is_plain_text(&self) -> bool {
        matches!(self.format, Format::Text(_)) && Compression::of(self.location.path()) == Compression::None
    }
}

impl Sink for CommittedFile {
    fn write(&mut self, rows: &RecordBatch) -> Result<(), SinkError> {
        self.part()?.write(rows)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        match &mut self.stage {
            Stage::Open(part) => part.flush(),
            Stage::Unopened { .. } | Stage::Closed { .. } => Ok(()),
        }
    }

    fn unprepared(&self) -> Option<String> {
        let problem = "a Parquet, Avro or compressed file is of no use before its end; name a directory, in which each checkpoint makes a file visible";
        (!self.is_plain_text()).then(|| problem.to_owned())
    }

    fn prepare(&mut self) -> Result<Option<String>, SinkError> {
        Ok(match &mut self.stage {
            Stage::Open(part) => {
                let bytes = part.sync()?;
                self.sync_name()?;
                Some(bytes.to_string())
            }
            Stage::Unopened { resumed_at } => resumed_at.map(|bytes| bytes.to_string()),
            Stage::Closed { bytes } => Some(format!("{COMPLETE}{bytes}")),
        })
    }

    fn prepare_end(&mut self) -> Result<Option<String>, SinkError> {
        let known = match self.stage {
            Stage::Closed { bytes } => Some(bytes),
            // It has nothing new.
            Stage::Unopened { resumed_at: None } => self.location.disk().size(self.location.path()).ok(),
            Stage::Unopened { resumed_at: Some(_) } | Stage::Open(_) => None,
        };
        let bytes = match known {
            Some(bytes) => bytes,
            None => {
                self.part()?.close(true)?;
                self.sync_name()?;
                let bytes = self.location.disk().size(&temporary(self.location.path()));
                bytes.map_err(|error| self.error(problem(&error)))?
            }
        };
        if known.is_none() {
            self.stage = Stage::Closed { bytes };
        }
        Ok(Some(format!("{COMPLETE}{bytes}")))
    }

    fn commit(&mut self, prepared: &str) -> Result<(), SinkError> {
        if let Some(bytes) = prepared.strip_prefix(COMPLETE).and_then(|bytes| bytes.parse::<u64>().ok()) {
            // What is there under the temporary name may be a copy behind which a later run has written.
            if !self.location.disk().size(self.location.path()).is_ok_and(|published| published == bytes) {
                let published = Publication::Rename.publish(&self.location);
                published.map_err(|error| self.error(problem(&error)))?;
            }
            return self.sync_name();
        }
        if let Stage::Unopened { resumed_at } = &mut self.stage {
            let bytes = prepared.parse().ok();
            *resumed_at = bytes;
            return bytes.map(drop).ok_or_else(|| self.error(format!("a checkpoint says '{prepared}' of it")));
        }
        Ok(())
    }

    fn recover(&mut self) -> Result<(), SinkError> {
        let (disk, temporary) = (self.location.disk(), temporary(self.location.path()));
        match self.stage {
            Stage::Unopened { resumed_at: Some(_) } => self.part().map(drop),
            Stage::Unopened { resumed_at: None } if disk.is_left_behind(&temporary) => {
                disk.remove(&temporary).map_err(|error| self.error(problem(&error)))
            }
            _ => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        match self.stage {
            Stage::Open(_) => Err(self.error("rows were written behind the last checkpoint")),
            Stage::Unopened { .. } | Stage::Closed { .. } => Ok(()),
        }
    }
}

impl Drop for CommittedFile {
    fn drop(&mut self) {
        // A checkpoint may count on what is there.
        if let Stage::Open(part) = &mut self.stage {
            part.keep();
        }
    }
}
