//! Inserts as jobs: their names, their ends, and that they run without a session.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pelton::arrow::array::{Int64Array, RecordBatch, TimestampMillisecondArray};
use pelton::job::{ENDED_JOBS_MAX, Job, JobState};
use pelton::{Engine, Error, Outcome, PullSink, PushSource, Session};

use crate::shown::{rows, shown};

fn execute(session: &Session, script: &str) -> Result<(), Error> {
    session.prepare(script)?.iter().try_for_each(|statement| session.execute(statement).map(drop))
}

fn push(source: &PushSource, values: impl IntoIterator<Item = i64>) {
    let values = Arc::new(Int64Array::from_iter_values(values));
    source.push_blocking(RecordBatch::try_new(source.schema().clone(), vec![values]).unwrap()).unwrap();
}

fn all(mut sink: PullSink) -> Vec<String> {
    rows(&std::iter::from_fn(|| sink.next_batch()).collect::<Vec<_>>())
}

fn detached(session: &Session, script: &str) -> Job {
    session.sql(script).unwrap().detach().unwrap()
}

/// Waits until that holds, but not for ever.
fn wait_for(holds: impl Fn() -> bool) {
    let began = std::time::Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "it does not come to that");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// An engine in which `numbers` is filled, and `out` is read, by the program.
fn numbers() -> (Engine, PushSource, PullSink) {
    let engine = Engine::new();
    let session = engine.session();
    let numbers = session.push_table("numbers", "i BIGINT NOT NULL").unwrap();
    let out = session.pull_table("out", "i BIGINT NOT NULL").unwrap();
    (engine, numbers, out)
}

#[test]
fn a_job_outlives_the_session_that_started_it() {
    let (engine, numbers, out) = numbers();
    let before = SystemTime::now() - Duration::from_secs(1);
    {
        let session = engine.session();
        execute(&session, "CREATE TEMPORARY VIEW next AS SELECT i + 1 AS i FROM numbers").unwrap();
        let job = detached(&session, "INSERT INTO out SELECT i FROM next");
        assert_eq!(job.statement(), "INSERT INTO out SELECT i FROM next");
        assert!(session.queries().is_empty(), "it is not the session's any more");
    }
    push(&numbers, [1, 2]);
    let job = engine.job("insert_into_out").unwrap();
    assert_eq!((job.state(), job.ended_at()), (JobState::Running, None));
    push(&numbers, [3]);
    drop(numbers);
    assert_eq!(all(out), ["2", "3", "4"]);
    let summary = job.wait().unwrap();
    assert_eq!((summary.sinks[0].rows, job.state()), (3, JobState::Finished));
    assert!(before <= job.started_at() && job.ended_at().is_some_and(|end| end >= job.started_at()));
    wait_for(|| (engine.state_bytes(), engine.waiting_bytes()) == (0, 0));
}

#[test]
fn a_query_that_is_dropped_stops_its_job() {
    let (engine, numbers, _out) = numbers();
    let query = engine.session().sql("INSERT INTO out SELECT i FROM numbers").unwrap();
    let job = query.job().unwrap().clone();
    assert_eq!(
        shown(&engine.session(), "SHOW JOBS", ["job id", "job name", "status"]),
        [["1", "insert_into_out", "RUNNING"]]
    );
    drop(query);
    assert_eq!((job.state(), job.error()), (JobState::Stopped, None));
    assert!(numbers.try_push(RecordBatch::new_empty(numbers.schema().clone())).is_err());
}

#[test]
fn a_select_is_read_by_its_query() {
    let (engine, _numbers, _out) = numbers();
    let error = engine.session().sql("SELECT i FROM numbers").unwrap().detach().unwrap_err().to_string();
    assert_eq!(error, "a SELECT cannot be detached: its rows are read from its query; use INSERT INTO a table");
    assert!(engine.queries().is_empty() && engine.jobs().is_empty());
}

#[test]
fn jobs_end_with_their_engine() {
    let (engine, numbers, _out) = numbers();
    let (session, job) = {
        let session = engine.session();
        let job = detached(&session, "INSERT INTO out SELECT i FROM numbers");
        (session, job)
    };
    drop(engine);
    assert_eq!(job.state(), JobState::Running, "a session holds the engine");
    drop(session);
    assert_eq!(job.state(), JobState::Stopped);
    assert!(numbers.try_push(RecordBatch::new_empty(numbers.schema().clone())).is_err());
    // An insert whose engine is gone runs with its query, and no longer.
    let session = Session::new();
    let numbers = session.push_table("numbers", "i BIGINT NOT NULL").unwrap();
    execute(&session, "CREATE TABLE hole (i BIGINT) WITH ('connector' = 'blackhole')").unwrap();
    let query = session.sql("INSERT INTO hole SELECT i FROM numbers").unwrap();
    drop(session);
    assert_eq!(query.job().map(Job::state), Some(JobState::Running));
    assert_eq!(query.detach().unwrap().state(), JobState::Stopped);
    drop(numbers);
}

