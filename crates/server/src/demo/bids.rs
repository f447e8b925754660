//! The demo's query, and its newest window.

use pelton::arrow::array::{AsArray, RecordBatch};
use pelton::arrow::datatypes::{Int32Type, Int64Type, TimestampMillisecondType};

/// What is bid for.
const NAMES: [&str; 12] = [
    "Violin",
    "Globe",
    "Telescope",
    "Clock",
    "Typewriter",
    "Sextant",
    "Gramophone",
    "Atlas",
    "Lantern",
    "Camera",
    "Chess set",
    "Compass",
];

/// Seconds in which most bids are for the same lots: then interest moves on to the next.
const INTEREST_S: f64 = 1.5;

/// Bids that are counted together, in words.
pub const WINDOW_TEXT: &str = "the last five seconds";

/// The query as it runs.
pub const QUERY: &str = "\
SELECT window_end, lot, COUNT(*) AS bids
FROM HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '5' SECOND)
GROUP BY window_start, window_end, lot";

/// The generated stream, and the query. Two numbers at random make neighbours of the lot that is asked for most a little less asked for.
pub fn script(rate: u64) -> String {
    let (lots, spread) = (NAMES.len(), NAMES.len() / 2 - 1);
    let interest = ((rate as f64 * INTEREST_S) as u64).max(1);
    format!(
        "CREATE TABLE generated (
             n BIGINT NOT NULL, a BIGINT NOT NULL, b BIGINT NOT NULL, ts TIMESTAMP(3) NOT NULL, WATERMARK FOR ts AS ts
         ) WITH (
             'connector' = 'datagen', 'rows-per-second' = '{rate}', 'pace' = 'real-time', 'base-time' = 'now',
             'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '{}',
             'fields.a.min' = '0', 'fields.a.max' = '{spread}', 'fields.b.min' = '0', 'fields.b.max' = '{spread}'
         );
         CREATE VIEW bids AS SELECT (n / {interest} + a + b) % {lots} AS lot, ts FROM generated;
         {QUERY}",
        i64::MAX - 1
    )
}

/// What a lot is called.
pub fn name(lot: usize) -> &'static str {
    NAMES[lot % NAMES.len()]
}

/// Bids of one window.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Window {
    /// Milliseconds since 1970.
    pub end_ms: i64,
    /// For each lot.
    pub bids: [u64; NAMES.len()],
}

impl Window {
    /// Takes rows in the order of their windows: only the newest is kept.
    pub fn take(&mut self, rows: &RecordBatch) {
        let ends = rows.column(0).as_primitive::<TimestampMillisecondType>();
        let lots = rows.column(1).as_primitive::<Int32Type>();
        let bids = rows.column(2).as_primitive::<Int64Type>();
        for row in 0..rows.num_rows() {
            if self.end_ms != ends.value(row) {
                *self = Window { end_ms: ends.value(row), ..Window::default() };
            }
            self.bids[lots.value(row) as usize % NAMES.len()] = bids.value(row) as u64;
        }
    }

    /// Lots that were bid for, those with most bids first.
    pub fn ranked(&self) -> Vec<(usize, u64)> {
        let mut lots: Vec<(usize, u64)> = self.bids.iter().copied().enumerate().filter(|(_, bids)| *bids > 0).collect();
        lots.sort_by_key(|&(lot, bids)| (std::cmp::Reverse(bids), lot));
        lots
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pelton::Session;
    use pelton::arrow::array::{ArrayRef, Int32Array, Int64Array, TimestampMillisecondArray};

    use super::*;

    fn rows(end_ms: i64, lots: &[(i32, i64)]) -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(lots.iter().map(|lot| lot.0)));
        let bids: ArrayRef = Arc::new(Int64Array::from_iter_values(lots.iter().map(|lot| lot.1)));
        let ends: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![end_ms; lots.len()]));
        RecordBatch::try_from_iter([("window_end", ends), ("lot", numbers), ("bids", bids)]).unwrap()
    }

    #[test]
    fn the_newest_window_is_kept_and_ranked() {
        let mut window = Window::default();
        window.take(&rows(1000, &[(3, 7), (1, 9)]));
        window.take(&rows(2000, &[(4, 2), (2, 5)]));
        window.take(&rows(2000, &[(0, 5)]));
        assert_eq!((window.end_ms, window.ranked()), (2000, vec![(0, 5), (2, 5), (4, 2)]));
    }

    #[test]
    fn every_bid_is_for_a_lot_and_interest_moves() {
        let definitions = script(1000).replace("'real-time'", "'flat-out', 'number-of-rows' = '8000'");
        let mut query = Session::new().sql(&definitions).unwrap();
        let mut windows: Vec<Window> = Vec::new();
        while let Some(rows) = query.next_batch().unwrap() {
            for row in 0..rows.num_rows() {
                let mut window = windows.last().cloned().unwrap_or_default();
                window.take(&rows.slice(row, 1));
                windows.pop_if(|last| last.end_ms == window.end_ms);
                windows.push(window);
            }
        }
        // Each bid is in five windows.
        assert_eq!(windows.iter().flat_map(|window| window.bids).sum::<u64>(), 5 * 8000);
        let mut first: Vec<usize> = windows.iter().map(|window| window.ranked()[0].0).collect();
        first.dedup();
        assert!(first.len() > 3, "{first:?}");
    }
}
