//! Files in and out: `'connector' = 'filesystem'`.
//!
//! A source reads the files that its `path` names, each a partition of its own, in the order of their paths; a sink
//! writes one file, or a part of a directory.

use std::collections::BTreeMap;
use std::path::Path;

use pelton_runtime::sink::Sink;
use pelton_runtime::source::Source;

use crate::format::csv::Dialect;
use crate::format::{Format, FormatName, TextKind, parquet};
use crate::options::Options;
use crate::{ConnectorError, Declared, Open, Opening, TableRequest};

pub(crate) mod files;

mod live;

pub(crate) mod text_source;

mod parquet_source;

mod sink;

mod part;

mod committed_file;

mod committed_files;

#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;

use files::InputFile;

/// Flink's option for watching a directory.
const MONITOR_INTERVAL: &str = "source.monitor-interval";

/// Reads what a table's options say of files to read.
pub(crate) fn source<'a>(request: &'a TableRequest, options: &'a Options) -> Result<Opening<'a>, ConnectorError> {
    let inputs = Inputs::of(options)?;
    let Some(format) = &inputs.format else {
        return Ok(Opening::ByData(Box::new(move || {
            let (files, format) = inputs.open(options)?;
            Ok(Box::new(move || source_of(request, files, format)))
        })));
    };
    // All that is wrong without regard to any file.
    source_of(request, Vec::new(), format.clone())?;
    Ok(Opening::Read(Box::new(move || {
        let (files, format) = inputs.open(options)?;
        source_of(request, files, format)
    })))
}

fn source_of(request: &TableRequest, files: Vec<InputFile>, format: Format) -> Result<Box<dyn Source>, ConnectorError> {
    match format.strict(request.strict_values) {
        Format::Text(format) => Ok(Box::new(text_source::TextSource::open(request, files, format)?)),
        Format::Parquet { on_error, .. } => {
            Ok(Box::new(parquet_source::ParquetSource::open(request, files, on_error)?))
        }
    }
}

/// What a table's options say of its files.
struct Inputs<'a> {
    path: &'a str,
    /// The format that the path tells.
    named: Option<FormatName>,
    /// Unless it is told by the names of files below a directory.
    format: Option<Format>,
}

impl<'a> Inputs<'a> {
    fn of(options: &Options<'a>) -> Result<Inputs<'a>, ConnectorError> {
        if options.text(MONITOR_INTERVAL).is_some() {
            let problem =
                "is not supported yet: a directory is read once, as it is when the query starts; leave it out";
            return Err(ConnectorError::option(MONITOR_INTERVAL, problem));
        }
        let path = options.required("path", "/data/trades.csv")?;
        let named = format_of_path(files::local(path)?);
        let is_told = named.is_some() || options.text("format").is_some();
        let format = if is_told { Some(Format::new(options, named)?) } else { None };
        Ok(Inputs { path, named, format })
    }

    /// The files there are, and their format.
    fn open(self, options: &Options) -> Result<(Vec<InputFile>, Format), ConnectorError> {
        let files = files::resolve(self.path)?;
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
        Some(path) => format_of_path(files::local(path)?),
        None => None,
    };
    Ok(FormatName::told(options)?.or(named).map(FormatName::in_options))
}

/// The format that a path tells by its extension, unless it names a directory.
fn format_of_path(path: &str) -> Option<FormatName> {
    FormatName::of_file(path).filter(|_| !Path::new(path).is_dir())
}

/// Reads what a table's options say of a file to write.
pub(crate) fn sink<'a>(request: &'a TableRequest, options: &'a Options) -> Result<Open<'a, dyn Sink>, ConnectorError> {
    sink::sink(request, options)
}

/// The columns of a table of files that names none, which the first file with rows tells, and what else that tells.
pub(crate) fn declared(options: &Options) -> Result<Option<Declared>, ConnectorError> {
    let inputs = Inputs::of(options)?;
    let path = inputs.path;
    let (files, format) = inputs.open(options)?;
    let names: Vec<&str> = options.names().collect();
    let is_told = |name: &str| names.contains(&name);
    for (index, file) in files.iter().enumerate() {
        let Format::Text(text) = &format else {
            let schema = parquet::declared_schema(&file.path, &file.place)?;
            return Ok(Some(Declared { schema, options: format_option(file) }));
        };
        let Some(inferred) = text_source::declared_schema(file, text, &is_told)? else { continue };
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
            Err(ConnectorError::place(path, problem))
        }
        _ => Ok(None),
    }
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
        let names = text_source::header(&file.path, &dialect);
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