#[test]
fn a_job_that_fails_ends_alone() {
    let engine = Engine::new();
    let session = engine.session();
    let names = ["a", "b", "c"];
    let sources = names.map(|name| session.push_table(&format!("{name}_in"), "i BIGINT NOT NULL").unwrap());
    let sinks = names.map(|name| session.pull_table(&format!("{name}_out"), "i BIGINT").unwrap());
    let jobs = names.map(|name| detached(&session, &format!("INSERT INTO {name}_out SELECT 100 / i FROM {name}_in")));
    sources.iter().for_each(|source| push(source, [1, 2]));
    push(&sources[1], [0]);
    let error = jobs[1].wait().unwrap_err().to_string();
    assert!(error.contains("division by zero"), "{error}");
    assert_eq!(jobs.each_ref().map(Job::state), [JobState::Running, JobState::Failed, JobState::Running]);
    let (first, last) = (&sources[0], &sources[2]);
    [first, last].into_iter().for_each(|source| push(source, [4]));
    drop(sources);
    let [a, _b, c] = sinks;
    assert_eq!([all(a), all(c)], [(); 2].map(|()| vec!["100".to_owned(), "25".to_owned(), "50".to_owned()]));
    assert!(jobs[0].wait().is_ok() && jobs[2].wait().is_ok());
    let listed = shown(&session, "SHOW JOBS VERBOSE", ["job name", "status", "rows in", "rows out", "state bytes"]);
    let ended = |name: &str| [name, "FINISHED", "3", "3", "0"].map(str::to_owned);
    assert_eq!([&listed[0], &listed[2]], [&ended("insert_into_a_out"), &ended("insert_into_c_out")]);
    assert_eq!(listed[1][..3], ["insert_into_b_out", "FAILED", "3"]);
    let [[shown_error, statement]] =
        shown(&session, "DESCRIBE JOB insert_into_b_out", ["error", "statement"]).try_into().unwrap();
    assert_eq!((shown_error, statement.as_str()), (error, "INSERT INTO b_out SELECT 100 / i FROM b_in"));
}

/// Windows of ten seconds over pushed rows, which are written to a table that the program reads.
struct Windows {
    session: Session,
    clicks: PushSource,
    totals: PullSink,
    job: Job,
}

fn windows() -> Windows {
    let session = Session::new();
    let columns = "at TIMESTAMP(3) NOT NULL, v BIGINT NOT NULL, WATERMARK FOR at AS at";
    let clicks = session.push_table("clicks", columns).unwrap();
    let totals = session.pull_table("totals", "total BIGINT").unwrap();
    session.set("pipeline.name", "sums").unwrap();
    let job = detached(
        &session,
        "INSERT INTO totals SELECT SUM(v) FROM TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '10' SECOND) GROUP BY window_start, window_end",
    );
    let rows = [(1_000, 1), (9_000, 2), (11_000, 4), (25_000, 8), (39_000, 16)];
    let at = TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.0));
    let values = Int64Array::from_iter_values(rows.iter().map(|row| row.1));
    clicks
        .push_blocking(RecordBatch::try_new(clicks.schema().clone(), vec![Arc::new(at), Arc::new(values)]).unwrap())
        .unwrap();
    wait_for(|| job.progress().sources[0].rows == 5);
    Windows { session, clicks, totals, job }
}

#[test]
fn a_job_that_is_stopped_reports_no_open_window() {
    let Windows { session, clicks, totals, job } = windows();
    execute(&session, "STOP JOB sums").unwrap();
    assert_eq!((job.state(), job.progress().operators[0].unreported), (JobState::Stopped, 1));
    assert_eq!(all(totals), ["3", "4", "8"]);
    assert!(clicks.try_push(RecordBatch::new_empty(clicks.schema().clone())).is_err());
    // A worker may be about to let go of it.
    wait_for(|| session.state_bytes() == 0);
    let error = execute(&session, "STOP JOB 'sums'").unwrap_err().to_string();
    assert_eq!(
        error,
        "line 1, column 10: the job sums has ended already: it is STOPPED; SHOW JOBS lists those that run"
    );
}

