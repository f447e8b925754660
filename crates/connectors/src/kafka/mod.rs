//! Apache Kafka: `'connector' = 'kafka'`, with the options of Flink's connector.
//!
//! librdkafka fetches and sends on threads of its own. A worker takes the messages of a partition out of that partition's queue ([`source`]), and any worker decodes them
//! ([`messages`]). A task of the network runtime looks for brokers, topics and partitions ([`discovery`]). [`sink`] hands rows to librdkafka's queue ([`producer`]), in a
//! [`transaction`] where they are written exactly once.

mod client;

mod discovery;

mod messages;

mod metadata;

mod offsets;

mod producer;

mod sink;

mod source;

mod topics;

mod transaction;

use arrow::datatypes::{Schema, SchemaRef};
use std::sync::Arc;

use pelton_runtime::sink::Sink;

use crate::format::message::{MessageFormat, Side, named};
use crate::options::{Options, parse_duration};
use crate::{ConnectorError, Open, Opening, TableRequest};
use client::Properties;
use discovery::Patience;
use messages::{Layout, MessageReading, Origin};
use offsets::{Bounds, Startup};
use topics::Topics;

/// Which columns of a table are in the key of a message, and which in its value.
struct Columns {
    /// Columns of the table in the key, in the order of `key.fields`.
    key: Vec<usize>,
    /// Columns of the table in the value.
    value: Vec<usize>,
    /// The names of the key's columns in the key.
    key_names: Vec<String>,
}

const KEY_FIELDS: &str = "key.fields";
const KEY_PREFIX: &str = "key.fields-prefix";
const VALUE_INCLUDES: &str = "value.fields-include";

impl Columns {
    fn of(request: &TableRequest, options: &Options) -> Result<Columns, ConnectorError> {
        let prefix = options.text(KEY_PREFIX).unwrap_or_default();
        let includes_key = options.choice(VALUE_INCLUDES, &[("ALL", true), ("EXCEPT_KEY", false)])?.unwrap_or(true);
        let fields = options.text(KEY_FIELDS);
        if fields.is_some() != options.text("key.format").is_some() {
            let [given, missing] = match fields {
                Some(_) => [KEY_FIELDS, "key.format"],
                None => ["key.format", KEY_FIELDS],
            };
            return Err(ConnectorError::option(given, format!("needs '{missing}' beside it")));
        }
        if !prefix.is_empty() && includes_key {
            let problem = format!("needs '{VALUE_INCLUDES}' = 'EXCEPT_KEY': values have no columns with a prefix");
            return Err(ConnectorError::option(KEY_PREFIX, problem));
        }
        let stored: Vec<usize> =
            (0..request.schema.fields().len()).filter(|index| !request.metadata.contains_key(index)).collect();
        let mut columns = Columns { key: Vec::new(), value: Vec::new(), key_names: Vec::new() };
        for name in fields.iter().flat_map(|fields| fields.split(';')).map(str::trim).filter(|name| !name.is_empty()) {
            let found = stored.iter().copied().find(|&index| request.schema.field(index).name() == name);
            let Some(index) = found else {
                let names = stored.iter().map(|&index| request.schema.field(index).name().as_str());
                let meant = pelton_data::spelling::closest(name, names);
                let meant = meant.map(|name| format!("; did you mean '{name}'?")).unwrap_or_default();
                return Err(ConnectorError::option(KEY_FIELDS, format!("names '{name}', which is no column{meant}")));
            };
            let Some(own) = name.strip_prefix(prefix) else {
                let problem = format!("names '{name}', which does not begin with the '{KEY_PREFIX}' '{prefix}'");
                return Err(ConnectorError::option(KEY_FIELDS, problem));
            };
            columns.key.push(index);
            columns.key_names.push(own.to_owned());
        }
        columns.value = stored.into_iter().filter(|index| includes_key || !columns.key.contains(index)).collect();
        Ok(columns)
    }

    /// The columns in a key, as the key names them.
    fn key_schema(&self, table: &SchemaRef) -> SchemaRef {
        let field = |(&index, name): (&usize, &String)| table.field(index).clone().with_name(name);
        Arc::new(Schema::new(self.key.iter().zip(&self.key_names).map(field).collect::<Vec<_>>()))
    }

    fn value_schema(&self, table: &SchemaRef) -> SchemaRef {
        Arc::new(table.project(&self.value).expect("they are columns of the table"))
    }
}

/// The formats of keys and values, which are checked against the columns that they have.
fn formats(
    request: &TableRequest,
    options: &Options,
    columns: &Columns,
) -> Result<(Option<MessageFormat>, MessageFormat), ConnectorError> {
    let key = MessageFormat::of(options, Side::Key, request.strict_values)?;
    let Some(value) = MessageFormat::of(options, Side::Value, request.strict_values)? else {
        return Err(ConnectorError::option("format", "is missing: add 'format' = 'json'"));
    };
    let sides = [(key.as_ref(), &columns.key), (Some(&value), &columns.value)];
    for (format, side) in sides.into_iter().filter_map(|(format, side)| format.map(|format| (format, side))) {
        for (place, &index) in side.iter().enumerate() {
            let field = request.schema.field(index);
            format.check_column(field.name(), field.data_type(), place == 0 && side.len() == 1)?;
        }
    }
    Ok((key, value))
}

