//! What queries of a simulation ask.

use super::feed::Row;

/// Milliseconds of a window, and of the slides and steps of longer ones.
pub(super) const WINDOW_MS: i64 = 10;

/// Milliseconds that windows have which slide by [`WINDOW_MS`].
pub(super) const HOP_MS: i64 = 30;

/// Milliseconds that windows have at most which grow by [`WINDOW_MS`].
pub(super) const CUMULATE_MS: i64 = 40;

/// The longest pause in a session.
pub(super) const GAP_MS: i64 = 8;

/// How far frames by time look back.
pub(super) const FRAME_MS: i64 = 15;

/// How far rows may be before those that they are joined with, and behind them.
pub(super) const BEFORE_MS: i64 = 5;
pub(super) const AFTER_MS: i64 = 12;

/// What a query asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A number for each row, but for one that divides by zero.
    Quotients,
    /// A function of the program's own, which panics or refuses a row.
    Fragile,
    /// The rows of two tables.
    Union,
    /// Some rows, and not those behind them: the query ends before its table.
    Few,
    /// The greatest rows of a table that ends, in their order.
    Sorted,
    /// Counts and sums by key, of all rows of a table that ends.
    Totals,
    /// Counts and sums by key.
    Windows,
    /// What comes of windows, in longer windows.
    WindowsOfWindows,
    /// The rows of two tables in the same windows, which wait for both.
    WindowsOfUnion,
    /// Windows that overlap, whose slices are combined anew.
    Hops,
    /// Two kinds of windows over the same rows, which share slices.
    SharedWindows,
    /// Values that count once, and the one in the middle, in windows that overlap.
    Distinct,
    /// A function of the program's own in windows, which panics or refuses a row, a merge or a result.
    FragileWindows,
    /// A function of the program's own that panics where its query has no way out.
    DoomedWindows,
    /// Rows of a key without a pause between them.
    Sessions,
    /// So many rows of each key, whatever their times.
    RowsOfKeys,
    /// So many rows, whatever their times, in windows that overlap.
    Rows,
    /// The first rows of windows that overlap.
    FirstRows,
    /// The first groups of windows.
    FirstGroups,
    /// Sums of a key's last rows.
    Over,
    /// Counts and extremes of a key's rows of the last milliseconds.
    OverTime,
    /// Rows of two tables with the same key in windows that overlap, and those that are alone in theirs.
    JoinedWindows,
    /// Rows of two tables with the same key whose times are near each other.
    JoinedTimes,
}

pub(super) const KINDS: [Kind; 23] = [
    Kind::Quotients,
    Kind::Fragile,
    Kind::Union,
    Kind::Few,
    Kind::Sorted,
    Kind::Totals,
    Kind::Windows,
    Kind::WindowsOfWindows,
    Kind::WindowsOfUnion,
    Kind::Hops,
    Kind::SharedWindows,
    Kind::Distinct,
    Kind::FragileWindows,
    Kind::DoomedWindows,
    Kind::Sessions,
    Kind::RowsOfKeys,
    Kind::Rows,
    Kind::FirstRows,
    Kind::FirstGroups,
    Kind::Over,
    Kind::OverTime,
    Kind::JoinedWindows,
    Kind::JoinedTimes,
];

impl Kind {
    /// How many tables it reads.
    pub fn tables(self) -> usize {
        let has_two = matches!(self, Kind::Union | Kind::WindowsOfUnion | Kind::JoinedWindows | Kind::JoinedTimes);
        if has_two { 2 } else { 1 }
    }

    /// Whether its table makes its rows itself, and ends.
    pub fn is_bounded(self) -> bool {
        matches!(self, Kind::Sorted | Kind::Totals)
    }

    /// Whether rows may come when the watermark has passed them: of sessions it depends on other rows whether such a row is late,
    /// and functions that fail do not fail for late rows.
    pub fn may_have_late_rows(self) -> bool {
        !matches!(self, Kind::Sessions | Kind::FragileWindows | Kind::DoomedWindows)
    }

    /// Whether its rows depend on the order of those of the input.
    pub fn needs_one_partition(self) -> bool {
        matches!(self, Kind::Quotients | Kind::Union | Kind::RowsOfKeys | Kind::Rows | Kind::Over | Kind::OverTime)
    }

    /// The column that says which rows must come in their order. Others may come before or after.
    pub fn lane(self) -> Option<usize> {
        matches!(self, Kind::Union | Kind::SharedWindows | Kind::RowsOfKeys).then_some(0)
    }

