//! Sources and sinks, one folder each, and the encodings they share.
//!
//! A record enters and leaves Pelton here. A table's `WITH (…)` options name a connector; [`open_source`] turns a
//! [`TableRequest`] into something the runtime takes bytes from, chunk by chunk, and whose chunks any worker decodes into
//! columns; [`open_sink`] into something that encodes and writes result rows.
//!
//! In reading order: [`options`] (what a table's options say), `table` (what a connector is told of a table), `job_transaction` (how a job writes exactly once in
//! transactions), `storage` (where files are), [`filesystem`] (files in and out), `generated` (what the
//! generators share) with [`nexmark`], [`hdes`], [`ysb`] and [`datagen`], [`replay`] (any source again and again, from memory), [`mod@print`],
//! [`blackhole`], `io` (how network clients meet the workers), [`tcp`] and [`kafka`].

use std::collections::BTreeMap;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use pelton_runtime::sink::Sink;
use pelton_runtime::source::Source;

mod error;

pub mod options;

mod condition;

mod job_transaction;

mod table;

pub mod file;

mod io;

mod storage;

pub mod filesystem;

pub(crate) mod format;

mod random;

mod pace;

mod generated;

pub mod nexmark;

pub mod hdes;

pub mod ysb;

pub mod datagen;

pub mod replay;

pub mod print;

pub mod blackhole;

pub mod tcp;

#[cfg(feature = "kafka")]
pub mod kafka;

#[cfg(not(feature = "kafka"))]
#[path = "without_kafka.rs"]
pub mod kafka;

#[cfg(test)]
mod testing;

pub use condition::Conditions;
pub use error::ConnectorError;
pub use format::on_error::OnError;
pub use job_transaction::{JobTransaction, Transaction, TransactionOutcome};
use options::Options;
use replay::{Replay, ReplaySource};
pub use storage::{Disk, DiskFile, LocalDisk, ObjectDirectory};
pub use table::{CommittingJob, Declared, Host, TableRequest, TextLength};
use table::{Open, Opening};

/// Of a table whose partitions are those of a topic: often some of them have no rows.
const PARTITION_IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The connectors there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connector {
    Filesystem,
    Delta,
    Nexmark,
    Hdes,
    Ysb,
    Datagen,
    Print,
    Blackhole,
    Tcp,
    Kafka,
}

/// Names in SQL, for finding them and for messages.
const CONNECTORS: &[(&str, Connector)] = &[
    ("filesystem", Connector::Filesystem),
    ("delta", Connector::Delta),
    ("nexmark", Connector::Nexmark),
    ("hdes", Connector::Hdes),
    ("ysb", Connector::Ysb),
    ("datagen", Connector::Datagen),
    ("print", Connector::Print),
    ("blackhole", Connector::Blackhole),
    ("tcp", Connector::Tcp),
    ("kafka", Connector::Kafka),
];

/// Whether a table with these options is read on from where it was when a job goes on from a checkpoint. Of pipes that is not known before they are opened.
pub fn is_read_on(options: &BTreeMap<String, String>) -> bool {
    let is_replayed = options.get("replay").is_some_and(|value| value != "none");
    let connector = Connector::of(&Options::new(options));
    !is_replayed && connector.is_ok_and(|connector| connector != Connector::Tcp)
}

/// Whether a table with these options gets each row of a job with checkpoints once, and not again after a failure.
pub fn commits_rows(options: &BTreeMap<String, String>) -> bool {
    let options = Options::new(options);
    match Connector::of(&options) {
        Ok(Connector::Filesystem | Connector::Delta) => true,
        Ok(Connector::Kafka) => kafka::commits_rows(&options),
        Ok(_) | Err(_) => false,
    }
}

impl Connector {
    fn of(options: &Options) -> Result<Connector, ConnectorError> {
        options.required("connector", "filesystem")?;
        Ok(options.choice("connector", CONNECTORS)?.expect("a required option is there"))
    }

