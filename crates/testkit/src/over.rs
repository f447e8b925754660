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
    /// `ROWS BETWEEN … PRECEDING AND … FOLLOWING`.
    RowsAround(Option<usize>, usize),
    /// `RANGE BETWEEN … PRECEDING AND … FOLLOWING`.
    RangeAround(Option<i64>, i64),
}

impl Frame {
    /// The clause in SQL, over one key or all rows.
    pub fn sql(self, is_keyed: bool) -> String {
        let by = if is_keyed { "PARTITION BY k " } else { "" };
        let interval = |length: i64| format!("INTERVAL '{}.{:03}' SECOND", length / 1000, length % 1000);
        let before = |bound: Option<String>| bound.map_or("UNBOUNDED".to_string(), |bound| bound) + " PRECEDING";
        let rows = |rows: Option<usize>| before(rows.map(|rows| rows.to_string()));
        let range = |length: Option<i64>| before(length.map(interval));
        let frame = match self {
            Frame::Rows(preceding) => format!("ROWS BETWEEN {} AND CURRENT ROW", rows(preceding)),
            Frame::Range(preceding) => format!("RANGE BETWEEN {} AND CURRENT ROW", range(preceding)),
            Frame::RowsAround(preceding, following) => {
                format!("ROWS BETWEEN {} AND {following} FOLLOWING", rows(preceding))
            }
            Frame::RangeAround(preceding, following) => {
                format!("RANGE BETWEEN {} AND {} FOLLOWING", range(preceding), interval(following))
            }
        };
        format!("OVER ({by}ORDER BY ts {frame})")
    }

    /// The frame of row `row` of rows in order, among those of its key where `is_keyed`.
    pub fn of<'r>(self, rows: &[&'r Row], row: usize, is_keyed: bool) -> Vec<&'r Row> {
        let (time, key) = (rows[row].time, rows[row].key);
        let peers = |other: &&Row| !is_keyed || other.key == key;
        let (preceding, following) = match self {
            Frame::Rows(preceding) => (preceding, 0),
            Frame::RowsAround(preceding, following) => (preceding, following),
            Frame::Range(length) => return in_time(rows, (length, 0), time).filter(peers).collect(),
            Frame::RangeAround(length, after) => return in_time(rows, (length, after), time).filter(peers).collect(),
        };
        let before: Vec<&Row> = rows[..=row].iter().copied().filter(peers).collect();
        let first = preceding.map_or(0, |rows| before.len().saturating_sub(rows + 1));
        let after = rows[row + 1..].iter().copied().filter(peers).take(following);
        before[first..].iter().copied().chain(after).collect()
    }

    /// Whether rows of one key wait for others of it, so that those of several keys do not leave in the order of their times.
    pub fn waits_for_rows(self) -> bool {
        matches!(self, Frame::RowsAround(_, 1..))
    }
}

/// The rows from so long before a time, or from the first, to so long after it.
fn in_time<'r>(rows: &[&'r Row], (before, after): (Option<i64>, i64), time: i64) -> impl Iterator<Item = &'r Row> {
    let from = before.map_or(i64::MIN, |length| time - length);
    rows.iter().copied().filter(move |other| (from..=time + after).contains(&other.time))
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
        assert_eq!(times(Frame::RowsAround(Some(1), 2).of(&ordered, 1, false)), [1, 3, 3, 5]);
        assert_eq!(times(Frame::RowsAround(Some(0), 5).of(&ordered, 1, true)), [3, 9]);
        assert_eq!(times(Frame::RangeAround(Some(0), 2).of(&ordered, 2, false)), [3, 3, 5]);
        assert_eq!(times(Frame::RangeAround(None, 6).of(&ordered, 1, true)), [1, 3, 9]);
    }
}
