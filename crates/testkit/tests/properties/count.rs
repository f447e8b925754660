//! Windows that count the rows of very many keys, most of which come no more after a while: whatever is forgotten of them, nothing of their windows
//! is.

use pelton_runtime::policy::PolicyName;
use pelton_testkit::rows::row_lines;
use pelton_testkit::script::engine::session;
use pelton_testkit::script::run::Configuration;
use pelton_testkit::windows::{AGGREGATES, Aggregate, Kind, Reported, Row, Windows};

use crate::streams;

const ROWS: u64 = 80_000;

/// Keys that come in the same part of the stream.
const KEYS: u64 = 700;

/// Each part of the stream has half of its keys from the one before.
const PARTS: u64 = 2;

fn mixed(row: u64) -> u64 {
    (row + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33
}

fn rows() -> Vec<Row> {
    let row = |row: u64| {
        let key = row / (ROWS / PARTS) * KEYS / 2 + mixed(row) % KEYS;
        Row {
            time: row as i64,
            // NULL comes in the first blocks only: the loops for others are not those for the rest.
            key: (key != 7 || row > ROWS / 4).then_some(key as i64),
            integer: (!row.is_multiple_of(11)).then_some((mixed(row + ROWS) % 1_000) as i64 - 500),
            float: Some((row % 64) as f64),
            text: (!row.is_multiple_of(5))
                .then(|| format!("a string that has more than twelve bytes: {}", mixed(row) % 1_000)),
        }
    };
    (0..ROWS).map(row).collect()
}

fn expected(rows: &[Row], windows: Windows, aggregates: &[Aggregate]) -> Vec<String> {
    let (reported, _) = windows.reported(rows, true);
    let line = |one: Reported<'_>| {
        let values = aggregates.iter().map(|aggregate| (aggregate.value)(&one.rows));
        let key = one.group.2.map_or_else(|| "NULL".to_owned(), |key| key.to_string());
        std::iter::once(key).chain(values).collect::<Vec<_>>().join(" | ")
    };
    let mut lines: Vec<String> = reported.into_iter().map(line).collect();
    lines.sort();
    lines
}

fn found(rows: &[Row], windows: Windows, aggregates: &[Aggregate], configuration: Configuration) -> Vec<String> {
    let session = session(configuration);
    let source = streams::table(&session, 0);
    let values: Vec<&str> = aggregates.iter().map(|aggregate| aggregate.sql).collect();
    let windows = windows.sql("t", "ts", Some("k"));
    let sql = format!("SELECT k, {} FROM {windows} GROUP BY window_start, window_end, k", values.join(", "));
    let mut query = session.sql(&sql).unwrap();
    let mut lines = streams::run(&mut query, source, (rows, 10_000), true, |batch| row_lines(batch).unwrap());
    query.wait().unwrap();
    lines.sort();
    lines
}

/// Compares windows that are not told apart by their numbers, those of single slices and of several, with their definition.
fn check(aggregates: &[&str]) {
    let aggregates: Vec<Aggregate> =
        aggregates.iter().map(|sql| *AGGREGATES.iter().find(|known| known.sql == *sql).unwrap()).collect();
    let rows = rows();
    for (slide, size) in [(1, 1), (2, 2), (2, 6), (1, 9), (7, 2), (20, 20), (16, 48)] {
        let windows = Windows { kind: Kind::Rows { slide, size, by_key: true }, offset: 0, delay: 0, lateness: 0 };
        let expected = expected(&rows, windows, &aggregates);
        for (tier, workers) in [("interpret", 2), ("compile", 1)] {
            let (policy, data_passing) = (PolicyName::default().name(), "blocks");
            let configuration = Configuration { tier, workers, block_rows: None, policy, data_passing };
            let found = found(&rows, windows, &aggregates, configuration);
            assert!(found == expected, "windows of {size} rows, one every {slide}, {tier}, {workers} workers");
        }
    }
}

#[test]
fn keys_that_come_no_more_are_forgotten_and_their_windows_are_not() {
    check(&["COUNT(*)", "SUM(i)", "MIN(i)"]);
}

#[test]
fn what_windows_refer_to_is_forgotten_with_them() {
    check(&["MAX(s)", "ARRAY_AGG(i)", "COUNT(DISTINCT i)"]);
}
