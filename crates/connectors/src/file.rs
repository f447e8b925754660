//! A file in the place of a table, as a query has it: the options of the table that stands for it.

use std::collections::BTreeMap;

use pelton_data::spelling::closest;

use crate::ConnectorError;
use crate::format::csv::IGNORE_FIRST_LINE;
use crate::options::table::{GROUPS, OptionEntry, Owner, Use};

/// Whether an option is of a file's first row, and what it is for.
const HEADER: &str = "csv.header";

/// The options of a table that reads the files at `path`.
pub fn options(path: &str, format: Option<&str>) -> BTreeMap<String, String> {
    let format = format.map(|format| ("format", format));
    let all = [("connector", "filesystem"), ("path", path)].into_iter().chain(format);
    all.map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// The option that an argument of `read_csv` and the like stands for, and its value.
///
/// # Errors
/// Where the format has no such option.
pub fn argument(format: &str, name: &str, value: &str) -> Result<(String, String), ConnectorError> {
    let groups = GROUPS.iter().filter(|group| {
        group.of == Owner::Format && group.name == format || group.of == Owner::Connector && group.name == "filesystem"
    });
    let entries: Vec<&OptionEntry> = groups
        .flat_map(|group| group.options)
        .filter(|entry| entry.used != Use::Write && !matches!(entry.name, "path" | "format"))
        .filter(|entry| !entry.name.starts_with("source.") && !entry.name.starts_with("partition."))
        .collect();
    let is_meant =
        |entry: &&&OptionEntry| spellings(entry, format).iter().any(|spelling| spelling.eq_ignore_ascii_case(name));
    let Some(entry) = entries.iter().find(is_meant) else {
        let known: Vec<String> = entries.iter().map(|entry| spellings(entry, format).remove(0)).collect();
        let all: Vec<String> = entries.iter().flat_map(|entry| spellings(entry, format)).collect();
        let meant = closest(&name.to_lowercase(), all.iter().map(String::as_str)).map(str::to_string);
        return Err(ConnectorError::UnknownOption { option: name.to_string(), suggestion: meant, known });
    };
    // A header is read for the names of the columns, and then skipped: in Flink as well.
    let is_header = entry.name == HEADER && value.eq_ignore_ascii_case("true");
    let option = if is_header { IGNORE_FIRST_LINE } else { entry.name };
    Ok((option.to_string(), value.to_string()))
}

/// The names of an option as an argument, the first of them the one to show: `field_delimiter` of `csv.field-delimiter`.
fn spellings(entry: &OptionEntry, format: &str) -> Vec<String> {
    let name = entry.name.strip_prefix(format).and_then(|name| name.strip_prefix('.')).unwrap_or(entry.name);
    let own = name.replace(['-', '.'], "_");
    entry.arguments.iter().map(|argument| argument.to_string()).chain([own]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_stand_for_options() {
        let of = |name, value| argument("csv", name, value).unwrap();
        let option = |name: &str, value: &str| (name.to_string(), value.to_string());
        assert_eq!(of("delim", ";"), option("csv.field-delimiter", ";"));
        assert_eq!(of("FIELD_DELIMITER", ";"), option("csv.field-delimiter", ";"));
        assert_eq!(of("header", "TRUE"), option("csv.ignore-first-line", "TRUE"));
        assert_eq!(of("header", "false"), option("csv.header", "false"));
        assert_eq!(of("on_error", "skip"), option("on-error", "skip"));
        let error = argument("csv", "delimitr", ";").unwrap_err().to_string();
        assert_eq!(error, "unknown option 'delimitr'; did you mean 'delimiter'?");
        assert!(argument("json", "delim", ";").is_err());
    }
}
