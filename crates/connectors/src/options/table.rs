//! Every option of every connector and format: what it is called, what it takes, what holds without it, and what it does.
//!
//! Checks of `CREATE TABLE`, suggestions in errors and the documents in `docs/` are made from this table. It needs nothing else, so that the program that writes the
//! documents can include it.

/// What values an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// `true` or `false`.
    Boolean,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A single character.
    Character,
    /// A whole number of at least 1.
    Count,
    /// A whole number.
    Number,
    /// A number between 0 and 1.
    Share,
    /// A duration such as `10 s`.
    Duration,
    /// A memory size such as `64 mb`.
    MemorySize,
    /// A time in UTC such as `2015-07-15 00:00:00`, or `now`.
    Time,
    /// A value of the column's type.
    Value,
}

/// When an option counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// When rows are read.
    Read,
    /// When rows are written.
    Write,
    /// Both.
    Both,
}

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionEntry {
    /// Its name in `WITH (…)`; `#` stands for the name of a column.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// What holds without it; empty if nothing does.
    pub default: &'static str,
    /// When it counts.
    pub used: Use,
    /// Other names that it has as an argument of `read_csv` and the like.
    pub arguments: &'static [&'static str],
    /// What it does, in a sentence.
    pub text: &'static str,
}

/// Options that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionGroup {
    /// The connector or format they belong to.
    pub name: &'static str,
    /// What that is.
    pub of: Owner,
    /// In the order in which they are documented.
    pub options: &'static [OptionEntry],
}

/// What options belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Every table.
    Table,
    /// A connector, named by `'connector'`.
    Connector,
    /// A format, named by `'format'`.
    Format,
    /// Any connector that is read.
    Source,
}

const fn option(name: &'static str, kind: Kind, default: &'static str, used: Use, text: &'static str) -> OptionEntry {
    OptionEntry { name, kind, default, used, arguments: &[], text }
}

const fn argument(entry: OptionEntry, arguments: &'static [&'static str]) -> OptionEntry {
    OptionEntry { arguments, ..entry }
}

#[path = "table/kafka.rs"]
mod kafka;

#[path = "table/files.rs"]
mod files;

#[path = "table/formats.rs"]
mod formats;

use files::{DELTA, FILESYSTEM};
use formats::{AVRO, AVRO_CONFLUENT, CSV, DEBEZIUM_JSON, JSON, PARQUET, PROTOBUF, RAW};
use kafka::KAFKA;

use Kind::{Boolean, Choice, Count, Duration, MemorySize, Number, Share, Text, Time, Value};
use Use::{Both, Read, Write};

/// All groups.
pub const GROUPS: &[OptionGroup] = &[
    OptionGroup { name: "table", of: Owner::Table, options: TABLE },
    OptionGroup { name: "filesystem", of: Owner::Connector, options: FILESYSTEM },
    OptionGroup { name: "delta", of: Owner::Connector, options: DELTA },
    OptionGroup { name: "datagen", of: Owner::Connector, options: DATAGEN },
    OptionGroup { name: "nexmark", of: Owner::Connector, options: NEXMARK },
    OptionGroup { name: "hdes", of: Owner::Connector, options: HDES },
    OptionGroup { name: "ysb", of: Owner::Connector, options: YSB },
    OptionGroup { name: "print", of: Owner::Connector, options: PRINT },
    OptionGroup { name: "blackhole", of: Owner::Connector, options: &[] },
    OptionGroup { name: "tcp", of: Owner::Connector, options: TCP },
    OptionGroup { name: "kafka", of: Owner::Connector, options: KAFKA },
    OptionGroup { name: "replay", of: Owner::Source, options: REPLAY },
    OptionGroup { name: "csv", of: Owner::Format, options: CSV },
    OptionGroup { name: "json", of: Owner::Format, options: JSON },
    OptionGroup { name: "parquet", of: Owner::Format, options: PARQUET },
    OptionGroup { name: "raw", of: Owner::Format, options: RAW },
    OptionGroup { name: "avro", of: Owner::Format, options: AVRO },
    OptionGroup { name: "avro-confluent", of: Owner::Format, options: AVRO_CONFLUENT },
    OptionGroup { name: "protobuf", of: Owner::Format, options: PROTOBUF },
    OptionGroup { name: "debezium-json", of: Owner::Format, options: DEBEZIUM_JSON },
];

