//! Limits of what the state of queries takes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pelton::arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray,
};
use pelton::arrow::compute::cast;
use pelton::arrow::datatypes::Int64Type;
use pelton::{Error, Query, Session};

use crate::shown::shown;

/// A session of so many workers with a table of the numbers from 1 to `rows`, a thousand a second.
fn session(workers: &str, rows: i64) -> Session {
    let session = Session::new();
    session.set("pelton.workers", workers).unwrap();
    add_table(&session, "n", rows);
    session
}

fn add_table(session: &Session, name: &str, rows: i64) {
    let sql = format!(
        "CREATE TABLE {name} (i BIGINT NOT NULL, at TIMESTAMP(3) NOT NULL, WATERMARK FOR at AS at) WITH (
             'connector' = 'datagen', 'number-of-rows' = '{rows}', 'pace' = 'flat-out', 'base-time' = '2020-01-01 00:00:00', 'rows-per-second' = '1000',
             'fields.i.kind' = 'sequence', 'fields.i.start' = '1', 'fields.i.end' = '{rows}')"
    );
    for statement in session.prepare(&sql).unwrap() {
        session.execute(&statement).unwrap();
    }
}

/// How many groups there are of numbers divided by `divisor`: all are in one window.
fn groups(session: &Session, divisor: i64) -> Query {
    let window = "TUMBLE(TABLE n, DESCRIPTOR(at), INTERVAL '1' DAY)";
    let query = format!(
        "SELECT COUNT(*) AS n FROM (SELECT i / {divisor} AS g, COUNT(*) AS n FROM {window} GROUP BY window_start, window_end, i / {divisor})"
    );
    session.sql(&query).unwrap()
}

fn count(batches: &[RecordBatch]) -> i64 {
    batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).sum()
}

