//! Windows that share slices against their definitions: several windows over one stream and by one key in one query; interpreted and compiled, on one worker
//! and two, in blocks of any size, with rows that are late for some of the windows only.
//!
//! `PELTON_PROPERTY_CASES` sets how many random streams are tried.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use pelton_data::block::ticks;
use pelton_testkit::rows::row_lines;
use pelton_testkit::script::engine::session;
use pelton_testkit::script::run::Configuration;
use pelton_testkit::windows::{AGGREGATES, Aggregate, Group, Kind, Reported, Row, Windows};
use proptest::prelude::*;

use crate::streams;

fn config() -> ProptestConfig {
    let cases = std::env::var("PELTON_PROPERTY_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64);
    ProptestConfig { cases, max_shrink_iters: 500, ..ProptestConfig::with_source_file("shared") }
}

/// What every window has of its own: all columns of one place are of one type.
const INTEGERS: [&str; 7] = ["COUNT(*)", "COUNT(i)", "SUM(i)", "MIN(i)", "MAX(i)", "FIRST_VALUE(i)", "LAST_VALUE(i)"];

/// What windows may have in its place: strings, which may be long.
const STRINGS: [&str; 4] = ["MIN(s)", "MAX(s)", "FIRST_VALUE(s)", "LAST_VALUE(s) FILTER (WHERE f > 0)"];

/// A stream and what is asked of it.
#[derive(Debug, Clone)]
struct Case {
    rows: Vec<Row>,
    windows: Vec<Asked>,
    is_keyed: bool,
    configuration: Configuration,
    /// Rows pushed at a time.
    batch_rows: usize,
}

/// Windows, and two aggregates of them.
#[derive(Debug, Clone)]
struct Asked {
    windows: Windows,
    aggregates: [Aggregate; 2],
}

/// Some that are as fine as any may be, beside others with edges where those have some.
fn cases() -> impl Strategy<Value = Case> {
    let rows = streams::rows(
        prop_oneof![5 => 0i64..4, 3 => Just(0), 1 => 10i64..40, 1 => 300i64..500],
        "[a-c]{1,3}|a long string of more than [1-3]0 bytes",
    );
    let any_of = |names: &[&'static str]| prop::sample::select(names.to_vec()).prop_map(aggregate);
    let aggregates = move || [any_of(&INTEGERS), any_of(&INTEGERS)];
    let others = prop::collection::vec((0..3, 1i64..5, 1i64..6, -4i64..4, aggregates()), 1..4);
    let first = (any::<bool>(), 2i64..9, aggregates());
    let strings = (any::<bool>(), prop::collection::vec(any_of(&STRINGS), 4));
    let windows = (1i64..12, -30i64..30, 0i64..40, first, others, strings);
    let windows = windows.prop_map(|(unit, offset, delay, first, others, (have_strings, strings))| {
        let (is_sliding, many, aggregates) = first;
        let windows = |kind, offset| Windows { kind, offset, delay, lateness: 0 };
        let finest = match is_sliding {
            true => Kind::Hop { slide: unit, size: unit * many },
            false => Kind::Tumble { size: unit },
        };
        let first = Asked { windows: windows(finest, offset % unit), aggregates };
        let others = others.into_iter().map(|(kind, slide, many, shift, aggregates)| {
            let slide = slide * unit;
            let (kind, size) = match kind {
                0 => (Kind::Tumble { size: slide }, slide),
                1 => (Kind::Hop { slide, size: slide + many * unit }, slide + many * unit),
                _ => (Kind::Cumulate { step: slide, steps: many + 1 }, slide * (many + 1)),
            };
            Asked { windows: windows(kind, (offset % unit + shift * unit) % size), aggregates }
        });
        let mut all = vec![first];
        for asked in others {
            // The same windows with the same aggregates are computed once.
            if all.iter().all(|other| other.windows != asked.windows) {
                all.push(asked);
            }
        }
        if have_strings {
            all.iter_mut().zip(strings).for_each(|(asked, string)| asked.aggregates[1] = string);
        }
        all
    });
    (rows, windows, any::<bool>(), streams::configurations(), 10usize..200).prop_map(
        |(rows, windows, is_keyed, configuration, batch_rows)| Case {
            rows,
            windows,
            is_keyed,
            configuration: configuration.in_turn(batch_rows),
            batch_rows,
        },
    )
}

fn aggregate(sql: &str) -> Aggregate {
    *AGGREGATES.iter().find(|aggregate| aggregate.sql == sql).expect("there is such an aggregate")
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn windows_that_share_slices_have_the_rows_of_their_definitions(case in cases()) {
        let found = found(&case);
        prop_assert_eq!(found.shared, usize::from(case.windows.len() > 1), "all windows share slices");
        let mut late = 0;
        for (number, asked) in case.windows.iter().enumerate() {
            let (mut expected, late_for_it) = expected(asked, &case);
            late += late_for_it;
            let of_it = |line: &&(i64, Line)| line.0 == number as i64;
            let mut lines: Vec<Line> = found.lines.iter().filter(of_it).map(|(_, line)| line.clone()).collect();
            prop_assert!(lines.is_sorted_by_key(|line| line.0.0), "windows leave in the order of their ends");
            lines.sort();
            expected.sort();
            prop_assert_eq!(lines, expected, "window {}", number);
        }
        prop_assert_eq!(found.late, late);
    }
}

/// Group and values.
type Line = (Group, String);

/// What the engine made of a case.
struct Found {
    /// With which of the windows they are of.
    lines: Vec<(i64, Line)>,
    late: u64,
    /// Slices that windows share.
    shared: usize,
}

fn expected(asked: &Asked, case: &Case) -> (Vec<Line>, u64) {
    let (reported, late) = asked.windows.reported(&case.rows, case.is_keyed);
    let line = |one: Reported<'_>| {
        let values = asked.aggregates.iter().map(|aggregate| (aggregate.value)(&one.rows));
        (one.group, values.collect::<Vec<_>>().join(" | "))
    };
    (reported.into_iter().map(line).collect(), late)
}

fn found(case: &Case) -> Found {
    let session = session(case.configuration);
    let source = streams::table(&session, case.windows[0].windows.delay);
    let (key, by_key) = if case.is_keyed { ("k", ", k") } else { ("CAST(NULL AS BIGINT)", "") };
    let select = |(number, Asked { windows, aggregates }): (usize, &Asked)| {
        format!(
            "SELECT CAST({number} AS BIGINT), window_end, window_start, {key}, {}, {} FROM {} GROUP BY window_start, window_end{by_key}",
            aggregates[0].sql,
            aggregates[1].sql,
            windows.sql("t", "ts", None)
        )
    };
    let selects: Vec<String> = case.windows.iter().enumerate().map(select).collect();
    let mut query = session.sql(&selects.join("\nUNION ALL ")).unwrap();
    // Half of all queries go on from snapshots of their state after each batch.
    let renews = case.batch_rows.is_multiple_of(2);
    let lines = streams::run(&mut query, source, (&case.rows, case.batch_rows), renews, read);
    let summary = query.wait().unwrap();
    Found {
        lines,
        late: summary.late_rows(),
        shared: summary.run().windows().filter(|(_, open)| open.is_shared).count(),
    }
}

fn read(batch: &RecordBatch) -> Vec<(i64, Line)> {
    let instants = |column: usize| ticks(batch.column(column));
    let (ends, starts) = (instants(1), instants(2));
    let integers = |column: usize| batch.column(column).as_primitive::<Int64Type>();
    let lines = row_lines(&batch.project(&[4, 5]).unwrap()).unwrap();
    let groups =
        ends.values().iter().zip(starts.values()).zip(integers(3)).map(|((end, start), key)| (*end, *start, key));
    integers(0).values().iter().copied().zip(groups.zip(lines)).collect()
}
