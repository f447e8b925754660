//! When windows are reported, against their definitions: before their time has come, and corrected where a stream has several partitions. Groups of windows,
//! sessions and the first rows of windows; interpreted and compiled, on one worker and two, in blocks of any size.
//!
//! `PELTON_PROPERTY_CASES` sets how many random streams are tried.

mod streams;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pelton::clock::{Clock, Hands};
use pelton::{PushSource, Query, Session};
use pelton_testkit::ranking::{OrderColumn, first_rows};
use pelton_testkit::rows::row_lines;
use pelton_testkit::script::TemporaryDirectory;
use pelton_testkit::script::engine::{session, session_with_clock};
use pelton_testkit::script::run::Configuration;
use pelton_testkit::windows::{AGGREGATES, Aggregate, Group, Kind, Reported, Row, Windows};
use proptest::prelude::*;

fn config() -> ProptestConfig {
    let cases = std::env::var("PELTON_PROPERTY_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64);
    ProptestConfig { cases, max_shrink_iters: 500, ..ProptestConfig::with_source_file("emission") }
}

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
        prop_oneof![prop::sample::subsequence(&AGGREGATES[..7], 1..=3), prop::sample::subsequence(AGGREGATES, 1..=6)];
    let asked = (aggregates, order, 1usize..6, any::<bool>());
    let configuration = streams::configurations();
    let partitions = prop::collection::vec(rows(), partitions);
    let turns = prop::collection::vec(0usize..6, 1..20);
    (partitions, windows, any::<bool>(), asked, configuration, 1usize..100, turns).prop_map(
        |(partitions, windows, is_keyed, (aggregates, order, rows_max, is_first), configuration, batch_rows, turns)| {
            let is_session = matches!(windows.kind, Kind::Session { .. });
            let asked = match is_first && !is_session {
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
                    let values: Vec<String> = [written(*key)].into_iter().chain(values).collect();
                    vec![values.join(" | ")]
                }
                Asked::First { order, rows_max } => {
                    let is_told_apart_by = |name: &&str| (*name == "k" && self.is_keyed) || *name == order.name;
                    let others: Vec<_> =
                        ["k", "i", "f", "s"].into_iter().filter(|name| !is_told_apart_by(name)).collect();
                    let ranked = (1..).zip(first_rows(rows, &[*order], &others, *rows_max));
                    ranked.map(|(rank, row)| format!("{rank} | {}", row_line(row))).collect()
                }
            };
            // Rows that are not among the first correct nothing.
            let is_first = matches!(self.asked, Asked::First { .. }) && !is_early;
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

    fn push_table(&self, session: &Session, name: &str) -> PushSource {
        let columns = format!(
            "ts TIMESTAMP(3) NOT NULL, k BIGINT, i BIGINT, f DOUBLE, s STRING,
             WATERMARK FOR ts AS ts - INTERVAL '0.{:03}' SECOND",
            self.windows.delay
        );
        session.push_table(name, &columns).unwrap()
    }
}

fn written<T: std::fmt::Debug>(value: Option<T>) -> String {
    value.map_or_else(|| "NULL".to_string(), |value| format!("{value:?}"))
}

fn row_line(row: &Row) -> String {
    let text = row.text.clone().unwrap_or_else(|| "NULL".to_string());
    format!("{} | {} | {} | {text}", written(row.key), written(row.integer), written(row.float))
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
    query.wait().unwrap().windows.iter().map(|window| window.late_rows).sum()
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
        let all = &case.partitions[0];
        let (mut known, mut reported_before, mut pushed) = (BTreeMap::new(), 0, 0);
        for rows in all.chunks(case.batch_rows) {
            source.push_blocking(streams::batch(&source, rows)).unwrap();
            pushed += rows.len();
            let mut found = Vec::new();
            read_until(&mut query, &mut found, |query, _| query.progress().pipelines[0].rows == pushed as u64);
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
        let found = std::thread::scope(|scope| {
            scope.spawn(move || {
                for turn in turns.into_iter().cycle() {
                    // Those that have ended hold nobody back.
                    left.retain(|(batches, _)| !batches.is_empty());
                    let count = left.len();
                    let Some((batches, source)) = left.get_mut(turn % count.max(1)) else { break };
                    source.push_blocking(batches.pop().unwrap()).unwrap();
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
                line.split(" | ").map(|field| if field == "NULL" { "" } else { field }).collect::<Vec<_>>().join(",") + "\n"
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
        let found = read_all(&mut query);
        let partitions: Vec<&[Row]> = case.partitions.iter().map(Vec::as_slice).collect();
        let (reported, late) = case.windows.reported_of(&partitions, case.is_keyed);
        prop_assert_eq!(found, case.lines(&reported, false, &mut BTreeMap::new()));
        prop_assert_eq!(late_rows(query), late);
    }
    #[test]
    fn windows_over_windows_take_what_these_are_when_they_are_final(case in cases(1..=1)) {
        let session = session(case.configuration);
        let source = case.push_table(&session, "t");
        case.set(&session);
        let by_key = if case.is_keyed { ", k" } else { "" };
        let sql = format!(
            "SELECT CAST(window_end AS BIGINT), CAST(window_start AS BIGINT), RESULT_KIND(), COUNT(*), SUM(n), SUM(total)
             FROM TUMBLE((SELECT window_time AS at, COUNT(*) AS n, SUM(i) AS total FROM {}
                          GROUP BY window_start, window_end, window_time{by_key}), DESCRIPTOR(at), INTERVAL '0.05' SECOND)
             GROUP BY window_start, window_end",
            case.windows.sql("t", "ts", case.is_keyed.then_some("k"))
        );
        let mut query = session.sql(&sql).unwrap();
        let rows = &case.partitions[0];
        let batches: Vec<_> = rows.chunks(case.batch_rows).map(|rows| streams::batch(&source, rows)).collect();
        let found = std::thread::scope(|scope| {
            scope.spawn(move || batches.into_iter().for_each(|batch| source.push_blocking(batch).unwrap()));
            read_all(&mut query)
        });
        // Final is what windows come to whose time is so much later.
        let waiting = Windows { delay: case.windows.delay + case.windows.lateness, lateness: 0, ..case.windows };
        let (inner, late) = waiting.reported(rows, case.is_keyed);
        let mut outer: BTreeMap<i64, Vec<&Reported<'_>>> = BTreeMap::new();
        inner.iter().for_each(|one| outer.entry((one.group.0 - 1).div_euclid(50) * 50).or_default().push(one));
        let mut expected: Vec<String> = outer.into_iter().map(|(start, inner)| {
            let rows = inner.iter().flat_map(|one| &one.rows);
            let total = rows.clone().filter_map(|row| row.integer).reduce(|sum, integer| sum + integer);
            format!("{} | {start} | final | {} | {} | {}", start + 50, inner.len(), rows.count(), written(total))
        }).collect();
        expected.sort();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(late_rows(query), late);
    }
}
