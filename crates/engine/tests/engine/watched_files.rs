//! Directories whose files are read as they appear.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pelton::job::{Job, JobState};
use pelton::{Engine, Session};

use crate::shown::rows;

/// A directory that is removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("pelton-watched-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("in")).unwrap();
        Folder(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes a file under a hidden name, and gives it its own.
    fn add(&self, name: &str, content: &str) {
        let hidden = self.0.join("in/.unfinished");
        fs::write(&hidden, content).unwrap();
        fs::rename(hidden, self.0.join("in").join(name)).unwrap();
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

fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The rows of the query that a script ends with.
fn rows_of(script: &str) -> Vec<String> {
    rows(&Session::new().sql(script).unwrap().collect().unwrap())
}

fn drain(engine: &Engine, job: &Job) {
    let session = engine.session();
    session.execute(&session.prepare("STOP JOB 'it' WITH DRAIN").unwrap()[0]).unwrap();
    job.wait().unwrap();
}

/// Rows of all visible files of a directory, sorted; of CSV files.
fn written(directory: &Path) -> Vec<String> {
    let mut rows = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if !path.file_name().unwrap().to_string_lossy().starts_with('.') {
            rows.extend(fs::read_to_string(path).unwrap().lines().map(str::to_owned));
        }
    }
    rows.sort_unstable();
    rows
}

const FILES: u64 = 12;
const FILE_ROWS: u64 = 500;

/// Writes files of rows whose times go on from one to the next, beside the directory that is watched.
fn stage(folder: &Folder, extension: &str) -> Vec<PathBuf> {
    let path = |file: u64| folder.0.join(format!("staged/{file:03}.{extension}"));
    for file in 0..FILES {
        let (first, last) = (file * FILE_ROWS, (file + 1) * FILE_ROWS - 1);
        let script = format!(
            "CREATE TABLE n (i BIGINT) WITH ('connector' = 'datagen', 'pace' = 'flat-out',
               'fields.i.kind' = 'sequence', 'fields.i.start' = '{first}', 'fields.i.end' = '{last}');
             CREATE TABLE staged (i BIGINT, k BIGINT, ts TIMESTAMP_LTZ(3)) WITH ('connector' = 'filesystem', 'path' = '{}');
             INSERT INTO staged SELECT i, MOD(i, 7), TO_TIMESTAMP_LTZ(i * 100, 3) FROM n",
            path(file).display()
        );
        Session::new().sql(&script).unwrap().wait().unwrap();
    }
    (0..FILES).map(path).collect()
}

fn input(folder: &Folder, format: &str, more: &str) -> String {
    format!(
        "CREATE TABLE t (i BIGINT, k BIGINT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts)
         WITH ('connector' = 'filesystem', 'format' = '{format}', 'path' = '{}' {more});",
        folder.path("in")
    )
}

const WINDOWS: &str = "SELECT window_start, k, COUNT(*), SUM(i) FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '7' SECOND) GROUP BY window_start, window_end, k";