/// The name of the format of a table's values, where options tell it.
pub(crate) fn told_format(options: &Options) -> Result<Option<&'static str>, ConnectorError> {
    Ok(named(options, Side::Value)?.map(|(_, name)| name))
}

/// Whether a table with these options ends when it is read.
pub(crate) fn is_bounded(options: &Options) -> Result<bool, ConnectorError> {
    Ok(Bounds::of(options)?.is_some())
}

/// Whether whoever begins to read the table sees what comes from then on, as whoever reads it already does.
pub(crate) fn begins_now(options: &Options) -> bool {
    matches!(Startup::of(options), Ok(Startup::Latest))
}

/// Whether rows of a table are written exactly once by a job that has checkpoints.
pub(crate) fn commits_rows(options: &Options) -> bool {
    matches!(sink::is_exactly_once(options), Ok(Some(true)))
}

/// Options that concern writing only, of a table that is read.
const SINK_OPTIONS: [&str; 3] = ["sink.partitioner", "sink.delivery-guarantee", "sink.transactional-id-prefix"];

/// Options that concern reading only, of a table that is written.
const SCAN_OPTIONS: [&str; 4] =
    ["topic-pattern", "scan.topic-partition-discovery.interval", "on-error", "on-error.dead-letter-table"];

/// Makes options known that have no effect here.
fn acknowledge(options: &Options, names: &[&str]) {
    for name in names {
        options.text(name);
    }
}

/// Reads what a table's options say that is read.
pub(crate) fn source<'a>(request: &'a TableRequest, options: &'a Options) -> Result<Opening<'a>, ConnectorError> {
    let topics = Topics::of(options)?;
    let properties = Properties::of(options)?;
    let columns = Columns::of(request, options)?;
    let (key_format, value_format) = formats(request, options, &columns)?;
    let startup = Startup::of(options)?;
    let bounds = Bounds::of(options)?;
    offsets::check(&startup, bounds.as_ref(), &topics, &properties)?;
    let interval = options.duration("scan.topic-partition-discovery.interval")?;
    let interval = options.or_default("scan.topic-partition-discovery.interval", interval, parse_duration);
    let patience = Patience::of(options)?;
    acknowledge(options, &SINK_OPTIONS);
    let layout = Layout {
        key_format,
        value_format,
        key: columns.key_schema(&request.schema),
        value: columns.value_schema(&request.schema),
    };
    let origin = |&index: &usize| -> Result<Origin, ConnectorError> {
        if let Some(key) = request.metadata.get(&index) {
            return metadata::readable(request.schema.field(index), key).map(Origin::Metadata);
        }
        // Where both have it, it is that of the value, as in Flink.
        Ok(match columns.value.iter().position(|&column| column == index) {
            Some(place) => Origin::Value(place),
            None => Origin::Key(columns.key.iter().position(|&column| column == index).expect("it is in one of them")),
        })
    };
    let origins = request.columns.iter().map(origin).collect::<Result<Vec<_>, _>>()?;
    // Metadata that nobody wants must exist as well.
    for (&index, key) in &request.metadata {
        metadata::readable(request.schema.field(index), key)?;
    }
    Ok(Opening::Read(Box::new(move || {
        let reading = MessageReading::new(request, layout, origins)?;
        let plan = discovery::Plan { topics, startup, bounds, interval, patience };
        Ok(Box::new(source::open(request, plan, &properties, reading)?))
    })))
}

/// Reads what a table's options say that is written.
pub(crate) fn sink<'a>(request: &'a TableRequest, options: &'a Options) -> Result<Open<'a, dyn Sink>, ConnectorError> {
    if options.text("topic").is_none() && options.text("topic-pattern").is_some() {
        return Err(ConnectorError::option("topic-pattern", "says what is read; to write, add 'topic' = 'clicks'"));
    }
    let topic = match Topics::of(options)? {
        Topics::Names(names) if names.len() == 1 => names.into_iter().next().expect("there is one"),
        _ => return Err(ConnectorError::option("topic", "has several topics, and rows are written to one")),
    };
    let properties = Properties::of(options)?;
    let columns = Columns::of(request, options)?;
    let (key_format, value_format) = formats(request, options, &columns)?;
    let delivery = sink::Delivery::of(options, key_format.is_some())?;
    Startup::of(options)?;
    Bounds::of(options)?;
    acknowledge(options, &SCAN_OPTIONS);
    let metadata = metadata::Written::of(request)?;
    Ok(Box::new(move || {
        let key_encoder =
            key_format.map(|format| format.encoder(&columns.key_schema(&request.schema), format!("{topic}-key")));
        let key = key_encoder.transpose()?.map(|encoder| (encoder, columns.key.clone()));
        let value_encoder = value_format.encoder(&columns.value_schema(&request.schema), format!("{topic}-value"))?;
        let value = (value_encoder, columns.value.clone());
        let shape = sink::Shape { topic, key, value, metadata };
        Ok(Box::new(sink::open(request, shape, &properties, delivery)?))
    }))
}
