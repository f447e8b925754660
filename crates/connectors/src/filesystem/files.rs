//! Which files a path names, and what is known about them.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use arrow::array::{ArrayRef, Int64Array, StringViewArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use pelton_data::column::sql_name;
use pelton_runtime::source::SourceError;
use regex::Regex;

use super::partition_keys;
use crate::ConnectorError;
use crate::TableRequest;
use crate::format::on_error::OnError;
pub(crate) use crate::format::opened::problem;
use crate::format::{Origin, RowShape};
use crate::options::{Options, one_of};
use crate::storage::s3::Bucket;
use crate::storage::{self, FoundObject, Location};
use pelton_data::spelling::closest;

/// Flink's option for files whose paths match a regular expression.
pub(super) const PATH_PATTERN: &str = "source.path.regex-pattern";

/// A file to read.
#[derive(Debug, Clone)]
pub(crate) struct InputFile {
    pub(super) location: Location,
    /// The same for people, as the table's `path` has it.
    pub(super) place: String,
    /// Bytes, compressed.
    pub(super) size: u64,
    /// Its bytes come when somebody writes them, and can be read once.
    pub(super) is_live: bool,
    /// Milliseconds since 1970-01-01T00:00:00Z.
    modified_millis: i64,
}

/// Which files a table reads.
#[derive(Debug, Clone)]
pub(super) struct Selection {
    /// As the table has it.
    path: String,
    location: Location,
    /// What the absolute path of a file, or the whole path of an object, must match as a whole.
    pattern: Option<Regex>,
}

impl Selection {
    /// # Errors
    /// Where the path has another scheme than that of files, or the pattern is none.
    pub(super) fn of(options: &Options) -> Result<Selection, ConnectorError> {
        let path = options.required("path", "/data/trades.csv")?.to_owned();
        let location = Location::of(&path, options)?;
        let pattern = match options.text(PATH_PATTERN) {
            Some(text) => {
                let whole = Regex::new(text).and_then(|_| Regex::new(&format!("^(?:{text})$")));
                Some(whole.map_err(|error| ConnectorError::option(PATH_PATTERN, pattern_problem(text, &error)))?)
            }
            None => None,
        };
        Ok(Selection { path, location, pattern })
    }

    /// The place that the path names.
    pub(super) fn location(&self) -> &Location {
        &self.location
    }

    /// The path as the table has it.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The files that the path names: itself, those below a directory, or those that match a glob, in the order of their paths.
    /// Names that begin with `.` or `_` are skipped below directories, as Flink does, and by globs whose part for the name begins otherwise.
    pub(super) fn files(&self) -> Result<Vec<InputFile>, ConnectorError> {
        let files = self.found()?;
        if files.is_empty() && self.is_glob() {
            let hint = if self.path.contains('{') { "; patterns have *, ? and [ab], not {a,b}" } else { "" };
            return Err(ConnectorError::place(&self.path, format!("no file matches{hint}")));
        }
        if files.is_empty() && self.pattern.is_none() && self.location.bucket().is_some() {
            return Err(ConnectorError::place(&self.path, "no object has this name, or is below it"));
        }
        Ok(files)
    }

    /// As [`Selection::files`], where a glob may match none yet.
    pub(super) fn found(&self) -> Result<Vec<InputFile>, ConnectorError> {
        let mut files = match self.location.bucket() {
            Some(bucket) => self.objects(bucket)?,
            None => self.local_files()?,
        };
        if let Some(pattern) = &self.pattern {
            files.retain(|file| is_match(pattern, file));
        }
        files.sort_by(|a, b| a.location.path().cmp(b.location.path()));
        files.dedup_by(|a, b| a.location.path() == b.location.path());
        Ok(files)
    }

