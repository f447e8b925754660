//! Files in and out: `'connector' = 'filesystem'`.
//!
//! A source reads the files that its `path` names, each a partition of its own, or watches a directory and reads one file after the other; a sink
//! writes one file, or parts of a directory.

use std::collections::BTreeMap;
use std::path::Path;

use arrow::datatypes::Schema;
use pelton_runtime::sink::Sink;
use pelton_runtime::source::Source;

use crate::format::csv::Dialect;
use crate::format::{Format, FormatName, TextKind, avro, parquet};
use crate::options::Options;
use crate::storage::{self, Location};
use crate::{ConnectorError, Declared, Open, Opening, TableRequest};

pub(crate) mod files;

mod live;

pub(crate) mod text_stream;

mod parquet_stream;

mod avro_stream;

mod source;

mod watched;

mod sink;

mod part;

mod part_file;

mod committed_file;

mod prepared;

mod rolling;

mod partition_keys;

mod partition_commit;

mod directory_sink;

pub(crate) mod delta;

mod delta_log;

#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;

use files::{InputFile, Selection};
use source::{FileReading, FileSource};
use watched::WatchedSource;

pub(crate) use watched::MONITOR_INTERVAL;

/// Reads what a table's options say of files to read.
pub(crate) fn source<'a>(request: &'a TableRequest, options: &'a Options) -> Result<Opening<'a>, ConnectorError> {
    let inputs = Inputs::of(options)?;
    rolling::acknowledge(options);
    partition_commit::acknowledge(options);
    options.text(partition_keys::DEFAULT_NAME);
    if let Some(interval) = watched::interval(options)? {
        let Inputs { selection, format, .. } = inputs;
        // Nobody knows what files there will be.
        let format = format.map_or_else(|| Format::new(options, None), Ok)?;
        let reading = FileReading::new(request, format)?;
        return Ok(Opening::Read(Box::new(move || {
            Ok(Box::new(WatchedSource::open(request, reading, selection, interval)?))
        })));
    }
    let Some(format) = &inputs.format else {
        return Ok(Opening::ByData(Box::new(move || {
            let (files, format) = inputs.open(options)?;
            Ok(Box::new(move || source_of(request, files, format)))
        })));
    };
    // All that is wrong without regard to any file.
    FileReading::new(request, format.clone())?;
    Ok(Opening::Read(Box::new(move || {
        let (files, format) = inputs.open(options)?;
        source_of(request, files, format)
    })))
}

/// Checks the columns of `PARTITIONED BY`.
pub(crate) fn check_partition_keys(request: &TableRequest) -> Result<(), ConnectorError> {
    partition_keys::check(request)
}

/// Whether the files of a table are all there when reading begins.
pub(crate) fn is_bounded(options: &Options) -> Result<bool, ConnectorError> {
    Ok(watched::interval(options)?.is_none())
}

fn source_of(request: &TableRequest, files: Vec<InputFile>, format: Format) -> Result<Box<dyn Source>, ConnectorError> {
    Ok(Box::new(FileSource::new(FileReading::new(request, format)?, files)))
}

/// What a table's options say of its files.
struct Inputs {
    selection: Selection,
    /// The format that the path tells.
    named: Option<FormatName>,
    /// Unless it is told by the names of files below a directory.
    format: Option<Format>,
}

impl Inputs {
    fn of(options: &Options) -> Result<Inputs, ConnectorError> {
        let selection = Selection::of(options)?;
        // What watches the files is read where they are read, and nothing but `declared` reads them before.
        options.text(MONITOR_INTERVAL);
        let named = format_of_path(options.required("path", "/data/trades.csv")?);
        let is_told = named.is_some() || options.text("format").is_some();
        let format = if is_told { Some(Format::new(options, named)?) } else { None };
        Ok(Inputs { selection, named, format })
    }

    /// The files there are, and their format.
    fn open(self, options: &Options) -> Result<(Vec<InputFile>, Format), ConnectorError> {
        let files = self.selection.files()?;
        let inferred = self.named.or_else(|| files.first().and_then(|file| FormatName::of_file(&file.place)));
        let format = match self.format {
            Some(format) => format,
            None => Format::new(options, inferred)?,
        };
        if options.text("format").is_none() {
            let other = files.iter().find(|file| FormatName::of_file(&file.place) != inferred);
            if let Some(file) = other {
                let problem =
                    format!("is missing, and the name of {} does not tell the same as the others", file.place);
                return Err(ConnectorError::option("format", problem));
            }
        }
        Ok((files, format))
    }
}

