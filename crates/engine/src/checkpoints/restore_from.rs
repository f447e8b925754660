//! Which checkpoint a job goes on from.

use std::fmt;

/// What stands before the numbers of [`RestoreFrom::LatestBehind`].
const LATEST_BEHIND: &str = "latest behind ";

/// What stands between its numbers.
const ALTERED_AT: &str = ", altered at ";

/// Which checkpoint a job goes on from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoreFrom {
    /// The newest, savepoints too; none where there is none.
    Latest,
    /// The newest of those that a job has written which an engine starts again.
    LatestBehind {
        /// Those up to this number are of an earlier job of its name.
        before: u64,
        /// Those up to this number are of the query that the job was altered from: it keeps what it has as well.
        altered_at: u64,
    },
    /// The one of this number.
    Id(u64),
}

impl fmt::Display for RestoreFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RestoreFrom::Latest => f.write_str("latest"),
            RestoreFrom::LatestBehind { before, altered_at } => {
                write!(f, "{LATEST_BEHIND}{before}{ALTERED_AT}{altered_at}")
            }
            RestoreFrom::Id(id) => write!(f, "{id}"),
        }
    }
}

impl RestoreFrom {
    /// Reads `latest` or a number.
    pub fn parse(text: &str) -> Option<RestoreFrom> {
        match text {
            "latest" => Some(RestoreFrom::Latest),
            text if text.starts_with(LATEST_BEHIND) => {
                let (before, altered_at) = text[LATEST_BEHIND.len()..].split_once(ALTERED_AT)?;
                Some(RestoreFrom::LatestBehind { before: before.parse().ok()?, altered_at: altered_at.parse().ok()? })
            }
            number => number.parse().ok().filter(|&id| id > 0).map(RestoreFrom::Id),
        }
    }
}
