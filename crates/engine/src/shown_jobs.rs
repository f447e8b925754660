//! What `SHOW JOBS` and `DESCRIBE JOB` show.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arrow::array::RecordBatch;
use arrow::temporal_conversions::timestamp_us_to_datetime;
use pelton_data::zone::Zone;

use crate::checkpoints::watched::CheckpointStatus;
use crate::display::{shown_rows, text_rows};
use crate::job::Job;

/// Names of the columns. The first four are Flink's.
const COLUMNS: [&str; 12] = [
    "job id",
    "job name",
    "status",
    "start time",
    "end time",
    "rows in",
    "rows out",
    "state bytes",
    "checkpoint",
    "checkpoint error",
    "error",
    "statement",
];

/// Those that a user looks for first.
const NARROW: [(&str, usize); 7] = [
    ("job id", 7),
    ("job name", 24),
    ("status", 8),
    ("start time", 23),
    ("rows in", 12),
    ("rows out", 12),
    ("error", 60),
];

/// One row for each job.
pub(crate) fn listed(jobs: &[Job], zone: Zone, is_verbose: bool) -> RecordBatch {
    shown_rows((&COLUMNS, &NARROW), jobs.iter().map(|job| row(job, zone)), is_verbose)
}

/// All of one job.
pub(crate) fn described(job: &Job, zone: Zone) -> RecordBatch {
    text_rows(&COLUMNS, std::iter::once(row(job, zone)))
}

fn row(job: &Job, zone: Zone) -> Vec<String> {
    let progress = job.progress();
    let status = job.checkpoints().unwrap_or_default();
    let rows_in: u64 = progress.sources.iter().map(|source| source.rows).sum();
    let rows_out: u64 = progress.sinks.iter().map(|sink| sink.rows).sum();
    vec![
        job.id().to_string(),
        job.name().to_owned(),
        job.state().name().to_owned(),
        local_time(job.started_at(), zone),
        job.ended_at().map(|time| local_time(time, zone)).unwrap_or_default(),
        rows_in.to_string(),
        rows_out.to_string(),
        progress.load.state_bytes.to_string(),
        checkpoint(&status, zone),
        status.error.unwrap_or_default(),
        job.error().map(|error| error.to_string()).or_else(|| job.trouble()).unwrap_or_default(),
        job.statement().to_owned(),
    ]
}

/// The last checkpoint: its number, when it was complete, how long it took, for how long nothing was read, and what was written.
fn checkpoint(status: &CheckpointStatus, zone: Zone) -> String {
    let Some(last) = status.last else {
        return status.restored_from.map(|id| format!("restored from {id}")).unwrap_or_default();
    };
    let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
    format!(
        "{} at {}, {:.1} ms (paused {:.1} ms), {} of {} bytes written",
        last.id,
        local_time(last.completed, zone),
        millis(last.duration),
        millis(last.pause),
        last.bytes_written,
        last.state_bytes
    )
}

/// A time by the clocks of a zone.
fn local_time(time: SystemTime, zone: Zone) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
    let local = timestamp_us_to_datetime(zone.clock(micros));
    local.map(|time| time.format("%Y-%m-%d %H:%M:%S%.3f").to_string()).unwrap_or_default()
}
