//! What a checkpoint says of the files of a directory, a line for each: by it their rows become visible, and a job goes on with files that are not complete.

use std::fmt;
use std::str::FromStr;

/// What is known of a file. Names are relative to the table's directory, and have no line ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Prepared {
    /// It is complete, and gets its name.
    Complete(String),
    /// So many of its bytes count, and others will follow.
    Open(u64, String),
}

impl fmt::Display for Prepared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Prepared::Complete(name) => write!(formatter, "complete {name}"),
            Prepared::Open(bytes, name) => write!(formatter, "open {bytes} {name}"),
        }
    }
}

impl FromStr for Prepared {
    type Err = String;

    fn from_str(line: &str) -> Result<Prepared, String> {
        let unknown = || format!("a checkpoint says '{line}' of it");
        let (kind, rest) = line.split_once(' ').ok_or_else(unknown)?;
        let numbered = || {
            let (number, name) = rest.split_once(' ')?;
            Some((number.parse().ok()?, name.to_owned()))
        };
        Ok(match kind {
            "complete" => Prepared::Complete(rest.to_owned()),
            "open" => numbered().map(|(bytes, name)| Prepared::Open(bytes, name)).ok_or_else(unknown)?,
            _ => return Err(unknown()),
        })
    }
}

/// All that a checkpoint says, as text; nothing where there is nothing.
pub(super) fn to_text(lines: &[Prepared]) -> Option<String> {
    (!lines.is_empty()).then(|| lines.iter().map(Prepared::to_string).collect::<Vec<_>>().join("\n"))
}

/// The same from text.
pub(super) fn of_text(text: &str) -> Result<Vec<Prepared>, String> {
    text.lines().map(str::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_checkpoint_says_is_read_as_it_was_written() {
        let lines = vec![
            Prepared::Complete("dt=1/part-a-0.csv".into()),
            Prepared::Open(17, "dt=a b/part-a-1.csv".into()),
        ];
        assert_eq!(of_text(&to_text(&lines).unwrap()), Ok(lines));
        assert_eq!((to_text(&[]), of_text("")), (None, Ok(Vec::new())));
        for line in ["complete", "open x a", "open 1", "closed a"] {
            assert_eq!(of_text(line), Err(format!("a checkpoint says '{line}' of it")));
        }
    }
}