/// The names of the connectors.
pub const CONNECTOR_NAMES: &[&str] =
    &["filesystem", "delta", "nexmark", "hdes", "ysb", "datagen", "print", "blackhole", "tcp", "kafka"];

/// The names of the formats.
pub const FORMAT_NAMES: &[&str] = &["csv", "json", "parquet", "avro", "raw"];

/// The names of the formats of messages.
pub const MESSAGE_FORMAT_NAMES: &[&str] =
    &["csv", "json", "raw", "avro", "avro-confluent", "protobuf", "debezium-json"];

/// How timestamps are written in text.
pub const TIMESTAMP_FORMAT_NAMES: &[&str] = &["SQL", "ISO-8601", "EPOCH-SECONDS", "EPOCH-MILLIS", "EPOCH-MICROS"];

const TABLE: &[OptionEntry] = &[
    option("connector", Choice(CONNECTOR_NAMES), "", Both, "The connector. Required."),
    option(
        "scan.watermark.idle-timeout",
        Duration,
        "that of the session, `table.exec.source.idle-timeout`",
        Read,
        "A partition that delivers nothing for so long does not hold back the watermark.",
    ),
    option(
        "scan.watermark.alignment.group",
        Text,
        "",
        Read,
        "Tables of one group in a query are aligned. Needs `scan.watermark.alignment.max-drift`.",
    ),
    option(
        "scan.watermark.alignment.max-drift",
        Duration,
        "no limit",
        Read,
        "A table is not read while its watermark is further ahead of the last one of its group.",
    ),
    option(
        "scan.watermark.max-ahead",
        Duration,
        "no limit",
        Read,
        "A row whose event time is further ahead of the clock does not move the watermark.",
    ),
    option(
        "lookup.cache",
        Choice(&["FULL"]),
        "FULL",
        Read,
        "A bounded table that is joined with is loaded as a whole.",
    ),
    option(
        "lookup.full-cache.reload-strategy",
        Choice(&["PERIODIC"]),
        "",
        Read,
        "A bounded table that is joined with is loaded again each interval. Needs `lookup.cache`.",
    ),
    option(
        "lookup.full-cache.periodic-reload.interval",
        Duration,
        "",
        Read,
        "How long after a load the next begins. Needs `lookup.full-cache.reload-strategy`.",
    ),
];

const ON_ERROR: OptionEntry = option(
    "on-error",
    Choice(&["fail", "skip"]),
    "fail",
    Read,
    "What happens to a row that does not fit the table: the query fails, or the row is skipped and counted.",
);

const DEAD_LETTER_TABLE: OptionEntry = option(
    "on-error.dead-letter-table",
    Text,
    "",
    Read,
    "The table that takes rows that are skipped. Needs `on-error` = `skip`.",
);

const TCP: &[OptionEntry] = &[
    option("mode", Choice(&["connect", "listen"]), "connect", Both, "The table connects to a server, or is one."),
    option(
        "hostname",
        Text,
        "`127.0.0.1` where the table listens",
        Both,
        "The server to connect to, or the address to listen on. Required where the table connects.",
    ),
    option("port", Number, "", Both, "The port to connect to or to listen on, from 1 to 65535. Required."),
    option("format", Choice(FORMAT_NAMES), "", Both, "The format of the rows: `csv`, `json` or `raw`. Required."),
    option("byte-delimiter", Number, "10", Both, "The byte that ends each row; 10 is a line feed."),
    option(
        "on-close",
        Choice(&["end", "reconnect"]),
        "`end` where the table connects, `reconnect` where it listens",
        Both,
        "What follows the end of a connection: the end of the table, or an error where it is written, or else the next connection.",
    ),
    option("connections-max", Count, "16", Read, "Clients of a table that listens that are read at the same time."),
    option(
        "connect.retries-max",
        Number,
        "10",
        Both,
        "How often connecting is tried again, in pauses that double from 100 ms.",
    ),
    option("connect.backoff-max", Duration, "10 s", Both, "The longest pause between two attempts to connect."),
    option("write.timeout", Duration, "1 min", Write, "A peer that takes no bytes for so long counts as gone."),
    ON_ERROR,
    DEAD_LETTER_TABLE,
];

