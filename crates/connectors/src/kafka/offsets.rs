//! Where reading begins and ends in each partition.

use std::collections::BTreeMap;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::client::{Context, Properties, problem};
use super::discovery::{ATTEMPT_MAX, TopicPartition};
use super::topics::Topics;
use crate::ConnectorError;
use crate::options::Options;

/// Where reading begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Startup {
    Earliest,
    Latest,
    /// Behind what the group has committed.
    Group,
    /// At the first message of this time or later, in milliseconds since 1970.
    Timestamp(i64),
    /// By partition.
    Offsets(BTreeMap<i32, i64>),
}

/// Where reading ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Bounds {
    /// At the end of each partition as it is when reading begins.
    Latest,
    /// At what the group has committed.
    Group,
    /// Before the first message of this time or later, in milliseconds since 1970.
    Timestamp(i64),
    /// By partition.
    Offsets(BTreeMap<i32, i64>),
}

/// What stands for a mode, whose values follow when it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Unbounded,
    Earliest,
    Latest,
    Group,
    Timestamp,
    Offsets,
}

/// The names of options of one of both ends.
struct Names {
    mode: &'static str,
    offsets: &'static str,
    timestamp: &'static str,
}

const STARTUP: Names = Names {
    mode: "scan.startup.mode",
    offsets: "scan.startup.specific-offsets",
    timestamp: "scan.startup.timestamp-millis",
};

const BOUNDED: Names = Names {
    mode: "scan.bounded.mode",
    offsets: "scan.bounded.specific-offsets",
    timestamp: "scan.bounded.timestamp-millis",
};

impl Startup {
    pub(super) fn of(options: &Options) -> Result<Startup, ConnectorError> {
        let modes = [
            ("earliest-offset", Mode::Earliest),
            ("latest-offset", Mode::Latest),
            ("group-offsets", Mode::Group),
            ("timestamp", Mode::Timestamp),
            ("specific-offsets", Mode::Offsets),
        ];
        let mode = options.choice(STARTUP.mode, &modes)?.unwrap_or(Mode::Group);
        let (timestamp, offsets) = STARTUP.values(options, mode)?;
        Ok(match mode {
            Mode::Earliest | Mode::Unbounded => Startup::Earliest,
            Mode::Latest => Startup::Latest,
            Mode::Group => Startup::Group,
            Mode::Timestamp => Startup::Timestamp(timestamp),
            Mode::Offsets => Startup::Offsets(offsets),
        })
    }
}

impl Bounds {
    /// `None` where the table has no end.
    pub(super) fn of(options: &Options) -> Result<Option<Bounds>, ConnectorError> {
        let modes = [
            ("unbounded", Mode::Unbounded),
            ("latest-offset", Mode::Latest),
            ("group-offsets", Mode::Group),
            ("timestamp", Mode::Timestamp),
            ("specific-offsets", Mode::Offsets),
        ];
        let mode = options.choice(BOUNDED.mode, &modes)?.unwrap_or(Mode::Unbounded);
        let (timestamp, offsets) = BOUNDED.values(options, mode)?;
        Ok(match mode {
            Mode::Unbounded | Mode::Earliest => None,
            Mode::Latest => Some(Bounds::Latest),
            Mode::Group => Some(Bounds::Group),
            Mode::Timestamp => Some(Bounds::Timestamp(timestamp)),
            Mode::Offsets => Some(Bounds::Offsets(offsets)),
        })
    }
}

impl Names {
    /// The values that belong to a mode; those of others are refused.
    fn values(&self, options: &Options, mode: Mode) -> Result<(i64, BTreeMap<i32, i64>), ConnectorError> {
        let timestamp: Option<i64> = options.number(self.timestamp)?;
        let offsets = options.parsed(
            self.offsets,
            "partitions and offsets such as 'partition:0,offset:42;partition:1,offset:300'",
            parse_offsets,
        )?;
        let belonging = [
            (self.timestamp, timestamp.is_some(), Mode::Timestamp, "timestamp", "1700000000000"),
            (self.offsets, offsets.is_some(), Mode::Offsets, "specific-offsets", "partition:0,offset:42"),
        ];
        for (name, is_given, of, word, example) in belonging {
            match (is_given, mode == of) {
                (true, false) => {
                    return Err(ConnectorError::option(name, format!("needs '{}' = '{word}'", self.mode)));
                }
                (false, true) => {
                    options.required(name, example)?;
                }
                _ => {}
            }
        }
        Ok((timestamp.unwrap_or_default(), offsets.unwrap_or_default()))
    }
}

