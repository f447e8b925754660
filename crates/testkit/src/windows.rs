//! What windows mean, by their definitions: each window is looked for among all rows, and each aggregate computed from the values of
//! its rows. Nothing here knows slices, blocks or tables.

mod aggregates;
mod partitions;
mod sessions;

use std::collections::{BTreeMap, BTreeSet};

pub use aggregates::{AGGREGATES, Aggregate};

/// Which windows; lengths in milliseconds, or rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `TUMBLE`
    Tumble {
        /// Length.
        size: i64,
    },
    /// `HOP`
    Hop {
        /// From start to start.
        slide: i64,
        /// Length.
        size: i64,
    },
    /// `CUMULATE`
    Cumulate {
        /// From end to end.
        step: i64,
        /// Length of the longest: `steps` times `step`.
        steps: i64,
    },
    /// `SESSION`
    Session {
        /// Longest time between two rows.
        gap: i64,
    },
    /// `TUMBLE_ROWS` where size and slide are the same, else `HOP_ROWS`.
    Rows {
        /// From the first row of one to that of the next.
        slide: i64,
        /// How many rows.
        size: i64,
        /// Whether the rows of each key are counted by themselves.
        by_key: bool,
    },
}

/// Windows over a stream whose watermark trails the largest time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// Which.
    pub kind: Kind,
    /// Where window 0 begins, in milliseconds.
    pub offset: i64,
    /// What the watermark trails the largest time by, in milliseconds.
    pub delay: i64,
    /// How long after a window has ended rows correct it, in milliseconds.
    pub lateness: i64,
}

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Event time in milliseconds.
    pub time: i64,
    /// What groups are told apart by.
    pub key: Option<i64>,
    /// A number.
    pub integer: Option<i64>,
    /// A number whose sums are exact.
    pub float: Option<f64>,
    /// A word.
    pub text: Option<String>,
}

/// A window and group: end, start, key.
pub type Group = (i64, i64, Option<i64>);

/// A group of a window as it is reported.
#[derive(Debug, Clone)]
pub struct Reported<'r> {
    /// Which.
    pub group: Group,
    /// Whether it has been reported before.
    pub is_correction: bool,
    /// Its rows so far, in order.
    pub rows: Vec<&'r Row>,
}

impl Windows {
    /// The windows that hold `time`, as start and end, by their definition.
    pub fn holding(&self, time: i64) -> Vec<(i64, i64)> {
        let since = time - self.offset;
        let windows: Vec<(i64, i64)> = match self.kind {
            Kind::Tumble { size } => vec![(since.div_euclid(size) * size, (since.div_euclid(size) + 1) * size)],
            Kind::Hop { slide, size } => {
                let candidates = (since - size).div_euclid(slide)..=since.div_euclid(slide);
                candidates.map(|number| (number * slide, number * slide + size)).collect()
            }
            Kind::Cumulate { step, steps } => {
                let start = since.div_euclid(step * steps) * step * steps;
                (1..=steps).map(|count| (start, start + count * step)).collect()
            }
            Kind::Session { .. } | Kind::Rows { .. } => unreachable!("the time of a row does not say which it is in"),
        };
        let holds = windows.into_iter().filter(|(start, end)| (*start..*end).contains(&since));
        holds.map(|(start, end)| (start + self.offset, end + self.offset)).collect()
    }