    /// Whether rows are made rather than read, at a pace of their own.
    fn has_pace(self, options: &Options) -> Result<bool, ConnectorError> {
        match self {
            Connector::Nexmark | Connector::Hdes | Connector::Datagen => Ok(true),
            Connector::Ysb => ysb::has_pace(options),
            Connector::Filesystem
            | Connector::Delta
            | Connector::Print
            | Connector::Blackhole
            | Connector::Tcp
            | Connector::Kafka => Ok(false),
        }
    }

    /// Reads the options of a table that is read. What makes its rows is opened by them.
    fn source<'a>(self, request: &'a TableRequest, options: &'a Options) -> Result<Opening<'a>, ConnectorError> {
        let generated = match self {
            Connector::Filesystem => return filesystem::source(request, options),
            Connector::Tcp => return tcp::source(request, options),
            Connector::Kafka => return kafka::source(request, options),
            Connector::Nexmark => nexmark::open_source(request, options)?,
            Connector::Hdes => hdes::open_source(request, options)?,
            Connector::Ysb => ysb::open_source(request, options)?,
            Connector::Datagen => datagen::open_source(request, options)?,
            Connector::Delta => return Err(sink_only("delta")),
            Connector::Print => return Err(sink_only("print")),
            Connector::Blackhole => return Err(sink_only("blackhole")),
        };
        Ok(Opening::Read(Box::new(|| Ok(generated))))
    }

    /// Reads the options of a table that is written.
    fn sink<'a>(self, request: &'a TableRequest, options: &'a Options) -> Result<Open<'a, dyn Sink>, ConnectorError> {
        let sink: Box<dyn Sink> = match self {
            Connector::Filesystem => return filesystem::sink(request, options),
            Connector::Delta => return filesystem::delta::sink(request, options),
            Connector::Tcp => return tcp::sink(request, options),
            Connector::Kafka => return kafka::sink(request, options),
            Connector::Nexmark => return Err(source_only("nexmark")),
            Connector::Hdes => return Err(source_only("hdes")),
            Connector::Ysb => return Err(source_only("ysb")),
            Connector::Datagen => return Err(source_only("datagen")),
            Connector::Print => print::open_sink(request, options)?,
            Connector::Blackhole => Box::new(blackhole::Blackhole),
        };
        Ok(Box::new(|| Ok(sink)))
    }

    fn is_bounded(self, options: &Options) -> Result<bool, ConnectorError> {
        match self {
            Connector::Filesystem => filesystem::is_bounded(options),
            Connector::Tcp => Ok(false),
            Connector::Kafka => kafka::is_bounded(options),
            Connector::Nexmark => Ok(nexmark::is_bounded(options)),
            Connector::Hdes => Ok(hdes::is_bounded(options)),
            Connector::Ysb => ysb::is_bounded(options),
            Connector::Datagen => Ok(datagen::is_bounded(options)),
            Connector::Delta => Err(sink_only("delta")),
            Connector::Print => Err(sink_only("print")),
            Connector::Blackhole => Err(sink_only("blackhole")),
        }
    }
}

/// Opens a table for reading.
///
/// # Errors
/// [`ConnectorError`] where the options or columns make no sense to the connector, or the input is not there.
pub fn open_source(request: &TableRequest) -> Result<Box<dyn Source>, ConnectorError> {
    open_completed_source(request, |source, _| source)
}

/// Whether a source of the table has positions ([`Source::position`]), so that another one that reads other columns can go on where it is.
pub fn has_positions(options: &BTreeMap<String, String>) -> bool {
    let options = Options::new(options);
    let has_pace = Connector::of(&options).and_then(|connector| connector.has_pace(&options)).unwrap_or(false);
    has_pace && Replay::of(&options, has_pace).is_ok_and(|replay| replay.is_none())
}

/// The table that takes the rows of a table that do not fit it.
pub fn dead_letter_table(options: &BTreeMap<String, String>) -> Option<&str> {
    options.get(format::on_error::DEAD_LETTER_TABLE).map(String::as_str)
}

