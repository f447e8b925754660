//! When a part of a directory ends and another one begins.

use std::time::{Duration, Instant};

use crate::ConnectorError;
use crate::format::Format;
use crate::options::{Options, parse_duration, parse_memory_size};

/// Flink's options.
const FILE_SIZE: &str = "sink.rolling-policy.file-size";
const ROLLOVER_INTERVAL: &str = "sink.rolling-policy.rollover-interval";
const CHECK_INTERVAL: &str = "sink.rolling-policy.check-interval";

const ALL: [&str; 3] = [FILE_SIZE, ROLLOVER_INTERVAL, CHECK_INTERVAL];

/// Makes the options known where a table is read.
pub(super) fn acknowledge(options: &Options) {
    for name in ALL {
        options.text(name);
    }
}

/// Refuses the options of a table that is one file.
pub(super) fn refuse(options: &Options) -> Result<(), ConnectorError> {
    match ALL.into_iter().find(|name| options.text(name).is_some()) {
        Some(name) => {
            let problem = "is for directories, and the path has the name of a file; name a directory, or leave it out";
            Err(ConnectorError::option(name, problem))
        }
        None => Ok(()),
    }
}

/// When a part ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RollingPolicy {
    /// At each checkpoint: parts of formats and objects, which are of no use before their end, and all where the table says nothing of when they end.
    pub(super) at_checkpoints: bool,
    limits: Option<Limits>,
}

/// What one of the options asks for: the others have their defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Limits {
    /// The first write behind which a part has so many bytes ends it.
    bytes: u64,
    /// How long a part is written,
    open: Duration,
    /// and how often it is looked whether it has been for so long.
    check: Duration,
}

impl RollingPolicy {
    /// What the options say of a directory. `can_grow`: what was written of a file of lines is of use before its end.
    pub(super) fn of(options: &Options, format: &Format, can_grow: bool) -> Result<RollingPolicy, ConnectorError> {
        let bytes = options.memory_size(FILE_SIZE)?;
        let [open, check] = [ROLLOVER_INTERVAL, CHECK_INTERVAL].map(|name| options.duration(name));
        let (open, check) = (open?, check?);
        let zero = [(FILE_SIZE, bytes == Some(0)), (CHECK_INTERVAL, check.is_some_and(|check| check.is_zero()))];
        if let Some((option, _)) = zero.into_iter().find(|(_, is_zero)| *is_zero) {
            return Err(ConnectorError::option(option, "must be more than 0"));
        }
        let is_given = bytes.is_some() || open.is_some() || check.is_some();
        let limits = is_given.then(|| Limits {
            bytes: options.or_default(FILE_SIZE, bytes, parse_memory_size),
            open: options.or_default(ROLLOVER_INTERVAL, open, parse_duration),
            check: options.or_default(CHECK_INTERVAL, check, parse_duration),
        });
        Ok(RollingPolicy { at_checkpoints: !is_given || !can_grow || !matches!(format, Format::Text(_)), limits })
    }

    /// Whether a part of so many bytes ends.
    pub(super) fn is_full(&self, bytes: u64) -> bool {
        self.limits.as_ref().is_some_and(|limits| bytes >= limits.bytes)
    }

    /// Whether a part ends that was begun then.
    pub(super) fn is_old(&self, began: Instant) -> bool {
        self.limits.as_ref().is_some_and(|limits| began.elapsed() >= limits.open)
    }

    /// How long after one look whether parts are old the next one is.
    pub(super) fn check_interval(&self) -> Option<Duration> {
        self.limits.as_ref().map(|limits| limits.check)
    }
}
