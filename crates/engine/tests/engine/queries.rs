//! Many queries of one session: they share its workers and nothing else.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use pelton::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use pelton::arrow::datatypes::{DataType, Float64Type, Int64Type};
use pelton::function::AggregateFunction;
use pelton::{Error, PushSource, Query, Session};

use crate::shown;

fn session(workers: &str) -> Session {
    let session = Session::new();
    session.set("pelton.workers", workers).unwrap();
    session
}

fn sum(batches: &[RecordBatch]) -> i64 {
    batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).sum()
}

/// A table of the numbers from 1 to `rows`.
fn numbers(session: &Session, name: &str, rows: i64) {
    let sql = format!(
        "CREATE TABLE {name} (i BIGINT NOT NULL) WITH ('connector' = 'datagen', 'number-of-rows' = '{rows}', 'pace' = 'flat-out',
             'fields.i.kind' = 'sequence', 'fields.i.start' = '1', 'fields.i.end' = '{rows}')"
    );
    for statement in session.prepare(&sql).unwrap() {
        session.execute(&statement).unwrap();
    }
}

fn pushed(session: &Session, name: &str) -> (PushSource, Query) {
    let source = session.push_table(name, "v BIGINT NOT NULL").unwrap();
    let query = session.sql(&format!("SELECT 12 / v AS q FROM {name}")).unwrap();
    (source, query)
}

fn push(source: &PushSource, value: i64) {
    let values = Arc::new(Int64Array::from(vec![value]));
    source.push_blocking(RecordBatch::try_new(source.schema().clone(), vec![values]).unwrap()).unwrap();
}

fn next(query: &mut Query) -> i64 {
    sum(&[query.next_batch().unwrap().unwrap()])
}

#[test]
fn many_queries_run_at_once_and_each_to_its_end() {
    for workers in ["1", "2", "3"] {
        let session = session(workers);
        numbers(&session, "n", 200_000);
        let queries: Vec<Query> =
            (1..=20).map(|factor| session.sql(&format!("SELECT SUM(i * {factor}) AS total FROM n")).unwrap()).collect();
        for (index, query) in queries.into_iter().enumerate().rev() {
            assert_eq!(sum(&query.collect().unwrap()), 20_000_100_000 * (index as i64 + 1));
        }
    }
}

#[test]
fn a_query_that_fails_ends_alone() {
    for workers in ["1", "2"] {
        let session = session(workers);
        let [(one, mut first), (two, mut second)] = ["a", "b"].map(|name| pushed(&session, name));
        push(&one, 3);
        push(&two, 4);
        assert_eq!((next(&mut first), next(&mut second)), (4, 3));
        push(&one, 0);
        assert!(first.next_batch().is_err_and(|error| error.to_string().contains("division by zero")));
        push(&two, 6);
        assert_eq!(next(&mut second), 2);
        // What feeds the one that failed is told, even while somebody still has it.
        let rows = RecordBatch::try_new(one.schema().clone(), vec![Arc::new(Int64Array::from(vec![1]))]).unwrap();
        while !first.control().has_ended() {
            std::thread::yield_now();
        }
        assert!((0..100_000).any(|_| matches!(one.push_blocking(rows.clone()), Err(Error::Usage(_)))));
    }
}

#[test]
fn dropping_a_query_stops_no_other() {
    let session = session("1");
    let [(one, first), (two, mut second)] = ["a", "b"].map(|name| pushed(&session, name));
    push(&one, 3);
    drop(first);
    push(&two, 4);
    assert_eq!(next(&mut second), 3);
    drop(two);
    assert!(second.next_batch().unwrap().is_none());
}

#[test]
fn a_query_whose_reader_is_slow_holds_no_other_up() {
    let session = session("1");
    numbers(&session, "n", 1_000_000);
    session.set("pelton.block-rows", "16").unwrap();
    // Its results fill the channel, and nobody reads them.
    let stuck = session.sql("SELECT i FROM n").unwrap();
    let query = session.sql("SELECT COUNT(*) AS rows FROM n WHERE i > 10").unwrap();
    assert_eq!(sum(&query.collect().unwrap()), 999_990);
    assert!(!stuck.control().has_ended());
    assert_eq!(sum(&stuck.collect().unwrap()), 500_000_500_000);
}

#[test]
fn another_number_of_workers_counts_for_queries_that_begin_then() {
    let session = session("2");
    let (source, mut query) = pushed(&session, "a");
    session.set("pelton.workers", "1").unwrap();
    numbers(&session, "n", 1000);
    assert_eq!(sum(&session.sql("SELECT i FROM n").unwrap().collect().unwrap()), 500_500);
    push(&source, 2);
    assert_eq!(next(&mut query), 6);
    // Queries outlive their session.
    drop(session);
    push(&source, 3);
    assert_eq!(next(&mut query), 4);
}

