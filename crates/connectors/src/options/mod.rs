//! A table's `WITH (…)` options, with the names and value syntax that Flink has for them. [`table`] lists them all; [`check`] finds what is on no list.

mod check;

pub mod table;

pub mod suggest;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pelton_data::spelling::closest;

use self::table::{GROUPS, Kind, OptionEntry, Owner};
use crate::ConnectorError;

pub use check::check;

/// The options of one table.
///
/// Each getter makes its option known; [`Options::finish`] then finds what nobody asked for. A connector must therefore
/// ask for all its options, whatever their values are.
pub struct Options<'a> {
    values: &'a BTreeMap<String, String>,
    known: RefCell<BTreeSet<String>>,
}

impl<'a> Options<'a> {
    /// The options of a table, by name.
    pub fn new(values: &'a BTreeMap<String, String>) -> Options<'a> {
        Options { values, known: RefCell::default() }
    }

    /// The names of all options that the table has.
    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        self.values.keys().map(String::as_str)
    }

    /// The value as it was written, or `None` where the option is absent.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.known.borrow_mut().insert(name.to_string());
        self.values.get(name).map(String::as_str)
    }

    /// The value of an option that must be there. `example` shows what it could be.
    ///
    /// # Errors
    /// Where the option is absent.
    pub fn required(&self, name: &str, example: &str) -> Result<&'a str, ConnectorError> {
        self.text(name).ok_or_else(|| ConnectorError::option(name, format!("is missing: add '{name}' = '{example}'")))
    }

    /// A value read by `parse`, which returns `None` where it makes no sense; `expected` says what would.
    ///
    /// # Errors
    /// Where the value makes no sense.
    pub fn parsed<T>(
        &self,
        name: &str,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, ConnectorError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match parse(text) {
            Some(value) => Ok(Some(value)),
            None => Err(ConnectorError::option(name, format!("must be {expected}, not '{text}'"))),
        }
    }

    /// One of a closed set of words, in any case.
    ///
    /// # Errors
    /// Where the value is none of them.
    pub fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Result<Option<T>, ConnectorError> {
        debug_assert!(self.lists(name, choices), "the table of options says something else of '{name}'");
        let Some(text) = self.text(name) else { return Ok(None) };
        let words = || choices.iter().map(|(word, _)| *word);
        if let Some(&(_, value)) = choices.iter().find(|(word, _)| word.eq_ignore_ascii_case(text.trim())) {
            return Ok(Some(value));
        }
        let quoted: Vec<String> = words().map(|word| format!("'{word}'")).collect();
        let meant = closest(text.trim(), words()).map(|word| format!("; did you mean '{word}'?")).unwrap_or_default();
        Err(ConnectorError::option(name, format!("must be {}, not '{text}'{meant}", one_of(&quoted))))
    }

    /// `true` or `false`, in any case; where it is absent, what the table of options says.
    ///
    /// # Errors
    /// Where the value is neither.
    pub fn boolean(&self, name: &str) -> Result<bool, ConnectorError> {
        let given = self.choice(name, &[("true", true), ("false", false)])?;
        Ok(given.unwrap_or_else(|| self.entry(name).is_some_and(|entry| entry.default == "true")))
    }

    /// The value given, or what the table of options says holds without one, as `parse` reads it.
    ///
    /// # Panics
    /// Where the table has no default.
    pub(crate) fn or_default<T>(&self, name: &str, given: Option<T>, parse: impl FnOnce(&str) -> Option<T>) -> T {
        let listed = || self.entry(name).and_then(|entry| parse(entry.default)).expect("the option has a default");
        given.unwrap_or_else(listed)
    }

    /// What the table of options says of an option: of the connector's own first, where several have one of this name.
    fn entry(&self, name: &str) -> Option<&'static OptionEntry> {
        let connector = self.values.get("connector").map(String::as_str);
        let own = GROUPS.iter().filter(|group| group.of == Owner::Connector && Some(group.name) == connector);
        own.chain(GROUPS).flat_map(|group| group.options).find(|entry| entry.is_called(name))
    }

    /// Whether the table of options has these words for an option, in any order.
    fn lists<T>(&self, name: &str, choices: &[(&str, T)]) -> bool {
        let Some(entry) = self.entry(name) else { return cfg!(test) };
        let listed: &[&str] = match entry.kind {
            Kind::Boolean => &["true", "false"],
            Kind::Choice(words) => words,
            _ => &[],
        };
        listed.len() == choices.len() && choices.iter().all(|(word, _)| listed.contains(word))
    }

    /// A number of the caller's type. Digits may be grouped by `_`.
    ///
    /// # Errors
    /// Where the value is no such number.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, ConnectorError> {
        self.parsed(name, "a number in range", |text| text.trim().replace('_', "").parse().ok())
    }

    /// A duration in Flink's form: `10 s`, `500ms`, `1 min`, `2 h`, `1 d`; without a unit, milliseconds.
    ///
    /// # Errors
    /// Where the value is no duration.
    pub fn duration(&self, name: &str) -> Result<Option<Duration>, ConnectorError> {
        self.parsed(name, A_DURATION, parse_duration)
    }

    /// A memory size in Flink's form: `64 mb`, `1gb`, `512 kb`, in powers of 1024; without a unit, bytes.
    ///
    /// # Errors
    /// Where the value is no memory size.
    pub fn memory_size(&self, name: &str) -> Result<Option<u64>, ConnectorError> {
        self.parsed(name, A_MEMORY_SIZE, parse_memory_size)
    }

    /// A single character. `\t` and the like may be written escaped.
    ///
    /// # Errors
    /// Where the value has no or several characters.
    pub fn character(&self, name: &str) -> Result<Option<char>, ConnectorError> {
        self.parsed(name, "a single character", |text| {
            let text = match text {
                "\\t" => "\t",
                "\\n" => "\n",
                "\\r" => "\r",
                "\\\\" => "\\",
                "\\0" => "\0",
                other => other,
            };
            let mut characters = text.chars();
            characters.next().filter(|_| characters.next().is_none())
        })
    }

    /// Ends the reading of options.
    ///
    /// # Errors
    /// Where the table has an option that no getter asked for.
    pub fn finish(&self) -> Result<(), ConnectorError> {
        let known = self.known.borrow();
        let Some(option) = self.values.keys().find(|name| !known.contains(name.as_str())) else { return Ok(()) };
        if self.entry(option).is_some() {
            return Err(ConnectorError::option(option, "has no effect on this table; leave it out"));
        }
        Err(ConnectorError::UnknownOption {
            option: option.clone(),
            suggestion: closest(option, known.iter().map(String::as_str)).map(str::to_string),
            known: known.iter().map(|name| format!("'{name}'")).collect(),
        })
    }
}

