//! What a checkpoint says of the files of a directory, a line for each: by it their rows become visible, and a job goes on with files that are not complete.

use std::fmt;
use std::str::FromStr;

use super::delta_log::Transaction;

/// What is known of a file. Names are relative to the table's directory, and have no line ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Prepared {
    /// It is complete, and gets its name.
    Complete(String),
    /// All bytes of the object are there, and its upload is completed by that text.
    Uploaded(String, String),
    /// So many of its bytes count, and others will follow.
    Open(u64, String),
    /// The partition has had rows since that time, in milliseconds since 1970-01-01T00:00:00Z, and is not complete.
    Pending(i64, String),
    /// All files are rows of the table with that transaction of its log.
    Transaction(Transaction),
    /// The partition is complete: its directory gets a file that says so.
    Committed(String),
}

impl fmt::Display for Prepared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Prepared::Complete(name) => write!(formatter, "complete {name}"),
            Prepared::Uploaded(upload, name) => write!(formatter, "uploaded {upload} {name}"),
            Prepared::Open(bytes, name) => write!(formatter, "open {bytes} {name}"),
            Prepared::Pending(began_ms, partition) => write!(formatter, "pending {began_ms} {partition}"),
            Prepared::Transaction(Transaction { writer, version }) => {
                write!(formatter, "transaction {version} {writer}")
            }
            Prepared::Committed(partition) => write!(formatter, "committed {partition}"),
        }
    }
}

impl FromStr for Prepared {
    type Err = String;

    fn from_str(line: &str) -> Result<Prepared, String> {
        let unknown = || format!("a checkpoint says '{line}' of it");
        let (kind, rest) = line.split_once(' ').ok_or_else(unknown)?;
        let two = || rest.split_once(' ').ok_or_else(unknown);
        Ok(match kind {
            "complete" => Prepared::Complete(rest.to_owned()),
            "committed" => Prepared::Committed(rest.to_owned()),
            "uploaded" => {
                let (upload, name) = two()?;
                Prepared::Uploaded(upload.to_owned(), name.to_owned())
            }
            "open" => {
                let (bytes, name) = two()?;
                Prepared::Open(bytes.parse().map_err(|_| unknown())?, name.to_owned())
            }
            "pending" => {
                let (began_ms, partition) = two()?;
                Prepared::Pending(began_ms.parse().map_err(|_| unknown())?, partition.to_owned())
            }
            "transaction" => {
                let (version, writer) = two()?;
                let version = version.parse().map_err(|_| unknown())?;
                Prepared::Transaction(Transaction { writer: writer.to_owned(), version })
            }
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
            Prepared::Uploaded("id,\"tag\"".into(), "dt=a b/part-a-2.csv".into()),
            Prepared::Open(17, "dt=a b/part-a-1.csv".into()),
            Prepared::Pending(1_700_000_000_000, "dt=a b".into()),
            Prepared::Committed("dt=1/h=2".into()),
            Prepared::Transaction(Transaction { writer: "pelton-a b-7".into(), version: 3 }),
        ];
        assert_eq!(of_text(&to_text(&lines).unwrap()), Ok(lines));
        assert_eq!((to_text(&[]), of_text("")), (None, Ok(Vec::new())));
        for line in ["complete", "open x a", "open 1", "closed a", "transaction a b"] {
            assert_eq!(of_text(line), Err(format!("a checkpoint says '{line}' of it")));
        }
    }
}