    /// Values of `d` that make it fail.
    pub fn bad_values(self) -> &'static [i64] {
        match self {
            Kind::Quotients => &[0],
            Kind::Fragile => &[0, -1],
            Kind::FragileWindows => &[0, -1, -2, -3, -4],
            _ => &[],
        }
    }

    pub fn fails_for(self, row: &Row) -> bool {
        match self {
            Kind::DoomedWindows => true,
            Kind::FragileWindows => self.bad_values().contains(&row.d),
            _ => row.i % 3 != 1 && self.bad_values().contains(&row.d),
        }
    }

    /// What it says where it fails.
    pub fn failure(self) -> &'static str {
        if self == Kind::Quotients { "division by zero" } else { "is fragile" }
    }

    /// What makes its table where that makes its rows itself.
    pub fn setup(self, number: usize, rows: usize) -> Option<String> {
        self.is_bounded().then(|| generated(&format!("t{number}_0"), rows))
    }

    /// The columns of its rows, as those of a table.
    pub fn columns(self) -> String {
        // Behind @ are times.
        let columns = match self {
            Kind::Quotients | Kind::Fragile => "i q",
            Kind::Union => "t i",
            Kind::Few | Kind::Sorted => "i d",
            Kind::Totals => "k n s",
            Kind::Windows | Kind::WindowsOfUnion => "@end k n s",
            Kind::WindowsOfWindows => "@end n parts",
            Kind::Hops => "@end k n s low",
            Kind::SharedWindows => "w @end k n s",
            Kind::Distinct => "@end k n m",
            Kind::FragileWindows | Kind::DoomedWindows => "@end k s",
            Kind::Sessions => "@end k n s @start",
            Kind::RowsOfKeys => "k end n s",
            Kind::Rows => "end n s",
            Kind::FirstRows => "@end i n",
            Kind::FirstGroups => "@end k s n",
            Kind::Over => "i s",
            Kind::OverTime => "i n low high",
            Kind::JoinedWindows => "@end i j",
            Kind::JoinedTimes => "i j",
        };
        let column = |name: &str| match name.strip_prefix('@') {
            Some(name) => format!("`{name}` TIMESTAMP(3)"),
            None => format!("`{name}` BIGINT"),
        };
        columns.split(' ').map(column).collect::<Vec<_>>().join(", ")
    }

    /// Its parts, whose rows are read together or each by itself.
    pub fn selects(self, number: usize) -> Vec<String> {
        let table = format!("t{number}_0");
        let other = format!("t{number}_1");
        match self {
            Kind::Union => {
                vec![format!("SELECT 0 AS t, i FROM {table}"), format!("SELECT 1 AS t, i FROM {other}")]
            }
            Kind::SharedWindows => shared_windows(&table),
            _ => vec![self.select(&table, &other)],
        }
    }

    fn select(self, table: &str, other: &str) -> String {
        match self {
            Kind::Quotients => format!("SELECT i, 60 / d AS q FROM {table} WHERE i % 3 <> 1"),
            Kind::Fragile => format!("SELECT i, fragile(d) AS q FROM {table} WHERE i % 3 <> 1"),
            Kind::Few => format!("SELECT i, d FROM {table} WHERE k <> 2 LIMIT 10 OFFSET 2"),
            Kind::Sorted => {
                format!("SELECT i, i * 37 % 101 AS d FROM {table} WHERE i % 5 <> 2 ORDER BY d DESC, i LIMIT 7 OFFSET 1")
            }
            Kind::Totals => format!("SELECT i % 7 AS k, COUNT(*) AS n, SUM(i) AS s FROM {table} GROUP BY i % 7"),
            Kind::RowsOfKeys => format!(
                "SELECT k, window_end, COUNT(*) AS n, SUM(i) AS s FROM TUMBLE_ROWS(TABLE {table} PARTITION BY k, 3) \
                 GROUP BY window_start, window_end, k"
            ),
            Kind::Rows => format!(
                "SELECT window_end, COUNT(*) AS n, SUM(i) AS s FROM HOP_ROWS(TABLE {table}, 2, 5) \
                 GROUP BY window_start, window_end"
            ),
            Kind::FirstRows | Kind::FirstGroups => self.ranking_sql(table),
            Kind::JoinedWindows => format!(
                "SELECT COALESCE(a.window_end, b.window_end) AS window_end, COALESCE(a.i, -1) AS i, COALESCE(b.i, -1) AS j \
                 FROM {} AS a FULL JOIN {} AS b ON a.k = b.k AND a.window_start = b.window_start AND a.window_end = b.window_end",
                windows_that_hop(table),
                windows_that_hop(other)
            ),
            Kind::JoinedTimes => format!(
                "SELECT a.i, b.i AS j FROM {table} AS a JOIN {other} AS b \
                 ON a.k = b.k AND a.ts BETWEEN b.ts - {} AND b.ts + {}",
                interval(BEFORE_MS),
                interval(AFTER_MS)
            ),
            Kind::Over => format!(
                "SELECT i, SUM(i) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s FROM {table}"
            ),
            Kind::OverTime => format!(
                "SELECT i, COUNT(*) OVER w AS n, MIN(d) OVER w AS low, MAX(i) OVER w AS high FROM {table} WINDOW w AS \
                 (PARTITION BY k ORDER BY ts RANGE BETWEEN {} PRECEDING AND CURRENT ROW)",
                interval(FRAME_MS)
            ),
            _ => self.windows_sql(table, other),
        }
    }

    fn windows_sql(self, table: &str, other: &str) -> String {
        let windows = windows("TUMBLE", table, &[WINDOW_MS]);
        let hops = windows_that_hop(table);
        let by_key = "GROUP BY window_start, window_end, k";
        match self {
            Kind::WindowsOfWindows => format!(
                "WITH w AS (SELECT window_time AS at, k, COUNT(*) AS n FROM {windows} GROUP BY window_start, window_end, window_time, k) \
                 SELECT window_end, SUM(n) AS n, COUNT(*) AS parts FROM TUMBLE(TABLE w, DESCRIPTOR(at), {}) \
                 GROUP BY window_start, window_end",
                interval(3 * WINDOW_MS)
            ),
            Kind::WindowsOfUnion => format!(
                "WITH u AS (SELECT i, k, ts FROM {table} UNION ALL SELECT i, k, ts FROM {other}) \
                 SELECT window_end, k, COUNT(*) AS n, SUM(i) AS s FROM TUMBLE(TABLE u, DESCRIPTOR(ts), {}) {by_key}",
                interval(WINDOW_MS)
            ),
            Kind::Hops => {
                format!("SELECT window_end, k, COUNT(*) AS n, SUM(i) AS s, MIN(d) AS low FROM {hops} {by_key}")
            }
            Kind::Distinct => format!(
                "SELECT window_end, k, COUNT(DISTINCT d) AS n, CAST(MEDIAN(i) * 2 AS BIGINT) AS m FROM {hops} {by_key}"
            ),
            Kind::FragileWindows => format!("SELECT window_end, k, fragile_sum(i, d) AS s FROM {hops} {by_key}"),
            Kind::DoomedWindows => format!("SELECT window_end, k, doomed_sum(i) AS s FROM {hops} {by_key}"),
            Kind::Sessions => format!(
                "SELECT window_end, k, COUNT(*) AS n, SUM(i) AS s, window_start FROM {} {by_key}",
                self::windows("SESSION", &format!("{table} PARTITION BY k"), &[GAP_MS])
            ),
            Kind::Windows => format!(
                "SELECT window_end, k, COUNT(*) AS n, SUM(i) AS s FROM {windows} WHERE d > 2 AND k <> 2 {by_key}"
            ),
            _ => unreachable!("it has no windows"),
        }
    }

    fn ranking_sql(self, table: &str) -> String {
        let number = "ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY";
        match self {
            Kind::FirstRows => format!(
                "SELECT window_end, i, n FROM (SELECT window_end, i, {number} d DESC, i) AS n FROM {}) WHERE n <= 3",
                windows_that_hop(table)
            ),
            _ => format!(
                "SELECT window_end, k, s, n FROM (SELECT *, {number} s DESC, k) AS n FROM \
                 (SELECT window_start, window_end, k, SUM(i) AS s FROM {} GROUP BY window_start, window_end, k)) WHERE n <= 2",
                windows("TUMBLE", table, &[WINDOW_MS])
            ),
        }
    }
}