    /// The objects of a bucket.
    fn objects(&self, bucket: &Bucket) -> Result<Vec<InputFile>, ConnectorError> {
        let place = |error: std::io::Error| ConnectorError::place(&self.path, problem(&error));
        let key = self.location.key();
        let input = |object: FoundObject| InputFile::of_object(&self.location, object);
        if self.is_glob() {
            let pattern =
                glob::Pattern::new(&key).map_err(|error| ConnectorError::option("path", error.to_string()))?;
            let options = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
            let plain = key.split(['*', '?', '[']).next().unwrap_or_default();
            let below = plain.rsplit_once('/').map_or("", |(below, _)| below);
            let is_meant = |object: &FoundObject| {
                pattern.matches_with(&object.key, options) && !is_left_out(Path::new(&object.key), Path::new(&key))
            };
            return Ok(bucket.list(below).map_err(place)?.into_iter().filter(is_meant).map(input).collect());
        }
        let is_directory = key.is_empty() || key.ends_with('/');
        if !is_directory && let Some(object) = bucket.find(&key).map_err(place)? {
            return Ok(vec![input(object)]);
        }
        let root = key.trim_matches('/').len();
        let is_shown = |object: &FoundObject| object.key[root..].split('/').all(|name| hidden_by(name).is_none());
        Ok(bucket.list(&key).map_err(place)?.into_iter().filter(is_shown).map(input).collect())
    }

    /// Files of this machine.
    fn local_files(&self) -> Result<Vec<InputFile>, ConnectorError> {
        let Selection { path, location, .. } = self;
        let local = location.path();
        let text = local.to_string_lossy();
        let mut files = Vec::new();
        match fs::metadata(local) {
            Ok(metadata) if metadata.is_dir() => list(local, &mut files)?,
            Ok(metadata) => files.push(InputFile::new(local.to_path_buf(), &metadata)),
            Err(_) if self.is_glob() => {
                let matches = glob::glob(&text).map_err(|error| ConnectorError::option("path", error.to_string()))?;
                for found in matches {
                    let found = found.map_err(|error| ConnectorError::place(path, error))?;
                    if !is_left_out(&found, local) {
                        add(found, &mut files)?;
                    }
                }
            }
            Err(error) if text.contains('{') => {
                let problem = format!("{}; patterns have *, ? and [ab], not {{a,b}}", problem(&error));
                return Err(ConnectorError::place(path, problem));
            }
            Err(error) => return Err(ConnectorError::place(path, problem(&error))),
        }
        Ok(files)
    }

    fn is_glob(&self) -> bool {
        let path = self.location.path();
        let is_there = || self.location.bucket().is_none() && fs::metadata(path).is_ok();
        path.to_string_lossy().contains(['*', '?', '[']) && !is_there()
    }
}

/// Whether a pattern matches the absolute path of a file.
fn is_match(pattern: &Regex, file: &InputFile) -> bool {
    if file.location.bucket().is_some() {
        return pattern.is_match(&file.place);
    }
    let path = file.location.path();
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    pattern.is_match(&absolute.to_string_lossy())
}

/// What is wrong with a pattern, in a line.
fn pattern_problem(text: &str, error: &regex::Error) -> String {
    let message = error.to_string();
    let reason = message.lines().last().unwrap_or_default().trim_start_matches("error: ");
    format!("must be a regular expression, not '{text}': {reason}")
}

/// The character that a name begins with, if it says that the file is no table's: others have not finished it, or keep it for themselves.
fn hidden_by(name: &str) -> Option<char> {
    name.chars().next().filter(|first| ['.', '_'].contains(first))
}

/// Whether a path that matches a glob has a hidden name whose part of the glob does not begin as the name does.
fn is_left_out(found: &Path, glob: &Path) -> bool {
    let [names, parts] = [found, glob].map(|path| -> Vec<Cow<'_, str>> {
        let name = |component| match component {
            Component::Normal(name) => Some(name),
            _ => None,
        };
        path.components().filter_map(name).map(OsStr::to_string_lossy).collect()
    });
    // Parts before the first `**` and behind the last stand for a name each; what these match is asked for by no part.
    let is_any_depth = |part: &Cow<'_, str>| part == "**";
    let first = parts.iter().position(is_any_depth).unwrap_or(parts.len());
    let last = parts.iter().rposition(is_any_depth).map_or(0, |last| parts.len() - 1 - last);
    names.iter().enumerate().any(|(index, name)| {
        let behind = names.len() - index;
        let part = match index {
            _ if index < first => parts.get(index),
            _ if behind <= last => parts.get(parts.len() - behind),
            _ => None,
        };
        hidden_by(name).is_some_and(|first| !part.is_some_and(|part| part.starts_with(first)))
    })
}