/// `partition:0,offset:42;partition:1,offset:300`
fn parse_offsets(text: &str) -> Option<BTreeMap<i32, i64>> {
    let pair = |text: &str| {
        let (partition, offset) = text.split_once(',')?;
        let partition =
            partition.trim().strip_prefix("partition:")?.trim().parse().ok().filter(|&number| number >= 0)?;
        let offset = offset.trim().strip_prefix("offset:")?.trim().parse().ok().filter(|&number| number >= 0)?;
        Some((partition, offset))
    };
    text.split(';').filter(|pair| !pair.trim().is_empty()).map(pair).collect()
}

/// Checks that what the modes need is there.
pub(super) fn check(
    startup: &Startup,
    bounds: Option<&Bounds>,
    topics: &Topics,
    properties: &Properties,
) -> Result<(), ConnectorError> {
    let is_single = matches!(topics, Topics::Names(names) if names.len() == 1);
    let specific = [
        (STARTUP.offsets, matches!(startup, Startup::Offsets(_))),
        (BOUNDED.offsets, matches!(bounds, Some(Bounds::Offsets(_)))),
    ];
    if let Some((name, _)) = specific.into_iter().find(|(_, is_asked)| *is_asked && !is_single) {
        return Err(ConnectorError::option(name, "is of the partitions of one topic, and the table may have several"));
    }
    let needs_group = [(STARTUP.mode, *startup == Startup::Group), (BOUNDED.mode, bounds == Some(&Bounds::Group))];
    if let Some((name, _)) = needs_group.into_iter().find(|(_, is_asked)| *is_asked)
        && properties.get("group.id").is_none()
    {
        let hint = if name == STARTUP.mode { ", which is the default" } else { "" };
        let problem =
            format!("is 'group-offsets'{hint}, and needs the 'properties.group.id' of a group; or use another mode");
        return Err(ConnectorError::option(name, problem));
    }
    Ok(())
}

/// Looks offsets up.
pub(super) struct Resolver<'a> {
    pub(super) consumer: &'a BaseConsumer<Context>,
    pub(super) properties: &'a Properties,
}

