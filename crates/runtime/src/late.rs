//! Rows that came too late: whoever leaves them out counts them, and the newest of them are kept for people to read.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use pelton_data::window::Window;
use pelton_data::{Block, Micros};

use crate::sync::Mutex;

/// The option, of any table that has a watermark, that says how far ahead of the clock a row's event time may be for it to move the watermark.
pub const MAX_AHEAD: &str = "scan.watermark.max-ahead";

/// Late rows that are kept, over all queries that share a log. Of one block no more are looked at either.
pub const LATE_ROWS_KEPT: usize = 1000;

/// Which rows of a block came too late.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LateList {
    /// How many.
    pub count: u64,
    /// The last of them, with the watermark that each came after.
    rows: VecDeque<(u32, Micros)>,
}

/// Rows of a block that came too late for an operator.
pub(crate) struct TooLate {
    pub operator: usize,
    /// How many.
    pub count: u64,
    /// The last of them.
    pub rows: (RecordBatch, Vec<LateRow>),
}

/// Rows that came too late for one window aggregation, or for functions OVER rows.
#[derive(Debug, Clone)]
pub struct LateRows {
    /// Which query's, in the words of whoever started it.
    pub query: Arc<str>,
    /// What they came too late for.
    pub operator: String,
    /// The table, or the part of the query, that they came from.
    pub source: String,
    /// The columns of the rows that the query uses; of sessions, what each late piece of one would have been as a result, where that can be
    /// computed.
    pub rows: Option<RecordBatch>,
    /// One for each of `rows`, in the order in which they came.
    pub each: Vec<LateRow>,
}

/// When a row came, and what for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateRow {
    /// Its event time, in microseconds; of a piece of a session, the first.
    pub time: Micros,
    /// The end of the last window that it would have counted in, if it is windows that it came too late for.
    pub window_end: Option<Micros>,
    /// How far its partition's time had come before it.
    pub watermark: Micros,
    /// How many rows it stands for: more than one only of pieces of sessions.
    pub count: u64,
}

/// Keeps the newest late rows of all queries that share it.
#[derive(Debug, Clone)]
pub struct LateLog {
    query: Arc<str>,
    kept: Arc<Mutex<VecDeque<LateRows>>>,
}

impl LateList {
    /// Adds a row of the block that came after this watermark.
    pub fn push(&mut self, row: usize, watermark: Micros) {
        self.count += 1;
        if self.rows.len() == LATE_ROWS_KEPT {
            self.rows.pop_front();
        }
        self.rows.push_back((row as u32, watermark));
    }

    /// The rows themselves, which came too late for this operator: for these windows, or for functions OVER rows. None where none did.
    pub fn take(self, block: &Block, operator: usize, window: Option<&Window>) -> Option<TooLate> {
        let time = block.time_column().filter(|_| self.count > 0)?;
        let ticks = block.raw_ticks()?;
        let late_row = |&(row, watermark): &(u32, Micros)| {
            let time = (ticks[row as usize] + block.time_shift_ticks()) * time.micros_per_tick;
            let covered = window.and_then(|window| window.slice(time).covered);
            LateRow { time, window_end: covered.map(|covered| covered.last_end), watermark, count: 1 }
        };
        let each = self.rows.iter().map(late_row).collect();
        let indices: UInt32Array = self.rows.iter().map(|(row, _)| *row).collect();
        let rows = take_record_batch(&block.to_record_batch(), &indices).expect("the rows are in the block");
        Some(TooLate { operator, count: self.count, rows: (rows, each) })
    }
}

impl LateLog {
    /// Nothing is late.
    pub fn new() -> LateLog {
        LateLog { query: "".into(), kept: Arc::default() }
    }

    /// The same log for the late rows of this query.
    pub fn of_query(&self, query: &str) -> LateLog {
        LateLog { query: query.into(), kept: self.kept.clone() }
    }

    /// What is kept, newest first; the rows of each are in the order in which they came.
    pub fn newest_first(&self) -> Vec<LateRows> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().cloned().collect()
    }

    /// Keeps rows, and forgets the oldest where there are too many.
    pub(crate) fn keep(&self, operator: &str, source: &str, (rows, each): (Option<RecordBatch>, Vec<LateRow>)) {
        let (operator, source) = (operator.to_string(), source.to_string());
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(LateRows { query: self.query.clone(), operator, source, rows, each });
        let mut surplus = kept.iter().map(|rows| rows.each.len()).sum::<usize>().saturating_sub(LATE_ROWS_KEPT);
        while let Some(oldest) = kept.front_mut().filter(|_| surplus > 0) {
            let dropped = surplus.min(oldest.each.len());
            surplus -= dropped;
            if dropped == oldest.each.len() {
                kept.pop_front();
                continue;
            }
            oldest.each.drain(..dropped);
            oldest.rows = oldest.rows.as_ref().map(|rows| rows.slice(dropped, rows.num_rows() - dropped));
        }
    }
}

impl Default for LateLog {
    fn default() -> Self {
        LateLog::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(times: std::ops::Range<i64>) -> (Option<RecordBatch>, Vec<LateRow>) {
        (None, times.map(|time| LateRow { time, window_end: None, watermark: 0, count: 1 }).collect())
    }

    #[test]
    fn the_newest_rows_are_kept() {
        let log = LateLog::new();
        log.of_query("1").keep("window 0", "a", late(0..600));
        log.of_query("2").keep("window 0", "b", late(600..900));
        log.keep("over 0", "c", late(900..1150));
        let kept = log.newest_first();
        let times = |rows: &LateRows| (rows.each[0].time, rows.each[rows.each.len() - 1].time);
        assert_eq!(kept.iter().map(times).collect::<Vec<_>>(), [(900, 1149), (600, 899), (150, 599)]);
        assert_eq!(kept.iter().map(|rows| rows.query.as_ref()).collect::<Vec<_>>(), ["", "2", "1"]);
        log.keep("over 0", "c", late(2000..3000));
        assert_eq!(log.newest_first().len(), 1);
    }
}