/// Some columns of what `SHOW QUERIES` says, which do not depend on time.
fn shown(session: &Session) -> Vec<[String; 3]> {
    shown::shown(session, "SHOW QUERIES VERBOSE", ["query", "rows waiting", "held back by"])
}

/// Another of them, of each query.
fn shown_in(session: &Session, column: &str) -> Vec<[String; 1]> {
    shown::shown(session, "SHOW QUERIES VERBOSE", [column])
}

#[test]
fn a_query_whose_reader_is_slow_says_so() {
    let session = session("1");
    numbers(&session, "n", 1_000_000);
    session.set("pelton.block-rows", "16").unwrap();
    let (source, query) = pushed(&session, "a");
    let stuck = session.sql("SELECT i FROM n WHERE i > 0").unwrap();
    while shown(&session).last().is_none_or(|row| row[2] != "result") {
        std::thread::yield_now();
    }
    let [idle, held] = <[[String; 3]; 2]>::try_from(shown(&session)).unwrap();
    assert_eq!(idle, ["1: result", "0", ""]);
    assert!(held[1].parse::<u64>().unwrap() > 0, "{held:?}");
    drop((source, query));
    assert_eq!(shown(&session).len(), 1);
    drop(stuck);
    assert!(shown(&session).is_empty());
}

#[test]
fn rates_are_shown_for_each_source() {
    let session = session("1");
    let [one, two] = ["a", "b"].map(|name| session.push_table(name, "v BIGINT NOT NULL").unwrap());
    let mut query = session.sql("SELECT v FROM a UNION ALL SELECT v FROM b").unwrap();
    push(&one, 3);
    assert_eq!(next(&mut query), 3);
    let [rates] = &shown_in(&session, "rows/s by source")[0];
    assert!(rates.starts_with("a ") && rates.ends_with(", b 0") && !rates.starts_with("a 0"), "{rates}");
    drop((one, two));
    assert!(query.next_batch().unwrap().is_none());
}

#[test]
fn operators_have_threads_of_their_own_where_the_policy_says_so() {
    let session = session("2");
    let names = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = names.clone();
    session.register_function("noted", vec![DataType::Int64], DataType::Int64, move |arguments| {
        seen.lock().unwrap().insert(std::thread::current().name().unwrap_or_default().to_owned());
        Ok(arguments[0].clone())
    });
    let source = session.push_table("a", "v BIGINT NOT NULL").unwrap();
    let mut query = session.sql("SELECT noted(v) AS v FROM a").unwrap();
    for (policy, thread) in
        [("threads", "pelton-Pipeline(0)"), ("fcfs", "pelton-worker"), ("threads", "pelton-Pipeline(0)")]
    {
        session.set("pelton.policy", policy).unwrap();
        for value in 0..20 {
            push(&source, value);
            assert_eq!(next(&mut query), value);
            if value == 0 {
                // A worker may have been looking for it by the policy before.
                names.lock().unwrap().clear();
            }
        }
        let names = std::mem::take(&mut *names.lock().unwrap());
        assert!(!names.is_empty() && names.iter().all(|name| name.starts_with(thread)), "{policy}: {names:?}");
    }
}

#[test]
fn a_policy_counts_for_queries_that_run() {
    let session = session("2");
    let [(one, mut first), (two, mut second)] = ["a", "b"].map(|name| pushed(&session, name));
    let others = ["fcfs", "min-cost", "min-latency", "round-robin", "highest-rate", "downstream", "random"];
    for policy in others.into_iter().chain(["threads", "adaptive", "threads"]) {
        session.set("pelton.policy", policy).unwrap();
        push(&one, 3);
        push(&two, 4);
        assert_eq!((next(&mut first), next(&mut second)), (4, 3), "{policy}");
    }
}

#[test]
fn rows_that_are_wider_than_an_event_pass_in_parts() {
    let session = session("2");
    session.set("pelton.data-passing", "queues").unwrap();
    // More events than a queue holds, of three to a row.
    const ROWS: i64 = 20_000;
    numbers(&session, "n", ROWS);
    let columns: Vec<String> = (0..15).map(|column| format!("i * 100 + {column} AS c{column}")).collect();
    let rows = session.sql(&format!("SELECT {} FROM n", columns.join(", "))).unwrap().collect().unwrap();
    let mut next = 1;
    for batch in &rows {
        for row in 0..batch.num_rows() {
            for column in 0..15 {
                let values = batch.column(column).as_primitive::<Int64Type>();
                assert_eq!(values.value(row), next * 100 + column as i64);
            }
            next += 1;
        }
    }
    assert_eq!(next, ROWS + 1);
}

