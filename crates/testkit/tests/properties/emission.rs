//! When windows are reported, against their definitions: before their time has come, and corrected where a stream has several partitions. Groups of windows,
//! sessions and the first rows of windows; interpreted and compiled, on one worker and two, in blocks of any size.
//!
//! `PELTON_PROPERTY_CASES` sets how many random streams are tried.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pelton::{PushSource, Query, Session};
use pelton_runtime::clock::{Clock, Hands};
use pelton_testkit::ranking::{OrderColumn, first_rows};
use pelton_testkit::rows::{row_lines, value_text};
use pelton_testkit::script::TemporaryDirectory;
use pelton_testkit::script::engine::{session, session_with_clock};
use pelton_testkit::script::run::Configuration;
use pelton_testkit::windows::{AGGREGATES, Aggregate, Group, Kind, Reported, Row, Windows};
use proptest::prelude::*;

use crate::streams;

fn config() -> ProptestConfig {
    let cases = std::env::var("PELTON_PROPERTY_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64);
    ProptestConfig { cases, max_shrink_iters: 500, ..ProptestConfig::with_source_file("emission") }
}

/// Lengths of windows over windows, and of those over these, in milliseconds.
const NESTED_SIZES: [i64; 2] = [50, 100];

/// The text of rows that only move time.
const SKIPPED: &str = "skipped";

const EMPTY_ROW: Row = Row { time: 0, key: None, integer: None, float: None, text: None };

/// What is asked of windows.
#[derive(Debug, Clone)]
enum Asked {
    /// Groups, and aggregates of their rows.
    Groups(Vec<Aggregate>),
    /// So many first rows.
    First { order: OrderColumn, rows_max: usize },
}

/// Streams and what is asked of them.
#[derive(Debug, Clone)]
struct Case {
    /// The rows of each partition.
    partitions: Vec<Vec<Row>>,
    windows: Windows,
    is_keyed: bool,
    asked: Asked,
    configuration: Configuration,
    /// Rows pushed at a time.
    batch_rows: usize,
    /// Which partition has rows next.
    turns: Vec<usize>,
}

/// Every row is in a window: one that has not ended, where the row is as far as time.
fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        (1i64..40).prop_map(|size| Kind::Tumble { size }),
        (1i64..12, 0i64..50).prop_map(|(slide, more)| Kind::Hop { slide, size: slide + more }),
        (1i64..12, 1i64..9).prop_map(|(step, steps)| Kind::Cumulate { step, steps }),
        (1i64..40).prop_map(|gap| Kind::Session { gap }),
        (1i64..40).prop_map(|gap| Kind::Session { gap }),
    ]
}

/// Rows of one partition, which begin near to those of others.
fn rows() -> impl Strategy<Value = Vec<Row>> {
    let step = prop_oneof![5 => 0i64..4, 3 => Just(0), 1 => 10i64..40, 1 => 100i64..200];
    (streams::rows(step, "[a-c]{1,3}|a long string of more than [1-3]0 bytes"), 0i64..60).prop_map(
        |(mut rows, start)| {
            let first = rows.first().map_or(0, |row| row.time);
            rows.iter_mut().for_each(|row| row.time += start - first);
            rows
        },
    )
}

/// Aggregates that are the same in whatever order rows come.
fn is_in_any_order(aggregate: &Aggregate) -> bool {
    !["FIRST", "LAST", "ARRAY", "LISTAGG", "OWN_TRAIL"].iter().any(|name| aggregate.sql.starts_with(name))
}

