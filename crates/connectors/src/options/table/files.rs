//! The options of tables of files: `'connector' = 'filesystem'` and `'delta'`.

use super::Kind::{Boolean, Choice, Duration, MemorySize, Text};
use super::Use::{Both, Read, Write};
use super::{DEAD_LETTER_TABLE, FORMAT_NAMES, ON_ERROR, OptionEntry, option};

const FILE_SIZE: OptionEntry = option(
    "sink.rolling-policy.file-size",
    MemorySize,
    "128 mb",
    Write,
    "A file of a directory ends behind the rows with which it has so many bytes. See [Rolling](#roll-files).",
);

const ROLLOVER_INTERVAL: OptionEntry = option(
    "sink.rolling-policy.rollover-interval",
    Duration,
    "30 min",
    Write,
    "A file of a directory ends when it has been written for so long.",
);

const CHECK_INTERVAL: OptionEntry = option(
    "sink.rolling-policy.check-interval",
    Duration,
    "1 min",
    Write,
    "How often it is looked whether files have been written for that long.",
);

const DEFAULT_NAME: OptionEntry = option(
    "partition.default-name",
    Text,
    "__DEFAULT_PARTITION__",
    Both,
    "What stands in the names of directories for NULL and the empty string.",
);

const ENDPOINT: OptionEntry = option(
    "s3.endpoint",
    Text,
    "that of Amazon for the region",
    Both,
    "The URL of another server that speaks the protocol of S3.",
);

const ACCESS_KEY: OptionEntry =
    option("s3.access-key", Text, "`AWS_ACCESS_KEY_ID`", Both, "The name of the key for [S3](#s3).");

const SECRET_KEY: OptionEntry = option("s3.secret-key", Text, "`AWS_SECRET_ACCESS_KEY`", Both, "The key itself.");

const REGION: OptionEntry =
    option("s3.region", Text, "`AWS_REGION`, or else `us-east-1`", Both, "The region of the bucket.");

const PATH_STYLE: OptionEntry = option(
    "s3.path.style.access",
    Boolean,
    "false",
    Both,
    "The bucket is the first part of the path of URLs, and not of the host's name. So it is without this option where the endpoint is an address or `localhost`.",
);

pub(super) const FILESYSTEM: &[OptionEntry] = &[
    option(
        "path",
        Text,
        "",
        Both,
        "The file, the directory or, to read, a glob pattern with `*`, `?` and `[ab]`; `s3://bucket/path` is in [S3](#s3). Required.",
    ),
    option(
        "format",
        Choice(FORMAT_NAMES),
        "by the extension of the path",
        Both,
        "The format of the files: `.csv` and `.tsv` are CSV, `.json`, `.jsonl` and `.ndjson` JSON, `.parquet` Parquet, `.avro` Avro, those of text also with `.gz` or `.zst` behind it.",
    ),
    ON_ERROR,
    DEAD_LETTER_TABLE,
    option(
        "source.monitor-interval",
        Duration,
        "files are read as they are when the query starts",
        Read,
        "The directory or pattern is watched: how long after one look for new files the next is.",
    ),
    option(
        "source.path.regex-pattern",
        Text,
        "",
        Read,
        "A regular expression: files are read whose absolute paths match it as a whole.",
    ),
    FILE_SIZE,
    ROLLOVER_INTERVAL,
    CHECK_INTERVAL,
    DEFAULT_NAME,
    option(
        "sink.partition-commit.policy.kind",
        Choice(&["success-file"]),
        "",
        Write,
        "What says that a partition is complete: a file without bytes in its directory. See [Partitions](#partitions).",
    ),
    option(
        "sink.partition-commit.trigger",
        Choice(&["process-time", "partition-time"]),
        "process-time",
        Write,
        "A partition is complete some time after its first row was written, or when the watermark has passed the time that its values tell.",
    ),
    option("sink.partition-commit.delay", Duration, "0 s", Write, "How long after that time it is complete."),
    option(
        "sink.partition-commit.success-file.name",
        Text,
        "_SUCCESS",
        Write,
        "The name of that file, which begins with `_` or `.`.",
    ),
    option(
        "sink.partition-commit.watermark-time-zone",
        Text,
        "UTC",
        Write,
        "The time zone of the times that values tell, where the event time is a TIMESTAMP_LTZ.",
    ),
    option(
        "partition.time-extractor.timestamp-pattern",
        Text,
        "the value of the first column",
        Write,
        "The time of a partition as `yyyy-MM-dd` or `yyyy-MM-dd HH:mm:ss`, with `$name` for the value of a column: `$dt $hour:00:00`.",
    ),
    ENDPOINT,
    ACCESS_KEY,
    SECRET_KEY,
    REGION,
    PATH_STYLE,
];

pub(super) const DELTA: &[OptionEntry] = &[
    option("table-path", Text, "", Write, "The directory of the table; `s3://bucket/path` is in [S3](#s3). Required."),
    FILE_SIZE,
    ROLLOVER_INTERVAL,
    CHECK_INTERVAL,
    DEFAULT_NAME,
    ENDPOINT,
    ACCESS_KEY,
    SECRET_KEY,
    REGION,
    PATH_STYLE,
];
