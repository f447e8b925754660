//! Tables whose rows the program has registered.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow::datatypes::Int64Type;
use pelton::{Error, EventTime, Session};

fn numbers(values: impl IntoIterator<Item = i64>) -> RecordBatch {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
    RecordBatch::try_from_iter([("i", values)]).unwrap()
}

fn register(session: &Session, name: &str, batches: Vec<RecordBatch>) {
    session.register_rows(name, batches[0].schema(), batches, None).unwrap();
}

fn sums(session: &Session, sql: &str) -> Vec<i64> {
    let batches = session.sql(sql).unwrap().collect().unwrap();
    batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

#[test]
fn rows_of_all_batches_are_read_in_order_and_again() {
    let session = Session::new();
    register(&session, "t", vec![numbers(0..1), numbers(0..0), numbers(1..100_000), numbers(100_000..100_003)]);
    for _ in 0..2 {
        assert_eq!(sums(&session, "SELECT i FROM t WHERE MOD(i, 50000) = 2"), [2, 50_002, 100_002]);
    }
    assert_eq!(sums(&session, "SELECT COUNT(*) FROM t AS a JOIN t AS b ON a.i = b.i"), [100_003]);
    assert!(session.engine().session().table("t").is_err(), "it is the session's own");
}

#[test]
fn another_table_may_take_the_name_while_rows_are_read() {
    let session = Session::new();
    register(&session, "t", vec![numbers(0..1_000_000)]);
    let query = session.sql("SELECT i FROM t").unwrap();
    register(&session, "t", vec![numbers(7..8)]);
    assert_eq!(sums(&session, "SELECT i FROM t"), [7]);
    session.unregister_rows("t");
    assert!(session.sql("SELECT i FROM t").is_err());
    assert_eq!(query.collect().unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), 1_000_000);
}

#[test]
fn windows_are_cut_by_the_event_time() {
    let times: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![1_000, 12_000, 2_000, 25_000]));
    let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 4, 8]));
    let rows = RecordBatch::try_from_iter([("ts", times), ("v", values)]).unwrap();
    let session = Session::new();
    let sums_with = |event_time: Option<EventTime>| {
        session.register_rows("t", rows.schema(), vec![rows.clone()], event_time).unwrap();
        let sql = "SELECT SUM(v) FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND) GROUP BY window_start, window_end";
        sums(&session, sql)
    };
    let delayed = |seconds: u64| Some(EventTime { column: "ts".to_owned(), delay: Duration::from_secs(seconds) });
    assert_eq!(sums_with(delayed(0)), [1, 2, 8], "a row is late");
    assert_eq!(sums_with(delayed(10)), [5, 2, 8]);
    // The only time of a table is its event time, five seconds behind, as in a file.
    assert_eq!(sums_with(None), [5, 2, 8]);
}

#[test]
fn what_is_no_table_is_refused() {
    let session = Session::new();
    let refused = |rows: RecordBatch, column: &str| {
        let event_time = EventTime { column: column.to_owned(), delay: Duration::ZERO };
        session.register_rows("t", rows.schema(), vec![rows], Some(event_time)).unwrap_err().to_string()
    };
    assert!(refused(numbers(0..1), "j").contains("the watermark names j, which is no column"));
    assert!(refused(numbers(0..1), "i").contains("the event-time column i is BIGINT"));
    register(&session, "t", vec![numbers(0..1)]);
    let Err(Error::Usage(message)) = session.sql("INSERT INTO t SELECT i FROM t") else {
        panic!("nothing is inserted")
    };
    assert_eq!(message, "table 't' has registered rows, and no query inserts into it");
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let other = RecordBatch::try_from_iter([("i", texts)]).unwrap();
    let error = session.register_rows("t", numbers(0..1).schema(), vec![other], None).unwrap_err();
    assert_eq!(error.to_string(), "the rows do not have the schema: column i is STRING, not BIGINT");
}
