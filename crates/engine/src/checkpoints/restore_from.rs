//! Which checkpoint a job goes on from.

/// Which checkpoint a job goes on from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoreFrom {
    /// The newest, savepoints too; none where there is none.
    Latest,
    /// The one of this number.
    Id(u64),
}

impl RestoreFrom {
    /// Reads `latest` or a number.
    pub fn parse(text: &str) -> Option<RestoreFrom> {
        match text {
            "latest" => Some(RestoreFrom::Latest),
            number => number.parse().ok().filter(|&id| id > 0).map(RestoreFrom::Id),
        }
    }
}
