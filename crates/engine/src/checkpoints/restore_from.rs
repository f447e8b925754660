//! Which checkpoint a job goes on from.

use std::fmt;

/// What stands before the number of [`RestoreFrom::LatestBehind`].
const LATEST_BEHIND: &str = "latest behind ";

/// Which checkpoint a job goes on from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoreFrom {
    /// The newest, savepoints too; none where there is none.
    Latest,
    /// The newest of those with a greater number, as of a job that had begun anew.
    LatestBehind(u64),
    /// The one of this number.
    Id(u64),
}

impl fmt::Display for RestoreFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RestoreFrom::Latest => f.write_str("latest"),
            RestoreFrom::LatestBehind(id) => write!(f, "{LATEST_BEHIND}{id}"),
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
                text[LATEST_BEHIND.len()..].parse().ok().map(RestoreFrom::LatestBehind)
            }
            number => number.parse().ok().filter(|&id| id > 0).map(RestoreFrom::Id),
        }
    }
}