/// Whether queries that begin to read a table at different times may share one source: each sees the rows that come from then on. Else each reads it from where its
/// options say.
pub fn may_share(options: &BTreeMap<String, String>) -> bool {
    if dead_letter_table(options).is_some() {
        return false;
    }
    let options = Options::new(options);
    match Connector::of(&options) {
        Ok(Connector::Kafka) => kafka::begins_now(&options),
        // Each query reads all files that are there.
        Ok(Connector::Filesystem) => filesystem::is_bounded(&options).unwrap_or(true),
        _ => true,
    }
}

/// How long a partition of a table may deliver nothing before it no longer holds back the watermark, where neither the table nor the session says; for ever without one.
pub fn idle_timeout(options: &BTreeMap<String, String>) -> Option<Duration> {
    matches!(Connector::of(&Options::new(options)), Ok(Connector::Kafka)).then_some(PARTITION_IDLE_TIMEOUT)
}

/// What happens to rows of a table that do not fit it.
///
/// # Errors
/// [`ConnectorError`] where its options make no sense.
pub fn on_error(options: &BTreeMap<String, String>) -> Result<OnError, ConnectorError> {
    OnError::of_table(&Options::new(options))
}

/// Checks the options and columns of a table that is read, as [`open_source`] does before it opens anything: files need not be there.
///
/// # Errors
/// [`ConnectorError`] where the options or columns make no sense to the connector.
pub fn check_source(request: &TableRequest) -> Result<(), ConnectorError> {
    source(request, |_, _, _| Ok(()))
}

/// Opens a table for reading whose rows are not complete as they are decoded: `complete` wraps the source in one that adds,
/// for example, an event time that is computed from other columns, to which `request.event_time` may then point. It is told
/// what happens to rows that do not fit the table. A replay keeps completed rows.
///
/// # Errors
/// As [`open_source`].
pub fn open_completed_source(
    request: &TableRequest,
    complete: impl FnOnce(Box<dyn Source>, OnError) -> Box<dyn Source>,
) -> Result<Box<dyn Source>, ConnectorError> {
    source(request, |open, options, replay| {
        let source = open()?;
        let source = complete(source, OnError::of_table(options)?);
        Ok(match replay {
            Some(replay) => Box::new(ReplaySource::load(source, request, replay)?),
            None => source,
        })
    })
}

/// Reads the options of a table that is read, and hands on what opens it, the options, and how it is replayed.
fn source<T>(
    request: &TableRequest,
    then: impl FnOnce(Open<'_, dyn Source>, &Options<'_>, Option<Replay>) -> Result<T, ConnectorError>,
) -> Result<T, ConnectorError> {
    let options = Options::new(&request.options);
    let connector = Connector::of(&options)?;
    let has_pace = connector.has_pace(&options)?;
    let Some(replay) = Replay::of(&options, has_pace)? else {
        let open = connector.source(request, &options)?.finish(&options)?;
        return then(open, &options, None);
    };
    let mut input = request.clone();
    // The replay has a pace, and its input is read to the end, by nobody who could be woken.
    input.host.waker = None;
    input.options.retain(|name, _| !name.starts_with("on-overload"));
    if has_pace {
        input.options.insert("pace".into(), "flat-out".into());
    }
    let options = Options::new(&input.options);
    Replay::acknowledge(&options);
    let open = Connector::of(&options)?.source(&input, &options)?.finish(&options)?;
    if !connector.is_bounded(&options)? {
        return Err(ConnectorError::option(
            "replay",
            "needs an input that ends: set 'rows', or 'number-of-rows' of datagen",
        ));
    }
    then(open, &options, Some(replay))
}

/// Opens a table for writing.
///
/// # Errors
/// [`ConnectorError`] where the options or columns make no sense to the connector, or the output cannot be made.
pub fn open_sink(request: &TableRequest) -> Result<Box<dyn Sink>, ConnectorError> {
    let options = Options::new(&request.options);
    let open = Connector::of(&options)?.sink(request, &options)?;
    options.finish()?;
    open()
}

