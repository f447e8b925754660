//! Queries that read a table without an end together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pelton::arrow::array::{AsArray, Int64Array, RecordBatch, TimestampMillisecondArray};
use pelton::arrow::datatypes::Int64Type;
use pelton::{Outcome, PushSource, Query, Session};

fn numbers(session: &Session) -> PushSource {
    session.push_table("n", "a BIGINT NOT NULL, b BIGINT NOT NULL").unwrap()
}

/// Pushes rows `(a, 10 a)`.
fn push(source: &PushSource, a: impl IntoIterator<Item = i64>) {
    let a: Vec<i64> = a.into_iter().collect();
    let b = a.iter().map(|a| 10 * a).collect::<Int64Array>();
    let rows = RecordBatch::try_new(source.schema().clone(), vec![Arc::new(Int64Array::from(a)), Arc::new(b)]);
    source.push_blocking(rows.unwrap()).unwrap();
}

fn values(batches: &[RecordBatch]) -> Vec<i64> {
    batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

/// Reads until there are so many rows.
fn first(query: &mut Query, rows: usize) -> Vec<i64> {
    let (mut found, started) = (Vec::new(), Instant::now());
    while found.len() < rows {
        assert!(started.elapsed() < Duration::from_secs(60), "there are only {} rows", found.len());
        match query.try_next_batch().unwrap() {
            Some(batch) => found.extend(values(&[batch])),
            None => std::thread::yield_now(),
        }
    }
    found
}

#[test]
fn a_query_has_the_rows_that_are_pushed_after_it_was_added() {
    let session = Session::new();
    let source = numbers(&session);
    push(&source, [1]);
    let mut all = session.sql("SELECT a FROM n").unwrap();
    assert_eq!(first(&mut all, 1), [1], "rows that nobody has read wait for the first query");
    let mut even = session.sql("SELECT b FROM n WHERE MOD(a, 2) = 0").unwrap();
    let Outcome::Rows(shown) = session.execute(&session.prepare("SHOW SHARING").unwrap()[0]).unwrap() else { panic!() };
    let column = |index: usize| shown.column(index).as_string_view().iter().flatten().collect::<Vec<_>>();
    assert_eq!((column(0), column(1), column(3)), (vec!["n", "n"], vec!["2", "2"], vec!["1", "2"]));
    let plan = session.explain(&session.prepare("SELECT a + b FROM n").unwrap()[0]).unwrap().unwrap();
    assert!(plan.contains("== sharing ==\nn is read together with 1: result, 2: result\n"), "{plan}");
    push(&source, [2, 3, 4]);
    assert_eq!((first(&mut all, 3), first(&mut even, 2)), (vec![2, 3, 4], vec![20, 40]));
    // One that leaves takes nothing from the others.
    all.control().abort();
    assert!(all.wait().is_ok());
    push(&source, [5, 6]);
    assert_eq!(first(&mut even, 1), [60]);
    let both = session.sql("SELECT a + b FROM n").unwrap();
    push(&source, 7..=8);
    drop(source);
    assert_eq!(values(&even.collect().unwrap()), [80]);
    assert_eq!(values(&both.collect().unwrap()), [77, 88]);
}

#[test]
fn a_table_that_nobody_reads_takes_rows_again_when_somebody_does() {
    let session = Session::new();
    let source = numbers(&session);
    let query = session.sql("SELECT a FROM n").unwrap();
    query.control().abort();
    query.wait().unwrap();
    let rows = RecordBatch::new_empty(source.schema().clone());
    let error = source.push_blocking(rows).unwrap_err().to_string();
    assert_eq!(error, "the last query that read this table has ended, or the table is gone");
    let mut query = session.sql("SELECT a FROM n").unwrap();
    push(&source, [3]);
    assert_eq!(first(&mut query, 1), [3]);
    session.execute(&session.prepare("DROP TABLE n").unwrap()[0]).unwrap();
    push(&source, [4]);
    assert_eq!(first(&mut query, 1), [4], "a query that runs goes on to read a table that is dropped");
}

#[test]
fn a_query_fails_alone() {
    let session = Session::new();
    let source = numbers(&session);
    let mut queries: Vec<Query> = ["a", "100 / (a - 3)", "a + 1"]
        .iter()
        .map(|value| session.sql(&format!("SELECT {value} FROM n")).unwrap())
        .collect();
    push(&source, [1, 2]);
    assert_eq!(first(&mut queries[0], 2), [1, 2]);
    push(&source, [3]);
    let failing = queries.remove(1);
    let error = failing.collect().unwrap_err().to_string();
    assert!(error.contains("zero"), "{error}");
    push(&source, [4, 5]);
    drop(source);
    let [one, two] = queries.try_into().ok().unwrap();
    assert_eq!(values(&one.collect().unwrap()), [3, 4, 5]);
    assert_eq!(values(&two.collect().unwrap()), [2, 3, 4, 5, 6]);
}

#[test]
fn windows_that_had_begun_before_a_query_are_left_out() {
    let session = Session::new();
    let source =
        session.push_table("e", "k BIGINT NOT NULL, ts TIMESTAMP(3) NOT NULL, WATERMARK FOR ts AS ts").unwrap();
    let push = |rows: &[(i64, i64)]| {
        let keys = rows.iter().map(|(key, _)| *key).collect::<Int64Array>();
        let times = TimestampMillisecondArray::from_iter_values(rows.iter().map(|(_, second)| second * 1_000));
        let columns = vec![Arc::new(keys) as _, Arc::new(times) as _];
        source.push_blocking(RecordBatch::try_new(source.schema().clone(), columns).unwrap()).unwrap();
    };
    let window = |kind: &str, by: &str| {
        format!(
            "SELECT UNIX_TIMESTAMP(CAST(window_start AS STRING)) * 1000 + COUNT(*) * 100 + SUM(k) FROM TABLE({kind}) GROUP BY window_start, window_end{by}"
        )
    };
    let kinds = [
        window("TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)", ""),
        window("HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)", ""),
        window("CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)", ""),
        window("SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)", ", k"),
    ];
    let mut all = session.sql("SELECT k FROM e").unwrap();
    push(&[(1, 1), (1, 12), (2, 9)]);
    assert_eq!(first(&mut all, 3), [1, 1, 2]);
    // The last row that they do not see is of second 12.
    let queries: Vec<Query> = kinds.iter().map(|sql| session.sql(sql).unwrap()).collect();
    push(&[(2, 13), (1, 14), (3, 15), (1, 19), (2, 18), (4, 20), (1, 25), (4, 31)]);
    drop(source);
    let mut found: Vec<Vec<i64>> = queries.into_iter().map(|query| values(&query.collect().unwrap())).collect();
    found.iter_mut().for_each(|rows| rows.sort_unstable());
    let of = |second: i64, count: i64, sum: i64| second * 1_000 + count * 100 + sum;
    assert_eq!(found[0], [of(20, 2, 5), of(30, 1, 4)]);
    assert_eq!(found[1], [of(15, 4, 10), of(20, 2, 5), of(25, 2, 5), of(30, 1, 4)]);
    assert_eq!(found[2], [of(20, 1, 4), of(20, 2, 5), of(30, 1, 4), of(30, 1, 4)]);
    // Up to second 17 a session may go on from rows before: those of keys 1 to 3 that began then.
    assert_eq!(found[3], [of(18, 1, 2), of(20, 1, 4), of(25, 1, 1), of(31, 1, 4)]);
    drop(all);
}

#[test]
fn a_query_that_does_not_keep_up_is_waited_for_or_fails() {
    let session = Session::new();
    let source = numbers(&session);
    // A result that nobody reads holds its query back.
    let slow = session.sql("SELECT a FROM n").unwrap();
    session.set("pelton.sharing.on-lag", "fail").unwrap();
    let failing = session.sql("SELECT a FROM n").unwrap();
    let mut fast = session.sql("SELECT b FROM n").unwrap();
    // 64 batches wait for who reads a result, and 16 chunks of at most 16 batches for a query.
    const BATCHES_MAX: i64 = 1_000;
    let mut pushed = 0;
    let push_one = |a: i64| {
        let rows = vec![Arc::new(Int64Array::from(vec![a])) as _, Arc::new(Int64Array::from(vec![10 * a])) as _];
        source.try_push(RecordBatch::try_new(source.schema().clone(), rows).unwrap()).unwrap()
    };
    let mut found = 0;
    let started = Instant::now();
    while pushed < BATCHES_MAX && started.elapsed() < Duration::from_secs(2) {
        pushed += i64::from(push_one(pushed));
        found += fast.try_next_batch().unwrap().map_or(0, |batch| batch.num_rows());
        if pushed as usize > found + 200 {
            break;
        }
    }
    drop(slow);
    while pushed < BATCHES_MAX {
        pushed += i64::from(push_one(pushed));
        found += fast.try_next_batch().unwrap().map_or(0, |batch| batch.num_rows());
    }
    drop(source);
    found += values(&fast.collect().unwrap()).len();
    assert_eq!(found as i64, BATCHES_MAX, "the one that keeps up has all rows");
    let error = failing.collect().unwrap_err().to_string();
    assert!(error.contains("fell more than 16 chunks"), "{error}");
}

#[test]
fn a_generated_table_is_one_stream() {
    let session = Session::new();
    let table = "CREATE TABLE bid (id BIGINT NOT NULL, price BIGINT NOT NULL)
                 WITH ('connector' = 'hdes', 'table' = 'bid', 'pace' = 'real-time', 'rows-per-second' = '20000')";
    session.execute(&session.prepare(table).unwrap()[0]).unwrap();
    let mut ids = session.sql("SELECT id FROM bid").unwrap();
    let before = *first(&mut ids, 100).last().unwrap();
    // A column more is read from then on.
    let mut prices = session.sql("SELECT id * 1000000 + price FROM bid").unwrap();
    let prices = first(&mut prices, 1_000);
    let ids_of_prices: Vec<i64> = prices.iter().map(|value| value / 1_000_000).collect();
    assert!(ids_of_prices[0] > before, "row {} is read after row {before}", ids_of_prices[0]);
    assert!(ids_of_prices.is_sorted_by(|one, next| one + 1 == *next));
    let later = first(&mut ids, 1_000);
    assert!(later.is_sorted_by(|one, next| one + 1 == *next) && later[0] == before + 1);
    // Read alone, it begins with its first row, whose values are the same.
    session.set("pelton.sharing", "off").unwrap();
    let alone = first(
        &mut session.sql("SELECT id * 1000000 + price FROM bid").unwrap(),
        prices.len() + ids_of_prices[0] as usize,
    );
    assert_eq!(alone[ids_of_prices[0] as usize..][..prices.len()], prices);
}

/// Rows `(k, v, second)` of a table whose watermark is the largest time.
fn events(session: &Session) -> PushSource {
    let columns = "k BIGINT NOT NULL, v BIGINT, ts TIMESTAMP(3) NOT NULL, WATERMARK FOR ts AS ts";
    session.push_table("e", columns).unwrap()
}

fn push_events(source: &PushSource, rows: &[(i64, Option<i64>, i64)]) {
    source.push_blocking(event_rows(source, rows)).unwrap();
}

fn event_rows(source: &PushSource, rows: &[(i64, Option<i64>, i64)]) -> RecordBatch {
    let keys = rows.iter().map(|(key, ..)| *key).collect::<Int64Array>();
    let values = rows.iter().map(|(_, value, _)| *value).collect::<Int64Array>();
    let times = TimestampMillisecondArray::from_iter_values(rows.iter().map(|(.., second)| second * 1_000));
    let columns = vec![Arc::new(keys) as _, Arc::new(values) as _, Arc::new(times) as _];
    RecordBatch::try_new(source.schema().clone(), columns).unwrap()
}

/// An aggregation by key of windows of so many seconds.
fn aggregation(function: &str, seconds: u32, condition: &str) -> String {
    format!(
        "SELECT {function} FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '{seconds}' SECOND)) WHERE {condition} GROUP BY window_start, window_end, k"
    )
}

/// The rows of `SHOW SHARING`, without the names of tables and queries: what is shared of each.
fn partial_results(session: &Session) -> Vec<String> {
    let shown = session.execute(&session.prepare("SHOW SHARING").unwrap()[0]).unwrap();
    let Outcome::Rows(shown) = shown else { panic!("it shows rows") };
    shown.column_by_name("partial results").unwrap().as_string_view().iter().flatten().map(str::to_owned).collect()
}

#[test]
fn aggregations_by_the_same_keys_share_partial_results() {
    let session = Session::new();
    let source = events(&session);
    let first = session.sql(&aggregation("COUNT(*)", 10, "v > 0")).unwrap();
    assert_eq!(partial_results(&session), [""], "one that is alone reads rows");
    let others = [
        aggregation("SUM(v)", 7, "v > 0"),
        aggregation("MAX(v) - MIN(v)", 10, "v < 5 OR v IS NULL"),
        aggregation("COUNT(v)", 5, "k <> 2"),
    ];
    let plan = session.explain(&session.prepare(&others[0]).unwrap()[0]).unwrap().unwrap();
    let line = "rows of e are added up together for all queries that aggregate it by the same keys\n";
    assert!(plan.contains(line), "{plan}");
    let others: Vec<Query> = others.iter().map(|sql| session.sql(sql).unwrap()).collect();
    let group = "group 1 of 3 queries: 3 predicates, 4 values, slices of 1000 ms";
    assert_eq!(partial_results(&session), ["", group, group, group]);
    // By other keys, and with a predicate that may fail, rows are read.
    let by_value = session.sql(&aggregation("COUNT(*)", 10, "v > 0").replace(", k", ", v")).unwrap();
    let failing = session.sql(&aggregation("COUNT(*)", 10, "10 / v > 0")).unwrap();
    assert_eq!(partial_results(&session)[4..], ["", ""]);
    let rows = [
        (1, Some(1), 0),
        (2, Some(4), 3),
        (1, Some(9), 4),
        (1, None, 6),
        (2, Some(0), 8),
        (1, Some(2), 8),
        (2, Some(-3), 12),
    ];
    push_events(&source, &rows);
    push_events(&source, &[(1, Some(3), 15), (1, Some(5), 15), (1, Some(1), 3)]);
    drop(source);
    let sorted = |query: Query| {
        let mut found = values(&query.collect().unwrap());
        found.sort_unstable();
        found
    };
    // The last row is late for all of them.
    assert_eq!(sorted(first), [1, 2, 3]);
    let [sums, spans, counts] = others.try_into().ok().unwrap();
    assert_eq!(sorted(sums), [2, 4, 8, 10]);
    let spans = spans.collect().unwrap();
    let spans: Vec<Option<i64>> =
        spans.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().iter()).collect();
    assert_eq!((spans.len(), spans.iter().flatten().sum::<i64>()), (4, 1 + 4));
    assert_eq!(sorted(counts), [1, 2, 2]);
    assert_eq!(sorted(by_value), [1; 6]);
    let error = failing.collect().unwrap_err().to_string();
    assert!(error.contains("zero"), "{error}");
}

