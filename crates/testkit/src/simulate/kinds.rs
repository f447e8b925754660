//! What queries of a simulation ask, and what must come of it by the meaning of their words: each looks through all rows.

/// Milliseconds of a window.
const WINDOW_MS: i64 = 10;

/// What a query asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A number for each row, but for one that divides by zero.
    Quotients,
    /// The rows of two tables.
    Union,
    /// Counts and sums by key.
    Windows,
    /// What comes of windows, in longer windows.
    WindowsOfWindows,
    /// Sums of a key's last rows.
    Over,
}

pub(super) const KINDS: [Kind; 5] = [Kind::Quotients, Kind::Union, Kind::Windows, Kind::WindowsOfWindows, Kind::Over];

#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub i: i64,
    pub k: i64,
    pub d: i64,
    pub ts: i64,
}

/// What rows must come, in order; rows of one list may come in any order.
pub(super) type Expected = Vec<Vec<Vec<i64>>>;

impl Kind {
    pub fn sql(self, number: usize) -> String {
        let windows = format!("TUMBLE(TABLE t{number}_0, DESCRIPTOR(ts), INTERVAL '0.01' SECOND)");
        match self {
            Kind::Quotients => format!("SELECT i, 60 / d AS q FROM t{number}_0 WHERE i % 3 <> 1"),
            Kind::Union => format!("SELECT 0 AS t, i FROM t{number}_0 UNION ALL SELECT 1 AS t, i FROM t{number}_1"),
            Kind::Windows => format!(
                "SELECT window_end, k, COUNT(*) AS n, SUM(i) AS s FROM {windows} WHERE d > 2 AND k <> 2 \
                 GROUP BY window_start, window_end, k"
            ),
            Kind::WindowsOfWindows => format!(
                "WITH w AS (SELECT window_time AS at, k, COUNT(*) AS n FROM {windows} GROUP BY window_start, window_end, window_time, k) \
                 SELECT window_end, SUM(n) AS n, COUNT(*) AS parts FROM TUMBLE(TABLE w, DESCRIPTOR(at), INTERVAL '0.03' SECOND) \
                 GROUP BY window_start, window_end"
            ),
            Kind::Over => format!(
                "SELECT i, SUM(i) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s FROM t{number}_0"
            ),
        }
    }

    pub fn expected(self, rows: &[Row]) -> Expected {
        match self {
            Kind::Quotients => {
                let wanted = rows.iter().take_while(|row| row.d != 0 || row.i % 3 == 1).filter(|row| row.i % 3 != 1);
                wanted.map(|row| vec![vec![row.i, 60 / row.d]]).collect()
            }
            Kind::Union => unreachable!("its tables are compared by themselves"),
            Kind::Windows => {
                let rows = rows.iter().filter(|row| row.d > 2 && row.k != 2);
                let ends = groups(rows.map(|row| ([end(row.ts, WINDOW_MS), row.k], row.i)));
                by_end(
                    ends.into_iter().map(|([end, k], values)| vec![end, k, values.len() as i64, values.iter().sum()]),
                )
            }
            Kind::WindowsOfWindows => {
                let parts = groups(rows.iter().map(|row| ([end(row.ts, WINDOW_MS), row.k], row.i)));
                // The time of a window is a millisecond before its end.
                let parts =
                    parts.into_iter().map(|([of, _], values)| ([end(of - 1, 3 * WINDOW_MS), 0], values.len() as i64));
                by_end(
                    groups(parts)
                        .into_iter()
                        .map(|([end, _], counts)| vec![end, counts.iter().sum(), counts.len() as i64]),
                )
            }
            Kind::Over => {
                let sum = |index: usize| {
                    let before = rows[..=index].iter().rev().filter(|row| row.k == rows[index].k);
                    before.take(3).map(|row| row.i).sum()
                };
                rows.iter().enumerate().map(|(index, row)| vec![vec![row.i, sum(index)]]).collect()
            }
        }
    }
}

/// When the window ends that a time is in.
fn end(ts: i64, window_ms: i64) -> i64 {
    (ts / window_ms + 1) * window_ms
}

/// The values of each group, in the order of their keys.
fn groups(values: impl Iterator<Item = ([i64; 2], i64)>) -> std::collections::BTreeMap<[i64; 2], Vec<i64>> {
    let mut groups = std::collections::BTreeMap::<_, Vec<i64>>::new();
    values.for_each(|(group, value)| groups.entry(group).or_default().push(value));
    groups
}

/// Rows that come together, where the first column says when.
fn by_end(rows: impl Iterator<Item = Vec<i64>>) -> Expected {
    let mut expected: Expected = Vec::new();
    for row in rows {
        match expected.last_mut() {
            Some(last) if last[0][0] == row[0] => last.push(row),
            _ => expected.push(vec![row]),
        }
    }
    expected
}