#[test]
fn a_programs_own_function_may_have_the_name_of_one_that_is_left_out() {
    let session = session("1");
    let next = |arguments: &[ArrayRef]| -> Result<ArrayRef, String> {
        let numbers = arguments[0].as_primitive::<Int64Type>();
        Ok(Arc::new(numbers.unary::<_, Int64Type>(|number| number + 1)))
    };
    for name in ["map_country", "split", "array_next"] {
        session.register_function(name, vec![DataType::Int64], DataType::Int64, next);
        let rows =
            session.sql(&format!("SELECT {}(`value`) AS v FROM (VALUES (1)) AS t (`value`)", name.to_uppercase()));
        let rows = rows.and_then(pelton::Query::collect).unwrap();
        assert_eq!(rows[0].column(0).as_primitive::<Int64Type>().values().as_ref(), [2], "{name}");
    }
    let refused = session.sql("SELECT MAP_ENTRIES(v) AS v FROM (VALUES (1)) AS t (v)").err().unwrap().to_string();
    assert!(refused.contains("MAP_ENTRIES is not supported yet; take parts of the value with array[1]"), "{refused}");
}

#[test]
fn a_programs_function_that_breaks_its_word_ends_its_query_alone() {
    let session = session("1");
    type Body = fn(&[ArrayRef]) -> Result<ArrayRef, String>;
    let bodies: [(&str, Body, &str); 4] = [
        ("erring", |_| Err("no luck today".into()), "no luck today in ERRING("),
        (
            "short",
            |arguments| Ok(arguments[0].slice(0, 0)),
            "it must return 1 values of type BIGINT, not 0 of type BIGINT in SHORT(",
        ),
        (
            "typed",
            |arguments| Ok(Arc::new(arguments[0].as_primitive::<Int64Type>().unary::<_, Float64Type>(|n| n as f64))),
            "it must return 1 values of type BIGINT, not 1 of type DOUBLE in TYPED(",
        ),
        ("panicking", |_| panic!("out of {}", "paper"), "it panicked: out of paper in PANICKING("),
    ];
    for (name, body, expected) in bodies {
        session.register_function(name, vec![DataType::Int64], DataType::Int64, body);
        // Of a column, and of a constant, which is computed when the query is planned.
        for query in [format!("SELECT {name}(i) AS v FROM (VALUES (1)) AS t (i)"), format!("SELECT {name}(1) AS v")] {
            let error = session.sql(&query).and_then(pelton::Query::collect).err().unwrap().to_string();
            assert!(
                error.contains(expected.split(" of type").next().unwrap().split(" in ").next().unwrap()),
                "{query}: {error}"
            );
            assert!(query.ends_with("AS v") || error.contains(expected), "{query}: {error}");
        }
    }
    assert_eq!(session.sql("SELECT 1 AS v").unwrap().collect().unwrap()[0].num_rows(), 1);
}

#[test]
fn a_programs_aggregate_that_panics_ends_its_query_alone_and_is_named() {
    let session = session("1");
    let table = "CREATE TABLE t (v BIGINT NOT NULL, ts TIMESTAMP(3) NOT NULL, WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', \
                 'number-of-rows' = '3', 'rows-per-second' = '1', 'pace' = 'flat-out', 'base-time' = '2020-01-01 00:00:00')";
    session.execute(&session.prepare(table).unwrap()[0]).unwrap();
    for broken in ["initial", "accumulate", "combine", "finish"] {
        let run = move |part: &str| {
            if part == broken {
                panic!("no {part} today")
            }
        };
        let total = AggregateFunction::new(
            broken,
            vec![DataType::Int64],
            DataType::Int64,
            move || {
                run("initial");
                0
            },
            move |state: &mut i64, arguments| {
                run("accumulate");
                *state += arguments[0].as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
                Ok(())
            },
            move |states| {
                run("finish");
                Ok(Arc::new(states.iter().map(|&&state| state).collect::<Int64Array>()))
            },
        );
        session.register_aggregate(total.with_combine(move |state, other| {
            run("combine");
            *state += other;
            Ok(())
        }));
        let query = format!(
            "SELECT {broken}(v) AS v FROM HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '2' SECOND) \
             GROUP BY window_start, window_end"
        );
        let error = session.sql(&query).and_then(Query::collect).err().unwrap().to_string();
        let expected = format!("{}: it panicked: no {broken} today", broken.to_uppercase());
        assert!(error.contains(&expected), "{error}");
    }
    assert_eq!(session.sql("SELECT 1 AS v").unwrap().collect().unwrap()[0].num_rows(), 1);
}