#[test]
fn a_group_changes_with_its_members() {
    let session = Session::new();
    let source = events(&session);
    let keeps = session.sql(&aggregation("COUNT(*)", 10, "v > 0")).unwrap();
    let leaves = session.sql(&aggregation("SUM(v)", 10, "v > 1")).unwrap();
    let stays = session.sql(&aggregation("SUM(v)", 10, "v > 2")).unwrap();
    let mut all = session.sql("SELECT v FROM e").unwrap();
    push_events(&source, &[(1, Some(1), 0), (1, Some(2), 1), (1, Some(3), 2)]);
    assert_eq!(first(&mut all, 3), [1, 2, 3]);
    drop(all);
    leaves.control().abort();
    leaves.wait().unwrap();
    assert_eq!(partial_results(&session)[1], "group 1 of 1 query: 1 predicate, 2 values, slices of 10000 ms");
    // It takes the slot of the one that has left.
    let late = session.sql(&aggregation("MIN(v)", 4, "v < 3")).unwrap();
    assert_eq!(partial_results(&session)[1], "group 1 of 2 queries: 2 predicates, 3 values, slices of 2000 ms");
    push_events(&source, &[(1, Some(4), 9), (1, Some(2), 12), (1, Some(1), 12), (1, Some(7), 21)]);
    drop(source);
    let found = |query: Query| values(&query.collect().unwrap());
    assert_eq!(found(keeps), [4, 2, 1]);
    assert_eq!(found(stays), [7, 7]);
    assert_eq!(found(late), [1], "its first window began when it was there");
}

