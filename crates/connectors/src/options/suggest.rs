//! What can be written in `WITH (…)`, for those who complete what a person types.

use std::collections::BTreeMap;

use super::check::groups_of;
use super::table::{CONNECTOR_NAMES, FORMAT_NAMES, GROUPS, Kind, OptionEntry, OptionGroup};
use crate::format::FormatName;

/// The options that a table can have beside those that it is `given`, in the order in which they are documented. With a connector they are its own, and those
/// of its format; without one, those of all. `columns` are the names of the table's columns.
pub fn names(given: &BTreeMap<String, String>, columns: &[String]) -> Vec<String> {
    let named = |name: &str, known: &'static [&'static str]| {
        let given = given.get(name)?.trim();
        known.iter().copied().find(|known| known.eq_ignore_ascii_case(given))
    };
    let of_path = || given.get("path").and_then(|path| FormatName::of_file(path)).map(FormatName::in_options);
    let groups = match named("connector", CONNECTOR_NAMES) {
        Some(connector) => groups_of(connector, named("format", FORMAT_NAMES).or_else(of_path)),
        None => GROUPS.iter().collect(),
    };
    let mut names = Vec::new();
    for entry in groups.into_iter().flat_map(|group| group.options) {
        let of_entry = match entry.name.contains('#') {
            true => columns.iter().map(|column| entry.of_column(column)).collect(),
            false => vec![entry.name.to_owned()],
        };
        names.extend(of_entry.into_iter().filter(|name| !given.contains_key(name)));
    }
    names
}

/// The values of an option that takes one of some words.
pub fn values(name: &str) -> &'static [&'static str] {
    let entries = || GROUPS.iter().flat_map(|group: &OptionGroup| group.options);
    match entries().find(|entry: &&OptionEntry| entry.is_called(name)).map(|entry| entry.kind) {
        Some(Kind::Choice(words)) => words,
        Some(Kind::Boolean) => &["true", "false"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(options: &[(&str, &str)]) -> Vec<String> {
        let given = options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        names(&given, &["id".to_owned()])
    }

    #[test]
    fn options_are_those_of_the_connector_and_its_format() {
        let has = |names: &[String], name: &str| names.iter().any(|known| known == name);
        let all = given(&[]);
        assert_eq!(all[0], "connector");
        assert!(has(&all, "path") && has(&all, "fields.id.kind") && has(&all, "json.ignore-parse-errors"));
        let files = given(&[("connector", "FILESYSTEM")]);
        assert!(has(&files, "path") && has(&files, "csv.null-literal") && has(&files, "json.ignore-parse-errors"));
        assert!(!has(&files, "connector") && !has(&files, "fields.id.kind"));
        for told in [("format", "json"), ("path", "rows.json.gz")] {
            let json = given(&[("connector", "filesystem"), told]);
            assert!(has(&json, "json.ignore-parse-errors") && !has(&json, "csv.null-literal"), "{told:?}");
        }
        let generated = given(&[("connector", "datagen")]);
        assert!(has(&generated, "fields.id.kind") && !has(&generated, "path"));
        assert!(!has(&given(&[("connector", "blackhole")]), "replay.passes"));
    }

    #[test]
    fn words_are_offered_for_options_that_take_them() {
        assert_eq!(values("connector"), CONNECTOR_NAMES);
        assert_eq!(values("csv.header"), ["true", "false"]);
        assert!(values("path").is_empty() && values("unknown").is_empty());
    }
}
