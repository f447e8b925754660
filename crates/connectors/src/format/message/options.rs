//! The options of formats of messages: Flink puts `key.` or `value.` before those of a format that is named by `key.format` or `value.format`.

use std::collections::BTreeMap;

use super::MessageFormat;
use super::avro::AvroFormat;
use super::debezium::DebeziumFormat;
use super::protobuf::ProtobufFormat;
use super::raw::RawFormat;
use crate::ConnectorError;
use crate::format::csv::IGNORE_FIRST_LINE;
use crate::format::on_error::DEAD_LETTER_TABLE;
use crate::format::{Format, TextFormat, TextKind};
use crate::options::{Options, one_of};

/// The names of the formats that messages have.
pub(crate) const MESSAGE_FORMATS: &[&str] = crate::options::table::MESSAGE_FORMAT_NAMES;

/// Which part of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Key,
    Value,
}

/// The options of one side's format, without what stands before them.
struct Sided {
    /// What stands before them in the table's options.
    prefix: &'static str,
    values: BTreeMap<String, String>,
}

impl MessageFormat {
    /// The format of a side of a table's messages; `None` where the options name none.
    ///
    /// # Errors
    /// Where they make no sense.
    pub(crate) fn of(
        options: &Options,
        side: Side,
        strict_values: bool,
    ) -> Result<Option<MessageFormat>, ConnectorError> {
        let Some((prefix, name)) = named(options, side)? else { return Ok(None) };
        let given = options.names().filter_map(|given| given.strip_prefix(prefix));
        let mut values: BTreeMap<String, String> = BTreeMap::new();
        for own in given.filter(|given| given.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))) {
            let value = options.text(&format!("{prefix}{own}")).expect("it is among the names");
            values.insert(own.to_owned(), value.to_owned());
        }
        for name in ["on-error", DEAD_LETTER_TABLE] {
            if let Some(value) = options.text(name) {
                values.insert(name.to_owned(), value.to_owned());
            }
        }
        values.insert("format".to_owned(), name.to_owned());
        let sided = Sided { prefix, values };
        sided.format(name, strict_values).map(Some).map_err(|error| sided.prefixed(error))
    }
}

/// The name of a side's format, and what stands before its options.
pub(crate) fn named(options: &Options, side: Side) -> Result<Option<(&'static str, &'static str)>, ConnectorError> {
    let names: Vec<(&str, &'static str)> = MESSAGE_FORMATS.iter().map(|&name| (name, name)).collect();
    let of = |option: &str| options.choice(option, &names);
    Ok(match side {
        Side::Key => of("key.format")?.map(|name| ("key.", name)),
        Side::Value => match (of("value.format")?, of("format")?) {
            (Some(_), Some(_)) => {
                return Err(ConnectorError::option("value.format", "is another name of 'format': give one of them"));
            }
            (Some(name), None) => Some(("value.", name)),
            (None, name) => name.map(|name| ("", name)),
        },
    })
}

const SCHEMA_INCLUDE: &str = "debezium-json.schema-include";

/// A format of text.
fn text(options: &Options, strict_values: bool) -> Result<TextFormat, ConnectorError> {
    match Format::new(options, None)?.strict(strict_values) {
        Format::Text(format) => Ok(format),
        Format::Parquet { .. } | Format::Avro { .. } => unreachable!("it was one of these"),
    }
}

impl Sided {
    fn format(&self, name: &str, strict_values: bool) -> Result<MessageFormat, ConnectorError> {
        let options = Options::new(&self.values);
        let format = match name {
            "raw" => {
                options.text("format");
                MessageFormat::Raw(RawFormat::of(&options)?)
            }
            "avro" | "avro-confluent" => {
                options.text("format");
                let format = if name == "avro" { AvroFormat::of(&options)? } else { AvroFormat::confluent(&options)? };
                MessageFormat::Avro(format)
            }
            "protobuf" => {
                options.text("format");
                MessageFormat::Protobuf(ProtobufFormat::of(&options)?)
            }
            "debezium-json" => MessageFormat::Debezium(self.debezium(&options, strict_values)?),
            "csv" | "json" => MessageFormat::Text(text(&options, strict_values)?),
            other => {
                let names: Vec<String> = MESSAGE_FORMATS.iter().map(|name| format!("'{name}'")).collect();
                return Err(ConnectorError::option("format", format!("must be {}, not '{other}'", one_of(&names))));
            }
        };
        if let MessageFormat::Text(text) = &format
            && let TextKind::Csv(dialect) = &text.kind
            && dialect.has_first_row()
        {
            let option = if dialect.header { "csv.header" } else { IGNORE_FIRST_LINE };
            return Err(ConnectorError::option(
                option,
                "has no effect on messages, each of which is a row: leave it out",
            ));
        }
        options.finish()?;
        Ok(format)
    }

    /// The options of Debezium's format are those of JSON under another name, and one of its own.
    fn debezium(&self, options: &Options, strict_values: bool) -> Result<DebeziumFormat, ConnectorError> {
        let has_schema = options.boolean(SCHEMA_INCLUDE)?;
        let mut of_json = BTreeMap::new();
        for name in options.names().filter(|name| *name != SCHEMA_INCLUDE) {
            let value = options.text(name).expect("it is among the names");
            of_json.insert(name.strip_prefix("debezium-").unwrap_or(name).to_owned(), value.to_owned());
        }
        of_json.insert("format".to_owned(), "json".to_owned());
        let json = Options::new(&of_json);
        let text = text(&json, strict_values).and_then(|text| json.finish().map(|()| text));
        let own = |option: String| match option.starts_with("json.") {
            true => format!("debezium-{option}"),
            false => option,
        };
        text.map(|text| DebeziumFormat { text, has_schema }).map_err(|error| match error {
            ConnectorError::Option { option, problem } => ConnectorError::Option { option: own(option), problem },
            ConnectorError::UnknownOption { option, suggestion, known } => {
                ConnectorError::UnknownOption { option: own(option), suggestion: suggestion.map(own), known }
            }
            other => other,
        })
    }

    /// An error with the names that the options have in the table.
    fn prefixed(&self, error: ConnectorError) -> ConnectorError {
        let full = |option: String| match self.values.contains_key(&option) && !option.starts_with("on-error") {
            true => format!("{}{option}", self.prefix),
            false => option,
        };
        match error {
            ConnectorError::Option { option, problem } => ConnectorError::Option { option: full(option), problem },
            ConnectorError::UnknownOption { option, suggestion, known } => {
                let prefixed = |name: String| format!("{}{name}", self.prefix);
                let suggestion = suggestion.map(prefixed);
                let known = known.iter().map(|name| format!("'{}'", prefixed(name.trim_matches('\'').to_owned())));
                ConnectorError::UnknownOption { option: full(option), suggestion, known: known.collect() }
            }
            other => other,
        }
    }
}
