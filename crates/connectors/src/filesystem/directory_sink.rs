//! Files of a directory, or of the directories of a table's partitions: parts, which begin and end as the table's policy says.
//!
//! Of a job that has checkpoints, a part is durable when a checkpoint is prepared, and gets its name when that is complete. A part of lines may be written
//! beyond it: the checkpoint says how many of its bytes count. A job that goes on from a checkpoint gives the parts of that their names, which may have been
//! done, goes on with those that are not complete, and removes all others: their rows are written again. Without checkpoints a part gets its name when it ends.
//!
//! A part that is an object ends with each checkpoint: its bytes are uploaded then, and the upload is completed when the checkpoint is. Uploads that are never completed stay unseen.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use pelton_data::Micros;
use pelton_runtime::sink::{Sink, SinkError};

use super::delta_log::{DeltaLog, Transaction};
use super::files::problem;
use super::part::{Part, left_behind, new_part, resumed};
use super::part_file::Publication;
use super::partition_commit::{CommitPolicy, PartitionCommit};
use super::partition_keys::PartitionKeys;
use super::prepared::{self, Prepared};
use super::rolling::RollingPolicy;
use super::sink::extension;
use crate::ConnectorError;
use crate::format::Format;
use crate::storage::Location;

/// What a directory is written by.
pub(super) struct Layout {
    pub(super) directory: Location,
    /// The job whose checkpoints commit its parts.
    pub(super) job: Option<Arc<str>>,
    pub(super) format: Format,
    /// The columns of its files.
    pub(super) schema: SchemaRef,
    pub(super) policy: RollingPolicy,
    /// How rows are divided among directories below it.
    pub(super) keys: Option<PartitionKeys>,
    /// What says which of the parts have the table's rows, where that is not all that are complete.
    pub(super) log: Option<DeltaLog>,
}

/// Parts that are written at once. The one that got rows least recently ends, where rows of another partition come.
const OPEN_PARTS_MAX: usize = 64;

/// Bytes of rows that wait in memory to be encoded in all parts together. Then those of the largest are.
const BUFFERED_BYTES_MAX: usize = 256 << 20;

/// Parts of a directory.
pub(super) struct DirectorySink {
    layout: Layout,
    /// The parts that are written, by the directories of their partitions.
    open: BTreeMap<String, OpenPart>,
    /// The names of parts that are complete, and that no checkpoint has committed; and how these become visible.
    complete: BTreeMap<String, Publication>,
    /// The names of parts that are complete without a checkpoint, and that the table's log has not been told of.
    unlogged: Vec<String>,
    /// Parts before this number are there.
    next_number: u64,
    /// Batches of rows that were taken.
    writes: u64,
    /// Which partitions are complete, where that is said.
    commits: Option<PartitionCommit>,
    /// Whether rows were taken: what is committed before belongs to the checkpoint that the job goes on from.
    has_begun: bool,
    /// When it was looked last whether parts are old.
    checked_at: Instant,
    /// Parts that killed inserts without checkpoints have left.
    left_behind: Vec<PathBuf>,
}

struct OpenPart {
    part: Part,
    began: Instant,
    /// With which of the batches it got rows last.
    written: u64,
    /// Whether a checkpoint counts on it: then it stays, also where the query fails.
    is_in_checkpoint: bool,
}

impl DirectorySink {
    pub(super) fn open(layout: Layout, commits: Option<CommitPolicy>) -> Result<DirectorySink, ConnectorError> {
        let place = |error: io::Error| ConnectorError::place(layout.directory.to_string(), problem(&error));
        make_directory(&layout.directory).map_err(place)?;
        let left_behind = match &layout.job {
            Some(_) => Vec::new(),
            None => left_behind(&layout.directory, "", layout.keys.is_some()).map_err(place)?,
        };
        let mut sink = DirectorySink {
            layout,
            open: BTreeMap::new(),
            complete: BTreeMap::new(),
            unlogged: Vec::new(),
            next_number: 0,
            writes: 0,
            commits: commits.map(PartitionCommit::new),
            has_begun: false,
            checked_at: Instant::now(),
            left_behind,
        };
        if sink.layout.job.is_none() && sink.layout.keys.is_none() && sink.layout.log.is_none() {
            // Also an INSERT without rows makes a file.
            sink.begin("").map_err(|error| ConnectorError::place(error.place, error.problem))?;
        }
        Ok(sink)
    }

    fn error(&self, problem: impl ToString) -> SinkError {
        SinkError { place: self.layout.directory.to_string(), problem: problem.to_string() }
    }

    fn input(&self, result: io::Result<()>) -> Result<(), SinkError> {
        result.map_err(|error| self.error(problem(&error)))
    }

