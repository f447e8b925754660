//! Rows that came late, where they are so many that somebody should know at once: how many, which row moved time, and which option bounds that.

use std::time::{Duration, SystemTime};

use pelton::display::instant;
use pelton::progress::{Progress, SourceProgress, WatermarkStep};

use crate::print::count;

/// How often a running query is looked at.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Fewer late rows than this are no news while a query runs.
const EARLY_ROWS_MIN: u64 = 100;

/// One row in so many is a remarkable share.
const SHARE_MIN: u64 = 10;

/// Rows of sources that have event time, or of all where none has.
pub fn rows_read(progress: &Progress) -> u64 {
    let with_time = || progress.sources.iter().filter(|source| source.longest_watermark_step.is_some());
    let rows: u64 = with_time().map(|source| source.rows).sum();
    if rows > 0 { rows } else { progress.sources.iter().map(|source| source.rows).sum() }
}

/// Says once, while a query runs, that a remarkable share of its rows comes late.
#[derive(Default)]
pub struct EarlyWarning {
    has_warned: bool,
}

impl EarlyWarning {
    /// What is to be said now, if anything.
    pub fn look_at(&mut self, progress: &Progress) -> Option<String> {
        let late = progress.late_rows();
        if self.has_warned || late < EARLY_ROWS_MIN || !is_remarkable(late, rows_read(progress)) {
            return None;
        }
        self.has_warned = true;
        let read = count(rows_read(progress));
        let reasons = reasons(progress);
        Some(format!("warning: {} of {read} rows so far came late and are left out{reasons}", count(late)))
    }
}

/// Why a remarkable share of a query's rows came late, in lines; empty where it is none.
pub fn reasons_of_many(progress: &Progress) -> String {
    let is_many = is_remarkable(progress.late_rows(), rows_read(progress));
    if is_many { reasons(progress).trim_start_matches('\n').to_owned() } else { String::new() }
}

fn is_remarkable(late: u64, read: u64) -> bool {
    late > 0 && late.saturating_mul(SHARE_MIN) >= read
}

/// For each source the row that moved its watermark furthest, and what would bound that.
fn reasons(progress: &Progress) -> String {
    let steps = progress.sources.iter().filter_map(|source| Some((source, source.longest_watermark_step.as_ref()?)));
    steps.map(|(source, step)| reason(source, step, now_micros())).collect()
}

fn reason(source: &SourceProgress, step: &WatermarkStep, now: i64) -> String {
    let name = &source.name;
    let place = step.row.as_ref().map(|(input, row)| format!(" ({input}, row {row})"));
    let place = place.unwrap_or_default();
    let moved = format!(
        "\n  table {name}: a row{place} with event time {} moved the watermark from {} to {}",
        instant(step.event_time),
        instant(step.from),
        instant(step.to)
    );
    // A file in the place of a table is named by its path, or by the call that reads it.
    let is_file = name.contains('\'');
    let advice = match (step.event_time > now, is_file) {
        (true, false) => format!("'scan.watermark.max-ahead' = '1 h' in CREATE TABLE {name} {KEEPS_AHEAD}"),
        (true, true) => {
            format!("CREATE TABLE t FROM {name} WITH ('scan.watermark.max-ahead' = '1 h') {KEEPS_AHEAD}")
        }
        (false, false) => format!("a longer interval in WATERMARK FOR of table {name} {WAITS_LONGER}"),
        (false, true) => format!(
            "CREATE TABLE t FROM {name} (WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE) {WAITS_LONGER}; ts is the time column"
        ),
    };
    format!("{moved}\n  {advice}")
}

const KEEPS_AHEAD: &str = "keeps rows that are further ahead of the clock from moving it";

const WAITS_LONGER: &str = "waits longer for late rows";

fn now_micros() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(event_time: i64) -> (SourceProgress, WatermarkStep) {
        let mut source = SourceProgress::default();
        source.name = "t".to_owned();
        let mut step = WatermarkStep::default();
        (step.event_time, step.to) = (event_time, event_time - 5_000_000);
        (source, step)
    }

    #[test]
    fn a_row_ahead_of_the_clock_is_bounded_by_the_option_and_another_by_the_watermark() {
        let (ahead, step) = source(4_102_444_800_000_000);
        let said = reason(&ahead, &step, 1_700_000_000_000_000);
        let expected = "\n  table t: a row with event time 2100-01-01 00:00:00 moved the watermark from 1970-01-01 00:00:00 to 2099-12-31 23:59:55\
            \n  'scan.watermark.max-ahead' = '1 h' in CREATE TABLE t keeps rows that are further ahead of the clock from moving it";
        assert_eq!(said, expected);
        let (behind, step) = source(1_600_000_000_000_000);
        let said = reason(&behind, &step, 1_700_000_000_000_000);
        assert!(
            said.ends_with("\n  a longer interval in WATERMARK FOR of table t waits longer for late rows"),
            "{said}"
        );
    }

    #[test]
    fn a_file_has_options_where_a_table_is_made_of_it() {
        let (mut file, step) = source(1_600_000_000_000_000);
        file.name = "'out of order.csv'".to_owned();
        let advice = |now| reason(&file, &step, now).lines().last().unwrap_or_default().to_owned();
        assert_eq!(
            advice(1_700_000_000_000_000),
            "  CREATE TABLE t FROM 'out of order.csv' (WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE) waits longer for late rows; ts is the time column"
        );
        assert_eq!(
            advice(1_500_000_000_000_000),
            "  CREATE TABLE t FROM 'out of order.csv' WITH ('scan.watermark.max-ahead' = '1 h') keeps rows that are further ahead of the clock from moving it"
        );
    }

    #[test]
    fn a_tenth_of_all_rows_is_remarkable() {
        assert!(is_remarkable(100, 1_000) && is_remarkable(3, 12));
        assert!(!is_remarkable(99, 1_000) && !is_remarkable(0, 0));
    }
}
