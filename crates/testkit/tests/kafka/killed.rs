//! Processes that are killed with SIGKILL at random moments and started again: what readers of committed messages see is what a run writes that nobody disturbs.
//!
//! `PELTON_KILLS` sets how often they are killed.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use pelton::Engine;
use pelton_testkit::kafka_broker::{Broker, Sent, broker, shown};

use crate::{PATIENCE, definition, topic};

/// Names the script of a process that is there to be killed.
const SCRIPT: &str = "PELTON_KILLED_SCRIPT";

const PARTITIONS: i32 = 2;

/// Messages of each partition that come while one process lives.
const MESSAGES_PER_KILL: i64 = 2_000;

/// What a process does that is killed. As a test it does nothing.
#[test]
fn process() {
    let Ok(path) = env::var(SCRIPT) else { return };
    let script = fs::read_to_string(path).unwrap();
    Engine::new().session().sql(&script).unwrap().wait().unwrap();
}

/// A process that is killed when the test ends.
struct Running(Child);

impl Running {
    fn start(script: &std::path::Path) -> Running {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "killed::process", "--nocapture"]).env(SCRIPT, script);
        Running(command.stdout(Stdio::null()).spawn().unwrap())
    }

    /// Whether it ends by itself within that time: then it must not have failed.
    fn ends_within(&mut self, time: Duration) -> bool {
        let began = Instant::now();
        while began.elapsed() < time {
            if let Some(status) = self.0.try_wait().unwrap() {
                assert!(status.success(), "{status}");
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

fn kills() -> u64 {
    env::var("PELTON_KILLS").ok().map_or(5, |text| text.parse().expect("PELTON_KILLS is a number"))
}

/// A number that looks random.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// The message of a partition with a number: a key, a value and a time in milliseconds.
fn message(partition: i32, number: i64) -> (i64, i64, i64) {
    let mut state = (number * i64::from(PARTITIONS)) as u64 + partition as u64;
    next(&mut state);
    ((next(&mut state) % 5) as i64, (next(&mut state) % 1_000) as i64, number * 3)
}

/// Rows of both outputs, as a run writes them that nobody disturbs.
fn expected(messages: i64) -> [Vec<String>; 2] {
    let (mut totals, mut large) = (BTreeMap::new(), Vec::new());
    for (partition, number) in
        (0..PARTITIONS).flat_map(|partition| (0..messages).map(move |number| (partition, number)))
    {
        let (key, value, millis) = message(partition, number);
        let (count, sum) = totals.entry((millis / 500, key)).or_insert((0_i64, 0_i64));
        (*count, *sum) = (*count + 1, *sum + value);
        if value >= 900 {
            large.push(format!("{key},{value},{millis}"));
        }
    }
    let row =
        |((window, key), (count, sum)): (&(i64, i64), &(i64, i64))| format!("{},{key},{count},{sum}", window * 500);
    let mut totals: Vec<String> = totals.iter().map(row).collect();
    totals.sort_unstable();
    large.sort_unstable();
    [totals, large]
}

/// Aggregates windows of a topic into one topic, and filters it into another.
fn script(broker: &Broker, directory: &str, [from, totals, large]: [&str; 3], messages: i64) -> String {
    let ends: Vec<String> =
        (0..PARTITIONS).map(|partition| format!("partition:{partition},offset:{messages}")).collect();
    let input = format!(
        "'format' = 'csv', 'scan.startup.mode' = 'earliest-offset', 'scan.watermark.idle-timeout' = '0', 'scan.bounded.mode' = 'specific-offsets',
         'scan.bounded.specific-offsets' = '{}'",
        ends.join(";")
    );
    let once = format!(
        "'format' = 'csv', 'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{from}'"
    );
    let input = definition(
        "t",
        broker,
        "k BIGINT, v BIGINT, ms BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts",
        from,
        &input,
    );
    let total = definition("total", broker, "s BIGINT, k BIGINT, c BIGINT, v BIGINT", totals, &once);
    let large = definition("large", broker, "k BIGINT, v BIGINT, ms BIGINT", large, &once);
    format!(
        "SET 'execution.checkpointing.dir' = '{directory}'; SET 'execution.checkpointing.interval' = '30 ms'; SET 'execution.state-recovery.path' = 'latest';
         SET 'pipeline.name' = 'killed'; {input}; {total}; {large};
         EXECUTE STATEMENT SET BEGIN
         INSERT INTO total SELECT MIN(ms) / 500 * 500, k, COUNT(*), SUM(v) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.500' SECOND))
           GROUP BY window_start, window_end, k;
         INSERT INTO large SELECT k, v, ms FROM t WHERE v >= 900;
         END"
    )
}

/// Sends messages up to a number of each partition.
fn send_until(broker: &Broker, topic: &str, sent: &mut i64, until: i64) {
    let texts: Vec<(i32, String)> = (*sent..until)
        .flat_map(|number| (0..PARTITIONS).map(move |partition| (partition, message(partition, number))))
        .map(|(partition, (key, value, millis))| (partition, format!("{key},{value},{millis}")))
        .collect();
    broker.send(topic, texts.iter().map(|(partition, text)| Sent::new(*partition, text)));
    *sent = until;
}

#[test]
fn a_job_that_is_killed_writes_each_row_once_from_topic_to_topic() {
    let Some(broker) = broker() else { return };
    let directory = env::temp_dir().join(format!("pelton-kafka-killed-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let [from, totals, large] = [topic(broker, PARTITIONS), topic(broker, 1), topic(broker, 2)];
    let messages = MESSAGES_PER_KILL * (kills() as i64 + 1);
    let path = directory.join("job.sql");
    let checkpoints = directory.join("checkpoints").display().to_string();
    fs::write(&path, script(broker, &checkpoints, [&from, &totals, &large], messages)).unwrap();
    let (mut state, mut sent) = (11, 0);
    for kill in 0..kills() as i64 {
        let mut running = Running::start(&path);
        let until = Instant::now() + Duration::from_millis(200 + next(&mut state) % 1_200);
        while Instant::now() < until {
            // They come while it runs.
            let next = (sent + 50).min(MESSAGES_PER_KILL * (kill + 1));
            send_until(broker, &from, &mut sent, next);
            assert!(!running.ends_within(Duration::from_millis(10)), "it does not end before its input");
        }
    }
    send_until(broker, &from, &mut sent, messages);
    assert!(Running::start(&path).ends_within(PATIENCE), "it ends");
    let rows = |topic: &str| {
        let messages = broker.read(topic);
        let value = |message| shown(message).splitn(3, '|').last().unwrap_or_default().to_owned();
        let mut rows: Vec<String> = messages.iter().map(value).collect();
        rows.sort_unstable();
        rows
    };
    let ([total, large], [expected_total, expected_large]) = ([rows(&totals), rows(&large)], expected(messages));
    assert!(total == expected_total, "{} rows of windows, and {} undisturbed", total.len(), expected_total.len());
    assert!(large == expected_large, "{} rows, and {} undisturbed", large.len(), expected_large.len());
    let _ = fs::remove_dir_all(directory);
}