#[test]
fn a_job_that_is_stopped_with_drain_reports_open_windows() {
    let Windows { session, clicks, totals, job } = windows();
    execute(&session, "STOP JOB 'sums' WITH DRAIN").unwrap();
    assert_eq!((job.state(), job.progress().operators[0].unreported), (JobState::Stopped, 0));
    assert_eq!(all(totals), ["16", "3", "4", "8"]);
    assert!(clicks.try_push(RecordBatch::new_empty(clicks.schema().clone())).is_err());
    // A worker may be about to let go of it.
    wait_for(|| session.state_bytes() == 0);
}

/// What queries of other kinds write when their inputs end, and when they are stopped with drain.
#[test]
fn draining_is_as_if_inputs_had_ended() {
    let queries = [
        "SELECT v, COUNT(*) FROM SESSION(TABLE clicks PARTITION BY v, DESCRIPTOR(at), INTERVAL '1' SECOND) GROUP BY window_start, window_end, v",
        "SELECT v, SUM(v) OVER (ORDER BY at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM clicks",
        "SELECT v, COUNT(*) FROM HOP(TABLE clicks, DESCRIPTOR(at), INTERVAL '4' SECOND, INTERVAL '12' SECOND) GROUP BY window_start, window_end, v",
        "SELECT c.v, o.v FROM clicks AS c LEFT JOIN others AS o ON c.v = o.v AND o.at BETWEEN c.at AND c.at + INTERVAL '5' SECOND",
    ];
    for query in queries {
        let [ended, drained] = [false, true].map(|is_drained| {
            let session = Session::new();
            let columns = "at TIMESTAMP(3) NOT NULL, v BIGINT NOT NULL, WATERMARK FOR at AS at - INTERVAL '3' SECOND";
            let sources = ["clicks", "others"].map(|name| session.push_table(name, columns).unwrap());
            let out = session.pull_table("out", "a BIGINT, b BIGINT").unwrap();
            let job = detached(&session, &format!("INSERT INTO out {query}"));
            let read = job.progress().sources.len();
            for source in &sources[..read] {
                let at = Arc::new(TimestampMillisecondArray::from_iter_values((0..20).map(|row| row * 700)));
                let values = Arc::new(Int64Array::from_iter_values((0..20).map(|row| row % 3)));
                source.push_blocking(RecordBatch::try_new(source.schema().clone(), vec![at, values]).unwrap()).unwrap();
            }
            wait_for(|| job.progress().sources.iter().all(|source| source.rows == 20));
            if is_drained {
                job.stop_with_drain();
            } else {
                drop(sources);
            }
            let written = all(out);
            let expected = if is_drained { JobState::Stopped } else { JobState::Finished };
            job.wait().unwrap();
            assert_eq!(job.state(), expected);
            written
        });
        assert!(!ended.is_empty() && ended == drained, "{query}: {ended:?}, and drained {drained:?}");
    }
}

#[test]
fn each_job_that_runs_has_a_name_of_its_own() -> Result<(), Error> {
    let (engine, _numbers, _out) = numbers();
    let session = engine.session();
    execute(&session, "CREATE TABLE hole (i BIGINT) WITH ('connector' = 'blackhole')")?;
    execute(&session, "CREATE TABLE endless (i BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1')")?;
    let insert = "INSERT INTO hole SELECT i FROM endless";
    let set =
        "EXECUTE STATEMENT SET BEGIN INSERT INTO hole SELECT i FROM endless; INSERT INTO hole SELECT i FROM endless;
        INSERT INTO out SELECT i FROM endless; END";
    let jobs = [insert, insert, set].map(|sql| detached(&session, sql));
    assert_eq!(jobs.each_ref().map(Job::name), ["insert_into_hole", "insert_into_hole_2", "insert_into_hole_out"]);
    session.set("pipeline.name", "mine")?;
    let mine = detached(&session, insert);
    let error = session.sql(insert).err().unwrap().to_string();
    assert_eq!(
        error,
        "a job 'mine' is running already: SET 'pipeline.name' to another name, or RESET 'pipeline.name' to name jobs after their tables"
    );
    // By its number, too; the name is free when the job has ended.
    execute(&session, &format!("STOP JOB {}", mine.id()))?;
    let again = detached(&session, insert);
    assert_eq!((again.name(), engine.job("mine").map(|job| job.id())), ("mine", Some(again.id())));
    let running = |job: &Job| job.state() == JobState::Running;
    assert_eq!(engine.jobs().iter().filter(|job| running(job)).count(), 4);
    engine.jobs().iter().for_each(Job::abort);
    assert!(engine.jobs().iter().all(|job| job.wait_for(Duration::from_secs(60))));
    Ok(())
}