fn failure(query: &mut Query) -> String {
    loop {
        match query.next_batch() {
            Ok(Some(_)) => {}
            Ok(None) => return "none".to_owned(),
            Err(Error::Run(error)) => return error.to_string(),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_query_that_takes_too_much_fails_alone_and_gives_back_what_it_had() {
    for workers in ["1", "2"] {
        let session = session(workers, 600_000);
        session.set("pelton.memory", "4 mb").unwrap();
        let modest = groups(&session, 60_000);
        let mut greedy = groups(&session, 1);
        let error = failure(&mut greedy);
        for part in
            ["its state takes ", "'pelton.memory' = '4 MiB'", "SET a larger size", "(in pipeline 0: n → window 0)"]
        {
            assert!(error.contains(part), "{part} is not in {error}");
        }
        assert_eq!(count(&modest.collect().unwrap()), 11);
        // There would be no room for this one beside what the failed one had, which is still there to be asked.
        assert_eq!(count(&groups(&session, 20).collect().unwrap()), 30_001);
        drop(greedy);
    }
}

/// A window of a join that does not fit ends its query alone, and says which side it is.
#[test]
fn a_joined_window_that_takes_too_much_ends_its_query_alone() {
    for workers in ["1", "2"] {
        let session = session(workers, 600_000);
        add_table(&session, "few", 10);
        session.set("pelton.memory", "4 mb").unwrap();
        let modest = groups(&session, 60_000);
        let joined = "SELECT n.i FROM TUMBLE(TABLE n, DESCRIPTOR(at), INTERVAL '1' DAY) AS n
             JOIN TUMBLE(TABLE few, DESCRIPTOR(at), INTERVAL '1' DAY) AS few
             ON n.i = few.i AND n.window_start = few.window_start AND n.window_end = few.window_end";
        let error = failure(&mut session.sql(joined).unwrap());
        for part in
            ["its state takes ", "the left side has ", "MiB of rows in the window that ends at 2020-01-02 00:00:00"]
        {
            assert!(error.contains(part), "{part} is not in {error}");
        }
        assert_eq!(count(&modest.collect().unwrap()), 11);
    }
}

#[test]
fn an_operator_has_a_limit_of_its_own() {
    let session = session("1", 600_000);
    session.set("pelton.memory.operator", "1 mb").unwrap();
    let sums = "SELECT SUM(i) OVER (ORDER BY at ROWS BETWEEN 500000 PRECEDING AND CURRENT ROW) AS total FROM n";
    let error = failure(&mut session.sql(sums).unwrap());
    assert!(error.contains("more than 'pelton.memory.operator' = '1 MiB' allows"), "{error}");
    assert!(error.contains("over 0") && error.contains("fewer rows in frames"), "{error}");
    session.set("pelton.memory.operator", "1 gb").unwrap();
    let rows: usize = session.sql(sums).unwrap().collect().unwrap().iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, 600_000);
}

#[test]
fn long_strings_on_the_way_are_made_of_fewer_rows_at_a_time() {
    let session = session("1", 20_000);
    session.set("pelton.memory", "16 mb").unwrap();
    let rows = |query: &str| -> usize {
        session.sql(query).unwrap().collect().unwrap().iter().map(RecordBatch::num_rows).sum()
    };
    // A block of 16,384 rows has some 80 MB of them.
    assert_eq!(rows("SELECT i FROM n WHERE CHAR_LENGTH(REPEAT(CAST(i AS STRING), 1000)) = 5000"), 10_001);
    let error = failure(&mut session.sql("SELECT REPEAT(CAST(i AS STRING), 1000) AS s FROM n").unwrap());
    for part in ["REPEAT makes a result of ", " MiB, more than the limit of 16 MiB ('pelton.memory' = '16 MiB')"] {
        assert!(error.contains(part), "{part} is not in {error}");
    }
    let error = failure(&mut session.sql("SELECT LISTAGG(CAST(i AS STRING)) OVER (ORDER BY at) AS s FROM n").unwrap());
    assert!(error.contains("LISTAGG OVER makes more of the rows of a block than there is memory for"), "{error}");
}

#[test]
fn rows_that_are_put_in_order_are_charged() {
    let session = session("1", 600_000);
    session.set("pelton.memory", "4 mb").unwrap();
    let sorted = "SELECT i, at FROM n ORDER BY i DESC";
    let error = failure(&mut session.sql(sorted).unwrap());
    for part in ["result: ORDER BY: its state takes ", "'pelton.memory' = '4 MiB'", "add a LIMIT"] {
        assert!(error.contains(part), "{part} is not in {error}");
    }
    // Of these few are kept, and what the failed query had is free again.
    let first = session.sql("SELECT i FROM n ORDER BY i DESC LIMIT 3").unwrap().collect().unwrap();
    assert_eq!(count(&first), 600_000 + 599_999 + 599_998);
    // There would be room for the rows, and none to put them in order.
    session.set("pelton.memory", "8 mb").unwrap();
    let error = failure(&mut session.sql("SELECT i FROM n ORDER BY i DESC").unwrap());
    assert!(error.contains("'pelton.memory' = '8 MiB'"), "{error}");
    session.set("pelton.memory", "64 mb").unwrap();
    let sorted = session.sql("SELECT i FROM n ORDER BY i DESC LIMIT 500000 OFFSET 7").unwrap().collect().unwrap();
    assert!(sorted.len() > 10, "they leave block by block");
    let numbers = sorted.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
    assert!(numbers.eq((99_994..=599_993).rev()));
}

#[test]
fn the_table_of_a_join_is_charged() {
    let session = session("1", 600_000);
    let statement = "CREATE TABLE m (k BIGINT NOT NULL, v BIGINT) WITH (
         'connector' = 'datagen', 'number-of-rows' = '2000000', 'pace' = 'flat-out',
         'fields.k.kind' = 'sequence', 'fields.k.start' = '1', 'fields.k.end' = '2000000')";
    session.execute(&session.prepare(statement).unwrap().remove(0)).unwrap();
    let joined = "SELECT COUNT(*) AS n FROM n JOIN m ON i = k";
    session.set("pelton.memory", "2 mb").unwrap();
    let Err(Error::Run(error)) = session.sql(joined) else { panic!("32 MB of rows do not fit 2 MiB") };
    let error = error.to_string();
    for part in ["its state takes ", "'pelton.memory' = '2 MiB'", "join with fewer rows or columns (in join with m)"] {
        assert!(error.contains(part), "{part} is not in {error}");
    }
    let size = error.split("its state takes ").nth(1).and_then(|rest| rest.split(" MiB").next()).unwrap();
    assert!(size.parse::<f64>().unwrap() < 8.0, "it fails before all of it has been read: {error}");
    session.set("pelton.memory", "100 mb").unwrap();
    assert_eq!(count(&session.sql(joined).unwrap().collect().unwrap()), 600_000);
}

#[test]
fn what_finds_the_rows_of_a_joined_table_is_charged_before_it_is_made() {
    let session = session("2", 200_000);
    // Keys that lie far apart are found by hash: beside 16 bytes a row 12 are needed to divide rows, which are given back as partitions get their slots, and 32 for two
    // slots.
    let joined = "SELECT v FROM n JOIN (SELECT i * 1000003 AS k, i AS v FROM n) x ON i = k";
    session.set("pelton.memory", "10 mb").unwrap();
    let Err(Error::Run(error)) = session.sql(joined) else { panic!("12 MB do not fit 7.5 MiB") };
    let error = error.to_string();
    for part in ["its state takes 9.4 MiB", "join with fewer rows or columns (in join with n)"] {
        assert!(error.contains(part), "{part} is not in {error}");
    }
    session.set("pelton.memory", "100 mb").unwrap();
    assert_eq!(session.sql(joined).unwrap().collect().unwrap(), []);
}

#[test]
fn few_rows_to_join_with_do_not_keep_the_strings_of_all() {
    let session = session("1", 1_000);
    let words = "CREATE TABLE w (s STRING NOT NULL, k BIGINT NOT NULL) WITH ('connector' = 'datagen', 'number-of-rows' = '100000', 'pace' = 'flat-out',
        'fields.s.length' = '1000', 'fields.k.kind' = 'sequence', 'fields.k.start' = '1', 'fields.k.end' = '100000')";
    for statement in session.prepare(words).unwrap() {
        session.execute(&statement).unwrap();
    }
    // A hundred of them are 100 kB, all are 100 MB.
    session.set("pelton.memory", "16 mb").unwrap();
    let joined =
        "SELECT CAST(CHAR_LENGTH(s) AS BIGINT) AS n FROM n JOIN (SELECT k, s FROM w WHERE MOD(k, 1000) = 0) x ON i = k";
    assert_eq!(count(&session.sql(joined).unwrap().collect().unwrap()), 1_000);
}

