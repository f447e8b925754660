//! Jobs that are killed and go on from a checkpoint.

use std::fs;

use pelton::{Engine, Session};
use pelton_testkit::kafka_broker::{Broker, broker, shown};

use crate::{definition, execute, send, topic};

/// A session whose jobs have checkpoints in a directory, with a table to read and one to write.
fn session(broker: &Broker, directory: &str, topics: [&str; 2], options: &str) -> Session {
    let session = Engine::new().session();
    let settings = format!(
        "SET 'execution.checkpointing.dir' = '{directory}'; SET 'execution.checkpointing.interval' = '20 ms';
         SET 'execution.state-recovery.path' = 'latest'; SET 'pipeline.name' = 'totals'"
    );
    execute(&session, &settings);
    execute(&session, &definition("t", broker, "a INT", topics[0], &format!("'format' = 'csv', {options}")));
    execute(&session, &definition("u", broker, "total BIGINT", topics[1], "'format' = 'csv'"));
    session
}

const SUMS: &str = "INSERT INTO u SELECT SUM(a) FROM TABLE(TUMBLE_ROWS(TABLE t, 3)) GROUP BY window_start, window_end";

#[test]
fn a_job_goes_on_where_its_checkpoint_was() {
    let Some(broker) = broker() else { return };
    let (from, to) = (topic(broker, 1), topic(broker, 1));
    let directory = std::env::temp_dir().join(format!("pelton-kafka-restore-{}", std::process::id()));
    let path = directory.display().to_string();
    let written = || broker.read(&to).iter().map(shown).collect::<Vec<_>>();
    let options = "'scan.startup.mode' = 'earliest-offset', 'scan.topic-partition-discovery.interval' = '20 ms'";
    send(broker, &from, 0, &["1", "2", "3", "4"]);
    {
        let session = session(broker, &path, [&from, &to], options);
        let job = session.sql(SUMS).unwrap().detach().unwrap();
        crate::until(|| written() == ["0|-|6"]);
        // A checkpoint behind the fourth message.
        let completed = || job.checkpoints().unwrap().completed;
        let before = completed();
        crate::until(|| completed() > before + 1);
        job.abort();
    }
    send(broker, &from, 0, &["5", "6", "7"]);
    broker.add_partitions(&from, 2);
    {
        // Where it would begin else is of no interest.
        let session = session(
            broker,
            &path,
            [&from, &to],
            "'scan.startup.mode' = 'latest-offset', 'scan.topic-partition-discovery.interval' = '20 ms'",
        );
        let job = session.sql(SUMS).unwrap().detach().unwrap();
        crate::until(|| written().len() >= 2);
        assert_eq!(written(), ["0|-|6", "0|-|15"]);
        // The first of the new partition is among what is read.
        send(broker, &from, 1, &["100", "200"]);
        crate::until(|| written().len() >= 3);
        assert_eq!(written()[2], "0|-|307");
        job.abort();
    }
    let _ = fs::remove_dir_all(directory);
}

#[test]
fn a_checkpoint_commits_offsets_in_the_group() {
    let Some(broker) = broker() else { return };
    let (from, to) = (topic(broker, 2), topic(broker, 1));
    let directory = std::env::temp_dir().join(format!("pelton-kafka-group-{}", std::process::id()));
    send(broker, &from, 0, &["1", "2"]);
    let group = format!("group-of-{from}");
    let options = format!("'scan.startup.mode' = 'earliest-offset', 'properties.group.id' = '{group}'");
    let session = session(broker, &directory.display().to_string(), [&from, &to], &options);
    let job = session.sql(SUMS).unwrap().detach().unwrap();
    crate::until(|| broker.committed(&group, &from) == [2, 0]);
    send(broker, &from, 0, &["3"]);
    send(broker, &from, 1, &["4"]);
    crate::until(|| broker.committed(&group, &from) == [3, 1]);
    job.stop();
    job.wait().unwrap();
    let _ = fs::remove_dir_all(directory);
}