    /// Writes rows of a partition.
    fn write_to(&mut self, partition: &str, rows: &RecordBatch) -> Result<(), SinkError> {
        if let Some(commits) = &mut self.commits {
            commits.pending.entry(partition.to_owned()).or_insert_with(now_ms);
        }
        if !self.open.contains_key(partition) {
            self.make_room()?;
            self.begin(partition)?;
        }
        let open = self.open.get_mut(partition).expect("it is there now");
        open.written = self.writes;
        open.part.write(rows)?;
        let bytes = open.part.bytes();
        if self.layout.policy.is_full(bytes) { self.end(partition) } else { Ok(()) }
    }

    /// Ends the part that got rows least recently, where there are as many as there may be.
    fn make_room(&mut self) -> Result<(), SinkError> {
        if self.open.len() < OPEN_PARTS_MAX {
            return Ok(());
        }
        let oldest = self.open.iter().min_by_key(|(_, open)| open.written).map(|(partition, _)| partition.clone());
        oldest.map_or(Ok(()), |partition| self.end(&partition))
    }

    /// Encodes rows that wait for others, where they take too much memory.
    fn limit_memory(&mut self) -> Result<(), SinkError> {
        let buffered: usize = self.open.values().map(|open| open.part.buffered_bytes()).sum();
        if buffered < BUFFERED_BYTES_MAX {
            return Ok(());
        }
        let largest = self.open.values_mut().max_by_key(|open| open.part.buffered_bytes());
        largest.map_or(Ok(()), |open| open.part.encode())
    }

    /// Begins a part of a partition that has none.
    fn begin(&mut self, partition: &str) -> Result<(), SinkError> {
        let Layout { directory, job, format, schema, .. } = &self.layout;
        let directory = directory.join(partition);
        self.input(make_directory(&directory))?;
        let target = new_part(&directory, job.as_deref().unwrap_or_default(), extension(format), self.next_number);
        let target = target.map_err(|error| self.error(problem(&error)))?;
        let part = Part::new(target, format, schema).map_err(|error| self.error(error))?;
        self.next_number += 1;
        let part = OpenPart { part, began: Instant::now(), written: self.writes, is_in_checkpoint: false };
        self.open.insert(partition.to_owned(), part);
        Ok(())
    }

    /// Ends the part of a partition.
    fn end(&mut self, partition: &str) -> Result<(), SinkError> {
        let Some(OpenPart { mut part, is_in_checkpoint, .. }) = self.open.remove(partition) else { return Ok(()) };
        if is_in_checkpoint {
            part.keep();
        }
        let is_durable = self.layout.job.is_some() || self.layout.log.is_some();
        let publication = part.close(is_durable)?.clone();
        if self.layout.job.is_none() {
            part.publish()?;
            self.unlogged.push(self.name(&part));
            return Ok(());
        }
        self.complete.insert(self.name(&part), publication);
        Ok(())
    }

    /// Lets parts that have their names be rows of the table, where its log says that.
    fn log(&mut self, transaction: Option<&Transaction>, names: Vec<String>) -> Result<(), SinkError> {
        if self.layout.log.is_some() && self.layout.directory.bucket().is_none() {
            // Names that the log has cannot be lost.
            let published: Vec<Prepared> = names.iter().cloned().map(Prepared::Complete).collect();
            self.sync_names(&self.directories_of(&published))?;
        }
        let Layout { directory, log: Some(log), .. } = &mut self.layout else { return Ok(()) };
        let size = |name: String| directory.join(&name).size().map(|size| (name, size));
        let files: io::Result<Vec<(String, u64)>> = names.into_iter().map(size).collect();
        let files = files.map_err(|error| problem(&error));
        let logged = files.and_then(|files| log.commit(transaction, &files));
        logged.map_err(|problem| self.error(problem))
    }

    /// The name of a part, relative to the directory.
    fn name(&self, part: &Part) -> String {
        let name = part.path().strip_prefix(self.layout.directory.path()).expect("it is in the directory");
        name.to_string_lossy().into_owned()
    }

    /// Ends those of the open parts of which that holds.
    fn end_where(&mut self, ends: impl Fn(&OpenPart) -> bool) -> Result<(), SinkError> {
        let ending: Vec<String> =
            self.open.iter().filter(|(_, part)| ends(part)).map(|(partition, _)| partition.clone()).collect();
        ending.iter().try_for_each(|partition| self.end(partition))
    }

    /// Ends parts that are old, if it is time to look.
    fn end_old(&mut self) -> Result<(), SinkError> {
        let Some(interval) = self.layout.policy.check_interval() else { return Ok(()) };
        if self.checked_at.elapsed() < interval {
            return Ok(());
        }
        self.checked_at = Instant::now();
        let policy = self.layout.policy.clone();
        self.end_where(|part| policy.is_old(part.began))
    }

