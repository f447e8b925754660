//! Jobs that are altered while they run: no row is lost or read twice, and operators that compute the same keep their state.

use std::sync::Arc;

use pelton::arrow::array::{Int64Array, RecordBatch, TimestampMillisecondArray};
use pelton::job::{Job, JobState};
use pelton::progress::Progress;
use pelton::{Engine, Outcome, PullSink, PushSource, Session};

use crate::shown::rows;

/// The rows of a statement.
fn run(session: &Session, statement: &str) -> Result<Vec<String>, String> {
    let prepared = session.prepare(statement).map_err(|error| error.to_string())?;
    let mut shown_rows = Vec::new();
    for statement in &prepared {
        match session.execute(statement).map_err(|error| error.to_string())? {
            Outcome::Rows(batch) => shown_rows = rows(&[batch]),
            Outcome::Running(query) => drop(query.detach().map_err(|error| error.to_string())?),
            Outcome::Done | Outcome::Noted(_) => {}
        }
    }
    Ok(shown_rows)
}

struct Clicks {
    session: Session,
    clicks: PushSource,
    out: PullSink,
}

impl Clicks {
    /// An engine with `clicks`, which are counted by a job `counts` into `out`.
    fn counted_by(insert: &str) -> Clicks {
        let engine = Engine::new();
        let session = engine.session();
        let columns = "k BIGINT NOT NULL, ts TIMESTAMP(3) NOT NULL, WATERMARK FOR ts AS ts";
        let clicks = session.push_table("clicks", columns).unwrap();
        let out = session.pull_table("out", "start TIMESTAMP(3) NOT NULL, n BIGINT NOT NULL").unwrap();
        run(&session, &format!("SET 'pipeline.name' = 'counts'; {insert}")).unwrap();
        Clicks { session, clicks, out }
    }

    /// Rows of keys and seconds.
    fn push(&self, clicks: &[(i64, i64)]) {
        let keys = Int64Array::from_iter_values(clicks.iter().map(|&(key, _)| key));
        let times = TimestampMillisecondArray::from_iter_values(clicks.iter().map(|&(_, second)| second * 1000));
        let schema = self.clicks.schema().clone();
        self.clicks
            .push_blocking(RecordBatch::try_new(schema, vec![Arc::new(keys), Arc::new(times)]).unwrap())
            .unwrap();
    }

    fn job(&self) -> Job {
        self.session.engine().job("counts").unwrap()
    }

    /// Waits for the job to come to something.
    fn wait_until(&self, is_there: impl Fn(&Progress) -> bool) {
        let began = std::time::Instant::now();
        while !is_there(&self.job().progress()) {
            assert!(began.elapsed().as_secs() < 60, "it does not come to that");
            std::thread::yield_now();
        }
    }

    fn alter(&self, insert: &str) -> Result<Vec<String>, String> {
        run(&self.session, &format!("ALTER JOB counts AS {insert}"))
    }

    /// Ends the input, and returns all rows: second and count.
    fn end(self) -> Vec<String> {
        let Clicks { clicks, out, session } = self;
        let job = session.engine().job("counts").unwrap();
        drop(clicks);
        let all = collect(out);
        job.wait().unwrap();
        all
    }
}

fn collect(mut out: PullSink) -> Vec<String> {
    let batches: Vec<RecordBatch> = std::iter::from_fn(|| out.next_batch()).collect();
    rows(&batches).into_iter().map(|row| row.replace("1970-01-01T00:", "")).collect()
}

const COUNTS: &str =
    "INSERT INTO out SELECT window_start, COUNT(*) FROM TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '10' SECOND)
                      GROUP BY window_start, window_end";

#[test]
fn a_window_that_computes_the_same_keeps_its_rows() {
    let clicks = Clicks::counted_by(COUNTS);
    clicks.push(&[(1, 1), (2, 2), (1, 3)]);
    let before = clicks.job();
    let parts = clicks.alter(&COUNTS.replace("COUNT(*)", "COUNT(*) * 100")).unwrap();
    assert_eq!(parts, ["output out | kept", "source clicks | kept", "window 0 | kept"]);
    clicks.push(&[(1, 4), (1, 12)]);
    let job = clicks.job();
    assert_eq!((before.state(), job.state()), (JobState::Altered, JobState::Running));
    assert!(job.statement().starts_with("INSERT INTO out") && job.id() > before.id());
    assert_eq!(clicks.end(), ["00:00 | 400", "00:10 | 100"]);
}

#[test]
fn a_window_that_computes_something_else_begins_with_the_next() {
    let clicks = Clicks::counted_by(COUNTS);
    clicks.push(&[(1, 1), (2, 2), (1, 13)]);
    let parts = clicks.alter(&COUNTS.replace("GROUP", "WHERE k = 1 GROUP")).unwrap();
    assert_eq!(parts, ["output out | kept", "source clicks | kept", "window 0 | dropped", "window 0 | new"]);
    clicks.push(&[(1, 14), (1, 22), (2, 23), (1, 31)]);
    // The window of seconds 10 to 20 had begun before.
    assert_eq!(clicks.end(), ["00:00 | 2", "00:20 | 1", "00:30 | 1"]);
}

