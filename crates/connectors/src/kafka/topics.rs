//! The topics that a table reads.

use regex::Regex;

use crate::ConnectorError;
use crate::options::Options;

/// Topics to read.
#[derive(Debug, Clone)]
pub(super) enum Topics {
    Names(Vec<String>),
    /// Those whose whole name matches.
    Pattern(Regex),
}

impl Topics {
    pub(super) fn of(options: &Options) -> Result<Topics, ConnectorError> {
        match (options.text("topic"), options.text("topic-pattern")) {
            (Some(_), Some(_)) => {
                Err(ConnectorError::option("topic-pattern", "cannot be given together with 'topic': give one of them"))
            }
            (Some(names), None) => {
                let names: Vec<String> = names.split(';').map(|name| name.trim().to_owned()).collect();
                match names.iter().any(String::is_empty) {
                    true => Err(ConnectorError::option("topic", "must be the names of topics, separated by ';'")),
                    false => Ok(Topics::Names(names)),
                }
            }
            (None, Some(pattern)) => Regex::new(&format!("^(?:{pattern})$"))
                .map(Topics::Pattern)
                .map_err(|error| ConnectorError::option("topic-pattern", format!("is no regular expression: {error}"))),
            (None, None) => {
                Err(ConnectorError::option("topic", "is missing: add 'topic' = 'clicks', or a 'topic-pattern'"))
            }
        }
    }

    /// For messages.
    pub(super) fn place(&self) -> String {
        match self {
            Topics::Names(names) if names.len() == 1 => format!("topic '{}'", names[0]),
            Topics::Names(names) => format!("topics '{}'", names.join("', '")),
            Topics::Pattern(pattern) => {
                let pattern = pattern.as_str();
                format!("topics that match '{}'", &pattern["^(?:".len()..pattern.len() - ")$".len()])
            }
        }
    }
}