const RATE: OptionEntry = option(
    "rows-per-second",
    Count,
    "10000",
    Read,
    "Rows a second: of event time, and of real time where `pace` is `real-time`.",
);
const ON_OVERLOAD: OptionEntry = option(
    "on-overload",
    Choice(&["wait", "drop"]),
    "wait",
    Read,
    "What happens to rows that are not read in time, where they come at a rate: they are read late, or dropped and counted.",
);
const ON_OVERLOAD_DELAY: OptionEntry = option(
    "on-overload.delay",
    Duration,
    "100 ms",
    Read,
    "How long after it was due a row may be read, where others are dropped.",
);
const SEED: OptionEntry =
    option("seed", Number, "that of the session, `pelton.seed`", Read, "The number that all random values depend on.");
const PACE_FLAT_OUT: OptionEntry = option(
    "pace",
    Choice(&["flat-out", "real-time"]),
    "`flat-out`; with `rows-per-second`, `real-time`",
    Read,
    "Rows come as fast as they are read, or when their event time has come, counted from the start.",
);
const BASE_TIME: OptionEntry =
    option("base-time", Time, "2015-07-15 00:00:00", Read, "The event time of the first row, in UTC; or `now`.");

const DATAGEN: &[OptionEntry] = &[
    RATE,
    option(
        "number-of-rows",
        Number,
        "",
        Read,
        "The table ends after so many rows; otherwise when the first sequence ends, or not at all.",
    ),
    option(
        "fields.#.kind",
        Choice(&["random", "sequence"]),
        "random",
        Read,
        "Random values, or the numbers from `start` to `end`; of strings, these numbers as text.",
    ),
    option("fields.#.start", Number, "", Read, "The first number of a sequence. Required there."),
    option("fields.#.end", Number, "", Read, "The last number of a sequence. Required there."),
    option("fields.#.min", Value, "the least of the type", Read, "The least random number."),
    option("fields.#.max", Value, "the largest of the type", Read, "The largest random number."),
    option(
        "fields.#.length",
        Count,
        "100",
        Read,
        "Characters of random strings, which are hexadecimal digits, or bytes of random BYTES. VARCHAR(n) has n without it, CHAR(n) always.",
    ),
    option("fields.#.var-len", Boolean, "false", Read, "Lengths are random too, from 1 to `length`."),
    option(
        "fields.#.max-past",
        Duration,
        "0",
        Read,
        "A DATE or TIMESTAMP is the row's time, or up to so long before it.",
    ),
    option("fields.#.null-rate", Share, "0", Read, "The share of NULLs."),
    option(
        "pace",
        Choice(&["flat-out", "real-time"]),
        "real-time",
        Read,
        "Rows come as fast as they are read, or at the rate.",
    ),
    ON_OVERLOAD,
    ON_OVERLOAD_DELAY,
    SEED,
    option(
        "base-time",
        Time,
        "now",
        Read,
        "The first row's time, in UTC; each other row's follows from `rows-per-second`.",
    ),
];

const NEXMARK: &[OptionEntry] = &[
    option(
        "table",
        Choice(&["person", "auction", "bid", "events"]),
        "bid",
        Read,
        "The kind of event, or `events`: all three kinds with prefixed columns, NULL where an event is of another kind.",
    ),
    option(
        "rows",
        Number,
        "",
        Read,
        "The table ends after so many rows. Without it and `number-of-events` it does not end.",
    ),
    option("number-of-events", Number, "", Read, "The table ends after so many events of all three kinds."),
    option(
        "rows-per-second",
        Count,
        "10000",
        Read,
        "Events of all three kinds a second of event time, and of real time where `pace` is `real-time`.",
    ),
    PACE_FLAT_OUT,
    ON_OVERLOAD,
    ON_OVERLOAD_DELAY,
    SEED,
    BASE_TIME,
    option(
        "disorder",
        Count,
        "1",
        Read,
        "Events are shuffled within groups of so many: a watermark that is `(disorder - 1) / rows-per-second` behind, rounded up to milliseconds, makes none late.",
    ),
    option("person.proportion", Count, "1", Read, "Events of this kind in an epoch."),
    option("auction.proportion", Count, "3", Read, "Events of this kind in an epoch."),
    option("bid.proportion", Count, "46", Read, "Events of this kind in an epoch."),
    option("bid.hot-ratio.auctions", Count, "2", Read, "One bid in so many does not go to the hot auction."),
    option("bid.hot-ratio.bidders", Count, "4", Read, "One bid in so many does not come from the hot bidder."),
    option("auction.hot-ratio.sellers", Count, "4", Read, "One auction in so many is not opened by the hot seller."),
    option("active-people", Count, "1000", Read, "People who may bid or sell: the newest."),
    option("in-flight-auctions", Count, "100", Read, "Auctions that may be bid for: the newest."),
    option("person.avg-size", Count, "200", Read, "Bytes of a record, which `extra` pads it to."),
    option("auction.avg-size", Count, "500", Read, "Bytes of a record, which `extra` pads it to."),
    option("bid.avg-size", Count, "100", Read, "Bytes of a record, which `extra` pads it to."),
];