#[test]
fn what_a_query_has_read_to_join_with_is_shown_as_its_own() {
    let session = session("1", 600_000);
    let [one, other] = ["a", "b"].map(|name| session.push_table(name, "v BIGINT NOT NULL").unwrap());
    let joining = session.sql("SELECT v FROM a JOIN n ON v = i").unwrap();
    let plain = session.sql("SELECT v FROM b").unwrap();
    let bytes = |query: &Query| query.progress().load.state_bytes;
    assert!(bytes(&joining) > 4 << 20, "{} bytes", bytes(&joining));
    assert_eq!(
        (bytes(&plain), &shown(&session, "SHOW QUERIES VERBOSE", ["state bytes"])[0]),
        (0, &[bytes(&joining).to_string()])
    );
    drop((one, other));
    joining.collect().unwrap();
    plain.collect().unwrap();
    // A worker that told of the end may still be about to let go of the query.
    let began = Instant::now();
    while session.state_bytes() > 0 {
        assert!(began.elapsed().as_secs() < 10, "{} bytes are left", session.state_bytes());
        std::thread::yield_now();
    }
}

/// What the only query is held back by, and how many bytes wait in it.
fn held_back(session: &Session) -> (String, usize) {
    let [by, bytes] = shown(session, "SHOW QUERIES VERBOSE", ["held back by", "bytes waiting"]).remove(0);
    (by, bytes.parse().unwrap())
}