/// "a, b or c".
pub(crate) fn one_of(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [word] => word.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

fn number_and_unit(text: &str) -> Option<(u64, String)> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..digits].parse().ok()?, text[digits..].trim().to_lowercase()))
}

/// What a duration looks like, for messages.
pub const A_DURATION: &str = "a duration such as '500 ms', '10 s', '1 min', '2 h' or '1 d'";

/// A duration in Flink's form, as [`Options::duration`] reads it; `None` where the text is none.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = number_and_unit(text)?;
    let nanos_per_unit: u64 = match unit.as_str() {
        "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1,
        "us" | "µs" | "micro" | "micros" | "microsecond" | "microseconds" => 1_000,
        "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1_000_000,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000_000,
        "m" | "min" | "minute" | "minutes" => 60 * 1_000_000_000,
        "h" | "hour" | "hours" => 3_600 * 1_000_000_000,
        "d" | "day" | "days" => 86_400 * 1_000_000_000,
        _ => return None,
    };
    number.checked_mul(nanos_per_unit).map(Duration::from_nanos)
}

/// What a memory size looks like, for messages.
pub const A_MEMORY_SIZE: &str = "a memory size such as '512 kb', '64 mb' or '1 gb'";

/// Whether something would be a memory size, if it were not larger than any memory.
pub fn is_too_much_memory(text: &str) -> bool {
    let digits = text.trim_start().find(|character: char| !character.is_ascii_digit());
    let (number, unit) = text.trim_start().split_at(digits.unwrap_or(text.trim_start().len()));
    !number.is_empty() && parse_memory_size(text).is_none() && parse_memory_size(&format!("1{unit}")).is_some()
}

