//! What must come of the queries of a simulation by the meaning of their words: nothing here knows blocks, slices or watermarks of several tables.

use std::collections::{BTreeMap, BTreeSet};

use super::feed::Row;
use super::kinds::{AFTER_MS, BEFORE_MS, CUMULATE_MS, FRAME_MS, GAP_MS, HOP_MS, Kind, WINDOW_MS};

/// What rows must come, in order; rows of one list may come in any order.
pub(super) type Expected = Vec<Vec<Vec<i64>>>;

/// Rows by the end of their window and by key.
type Groups<'r> = BTreeMap<[i64; 2], Vec<&'r Row>>;

/// What stands where a function fails: it never comes.
const FAILS: i64 = i64::MIN;

impl Kind {
    pub fn expected(self, tables: &[&[Row]]) -> Expected {
        let rows = tables[0];
        match self {
            Kind::Quotients => self.until_it_fails(rows, |row| 60 / row.d),
            Kind::Fragile => self.until_it_fails(rows, |row| row.d),
            Kind::Union => {
                let numbered = |(table, rows): (usize, &&[Row])| {
                    rows.iter().map(move |row| vec![table as i64, row.i]).collect::<Vec<_>>()
                };
                one_by_one(tables.iter().enumerate().flat_map(numbered))
            }
            Kind::Few => {
                let others = rows.iter().filter(|row| row.k != 2);
                one_by_one(others.skip(2).take(10).map(|row| vec![row.i, row.d]))
            }
            Kind::Sorted => {
                let mut sorted: Vec<_> =
                    rows.iter().filter(|row| row.i % 5 != 2).map(|row| vec![row.i, row.i * 37 % 101]).collect();
                sorted.sort_by_key(|row| (-row[1], row[0]));
                one_by_one(sorted.into_iter().skip(1).take(7))
            }
            Kind::Totals => {
                let mut totals = BTreeMap::<i64, Vec<&Row>>::new();
                rows.iter().for_each(|row| totals.entry(row.i % 7).or_default().push(row));
                vec![totals.into_iter().map(|(key, rows)| vec![key, count(&rows), sum(&rows)]).collect()]
            }
            Kind::RowsOfKeys => {
                let keys: BTreeSet<i64> = rows.iter().map(|row| row.k).collect();
                one_by_one(keys.into_iter().flat_map(|key| rows_of_key(rows, key)))
            }
            Kind::Rows => one_by_one((0..rows.len()).step_by(2).map(|start| {
                let window: Vec<&Row> = rows.iter().skip(start).take(5).collect();
                vec![start as i64 + 5, count(&window), sum(&window)]
            })),
            Kind::Over | Kind::OverTime => self.over(&in_order(rows)),
            Kind::JoinedWindows => joined_windows(rows, tables[1]),
            Kind::JoinedTimes => joined_times(&in_order(rows), &in_order(tables[1])),
            _ => self.of_windows(tables),
        }
    }

    /// How many rows come too late: as many times as windows of different kinds miss them.
    pub fn late(self, tables: &[&[Row]]) -> usize {
        let rows = || tables.iter().copied().flatten();
        let behind = |ends: fn(i64) -> Vec<i64>| {
            rows().filter(|row| ends(row.ts).iter().all(|end| *end <= row.watermark)).count()
        };
        match self {
            // Whether a row is selected is seen when it is in time.
            Kind::Windows | Kind::WindowsOfWindows | Kind::WindowsOfUnion | Kind::FirstGroups => behind(tumble),
            Kind::Hops | Kind::Distinct | Kind::FirstRows | Kind::JoinedWindows => behind(hop),
            Kind::SharedWindows => behind(hop) + behind(cumulate),
            Kind::Over | Kind::OverTime | Kind::JoinedTimes => rows().filter(|row| row.ts < row.watermark).count(),
            _ => 0,
        }
    }

    /// Rows with a value, up to the first for which there is none.
    fn until_it_fails(self, rows: &[Row], value: fn(&Row) -> i64) -> Expected {
        let wanted = rows.iter().take_while(|row| !self.fails_for(row)).filter(|row| row.i % 3 != 1);
        one_by_one(wanted.map(|row| vec![row.i, value(row)]))
    }

