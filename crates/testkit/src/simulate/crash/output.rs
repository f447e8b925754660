//! Where a job writes: topics of a broker, and files, one or those of a directory. Files are those of the connector `filesystem`, on the simulated disk.

use std::sync::Arc;

use pelton::Session;

use super::super::Dice;
use super::super::kinds::Kind;
use super::broker::{Broker, Values};
use super::disk::SimulatedDisk;
use super::topic::Topic;

/// The directory that tables of files are in.
const DIRECTORY: &str = "/simulated";

/// An output.
pub(super) enum Output {
    Topic(Arc<Topic>),
    /// One file, whose lines are visible at its end.
    File {
        name: String,
    },
    /// Files, whose lines are visible with a checkpoint or when there are enough.
    Directory {
        name: String,
        file_size: &'static str,
    },
}

impl Output {
    pub fn new(name: String, partitions: usize, broker: &Broker, dice: &mut Dice) -> Output {
        match dice.below(4) {
            0 => Output::File { name },
            1 => Output::Directory { name, file_size: dice.pick(&["40 b", "1 kb", "1 mb"]) },
            _ => Output::Topic(Arc::new(Topic { name, partitions, broker: broker.clone() })),
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Output::Topic(topic) => &topic.name,
            Output::File { name } | Output::Directory { name, .. } => name,
        }
    }

    /// What it is, for people.
    pub fn kind(&self) -> &'static str {
        match self {
            Output::Topic(_) => "a topic",
            Output::File { .. } => "a file",
            Output::Directory { .. } => "a directory",
        }
    }

    /// Makes its table.
    pub fn declare(&self, session: &Session, kind: Kind) -> Result<(), pelton::Error> {
        let (columns, name) = (kind.columns(), self.name());
        let options = match self {
            Output::Topic(topic) => return session.provide_table(name, &columns, topic.clone()),
            Output::File { .. } => format!("'path' = '{DIRECTORY}/{name}.csv'"),
            Output::Directory { file_size, .. } => format!(
                "'path' = '{DIRECTORY}/{name}', 'format' = 'csv', 'sink.rolling-policy.file-size' = '{file_size}'"
            ),
        };
        let create = format!("CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', {options})");
        session.prepare(&create).and_then(|prepared| session.execute(&prepared[0]).map(drop))
    }

    /// The partition that a row is written to.
    pub fn partition_of(&self, row: &Values) -> usize {
        match self {
            Output::Topic(topic) => Topic::partition_of(row, topic.partitions),
            Output::File { .. } | Output::Directory { .. } => 0,
        }
    }

    /// The rows that are visible, partition by partition.
    pub fn committed(&self, disk: &SimulatedDisk) -> Vec<Vec<Values>> {
        match self {
            Output::Topic(topic) => topic.broker.committed(&topic.name),
            Output::File { name } => {
                let files = disk.files(DIRECTORY);
                let file = files.into_iter().find(|(file, _)| *file == format!("{name}.csv"));
                vec![file.map_or(Vec::new(), |(_, bytes)| values_of_lines(&bytes))]
            }
            Output::Directory { name, .. } => {
                let files = disk.files(&format!("{DIRECTORY}/{name}"));
                let mut parts: Vec<(usize, Vec<u8>)> =
                    files.into_iter().filter_map(|(name, bytes)| Some((number_of_part(&name)?, bytes))).collect();
                parts.sort_unstable();
                vec![parts.iter().flat_map(|(_, bytes)| values_of_lines(bytes)).collect()]
            }
        }
    }
}

/// The number of a part that is visible.
fn number_of_part(name: &str) -> Option<usize> {
    let number = name.strip_suffix(".csv").filter(|name| !name.starts_with('.'))?.rsplit_once('-')?.1;
    Some(number.parse().expect("a part has a number"))
}

fn values_of_lines(bytes: &[u8]) -> Vec<Values> {
    let text = std::str::from_utf8(bytes).expect("lines are text");
    assert!(text.is_empty() || text.ends_with('\n'), "lines are whole: {text:?}");
    text.lines().map(|line| line.split(',').map(value_of).collect()).collect()
}

/// A number, or the milliseconds of a time on the first day of 1970.
fn value_of(text: &str) -> i64 {
    let Some(time) = text.strip_prefix("1970-01-01 ") else {
        return text.parse().unwrap_or_else(|_| panic!("{text:?} is no number"));
    };
    let (seconds, millis) = time.split_once('.').unwrap_or((time, "0"));
    let seconds = seconds.split(':').fold(0, |sum, part| 60 * sum + part.parse::<i64>().expect("it is a time"));
    1_000 * seconds + format!("{millis:0<3}").parse::<i64>().expect("it is a time")
}
