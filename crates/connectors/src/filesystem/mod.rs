//! Files in and out: `'connector' = 'filesystem'`.
//!
//! A source reads the files that its `path` names, each a partition of its own, in the order of their paths; a sink
//! writes one file, or a part of a directory.

use arrow::datatypes::Schema;
use pelton_runtime::sink::Sink;
use pelton_runtime::source::Source;

use crate::format::{Format, FormatName};
use crate::options::Options;
use crate::{ConnectorError, TableRequest};

mod files;

mod text_source;

use files::InputFile;

/// Opens the files of a table for reading.
pub(crate) fn open_source(request: &TableRequest, options: &Options) -> Result<Box<dyn Source>, ConnectorError> {
    let (files, format) = inputs(options)?;
    match format {
        Format::Text(format) => Ok(Box::new(text_source::TextSource::open(request, files, format)?)),
        Format::Parquet { .. } => Err(ConnectorError::option("format", "parquet is not read yet")),
    }
}

/// The files that a table's `path` names, and their format.
fn inputs(options: &Options) -> Result<(Vec<InputFile>, Format), ConnectorError> {
    if options.text("source.monitor-interval").is_some() {
        let problem = "is not supported yet: a directory is read once, as it is when the query starts; leave it out";
        return Err(ConnectorError::option("source.monitor-interval", problem));
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

pub(crate) fn open_sink(_request: &TableRequest, options: &Options) -> Result<Box<dyn Sink>, ConnectorError> {
    Err(unfinished(options))
}

pub(crate) fn declared_schema(options: &Options) -> Result<Option<Schema>, ConnectorError> {
    Err(unfinished(options))
}

fn unfinished(options: &Options) -> ConnectorError {
    ConnectorError::place(options.text("path").unwrap_or_default(), "files are not written yet")
}