#[test]
fn windows_of_a_generator_that_had_begun_are_left_out_though_nobody_has_read_its_times() {
    let session = Session::new();
    let table =
        "CREATE TABLE bid (id BIGINT NOT NULL, dateTime TIMESTAMP(3) NOT NULL, WATERMARK FOR dateTime AS dateTime)
                 WITH ('connector' = 'hdes', 'table' = 'bid', 'pace' = 'real-time', 'rows-per-second' = '20000')";
    session.execute(&session.prepare(table).unwrap()[0]).unwrap();
    let mut ids = session.sql("SELECT id FROM bid").unwrap();
    let before = *first(&mut ids, 1_000).last().unwrap();
    // Each window of 10 ms has 200 rows.
    let windows = "SELECT MIN(id), COUNT(*) FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '0.010' SECOND)) GROUP BY window_start, window_end";
    let mut query = session.sql(windows).unwrap();
    let starts = first(&mut query, 5);
    assert!(starts[0] > before && starts[0] % 200 == 0, "the window of row {} has all of its rows", starts[0]);
    assert!(starts.is_sorted_by(|one, next| one + 200 == *next), "{starts:?}");
    ids.control().abort();
    query.control().abort();
}

/// A self join by key in windows of ten seconds.
fn join(columns: &str, condition: &str) -> String {
    format!(
        "SELECT {columns} FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) AS a
         JOIN TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) AS b
             ON a.k = b.k AND a.window_start = b.window_start AND a.window_end = b.window_end WHERE {condition}"
    )
}