/// The name of the format of a table, where options or the path tell it.
pub(crate) fn told_format(options: &Options) -> Result<Option<&'static str>, ConnectorError> {
    let named = match options.text("path") {
        Some(path) => {
            Location::of(path, options)?;
            format_of_path(path)
        }
        None => None,
    };
    Ok(FormatName::told(options)?.or(named).map(FormatName::in_options))
}

/// The format that a path tells by its extension, unless it names a directory.
fn format_of_path(path: &str) -> Option<FormatName> {
    let is_directory = match storage::object(path) {
        Some((_, key)) => key.ends_with('/'),
        None => Path::new(path.strip_prefix("file://").unwrap_or(path)).is_dir(),
    };
    FormatName::of_file(path).filter(|_| !is_directory)
}

/// Reads what a table's options say of a file to write.
pub(crate) fn sink<'a>(request: &'a TableRequest, options: &'a Options) -> Result<Open<'a, dyn Sink>, ConnectorError> {
    sink::sink(request, options)
}

/// The columns of a table of files that names none, which the first file with rows tells, and what else that tells.
pub(crate) fn declared(options: &Options) -> Result<Option<Declared>, ConnectorError> {
    let inputs = Inputs::of(options)?;
    let path = inputs.selection.path().to_owned();
    let (files, format) = inputs.open(options)?;
    let names: Vec<&str> = options.names().collect();
    let is_told = |name: &str| names.contains(&name);
    for (index, file) in files.iter().enumerate() {
        let text = match &format {
            Format::Text(text) => text,
            Format::Parquet { .. } => return of_schema(file, parquet::declared_schema(&file.location, &file.place)?),
            Format::Avro { .. } => return of_schema(file, avro::declared_schema(&file.location, &file.place)?),
        };
        let Some(inferred) = text_stream::declared_schema(file, text, &is_told)? else { continue };
        if let (TextKind::Csv(dialect), Some(header)) = (&text.kind, &inferred.header) {
            check_headers(&files[index + 1..], dialect, &inferred.options, (file, header))?;
        }
        let mut found = format_option(file);
        found.extend(inferred.options.into_iter().map(|(name, value)| (name.to_string(), value)));
        return Ok(Some(Declared { schema: inferred.schema, options: found }));
    }
    match &format {
        Format::Text(text) if matches!(text.kind, TextKind::Json { .. }) => {
            let problem = "holds no JSON objects to tell its columns by: list them in CREATE TABLE";
            Err(ConnectorError::place(&path, problem))
        }
        _ => Ok(None),
    }
}

/// What a file tells that has its schema.
fn of_schema(file: &InputFile, schema: Schema) -> Result<Option<Declared>, ConnectorError> {
    Ok(Some(Declared { schema, options: format_option(file) }))
}

/// The option that tells what a file's name does.
fn format_option(file: &InputFile) -> BTreeMap<String, String> {
    let format = FormatName::of_file(&file.place).map(|format| ("format".to_string(), format.in_options().to_string()));
    format.into_iter().collect()
}

/// The files of a table have their columns in one order: their headers say the same.
fn check_headers(
    files: &[InputFile],
    dialect: &Dialect,
    found: &[(&str, String)],
    (first, header): (&InputFile, &[String]),
) -> Result<(), ConnectorError> {
    let mut dialect = dialect.clone();
    for (name, value) in found {
        match *name {
            "csv.field-delimiter" => dialect.delimiter = value.replace("\\t", "\t").into_bytes(),
            "csv.allow-comments" => dialect.comment = Some(b'#'),
            "csv.trim" => dialect.trim = true,
            _ => {}
        }
    }
    for file in files {
        let names = text_stream::header(&file.location, &dialect);
        let names = names.map_err(|error| ConnectorError::place(&file.place, files::problem(&error)))?;
        if let Some(names) = names.filter(|names| names != header) {
            let problem = format!(
                "begins with {}, where {} begins with {}; files of one table have the same columns in the same order: read them one by one",
                names.join(", "),
                first.place,
                header.join(", ")
            );
            return Err(ConnectorError::place(&file.place, problem));
        }
    }
    Ok(())
}