fn list(directory: &Path, files: &mut Vec<InputFile>) -> Result<(), ConnectorError> {
    let place = |error: std::io::Error| ConnectorError::place(directory.to_string_lossy(), problem(&error));
    for entry in fs::read_dir(directory).map_err(place)? {
        let entry = entry.map_err(place)?;
        if hidden_by(&entry.file_name().to_string_lossy()).is_none() {
            add(entry.path(), files)?;
        }
    }
    Ok(())
}

/// Adds a file, or those below a directory. One that was removed since its name was read is not there.
fn add(path: PathBuf, files: &mut Vec<InputFile>) -> Result<(), ConnectorError> {
    match fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => list(&path, files),
        Ok(metadata) => {
            files.push(InputFile::new(path, &metadata));
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(&path).is_err() => Ok(()),
        Err(error) => Err(ConnectorError::place(path.to_string_lossy(), problem(&error))),
    }
}

/// The keys of `METADATA FROM`, with the types Flink gives them.
fn metadata_types() -> [(&'static str, DataType); 4] {
    [
        ("file.path", DataType::Utf8View),
        ("file.name", DataType::Utf8View),
        ("file.size", DataType::Int64),
        ("file.modification-time", DataType::Timestamp(TimeUnit::Millisecond, Some("+00:00".into()))),
    ]
}

impl InputFile {
    pub(super) fn new(path: PathBuf, metadata: &Metadata) -> InputFile {
        let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        InputFile {
            place: path.to_string_lossy().into_owned(),
            location: Location::local(path),
            size: metadata.len(),
            is_live: !metadata.is_file(),
            modified_millis: modified.map_or(0, |since| since.as_millis() as i64),
        }
    }

    /// An object that was found in the bucket of `beside`.
    fn of_object(beside: &Location, object: FoundObject) -> InputFile {
        let FoundObject { key, size, modified_millis } = object;
        let location = beside.with_path(key);
        InputFile { place: location.to_string(), location, size, is_live: false, modified_millis }
    }

    /// The file of a table of that place, if it is there.
    pub(super) fn found_again(place: &str, selection: &Selection) -> Option<InputFile> {
        match selection.location.bucket() {
            Some(bucket) => {
                let (_, key) = storage::object(place)?;
                let found = bucket.find(key).ok()??;
                Some(InputFile::of_object(&selection.location, found))
            }
            None => {
                let metadata = fs::metadata(place).ok().filter(Metadata::is_file)?;
                Some(InputFile::new(place.into(), &metadata))
            }
        }
    }

    /// Stands for an input that is no file.
    pub(super) fn without_path(place: String) -> InputFile {
        InputFile { location: Location::local(""), place, size: 0, is_live: true, modified_millis: 0 }
    }

    /// Stands for a file of `size` bytes that is not there.
    #[cfg(any(test, feature = "fuzz"))]
    pub(super) fn in_memory(size: usize) -> InputFile {
        InputFile {
            location: Location::local(""),
            place: "FILE".into(),
            size: size as u64,
            is_live: false,
            modified_millis: 0,
        }
    }

    /// The values of those columns of `shape` that the file's data does not have, as arrays of one row.
    ///
    /// # Errors
    /// Where the names of its directories do not tell them.
    pub(super) fn constants(&self, shape: &RowShape) -> Result<Vec<ArrayRef>, String> {
        let constant = |(origin, field): (&Origin, &Arc<Field>)| match origin {
            Origin::Data(_) => None,
            Origin::Metadata(key) => Some(Ok(self.metadata(key))),
            Origin::Partition { default_name } => {
                Some(partition_keys::constant(self.location.path(), field, default_name))
            }
        };
        shape.origins.iter().zip(shape.schema.fields()).filter_map(constant).collect()
    }

    /// What a format's `open` makes of it, for rows of this shape.
    ///
    /// # Errors
    /// Where it is no such file, or has not the columns of the table.
    pub(super) fn opened_by<T>(
        &self,
        open: impl FnOnce(&Location, &str, &RowShape, Vec<ArrayRef>, OnError) -> Result<T, ConnectorError>,
        shape: &RowShape,
        on_error: OnError,
    ) -> Result<T, SourceError> {
        let input = |problem: String| SourceError::Input { place: self.place.clone(), problem };
        let constants = self.constants(shape).map_err(input)?;
        open(&self.location, &self.place, shape, constants, on_error).map_err(|error| match error {
            ConnectorError::Place { problem, .. } => input(problem),
            other => input(other.to_string()),
        })
    }

    /// The value of a key of `METADATA FROM`.
    fn metadata(&self, key: &str) -> ArrayRef {
        match key {
            "file.path" => Arc::new(StringViewArray::from(vec![self.place.as_str()])),
            "file.name" => {
                let name = self.location.path().file_name().map_or("".into(), |name| name.to_string_lossy());
                Arc::new(StringViewArray::from(vec![name.as_ref()]))
            }
            "file.size" => Arc::new(Int64Array::from(vec![self.size as i64])),
            _ => Arc::new(TimestampMillisecondArray::from(vec![self.modified_millis]).with_timezone("+00:00")),
        }
    }
}

/// Which of a table's columns a source delivers, and where they come from.
pub(super) fn row_shape(request: &TableRequest) -> Result<RowShape, ConnectorError> {
    let mut data_names = Vec::new();
    let mut origins = Vec::new();
    for (index, field) in request.schema.fields().iter().enumerate() {
        origins.push(match request.metadata.get(&index) {
            None if request.partition_keys.contains(&index) => {
                Origin::Partition { default_name: partition_keys::default_name(request).to_owned() }
            }
            None => {
                data_names.push(field.name().clone());
                Origin::Data(data_names.len() - 1)
            }
            Some(key) => {
                check_metadata(field.name(), field.data_type(), key)?;
                Origin::Metadata(key.clone())
            }
        });
    }
    let delivered = request.columns.iter().enumerate().map(|(delivered, &index)| {
        // A row whose event time is NULL can be placed nowhere: it is as wrong as any other that does not fit the table.
        let is_event_time = request.event_time.is_some_and(|time| time.index == delivered);
        let field = request.schema.field(index);
        Arc::new(field.clone().with_nullable(field.is_nullable() && !is_event_time))
    });
    let schema = Schema::new(delivered.collect::<Vec<_>>());
    let origins = request.columns.iter().map(|&index| origins[index].clone()).collect();
    Ok(RowShape { schema: Arc::new(schema), data_names, origins })
}

fn check_metadata(column: &str, data_type: &DataType, key: &str) -> Result<(), ConnectorError> {
    let types = metadata_types();
    let Some((_, wanted)) = types.iter().find(|(name, _)| *name == key) else {
        let keys: Vec<String> = types.iter().map(|(name, _)| format!("'{name}'")).collect();
        let meant = closest(key, types.iter().map(|(name, _)| *name));
        let meant = meant.map_or_else(|| format!("use {}", one_of(&keys)), |name| format!("did you mean '{name}'?"));
        return Err(ConnectorError::column(
            column,
            format!("asks for the metadata '{key}', which files do not have; {meant}"),
        ));
    };
    if wanted != data_type {
        let problem = format!("must be declared {}, the type of the metadata '{key}'", sql_name(wanted));
        return Err(ConnectorError::column(column, problem));
    }
    Ok(())
}