/// Windows of two kinds.
fn shared_windows(table: &str) -> Vec<String> {
    let by_key = "GROUP BY window_start, window_end, k";
    let hops = windows_that_hop(table);
    let cumulate = windows("CUMULATE", table, &[WINDOW_MS, CUMULATE_MS]);
    vec![
        format!("SELECT 0 AS w, window_end, k, COUNT(*) AS n, SUM(i) AS s FROM {hops} {by_key}"),
        format!("SELECT 1 AS w, window_end, k, SUM(d) AS n, MIN(i) AS s FROM {cumulate} {by_key}"),
    ]
}

/// A table whose rows are numbered.
fn generated(table: &str, rows: usize) -> String {
    format!(
        "CREATE TABLE {table} (i BIGINT NOT NULL) WITH ('connector' = 'datagen', 'number-of-rows' = '{rows}', 'pace' = 'flat-out', \
         'fields.i.kind' = 'sequence', 'fields.i.start' = '0', 'fields.i.end' = '1000000')"
    )
}

fn windows_that_hop(table: &str) -> String {
    windows("HOP", table, &[WINDOW_MS, HOP_MS])
}

fn windows(name: &str, table: &str, lengths_ms: &[i64]) -> String {
    let lengths: Vec<String> = lengths_ms.iter().map(|&length| interval(length)).collect();
    format!("{name}(TABLE {table}, DESCRIPTOR(ts), {})", lengths.join(", "))
}

/// Less than a second, in SQL.
pub(super) fn interval(length_ms: i64) -> String {
    format!("INTERVAL '0.{length_ms:03}' SECOND")
}
