//! Jobs that are killed and go on from their last checkpoint: what they have written is what they would have without that.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pelton::job::JobState;
use pelton::{Engine, Error, Session};

/// A directory that is removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("pelton-checkpoints-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A number that looks random.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Files of rows whose times go forward, but for some disorder.
fn write_inputs(folder: &Folder) {
    let mut state = 7;
    for (table, files, rows) in [("a", 3, 30_000), ("b", 1, 60_000)] {
        fs::create_dir_all(folder.path(table)).unwrap();
        for file in 0..files {
            let mut text = String::from("k,v,ts\n");
            for row in 0..rows {
                let (key, value) = (next(&mut state) % 20, next(&mut state) % 1_000);
                let millis = row * (60_000 / rows) + next(&mut state) % 40;
                text += &format!(
                    "{key},{value},2024-01-01 00:{:02}:{:02}.{:03}\n",
                    millis / 60_000,
                    millis / 1_000 % 60,
                    millis % 1_000
                );
            }
            fs::write(folder.0.join(table).join(format!("{file}.csv")), text).unwrap();
        }
    }
}

fn tables(folder: &Folder) -> String {
    let input = |name: &str| {
        format!(
            "CREATE TABLE {name} (k BIGINT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '0.030' SECOND)
             WITH ('connector' = 'filesystem', 'format' = 'csv', 'csv.header' = 'true', 'path' = '{}');",
            folder.path(name)
        )
    };
    format!(
        "SET 'pelton.block-rows' = '100'; {} {}
         CREATE TABLE bids (auction BIGINT, price BIGINT, dateTime TIMESTAMP(3), WATERMARK FOR dateTime AS dateTime - INTERVAL '1' SECOND)
         WITH ('connector' = 'nexmark', 'table' = 'bid', 'rows' = '100000', 'pace' = 'flat-out');",
        input("a"),
        input("b")
    )
}

/// A statement, and the columns of its result.
const QUERIES: &[(&str, &str)] = &[
    ("k BIGINT, v BIGINT", "SELECT k, v * 2 FROM a WHERE v > 300"),
    (
        "s TIMESTAMP(3), k BIGINT, c BIGINT, x BIGINT",
        "SELECT window_start, k, COUNT(*), SUM(v) FROM TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '5' SECOND) GROUP BY window_start, window_end, k",
    ),
    (
        "s TIMESTAMP(3), c BIGINT, m BIGINT",
        "SELECT window_start, COUNT(*), MAX(price) FROM HOP(TABLE bids, DESCRIPTOR(dateTime), INTERVAL '1' SECOND, INTERVAL '7' SECOND) GROUP BY window_start, window_end",
    ),
    (
        "k BIGINT, s TIMESTAMP(3), e TIMESTAMP(3), c BIGINT",
        "SELECT k, window_start, window_end, COUNT(*) FROM SESSION(TABLE b PARTITION BY k, DESCRIPTOR(ts), INTERVAL '0.300' SECOND) GROUP BY k, window_start, window_end",
    ),
    (
        "k BIGINT, v BIGINT, x BIGINT",
        "SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 5 PRECEDING AND CURRENT ROW) FROM b",
    ),
    (
        "s TIMESTAMP(3), k BIGINT, v BIGINT, w BIGINT",
        "SELECT l.window_start, l.k, l.v, r.v FROM TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '1' SECOND) AS l
         LEFT JOIN TUMBLE(TABLE b, DESCRIPTOR(ts), INTERVAL '1' SECOND) AS r
         ON l.window_start = r.window_start AND l.window_end = r.window_end AND l.k = r.k AND r.v < 100",
    ),
    (
        "k BIGINT, v BIGINT, w BIGINT",
        "SELECT a.k, a.v, b.v FROM a JOIN b ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL '0.200' SECOND AND b.ts",
    ),
    (
        "s TIMESTAMP(3), k BIGINT, v BIGINT, r BIGINT",
        "SELECT window_start, k, v, r FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY v DESC, ts) AS r
         FROM TUMBLE(TABLE b, DESCRIPTOR(ts), INTERVAL '4' SECOND)) WHERE r <= 2",
    ),
];

/// A job that writes a query's rows to files in a directory, or to one.
fn job(folder: &Folder, (columns, query): (&str, &str), settings: &str) -> String {
    let output = if query.len() % 2 == 0 { "out" } else { "out/one.csv" };
    format!(
        "{} CREATE TABLE result ({columns}) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{}'); {settings}
         SET 'pipeline.name' = 'it'; INSERT INTO result {query}",
        tables(folder),
        folder.path(output)
    )
}

fn checkpointed(folder: &Folder, interval: &str) -> String {
    format!(
        "SET 'execution.checkpointing.dir' = '{}'; SET 'execution.checkpointing.interval' = '{interval}'; SET 'execution.state-recovery.path' = 'latest';",
        folder.path("checkpoints")
    )
}

/// All rows of a directory of CSV files, sorted.
fn written(directory: &Path) -> Vec<String> {
    let mut rows = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.')) {
            rows.extend(fs::read_to_string(path).unwrap().lines().map(str::to_owned));
        }
    }
    rows.sort_unstable();
    rows
}