#[test]
fn inputs_are_not_read_while_too_much_waits() {
    // With a limit it is that which holds the query back that nobody reads from, and without one the reader.
    for (limit, by) in [("100 kb", "'pelton.memory'"), ("1 gb", "result")] {
        let session = session("1", 1_200_000);
        session.set("pelton.memory", limit).unwrap();
        session.set("pelton.block-rows", "8192").unwrap();
        let query = session.sql("SELECT i FROM n WHERE i > 0").unwrap();
        // What is being read takes its part of the limit before it waits for anybody.
        while !matches!(held_back(&session), (held_back_by, 1..) if held_back_by == by) {
            std::thread::yield_now();
        }
        // Another one gets on, a chunk at a time.
        let other = session.sql("SELECT i FROM n WHERE i > 1199990").unwrap().collect().unwrap();
        assert_eq!(other.iter().map(RecordBatch::num_rows).sum::<usize>(), 10);
        let rows: usize = query.collect().unwrap().iter().map(RecordBatch::num_rows).sum();
        assert_eq!(rows, 1_200_000);
    }
}

#[test]
fn one_insert_of_a_set_whose_rows_nobody_reads_leaves_room_for_the_others() {
    for workers in ["1", "2"] {
        let session = session(workers, 1_200_000);
        session.set("pelton.memory", "1 mb").unwrap();
        session.set("pelton.block-rows", "1000").unwrap();
        let [mut unread, mut read] = ["unread", "read"].map(|name| session.pull_table(name, "i BIGINT").unwrap());
        add_table(&session, "m", 1_200_000);
        let inserts = "EXECUTE STATEMENT SET BEGIN
            INSERT INTO unread SELECT i FROM n WHERE i > 0;
            INSERT INTO read SELECT COUNT(*) AS i FROM TUMBLE(TABLE m, DESCRIPTOR(at), INTERVAL '1' SECOND) GROUP BY window_start, window_end;
            END";
        let query = session.sql(inserts).unwrap();
        let mut windows = 0;
        while let Some(batch) = read.next_batch() {
            windows += batch.num_rows();
        }
        assert!(windows >= 1_200 && !unread.has_ended(), "{windows} windows of a second each");
        let rows = std::iter::from_fn(|| unread.next_batch()).map(|batch| batch.num_rows()).sum::<usize>();
        assert_eq!(rows, 1_200_000);
        query.wait().unwrap();
    }
}

#[test]
fn what_rows_look_back_at_is_charged_as_it_grows() {
    const LIMIT: usize = 48 << 20;
    let session = session("1", 2_000_000);
    session.set("pelton.memory", "64 mb").unwrap();
    session.set("pelton.block-rows", "1000").unwrap();
    let over = "SELECT COUNT(m) AS c FROM (SELECT MAX(i) OVER (PARTITION BY i ORDER BY at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS m FROM n)";
    let mut query = session.sql(over).unwrap();
    let mut most = 0;
    while query.try_next_batch().is_ok_and(|batch| batch.is_none()) && !query.control().has_ended() {
        most = most.max(session.state_bytes());
        std::thread::yield_now();
    }
    let failure = failure(&mut query);
    assert!(failure.contains("more than the 48 MiB for it of 'pelton.memory' = '64 MiB'"), "{failure}");
    let taken: f64 = failure.split("takes ").nth(1).and_then(|text| text.split(' ').next()?.parse().ok()).unwrap();
    assert!(most <= LIMIT && (taken as usize) << 20 < LIMIT + (12 << 20), "{failure}");
}