/// How many queries read each table and each join.
fn readers(session: &Session) -> Vec<(String, usize)> {
    let shown = session.execute(&session.prepare("SHOW SHARING").unwrap()[0]).unwrap();
    let Outcome::Rows(shown) = shown else { panic!("it shows rows") };
    let mut tables: Vec<(String, usize)> = Vec::new();
    for table in shown.column(0).as_string_view().iter().flatten() {
        match tables.last_mut().filter(|(last, _)| last == table) {
            Some((_, readers)) => *readers += 1,
            None => tables.push((table.to_owned(), 1)),
        }
    }
    tables
}

#[test]
fn a_join_that_several_queries_have_runs_once() {
    let session = Session::new();
    let source = events(&session);
    let alone = session.sql(&join("a.v", "a.v < b.v")).unwrap();
    let plan =
        session.explain(&session.prepare(&join("b.v + a.v", "b.v > 0 OR a.v > 0")).unwrap()[0]).unwrap().unwrap();
    assert!(plan.contains("== sharing ==\nthe join of e and e runs once for all queries that have it\n"), "{plan}");
    assert_eq!(readers(&session), [("e".to_owned(), 1)], "one that is alone runs it itself");
    let sums = session.sql(&join("a.v + b.v", "a.v < b.v")).unwrap();
    let keys = session.sql(&join("a.k", "a.v < b.v")).unwrap();
    let of_join = |count: usize| ("join of e and e".to_owned(), count);
    // The keys are no column of the first run's pairs: there is a second one, with all columns of both.
    assert_eq!(readers(&session), [("e".to_owned(), 3), of_join(2)]);
    let again = session.sql(&join("a.v * b.v", "b.v - a.v = 1")).unwrap();
    assert_eq!(readers(&session), [("e".to_owned(), 3), of_join(3)]);
    // Rows that a query leaves out on one side are left out of the pairs.
    let view = "CREATE VIEW large AS SELECT k, v, ts FROM e WHERE v > 1";
    session.execute(&session.prepare(view).unwrap()[0]).unwrap();
    let others = session.sql(&join("a.v", "TRUE").replacen("TABLE e", "TABLE large", 1)).unwrap();
    assert_eq!(readers(&session), [("e".to_owned(), 3), of_join(4)]);
    push_events(&source, &[(1, Some(1), 0), (1, Some(2), 1), (2, Some(5), 2), (1, Some(3), 12), (1, Some(4), 13)]);
    let found = |query: Query| {
        let mut found = values(&query.collect().unwrap());
        found.sort_unstable();
        found
    };
    // One that is added now sees the next window.
    let mut sums = sums;
    assert_eq!(first(&mut sums, 1), [3]);
    let late = session.sql(&join("a.v - b.v", "a.v > b.v")).unwrap();
    push_events(&source, &[(1, Some(7), 14), (3, Some(9), 20), (3, Some(6), 29), (3, Some(1), 39)]);
    again.control().abort();
    again.wait().unwrap();
    push_events(&source, &[(3, Some(8), 1)]);
    drop(source);
    assert_eq!(found(alone), [1, 3, 3, 4, 6]);
    assert_eq!(found(sums), [7, 10, 11, 15]);
    assert_eq!(found(keys), [1, 1, 1, 1, 3]);
    assert_eq!(found(others), [2, 2, 3, 3, 3, 4, 4, 4, 5, 6, 6, 7, 7, 7, 9, 9]);
    assert_eq!(found(late), [3]);
    let late = session.sql("SELECT DISTINCT query FROM late_rows").unwrap().collect().unwrap();
    let mut late: Vec<_> = late.iter().flat_map(|batch| batch.column(0).as_string_view().iter().flatten()).collect();
    late.sort_unstable();
    assert_eq!(late, ["1: result", "join of e and e"]);
}