const HDES: &[OptionEntry] = &[
    option(
        "table",
        Choice(&["events", "bid", "auction"]),
        "events",
        Read,
        "Events with a value, or the bids or auctions of NexmarkLight.",
    ),
    option("stream", Count, "1", Read, "The number of the stream: it decides which values are its own. Of `events`."),
    option("own-values", Count, "10000", Read, "Values that this stream alone has. Of `events`."),
    option("shared-values", Count, "1", Read, "Values that all streams have, from 1. Of `events`."),
    option(
        "values",
        Choice(&["cyclic", "random"]),
        "cyclic",
        Read,
        "Values come one after the other, again and again, as in the paper, or are random. Of `events`.",
    ),
    option("rows", Number, "", Read, "The table ends after so many rows; without it, it does not end."),
    option(
        "rows-per-second",
        Count,
        "1000000",
        Read,
        "Rows a second: of event time, and of real time where `pace` is `real-time`.",
    ),
    PACE_FLAT_OUT,
    ON_OVERLOAD,
    ON_OVERLOAD_DELAY,
    SEED,
    BASE_TIME,
];

const YSB: &[OptionEntry] = &[
    option("variant", Choice(&["grizzly", "lightsaber", "enjima"]), "grizzly", Read, "The paper whose variant it is."),
    option(
        "table",
        Choice(&["events", "ads"]),
        "events",
        Read,
        "The events, or the advertisements with their campaigns, to join `lightsaber` and `enjima` with.",
    ),
    option("campaigns", Count, "10000 of `grizzly`, else 100", Read, "The number of campaigns."),
    option("ads", Count, "10 a campaign", Read, "The number of advertisements."),
    option(
        "event-types",
        Choice(&["sequential", "shuffled"]),
        "sequential",
        Read,
        "Types and `ad_id` cycle with the event's number, as in the papers, or are random.",
    ),
    option("rows", Number, "", Read, "The table ends after so many rows; without it, it does not end."),
    RATE,
    PACE_FLAT_OUT,
    ON_OVERLOAD,
    ON_OVERLOAD_DELAY,
    SEED,
    BASE_TIME,
];

const PRINT: &[OptionEntry] = &[
    option("print-identifier", Text, "", Write, "Each line begins with it and `> `."),
    option("standard-error", Boolean, "false", Write, "Lines go to standard error, not to standard output."),
];

const REPLAY: &[OptionEntry] = &[
    option(
        "replay",
        Choice(&["memory"]),
        "",
        Read,
        "The rows are read once, kept in memory, and delivered again and again.",
    ),
    option("replay.passes", Count, "", Read, "The table ends after so many passes."),
    option(
        "replay.duration",
        Duration,
        "",
        Read,
        "The table ends so long after the first block was taken. Without this and `replay.passes` it does not end.",
    ),
    option(
        "replay.shift",
        Duration,
        "the span of the event times and a tick",
        Read,
        "How much later in event time each pass is than the one before.",
    ),
    option("replay.memory-max", MemorySize, "16 gb", Read, "A larger input is refused."),
    option(
        "replay.chunk-blocks",
        Count,
        "8 to 64, as suits the reader",
        Read,
        "The number of blocks that are handed out at once.",
    ),
    option(
        "rows-per-second",
        Count,
        "",
        Read,
        "Rows released a second. A generator's rate is replayed only where its `pace` is `real-time`.",
    ),
    ON_OVERLOAD,
    ON_OVERLOAD_DELAY,
];
