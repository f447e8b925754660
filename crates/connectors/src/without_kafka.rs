//! Stands for the connector `kafka` in a program that was built without it.

use pelton_runtime::sink::Sink;

use crate::options::Options;
use crate::{ConnectorError, Open, Opening, TableRequest};

fn absent() -> ConnectorError {
    ConnectorError::option(
        "connector",
        "is 'kafka', which this program was built without: build it with the feature 'kafka'",
    )
}

pub(crate) fn told_format(_: &Options) -> Result<Option<&'static str>, ConnectorError> {
    Err(absent())
}

pub(crate) fn is_bounded(_: &Options) -> Result<bool, ConnectorError> {
    Err(absent())
}

pub(crate) fn begins_now(_: &Options) -> bool {
    false
}

pub(crate) fn commits_rows(_: &Options) -> bool {
    false
}

pub(crate) fn source<'a>(_: &'a TableRequest, _: &'a Options) -> Result<Opening<'a>, ConnectorError> {
    Err(absent())
}

pub(crate) fn sink<'a>(_: &'a TableRequest, _: &'a Options) -> Result<Open<'a, dyn Sink>, ConnectorError> {
    Err(absent())
}
