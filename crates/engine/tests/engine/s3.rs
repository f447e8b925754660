//! Jobs whose tables and checkpoints are in S3, and that are killed: what they have written is what they would have without that.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pelton::Session;

#[path = "../../../connectors/tests/support/moto.rs"]
#[allow(dead_code, reason = "the tests of connectors use more of it")]
mod moto;

/// What the child runs, as a variable of its environment.
const JOB: &str = "PELTON_TEST_JOB";

/// How often it is killed at most.
const KILLS_MAX: usize = 4;

const SQL: &str = "
    CREATE TABLE a (k INT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
    WITH ('connector' = 'filesystem', 'path' = 's3://jobs/in/', 'format' = 'csv');
    CREATE TABLE result (at TIMESTAMP(3), k INT, total BIGINT, number BIGINT)
    WITH ('connector' = 'filesystem', 'path' = 's3://jobs/out/', 'format' = 'csv');
    SET 'execution.checkpointing.dir' = 's3://jobs/checkpoints'; SET 'execution.checkpointing.interval' = '50 ms';
    SET 'execution.state-recovery.path' = 'latest'; SET 'pipeline.name' = 'it';
    INSERT INTO result SELECT window_start, k, SUM(v), COUNT(*)
    FROM TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '1' SECOND) GROUP BY window_start, window_end, k;";

/// Run by the other test, in a process of its own that can be killed.
#[test]
#[ignore = "the other test runs it"]
fn job() {
    if let Ok(text) = std::env::var(JOB) {
        Session::new().sql(&text).unwrap().wait().unwrap();
    }
}

/// Puts the input into the bucket, and returns the rows of the result.
fn put_input(server: &moto::Server) -> Vec<String> {
    let mut totals: BTreeMap<(u64, u64), (u64, u64)> = BTreeMap::new();
    let rows = 1_500_000;
    for file in 0..2 {
        let mut text = String::new();
        for row in 0..rows {
            let (key, value, second) = ((row + file) % 7, row * 31 % 1_000, row * 600 / rows);
            text += &format!("{key},{value},2024-01-01 00:{:02}:{:02}.000\n", second / 60, second % 60);
            let total = totals.entry((second, key)).or_default();
            *total = (total.0 + value, total.1 + 1);
        }
        server.put(&format!("jobs/in/{file}.csv"), text.as_bytes());
    }
    let row = |(&(second, key), &(total, number)): (&(u64, u64), &(u64, u64))| {
        format!("2024-01-01 00:{:02}:{:02},{key},{total},{number}", second / 60, second % 60)
    };
    let mut rows: Vec<String> = totals.iter().map(row).collect();
    rows.sort_unstable();
    rows
}

#[test]
fn a_job_in_s3_that_is_killed_writes_its_rows_once() {
    let Some(server) = moto::server() else { return };
    server.create_bucket("jobs");
    let expected = put_input(server);
    let written = || server.names("jobs").into_iter().filter(|name| name.starts_with("out/")).collect::<Vec<_>>();
    let (began, mut kills) = (Instant::now(), 0);
    loop {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "s3::job", "--ignored", "--quiet"]).env(JOB, SQL);
        child.env("AWS_ENDPOINT_URL", server.endpoint()).env("AWS_ALLOW_HTTP", "true").env("AWS_REGION", "us-east-1");
        child.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
        let mut child = child.stdout(Stdio::null()).spawn().unwrap();
        let before = written().len();
        // Killed as soon as a checkpoint of its own has made rows visible, which may be in the middle of the next one.
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            if kills < KILLS_MAX && written().len() > before {
                break None;
            }
            assert!(began.elapsed() < Duration::from_secs(300), "the job does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        if let Some(status) = status {
            assert!(status.success(), "the job failed");
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
    }
    assert!(kills > 0, "nothing was killed");
    let texts: Vec<String> = written().into_iter().map(|name| server.get(&format!("jobs/{name}"))).collect();
    let mut written: Vec<&str> = texts.iter().flat_map(|text| text.lines()).collect();
    written.sort_unstable();
    // Whole seconds may be written with thousandths.
    let written: Vec<String> = written.iter().map(|row| row.replacen(".000,", ",", 1)).collect();
    assert!(written == expected, "{} rows, and {} are expected", written.len(), expected.len());
    assert!(server.names("jobs").iter().any(|name| name.starts_with("checkpoints/it/")));
}