    /// What is reported, in order, and how many rows came too late for all of their windows: each group of a window when its time has come, and once
    /// more when time moves on after rows that were late for it, but not too late.
    pub fn reported<'r>(&self, rows: &'r [Row], is_keyed: bool) -> (Vec<Reported<'r>>, u64) {
        if let Kind::Rows { slide, size, by_key } = self.kind {
            let groups = counted(rows, (slide, size), by_key, is_keyed).into_iter();
            return (groups.map(|(group, rows)| Reported { group, is_correction: false, rows }).collect(), 0);
        }
        self.reported_by(rows.iter().map(Some).chain([None]), is_keyed)
    }

    /// What is reported when rows come, and all that is left when none comes any more.
    fn reported_by<'r>(&self, rows: impl Iterator<Item = Option<&'r Row>>, is_keyed: bool) -> (Vec<Reported<'r>>, u64) {
        if let Kind::Session { gap } = self.kind {
            return self.sessions(rows, gap, is_keyed);
        }
        let mut groups: BTreeMap<Group, Vec<&Row>> = BTreeMap::new();
        let (mut corrected, mut reported) = (BTreeSet::new(), Vec::new());
        let (mut late, mut watermark) = (0, i64::MIN);
        for row in rows {
            let windows = row.map(|row| self.holding(row.time)).unwrap_or_default();
            let counting = windows.iter().filter(|(_, end)| end + self.lateness > watermark);
            late += u64::from(!windows.is_empty() && counting.clone().count() == 0);
            for (row, (start, end)) in row.into_iter().flat_map(|row| counting.clone().map(move |window| (row, window)))
            {
                let group = (*end, *start, row.key.filter(|_| is_keyed));
                groups.entry(group).or_default().push(row);
                corrected.extend((*end <= watermark).then_some(group));
            }
            let now = row.map_or(i64::MAX, |row| watermark.max(row.time - self.delay));
            if now > watermark {
                let corrected = std::mem::take(&mut corrected).into_iter().map(|group| (group, true));
                let ended =
                    groups.keys().filter(|group| watermark < group.0 && group.0 <= now).map(|group| (*group, false));
                let report = |(group, is_correction)| Reported { group, is_correction, rows: groups[&group].clone() };
                reported.extend(corrected.chain(ended).map(report));
            }
            watermark = now;
        }
        (reported, late)
    }

    /// What has been reported when these rows have come, and others may come.
    ///
    /// # Panics
    /// Where windows count rows.
    pub fn reported_so_far<'r>(&self, rows: &'r [Row], is_keyed: bool) -> Vec<Reported<'r>> {
        self.reported_by(rows.iter().map(Some), is_keyed).0
    }

    /// What windows that have not ended come to when these rows have come: what would be reported, and corrects nothing, if no more came. A session that
    /// rows have corrected has not ended until it is reported.
    ///
    /// # Panics
    /// Where windows count rows.
    pub fn early<'r>(&self, rows: &'r [Row], is_keyed: bool) -> Vec<Reported<'r>> {
        let ended = self.reported_so_far(rows, is_keyed).len();
        let early = self.reported(rows, is_keyed).0.into_iter().skip(ended);
        early.filter(|one| matches!(self.kind, Kind::Session { .. }) || !one.is_correction).collect()
    }

    /// The window function in SQL; `key` is what sessions are partitioned by.
    pub fn sql(&self, table: &str, time: &str, key: Option<&str>) -> String {
        let interval = |millis: i64| {
            let sign = if millis < 0 { "-" } else { "" };
            format!("INTERVAL '{sign}{}.{:03}' SECOND", millis.abs() / 1000, millis.abs() % 1000)
        };
        let (name, lengths) = match self.kind {
            Kind::Tumble { size } => ("TUMBLE", vec![size]),
            Kind::Hop { slide, size } => ("HOP", vec![slide, size]),
            Kind::Cumulate { step, steps } => ("CUMULATE", vec![step, step * steps]),
            Kind::Session { gap } => ("SESSION", vec![gap]),
            Kind::Rows { size, slide, by_key } => {
                let partition = key.filter(|_| by_key).map(|key| format!(" PARTITION BY {key}")).unwrap_or_default();
                return match size == slide {
                    true => format!("TABLE(TUMBLE_ROWS(TABLE {table}{partition}, {size}))"),
                    false => format!("TABLE(HOP_ROWS(TABLE {table}{partition}, {slide}, {size}))"),
                };
            }
        };
        let is_session = matches!(self.kind, Kind::Session { .. });
        let partition = key.filter(|_| is_session).map(|key| format!(" PARTITION BY {key}")).unwrap_or_default();
        let lengths = lengths.into_iter().chain(Some(self.offset).filter(|offset| *offset != 0)).map(interval);
        format!(
            "TABLE({name}(TABLE {table}{partition}, DESCRIPTOR({time}), {}))",
            lengths.collect::<Vec<_>>().join(", ")
        )
    }
}