#[test]
fn jobs_that_have_ended_are_forgotten_in_the_end() -> Result<(), Error> {
    let session = Session::new();
    execute(&session, "CREATE TABLE hole (i INT) WITH ('connector' = 'blackhole')")?;
    session.set("pelton.tier", "interpret")?;
    for _ in 0..ENDED_JOBS_MAX + 5 {
        session.sql("INSERT INTO hole VALUES (1)")?.wait()?;
    }
    let jobs = session.engine().jobs();
    assert_eq!((jobs.len(), jobs[0].id()), (ENDED_JOBS_MAX, 6));
    assert!(jobs.iter().all(|job| job.name() == "insert_into_hole" && job.state() == JobState::Finished));
    Ok(())
}

#[test]
fn a_job_that_does_not_end_is_ended_at_once_by_the_second_stop() {
    let (engine, numbers, mut out) = numbers();
    let session = engine.session();
    let job = detached(&session, "INSERT INTO out SELECT i FROM numbers");
    // The program does not read.
    let feeder = std::thread::spawn(move || {
        (0..).step_by(1_000).find(|&from| {
            let values = Arc::new(Int64Array::from_iter_values(from..from + 1_000));
            numbers.push_blocking(RecordBatch::try_new(numbers.schema().clone(), vec![values]).unwrap()).is_err()
        })
    });
    wait_for(|| job.progress().load.held_back_by.is_some());
    let stopper = engine.session();
    let first = std::thread::spawn(move || stopper.execute(&stopper.prepare("STOP JOB insert_into_out").unwrap()[0]));
    wait_for(|| job.is_stopping());
    assert_eq!(job.state(), JobState::Running);
    execute(&session, "STOP JOB insert_into_out").unwrap();
    assert_eq!(job.state(), JobState::Stopped);
    assert!(matches!(first.join().unwrap(), Ok(Outcome::Done)));
    feeder.join().unwrap();
    while out.next_batch().is_some() {}
}

#[test]
fn a_table_that_is_dropped_with_cascade_ends_its_jobs_in_all_sessions() -> Result<(), Error> {
    let (engine, numbers, out) = numbers();
    let [first, second] = [engine.session(), engine.session()];
    execute(&first, "CREATE VIEW doubled AS SELECT i * 2 AS i FROM numbers")?;
    execute(&second, "CREATE TEMPORARY VIEW mine AS SELECT i FROM doubled")?;
    let job = detached(&first, "INSERT INTO out SELECT i FROM doubled");
    push(&numbers, [1, 2]);
    wait_for(|| job.progress().sources[0].rows == 2);
    let error = execute(&second, "DROP TABLE numbers").unwrap_err().to_string();
    assert!(error.contains("is needed by the views doubled and mine and the job insert_into_out"), "{error}");
    // What was read is written.
    execute(&second, "DROP TABLE numbers CASCADE")?;
    assert_eq!((job.state(), all(out)), (JobState::Stopped, vec!["2".to_owned(), "4".to_owned()]));
    assert!(numbers.try_push(RecordBatch::new_empty(numbers.schema().clone())).is_err());
    assert!(shown(&second, "SHOW TABLES", ["table name"]).iter().all(|[name]| name == "out"));
    // A query that somebody reads needs nothing.
    let letters = first.push_table("letters", "i BIGINT NOT NULL")?;
    let query = first.sql("SELECT i FROM letters")?;
    execute(&second, "DROP TABLE letters")?;
    drop(letters);
    assert!(query.collect()?.is_empty());
    Ok(())
}

#[test]
fn of_two_jobs_that_are_started_under_one_name_one_runs() -> Result<(), Error> {
    let engine = Engine::new();
    let session = engine.session();
    execute(&session, "CREATE TABLE hole (i BIGINT) WITH ('connector' = 'blackhole')")?;
    execute(&session, "CREATE TABLE endless (i BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1')")?;
    let started = [(); 4].map(|()| {
        let session = engine.session();
        std::thread::spawn(move || {
            session.set("pipeline.name", "mine")?;
            session.sql("INSERT INTO hole SELECT i FROM endless")?.detach()
        })
    });
    let jobs = started.map(|thread| thread.join().unwrap());
    assert_eq!(jobs.iter().filter(|job| job.is_ok()).count(), 1);
    assert_eq!(shown(&session, "SHOW JOBS", ["job name", "status"]), [["mine", "RUNNING"]]);
    Ok(())
}
