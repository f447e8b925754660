//! The options of a table against the lists of those there are, before anything is opened.

use std::collections::BTreeMap;

use pelton_data::spelling::closest;

use super::table::{CONNECTOR_NAMES, GROUPS, Kind, MESSAGE_FORMAT_NAMES, OptionEntry, OptionGroup, Owner};
use super::{A_DURATION, A_MEMORY_SIZE, Options, one_of, parse_duration, parse_memory_size};
use crate::ConnectorError;

/// Checks the names of all options of a table, and their values as far as their kinds tell. `columns` are the names of the table's columns; `format` is its format
/// where that is known.
///
/// # Errors
/// The first option that the connector and the format do not have, or whose value is of another kind.
pub fn check(values: &BTreeMap<String, String>, columns: &[&str], format: Option<&str>) -> Result<(), ConnectorError> {
    let options = Options::new(values);
    let connector = options.required("connector", "filesystem")?;
    // What is no connector is refused where it is looked up.
    let Some(connector) = CONNECTOR_NAMES.iter().find(|name| name.eq_ignore_ascii_case(connector.trim())) else {
        return Ok(());
    };
    let groups = groups_of(connector, format);
    let entries = || groups.iter().flat_map(|group| group.options);
    for (name, value) in values.iter().filter(|(name, _)| !is_of_side(connector, name)) {
        let column_option = |entry: &&OptionEntry| columns.iter().any(|column| entry.of_column(column) == *name);
        let found = entries().find(|entry| entry.name == name || column_option(entry) || entry.is_open(name));
        match found {
            Some(entry) => check_value(&options, name, value, entry.kind)?,
            None => return Err(unknown(name, &groups, columns, connector, format)),
        }
    }
    Ok(())
}

/// The groups whose options the tables of a connector have. Without a format they have those of all formats that they may have.
pub(super) fn groups_of(connector: &str, format: Option<&str>) -> Vec<&'static OptionGroup> {
    let is_own = |group: &&OptionGroup| match group.of {
        Owner::Table => true,
        Owner::Connector => group.name == connector,
        Owner::Source => !matches!(connector, "print" | "blackhole"),
        Owner::Format => has_format(connector) && format.is_none_or(|format| group.name == format),
    };
    GROUPS.iter().filter(is_own).collect()
}

/// Whether the rows of a connector's tables have a format.
fn has_format(connector: &str) -> bool {
    matches!(connector, "filesystem" | "tcp" | "kafka")
}

/// Whether an option is one of the format of keys, or of a format that is named by `value.format`: these are checked where the formats are known.
fn is_of_side(connector: &str, name: &str) -> bool {
    let own = name.strip_prefix("key.").or(name.strip_prefix("value."));
    connector == "kafka"
        && own.and_then(|own| own.split_once('.')).is_some_and(|(format, _)| MESSAGE_FORMAT_NAMES.contains(&format))
}

impl OptionEntry {
    /// Whether this entry stands for all options that begin as its name does, and `name` is one of them.
    fn is_open(&self, name: &str) -> bool {
        self.name.strip_suffix('*').is_some_and(|beginning| name.starts_with(beginning))
    }

    /// Whether this is the entry of an option, of whichever column.
    pub(super) fn is_called(&self, name: &str) -> bool {
        match self.name.split_once('#') {
            None => self.name == name || self.is_open(name),
            Some((before, behind)) => name.starts_with(before) && name.ends_with(behind),
        }
    }

    /// The option's name for a column.
    pub(super) fn of_column(&self, column: &str) -> String {
        self.name.replace('#', column)
    }
}

fn unknown(
    name: &str,
    groups: &[&OptionGroup],
    columns: &[&str],
    connector: &str,
    format: Option<&str>,
) -> ConnectorError {
    let mut known: Vec<String> = groups
        .iter()
        .flat_map(|group| group.options)
        .flat_map(|entry| match entry.name.contains('#') {
            true => columns.iter().map(|column| entry.of_column(column)).collect(),
            false => vec![entry.name.to_string()],
        })
        .collect();
    known.sort();
    known.dedup();
    let others = GROUPS.iter().filter(|group| !groups.contains(group));
    let other = others.into_iter().find(|group| group.options.iter().any(|entry| entry.name == name));
    match other {
        Some(OptionGroup { of: Owner::Format, name: other, .. }) if has_format(connector) => {
            let format = format.unwrap_or_default();
            ConnectorError::option(
                name,
                format!("is one of the format '{other}', and the table's format is '{format}'"),
            )
        }
        Some(OptionGroup { of: Owner::Connector, name: other, .. }) => ConnectorError::option(
            name,
            format!("is one of the connector '{other}', and the table's connector is '{connector}'"),
        ),
        _ => ConnectorError::UnknownOption {
            option: name.to_string(),
            suggestion: closest(name, known.iter().map(String::as_str)).map(str::to_string),
            known: known.iter().map(|name| format!("'{name}'")).collect(),
        },
    }
}

/// Checks what the kind of an option alone tells; the rest is known where the table is opened.
fn check_value(options: &Options, name: &str, value: &str, kind: Kind) -> Result<(), ConnectorError> {
    let must_be = |expected: &str| Err(ConnectorError::option(name, format!("must be {expected}, not '{value}'")));
    match kind {
        Kind::Boolean => options.boolean(name).map(drop),
        Kind::Choice(words) => {
            if words.iter().any(|word| word.eq_ignore_ascii_case(value.trim())) {
                return Ok(());
            }
            let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
            let meant = closest(value.trim(), words.iter().copied());
            let meant = meant.map(|word| format!("; did you mean '{word}'?")).unwrap_or_default();
            Err(ConnectorError::option(name, format!("must be {}, not '{value}'{meant}", one_of(&quoted))))
        }
        Kind::Character => options.character(name).map(drop),
        Kind::Duration if parse_duration(value).is_none() => must_be(A_DURATION),
        Kind::MemorySize if parse_memory_size(value).is_none() => must_be(A_MEMORY_SIZE),
        _ => Ok(()),
    }
}