    fn of_windows(self, tables: &[&[Row]]) -> Expected {
        let tumbling = || grouped(tables[0], tumble);
        let hopping = || grouped(tables[0], hop);
        match self {
            Kind::WindowsOfWindows => of_windows_of_windows(tumbling()),
            Kind::WindowsOfUnion => {
                let both = tables.iter().copied().flatten();
                by_end(grouped(both, tumble), |rows| vec![count(rows), sum(rows)])
            }
            Kind::Hops => by_end(hopping(), |rows| vec![count(rows), sum(rows), least(rows, |row| row.d)]),
            Kind::SharedWindows => {
                let first = by_end(hopping(), |rows| vec![count(rows), sum(rows)]);
                let second = by_end(grouped(tables[0], cumulate), |rows| {
                    vec![rows.iter().map(|row| row.d).sum(), least(rows, |row| row.i)]
                });
                [first, second].into_iter().enumerate().flat_map(|(lane, expected)| numbered(lane, expected)).collect()
            }
            Kind::Distinct => by_end(hopping(), |rows| {
                let distinct: BTreeSet<i64> = rows.iter().map(|row| row.d).collect();
                vec![distinct.len() as i64, twice_the_median(rows)]
            }),
            Kind::FragileWindows | Kind::DoomedWindows => by_end(hopping(), |rows| {
                let fails = rows.iter().any(|row| self.fails_for(row));
                vec![if fails { FAILS } else { sum(rows) }]
            }),
            Kind::Sessions => {
                by_end(sessions(tables[0]), |rows| vec![count(rows), sum(rows), least(rows, |row| row.ts)])
            }
            Kind::FirstRows => first_rows(tables[0]),
            Kind::FirstGroups => first_groups(tumbling()),
            Kind::Windows => {
                let selected = tables[0].iter().filter(|row| is_selected(row));
                by_end(grouped(selected, tumble), |rows| vec![count(rows), sum(rows)])
            }
            _ => unreachable!("it has no windows"),
        }
    }

    fn over(self, rows: &[&Row]) -> Expected {
        let of_key = |index: usize| rows.iter().copied().filter(move |row| row.k == rows[index].k);
        let last_rows = |index: usize| {
            let before = rows[..=index].iter().rev().filter(|row| row.k == rows[index].k);
            before.take(3).map(|row| row.i).sum()
        };
        let last_milliseconds = |index: usize| {
            let ts = rows[index].ts;
            let frame: Vec<&Row> = of_key(index).filter(|row| (ts - FRAME_MS..=ts).contains(&row.ts)).collect();
            vec![rows[index].i, count(&frame), least(&frame, |row| row.d), -least(&frame, |row| -row.i)]
        };
        match self {
            Kind::Over => one_by_one((0..rows.len()).map(|index| vec![rows[index].i, last_rows(index)])),
            _ => one_by_one((0..rows.len()).map(last_milliseconds)),
        }
    }
}

fn one_by_one(rows: impl Iterator<Item = Vec<i64>>) -> Expected {
    rows.map(|row| vec![row]).collect()
}

fn numbered(lane: usize, expected: Expected) -> Expected {
    let number = |row: Vec<i64>| std::iter::once(lane as i64).chain(row).collect();
    expected.into_iter().map(|alike| alike.into_iter().map(number).collect()).collect()
}

fn count(rows: &[&Row]) -> i64 {
    rows.len() as i64
}

fn sum(rows: &[&Row]) -> i64 {
    rows.iter().map(|row| row.i).sum()
}

fn least(rows: &[&Row], value: fn(&Row) -> i64) -> i64 {
    rows.iter().map(|row| value(row)).min().expect("groups have rows")
}

fn twice_the_median(rows: &[&Row]) -> i64 {
    let mut values: Vec<i64> = rows.iter().map(|row| row.i).collect();
    values.sort_unstable();
    values[(values.len() - 1) / 2] + values[values.len() / 2]
}

/// What [`Kind::Windows`] selects.
fn is_selected(row: &Row) -> bool {
    row.d > 2 && row.k != 2
}

/// When the window ends that a time is in.
fn end(ts: i64, window_ms: i64) -> i64 {
    (ts / window_ms + 1) * window_ms
}

fn tumble(ts: i64) -> Vec<i64> {
    vec![end(ts, WINDOW_MS)]
}

/// When all windows end that a time is in.
fn hop(ts: i64) -> Vec<i64> {
    (end(ts, WINDOW_MS)..=ts + HOP_MS).step_by(WINDOW_MS as usize).collect()
}

fn cumulate(ts: i64) -> Vec<i64> {
    (end(ts, WINDOW_MS)..=end(ts, CUMULATE_MS)).step_by(WINDOW_MS as usize).collect()
}

/// The rows of each window and key that came when the window had not ended.
fn grouped<'r>(rows: impl IntoIterator<Item = &'r Row>, ends: fn(i64) -> Vec<i64>) -> Groups<'r> {
    let mut groups = Groups::new();
    for row in rows {
        let in_time = ends(row.ts).into_iter().filter(|end| *end > row.watermark);
        in_time.for_each(|end| groups.entry([end, row.k]).or_default().push(row));
    }
    groups
}

