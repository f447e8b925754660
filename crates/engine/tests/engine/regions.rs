//! In which order a query reads several inputs: a worker stays for an epoch with one whose rows never meet those of others, and inputs whose rows do
//! meet advance together.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pelton::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, TimestampMillisecondArray};
use pelton::arrow::compute::cast;
use pelton::arrow::datatypes::{DataType, Int64Type};
use pelton::{PushSource, Session};
use pelton_runtime::clock::{Clock, Hands};
use pelton_runtime::pool::Pool;

/// So many fill a block and are all that one read takes.
const ROWS: usize = 16 * 1024;

/// What it takes to compute a block.
const BLOCK: Duration = Duration::from_micros(200);

/// An epoch: five times as long.
const EPOCH: &str = "1 ms";

/// Reads that are looked at.
const READS: usize = 60;

/// A block of rows of that second, with the number of their table.
fn rows(source: &PushSource, table: usize, second: i64) -> RecordBatch {
    let values: ArrayRef = Arc::new(Int64Array::from(vec![table as i64; ROWS]));
    let times = TimestampMillisecondArray::from(vec![second * 1_000; ROWS]);
    let times = cast(&times, source.schema().field(1).data_type()).unwrap();
    RecordBatch::try_new(source.schema().clone(), vec![values, times]).unwrap()
}

/// What is done one after the other for a query of the tables `a` and `b`, where both always have more.
#[derive(Default)]
struct Done {
    /// Which table is read.
    reads: Vec<usize>,
    /// Which worker computes a block of which table.
    blocks: Vec<(usize, usize)>,
}

/// What so many workers do in turn for these statements.
fn done(count: usize, sql: &str) -> Done {
    let hands = Arc::new(Hands::default());
    let (pool, mut workers) = Pool::manual(count, Clock::Manual(hands.clone()));
    let session = Session::with_pool(pool);
    session.set("pelton.epoch", EPOCH).unwrap();
    let computed = Arc::<Mutex<Vec<usize>>>::default();
    let slowly = {
        let (hands, computed) = (hands.clone(), computed.clone());
        move |values: &[ArrayRef]| {
            hands.advance(BLOCK);
            computed.lock().unwrap().push(values[0].as_primitive::<Int64Type>().value(0) as usize);
            Ok(values[0].clone())
        }
    };
    session.register_function("slowly", vec![DataType::Int64], DataType::Int64, slowly);
    let columns = "v BIGINT NOT NULL, ts TIMESTAMP(3) NOT NULL, WATERMARK FOR ts AS ts";
    let sources = ["a", "b"].map(|table| session.push_table(table, columns).unwrap());
    let query = session.sql(sql).unwrap();
    let (mut pushed, mut delivered, mut done) = ([0; 2], [0; 2], Done::default());
    for worker in (0..count).cycle() {
        if done.reads.len() >= READS {
            break;
        }
        for (table, source) in sources.iter().enumerate() {
            while source.try_push(rows(source, table, pushed[table])).unwrap() {
                pushed[table] += 1;
            }
        }
        workers.step(worker);
        done.blocks.extend(computed.lock().unwrap().drain(..).map(|table| (worker, table)));
        for (index, source) in query.progress().sources.iter().enumerate() {
            let before = std::mem::replace(&mut delivered[index], source.rows);
            done.reads.extend((before < source.rows).then_some(index));
        }
    }
    query.control().abort();
    while (0..count).any(|worker| workers.step(worker)) {}
    done
}

/// Inserts whose rows never meet.
const INSERTS: &str = "
    CREATE TABLE nowhere (v BIGINT) WITH ('connector' = 'blackhole');
    CREATE TABLE elsewhere (v BIGINT) WITH ('connector' = 'blackhole');
    EXECUTE STATEMENT SET BEGIN
    INSERT INTO nowhere SELECT v FROM a WHERE slowly(v) < 0;
    INSERT INTO elsewhere SELECT v FROM b WHERE slowly(v) < 0;
    END";

/// How many reads one after the other are of the same table.
fn stays(reads: &[usize]) -> Vec<usize> {
    reads.chunk_by(|one, other| one == other).map(<[usize]>::len).collect()
}

#[test]
fn a_worker_stays_with_an_input_for_an_epoch() {
    let Done { reads, .. } = done(1, INSERTS);
    let stays = stays(&reads);
    // As many blocks as are computed in an epoch, and in one more where both have come as far then. The first and the last may be cut off.
    let whole = stays.get(1..stays.len() - 1).unwrap_or_default();
    assert!(whole.len() >= 4 && whole.iter().all(|reads| (5..=11).contains(reads)), "{stays:?}");
}

#[test]
fn inputs_that_meet_in_a_window_advance_together() {
    let Done { reads, .. } = done(
        1,
        "CREATE VIEW both_tables AS SELECT slowly(v) AS v, ts FROM a UNION ALL SELECT slowly(v) AS v, ts FROM b;
         SELECT window_end, SUM(v) AS s FROM TUMBLE(TABLE both_tables, DESCRIPTOR(ts), INTERVAL '1' HOUR)
         GROUP BY window_start, window_end",
    );
    assert!(stays(&reads).iter().all(|reads| *reads <= 2), "{reads:?}");
}

#[test]
fn what_another_worker_is_on_is_left_to_it() {
    let Done { blocks, .. } = done(2, INSERTS);
    let tables = |worker: usize| blocks.iter().filter(move |(by, _)| *by == worker).map(|(_, table)| *table);
    let [first, second] = [0, 1].map(|worker| tables(worker).collect::<BTreeSet<_>>());
    assert!(first.len() == 1 && second.len() == 1 && first != second, "{blocks:?}");
}