/// The rows of a query that nobody kills, and that has no checkpoints.
fn expected(folder: &Folder, query: (&str, &str)) -> Vec<String> {
    let apart = Folder(folder.0.join("apart"));
    let text = job(folder, query, "").replace(&folder.path("out"), &apart.path("out"));
    Session::new().sql(&text).unwrap().wait().unwrap();
    written(&apart.0.join("out"))
}

#[test]
fn a_job_that_is_killed_again_and_again_writes_each_row_once() {
    let (mut state, mut restored) = (1, 0);
    for (number, query) in QUERIES.iter().enumerate() {
        let folder = Folder::new(&format!("killed-{number}"));
        write_inputs(&folder);
        let mut kills = 0;
        loop {
            let engine = Engine::new();
            let workers = 1 + next(&mut state) % 3;
            let settings = format!("{} SET 'pelton.workers' = '{workers}';", checkpointed(&folder, "3 ms"));
            let job = engine.session().sql(&job(&folder, *query, &settings)).unwrap().detach().unwrap();
            restored += u32::from(job.checkpoints().unwrap().restored_from.is_some());
            // Later ones have more time, so that the job comes to its end.
            let time = Duration::from_millis(5 + next(&mut state) % (20 + 10 * kills));
            if job.wait_for(time) {
                job.wait().unwrap_or_else(|error| panic!("{}: {error}", query.1));
                assert_eq!(job.state(), JobState::Finished);
                break;
            }
            job.abort();
            let _ = job.wait();
            kills += 1;
        }
        let (found, expected) = (written(&folder.0.join("out")), expected(&folder, *query));
        assert!(!expected.is_empty());
        assert!(
            found == expected,
            "{}: {} rows after {kills} kills, and {} without",
            query.1,
            found.len(),
            expected.len()
        );
    }
    // A job that was killed before its first checkpoint begins anew, and may end undisturbed.
    assert!(restored > 0, "no job ever went on from a checkpoint");
}

#[test]
fn a_stopped_job_goes_on_where_it_was() -> Result<(), Error> {
    let folder = Folder::new("stopped");
    write_inputs(&folder);
    let query = QUERIES[1];
    for _ in 0..100 {
        let engine = Engine::new();
        let job = engine.session().sql(&job(&folder, query, &checkpointed(&folder, "1 h")))?.detach()?;
        std::thread::sleep(Duration::from_millis(10));
        job.stop();
        job.wait()?;
        let status = job.checkpoints().unwrap();
        assert_eq!((status.completed, status.failed, status.error), (1, 0, None));
        if job.state() == JobState::Finished {
            break;
        }
    }
    assert_eq!(written(&folder.0.join("out")), expected(&folder, query));
    Ok(())
}

#[test]
fn an_engine_that_is_opened_again_has_its_tables_and_goes_on_with_its_jobs() -> Result<(), Error> {
    let folder = Folder::new("opened");
    write_inputs(&folder);
    let query = QUERIES[1];
    let script = job(&folder, query, "SET 'execution.checkpointing.interval' = '3 ms';");
    let data = folder.path("data");
    Engine::open(&data)?.session().sql(&script)?.detach()?;
    let mut opened = 0;
    loop {
        let engine = Engine::open(&data)?;
        opened += 1;
        let session = engine.session();
        assert!(session.table("a").is_ok() && session.table("result").is_ok());
        assert!(engine.restart_jobs()?.is_empty());
        let Some(job) = engine.job("it") else { break };
        if !job.wait_for(Duration::from_millis(10 * opened)) {
            // As if the process was killed.
            job.suspend_at_once();
        }
        let _ = job.wait();
    }
    assert!(opened > 1, "it was started again");
    assert_eq!(written(&folder.0.join("out")), expected(&folder, query));
    Ok(())
}

#[test]
fn a_job_that_is_altered_keeps_what_it_computes_as_well() -> Result<(), Error> {
    let folder = Folder::new("altered");
    write_inputs(&folder);
    let query = QUERIES[1];
    let script = job(&folder, query, "SET 'execution.checkpointing.interval' = '3 ms';");
    let data = folder.path("data");
    Engine::open(&data)?.session().sql(&script)?.detach()?;
    let (mut opened, mut altered) = (0, 0);
    loop {
        let engine = Engine::open(&data)?;
        opened += 1;
        assert!(engine.restart_jobs()?.is_empty());
        if engine.job("it").is_none() {
            break;
        }
        let session = engine.session();
        for round in 0..3 {
            let Some(job) = engine.job("it").filter(|job| !job.wait_for(Duration::from_millis(2 * opened))) else {
                break;
            };
            // What is computed of the counts is no part of the state.
            let counts =
                query.1.replace("COUNT(*)", ["COUNT(*)", "COUNT(*) + k - k", "COUNT(*) + SUM(v) - SUM(v)"][round]);
            let statement = session.prepare(&format!("ALTER JOB it AS INSERT INTO result {counts}"))?.remove(0);
            match session.execute(&statement) {
                Ok(pelton::Outcome::Rows(parts)) => {
                    altered += 1;
                    let parts = crate::shown::rows(&[parts]);
                    assert_eq!(parts, ["output result | kept", "source a | kept", "window 0 | kept"]);
                }
                Ok(_) => panic!("it shows what was kept"),
                // It may have come to its end.
                Err(error) => assert!(job.state() == JobState::Finished, "{error}"),
            }
        }
        if let Some(job) = engine.job("it") {
            // As if the process was killed.
            job.suspend_at_once();
            let _ = job.wait();
        }
    }
    assert!(altered > 0 && opened > 1, "altered {altered} times and opened {opened} times");
    assert_eq!(written(&folder.0.join("out")), expected(&folder, query));
    Ok(())
}