/// Rows of one key, none more than the gap after the one before.
fn sessions<'r>(rows: &'r [Row]) -> Groups<'r> {
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort_by_key(|row| (row.k, row.ts));
    let is_same = |row: &&Row, next: &&Row| row.k == next.k && next.ts - row.ts <= GAP_MS;
    let session = |rows: &[&'r Row]| ([rows[rows.len() - 1].ts + GAP_MS, rows[0].k], rows.to_vec());
    sorted.chunk_by(is_same).map(session).collect()
}

/// A row for each group, with the end of its window, its key and its values; windows come in the order of their ends.
fn by_end(groups: Groups<'_>, values: impl Fn(&[&Row]) -> Vec<i64>) -> Expected {
    let groups: Vec<([i64; 2], Vec<&Row>)> = groups.into_iter().collect();
    let row = |(group, rows): &([i64; 2], Vec<&Row>)| group.iter().copied().chain(values(rows)).collect();
    let windows = groups.chunk_by(|group, next| group.0[0] == next.0[0]);
    windows.map(|window| window.iter().map(row).collect()).collect()
}

fn of_windows_of_windows(parts: Groups<'_>) -> Expected {
    let mut windows = BTreeMap::<i64, Vec<i64>>::new();
    for ([of, _], rows) in parts {
        // The time of a window is a millisecond before its end.
        windows.entry(end(of - 1, 3 * WINDOW_MS)).or_default().push(count(&rows));
    }
    one_by_one(windows.into_iter().map(|(end, counts)| vec![end, counts.iter().sum(), counts.len() as i64]))
}

fn rows_of_key(rows: &[Row], key: i64) -> Vec<Vec<i64>> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.k == key).collect();
    let window = |(index, rows): (usize, &[&Row])| vec![key, 3 * (index as i64 + 1), count(rows), sum(rows)];
    rows.chunks(3).enumerate().map(window).collect()
}

fn first_rows(rows: &[Row]) -> Expected {
    let mut windows = BTreeMap::<i64, Vec<&Row>>::new();
    grouped(rows, hop).into_iter().for_each(|([end, _], rows)| windows.entry(end).or_default().extend(rows));
    let ranked = |(end, mut rows): (i64, Vec<&Row>)| {
        rows.sort_by_key(|row| (-row.d, row.i));
        let row = |(index, row): (usize, &&Row)| vec![end, row.i, index as i64 + 1];
        rows.iter().take(3).enumerate().map(row).collect::<Vec<_>>()
    };
    one_by_one(windows.into_iter().flat_map(ranked))
}

fn first_groups(groups: Groups<'_>) -> Expected {
    let mut windows = BTreeMap::<i64, Vec<(i64, i64)>>::new();
    groups.into_iter().for_each(|([end, key], rows)| windows.entry(end).or_default().push((-sum(&rows), key)));
    let ranked = |(end, mut groups): (i64, Vec<(i64, i64)>)| {
        groups.sort_unstable();
        let row = |(index, (sum, key)): (usize, &(i64, i64))| vec![end, *key, -sum, index as i64 + 1];
        groups.iter().take(2).enumerate().map(row).collect::<Vec<_>>()
    };
    one_by_one(windows.into_iter().flat_map(ranked))
}

/// Pairs of rows in the same window, and rows that are alone in theirs.
fn joined_windows(lefts: &[Row], rights: &[Row]) -> Expected {
    let [lefts, rights] = [lefts, rights].map(|rows| grouped(rows, hop));
    let mut windows = BTreeMap::<i64, Vec<Vec<i64>>>::new();
    let groups: BTreeSet<&[i64; 2]> = lefts.keys().chain(rights.keys()).collect();
    for group in groups {
        let numbers = |side: &Groups<'_>| match side.get(group) {
            Some(rows) => rows.iter().map(|row| row.i).collect(),
            None => vec![-1],
        };
        let rights = numbers(&rights);
        let pairs = numbers(&lefts).into_iter().flat_map(|left| rights.iter().map(move |right| (left, *right)));
        windows.entry(group[0]).or_default().extend(pairs.map(|(left, right)| vec![group[0], left, right]));
    }
    windows.into_values().collect()
}

/// Pairs of rows that are near each other.
fn joined_times(lefts: &[&Row], rights: &[&Row]) -> Expected {
    let is_near =
        |left: &Row, right: &Row| left.k == right.k && (right.ts - BEFORE_MS..=right.ts + AFTER_MS).contains(&left.ts);
    let pairs = lefts.iter().flat_map(|left| rights.iter().map(move |right| (*left, *right)));
    vec![pairs.filter(|(left, right)| is_near(left, right)).map(|(left, right)| vec![left.i, right.i]).collect()]
}

/// Rows by their times, those of one time as they came, without those that came when the watermark had passed them.
fn in_order(rows: &[Row]) -> Vec<&Row> {
    let mut kept: Vec<&Row> = rows.iter().filter(|row| row.ts >= row.watermark).collect();
    kept.sort_by_key(|row| row.ts);
    kept
}
