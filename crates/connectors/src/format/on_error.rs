//! What happens to rows that cannot be decoded.

use super::name::FormatName;
use crate::error::ConnectorError;
use crate::options::Options;

/// The table that takes rows that were skipped.
pub(crate) const DEAD_LETTER_TABLE: &str = "on-error.dead-letter-table";

/// What happens to rows that do not fit their table, or cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// The query stops.
    Fail,
    /// They are counted, and the first of them kept.
    Skip,
    /// They are counted, and all of them kept: they go to a table of their own.
    SetAside,
    /// A value that cannot be decoded is NULL, and counted; what cannot be so is skipped.
    Null,
}

impl OnError {
    /// What a table's options say, among which the format's own `ignore` goes before `on-error`.
    pub(crate) fn new(options: &Options, ignore: Option<&str>) -> Result<OnError, ConnectorError> {
        let choices = [("fail", OnError::Fail), ("skip", OnError::Skip)];
        let asked = options.choice("on-error", &choices)?;
        let mut on_error = asked.unwrap_or(OnError::Fail);
        if options.text(DEAD_LETTER_TABLE).is_some() {
            if asked != Some(OnError::Skip) || ignore.is_some_and(|ignore| options.text(ignore).is_some()) {
                return Err(ConnectorError::option(
                    DEAD_LETTER_TABLE,
                    "needs 'on-error' = 'skip', and no other option for errors",
                ));
            }
            on_error = OnError::SetAside;
        }
        let Some(ignore) = ignore.filter(|ignore| options.text(ignore).is_some()) else { return Ok(on_error) };
        match (options.boolean(ignore)?, asked) {
            (true, Some(OnError::Fail)) => {
                Err(ConnectorError::option(ignore, "cannot be 'true' together with 'on-error' = 'fail'"))
            }
            (true, _) => Ok(OnError::Null),
            (false, _) => Ok(OnError::Fail),
        }
    }

    /// Whether all rows are kept that do not fit, and as long as they are.
    pub(crate) fn keeps_all(self) -> bool {
        self == OnError::SetAside
    }

    /// What the options of a table say that has been opened with them, so that they are those of its format.
    pub(crate) fn of_table(options: &Options) -> Result<OnError, ConnectorError> {
        let formats = [FormatName::Csv, FormatName::Json].into_iter();
        let mut ignores = formats.filter_map(FormatName::ignore_option);
        OnError::new(options, ignores.find(|ignore| options.text(ignore).is_some()))
    }
}
