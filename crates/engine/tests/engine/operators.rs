//! What is shown of the operators of running queries.

use std::time::Duration;

use pelton::arrow::array::AsArray;
use pelton::arrow::datatypes::Int64Type;
use pelton::{PushSource, Session};

use crate::shown;
use crate::stage::{Stage, rows};

/// What a row costs that is looked at.
const COST_NS: u64 = 250;

fn stage() -> Stage {
    Stage::new(|rows| COST_NS * rows)
}

fn push(source: &PushSource, values: std::ops::Range<i64>) {
    assert!(source.try_push(rows(source, values)).unwrap());
}

/// These columns of what is shown.
fn shown<const N: usize>(session: &Session, columns: [&str; N]) -> Vec<[String; N]> {
    shown::shown(session, "SHOW OPERATORS VERBOSE", columns)
}

#[test]
fn operators_are_shown_with_what_they_cost_and_what_waits_for_them() {
    let Stage { session, mut workers, hands } = stage();
    let source = session.push_table("a", "v BIGINT NOT NULL").unwrap();
    let query = session.sql("SELECT v FROM a WHERE slowly(v) >= 750").unwrap();
    assert_eq!(
        shown(&session, ["query", "operator", "selectivity", "ns a row", "ran before"]),
        [
            ["1: result", "a", "", "", ""],
            ["1: result", "pipeline 0: a → rows", "", "", ""],
            ["1: result", "result", "", "", ""]
        ],
        "nothing is known before anything has run"
    );
    push(&source, 0..1000);
    while workers.step(0) {}
    // What is known is known from the next epoch on.
    hands.advance(Duration::from_millis(7));
    push(&source, 1000..1001);
    while workers.step(0) {}
    hands.advance(Duration::from_millis(3));
    assert_eq!(
        shown(&session, ["operator", "rows in", "rows out", "selectivity", "ns a row"]),
        [
            ["a", "1001", "1001", "1.000", "0.000"],
            ["pipeline 0: a → rows", "1001", "251", "0.250", "250.000"],
            ["result", "251", "251", "1.000", "0.000"]
        ]
    );
    assert_eq!(shown(&session, ["busy ms", "ran before"])[1], ["0.250", "3.00 ms"]);
    // Nobody has read the results.
    let [_, _, result] =
        <[[String; 3]; 3]>::try_from(shown(&session, ["rows waiting", "bytes waiting", "state bytes"])).unwrap();
    assert_eq!(result, ["251", &(251 * 8).to_string(), "0"]);
    drop(source);
    while workers.step(0) {}
    let rows = query.collect().unwrap();
    let values = rows.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
    assert!(values.eq(750..1001));
    assert!(shown(&session, ["query"]).is_empty(), "it has ended");
}

#[test]
fn what_operators_remember_and_what_waits_for_them_are_shown_there() {
    let Stage { session, mut workers, hands } = stage();
    let source = session.push_table("a", "v BIGINT NOT NULL, at AS PROCTIME()").unwrap();
    let sums = "SELECT SUM(v) OVER (ORDER BY at ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS total FROM a WHERE slowly(v) >= 0";
    let query = session.sql(sums).unwrap();
    let state_bytes = || shown(&session, ["operator", "state bytes"]).into_iter().map(<(String, String)>::from);
    assert!(state_bytes().all(|(_, bytes)| bytes == "0"));
    push(&source, 0..500);
    while workers.step(0) {}
    let remembering: Vec<String> =
        state_bytes().filter(|(_, bytes)| bytes != "0").map(|(operator, _)| operator).collect();
    assert_eq!(remembering, ["over 0"]);
    // The last of them came at the time that the watermark has come to: it has left as well, and nobody has read any.
    hands.advance(Duration::from_millis(7));
    push(&source, 500..501);
    while workers.step(0) {}
    let waiting = shown(&session, ["operator", "rows waiting"]);
    assert_eq!(waiting.last(), Some(&["result".to_owned(), "501".to_owned()]), "{waiting:?}");
    drop((source, query));
}