#[test]
fn a_query_that_computes_something_else_does_not_go_on() -> Result<(), Error> {
    let folder = Folder::new("differs");
    write_inputs(&folder);
    let (columns, query) = QUERIES[1];
    let settings = checkpointed(&folder, "1 h");
    let engine = Engine::new();
    let started = engine.session().sql(&job(&folder, (columns, query), &settings))?.detach()?;
    started.stop();
    started.wait()?;
    let longer = query.replace("'5' SECOND", "'50' SECOND");
    let error = Engine::new().session().sql(&job(&folder, (columns, &longer), &settings)).err().unwrap().to_string();
    assert!(
        error.contains("the state of window 0 is of another query: it has 'window tumbling 5 s', and this query has 'window tumbling 50 s'"),
        "{error}"
    );
    Ok(())
}

#[test]
fn what_is_dropped_or_stopped_does_not_come_again() -> Result<(), Error> {
    let folder = Folder::new("dropped");
    let data = folder.path("data");
    let execute = |session: &Session, script: &str| -> Result<(), Error> {
        session.prepare(script)?.iter().try_for_each(|statement| session.execute(statement).map(drop))
    };
    {
        let engine = Engine::open(&data)?;
        let session = engine.session();
        execute(
            &session,
            "CREATE TABLE n (i BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100');
             CREATE VIEW v AS SELECT i + 1 AS j FROM n; CREATE VIEW w AS SELECT j FROM v; CREATE TEMPORARY VIEW x AS SELECT 1 AS a;
             CREATE TABLE hole (i BIGINT) WITH ('connector' = 'blackhole'); SET 'pelton.memory' = '1 gb'; DROP VIEW w",
        )?;
        for name in ["one", "two"] {
            session.sql(&format!("SET 'pipeline.name' = '{name}'; INSERT INTO hole SELECT j FROM v"))?.detach()?;
        }
        execute(&session, "STOP JOB 'one'")?;
        engine.job("two").unwrap().suspend();
        engine.job("two").unwrap().wait()?;
    }
    let engine = Engine::open(&data)?;
    assert!(engine.restart_jobs()?.is_empty());
    let session = engine.session();
    assert!(session.table("v").is_ok() && session.table("w").is_err() && session.table("x").is_err());
    assert_eq!(session.setting("pelton.memory").as_deref(), Some("1 gb"));
    let names: Vec<String> = engine.jobs().iter().map(|job| job.name().to_owned()).collect();
    assert_eq!(names, ["two"]);
    assert_eq!(engine.jobs()[0].checkpoints().unwrap().restored_from, Some(1));
    Ok(())
}

#[test]
fn a_job_goes_on_where_its_checkpoints_cannot_be_written() -> Result<(), Error> {
    let folder = Folder::new("unwritable");
    let script = format!(
        "CREATE TABLE n (i BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000', 'fields.i.kind' = 'sequence', 'fields.i.start' = '0', 'fields.i.end' = '100000000');
         CREATE TABLE result (i BIGINT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{}');
         {} SET 'pipeline.name' = 'it'; INSERT INTO result SELECT i FROM n",
        folder.path("out"),
        checkpointed(&folder, "5 ms")
    );
    let engine = Engine::new();
    let job = engine.session().sql(&script)?.detach()?;
    let until = |holds: &dyn Fn(&pelton::checkpoints::CheckpointStatus) -> bool| {
        let began = std::time::Instant::now();
        while !holds(&job.checkpoints().unwrap()) {
            assert!(began.elapsed() < Duration::from_secs(60), "{:?}", job.checkpoints());
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    until(&|status| status.completed > 0);
    // As a disk that is full.
    let checkpoints = folder.0.join("checkpoints/it");
    fs::rename(&checkpoints, folder.0.join("away")).unwrap();
    until(&|status| status.error.is_some());
    assert_eq!(job.state(), JobState::Running);
    fs::create_dir_all(&checkpoints).unwrap();
    let failed_at = job.checkpoints().unwrap().completed;
    until(&|status| status.completed > failed_at && status.error.is_none());
    job.stop();
    job.wait()?;
    // Rows that were prepared meanwhile are committed too.
    let mut rows: Vec<i64> = written(&folder.0.join("out")).iter().map(|row| row.parse().unwrap()).collect();
    rows.sort_unstable();
    assert_eq!(rows, (0..rows.len() as i64).collect::<Vec<_>>());
    Ok(())
}