/// Windows of rows by their numbers, which are those of the row's key or of the row; whether it is complete or not, each that holds a row.
fn counted(rows: &[Row], (slide, size): (i64, i64), by_key: bool, is_keyed: bool) -> BTreeMap<Group, Vec<&Row>> {
    let mut counts: BTreeMap<Option<i64>, i64> = BTreeMap::new();
    let mut groups: BTreeMap<Group, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let key = row.key.filter(|_| is_keyed);
        let count = counts.entry(key.filter(|_| by_key)).or_default();
        let number = *count;
        *count += 1;
        let starts = (0..=number / slide).map(|window| window * slide).filter(|start| number < start + size);
        starts.for_each(|start| groups.entry((start + size, start, key)).or_default().push(row));
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(kind: Kind, offset: i64, delay: i64) -> Windows {
        Windows { kind, offset, delay, lateness: 0 }
    }

    #[test]
    fn windows_that_hold_a_time() {
        assert_eq!(windows(Kind::Tumble { size: 10 }, 3, 0).holding(2), [(-7, 3)]);
        assert_eq!(windows(Kind::Hop { slide: 4, size: 10 }, 0, 0).holding(8), [(0, 10), (4, 14), (8, 18)]);
        assert_eq!(windows(Kind::Hop { slide: 10, size: 4 }, 0, 0).holding(4), []);
        assert_eq!(windows(Kind::Cumulate { step: 5, steps: 3 }, 0, 0).holding(-7), [(-15, -5), (-15, 0)]);
    }

    #[test]
    fn a_row_counts_in_windows_that_are_open_when_it_comes() {
        let row = |time| Row { time, key: Some(1), integer: Some(time), float: None, text: None };
        let rows = [row(5), row(21), row(6), row(45), row(7)];
        let hop = windows(Kind::Hop { slide: 10, size: 30 }, 0, 0);
        let counts = |windows: Windows| {
            let (reported, late) = windows.reported(&rows, true);
            let count = |one: &Reported<'_>| (one.group.0, one.is_correction, one.rows.len());
            (reported.iter().map(count).collect::<Vec<_>>(), late)
        };
        let closed = [(10, 1), (20, 1), (30, 3), (40, 1), (50, 2), (60, 1), (70, 1)];
        assert_eq!(counts(hop), (closed.map(|(end, rows)| (end, false, rows)).to_vec(), 1));
        // 6 comes at 21, and 7 at 45: of its windows only the last ended less than 20 before.
        let corrected = [
            (10, false, 1),
            (20, false, 1),
            (10, true, 2),
            (20, true, 2),
            (30, false, 3),
            (40, false, 1),
            (30, true, 4),
            (50, false, 2),
            (60, false, 1),
            (70, false, 1),
        ];
        assert_eq!(counts(Windows { lateness: 20, ..hop }), (corrected.to_vec(), 0));
    }

    #[test]
    fn a_row_joins_sessions_that_are_not_over_and_begins_one_that_would_not_be() {
        let row = |time| Row { time, key: Some(1), integer: Some(time), float: None, text: None };
        let sessions = |gap, delay, times: &[i64]| {
            let rows: Vec<Row> = times.iter().map(|&time| row(time)).collect();
            let (reported, late) = windows(Kind::Session { gap }, 0, delay).reported(&rows, true);
            let session = |one: Reported<'_>| (one.group.1, one.group.0, one.rows.len());
            (reported.into_iter().map(session).collect::<Vec<_>>(), late)
        };
        // Exactly the gap is near enough, one more is not; the row between the two merges them as long as it may.
        assert_eq!(sessions(10, 0, &[0, 10, 21]), (vec![(0, 20, 2), (21, 31, 1)], 0));
        assert_eq!(sessions(10, 20, &[0, 10, 21, 15]), (vec![(0, 31, 4)], 0));
        // At 21 the session that ended at 20 is over: 12 is near to it, and begins another.
        assert_eq!(sessions(10, 0, &[0, 10, 21, 12]), (vec![(0, 20, 2), (12, 31, 2)], 0));
        // 5 would have been over at 15: too late, unless a session that is not over reaches back so far.
        assert_eq!(sessions(10, 0, &[30, 5]), (vec![(30, 40, 1)], 1));
        assert_eq!(sessions(10, 0, &[10, 20, 30, 5]), (vec![(5, 40, 4)], 0));
        // 2 joins by 12, which came under the same watermark.
        assert_eq!(sessions(10, 0, &[20, 30, 2, 12]), (vec![(2, 40, 4)], 0));
    }

    #[test]
    fn a_session_that_is_not_final_is_corrected() {
        let row = |time| Row { time, key: None, integer: None, float: None, text: None };
        let sessions = |lateness, times: &[i64]| {
            let rows: Vec<Row> = times.iter().map(|&time| row(time)).collect();
            let windows = Windows { lateness, ..windows(Kind::Session { gap: 10 }, 0, 0) };
            let (reported, late) = windows.reported(&rows, true);
            let session = |one: Reported<'_>| (one.group.1, one.group.0, one.rows.len(), one.is_correction);
            (reported.into_iter().map(session).collect::<Vec<_>>(), late)
        };
        // At 21 the session that ended at 20 is over, and 12 makes one of both: it is reported when that is over.
        let merged = [(0, 20, 2, false), (0, 31, 4, true)];
        assert_eq!(sessions(5, &[0, 10, 21, 12]), (merged.to_vec(), 0));
        // At 40 what 12 joins is over, and so is the session that 28 begins.
        let corrected = [(0, 20, 2, false), (0, 22, 3, true), (28, 38, 1, true), (40, 50, 1, false)];
        assert_eq!(sessions(25, &[0, 10, 40, 12, 28]), (corrected.to_vec(), 0));
        let final_by_then = [(0, 20, 2, false), (40, 50, 1, false)];
        assert_eq!(sessions(17, &[0, 10, 40, 12]), (final_by_then.to_vec(), 1));
    }

    #[test]
    fn windows_hold_rows_by_their_numbers() {
        let row = |key| Row { time: 0, key, integer: None, float: None, text: None };
        let rows = [row(Some(1)), row(None), row(Some(1)), row(None), row(Some(1))];
        let counts = |slide, size, by_key| {
            let (reported, _) = windows(Kind::Rows { slide, size, by_key }, 0, 0).reported(&rows, by_key);
            let count = |one: Reported<'_>| (one.group.1, one.group.2, one.rows.len());
            reported.into_iter().map(count).collect::<Vec<_>>()
        };
        assert_eq!(counts(2, 3, false), [(0, None, 3), (2, None, 3), (4, None, 1)]);
        assert_eq!(counts(3, 1, false), [(0, None, 1), (3, None, 1)]);
        assert_eq!(counts(2, 2, true), [(0, None, 2), (0, Some(1), 2), (2, Some(1), 1)]);
    }

    #[test]
    fn windows_in_sql() {
        let hop = windows(Kind::Hop { slide: 4, size: 1500 }, -70, 0);
        let sql = "TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '0.004' SECOND, INTERVAL '1.500' SECOND, INTERVAL '-0.070' SECOND))";
        assert_eq!(hop.sql("t", "ts", Some("k")), sql);
        let session = windows(Kind::Session { gap: 4 }, 0, 0);
        assert_eq!(
            session.sql("t", "ts", Some("k")),
            "TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '0.004' SECOND))"
        );
    }
}
