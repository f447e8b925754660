//! The real thing: processes that are killed with SIGKILL at random moments and started again. What they have committed is what they write undisturbed.
//!
//! `PELTON_KILLS` sets how often each is killed at least.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A directory that is removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("pelton-killed-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process that is killed when the test ends.
struct Running(Child);

impl Running {
    fn start(arguments: &[&str]) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pelton"));
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::piped());
        Running(command.spawn().unwrap())
    }

    /// Whether it ends by itself within that time: then it must not have failed.
    fn ends_within(&mut self, time: Duration) -> bool {
        let began = Instant::now();
        while began.elapsed() < time {
            if let Some(status) = self.0.try_wait().unwrap() {
                let mut said = String::new();
                if let Some(mut errors) = self.0.stderr.take() {
                    let _ = std::io::Read::read_to_string(&mut errors, &mut said);
                }
                assert!(status.success(), "{status}: {said}");
                return true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SIGKILL, where it has not ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn kills() -> u32 {
    std::env::var("PELTON_KILLS").ok().map_or(6, |text| text.parse().expect("PELTON_KILLS is a number"))
}

/// A number that looks random.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Bids, and their auctions, whose windows are aggregated and joined: two seconds of both, as they come.
fn script(folder: &Path, settings: &str) -> String {
    let out = |name: &str| folder.join(name).display().to_string();
    format!(
        "CREATE TABLE bid (auction BIGINT, price BIGINT, dateTime TIMESTAMP(3), WATERMARK FOR dateTime AS dateTime - INTERVAL '0.010' SECOND)
         WITH ('connector' = 'nexmark', 'table' = 'bid', 'number-of-events' = '100000', 'rows-per-second' = '50000');
         CREATE TABLE auction (id BIGINT, category BIGINT, dateTime TIMESTAMP(3), WATERMARK FOR dateTime AS dateTime - INTERVAL '0.010' SECOND)
         WITH ('connector' = 'nexmark', 'table' = 'auction', 'number-of-events' = '100000', 'rows-per-second' = '50000');
         CREATE TABLE total (s TIMESTAMP(3), auction BIGINT, bids BIGINT, price BIGINT)
         WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{}');
         CREATE TABLE joined (s TIMESTAMP(3), id BIGINT, category BIGINT, bids BIGINT)
         WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{}');
         SET 'execution.checkpointing.interval' = '50 ms'; {settings} SET 'pipeline.name' = 'totals';
         EXECUTE STATEMENT SET BEGIN
         INSERT INTO total SELECT window_start, auction, COUNT(*), SUM(price) FROM HOP(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '0.050' SECOND, INTERVAL '0.150' SECOND)
           GROUP BY window_start, window_end, auction;
         INSERT INTO joined SELECT a.window_start, a.id, a.category, b.bids FROM TUMBLE(TABLE auction, DESCRIPTOR(dateTime), INTERVAL '0.100' SECOND) AS a
           JOIN (SELECT window_start, window_end, auction, COUNT(*) AS bids FROM TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '0.100' SECOND)
                 GROUP BY window_start, window_end, auction) AS b
           ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.id = b.auction;
         END;",
        out("total"),
        out("joined")
    )
}

/// The rows of all files of a directory that are visible, sorted.
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

fn outputs(folder: &Path) -> [Vec<String>; 2] {
    ["total", "joined"].map(|table| written(&folder.join(table)))
}

/// What the script writes undisturbed.
fn expected(test: &str) -> [Vec<String>; 2] {
    let folder = Folder::new(&format!("{test}-undisturbed"));
    let path = folder.0.join("job.sql");
    fs::write(&path, script(&folder.0, "")).unwrap();
    assert!(Running::start(&["run", path.to_str().unwrap()]).ends_within(Duration::from_secs(120)));
    let outputs = outputs(&folder.0);
    assert!(outputs.iter().all(|rows| rows.len() > 100), "{:?}", outputs.map(|rows| rows.len()));
    outputs
}

#[test]
fn a_script_that_is_killed_and_restored_writes_each_row_once() {
    let folder = Folder::new("script");
    let path = folder.0.join("job.sql");
    let checkpoints = folder.0.join("checkpoints").display().to_string();
    fs::write(&path, script(&folder.0, &format!("SET 'execution.checkpointing.dir' = '{checkpoints}';"))).unwrap();
    let (mut state, mut killed) = (3, 0);
    loop {
        let mut running = Running::start(&["run", path.to_str().unwrap(), "--restore"]);
        let millis = 30 + next(&mut state) % 400;
        let time = if killed < kills() { Duration::from_millis(millis) } else { Duration::from_secs(120) };
        if running.ends_within(time) {
            break;
        }
        assert!(killed < kills(), "it does not end");
        killed += 1;
    }
    assert!(killed > 0, "it was killed");
    assert!(outputs(&folder.0) == expected("script"), "after {killed} kills");
}

#[test]
fn a_server_that_is_killed_goes_on_with_its_jobs() {
    let folder = Folder::new("server");
    let path = folder.0.join("job.sql");
    fs::write(&path, script(&folder.0, "")).unwrap();
    let data = folder.0.join("data").display().to_string();
    let (mut state, mut killed) = (5, 0);
    let has_job = || {
        let jobs = fs::read_dir(folder.0.join("data")).unwrap();
        jobs.into_iter().any(|entry| entry.unwrap().file_name().to_string_lossy().starts_with("job-"))
    };
    let serve = ["serve", "--postgres", "127.0.0.1:0", "--data", &data];
    {
        let mut running = Running::start(&[&serve[..], &["--file", path.to_str().unwrap()]].concat());
        let began = Instant::now();
        while !folder.0.join("data").exists() || !has_job() {
            assert!(!running.ends_within(Duration::from_millis(2)), "it serves");
            assert!(began.elapsed() < Duration::from_secs(60), "the job does not start");
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    while has_job() {
        let mut running = Running::start(&serve);
        let time = if killed < kills() { 30 + next(&mut state) % 400 } else { 60_000 };
        let began = Instant::now();
        while has_job() && began.elapsed() < Duration::from_millis(time) {
            assert!(!running.ends_within(Duration::from_millis(2)), "it serves");
        }
        assert!(killed < kills() || !has_job(), "it does not end");
        killed += 1;
    }
    assert!(killed > 1, "it was killed");
    assert!(outputs(&folder.0) == expected("server"), "after {killed} kills");
}

const FILES: usize = 20;
const FILE_ROWS: usize = 1_000;

/// Rows a millisecond apart, whose windows become files in a directory for each second.
fn watching_script(folder: &Path) -> String {
    format!(
        "CREATE TABLE bid (auction BIGINT, price BIGINT, dateTime TIMESTAMP(3), WATERMARK FOR dateTime AS dateTime)
         WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{}', 'source.monitor-interval' = '10 ms');
         CREATE TABLE total (auction BIGINT, bids BIGINT, price BIGINT, dt STRING, t STRING) PARTITIONED BY (dt, t)
         WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{}', 'sink.rolling-policy.file-size' = '1 kb',
               'sink.partition-commit.policy.kind' = 'success-file', 'sink.partition-commit.trigger' = 'partition-time',
               'sink.partition-commit.delay' = '1 s', 'partition.time-extractor.timestamp-pattern' = '$dt $t');",
        folder.join("in").display(),
        folder.join("out").display()
    )
}

/// The rows that are visible in the partitions, sorted.
fn totals(folder: &Path) -> Vec<String> {
    let path = folder.join("read.sql");
    fs::write(&path, watching_script(folder) + "SELECT auction, bids, price, dt, t FROM total;").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pelton"));
    let output = command.args(["run", "--format", "csv", path.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut rows: Vec<String> = text.lines().filter(|line| !line.starts_with("auction")).map(str::to_owned).collect();
    rows.sort_unstable();
    rows
}

/// All rows of windows of a tenth of a second.
fn expected_totals() -> Vec<String> {
    let mut rows = Vec::new();
    for window in 0..FILES * FILE_ROWS / 100 {
        for auction in 0..5 {
            let price: usize = (window * 100..(window + 1) * 100).filter(|row| row % 5 == auction).sum();
            rows.push(format!("{auction},20,{price},2024-01-01,00:00:{:02}", window / 10));
        }
    }
    rows.sort_unstable();
    rows
}

/// Adds a file of rows to the directory that is watched, as a whole.
fn add_file(folder: &Path, file: usize) {
    let millis = |row: usize| format!("2024-01-01 00:00:{:02}.{:03}", row / 1_000, row % 1_000);
    let line = |row: usize| format!("{},{row},{}\n", row % 5, millis(row));
    let text: String = match file {
        // A row that completes all windows before it.
        FILES => line(FILES * FILE_ROWS + 10_000),
        file => (file * FILE_ROWS..(file + 1) * FILE_ROWS).map(line).collect(),
    };
    fs::write(folder.join("in/.unfinished"), text).unwrap();
    fs::rename(folder.join("in/.unfinished"), folder.join(format!("in/{file:03}.csv"))).unwrap();
}

#[test]
fn a_watched_directory_becomes_partitions_that_have_each_row_once() {
    let folder = Folder::new("watched");
    fs::create_dir_all(folder.0.join("in")).unwrap();
    let path = folder.0.join("job.sql");
    let script = watching_script(&folder.0)
        + &format!(
            "SET 'execution.checkpointing.interval' = '20 ms'; SET 'execution.checkpointing.dir' = '{}'; SET 'pipeline.name' = 'totals';
             INSERT INTO total SELECT auction, COUNT(*), SUM(price), DATE_FORMAT(window_start, 'yyyy-MM-dd'), DATE_FORMAT(window_start, 'HH:mm:ss')
             FROM TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '0.1' SECOND) GROUP BY window_start, window_end, auction;",
            folder.0.join("checkpoints").display()
        );
    fs::write(&path, script).unwrap();
    let (mut state, mut file) = (9, 0);
    for killed in 0..=kills() {
        let mut running = Running::start(&["run", path.to_str().unwrap(), "--restore"]);
        let files = (FILES + 1).div_ceil(kills() as usize + 1).max(1);
        let has_next = |file: usize| file <= FILES;
        for _ in 0..files {
            assert!(!running.ends_within(Duration::from_millis(20 + next(&mut state) % 150)), "it does not end");
            if has_next(file) {
                add_file(&folder.0, file);
                file += 1;
            }
        }
        if killed == kills() {
            (file..=FILES).for_each(|file| add_file(&folder.0, file));
            let (began, expected) = (Instant::now(), expected_totals());
            while totals(&folder.0).len() < expected.len() {
                assert!(
                    began.elapsed() < Duration::from_secs(120),
                    "{} of {} rows",
                    totals(&folder.0).len(),
                    expected.len()
                );
                assert!(!running.ends_within(Duration::from_millis(50)), "it does not end");
            }
        }
    }
    assert!(totals(&folder.0) == expected_totals(), "after {} kills", kills());
    let parts = folder.0.join("out/dt=2024-01-01");
    for second in 0..FILES {
        assert!(parts.join(format!("t=00%3A00%3A{second:02}/_SUCCESS")).exists(), "second {second}");
    }
}