fn cases(partitions: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Case> {
    let lateness = prop_oneof![Just(0), 1i64..60];
    let windows =
        (kinds(), 0i64..40, lateness).prop_map(|(kind, delay, lateness)| Windows { kind, offset: 0, delay, lateness });
    let order = (prop::sample::select(vec!["i", "f", "s"]), any::<bool>(), any::<bool>())
        .prop_map(|(name, is_descending, nulls_first)| OrderColumn { name, is_descending, nulls_first });
    let aggregates =
        prop_oneof![prop::sample::subsequence(&AGGREGATES[..8], 1..=3), prop::sample::subsequence(AGGREGATES, 1..=6)];
    let asked = (aggregates, order, 1usize..6, any::<bool>());
    let configuration = streams::configurations();
    let partitions = prop::collection::vec(rows(), partitions);
    let turns = prop::collection::vec(0usize..6, 1..20);
    (partitions, windows, any::<bool>(), asked, configuration, 1usize..100, turns).prop_map(
        |(partitions, windows, is_keyed, (aggregates, order, rows_max, is_first), configuration, batch_rows, turns)| {
            let asked = match is_first {
                true => Asked::First { order, rows_max },
                false => Asked::Groups(aggregates),
            };
            let configuration = configuration.in_turn(batch_rows);
            Case { partitions, windows, is_keyed, asked, configuration, batch_rows, turns }
        },
    )
}

impl Case {
    /// The query of the table `t`.
    fn sql(&self) -> String {
        let by_key = if self.is_keyed { ", k" } else { "" };
        let windows = self.windows.sql("t", "ts", self.is_keyed.then_some("k"));
        match &self.asked {
            Asked::Groups(aggregates) => {
                let aggregates: Vec<&str> = aggregates.iter().map(|aggregate| aggregate.sql).collect();
                let key = if self.is_keyed { "k" } else { "CAST(NULL AS BIGINT)" };
                format!(
                    "SELECT CAST(window_end AS BIGINT), CAST(window_start AS BIGINT), RESULT_KIND(), {key}, {}
                     FROM {windows} GROUP BY window_start, window_end{by_key}",
                    aggregates.join(", ")
                )
            }
            Asked::First { order, rows_max } => format!(
                "SELECT CAST(window_end AS BIGINT), CAST(window_start AS BIGINT), kind, n, k, i, f, s
                 FROM (SELECT *, RESULT_KIND() OVER w AS kind, ROW_NUMBER() OVER w AS n FROM {windows}
                       WINDOW w AS (PARTITION BY window_start, window_end{by_key} ORDER BY {}))
                 WHERE n <= {rows_max}",
                order.sql()
            ),
        }
    }

    /// What rows that are reported look like; `known` is what groups were reported as last.
    fn lines(
        &self,
        reported: &[Reported<'_>],
        is_early: bool,
        known: &mut BTreeMap<Group, Vec<String>>,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        for Reported { group, is_correction, rows } in reported {
            let (end, start, key) = group;
            let kind = match (is_early, is_correction) {
                (true, _) => "early",
                (false, true) => "correction",
                (false, false) => "final",
            };
            let values: Vec<String> = match &self.asked {
                Asked::Groups(aggregates) => {
                    let values = aggregates.iter().map(|aggregate| (aggregate.value)(rows));
                    let values: Vec<String> = [value_text(*key)].into_iter().chain(values).collect();
                    vec![values.join(" | ")]
                }
                Asked::First { order, rows_max } => {
                    // How the rows of one partition came is known.
                    let is_told_apart_by = |name: &&str| (*name == "k" && self.is_keyed) || *name == order.name;
                    let others = ["k", "i", "f", "s"].into_iter().filter(|_| self.partitions.len() > 1);
                    let others: Vec<_> = others.filter(|name| !is_told_apart_by(name)).collect();
                    let ranked = (1..).zip(first_rows(rows, &[*order], &others, *rows_max));
                    ranked.map(|(rank, row)| format!("{rank} | {}", row_line(row))).collect()
                }
            };
            // Rows that are not among the first correct nothing, but where a session becomes longer.
            let is_session = matches!(self.windows.kind, Kind::Session { .. });
            let is_first = matches!(self.asked, Asked::First { .. }) && !is_early && !is_session;
            if !is_first || known.insert(*group, values.clone()).is_none_or(|before| before != values) {
                lines.extend(values.iter().map(|values| format!("{end} | {start} | {kind} | {values}")));
            }
        }
        lines.sort();
        lines
    }

    fn set(&self, session: &Session) {
        session.set("table.exec.emit.allow-lateness", &format!("{} ms", self.windows.lateness)).unwrap();
    }

    /// The query of windows of 50 ms over those of the table `t`, and where the depth is three of windows of 100 ms over these.
    fn nested_sql(&self, depth: usize) -> String {
        let by_key = if self.is_keyed { ", k" } else { "" };
        let windows = self.windows.sql("t", "ts", self.is_keyed.then_some("k"));
        let mut inner = format!(
            "SELECT window_time AS at, COUNT(*) AS n, SUM(i) AS total FROM {windows}
             GROUP BY window_start, window_end, window_time{by_key}"
        );
        let tumbled = |inner: &str, size: i64| {
            format!(
                "FROM TUMBLE(({inner}), DESCRIPTOR(at), INTERVAL '0.{size:03}' SECOND) GROUP BY window_start, window_end"
            )
        };
        let last = NESTED_SIZES[depth - 2];
        for size in &NESTED_SIZES[..depth - 2] {
            let windows = tumbled(&inner, *size);
            inner = format!("SELECT window_time AS at, SUM(n) AS n, SUM(total) AS total {windows}, window_time");
        }
        format!(
            "SELECT CAST(window_end AS BIGINT), CAST(window_start AS BIGINT), RESULT_KIND(), COUNT(*), SUM(n), SUM(total) {}",
            tumbled(&inner, last)
        )
    }

    /// What that comes to, with the ends of its windows, and how many rows are late.
    fn nested(&self, depth: usize) -> (Vec<(i64, String)>, u64) {
        // Final is what windows come to whose time is so much later.
        let waiting = Windows { delay: self.windows.delay + self.windows.lateness, lateness: 0, ..self.windows };
        let (inner, late) = waiting.reported(&self.partitions[0], self.is_keyed);
        let results = inner.iter().map(|one| {
            let total = one.rows.iter().filter_map(|row| row.integer).reduce(|sum, integer| sum + integer);
            (one.group.0, one.rows.len(), total)
        });
        let mut results: Vec<(i64, usize, Option<i64>)> = results.collect();
        let mut lines = Vec::new();
        for size in &NESTED_SIZES[..depth - 1] {
            let mut windows: BTreeMap<i64, Vec<(usize, Option<i64>)>> = BTreeMap::new();
            let end = |of: i64| (of - 1).div_euclid(*size) * size + size;
            results.iter().for_each(|(of, n, total)| windows.entry(end(*of)).or_default().push((*n, *total)));
            let results_of = |(end, inner): (i64, Vec<(usize, Option<i64>)>)| {
                let total = inner.iter().filter_map(|(_, total)| *total).reduce(|sum, integer| sum + integer);
                let n: usize = inner.iter().map(|(n, _)| n).sum();
                let line = format!("{end} | {} | final | {} | {n} | {}", end - size, inner.len(), value_text(total));
                ((end, n, total), (end, line))
            };
            (results, lines) = windows.into_iter().map(results_of).unzip();
        }
        (lines, late)
    }

    /// Up to which end its windows must have been reported when all rows have come and more may; those of sessions, whose results have no watermark
    /// that is as simple, need not.
    fn nested_over(&self, depth: usize) -> Option<i64> {
        let time = self.partitions[0].iter().map(|row| row.time).max()?;
        // Time has come to the last end, at least, that a window may have.
        let of_ends = match self.windows.kind {
            Kind::Tumble { size } => size,
            Kind::Hop { slide, size } if size % slide == 0 => slide,
            Kind::Cumulate { step, .. } => step,
            Kind::Hop { .. } | Kind::Session { .. } | Kind::Rows { .. } => return None,
        };
        let ends = std::iter::once(&of_ends).chain(&NESTED_SIZES[..depth - 1]);
        Some(ends.fold(time - self.windows.delay - self.windows.lateness, |time, of_ends| {
            time.div_euclid(*of_ends) * of_ends
        }))
    }

    /// Half of all queries go on from snapshots of their state now and then.
    fn renews(&self) -> bool {
        self.batch_rows.is_multiple_of(2)
    }

    /// The query of a table that drops the rows which are to be skipped.
    fn start_without_skipped(&self, session: &Session) -> (PushSource, Query) {
        let source = self.push_table(session, "pushed");
        self.set(session);
        let view = format!("CREATE VIEW t AS SELECT * FROM pushed WHERE s IS DISTINCT FROM '{SKIPPED}'");
        let query = session.sql(&format!("{view}; {}", self.sql())).unwrap();
        (source, query)
    }

    fn push_table(&self, session: &Session, name: &str) -> PushSource {
        let columns = format!(
            "ts TIMESTAMP(3) NOT NULL, k BIGINT, i BIGINT, f DOUBLE, s STRING,
             WATERMARK FOR ts AS ts - INTERVAL '0.{:03}' SECOND",
            self.windows.delay
        );
        session.push_table(name, &columns).unwrap()
    }
}

fn row_line(row: &Row) -> String {
    let text = row.text.clone().unwrap_or_else(|| "NULL".to_string());
    format!("{} | {} | {} | {text}", value_text(row.key), value_text(row.integer), value_text(row.float))
}

fn read_all(query: &mut Query) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(batch) = query.next_batch().unwrap() {
        lines.extend(row_lines(&batch).unwrap());
    }
    lines.sort();
    lines
}

/// Reads what there is, until `is_done` or for as long as no run needs. (What nobody reads holds a query up.)
fn read_until(query: &mut Query, lines: &mut Vec<String>, mut is_done: impl FnMut(&Query, &[String]) -> bool) {
    for _ in 0..5_000 {
        while let Some(batch) = query.try_next_batch().unwrap() {
            lines.extend(row_lines(&batch).unwrap());
        }
        if is_done(query, lines) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn late_rows(query: Query) -> u64 {
    query.wait().unwrap().late_rows()
}

/// Windows of 10 seconds that are corrected for 5.
fn corrected(session: &Session, inner: &str) -> (PushSource, Query) {
    session.set("table.exec.emit.allow-lateness", "5 s").unwrap();
    let columns = "ts TIMESTAMP(3) NOT NULL, k BIGINT, i BIGINT, f DOUBLE, s STRING, WATERMARK FOR ts AS ts";
    let source = session.push_table("t", columns).unwrap();
    let query = session.sql(inner).unwrap();
    (source, query)
}

/// Pushes rows of these times in milliseconds, each with its number of seconds, and waits for what they come to.
fn push(source: &PushSource, query: &mut Query, times: &[i64], lines: usize) -> Vec<String> {
    let row = |&time: &i64| Row { time, integer: Some(time / 1_000), text: Some(SKIPPED.to_string()), ..EMPTY_ROW };
    source.push_blocking(streams::batch(source, &times.iter().map(row).collect::<Vec<_>>())).unwrap();
    let mut found = Vec::new();
    read_until(query, &mut found, |_, found| found.len() >= lines);
    found
}

#[test]
fn the_lateness_is_waited_for_once() {
    let sums = |of: &str, value: &str, seconds: i64| {
        format!(
            "SELECT window_time AS at, SUM({value}) AS total FROM TUMBLE(({of}), DESCRIPTOR(at), INTERVAL '{seconds}' SECOND)
             GROUP BY window_start, window_end, window_time"
        )
    };
    let session = Session::new();
    let nested = sums(&sums(&sums("SELECT ts AS at, i FROM t", "i", 10), "total", 20), "total", 40);
    let (source, mut query) = corrected(&session, &format!("SELECT total FROM ({nested})"));
    assert_eq!(push(&source, &mut query, &[1_000, 12_000, 9_000, 35_000, 44_999], 0), Vec::<String>::new());
    // 00:09 came in time for the sum of ten seconds, which has been final since 00:15; that of forty is since 00:45.
    assert_eq!(push(&source, &mut query, &[45_000], 1), ["57"]);
}

#[test]
fn when_corrections_are_due_is_in_snapshots() {
    let windows = "FROM TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '10' SECOND)";
    let sum = format!("SELECT SUM(i) {windows} GROUP BY window_start, window_end");
    let most = format!(
        "SELECT i FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY i DESC) AS place
         {windows}) WHERE place <= 1"
    );
    for (sql, corrected_to) in [(sum, "14"), (most, "9")] {
        // Only time goes on at 00:12 and after.
        let sql = format!("CREATE VIEW u AS SELECT * FROM t WHERE i < 12; {sql}");
        let (first, second) = (Session::new(), Session::new());
        let (source, mut query) = corrected(&first, &sql);
        assert_eq!(push(&source, &mut query, &[5_000, 12_000], 1), ["5"]);
        push(&source, &mut query, &[9_000], 0);
        read_until(&mut query, &mut Vec::new(), |query, _| query.progress().pipelines[0].rows == 3);
        let snapshots = streams::snapshots(&query.control());

        let (source, mut query) = corrected(&second, &sql);
        streams::restore(&query.control(), &snapshots);
        push(&source, &mut query, &[12_000], 0);
        read_until(&mut query, &mut Vec::new(), |query, _| query.progress().pipelines[0].rows == 1);
        // No window ends before 00:20.
        assert_eq!(push(&source, &mut query, &[13_000], 1), [corrected_to]);
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn early_results_are_what_windows_come_to_so_far(case in cases(1..=1)) {
        let hands = Arc::new(Hands::default());
        let session = session_with_clock(case.configuration, Clock::Manual(hands.clone()));
        let source = case.push_table(&session, "t");
        case.set(&session);
        for (key, value) in [("early-fire.enabled", "true"), ("early-fire.delay", "1 s")] {
            session.set(&format!("table.exec.emit.{key}"), value).unwrap();
        }
        let mut query = session.sql(&case.sql()).unwrap();
        let (control, renews) = (query.control(), case.renews());
        let all = &case.partitions[0];
        let (mut known, mut reported_before, mut pushed) = (BTreeMap::new(), 0, 0);
        for rows in all.chunks(case.batch_rows) {
            source.push_blocking(streams::batch(&source, rows)).unwrap();
            pushed += rows.len();
            let mut found = Vec::new();
            read_until(&mut query, &mut found, |query, _| query.progress().pipelines[0].rows == pushed as u64);
            if renews {
                streams::renew(&control);
            }
            hands.advance(Duration::from_secs(1));
            let reported = case.windows.reported_so_far(&all[..pushed], case.is_keyed);
            let mut expected = case.lines(&reported[reported_before..], false, &mut known);
            reported_before = reported.len();
            expected.extend(case.lines(&case.windows.early(&all[..pushed], case.is_keyed), true, &mut known));
            expected.sort();
            read_until(&mut query, &mut found, |_, found| found.len() >= expected.len());
            found.sort();
            prop_assert_eq!(found, expected);
        }
        drop(source);
        let (reported, late) = case.windows.reported(all, case.is_keyed);
        prop_assert_eq!(read_all(&mut query), case.lines(&reported[reported_before..], false, &mut known));
        prop_assert_eq!(late_rows(query), late);
    }

    #[test]
    fn another_run_goes_on_from_snapshots(case in cases(1..=1), other in streams::configurations(), cut in 0usize..150) {
        let (before, after) = case.partitions[0].split_at(cut.min(case.partitions[0].len()));
        let is_session = matches!(case.windows.kind, Kind::Session { .. });
        let (reported, late) = case.windows.reported(&case.partitions[0], case.is_keyed);
        let reported_before = case.windows.reported_so_far(before, case.is_keyed).len();
        let mut known = BTreeMap::new();
        let expected = [&reported[..reported_before], &reported[reported_before..]]
            .map(|reported| case.lines(reported, false, &mut known));

        let first = session(case.configuration);
        let (source, mut query) = case.start_without_skipped(&first);
        let mut found = Vec::new();
        let mut batches = before.chunks(case.batch_rows).map(|rows| streams::batch(&source, rows)).peekable();
        read_until(&mut query, &mut found, |query, found| {
            // More results may come of them than wait for whoever reads them, so they are not pushed before anything is read.
            while batches.next_if(|batch| source.try_push(batch.clone()).unwrap()).is_some() {}
            found.len() >= expected[0].len() && query.progress().pipelines[0].rows == before.len() as u64
        });
        drop(batches);
        found.sort();
        prop_assert_eq!(&found, &expected[0]);
        let late_before: u64 = query.progress().late_rows();
        let snapshots = streams::snapshots(&query.control());
        drop((source, query));

        let second = session(other.in_turn(case.batch_rows));
        let (source, mut query) = case.start_without_skipped(&second);
        streams::restore(&query.control(), &snapshots);
        // Positions in sources are in no snapshot of an operator: time comes to where it was, and rows are counted from where they were, for values of a row are known
        // by its number.
        let time = before.iter().map(|row| row.time).max();
        let skipped = time.map(|time| Row { time, text: Some(SKIPPED.to_string()), ..EMPTY_ROW });
        let skipped: Vec<Row> = skipped.into_iter().cycle().take(before.len()).collect();
        let batches = skipped.chunks(case.batch_rows).chain(after.chunks(case.batch_rows));
        let batches: Vec<_> = batches.map(|rows| streams::batch(&source, rows)).collect();
        let found = std::thread::scope(|scope| {
            scope.spawn(move || batches.into_iter().for_each(|batch| source.push_blocking(batch).unwrap()));
            read_all(&mut query)
        });
        prop_assert_eq!(&found, &expected[1]);
        // Which rows are late for all sessions is found when these are merged, in one run or the other.
        let late_after = late_rows(query);
        prop_assert!(is_session || late_before + late_after == late, "{late_before} and {late_after} are not {late} late rows");
    }

    #[test]
    fn the_model_of_several_partitions_is_that_of_one(case in cases(1..=1)) {
        let rows = &case.partitions[0];
        let (several, late) = case.windows.reported_of(&[rows], case.is_keyed);
        let (one, late_of_one) = case.windows.reported(rows, case.is_keyed);
        let lines = |reported: &[Reported<'_>]| case.lines(reported, false, &mut BTreeMap::new());
        prop_assert_eq!((lines(&several), late), (lines(&one), late_of_one));
        let order = |reported: &[Reported<'_>]| reported.iter().map(|one| (one.group.0, one.is_correction)).collect::<Vec<_>>();
        prop_assert_eq!(order(&several), order(&one));
    }

    #[test]
    fn tables_that_are_read_together_have_watermarks_of_their_own(case in cases(2..=3)) {
        let session = session(case.configuration);
        let sources: Vec<PushSource> =
            (0..case.partitions.len()).map(|number| case.push_table(&session, &format!("t{number}"))).collect();
        case.set(&session);
        let tables: Vec<String> = (0..sources.len()).map(|number| format!("SELECT * FROM t{number}")).collect();
        let sql = format!("CREATE VIEW t AS {}; {}", tables.join(" UNION ALL "), case.sql());
        let mut query = session.sql(&sql).unwrap();
        let with_batches = |(source, rows): (PushSource, &Vec<Row>)| {
            let batches = rows.chunks(case.batch_rows).map(|rows| streams::batch(&source, rows)).rev();
            (batches.collect::<Vec<_>>(), source)
        };
        let mut left: Vec<_> = sources.into_iter().zip(&case.partitions).map(with_batches).collect();
        let turns = case.turns.clone();
        let (control, renews) = (query.control(), case.renews());
        let found = std::thread::scope(|scope| {
            scope.spawn(move || {
                for turn in turns.into_iter().cycle() {
                    // Those that have ended hold nobody back.
                    left.retain(|(batches, _)| !batches.is_empty());
                    let count = left.len();
                    let Some((batches, source)) = left.get_mut(turn % count.max(1)) else { break };
                    source.push_blocking(batches.pop().unwrap()).unwrap();
                    if renews {
                        streams::renew(&control);
                    }
                }
            });
            read_all(&mut query)
        });
        let partitions: Vec<&[Row]> = case.partitions.iter().map(Vec::as_slice).collect();
        let (reported, late) = case.windows.reported_of(&partitions, case.is_keyed);
        prop_assert_eq!(found, case.lines(&reported, false, &mut BTreeMap::new()));
        prop_assert_eq!(late_rows(query), late);
    }

    #[test]
    fn partitions_of_a_table_have_watermarks_of_their_own(mut case in cases(1..=4)) {
        case.asked = match case.asked {
            Asked::Groups(_) => Asked::Groups(AGGREGATES.iter().copied().filter(is_in_any_order).collect()),
            first => first,
        };
        for row in case.partitions.iter_mut().flatten() {
            // Fields without text are empty strings there.
            row.text.get_or_insert_with(|| "-".to_string());
        }
        let directory = TemporaryDirectory::new().unwrap();
        let session = session(case.configuration);
        let source = case.push_table(&session, "like");
        for (number, rows) in case.partitions.iter().enumerate() {
            let lines = row_lines(&streams::batch(&source, rows)).unwrap();
            let fields = |line: &String| {
                line.split(" | ").enumerate().map(csv_field).collect::<Vec<_>>().join(",") + "\n"
            };
            std::fs::write(directory.path().join(format!("{number}.csv")), lines.iter().map(fields).collect::<String>()).unwrap();
        }
        case.set(&session);
        let table = format!(
            "CREATE TABLE t (ts TIMESTAMP(3) NOT NULL, k BIGINT, i BIGINT, f DOUBLE, s STRING,
                 WATERMARK FOR ts AS ts - INTERVAL '0.{:03}' SECOND)
             WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv')",
            case.windows.delay,
            directory.path().display()
        );
        let mut query = session.sql(&format!("{table}; {}", case.sql())).unwrap();
        let (control, mut found) = (query.control(), Vec::new());
        while let Some(batch) = query.next_batch().unwrap() {
            found.extend(row_lines(&batch).unwrap());
            if case.renews() {
                streams::renew(&control);
            }
        }
        found.sort();
        let partitions: Vec<&[Row]> = case.partitions.iter().map(Vec::as_slice).collect();
        let (reported, late) = case.windows.reported_of(&partitions, case.is_keyed);
        prop_assert_eq!(found, case.lines(&reported, false, &mut BTreeMap::new()));
        prop_assert_eq!(late_rows(query), late);
    }

    #[test]
    fn windows_over_windows_take_what_these_are_when_they_are_final(case in cases(1..=1), depth in 2usize..=3) {
        let session = session(case.configuration);
        let source = case.push_table(&session, "t");
        case.set(&session);
        let mut query = session.sql(&case.nested_sql(depth)).unwrap();
        let rows = &case.partitions[0];
        let (control, renews) = (query.control(), case.renews());
        let (mut found, mut pushed) = (Vec::new(), 0);
        for rows in rows.chunks(case.batch_rows) {
            source.push_blocking(streams::batch(&source, rows)).unwrap();
            pushed += rows.len();
            read_until(&mut query, &mut found, |query, _| query.progress().pipelines[0].rows == pushed as u64);
            if renews {
                streams::renew(&control);
            }
        }
        let (expected, late) = case.nested(depth);
        // The lateness is waited for once, however deep windows are nested.
        let over = case.nested_over(depth);
        let come = expected.iter().filter(|(end, _)| over.is_some_and(|over| *end <= over)).count();
        read_until(&mut query, &mut found, |_, found| found.len() >= come);
        prop_assert!(found.len() >= come, "{} of {come} windows that have ended by {over:?}", found.len());
        drop(source);
        found.extend(read_all(&mut query));
        found.sort();
        let mut expected: Vec<String> = expected.into_iter().map(|(_, line)| line).collect();
        expected.sort();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(late_rows(query), late);
    }
}

/// A value as a CSV file has it. Infinite numbers are written as Java does.
fn csv_field((column, shown): (usize, &str)) -> &str {
    const NUMBER: usize = 3;
    match (column, shown) {
        (_, "NULL") => "",
        (NUMBER, "inf") => "Infinity",
        (NUMBER, "-inf") => "-Infinity",
        (_, other) => other,
    }
}
