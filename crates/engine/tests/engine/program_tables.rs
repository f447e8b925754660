//! Tables that the program itself fills and reads.

use std::sync::Arc;

use pelton::arrow::array::{AsArray, Int64Array, RecordBatch};
use pelton::arrow::datatypes::Int64Type;
use pelton::{Error, PullSink, PushSource, Session};

const ROWS: i64 = 400_000;

fn push(source: &PushSource, values: impl IntoIterator<Item = i64>) -> Result<(), Error> {
    let values = Int64Array::from_iter_values(values);
    source.push_blocking(RecordBatch::try_new(source.schema().clone(), vec![Arc::new(values)]).unwrap())
}

fn all(sink: &mut PullSink) -> Vec<i64> {
    let batches = std::iter::from_fn(|| sink.next_batch());
    batches.flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

fn session(workers: &str) -> (Session, PushSource, [PullSink; 2]) {
    let session = Session::new();
    session.set("pelton.workers", workers).unwrap();
    let numbers = session.push_table("numbers", "i BIGINT NOT NULL").unwrap();
    let sinks = ["even", "odd"].map(|name| session.pull_table(name, "i BIGINT NOT NULL").unwrap());
    (session, numbers, sinks)
}

const BOTH: &str = "EXECUTE STATEMENT SET BEGIN
    INSERT INTO even SELECT i FROM numbers WHERE i % 2 = 0;
    INSERT INTO odd SELECT i FROM numbers WHERE i % 2 = 1;
    END";

#[test]
fn each_insert_of_a_set_has_a_reader_that_may_be_slow() {
    for workers in ["1", "2"] {
        let (session, numbers, [mut even, mut odd]) = session(workers);
        session.set("pelton.block-rows", "1000").unwrap();
        let inserts = session.sql(BOTH).unwrap();
        let feeder = std::thread::spawn(move || {
            (0..ROWS).step_by(1000).try_for_each(|from| push(&numbers, from..from + 1000)).unwrap();
        });
        // The other table's rows wait, and whoever feeds both does.
        let first = some(&mut even, 8_000);
        assert!(!feeder.is_finished() && !even.has_ended() && !inserts.control().has_ended());
        let reader = std::thread::spawn(move || (all(&mut odd), odd.has_ended()));
        let even: Vec<i64> = first.into_iter().chain(all(&mut even)).collect();
        assert!(even.into_iter().eq((0..ROWS).step_by(2)), "all rows in their order");
        let (odd, has_ended) = reader.join().unwrap();
        assert!(odd.into_iter().eq((1..ROWS).step_by(2)) && has_ended);
        feeder.join().unwrap();
        inserts.wait().unwrap();
        assert_eq!(session.waiting_bytes(), 0);
    }
}

/// At least so many rows: how many batches they come in depends on how busy the workers are.
fn some(sink: &mut PullSink, rows: usize) -> Vec<i64> {
    let mut values = Vec::new();
    while values.len() < rows {
        let batch = sink.next_batch().expect("more rows come");
        values.extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values());
    }
    values
}

#[test]
fn whoever_reads_no_more_ends_the_query_and_is_named() {
    let (session, numbers, [mut even, odd]) = session("1");
    let inserts = session.sql(BOTH).unwrap();
    drop(odd);
    push(&numbers, 0..10).unwrap();
    let error = inserts.wait().unwrap_err().to_string();
    assert!(error.contains("odd") && error.contains("the program reads it no more"), "{error}");
    all(&mut even);
    assert!(even.has_ended());
    assert!(push(&numbers, 0..10).is_err());
}

#[test]
fn whoever_leaves_while_all_wait_for_him_ends_the_query() {
    let (session, numbers, [_even, odd]) = session("1");
    let insert = session.sql("INSERT INTO odd SELECT i FROM numbers WHERE i % 2 = 1").unwrap();
    let feeder = std::thread::spawn(move || (0..ROWS).try_for_each(|i| push(&numbers, [i])));
    wait_for(|| insert.progress().load.held_back_by.is_some());
    drop(odd);
    assert!(insert.wait().is_err());
    assert!(feeder.join().unwrap().is_err());
}

#[test]
fn what_nobody_reads_any_more_takes_no_room() {
    let (session, numbers, [mut even, odd]) = session("1");
    session.set("pelton.memory", "256 kb").unwrap();
    let inserts = session.sql(BOTH).unwrap();
    // All is odd, and fills the room before its sink is full.
    let values = || (0..1000).map(|i| 2 * i + 1);
    let mut pushed = 0;
    while push_or_wait(&numbers, values()) {
        pushed += 1;
    }
    assert!(pushed < 64, "{pushed} batches");
    drop(odd);
    // It ends at the next row, unless one has waited already.
    let _ = push(&numbers, 0..2);
    assert!(inserts.wait().unwrap_err().to_string().contains("odd"));
    all(&mut even);
    wait_for(|| session.waiting_bytes() == 0);
}