/// Counts of pairs by key, in windows of ten seconds.
fn counts(condition: &str) -> String {
    let join = join("a.window_start, a.window_end, a.k", condition);
    format!("SELECT COUNT(*) FROM ({join}) GROUP BY window_start, window_end, k")
}

#[test]
fn windows_behind_a_join_that_runs_once_are_reported_when_it_has_reported_its_own() {
    let session = Session::new();
    let source = events(&session);
    let mut alone = session.sql(&counts("a.v < b.v")).unwrap();
    let mut pairs = session.sql(&counts("a.v <= b.v")).unwrap();
    // The second window of twenty seconds has no pairs.
    let in_windows = |seconds: u32| {
        format!(
            "SELECT SUM(v) FROM TABLE(TUMBLE(({}), DESCRIPTOR(at), INTERVAL '{seconds}' SECOND)) GROUP BY window_start, window_end",
            join("a.window_time AS at, a.v", "a.v < b.v")
        )
    };
    let mut longer = session.sql(&in_windows(20)).unwrap();
    assert_eq!(readers(&session).last(), Some(&("join of e and e".to_owned(), 2)));
    push_events(&source, &[(1, Some(1), 0), (1, Some(2), 1), (2, Some(5), 2), (3, None, 12)]);
    let sorted = |mut counts: Vec<i64>| {
        counts.sort_unstable();
        counts
    };
    // No later pair has come.
    assert_eq!((first(&mut alone, 1), sorted(first(&mut pairs, 2))), (vec![1], vec![1, 3]));
    push_events(&source, &[(1, None, 41)]);
    assert_eq!(first(&mut longer, 1), [1]);
    // One that is added now sees windows of twenty seconds that begin from now on, also where the join sees more.
    let added = session.sql(&in_windows(20)).unwrap();
    push_events(&source, &[(1, Some(3), 51), (1, Some(4), 52), (1, Some(6), 61), (1, Some(7), 62), (1, Some(8), 81)]);
    let shown = session.execute(&session.prepare("SHOW SHARING").unwrap()[0]).unwrap();
    let Outcome::Rows(shown) = shown else { panic!("it shows rows") };
    let busy = shown.column_by_name("busy ms").unwrap().as_string_view().iter().flatten();
    assert!(busy.map(|ms| ms.parse::<f64>().unwrap()).sum::<f64>() > 0.0, "{shown:?}");
    drop(source);
    assert_eq!(values(&added.collect().unwrap()), [6]);
    assert_eq!(values(&longer.collect().unwrap()), [3, 6]);
}