#[test]
fn the_builder_has_aggregates_of_distinct_values_and_of_some_rows() -> Result<(), Box<dyn std::error::Error>> {
    use pelton::builder::{ExprFunctionExt, ScalarValue, col, count, lit};
    let session = session("1");
    numbers(&session, "n", 10);
    let remainders = count(col("i") % lit(3)).distinct().build()?.alias("remainders");
    let last = col("i").gt(lit(ScalarValue::Int64(Some(8))));
    let last = pelton::builder::sum(col("i")).filter(last).build()?.alias("last");
    let rows = session.table("n")?.aggregate([remainders, last])?.run()?.collect()?;
    let value = |column: usize| rows[0].column(column).as_primitive::<Int64Type>().value(0);
    assert_eq!([value(0), value(1)], [3, 9 + 10]);
    Ok(())
}

#[test]
fn rows_that_are_left_out_are_shown_while_a_query_runs() {
    let session = session("1");
    let path = std::env::temp_dir().join(format!("pelton-left-out-{}.csv", std::process::id()));
    std::fs::write(&path, "1\nx\n2\n").unwrap();
    let table = format!(
        "CREATE TABLE t (v BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv', 'on-error' = 'skip')",
        path.display()
    );
    session.execute(&session.prepare(&table).unwrap()[0]).unwrap();
    let source = session.push_table("a", "v BIGINT NOT NULL").unwrap();
    let mut query = session.sql("SELECT v FROM t UNION ALL SELECT v FROM a").unwrap();
    assert_eq!(next(&mut query), 3);
    assert_eq!(shown_in(&session, "left out"), [["t 1 rejected"]]);
    drop(source);
    assert!(query.next_batch().unwrap().is_none());
    std::fs::remove_file(path).unwrap();
}

#[test]
fn rows_that_a_query_is_too_slow_for_are_dropped_where_that_is_asked_for_and_counted() {
    const ROWS: u64 = 100_000;
    let session = session("1");
    session.set("pelton.block-rows", "1024").unwrap();
    // A thousand rows take three milliseconds, and come in one.
    session.register_function("slowly", vec![DataType::Int64], DataType::Int64, |values: &[ArrayRef]| {
        std::thread::sleep(std::time::Duration::from_millis(3));
        Ok(values[0].clone())
    });
    let table = format!(
        "CREATE TABLE n (i BIGINT NOT NULL) WITH (
             'connector' = 'datagen', 'number-of-rows' = '{ROWS}', 'rows-per-second' = '1000000', 'pace' = 'real-time', 'on-overload' = 'drop', 'on-overload.delay' = '5 ms',
             'fields.i.kind' = 'sequence', 'fields.i.start' = '1', 'fields.i.end' = '{ROWS}')"
    );
    session.execute(&session.prepare(&table).unwrap()[0]).unwrap();
    let mut query = session.sql("SELECT slowly(i) AS i FROM n").unwrap();
    let control = query.control();
    let (mut values, mut left_out) = (Vec::new(), String::new());
    while let Some(batch) = query.next_batch().unwrap() {
        values.extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values());
        if let Some([of_query]) = shown_in(&session, "left out").pop() {
            left_out = of_query;
        }
    }
    let source = &control.progress().sources[0];
    assert!(source.left_out.dropped_rows > 0, "it is slower than rows come");
    assert_eq!(
        (source.rows, source.rows + source.left_out.dropped_rows),
        (values.len() as u64, ROWS),
        "all are accounted for"
    );
    assert!(values.is_sorted_by(|one, other| one < other), "what is left is in its order, and once");
    assert!(left_out.starts_with("n ") && left_out.ends_with(" dropped"), "{left_out}");
}

/// The first rows of a file tell its types; a later value that does not fit is no mistake of whoever reads the file.
#[test]
fn a_value_that_does_not_fit_a_guessed_type_is_an_error() {
    let path = std::env::temp_dir().join(format!("pelton-guessed-{}.json", std::process::id()));
    std::fs::write(&path, "{\"n\": 1}\n".repeat(30_000) + "{\"n\": 1.9}\n").unwrap();
    let session = session("1");
    let guessed = session.sql(&format!("SELECT SUM(n) AS n FROM '{}'", path.display())).unwrap().collect();
    let declared = format!(
        "CREATE TABLE declared (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}'); SELECT SUM(n) AS n FROM declared",
        path.display()
    );
    let declared = sum(&session.sql(&declared).unwrap().collect().unwrap());
    std::fs::remove_file(&path).unwrap();
    let error = guessed.unwrap_err().to_string();
    assert!(error.contains("row 30001, column 'n': '1.9' is not a BIGINT"), "{error}");
    assert_eq!(declared, 30_001, "the fraction is cut off where the type is declared");
}