fn start(folder: &Folder, format: &str, workers: u64) -> (Engine, Job) {
    let engine = Engine::new();
    let script = format!(
        "{} SET 'pelton.block-rows' = '64'; SET 'pelton.workers' = '{workers}';
         CREATE TABLE passed (i BIGINT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{}');
         CREATE TABLE counted (s TIMESTAMP(3), k BIGINT, c BIGINT, x BIGINT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{}');
         SET 'execution.checkpointing.dir' = '{}'; SET 'execution.checkpointing.interval' = '3 ms'; SET 'execution.state-recovery.path' = 'latest';
         SET 'pipeline.name' = 'it';
         EXECUTE STATEMENT SET BEGIN INSERT INTO passed SELECT i FROM t; INSERT INTO counted {WINDOWS}; END;",
        input(folder, format, ", 'source.monitor-interval' = '2 ms'"),
        folder.path("passed"),
        folder.path("counted"),
        folder.path("checkpoints")
    );
    let job = engine.session().sql(&script).unwrap().detach().unwrap();
    (engine, job)
}

#[test]
fn files_that_appear_while_a_job_is_killed_again_and_again_are_read_once() {
    let mut state = 11;
    for (format, extension) in [("csv", "csv"), ("json", "json.gz"), ("csv", "csv.zst"), ("parquet", "parquet")] {
        let folder = Folder::new(&extension.replace('.', "-"));
        let mut staged = stage(&folder, extension).into_iter();
        let (mut kills, mut restored) = (0, 0);
        let (engine, job) = loop {
            let (engine, job) = start(&folder, format, 1 + next(&mut state) % 3);
            restored += u32::from(job.checkpoints().unwrap().restored_from.is_some());
            for _ in 0..2 + next(&mut state) % 6 {
                std::thread::sleep(Duration::from_millis(next(&mut state) % 5));
                if let Some(path) = staged.next() {
                    fs::rename(&path, folder.0.join("in").join(path.file_name().unwrap())).unwrap();
                }
            }
            if staged.len() == 0 && kills > 3 {
                break (engine, job);
            }
            job.abort();
            let _ = job.wait();
            kills += 1;
        };
        let all = (FILES * FILE_ROWS) as usize;
        wait_for("all rows are passed on", || {
            job.state() != JobState::Running || written(&folder.0.join("passed")).len() >= all
        });
        drain(&engine, &job);
        let mut passed: Vec<u64> = written(&folder.0.join("passed")).iter().map(|row| row.parse().unwrap()).collect();
        passed.sort_unstable();
        assert!(passed == (0..FILES * FILE_ROWS).collect::<Vec<_>>(), "{extension}: {} rows", passed.len());
        let counted = format!(
            "CREATE TABLE counted (s TIMESTAMP(3), k BIGINT, c BIGINT, x BIGINT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{}'); SELECT * FROM counted",
            folder.path("counted")
        );
        let (found, expected) = (rows_of(&counted), rows_of(&format!("{} {WINDOWS}", input(&folder, format, ""))));
        assert!(
            found == expected,
            "{extension}: {} windows after {kills} kills, and {} without",
            found.len(),
            expected.len()
        );
        assert!(restored > 0, "{extension}: it never went on from a checkpoint");
    }
}

/// A job that passes the rows of a watched directory on.
fn watching(folder: &Folder, more: &str) -> String {
    format!(
        "CREATE TABLE t (a STRING) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{}', 'source.monitor-interval' = '2 ms' {more});
         CREATE TABLE passed (a STRING) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{}');
         SET 'execution.checkpointing.dir' = '{}'; SET 'execution.checkpointing.interval' = '3 ms'; SET 'execution.state-recovery.path' = 'latest';
         SET 'pipeline.name' = 'it'; INSERT INTO passed SELECT a FROM t",
        folder.path("in"),
        folder.path("passed"),
        folder.path("checkpoints")
    )
}

fn watch(folder: &Folder, more: &str) -> (Engine, Job) {
    let engine = Engine::new();
    let job = engine.session().sql(&watching(folder, more)).unwrap().detach().unwrap();
    (engine, job)
}

fn passed(folder: &Folder) -> Vec<String> {
    written(&folder.0.join("passed"))
}

#[test]
fn hidden_files_and_those_that_do_not_match_are_left_out() {
    let folder = Folder::new("hidden");
    folder.add("b.csv", "b\n");
    folder.add("a.txt", "other\n");
    folder.add("_SUCCESS", "success\n");
    let (engine, job) = watch(&folder, ", 'source.path.regex-pattern' = '.*/in/.*[.]csv'");
    wait_for("the first file is read", || passed(&folder) == ["b"]);
    folder.add("c.txt", "other\n");
    fs::create_dir_all(folder.path("in/deep/_temporary")).unwrap();
    fs::write(folder.path("in/deep/_temporary/x.csv"), "temporary\n").unwrap();
    // Before the first by its name, and found later.
    folder.add("a.csv", "a\n");
    folder.add("deep/d.csv", "d\n");
    wait_for("the others are read", || passed(&folder).len() >= 3);
    drain(&engine, &job);
    assert_eq!(passed(&folder), ["a", "b", "d"]);
}

#[test]
fn a_file_that_was_read_may_be_removed_and_one_that_was_read_in_part_may_not() {
    let folder = Folder::new("removed");
    folder.add("1.csv", "1\n");
    let (_engine, job) = watch(&folder, "");
    wait_for("the first file is read", || passed(&folder) == ["1"]);
    fs::remove_file(folder.path("in/1.csv")).unwrap();
    folder.add("2.csv", "2\n");
    wait_for("the second file is read", || passed(&folder) == ["1", "2"]);
    job.abort();
    let _ = job.wait();
    // A name that nobody has is free again.
    std::thread::sleep(Duration::from_millis(10));
    folder.add("1.csv", "new\n");
    let (_engine, job) = watch(&folder, "");
    wait_for("the new file is read", || passed(&folder) == ["1", "2", "new"]);
    job.abort();
    let _ = job.wait();
}

#[test]
fn a_file_that_was_cut_off_or_removed_when_it_was_read_in_part_is_an_error() {
    let folder = Folder::new("cut-off");
    // Rows enough that nobody reads them all before the first checkpoint.
    let text: String = (0..2_000_000).map(|row| format!("{row}\n")).collect();
    folder.add("1.csv", &text);
    let (_engine, job) = watch(&folder, "");
    wait_for("there is a checkpoint behind some rows", || !passed(&folder).is_empty());
    job.abort();
    let _ = job.wait();
    assert!(passed(&folder).len() < 2_000_000);
    fs::write(folder.path("in/1.csv"), "0\n1\n").unwrap();
    let (_engine, job) = watch(&folder, "");
    let error = job.wait().unwrap_err().to_string();
    assert!(error.contains("/in/1.csv: has 4 bytes, and was read up to byte "), "{error}");
    fs::remove_file(folder.path("in/1.csv")).unwrap();
    let started = Engine::new().session().sql(&watching(&folder, "")).and_then(|query| query.detach());
    let Err(error) = started else { panic!("its file is gone") };
    assert!(error.to_string().ends_with("/in/1.csv was read in part, and is not there any more"), "{error}");
}