#[test]
fn filters_change_between_two_rows() {
    let Clicks { session, clicks, out } = Clicks::counted_by("INSERT INTO out SELECT ts, k FROM clicks WHERE k > 1");
    let reader = std::thread::spawn(move || collect(out));
    let clicks = Clicks { out: session.pull_table("unused", "k BIGINT").unwrap(), session, clicks };
    for second in 0..200 {
        clicks.push(&[(1, second), (2, second)]);
        if second % 20 == 10 {
            let bound = (second / 20) % 2;
            clicks.alter(&format!("INSERT INTO out SELECT ts, k FROM clicks WHERE k > {bound}")).unwrap();
        }
    }
    let job = clicks.job();
    drop(clicks.clicks);
    job.wait().unwrap();
    // Which rows came before an alteration is not known. Those that all filters leave are there once each, and others once at most.
    let rows = reader.join().unwrap();
    let of_key = |key: &str| rows.iter().filter(|row| row.ends_with(key)).collect::<Vec<_>>();
    let (ones, twos) = (of_key(" | 1"), of_key(" | 2"));
    assert_eq!(twos.len(), 200, "{twos:?}");
    assert!(ones.len() > 50 && ones.len() < 150, "{}", ones.len());
    for times in [&ones, &twos] {
        assert!(times.windows(2).all(|pair| pair[0] != pair[1]), "rows are sorted, and none is there twice");
    }
}

#[test]
fn outputs_come_and_go_and_others_are_not_touched() {
    let clicks = Clicks::counted_by(COUNTS);
    let other = clicks.session.pull_table("other", "k BIGINT NOT NULL").unwrap();
    clicks.push(&[(1, 1), (2, 2)]);
    clicks.wait_until(|progress| progress.sources[0].rows == 2);
    let set = format!("EXECUTE STATEMENT SET BEGIN INSERT INTO other SELECT k FROM clicks; {COUNTS}; END");
    let parts = clicks.alter(&set).unwrap();
    assert_eq!(parts, ["output other | new", "output out | kept", "source clicks | kept", "window 0 | kept"]);
    clicks.push(&[(3, 3), (4, 12)]);
    clicks.wait_until(|progress| progress.sources[0].rows == 2);
    let parts = clicks.alter(COUNTS).unwrap();
    assert_eq!(parts, ["output other | dropped", "output out | kept", "source clicks | kept", "window 0 | kept"]);
    clicks.push(&[(5, 13)]);
    assert_eq!(collect(other), ["3", "4"]);
    assert_eq!(clicks.end(), ["00:00 | 3", "00:10 | 2"]);
}

#[test]
fn what_cannot_take_its_place_leaves_the_job_as_it_is() {
    let clicks = Clicks::counted_by(COUNTS);
    clicks.push(&[(1, 1)]);
    let id = clicks.job().id();
    let error = clicks.alter("INSERT INTO out SELECT ts, missing FROM clicks").unwrap_err();
    assert!(error.contains("line 1, column 48: there is no column missing"), "{error}");
    run(
        &clicks.session,
        "CREATE TABLE nowhere (k BIGINT) WITH ('connector' = 'filesystem', 'path' = '/dev/null/file.csv', 'format' = 'csv')",
    )
    .unwrap();
    let error = clicks.alter("INSERT INTO nowhere SELECT k FROM clicks").unwrap_err();
    assert!(error.contains("/dev/null: File exists"), "{error}");
    let error = run(&clicks.session, &format!("ALTER JOB count AS {COUNTS}")).unwrap_err();
    assert_eq!(error, "line 1, column 11: there is no job count; did you mean counts?");
    assert_eq!((clicks.job().state(), clicks.job().id()), (JobState::Running, id));
    clicks.push(&[(1, 2)]);
    let job = clicks.job();
    let session = clicks.session.clone();
    assert_eq!(clicks.end(), ["00:00 | 2"]);
    job.wait().unwrap();
    let error = run(&session, &format!("ALTER JOB counts AS {COUNTS}")).unwrap_err();
    assert_eq!(error, "line 1, column 11: the job counts has ended, and only jobs that run are altered");
}

#[test]
fn a_job_of_tables_with_positions_reads_on() {
    let engine = Engine::new();
    let session = engine.session();
    let out = session.pull_table("out", "i BIGINT NOT NULL").unwrap();
    let table = "CREATE TABLE numbers (i BIGINT NOT NULL) WITH ('connector' = 'datagen', 'number-of-rows' = '3000',
        'rows-per-second' = '10000', 'fields.i.kind' = 'sequence', 'fields.i.start' = '0', 'fields.i.end' = '2999')";
    run(&session, &format!("{table}; SET 'pipeline.name' = 'numbers'; INSERT INTO out SELECT i FROM numbers")).unwrap();
    let reader = std::thread::spawn(move || collect(out));
    for round in 0..5 {
        std::thread::sleep(std::time::Duration::from_millis(30));
        run(&session, &format!("ALTER JOB numbers AS INSERT INTO out SELECT i FROM numbers WHERE i > -{}", round + 1))
            .unwrap();
    }
    let mut numbers: Vec<i64> = reader.join().unwrap().iter().map(|row| row.parse().unwrap()).collect();
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(0..3000), "{} rows", numbers.len());
    assert_eq!(run(&session, "SHOW JOBS").unwrap().len(), 6);
}