#[test]
fn a_join_ends_with_the_last_query_that_reads_it() {
    let session = Session::new();
    session.set("pelton.workers", "1").unwrap();
    let source = events(&session);
    let _alone = session.sql(&join("a.v", "a.v < b.v")).unwrap();
    let [one, other] = [0, 1].map(|more| session.sql(&join(&format!("a.v + {more}"), "a.v < b.v")).unwrap());
    assert_eq!(readers(&session).len(), 2);
    drop(one);
    assert_eq!(readers(&session), [("e".to_owned(), 2), ("join of e and e".to_owned(), 1)]);
    drop(other);
    let started = Instant::now();
    while readers(&session) != [("e".to_owned(), 1)] {
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", readers(&session));
        std::thread::yield_now();
    }
    push_events(&source, &[(1, Some(1), 0), (1, Some(2), 1)]);
}

#[test]
fn a_join_that_fails_fails_for_all_who_read_it() {
    let session = Session::new();
    session.set("pelton.memory", "4 mb").unwrap();
    let source = events(&session);
    let [alone, one, other] =
        ["a.v", "b.v", "a.v + b.v"].map(|column| session.sql(&join(column, "a.v < b.v")).unwrap());
    for start in 0..40 {
        let rows: Vec<_> = (start * 5_000..(start + 1) * 5_000).map(|key| (key, Some(1), 0)).collect();
        // It takes no more rows when all have ended.
        if source.push_blocking(event_rows(&source, &rows)).is_err() {
            break;
        }
    }
    drop(source);
    for query in [alone, one, other] {
        let error = query.collect().unwrap_err().to_string();
        assert!(error.contains("its state takes"), "{error}");
    }
}
