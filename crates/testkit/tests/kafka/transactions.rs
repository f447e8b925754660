//! Jobs that write to topics exactly once.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use pelton::job::{Job, JobState};
use pelton::{Engine, Session};
use pelton_testkit::kafka_broker::{Broker, broker, shown};

use crate::{definition, execute, send, topic};

/// A directory that is removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("pelton-kafka-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// Where the checkpoints of the job are.
    fn job(&self) -> PathBuf {
        self.0.join("totals")
    }

    /// As a disk that is full: no checkpoint can be written.
    fn take_away(&self) {
        fs::rename(self.job(), self.0.join("away")).unwrap();
    }

    fn bring_back(&self) {
        let _ = fs::remove_dir_all(self.job());
        fs::rename(self.0.join("away"), self.job()).unwrap();
    }

    /// As if the process had ended before its last checkpoint was complete: its transaction is committed, and nobody knows. Returns its number.
    fn make_last_pending(&self) -> u64 {
        let names = fs::read_dir(self.job()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let last = names.filter(|name| name.starts_with("checkpoint-")).max().unwrap();
        fs::rename(self.job().join(&last), self.job().join(format!("pending-{last}"))).unwrap();
        last["checkpoint-".len()..last.len() - ".json".len()].parse().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A session whose jobs have checkpoints, with a table to read and one to write exactly once.
fn session(broker: &Broker, folder: &Folder, [from, to]: [&str; 2], interval: &str, options: &str) -> Session {
    let session = Engine::new().session();
    let settings = format!(
        "SET 'execution.checkpointing.dir' = '{}'; SET 'execution.checkpointing.interval' = '{interval}';
         SET 'execution.state-recovery.path' = 'latest'; SET 'pipeline.name' = 'totals'",
        folder.0.display()
    );
    execute(&session, &settings);
    let common = "'format' = 'csv', 'scan.startup.mode' = 'earliest-offset'";
    execute(&session, &definition("t", broker, "a INT", from, common));
    let options = format!(
        "'format' = 'csv', 'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{to}' {options}"
    );
    execute(&session, &definition("u", broker, "a INT", to, &options));
    session
}

fn start(session: &Session) -> Job {
    session.sql("INSERT INTO u SELECT a + 1 FROM t").unwrap().detach().unwrap()
}

/// The values of a topic that are committed.
fn values(broker: &Broker, topic: &str) -> Vec<String> {
    broker.read(topic).iter().map(|message| shown(message)["0|-|".len()..].to_owned()).collect()
}

/// Waits until so many checkpoints more are complete.
fn await_checkpoints(job: &Job, more: u64) {
    let before = job.checkpoints().unwrap().completed;
    crate::until(|| {
        assert_eq!(job.error(), None);
        job.checkpoints().unwrap().completed >= before + more
    });
}

#[test]
fn rows_are_visible_with_checkpoints_and_once() {
    let Some(broker) = broker() else { return };
    let (folder, from, to) = (Folder::new("once"), topic(broker, 1), topic(broker, 1));
    send(broker, &from, 0, &["1", "2"]);
    {
        let session = session(broker, &folder, [&from, &to], "10 min", "");
        let job = start(&session);
        crate::until(|| job.progress().sinks[0].rows == 2);
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(values(broker, &to), [""; 0], "they are not visible before a checkpoint");
        execute(&session, "STOP JOB 'totals' WITH SAVEPOINT");
        job.wait().unwrap();
        assert_eq!(values(broker, &to), ["2", "3"], "a savepoint makes them so");
    }
    send(broker, &from, 0, &["3"]);
    {
        let session = session(broker, &folder, [&from, &to], "20 ms", "");
        let job = start(&session);
        crate::until(|| values(broker, &to).len() == 3);
        await_checkpoints(&job, 2);
        job.abort();
        let _ = job.wait();
    }
    send(broker, &from, 0, &["4"]);
    {
        let session = session(broker, &folder, [&from, &to], "10 min", "");
        let job = start(&session);
        crate::until(|| job.progress().sinks[0].rows == 4);
        job.abort();
        let _ = job.wait();
        assert_eq!(values(broker, &to), ["2", "3", "4"]);
    }
    let session = session(broker, &folder, [&from, &to], "10 min", "");
    let job = start(&session);
    crate::until(|| job.progress().sinks[0].rows == 4);
    job.stop();
    job.wait().unwrap();
    assert_eq!(values(broker, &to), ["2", "3", "4", "5"], "the end of a job commits");
}

#[test]
fn a_checkpoint_whose_transaction_was_committed_counts() {
    let Some(broker) = broker() else { return };
    let (folder, from, to) = (Folder::new("pending"), topic(broker, 1), topic(broker, 1));
    send(broker, &from, 0, &["1", "2"]);
    let run = || {
        let session = session(broker, &folder, [&from, &to], "10 min", "");
        let job = start(&session);
        let restored_from = job.checkpoints().unwrap().restored_from;
        crate::until(|| job.progress().sources[0].rows == 2 || restored_from.is_some());
        job.stop();
        job.wait().unwrap();
        restored_from
    };
    run();
    let pending = folder.make_last_pending();
    assert_eq!(run(), Some(pending));
    assert_eq!(values(broker, &to), ["2", "3"]);
    // The marker of a run that is restarted without any new row tells the same.
    assert_eq!(run(), Some(pending + 1));
    // A transaction that nobody remembers is asked for.
    send(broker, &from, 0, &["3"]);
    {
        let session = session(broker, &folder, [&from, &to], "10 min", "");
        let job = start(&session);
        crate::until(|| job.progress().sinks[0].rows == 3);
        job.stop();
        job.wait().unwrap();
    }
    let pending = folder.make_last_pending();
    broker.delete_group(&format!("{to}-totals-checkpoints"));
    let session = session(broker, &folder, [&from, &to], "10 min", "");
    let error = session.sql("INSERT INTO u SELECT a + 1 FROM t").err().unwrap().to_string();
    let expected = format!(
        "checkpoint {}/pending-checkpoint-{pending:010}.json: was written, and whether its transaction was committed is not known: the group \
         '{to}-totals-checkpoints' has no marker of it any more, as brokers forget offsets ('offsets.retention.minutes'). Look whether its rows are there: \
         if they are, go on from {pending}, and if not, from the one before it ('execution.state-recovery.path', or --restore with a number)",
        folder.job().display()
    );
    assert_eq!(error, expected);
    execute(&session, &format!("SET 'execution.state-recovery.path' = '{pending}'"));
    let job = start(&session);
    assert_eq!(job.checkpoints().unwrap().restored_from, Some(pending));
    job.stop();
    job.wait().unwrap();
    assert_eq!(values(broker, &to), ["2", "3", "4"]);
}

#[test]
fn of_two_jobs_of_one_name_the_later_one_writes() {
    let Some(broker) = broker() else { return };
    let (from, to) = (topic(broker, 1), topic(broker, 1));
    let folders = [Folder::new("first"), Folder::new("second")];
    let first = session(broker, &folders[0], [&from, &to], "20 ms", "");
    let fenced = start(&first);
    send(broker, &from, 0, &["1"]);
    crate::until(|| values(broker, &to) == ["2"]);
    let second = session(broker, &folders[1], [&from, &to], "20 ms", "");
    let job = start(&second);
    crate::until(|| values(broker, &to) == ["2", "2"]);
    send(broker, &from, 0, &["2"]);
    crate::until(|| values(broker, &to) == ["2", "2", "3"]);
    crate::until(|| fenced.state() == JobState::Failed);
    let error = fenced.error().unwrap().to_string();
    assert!(error.contains("another job has begun with the same 'sink.transactional-id-prefix' and name"), "{error}");
    job.stop();
    job.wait().unwrap();
}

/// A job that has committed one row of those sent, and has another one in a transaction that no checkpoint commits.
fn start_and_fill_disk(session: &Session, broker: &Broker, folder: &Folder, [from, to]: [&str; 2]) -> Job {
    let job = start(session);
    crate::until(|| values(broker, to) == ["2"]);
    folder.take_away();
    crate::until(|| job.checkpoints().unwrap().error.is_some());
    send(broker, from, 0, &["2"]);
    crate::until(|| job.progress().sinks[0].rows == 2);
    job
}

#[test]
fn a_transaction_that_is_open_for_too_long_fails_the_job() {
    let Some(broker) = broker() else { return };
    let (folder, from, to) = (Folder::new("timeout"), topic(broker, 1), topic(broker, 1));
    send(broker, &from, 0, &["1"]);
    let session = session(broker, &folder, [&from, &to], "100 ms", ", 'properties.transaction.timeout.ms' = '2000'");
    let job = start_and_fill_disk(&session, broker, &folder, [&from, &to]);
    assert_eq!(job.state(), JobState::Running);
    std::thread::sleep(Duration::from_secs(4));
    folder.bring_back();
    crate::until(|| job.state() == JobState::Failed);
    let error = job.error().unwrap().to_string();
    assert!(error.contains("It was open for longer than 'properties.transaction.timeout.ms'"), "{error}");
    let job = start(&session);
    crate::until(|| values(broker, &to) == ["2", "3"]);
    job.stop();
    job.wait().unwrap();
}

#[test]
fn a_checkpoint_that_cannot_be_written_is_made_up_for() {
    let Some(broker) = broker() else { return };
    let (folder, from, to) = (Folder::new("unwritable"), topic(broker, 1), topic(broker, 1));
    send(broker, &from, 0, &["1"]);
    let session = session(broker, &folder, [&from, &to], "20 ms", "");
    let job = start_and_fill_disk(&session, broker, &folder, [&from, &to]);
    let failed = job.checkpoints().unwrap().failed;
    crate::until(|| job.checkpoints().unwrap().failed > failed + 1);
    assert_eq!(values(broker, &to), ["2"]);
    send(broker, &from, 0, &["3"]);
    crate::until(|| job.progress().sinks[0].rows == 3);
    folder.bring_back();
    crate::until(|| values(broker, &to) == ["2", "3", "4"]);
    job.stop();
    job.wait().unwrap();
}

#[test]
fn a_broker_that_restarts_in_a_transaction_loses_nothing() {
    // Its own: others would miss it.
    let Some(_) = broker() else { return };
    let broker = Broker::start().unwrap();
    let (folder, from, to) = (Folder::new("restart"), topic(&broker, 1), topic(&broker, 1));
    let session = session(&broker, &folder, [&from, &to], "50 ms", ", 'sink.partitioner' = 'fixed'");
    let job = start(&session);
    let mut sent = 0;
    let mut send_some = |count: usize| {
        let numbers: Vec<String> = (sent..sent + count).map(|number| number.to_string()).collect();
        send(&broker, &from, 0, &numbers.iter().map(String::as_str).collect::<Vec<_>>());
        sent += count;
        sent
    };
    for _ in 0..3 {
        let rows = send_some(1_000);
        crate::until(|| job.progress().sinks[0].rows > rows as u64 - 1_000);
        broker.kill();
        std::thread::sleep(Duration::from_millis(200));
        broker.resume();
    }
    let rows = send_some(10);
    crate::until(|| {
        assert_eq!(job.error(), None);
        values(&broker, &to).len() >= rows
    });
    job.stop();
    job.wait().unwrap();
    assert_eq!(values(&broker, &to), (1..=rows).map(|number| number.to_string()).collect::<Vec<_>>());
}