/// Whether there is room for these rows, if need be after a while.
fn push_or_wait(source: &PushSource, values: impl Iterator<Item = i64>) -> bool {
    let values: Int64Array = values.collect();
    let batch = RecordBatch::try_new(source.schema().clone(), vec![Arc::new(values)]).unwrap();
    let began = std::time::Instant::now();
    while began.elapsed().as_millis() < 200 {
        if source.try_push(batch.clone()).unwrap() {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

/// Waits until that holds, but not for ever.
fn wait_for(holds: impl Fn() -> bool) {
    let began = std::time::Instant::now();
    while !holds() {
        assert!(began.elapsed().as_secs() < 60, "it does not come to that");
        std::thread::yield_now();
    }
}

#[test]
fn rows_that_were_written_and_not_read_are_a_loss() {
    let (session, numbers, [_even, odd]) = session("1");
    let insert = session.sql("INSERT INTO odd SELECT i FROM numbers WHERE i % 2 = 1").unwrap();
    push(&numbers, 0..10).unwrap();
    wait_for(|| insert.progress().sinks[0].rows == 5);
    drop(odd);
    drop(numbers);
    let error = insert.wait().unwrap_err().to_string();
    assert!(error.contains("the program reads it no more"), "{error}");
}

#[test]
fn a_query_that_does_not_start_takes_no_table() {
    let (session, numbers, [_even, mut odd]) = session("1");
    let gone = "CREATE TABLE gone (i BIGINT) WITH ('connector' = 'filesystem', 'path' = '/there/is/no/such/file.csv', 'format' = 'csv')";
    session.execute(&session.prepare(gone).unwrap()[0]).unwrap();
    let both = "SELECT i FROM numbers UNION ALL SELECT i FROM gone";
    assert!(session.sql(&format!("INSERT INTO odd {both}")).is_err());
    assert!(!odd.has_ended());
    let insert = session.sql("INSERT INTO odd SELECT i FROM numbers").unwrap();
    push(&numbers, [7]).unwrap();
    drop(numbers);
    assert_eq!(all(&mut odd), [7]);
    insert.wait().unwrap();
}

#[test]
fn whoever_fills_a_table_that_is_dropped_is_told() {
    let session = Session::new();
    let numbers = session.push_table("numbers", "i BIGINT NOT NULL").unwrap();
    let feeder = std::thread::spawn(move || (0..100).try_for_each(|i| push(&numbers, [i])));
    wait_for(|| session.waiting_bytes() > 0);
    session.execute(&session.prepare("DROP TABLE numbers").unwrap()[0]).unwrap();
    assert!(feeder.join().unwrap().is_err());
    assert_eq!(session.waiting_bytes(), 0);
}

#[test]
fn each_goes_one_way_and_to_one_query() {
    let (session, numbers, [mut even, _odd]) = session("1");
    let message = |sql: &str| match session.sql(sql) {
        Ok(_) => panic!("'{sql}' is accepted"),
        Err(error) => error.to_string(),
    };
    let insert = "INSERT INTO even SELECT i FROM (VALUES (CAST(2 AS BIGINT))) AS t (i)";
    let query = session.sql(insert).unwrap();
    assert_eq!(message(insert), "table 'even' has the rows of a query already: the program reads those of one");
    assert_eq!(all(&mut even), [2]);
    query.wait().unwrap();
    for explained in ["", "EXPLAIN "] {
        let read = format!("{explained}SELECT i FROM even");
        assert_eq!(message(&read), "table 'even' is read by the program itself, and by no query");
        let fill = format!("{explained}INSERT INTO numbers SELECT i FROM (VALUES (CAST(2 AS BIGINT))) AS t (i)");
        assert_eq!(message(&fill), "table 'numbers' is filled by the program itself, and no query inserts into it");
    }
    drop(numbers);
}

#[test]
fn a_table_whose_use_has_ended_makes_place_for_another() {
    let (session, numbers, [mut even, odd]) = session("1");
    for name in ["numbers", "even", "odd"] {
        assert!(session.push_table(name, "i BIGINT NOT NULL").is_err(), "{name} is used");
        assert!(session.pull_table(name, "i BIGINT NOT NULL").is_err(), "{name} is used");
    }
    let inserts = session.sql("INSERT INTO even SELECT i FROM numbers").unwrap();
    push(&numbers, 0..3).unwrap();
    drop(numbers);
    inserts.wait().unwrap();
    // What was written can still be read, and a query of the new table has the rows of that.
    let numbers = session.push_table("numbers", "j BIGINT NOT NULL").unwrap();
    let query = session.sql("SELECT j FROM numbers").unwrap();
    push(&numbers, [7]).unwrap();
    drop(numbers);
    assert_eq!(query.collect().unwrap()[0].column(0).as_primitive::<Int64Type>().values(), &[7]);
    assert_eq!(all(&mut even), [0, 1, 2]);
    // One has been written, and the other is read no more.
    drop(odd);
    for name in ["even", "odd"] {
        session.pull_table(name, "i BIGINT NOT NULL").unwrap();
    }
}
