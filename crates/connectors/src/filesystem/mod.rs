//! Files in and out.

use arrow::datatypes::Schema;
use pelton_runtime::sink::Sink;
use pelton_runtime::source::Source;

use crate::options::Options;
use crate::{ConnectorError, TableRequest};

pub(crate) fn open_source(_request: &TableRequest, options: &Options) -> Result<Box<dyn Source>, ConnectorError> {
    Err(unfinished(options))
}

pub(crate) fn open_sink(_request: &TableRequest, options: &Options) -> Result<Box<dyn Sink>, ConnectorError> {
    Err(unfinished(options))
}

pub(crate) fn declared_schema(options: &Options) -> Result<Option<Schema>, ConnectorError> {
    Err(unfinished(options))
}

fn unfinished(options: &Options) -> ConnectorError {
    ConnectorError::place(options.text("path").unwrap_or_default(), "files are not read or written yet")
}
