//! Says of the partitions of a table when they are complete: others find a file of an agreed name in their directories.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::time::Duration;

use arrow::array::timezone::Tz;
use chrono::{NaiveDate, NaiveDateTime, NaiveTime, TimeZone};
use pelton_data::Micros;
use pelton_data::time::{WATERMARK_MAX, WATERMARK_MIN};

use super::partition_keys;
use crate::options::{Options, one_of};
use crate::{ConnectorError, TableRequest};

/// Flink's options.
const POLICY: &str = "sink.partition-commit.policy.kind";
const TRIGGER: &str = "sink.partition-commit.trigger";
const DELAY: &str = "sink.partition-commit.delay";
const SUCCESS_FILE: &str = "sink.partition-commit.success-file.name";
const TIME_ZONE: &str = "sink.partition-commit.watermark-time-zone";
const PATTERN: &str = "partition.time-extractor.timestamp-pattern";

const ALL: [&str; 6] = [POLICY, TRIGGER, DELAY, SUCCESS_FILE, TIME_ZONE, PATTERN];

/// Makes the options known where a table is read.
pub(super) fn acknowledge(options: &Options) {
    for name in ALL {
        options.text(name);
    }
}

/// What makes a partition complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trigger {
    /// So long after its first row was written.
    ProcessTime,
    /// The watermark has come so far beyond the time that its values tell.
    PartitionTime,
}

/// When a partition is complete, and how that is said.
#[derive(Debug, Clone)]
pub(super) struct CommitPolicy {
    trigger: Trigger,
    delay: Duration,
    pub(super) success_file: String,
    /// Text in which `$name` stands for the value of the column; without it, that of the first column is meant.
    pattern: Option<String>,
    /// That of the times which values tell.
    time_zone: Tz,
    /// What stands for NULL.
    default_name: String,
}

impl CommitPolicy {
    /// What the options say of a table that is written; `None` where nothing is said of partitions.
    pub(super) fn of(request: &TableRequest, options: &Options) -> Result<Option<CommitPolicy>, ConnectorError> {
        let has_policy = options.choice(POLICY, &[("success-file", ())])?.is_some();
        let trigger = options
            .choice(TRIGGER, &[("process-time", Trigger::ProcessTime), ("partition-time", Trigger::PartitionTime)])?;
        let delay = options.duration(DELAY)?;
        let success_file = options.text(SUCCESS_FILE);
        let (pattern, zone) = (options.text(PATTERN), options.text(TIME_ZONE));
        let Some(&given) = ALL.iter().find(|name| options.text(name).is_some()) else { return Ok(None) };
        if request.partition_keys.is_empty() {
            return Err(ConnectorError::option(given, "is for tables that are PARTITIONED BY columns; leave it out"));
        }
        if !has_policy {
            return Err(ConnectorError::option(given, format!("needs '{POLICY}' = 'success-file' beside it")));
        }
        if let Some(name) = success_file.filter(|name| !name.starts_with(['.', '_']) || name.contains('/')) {
            let problem =
                format!("must be a name that begins with '_' or '.', or the file would be read as rows, not '{name}'");
            return Err(ConnectorError::option(SUCCESS_FILE, problem));
        }
        let time_zone = Tz::from_str(zone.unwrap_or("UTC")).map_err(|_| {
            let problem =
                format!("must be a time zone such as 'UTC' or 'Europe/Berlin', not '{}'", zone.unwrap_or_default());
            ConnectorError::option(TIME_ZONE, problem)
        })?;
        let policy = CommitPolicy {
            trigger: trigger.unwrap_or(Trigger::ProcessTime),
            delay: delay.unwrap_or_default(),
            success_file: success_file.unwrap_or("_SUCCESS").to_owned(),
            pattern: pattern.map(str::to_owned),
            time_zone,
            default_name: partition_keys::default_name(request).to_owned(),
        };
        policy.check_pattern(request)?;
        Ok(Some(policy))
    }

    /// Whether the pattern names columns of `PARTITIONED BY`.
    fn check_pattern(&self, request: &TableRequest) -> Result<(), ConnectorError> {
        let Some(pattern) = &self.pattern else { return Ok(()) };
        let keys = request.partition_keys.iter().map(|&key| request.schema.field(key).name().clone());
        let values: Vec<(String, String)> = keys.map(|key| (key, String::new())).collect();
        if !filled(pattern, &values).contains('$') {
            return Ok(());
        }
        let keys: Vec<String> = values.iter().map(|(key, _)| format!("${key}")).collect();
        let problem = format!("must be a text with {} in it, not '{pattern}'", one_of(&keys));
        Err(ConnectorError::option(PATTERN, problem))
    }

    /// The time that the values of a partition tell; `None` where one of them is NULL.
    fn time(&self, partition: &str) -> Result<Option<Micros>, String> {
        let values = partition_keys::values(partition);
        if values.iter().any(|(_, value)| *value == self.default_name) {
            return Ok(None);
        }
        let text = match &self.pattern {
            Some(pattern) => filled(pattern, &values),
            None => values.first().map_or_else(String::new, |(_, value)| value.clone()),
        };
        let time = NaiveDateTime::parse_from_str(&text, "%Y-%m-%d %H:%M:%S%.f").ok();
        let midnight = || Some(NaiveDate::parse_from_str(&text, "%Y-%m-%d").ok()?.and_time(NaiveTime::MIN));
        let Some(time) = time.or_else(midnight) else {
            return Err(format!(
                "the partition {partition} tells the time '{text}', which is not as 2024-01-01 or 2024-01-01 10:00:00; set '{PATTERN}', such as '$dt $hour:00:00'"
            ));
        };
        // A time that the clocks of the zone leave out is as late as what follows.
        let instant = self.time_zone.from_local_datetime(&time).earliest();
        Ok(Some(instant.map_or_else(|| time.and_utc().timestamp_micros(), |instant| instant.timestamp_micros())))
    }
}

