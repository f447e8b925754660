//! What is shown of the operators of running queries.

use std::sync::Arc;
use std::time::Duration;

use pelton::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use pelton::arrow::datatypes::{DataType, Int64Type};
use pelton::clock::{Clock, Hands};
use pelton::pool::{ManualWorkers, Pool};
use pelton::{Outcome, PushSource, Session};

/// What a row costs that is looked at.
const COST_NS: u64 = 250;

/// A session whose time passes where rows are looked at by `slowly(…)`.
fn session() -> (Session, ManualWorkers, Arc<Hands>) {
    let hands = Arc::new(Hands::default());
    let (pool, workers) = Pool::manual(1, Clock::Manual(hands.clone()));
    let session = Session::with_pool(pool);
    let turned = hands.clone();
    let slowly = move |values: &[ArrayRef]| {
        turned.advance(Duration::from_nanos(COST_NS * values[0].len() as u64));
        Ok(values[0].clone())
    };
    session.register_function("slowly", vec![DataType::Int64], DataType::Int64, slowly);
    (session, workers, hands)
}

fn push(source: &PushSource, values: std::ops::Range<i64>) {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
    assert!(source.try_push(RecordBatch::try_new(source.schema().clone(), vec![values]).unwrap()).unwrap());
}

/// These columns of what is shown.
fn shown<const N: usize>(session: &Session, columns: [&str; N]) -> Vec<[String; N]> {
    let statement = session.prepare("SHOW OPERATORS").unwrap().remove(0);
    let Outcome::Rows(rows) = session.execute(&statement).unwrap() else { panic!("SHOW shows rows") };
    let text = |row: usize, name: &str| rows.column_by_name(name).unwrap().as_string_view().value(row).to_owned();
    (0..rows.num_rows()).map(|row| columns.map(|name| text(row, name))).collect()
}

#[test]
fn operators_are_shown_with_what_they_cost_and_what_waits_for_them() {
    let (session, mut workers, hands) = session();
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
    let (session, mut workers, hands) = session();
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
    // Their time has passed: the rows leave, and nobody has read them.
    hands.advance(Duration::from_millis(7));
    push(&source, 500..501);
    while workers.step(0) {}
    let waiting = shown(&session, ["operator", "rows waiting"]);
    assert_eq!(waiting.last(), Some(&["result".to_owned(), "500".to_owned()]), "{waiting:?}");
    drop((source, query));
}
