//! Files in and out: `'connector' = 'filesystem'`.
//!
//! A source reads the files that its `path` names, each a partition of its own, in the order of their paths; a sink
//! writes one file, or a part of a directory.

use arrow::datatypes::Schema;
use pelton_runtime::sink::Sink;
use pelton_runtime::source::Source;

use crate::format::{Format, FormatName, parquet};
use crate::options::Options;
use crate::{ConnectorError, TableRequest};

mod files;

mod live;

mod text_source;

mod parquet_source;

mod sink;

#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;

use files::InputFile;

/// Flink's option for watching a directory.
const MONITOR_INTERVAL: &str = "source.monitor-interval";

/// Opens the files of a table for reading.
pub(crate) fn open_source(request: &TableRequest, options: &Options) -> Result<Box<dyn Source>, ConnectorError> {
    let (files, format) = inputs(options)?;
    match format {
        Format::Text(format) => Ok(Box::new(text_source::TextSource::open(request, files, format)?)),
        Format::Parquet { on_error, .. } => {
            Ok(Box::new(parquet_source::ParquetSource::open(request, files, on_error)?))
        }
    }
}

/// The files that a table's `path` names, and their format.
fn inputs(options: &Options) -> Result<(Vec<InputFile>, Format), ConnectorError> {
    if options.text(MONITOR_INTERVAL).is_some() {
        let problem = "is not supported yet: a directory is read once, as it is when the query starts; leave it out";
        return Err(ConnectorError::option(MONITOR_INTERVAL, problem));
    }
    let path = options.required("path", "/data/trades.csv")?;
    let files = files::resolve(path)?;
    let inferred = files.first().and_then(|file| FormatName::of_file(&file.place)).or(FormatName::of_file(path));
    let format = Format::new(options, inferred)?;
    if options.text("format").is_none() {
        let other = files.iter().find(|file| FormatName::of_file(&file.place) != inferred);
        if let Some(file) = other {
            let problem = format!("is missing, and the name of {} does not tell the same as the others", file.place);
            return Err(ConnectorError::option("format", problem));
        }
    }
    Ok((files, format))
}

/// Opens a file for writing a table to.
pub(crate) fn open_sink(request: &TableRequest, options: &Options) -> Result<Box<dyn Sink>, ConnectorError> {
    sink::open_sink(request, options)
}

/// The columns of a table of files, where the first file with rows tells them: Parquet always does, CSV with a header and
/// JSON by their first rows.
pub(crate) fn declared_schema(options: &Options) -> Result<Option<Schema>, ConnectorError> {
    let (files, format) = inputs(options)?;
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