impl Resolver<'_> {
    /// The first offset to read of each partition.
    pub(super) fn starts(&self, startup: &Startup, partitions: &[TopicPartition]) -> Result<Vec<i64>, String> {
        match startup {
            Startup::Earliest => partitions.iter().map(|partition| self.ends(partition).map(|(low, _)| low)).collect(),
            Startup::Latest => partitions.iter().map(|partition| self.ends(partition).map(|(_, high)| high)).collect(),
            Startup::Timestamp(millis) => self.at(*millis, partitions),
            Startup::Group => self.committed_or(partitions, |partition| self.reset(partition)),
            Startup::Offsets(offsets) => {
                let committed = self.committed(partitions)?;
                let start = |(partition, committed): (&TopicPartition, Option<i64>)| match (
                    offsets.get(&partition.partition),
                    committed,
                ) {
                    (Some(&offset), _) => Ok(offset),
                    (None, Some(offset)) => Ok(offset),
                    (None, None) => self.ends(partition).map(|(low, _)| low),
                };
                partitions.iter().zip(committed).map(start).collect()
            }
        }
    }

    /// The offset before which reading of each partition ends.
    pub(super) fn stops(&self, bounds: &Bounds, partitions: &[TopicPartition]) -> Result<Vec<i64>, String> {
        let high = |partition: &TopicPartition| self.ends(partition).map(|(_, high)| high);
        match bounds {
            Bounds::Latest => partitions.iter().map(high).collect(),
            Bounds::Timestamp(millis) => self.at(*millis, partitions),
            Bounds::Group => self.committed_or(partitions, |partition| {
                Err(format!("the group '{}' has committed no offset of {partition}", self.properties.group()))
            }),
            Bounds::Offsets(offsets) => {
                let stop = |partition: &TopicPartition| match offsets.get(&partition.partition) {
                    Some(&offset) => Ok(offset),
                    None => high(partition),
                };
                partitions.iter().map(stop).collect()
            }
        }
    }

    /// The offsets of a partition's first message and behind its last.
    fn ends(&self, partition: &TopicPartition) -> Result<(i64, i64), String> {
        let ends = self.consumer.fetch_watermarks(&partition.topic, partition.partition, ATTEMPT_MAX);
        ends.map_err(|error| format!("the offsets of {partition} are not known: {}", problem(&error)))
    }

    /// Where a group begins that has committed nothing.
    fn reset(&self, partition: &TopicPartition) -> Result<i64, String> {
        match self.properties.get("auto.offset.reset") {
            Some("earliest" | "smallest" | "beginning") => self.ends(partition).map(|(low, _)| low),
            Some("latest" | "largest" | "end") => self.ends(partition).map(|(_, high)| high),
            _ => Err(format!(
                "the group '{}' has committed no offset of {partition}: say where to begin with \
                 'properties.auto.offset.reset' = 'earliest' or 'latest', or with another 'scan.startup.mode'",
                self.properties.group()
            )),
        }
    }

    fn committed_or(
        &self,
        partitions: &[TopicPartition],
        otherwise: impl Fn(&TopicPartition) -> Result<i64, String>,
    ) -> Result<Vec<i64>, String> {
        let committed = self.committed(partitions)?;
        let offset = |(committed, partition): (Option<i64>, _)| committed.map_or_else(|| otherwise(partition), Ok);
        committed.into_iter().zip(partitions).map(offset).collect()
    }

    /// What the group has committed.
    fn committed(&self, partitions: &[TopicPartition]) -> Result<Vec<Option<i64>>, String> {
        let failed = |error: KafkaError| {
            format!("the offsets of the group '{}' are not known: {}", self.properties.group(), problem(&error))
        };
        let list = list(partitions, Offset::Invalid).map_err(failed)?;
        let committed = self.consumer.committed_offsets(list, ATTEMPT_MAX).map_err(failed)?;
        offsets(&committed, partitions)
    }

    /// The offsets of the first messages of this time or later; behind the last where there are none.
    fn at(&self, millis: i64, partitions: &[TopicPartition]) -> Result<Vec<i64>, String> {
        let failed = |error: KafkaError| format!("the offsets at {millis} ms are not known: {}", problem(&error));
        let list = list(partitions, Offset::Offset(millis)).map_err(failed)?;
        let found = self.consumer.offsets_for_times(list, ATTEMPT_MAX).map_err(failed)?;
        let found = offsets(&found, partitions)?;
        let offset = |(found, partition): (Option<i64>, _)| match found {
            Some(offset) => Ok(offset),
            None => self.ends(partition).map(|(_, high)| high),
        };
        found.into_iter().zip(partitions).map(offset).collect()
    }
}

fn list(partitions: &[TopicPartition], offset: Offset) -> Result<TopicPartitionList, KafkaError> {
    let mut list = TopicPartitionList::with_capacity(partitions.len());
    for TopicPartition { topic, partition } in partitions {
        list.add_partition_offset(topic, *partition, offset)?;
    }
    Ok(list)
}

/// The offsets that a list has for partitions.
fn offsets(list: &TopicPartitionList, partitions: &[TopicPartition]) -> Result<Vec<Option<i64>>, String> {
    let offset = |partition: &TopicPartition| {
        let Some(found) = list.find_partition(&partition.topic, partition.partition) else { return Ok(None) };
        found.error().map_err(|error| format!("{partition}: {}", problem(&error)))?;
        Ok(match found.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        })
    };
    partitions.iter().map(offset).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read_as_flink_writes_them() {
        let expected: BTreeMap<i32, i64> = [(0, 42), (1, 300)].into();
        assert_eq!(parse_offsets("partition:0,offset:42;partition:1,offset:300"), Some(expected.clone()));
        assert_eq!(parse_offsets(" partition: 0, offset: 42 ; partition:1 , offset:300;"), Some(expected));
        for wrong in ["0:42", "partition:0", "partition:-1,offset:2", "partition:1,offset:x", "offset:1,partition:2"] {
            assert_eq!(parse_offsets(wrong), None, "{wrong}");
        }
    }
}