    /// What a checkpoint must say: all parts are durable then.
    fn prepared(&mut self) -> Result<Option<String>, SinkError> {
        let line = |(name, publication): (&String, &Publication)| match publication {
            Publication::Rename => Prepared::Complete(name.clone()),
            Publication::CompleteUpload(upload) => Prepared::Uploaded(upload.clone(), name.clone()),
        };
        let mut lines: Vec<Prepared> = self.complete.iter().map(line).collect();
        if let Some(commits) = &self.commits {
            let pending = commits.pending.iter().map(|(partition, began_ms)| (*began_ms, partition.clone()));
            lines.extend(pending.map(|(began_ms, partition)| Prepared::Pending(began_ms, partition)));
            lines.extend(commits.complete.iter().cloned().map(Prepared::Committed));
        }
        if let Some(log) = self.layout.log.as_mut().filter(|_| !lines.is_empty()) {
            lines.push(Prepared::Transaction(log.next_transaction()));
        }
        for open in self.open.values_mut() {
            let bytes = open.part.sync()?;
            open.is_in_checkpoint = true;
            let name = open.part.path().strip_prefix(self.layout.directory.path()).expect("it is in the directory");
            lines.push(Prepared::Open(bytes, name.to_string_lossy().into_owned()));
        }
        let directories = self.directories_of(&lines);
        self.sync_names(&directories)?;
        Ok(prepared::to_text(&lines))
    }

    /// The directories in which the files are that a checkpoint names.
    fn directories_of(&self, lines: &[Prepared]) -> BTreeSet<PathBuf> {
        let mut directories = BTreeSet::new();
        // Objects are in none, which `Prepared::Uploaded` names.
        for line in lines {
            let (Prepared::Complete(name) | Prepared::Open(_, name)) = line else { continue };
            let above = Path::new(name).ancestors().skip(1);
            directories.extend(above.map(|above| self.layout.directory.path().join(above)));
        }
        directories
    }

    /// Makes the names of files in directories durable.
    fn sync_names(&self, directories: &BTreeSet<PathBuf>) -> Result<(), SinkError> {
        let disk = self.layout.directory.disk();
        self.input(directories.iter().try_for_each(|directory| disk.sync_names(directory)))
    }

    /// Ends the parts of partitions that are complete.
    fn end_partitions(&mut self) -> Result<(), SinkError> {
        let Some(commits) = &mut self.commits else { return Ok(()) };
        if let Err(problem) = commits.find_complete(now_ms()) {
            return Err(self.error(problem));
        }
        let complete: Vec<String> = commits.complete.iter().cloned().collect();
        complete.iter().try_for_each(|partition| self.end(partition))
    }

    /// Says of a partition that it is complete.
    fn commit_partition(&mut self, partition: &str) -> Result<(), SinkError> {
        let Some(commits) = &mut self.commits else { return Ok(()) };
        commits.complete.remove(partition);
        let file = self.layout.directory.join(partition).join(&commits.policy.success_file);
        let written = match file.bucket() {
            Some(bucket) => bucket.put_empty(&file.key()),
            None => file.disk().create(file.path()).map(drop),
        };
        written.map_err(|error| SinkError { place: file.to_string(), problem: problem(&error) })
    }

    /// Lets parts that have ended without a checkpoint be rows of the table.
    fn log_ended(&mut self) -> Result<(), SinkError> {
        let ended = std::mem::take(&mut self.unlogged);
        self.log(None, ended)
    }

    /// Lets the parts of a checkpoint be rows of the table.
    fn log_transaction(&mut self, lines: &[Prepared]) -> Result<(), SinkError> {
        let transaction = lines.iter().find_map(|line| match line {
            Prepared::Transaction(transaction) => Some(transaction),
            _ => None,
        });
        let Some(transaction) = transaction else { return Ok(()) };
        let complete = lines.iter().filter_map(|line| match line {
            Prepared::Complete(name) | Prepared::Uploaded(_, name) => Some(name.clone()),
            _ => None,
        });
        self.log(Some(transaction), complete.collect())
    }

    /// Makes a part visible.
    fn publish(&mut self, name: &str, publication: &Publication) -> Result<(), SinkError> {
        let published = publication.publish(&self.layout.directory.join(name));
        published.map_err(|error| self.error(format!("the part {name} of a checkpoint: {}", problem(&error))))?;
        self.complete.remove(name);
        Ok(())
    }

