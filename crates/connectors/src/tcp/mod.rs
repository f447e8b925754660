//! Lines over TCP: `'connector' = 'tcp'`.
//!
//! A table connects to a server, or listens and is one. [`crate::options::table`] lists the options.

mod connect;

mod sink;

mod source;

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::time::Duration;

use pelton_runtime::sink::Sink;

use crate::condition::Condition;
use crate::filesystem::text_stream::{TextReading, check_raw};
use crate::format::{Format, FormatName, TextFormat};
use crate::io::runtime;
use crate::options::{Options, parse_duration};
use crate::{ConnectorError, Open, Opening, TableRequest};

/// Where a table's rows come from or go to, and how long it tries.
#[derive(Debug, Clone)]
struct Endpoint {
    hostname: String,
    port: u16,
    mode: Mode,
    /// What ends a row.
    delimiter: u8,
    on_close: OnClose,
    /// Attempts to connect, beside the first.
    retries_max: u32,
    /// Between two attempts, at most.
    backoff_max: Duration,
    condition: Condition,
}

/// Who waits for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Connect,
    Listen,
}

/// What follows the end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnClose {
    /// The end of the table.
    End,
    /// Another connection.
    Reconnect,
}

/// The delimiter that formats of lines know.
const NEWLINE: u8 = b'\n';

/// The address of a table that listens, where none is given: that of this machine alone.
const LOOPBACK: &str = "127.0.0.1";

impl Endpoint {
    fn of(request: &TableRequest, options: &Options) -> Result<Endpoint, ConnectorError> {
        let mode = options.choice("mode", &[("connect", Mode::Connect), ("listen", Mode::Listen)])?;
        let mode = mode.unwrap_or(Mode::Connect);
        let hostname = match mode {
            Mode::Connect => options.required("hostname", "localhost")?,
            Mode::Listen => options.text("hostname").unwrap_or(LOOPBACK),
        };
        options.required("port", "9999")?;
        let port = options
            .parsed("port", "a number from 1 to 65535", |text| text.trim().parse().ok().filter(|port| *port > 0))?;
        let on_close = options.choice("on-close", &[("end", OnClose::End), ("reconnect", OnClose::Reconnect)])?;
        let backoff_max = options.duration("connect.backoff-max")?;
        Ok(Endpoint {
            hostname: hostname.to_owned(),
            port: port.expect("a required option is there"),
            mode,
            delimiter: options
                .parsed("byte-delimiter", "a byte from 0 to 255", |text| text.trim().parse().ok())?
                .unwrap_or(NEWLINE),
            on_close: on_close.unwrap_or(match mode {
                Mode::Connect => OnClose::End,
                Mode::Listen => OnClose::Reconnect,
            }),
            retries_max: options
                .or_default("connect.retries-max", options.number("connect.retries-max")?, |text| text.parse().ok()),
            backoff_max: options.or_default("connect.backoff-max", backoff_max, parse_duration),
            condition: request.host.conditions.of(&request.name),
        })
    }

    /// Its name in messages.
    fn place(&self) -> String {
        let bracketed = self.hostname.contains(':').then(|| format!("[{}]", self.hostname));
        format!("tcp://{}:{}", bracketed.as_ref().unwrap_or(&self.hostname), self.port)
    }

    /// Begins to listen: clients are accepted from now on.
    fn listen(&self) -> Result<tokio::net::TcpListener, ConnectorError> {
        let place = |error: std::io::Error| ConnectorError::place(self.place(), error);
        let addresses: Vec<SocketAddr> =
            (self.hostname.as_str(), self.port).to_socket_addrs().map_err(place)?.collect();
        let listener = TcpListener::bind(&*addresses).map_err(place)?;
        listener.set_nonblocking(true).map_err(place)?;
        let _entered = runtime().enter();
        tokio::net::TcpListener::from_std(listener).map_err(place)
    }
}

/// The name of the format of a table, where options tell it.
pub(crate) fn told_format(options: &Options) -> Result<Option<&'static str>, ConnectorError> {
    Ok(FormatName::told(options)?.map(FormatName::in_options))
}

/// The format of a table: one of lines.
fn text_format(request: &TableRequest, options: &Options) -> Result<TextFormat, ConnectorError> {
    if let Some(&index) = request.metadata.keys().next() {
        let problem = "is metadata, of which rows over TCP have none";
        return Err(ConnectorError::column(request.schema.field(index).name(), problem));
    }
    options.required("format", "json")?;
    match Format::new(options, None)?.strict(request.strict_values) {
        Format::Text(format) => Ok(format),
        Format::Parquet { .. } => Err(in_files("parquet")),
        Format::Avro { .. } => Err(in_files("avro")),
    }
}

fn in_files(format: &str) -> ConnectorError {
    ConnectorError::option("format", format!("is '{format}', whose rows are in files; use 'csv', 'json' or 'raw'"))
}

/// Reads what a table's options say that is read.
pub(crate) fn source<'a>(request: &'a TableRequest, options: &'a Options) -> Result<Opening<'a>, ConnectorError> {
    let endpoint = Endpoint::of(request, options)?;
    let connections_max = options.number("connections-max")?;
    let connections_max = options.or_default("connections-max", connections_max, |text| text.parse().ok());
    // It concerns writing only, of the same table.
    options.duration("write.timeout")?;
    let reading = TextReading::new(request, text_format(request, options)?)?;
    Ok(Opening::Read(Box::new(move || Ok(Box::new(source::open(request, endpoint, connections_max, reading)?)))))
}

/// Reads what a table's options say that is written.
pub(crate) fn sink<'a>(request: &'a TableRequest, options: &'a Options) -> Result<Open<'a, dyn Sink>, ConnectorError> {
    let endpoint = Endpoint::of(request, options)?;
    // It concerns reading only, of the same table.
    options.number::<usize>("connections-max")?;
    let timeout = options.or_default("write.timeout", options.duration("write.timeout")?, parse_duration);
    let format = text_format(request, options)?;
    check_raw(request, &format)?;
    for field in request.schema.fields() {
        if !format.holds(field.data_type()) {
            let problem = format!("{}; cast it to STRING", format.unheld(field.data_type()));
            return Err(ConnectorError::column(field.name(), problem));
        }
    }
    Ok(Box::new(move || Ok(Box::new(sink::open(request, endpoint, timeout, &format)?))))
}

#[cfg(test)]
mod tests;
