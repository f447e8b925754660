//! Files in and out: `'connector' = 'filesystem'`.
//!
//! A source reads the files that its `path` names, each a partition of its own, in the order of their paths; a sink
//! writes one file, or a part of a directory.

use std::path::Path;

use arrow::datatypes::Schema;
use pelton_runtime::sink::Sink;
use pelton_runtime::source::Source;

use crate::format::{Format, FormatName, parquet};
use crate::options::Options;
use crate::{ConnectorError, Open, Opening, TableRequest};

pub(crate) mod files;

mod live;

mod text_source;

mod parquet_source;

mod sink;

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

/// The format that a path tells by its extension, unless it names a directory.
fn format_of_path(path: &str) -> Option<FormatName> {
    FormatName::of_file(path).filter(|_| !Path::new(path).is_dir())
}

/// Reads what a table's options say of a file to write.
pub(crate) fn sink<'a>(request: &'a TableRequest, options: &'a Options) -> Result<Open<'a, dyn Sink>, ConnectorError> {
    sink::sink(request, options)
}

/// The columns of a table of files, where the first file with rows tells them: Parquet always does, CSV with a header and
/// JSON by their first rows.
pub(crate) fn declared_schema(options: &Options) -> Result<Option<Schema>, ConnectorError> {
    let (files, format) = Inputs::of(options)?.open(options)?;
    for file in &files {
        let schema = match &format {
            Format::Text(format) => text_source::declared_schema(file, format)?,
            Format::Parquet { .. } => Some(parquet::declared_schema(&file.path, &file.place)?),
        };
        if schema.is_some() {
            return Ok(schema);
        }
    }
    Ok(None)
}