    /// Goes on with a part of which so many bytes count.
    fn resume(&mut self, bytes: u64, name: &str) -> Result<(), SinkError> {
        let target = resumed(&self.layout.directory.join(name), bytes);
        let failed = |problem: String| self.error(format!("the part {name} of a checkpoint: {problem}"));
        let target = target.map_err(|error| failed(problem(&error)))?;
        let part = Part::new(target, &self.layout.format, &self.layout.schema);
        let part = part.map_err(|error| failed(error.to_string()))?;
        let partition = name.rsplit_once('/').map_or("", |(partition, _)| partition);
        let part = OpenPart { part, began: Instant::now(), written: self.writes, is_in_checkpoint: true };
        self.open.insert(partition.to_owned(), part);
        Ok(())
    }
}

/// The clock, in milliseconds since 1970-01-01T00:00:00Z.
fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64
}

/// Makes a directory. Objects need none.
fn make_directory(directory: &Location) -> io::Result<()> {
    if directory.bucket().is_some() { Ok(()) } else { directory.disk().make_directory(directory.path()) }
}

impl Sink for DirectorySink {
    fn remarks(&self) -> Vec<String> {
        let remark = |path: &PathBuf| {
            let path = path.display();
            format!("{path} was left by an INSERT that was killed, and may have rows of it; remove or rename it")
        };
        self.left_behind.iter().map(remark).collect()
    }

    fn write(&mut self, rows: &RecordBatch) -> Result<(), SinkError> {
        self.has_begun = true;
        self.writes += 1;
        match &self.layout.keys {
            None => self.write_to("", rows)?,
            Some(keys) => {
                let split = keys.split(rows).map_err(|problem| self.error(problem))?;
                split.iter().try_for_each(|(partition, rows)| self.write_to(partition, rows))?;
            }
        }
        self.limit_memory()?;
        self.end_old()?;
        self.log_ended()
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.end_old()?;
        self.log_ended()?;
        self.open.values_mut().try_for_each(|open| open.part.flush())
    }

    fn flush_again(&self) -> Option<Duration> {
        let interval = self.layout.policy.check_interval().filter(|_| !self.open.is_empty())?;
        Some(interval.saturating_sub(self.checked_at.elapsed()))
    }

    fn advance(&mut self, watermark: Micros) {
        if let Some(commits) = &mut self.commits {
            commits.watermark = watermark;
        }
    }

    fn prepare(&mut self) -> Result<Option<String>, SinkError> {
        self.has_begun = true;
        self.end_old()?;
        self.end_partitions()?;
        let ends = self.layout.policy.at_checkpoints;
        self.end_where(|_| ends)?;
        self.prepared()
    }

    fn prepare_end(&mut self) -> Result<Option<String>, SinkError> {
        self.has_begun = true;
        self.end_partitions()?;
        self.end_where(|_| true)?;
        self.prepared()
    }

    fn commit(&mut self, prepared: &str) -> Result<(), SinkError> {
        let lines = prepared::of_text(prepared).map_err(|problem| self.error(problem))?;
        for line in &lines {
            match line {
                Prepared::Complete(name) => self.publish(name, &Publication::Rename)?,
                Prepared::Uploaded(upload, name) => self.publish(name, &Publication::CompleteUpload(upload.clone()))?,
                Prepared::Open(bytes, name) if !self.has_begun => self.resume(*bytes, name)?,
                Prepared::Pending(began_ms, partition) if !self.has_begun => {
                    if let Some(commits) = &mut self.commits {
                        commits.pending.insert(partition.clone(), *began_ms);
                    }
                }
                Prepared::Open(..) | Prepared::Pending(..) | Prepared::Committed(_) | Prepared::Transaction(_) => {}
            }
        }
        self.log_transaction(&lines)?;
        // Behind the files that are in them.
        for line in &lines {
            if let Prepared::Committed(partition) = line {
                self.commit_partition(partition)?;
            }
        }
        let directories = self.directories_of(&lines);
        self.sync_names(&directories)
    }

    fn recover(&mut self) -> Result<(), SinkError> {
        let Layout { directory, job, keys, .. } = &self.layout;
        let left_behind = left_behind(directory, job.as_deref().unwrap_or_default(), keys.is_some());
        self.input(left_behind.and_then(|parts| parts.iter().try_for_each(|part| directory.disk().remove(part))))
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        match self.layout.job {
            None => {
                self.end_where(|_| true)?;
                self.end_partitions()?;
                self.log_ended()?;
                let complete = self.commits.as_ref().map(|commits| commits.complete.clone()).unwrap_or_default();
                complete.iter().try_for_each(|partition| self.commit_partition(partition))
            }
            // All rows are behind the last checkpoint, which comes after them.
            Some(_) if self.open.is_empty() => Ok(()),
            Some(_) => Err(self.error("rows were written behind the last checkpoint")),
        }
    }
}

impl Drop for DirectorySink {
    fn drop(&mut self) {
        self.open.values_mut().filter(|open| open.is_in_checkpoint).for_each(|open| open.part.keep());
    }
}
