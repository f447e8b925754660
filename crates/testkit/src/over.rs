//! What functions OVER rows mean, by their definition: each row's frame is looked for among all rows. Nothing here knows watermarks of
//! several partitions, blocks or stores.

use crate::windows::Row;

/// The rows that a row's value is computed from; lengths in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// `ROWS BETWEEN … PRECEDING AND CURRENT ROW`, all rows before where there is no number.
    Rows(Option<usize>),
    /// `RANGE BETWEEN … PRECEDING AND CURRENT ROW`.
    Range(Option<i64>),
}

impl Frame {
    /// The clause in SQL, over one key or all rows.
    pub fn sql(self, is_keyed: bool) -> String {
        let by = if is_keyed { "PARTITION BY k " } else { "" };
        let frame = match self {
            Frame::Rows(None) => "ROWS BETWEEN UNBOUNDED PRECEDING".to_string(),
            Frame::Rows(Some(rows)) => format!("ROWS BETWEEN {rows} PRECEDING"),
            Frame::Range(None) => "RANGE BETWEEN UNBOUNDED PRECEDING".to_string(),
            Frame::Range(Some(length)) => {
                format!("RANGE BETWEEN INTERVAL '{}.{:03}' SECOND PRECEDING", length / 1000, length % 1000)
            }
        };
        format!("OVER ({by}ORDER BY ts {frame} AND CURRENT ROW)")
    }

    /// The frame of row `row` of rows in order, among those of its key where `is_keyed`.
    pub fn of<'r>(self, rows: &[&'r Row], row: usize, is_keyed: bool) -> Vec<&'r Row> {
        let (time, key) = (rows[row].time, rows[row].key);
        let peers = |other: &&Row| !is_keyed || other.key == key;
        match self {
            Frame::Rows(preceding) => {
                let before: Vec<&Row> = rows[..=row].iter().copied().filter(peers).collect();
                let first = preceding.map_or(0, |rows| before.len().saturating_sub(rows + 1));
                before[first..].to_vec()
            }
            Frame::Range(length) => {
                let from = length.map_or(i64::MIN, |length| time - length);
                let in_time = rows.iter().copied().filter(|other| (from..=time).contains(&other.time));
                in_time.filter(peers).collect()
            }
        }
    }
}

/// The rows in the order in which they leave: by time, and as they came. And how many came when the watermark, which trails the largest
/// time by `delay`, had passed them.
pub fn in_order(rows: &[Row], delay: i64) -> (Vec<&Row>, u64) {
    let mut watermark = i64::MIN;
    let mut kept: Vec<&Row> = Vec::new();
    for row in rows {
        if row.time >= watermark {
            kept.push(row);
        }
        watermark = watermark.max(row.time - delay);
    }
    let late = rows.len() - kept.len();
    kept.sort_by_key(|row| row.time);
    (kept, late as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_the_rows_of_their_definitions() {
        let row = |time, key| Row { time, key: Some(key), integer: None, float: None, text: None };
        let rows = [row(1, 1), row(5, 2), row(3, 1), row(3, 2), row(9, 1), row(6, 1)];
        let (ordered, late) = in_order(&rows, 2);
        assert_eq!(late, 1);
        let times = |rows: Vec<&Row>| rows.iter().map(|row| row.time).collect::<Vec<_>>();
        assert_eq!(times(ordered.clone()), [1, 3, 3, 5, 9]);
        assert_eq!(times(Frame::Rows(Some(1)).of(&ordered, 3, false)), [3, 5]);
        assert_eq!(times(Frame::Range(Some(2)).of(&ordered, 1, false)), [1, 3, 3]);
        assert_eq!(times(Frame::Range(None).of(&ordered, 4, true)), [1, 3, 9]);
    }
}