/// A pattern with values in the place of names.
fn filled(pattern: &str, values: &[(String, String)]) -> String {
    let mut values: Vec<&(String, String)> = values.iter().collect();
    // `$hours` is not `$hour` with an s.
    values.sort_by_key(|(key, _)| std::cmp::Reverse(key.len()));
    values.iter().fold(pattern.to_owned(), |text, (key, value)| text.replace(&format!("${key}"), value))
}

/// The partitions of a table that is written.
pub(super) struct PartitionCommit {
    pub(super) policy: CommitPolicy,
    /// How far time has come.
    pub(super) watermark: Micros,
    /// Those that have rows and are not complete, and when the first row was written, in milliseconds since 1970-01-01T00:00:00Z.
    pub(super) pending: BTreeMap<String, i64>,
    /// Those that are complete, and of which that has not been said.
    pub(super) complete: BTreeSet<String>,
}

impl PartitionCommit {
    pub(super) fn new(policy: CommitPolicy) -> PartitionCommit {
        PartitionCommit { policy, watermark: WATERMARK_MIN, pending: BTreeMap::new(), complete: BTreeSet::new() }
    }

    /// Finds those that are complete at a time of the clock, in milliseconds, or because no row comes any more.
    pub(super) fn find_complete(&mut self, now_ms: i64) -> Result<(), String> {
        let CommitPolicy { trigger, delay, .. } = self.policy;
        for (partition, began_ms) in std::mem::take(&mut self.pending) {
            let is_complete = self.watermark == WATERMARK_MAX
                || match trigger {
                    Trigger::ProcessTime => now_ms >= began_ms.saturating_add(delay.as_millis() as i64),
                    Trigger::PartitionTime => self
                        .policy
                        .time(&partition)?
                        .is_some_and(|time| self.watermark >= time.saturating_add(delay.as_micros() as Micros)),
                };
            if is_complete {
                self.complete.insert(partition);
            } else {
                self.pending.insert(partition, began_ms);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(trigger: Trigger, delay_s: u64, pattern: Option<&str>, zone: &str) -> PartitionCommit {
        PartitionCommit::new(CommitPolicy {
            trigger,
            delay: Duration::from_secs(delay_s),
            success_file: "_SUCCESS".into(),
            pattern: pattern.map(str::to_owned),
            time_zone: zone.parse().unwrap(),
            default_name: "NONE".into(),
        })
    }

    fn complete(commit: &mut PartitionCommit, now_ms: i64) -> Vec<String> {
        commit.find_complete(now_ms).unwrap();
        std::mem::take(&mut commit.complete).into_iter().collect()
    }

    #[test]
    fn a_partition_is_complete_some_time_after_it_was_begun() {
        let mut by_clock = commit(Trigger::ProcessTime, 2, None, "UTC");
        by_clock.pending = [("a=1".into(), 1_000), ("a=2".into(), 1_500)].into();
        assert_eq!(complete(&mut by_clock, 2_999), [""; 0]);
        assert_eq!(complete(&mut by_clock, 3_000), ["a=1"]);
        by_clock.watermark = WATERMARK_MAX;
        assert_eq!(complete(&mut by_clock, 3_000), ["a=2"]);
    }

    #[test]
    fn a_partition_is_complete_when_the_watermark_has_passed_its_time() {
        let hour = 3_600_000_000;
        let mut by_time = commit(Trigger::PartitionTime, 3_600, Some("$dt $h:00:00"), "UTC");
        by_time.pending =
            ["dt=1970-01-02/h=03", "dt=1970-01-02/h=4", "dt=1970-01-02/h=NONE"].map(|p| (p.into(), 0)).into();
        by_time.watermark = 28 * hour - 1;
        assert_eq!(complete(&mut by_time, 0), [""; 0]);
        by_time.watermark = 28 * hour;
        assert_eq!(complete(&mut by_time, 0), ["dt=1970-01-02/h=03"]);
        by_time.watermark = WATERMARK_MAX;
        assert_eq!(complete(&mut by_time, 0), ["dt=1970-01-02/h=4", "dt=1970-01-02/h=NONE"]);
        let mut of_zone = commit(Trigger::PartitionTime, 0, None, "Europe/Berlin");
        of_zone.pending = [("d=1970-01-02".into(), 0)].into();
        of_zone.watermark = 23 * hour;
        assert_eq!(complete(&mut of_zone, 0), ["d=1970-01-02"]);
        of_zone.pending = [("d=monday".into(), 0)].into();
        let problem = "the partition d=monday tells the time 'monday', which is not as 2024-01-01 or 2024-01-01 10:00:00; \
                       set 'partition.time-extractor.timestamp-pattern', such as '$dt $hour:00:00'";
        assert_eq!(of_zone.find_complete(0), Err(problem.into()));
    }
}