/// Arrays of strings that were read in many blocks, or are parts of one, take what they refer to: not all strings, and all blocks, for each of them.
#[test]
fn arrays_of_strings_do_not_multiply_in_blocks_of_a_row() {
    let session = Session::new();
    for (key, value) in [("pelton.workers", "1"), ("pelton.block-rows", "1"), ("pelton.memory", "16 mb")] {
        session.set(key, value).unwrap();
    }
    let columns = "at TIMESTAMP(3) NOT NULL, k BIGINT, s STRING, WATERMARK FOR at AS at - INTERVAL '100' SECOND";
    let rows = session.push_table("t", columns).unwrap();
    let sql = "SELECT ARRAY_AGG(s) FILTER (WHERE k = 0) OVER (PARTITION BY k ORDER BY at) AS a, COUNT(*) OVER (PARTITION BY k + 1 ORDER BY at) AS n FROM t";
    let query = session.sql(sql).unwrap();
    let feeder = std::thread::spawn(move || {
        for row in 0..400 {
            let at: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![row / 2 * 10]));
            let at = cast(&at, rows.schema().field(0).data_type()).unwrap();
            let k: ArrayRef = Arc::new(Int64Array::from(vec![row % 2]));
            let s = if row % 5 == 0 { "a string that no view holds itself" } else { "short" };
            let s: ArrayRef = Arc::new(StringViewArray::from(vec![s]));
            let columns = vec![at, k, s];
            rows.push_blocking(RecordBatch::try_new(rows.schema().clone(), columns).unwrap()).unwrap();
        }
    });
    let batches = query.collect().unwrap();
    feeder.join().unwrap();
    let values = batches.iter().map(|batch| batch.column(0).as_list::<i32>());
    let lengths: usize = values.flat_map(|lists| (0..lists.len()).map(|row| lists.value_length(row) as usize)).sum();
    assert_eq!(lengths, (1..=200).sum::<usize>());
}

#[test]
fn what_waits_in_front_of_an_operator_has_its_limit_too() {
    const BLOCK_BYTES: usize = 8192 * 8;
    // Nobody reads, until what waits fulfils the condition on its bytes and on the time for which they have not changed.
    let wait_until = |limit: &str, has_come: &dyn Fn(usize, Duration) -> bool| {
        let session = session("1", 1_200_000);
        session.set("pelton.memory.operator", limit).unwrap();
        session.set("pelton.block-rows", "8192").unwrap();
        // The default policy makes blocks smaller where rows cost more, as they do on a busy machine.
        session.set("pelton.policy", "fcfs").unwrap();
        let query = session.sql("SELECT i FROM n WHERE i > 0").unwrap();
        let began = Instant::now();
        let (mut waiting, mut since) = (held_back(&session), began);
        while waiting.0 != "result" || !has_come(waiting.1, since.elapsed()) {
            assert!(began.elapsed().as_secs() < 60, "with a limit of {limit}, {waiting:?} waits");
            let now = held_back(&session);
            if now != waiting {
                (waiting, since) = (now, Instant::now());
            }
            std::thread::yield_now();
        }
        let rows: usize = query.collect().unwrap().iter().map(RecordBatch::num_rows).sum();
        assert_eq!(rows, 1_200_000, "nothing is lost, and all get on");
        waiting.1
    };
    let limited = wait_until("100 kb", &|_, unchanged| unchanged.as_millis() >= 100);
    wait_until("1 gb", &|bytes, _| bytes > limited + 4 * BLOCK_BYTES);
}

#[test]
fn a_limit_holds_for_queries_that_run() {
    let session = session("1", 1_200_000);
    session.set("pelton.memory", "400 kb").unwrap();
    session.set("pelton.block-rows", "8192").unwrap();
    let query = session.sql("SELECT i FROM n WHERE i > 0").unwrap();
    let wait_until_held_back_by = |expected: &str| {
        let began = Instant::now();
        while held_back(&session).0 != expected {
            assert!(began.elapsed().as_secs() < 60, "it is held back by '{}'", held_back(&session).0);
            std::thread::yield_now();
        }
    };
    wait_until_held_back_by("'pelton.memory'");
    // There is room again, and nothing else that would have the query go on.
    session.set("pelton.memory", "1 gb").unwrap();
    wait_until_held_back_by("result");
    assert_eq!(query.collect().unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), 1_200_000);

    let numbers = session.push_table("numbers", "i BIGINT NOT NULL").unwrap();
    let totals =
        "SELECT COUNT(*) AS n FROM TUMBLE_ROWS(TABLE numbers PARTITION BY i, 10) GROUP BY window_start, window_end, i";
    let mut totals = session.sql(totals).unwrap();
    session.set("pelton.memory", "64 kb").unwrap();
    let rows = pelton::arrow::array::Int64Array::from_iter_values(0..100_000);
    let rows = RecordBatch::try_new(numbers.schema().clone(), vec![std::sync::Arc::new(rows)]).unwrap();
    numbers.push_blocking(rows).unwrap();
    drop(numbers);
    let error = failure(&mut totals);
    assert!(error.contains("more than the 48 KiB for it of 'pelton.memory' = '64 KiB'"), "{error}");
}

