//! Tables of a simulation, and the rows that they get.

use std::sync::Arc;

use arrow::array::{Array, Int64Array, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::SchemaRef;
use pelton::{PushSource, Session};

use super::Dice;
use super::kinds::{Kind, interval};

/// Rows that a table gets at most.
const ROWS_MAX: usize = 120;

/// Keys are so many times as far apart where they do not lie close together.
const FAR: i64 = 1 << 40;

/// How far a watermark is behind the rows of its table where it is behind.
pub(super) const LAG_MS: i64 = 20;

/// How much further rows may be behind where some are late.
const LATE_MS: i64 = 25;

#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub i: i64,
    pub k: i64,
    pub d: i64,
    pub ts: i64,
    /// Where the watermark of its table stands when it arrives.
    pub watermark: i64,
}

/// A table and what is still to be pushed.
pub(super) struct Feed {
    /// `None` when it has ended, or makes its rows itself.
    source: Option<PushSource>,
    /// As they arrive.
    pub rows: Vec<Row>,
    pushed: usize,
}

impl Feed {
    pub fn new(session: &Session, name: &str, kind: Kind, dice: &mut Dice) -> Feed {
        let lag_ms = dice.pick(&[0, LAG_MS]);
        let rows = rows(kind, lag_ms, dice);
        let source = session.push_table(name, &columns(lag_ms)).expect("the table is right");
        Feed { source: Some(source), rows, pushed: 0 }
    }

    /// Of a table that numbers its rows.
    pub fn generated(dice: &mut Dice) -> Feed {
        let row = |index| Row { i: index as i64, k: 0, d: 0, ts: 0, watermark: i64::MIN };
        Feed { source: None, rows: (0..1 + dice.below(ROWS_MAX)).map(row).collect(), pushed: 0 }
    }

    /// Pushes some rows, or ends the table. Returns whether it could.
    pub fn push(&mut self, dice: &mut Dice) -> bool {
        let Some(source) = &self.source else { return false };
        if self.pushed == self.rows.len() {
            self.source = None;
            return true;
        }
        let count = (1 + dice.below(12)).min(self.rows.len() - self.pushed);
        let rows = &self.rows[self.pushed..self.pushed + count];
        match source.try_push(batch(source.schema(), rows)) {
            Ok(was_taken) => {
                self.pushed += if was_taken { count } else { 0 };
                was_taken
            }
            Err(_) => {
                // The query has ended.
                self.source = None;
                true
            }
        }
    }
}

/// The columns of a table whose watermark is so far behind.
pub(super) fn columns(lag_ms: i64) -> String {
    format!(
        "i BIGINT NOT NULL, k BIGINT NOT NULL, d BIGINT NOT NULL, ts TIMESTAMP(3) NOT NULL, WATERMARK FOR ts AS ts - {}",
        interval(lag_ms)
    )
}

/// Rows of such a table.
pub(super) fn batch(schema: &SchemaRef, rows: &[Row]) -> RecordBatch {
    let column = |of: fn(&Row) -> i64| Arc::new(rows.iter().map(of).collect::<Int64Array>());
    let times = Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.ts)));
    let columns: Vec<Arc<dyn Array>> = vec![column(|row| row.i), column(|row| row.k), column(|row| row.d), times];
    RecordBatch::try_new(schema.clone(), columns).expect("the rows fit the table")
}

/// Rows as they arrive: in the order of their times, as far behind others as the watermark is, or further.
pub(super) fn rows(kind: Kind, lag_ms: i64, dice: &mut Dice) -> Vec<Row> {
    let late_ms = if kind.may_have_late_rows() { LATE_MS } else { 0 };
    let behind_ms = dice.pick(&[0, lag_ms, lag_ms + late_ms]);
    let (keys, has_far_keys, step_min) = (dice.pick(&[1, 3, 40]), dice.one_in(3), dice.below(2) as i64);
    let mut ts = 0;
    let count = dice.below(ROWS_MAX);
    let mut arrivals = Vec::with_capacity(count);
    for _ in 0..count {
        ts += step_min + dice.pick(&[0, 0, 2, 30]);
        let d = 1 + dice.below(9) as i64;
        let scale = if has_far_keys && dice.one_in(8) { FAR } else { 1 };
        let k = dice.below(keys) as i64 * scale;
        arrivals.push((ts + dice.below(behind_ms as usize + 1) as i64, Row { i: 0, k, d, ts, watermark: i64::MIN }));
    }
    arrivals.sort_by_key(|(arrival, _)| *arrival);
    let mut rows: Vec<Row> = arrivals.into_iter().map(|(_, row)| row).collect();
    let mut watermark = i64::MIN;
    for (index, row) in rows.iter_mut().enumerate() {
        (row.i, row.watermark) = (index as i64, watermark);
        watermark = watermark.max(row.ts - lag_ms);
    }
    if !kind.bad_values().is_empty() && !rows.is_empty() && dice.one_in(3) {
        let bad = dice.below(rows.len());
        rows[bad].d = dice.pick(kind.bad_values());
    }
    rows
}
