//! A directory whose files are read as they appear.
//!
//! All of them are one partition: files that are found at one look are read one after the other, in the order of their paths, and those that are found later
//! behind them. So the rows have one order, and one watermark that does not go back from one file to the next. A file is read once: its path is remembered
//! as long as it is there.

use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use pelton_runtime::source::{Position, Read, Source, SourceError};

use super::files::{InputFile, Selection};
use super::source::{FileReading, FileStream};
use crate::condition::Condition;
use crate::options::Options;
use crate::{ConnectorError, TableRequest};

/// Flink's option for watching a directory: between two looks.
pub(crate) const MONITOR_INTERVAL: &str = "source.monitor-interval";

/// Looks in a row that may fail. Then the query does.
const FAILED_LOOKS_MAX: u32 = 10;

/// How often a directory is looked at; `None` where its files are read as they are when reading begins.
pub(super) fn interval(options: &Options) -> Result<Option<Duration>, ConnectorError> {
    match options.duration(MONITOR_INTERVAL)? {
        Some(Duration::ZERO) => Err(ConnectorError::option(MONITOR_INTERVAL, "must be longer than 0")),
        interval => Ok(interval),
    }
}

/// Files of a directory, or that match a pattern, as they appear.
pub(super) struct WatchedSource {
    reading: FileReading,
    selection: Selection,
    interval: Duration,
    condition: Condition,
    /// The file that is being read.
    current: Option<FileStream>,
    /// Files that were found and not begun, in the order in which they are read.
    waiting: VecDeque<InputFile>,
    /// The paths of files that were read, as far as these were there at the last look.
    completed: BTreeSet<String>,
    files_begun: usize,
    looked_at: Option<Instant>,
    failed_looks: u32,
}

impl WatchedSource {
    /// # Errors
    /// Where the path is not there.
    pub(super) fn open(
        request: &TableRequest,
        reading: FileReading,
        selection: Selection,
        interval: Duration,
    ) -> Result<WatchedSource, ConnectorError> {
        if selection.found()?.iter().any(|file| file.is_live && file.location.path() == selection.location().path()) {
            let problem = "is a pipe or a device, which cannot be watched; leave 'source.monitor-interval' out";
            return Err(ConnectorError::place(selection.path(), problem));
        }
        Ok(WatchedSource {
            reading,
            selection,
            interval,
            condition: request.host.conditions.of(&request.name),
            current: None,
            waiting: VecDeque::new(),
            completed: BTreeSet::new(),
            files_begun: 0,
            looked_at: None,
            failed_looks: 0,
        })
    }

    fn begin(&mut self, file: InputFile) -> &mut FileStream {
        let stream = self.reading.stream(file, self.files_begun);
        self.files_begun += 1;
        self.current.insert(stream)
    }

    /// Finds files, if it is time to. Returns how long to wait where there is nothing to read.
    fn look(&mut self) -> Result<Option<Duration>, SourceError> {
        let since = self.looked_at.map(|at| at.elapsed());
        if let Some(left) = since.and_then(|since| self.interval.checked_sub(since)).filter(|left| !left.is_zero()) {
            return Ok(Some(left));
        }
        self.looked_at = Some(Instant::now());
        match self.selection.found() {
            Ok(mut files) => {
                self.condition.clear();
                self.failed_looks = 0;
                // A pipe would be waited for, and others behind it with it.
                files.retain(|file| !file.is_live);
                let mut known = std::mem::take(&mut self.completed);
                for file in files {
                    match known.take(&file.place) {
                        Some(place) => drop(self.completed.insert(place)),
                        None => self.waiting.push_back(file),
                    }
                }
            }
            Err(error) => {
                self.failed_looks += 1;
                self.condition.set(&error.to_string());
                if self.failed_looks >= FAILED_LOOKS_MAX {
                    let problem = format!("{error}; it was looked at {FAILED_LOOKS_MAX} times");
                    return Err(SourceError::Input { place: self.selection.path().to_owned(), problem });
                }
            }
        }
        Ok(self.waiting.is_empty().then_some(self.interval))
    }
}

impl Source for WatchedSource {
    fn partitions(&self) -> usize {
        1
    }

    fn read(&mut self, _partition: usize) -> Result<Read, SourceError> {
        loop {
            if let Some(stream) = &mut self.current {
                match self.reading.read(stream)? {
                    Read::End => {
                        self.completed.insert(stream.place().to_owned());
                        self.current = None;
                    }
                    read => return Ok(read),
                }
            }
            if let Some(file) = self.waiting.pop_front() {
                self.begin(file);
            } else if let Some(wait) = self.look()? {
                return Ok(Read::Wait(wait));
            }
        }
    }

    /// That of the file that is being read; between two files, none.
    fn partition_name(&self, _partition: usize) -> Cow<'_, str> {
        Cow::Borrowed(self.current.as_ref().map_or("", FileStream::place))
    }

    fn position(&self, _partition: usize) -> Option<Position> {
        self.current.as_ref().map_or(Some(Position::default()), FileStream::position)
    }

    fn completed(&self) -> Vec<String> {
        self.completed.iter().cloned().collect()
    }

    fn resume(&mut self, name: &str, position: Option<Position>) -> bool {
        let Some(position) = position else {
            self.completed.insert(name.to_owned());
            return true;
        };
        if name.is_empty() {
            return true;
        }
        let Some(file) = InputFile::found_again(name, &self.selection) else { return false };
        self.begin(file).seek(position);
        true
    }
}
