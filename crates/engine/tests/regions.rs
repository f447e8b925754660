//! In which order a query reads several inputs: a worker stays for an epoch with one whose rows never meet those of others, and inputs whose rows do
//! meet advance together.

use std::sync::Arc;
use std::time::Duration;

use pelton::arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMillisecondArray};
use pelton::arrow::compute::cast;
use pelton::arrow::datatypes::DataType;
use pelton::clock::{Clock, Hands};
use pelton::pool::Pool;
use pelton::{PushSource, Session};

/// So many fill a block and are all that one read takes.
const ROWS: usize = 16 * 1024;

/// What it takes to compute a block. An epoch is five times as long.
const BLOCK: Duration = Duration::from_micros(200);

/// Reads that are looked at.
const READS: usize = 60;

/// A block of rows of that second.
fn rows(source: &PushSource, second: i64) -> RecordBatch {
    let values: ArrayRef = Arc::new(Int64Array::from(vec![second; ROWS]));
    let times = TimestampMillisecondArray::from(vec![second * 1_000; ROWS]);
    let times = cast(&times, source.schema().field(1).data_type()).unwrap();
    RecordBatch::try_new(source.schema().clone(), vec![values, times]).unwrap()
}

/// Which of the tables `a` and `b` one worker reads one after the other for these statements, where both always have more.
fn reads(sql: &str) -> Vec<usize> {
    let hands = Arc::new(Hands::default());
    let (pool, mut workers) = Pool::manual(1, Clock::Manual(hands.clone()));
    let session = Session::with_pool(pool);
    let slowly = {
        let hands = hands.clone();
        move |values: &[ArrayRef]| {
            hands.advance(BLOCK);
            Ok(values[0].clone())
        }
    };
    session.register_function("slowly", vec![DataType::Int64], DataType::Int64, slowly);
    let columns = "v BIGINT NOT NULL, ts TIMESTAMP(3) NOT NULL, WATERMARK FOR ts AS ts";
    let sources = ["a", "b"].map(|table| session.push_table(table, columns).unwrap());
    let query = session.sql(sql).unwrap();
    let (mut pushed, mut delivered, mut reads) = ([0; 2], [0; 2], Vec::new());
    while reads.len() < READS {
        for (source, pushed) in sources.iter().zip(&mut pushed) {
            while source.try_push(rows(source, *pushed)).unwrap() {
                *pushed += 1;
            }
        }
        assert!(workers.step(0), "there is always more");
        for (index, source) in query.progress().sources.iter().enumerate() {
            let before = std::mem::replace(&mut delivered[index], source.rows);
            reads.extend((before < source.rows).then_some(index));
        }
    }
    query.control().abort();
    while workers.step(0) {}
    reads
}

/// How many reads one after the other are of the same table.
fn stays(reads: &[usize]) -> Vec<usize> {
    reads.chunk_by(|one, other| one == other).map(<[usize]>::len).collect()
}

#[test]
fn a_worker_stays_with_an_input_for_an_epoch() {
    let reads = reads(
        "CREATE TABLE nowhere (v BIGINT) WITH ('connector' = 'blackhole');
         CREATE TABLE elsewhere (v BIGINT) WITH ('connector' = 'blackhole');
         EXECUTE STATEMENT SET BEGIN
         INSERT INTO nowhere SELECT v FROM a WHERE slowly(v) < 0;
         INSERT INTO elsewhere SELECT v FROM b WHERE slowly(v) < 0;
         END",
    );
    let stays = stays(&reads);
    // As many blocks as are computed in an epoch, and in one more where both have come as far then. The first and the last may be cut off.
    let whole = stays.get(1..stays.len() - 1).unwrap_or_default();
    assert!(whole.len() >= 4 && whole.iter().all(|reads| (5..=11).contains(reads)), "{stays:?}");
}

#[test]
fn inputs_that_meet_in_a_window_advance_together() {
    let reads = reads(
        "CREATE VIEW both_tables AS SELECT slowly(v) AS v, ts FROM a UNION ALL SELECT slowly(v) AS v, ts FROM b;
         SELECT window_end, SUM(v) AS s FROM TUMBLE(TABLE both_tables, DESCRIPTOR(ts), INTERVAL '1' HOUR)
         GROUP BY window_start, window_end",
    );
    assert!(stays(&reads).iter().all(|reads| *reads <= 2), "{reads:?}");
}