/// Checks the options and columns of a table that is written, as [`open_sink`] does before it makes anything.
///
/// # Errors
/// [`ConnectorError`] where the options or columns make no sense to the connector.
pub fn check_sink(request: &TableRequest) -> Result<(), ConnectorError> {
    let options = Options::new(&request.options);
    drop(Connector::of(&options)?.sink(request, &options)?);
    options.finish()
}

/// Whether a table with these options ends when it is read.
///
/// # Errors
/// [`ConnectorError`] where the options name no connector or make no sense to it.
pub fn is_bounded(options: &BTreeMap<String, String>) -> Result<bool, ConnectorError> {
    let options = Options::new(options);
    let connector = Connector::of(&options)?;
    match Replay::of(&options, connector.has_pace(&options)?)? {
        Some(replay) => Ok(replay.is_bounded()),
        None => connector.is_bounded(&options),
    }
}

/// The columns of a table that is created without naming any, where its connector or data can tell; else `None`.
///
/// # Errors
/// [`ConnectorError`] where the options make no sense to the connector, or the data cannot be read.
pub fn declared(options: &BTreeMap<String, String>) -> Result<Option<Declared>, ConnectorError> {
    let options = Options::new(options);
    match Connector::of(&options)? {
        Connector::Filesystem => filesystem::declared(&options),
        Connector::Nexmark => nexmark::declared_schema(&options).map(Declared::of).map(Some),
        Connector::Hdes => hdes::declared_schema(&options).map(Declared::of).map(Some),
        Connector::Ysb => ysb::declared_schema(&options).map(Declared::of).map(Some),
        Connector::Delta
        | Connector::Datagen
        | Connector::Print
        | Connector::Blackhole
        | Connector::Tcp
        | Connector::Kafka => Ok(None),
    }
}

/// Checks the names of a table's options, and their values as far as they can be without a look at data.
///
/// # Errors
/// [`ConnectorError`] for the first option that is none of the connector's or its format's, or takes no such value.
pub fn check_options(options: &BTreeMap<String, String>, columns: &[&str]) -> Result<(), ConnectorError> {
    let given = Options::new(options);
    let format = match Connector::of(&given)? {
        Connector::Filesystem => filesystem::told_format(&given)?,
        Connector::Delta => Some("parquet"),
        Connector::Tcp => tcp::told_format(&given)?,
        Connector::Kafka => kafka::told_format(&given)?,
        _ => None,
    };
    options::check(options, columns, format)
}

/// The table's columns (all of `request.schema`) with the types in which a source delivers them: a STRING may come as a
/// dictionary.
///
/// # Errors
/// [`ConnectorError`] where the options name no connector or make no sense to it.
pub fn physical_schema(request: &TableRequest) -> Result<SchemaRef, ConnectorError> {
    let options = Options::new(&request.options);
    let connector = Connector::of(&options)?;
    let has_partitions = matches!(connector, Connector::Filesystem | Connector::Delta);
    if let Some(&key) = request.partition_keys.first().filter(|_| !has_partitions) {
        let problem = "is in PARTITIONED BY, and only tables of the connectors 'filesystem' and 'delta' are partitioned; leave that out";
        return Err(ConnectorError::column(request.schema.field(key).name(), problem));
    }
    if has_partitions {
        filesystem::check_partition_keys(request)?;
    }
    match connector {
        Connector::Nexmark => generated::physical_schema(request, &nexmark::declared_schema(&options)?),
        Connector::Hdes => generated::physical_schema(request, &hdes::declared_schema(&options)?),
        Connector::Ysb => generated::physical_schema(request, &ysb::declared_schema(&options)?),
        Connector::Filesystem
        | Connector::Delta
        | Connector::Datagen
        | Connector::Print
        | Connector::Blackhole
        | Connector::Tcp
        | Connector::Kafka => Ok(request.schema.clone()),
    }
}

fn source_only(connector: &str) -> ConnectorError {
    ConnectorError::option("connector", format!("is '{connector}', which can only be read"))
}

fn sink_only(connector: &str) -> ConnectorError {
    ConnectorError::option("connector", format!("is '{connector}', which can only be written"))
}