/// Bytes of a memory size in Flink's form, as [`Options::memory_size`] reads them.
pub fn parse_memory_size(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    let bytes_per_unit: u64 = match unit.as_str() {
        "" | "b" | "byte" | "bytes" => 1,
        "k" | "kb" | "kib" | "kibibytes" => 1 << 10,
        "m" | "mb" | "mib" | "mebibytes" => 1 << 20,
        "g" | "gb" | "gib" | "gibibytes" => 1 << 30,
        "t" | "tb" | "tib" | "tebibytes" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(bytes_per_unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|&(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn an_unknown_option_is_named_with_the_one_that_was_meant() {
        let values = map(&[("connector", "x"), ("csv.heder", "true")]);
        let options = Options::new(&values);
        options.text("connector");
        options.text("csv.header");
        assert_eq!(options.finish().unwrap_err().to_string(), "unknown option 'csv.heder'; did you mean 'csv.header'?");
        let values = map(&[("nothing-like-it", "1")]);
        let options = Options::new(&values);
        options.text("path");
        assert_eq!(
            options.finish().unwrap_err().to_string(),
            "unknown option 'nothing-like-it'; this table's options are 'path'"
        );
    }

    #[test]
    fn durations_and_memory_sizes_are_read_as_flink_reads_them() {
        for (text, nanos) in [
            ("10", 10_000_000),
            ("10 s", 10_000_000_000),
            ("1min", 60_000_000_000),
            ("2 Hours", 7_200_000_000_000),
            ("1 d", 86_400_000_000_000),
            ("7 µs", 7_000),
            ("3ns", 3),
        ] {
            assert_eq!(parse_duration(text), Some(Duration::from_nanos(nanos)), "{text}");
        }
        for (text, bytes) in [("12", 12), ("1 kb", 1024), ("64mb", 64 << 20), ("1 GiB", 1 << 30), ("2t", 2 << 40)] {
            assert_eq!(parse_memory_size(text), Some(bytes), "{text}");
        }
        assert_eq!((parse_memory_size("1 byte"), parse_memory_size("99999999999 tb")), (Some(1), None));
        assert!(is_too_much_memory("99999999999 tb") && is_too_much_memory("99999999999999999999999"));
        assert!(!is_too_much_memory("64 tb") && !is_too_much_memory("64 tonnes") && !is_too_much_memory("tb"));
        for text in ["", "s", "1.5 s", "-1 s", "10 parsecs", "99999999999999999999", "999999999999 d"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn wrong_values_name_the_option_and_what_would_be_right() {
        let values = map(&[("a", "maybe"), ("b", "1 parsec"), ("c", "xy"), ("d", "-1"), ("e", "\\t")]);
        let options = Options::new(&values);
        let text = |error: ConnectorError| error.to_string();
        assert_eq!(text(options.boolean("a").unwrap_err()), "option 'a' must be 'true' or 'false', not 'maybe'");
        assert_eq!(
            text(options.duration("b").unwrap_err()),
            "option 'b' must be a duration such as '500 ms', '10 s', '1 min', '2 h' or '1 d', not '1 parsec'"
        );
        assert_eq!(text(options.character("c").unwrap_err()), "option 'c' must be a single character, not 'xy'");
        assert_eq!(text(options.number::<u32>("d").unwrap_err()), "option 'd' must be a number in range, not '-1'");
        assert_eq!(options.character("e"), Ok(Some('\t')));
        assert_eq!(
            text(options.required("path", "/data").unwrap_err()),
            "option 'path' is missing: add 'path' = '/data'"
        );
    }
}
