//! Rows that came late, where they are so many that somebody should know at once: how many, which row moved time, and which option bounds that.

use std::time::{Duration, SystemTime};

use pelton::display::instant;
use pelton::progress::{Leap, Progress, SourceProgress};

use crate::print::count;

/// How often a running query is looked at.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Fewer late rows than this are no news while a query runs.
const EARLY_ROWS_MIN: u64 = 100;

/// One row in so many is a remarkable share.
const SHARE_MIN: u64 = 10;

/// Rows of sources that have event time, or of all where none has.
pub fn rows_read(progress: &Progress) -> u64 {
    let with_time = || progress.sources.iter().filter(|source| source.leap.is_some());
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
    let leaps = progress.sources.iter().filter_map(|source| Some((source, source.leap.as_ref()?)));
    leaps.map(|(source, leap)| reason(source, leap, now_micros())).collect()
}

fn reason(source: &SourceProgress, leap: &Leap, now: i64) -> String {
    let name = &source.name;
    let place = leap.provenance.as_ref().map(|row| format!(" ({}, row {})", row.input, row.first_row));
    let place = place.unwrap_or_default();
    let moved = format!(
        "\n  table {name}: a row{place} with event time {} moved the watermark from {} to {}",
        instant(leap.event_time),
        instant(leap.from),
        instant(leap.to)
    );
    let advice = if leap.event_time > now {
        format!(
            "\n  'scan.watermark.max-ahead' = '1 h' in CREATE TABLE {name} keeps rows that are further ahead of the clock from moving it"
        )
    } else {
        format!("\n  a longer interval in WATERMARK FOR of table {name} waits longer for late rows")
    };
    moved + &advice
}

fn now_micros() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(event_time: i64) -> (SourceProgress, Leap) {
        let leap = Leap { event_time, from: 0, to: event_time - 5_000_000, provenance: None };
        let source = SourceProgress {
            name: "t".to_owned(),
            rows: 1_000,
            rows_per_s: 0.0,
            bytes: 0,
            left_out: Default::default(),
            watermark: 0,
            is_being_read: false,
            leap: Some(leap.clone()),
        };
        (source, leap)
    }

    #[test]
    fn a_row_ahead_of_the_clock_is_bounded_by_the_option_and_another_by_the_watermark() {
        let (ahead, leap) = source(4_102_444_800_000_000);
        let said = reason(&ahead, &leap, 1_700_000_000_000_000);
        let expected = "\n  table t: a row with event time 2100-01-01 00:00:00 moved the watermark from 1970-01-01 00:00:00 to 2099-12-31 23:59:55\
            \n  'scan.watermark.max-ahead' = '1 h' in CREATE TABLE t keeps rows that are further ahead of the clock from moving it";
        assert_eq!(said, expected);
        let (behind, leap) = source(1_600_000_000_000_000);
        let said = reason(&behind, &leap, 1_700_000_000_000_000);
        assert!(
            said.ends_with("\n  a longer interval in WATERMARK FOR of table t waits longer for late rows"),
            "{said}"
        );
    }

    #[test]
    fn a_tenth_of_all_rows_is_remarkable() {
        assert!(is_remarkable(100, 1_000) && is_remarkable(3, 12));
        assert!(!is_remarkable(99, 1_000) && !is_remarkable(0, 0));
    }
}