/// Bytes of long strings that no more may wait of.
const STRING_BYTES_MAX: usize = 8 << 20;

/// Waits until the only query is held back by memory, and returns how many bytes wait in it.
fn held_back_by_memory(session: &Session) -> usize {
    loop {
        let (by, bytes) = held_back(session);
        if by == "'pelton.memory'" {
            return bytes;
        }
        std::thread::yield_now();
    }
}

#[test]
fn long_strings_that_wait_are_counted_until_they_are_read() {
    let session = session("1", 10);
    // A quarter is for rows that wait.
    session.set("pelton.memory", &format!("{} b", 4 * STRING_BYTES_MAX)).unwrap();
    session.set("pelton.block-rows", "256").unwrap();
    let table = "CREATE TABLE words (i BIGINT NOT NULL, word STRING NOT NULL) WITH (
         'connector' = 'datagen', 'number-of-rows' = '60000', 'pace' = 'flat-out', 'fields.word.length' = '1000',
         'fields.i.kind' = 'sequence', 'fields.i.start' = '1', 'fields.i.end' = '60000')";
    session.execute(&session.prepare(table).unwrap().remove(0)).unwrap();
    let mut query = session.sql("SELECT word FROM words WHERE i > 0").unwrap();
    let waiting = held_back_by_memory(&session);
    assert!((STRING_BYTES_MAX / 2..2 * STRING_BYTES_MAX).contains(&waiting), "{waiting} bytes wait");
    // What has been read is counted no more, and as much comes in its place.
    let mut rows = 0;
    for _ in 0..16 {
        rows += query.next_batch().unwrap().unwrap().num_rows();
    }
    let waiting = held_back_by_memory(&session);
    assert!(waiting < 2 * STRING_BYTES_MAX, "{waiting} bytes wait");
    rows += query.collect().unwrap().iter().map(RecordBatch::num_rows).sum::<usize>();
    assert_eq!(rows, 60_000);
}

#[test]
fn the_rows_of_a_replay_are_charged_as_they_are_read() {
    let session = session("1", 10);
    session.set("pelton.memory", "4 mb").unwrap();
    let table = "CREATE TABLE words (word STRING NOT NULL) WITH ('connector' = 'datagen', 'number-of-rows' = '60000',
         'fields.word.length' = '100', 'replay' = 'memory', 'replay.passes' = '1')";
    session.execute(&session.prepare(table).unwrap().remove(0)).unwrap();
    let counted = "SELECT COUNT(*) AS n FROM words";
    let Err(error) = session.sql(counted) else { panic!("7 MB of rows do not fit 4 MiB") };
    let error = error.to_string();
    for part in ["words", "its state takes ", "'pelton.memory' = '4 MiB'", "SET a larger size, or replay fewer rows"] {
        assert!(error.contains(part), "{part} is not in {error}");
    }
    session.set("pelton.memory", "24 mb").unwrap();
    assert_eq!(count(&session.sql(counted).unwrap().collect().unwrap()), 60_000);
    assert_eq!(session.state_bytes(), 0, "what a query had it gives back");
}

#[test]
fn a_size_that_is_none_is_refused() {
    let error = Session::new().set("pelton.memory", "much").unwrap_err().to_string();
    assert_eq!(error, "setting 'pelton.memory' takes a memory size such as '512 kb', '64 mb' or '1 gb', not 'much'");
    let error = Session::new().set("pelton.memory", "99999999999 tb").unwrap_err().to_string();
    assert_eq!(error, "setting 'pelton.memory' is at most '16777215 tb', which '99999999999 tb' exceeds");
}
