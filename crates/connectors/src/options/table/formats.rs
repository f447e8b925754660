//! The options of formats.

use super::Kind::{Boolean, Character, Choice, Text};
use super::Use::{Both, Read, Write};
use super::{OptionEntry, TIMESTAMP_FORMAT_NAMES, argument, option};

pub(super) const CSV: &[OptionEntry] = &[
    argument(
        option("csv.field-delimiter", Character, ",", Both, "Separates fields; `\\t` is a tab."),
        &["delim", "delimiter", "sep"],
    ),
    argument(
        option(
            "csv.header",
            Boolean,
            "false",
            Both,
            "The first row names the columns, which are matched by these names; it is written to new files.",
        ),
        &["header"],
    ),
    option(
        "csv.ignore-first-line",
        Boolean,
        "false",
        Read,
        "The first row is skipped, whatever it says; columns are matched by their order.",
    ),
    argument(
        option(
            "csv.quote-character",
            Character,
            "\"",
            Both,
            "Encloses fields that contain delimiters, quotes or line ends.",
        ),
        &["quote"],
    ),
    option("csv.disable-quote-character", Boolean, "false", Both, "No character encloses fields."),
    argument(
        option("csv.escape-character", Character, "", Both, "Takes away the meaning of the character behind it."),
        &["escape"],
    ),
    argument(
        option("csv.null-literal", Text, "", Both, "An unquoted field with this text is NULL."),
        &["nullstr", "null"],
    ),
    option("csv.allow-comments", Boolean, "false", Read, "Lines that begin with `#` are skipped."),
    argument(
        option("csv.comment-character", Character, "", Read, "Lines that begin with this character are skipped."),
        &["comment"],
    ),
    option("csv.trim", Boolean, "false", Read, "Blanks around fields are not part of them."),
    option(
        "csv.delimiter-run",
        Boolean,
        "false",
        Read,
        "Several delimiters in a row count as one. The delimiter is then a blank, a space or a tab, unless another one is given.",
    ),
    argument(
        option(
            "csv.timestamp-format",
            Choice(TIMESTAMP_FORMAT_NAMES),
            "SQL",
            Both,
            "How timestamps are written. Reading takes both `SQL` (`2013-01-31 08:15:00`) and `ISO-8601` (`2013-01-31T08:15:00`) where it is one of these.",
        ),
        &["timestampformat"],
    ),
    argument(
        option(
            "csv.ignore-parse-errors",
            Boolean,
            "false",
            Read,
            "A field that cannot be decoded is NULL, and counted; a row that cannot be split is skipped.",
        ),
        &["ignore_errors"],
    ),
];

pub(super) const JSON: &[OptionEntry] = &[
    option(
        "json.fail-on-missing-field",
        Boolean,
        "false",
        Read,
        "An object without one of the columns is an error; otherwise the column is NULL.",
    ),
    argument(
        option(
            "json.timestamp-format.standard",
            Choice(TIMESTAMP_FORMAT_NAMES),
            "SQL",
            Both,
            "How timestamps are written. Reading takes both `SQL` and `ISO-8601` where it is one of these.",
        ),
        &["timestampformat"],
    ),
    argument(
        option(
            "json.ignore-parse-errors",
            Boolean,
            "false",
            Read,
            "A value that cannot be decoded is NULL, and counted; an object that cannot be read is skipped.",
        ),
        &["ignore_errors"],
    ),
    option("json.encode.ignore-null-fields", Boolean, "false", Write, "A column that is NULL is left out."),
];

pub(super) const PARQUET: &[OptionEntry] = &[option(
    "parquet.compression",
    Choice(&["uncompressed", "snappy", "lz4", "zstd"]),
    "snappy",
    Write,
    "How the pages are compressed.",
)];

pub(super) const RAW: &[OptionEntry] = &[
    option("raw.charset", Choice(&["UTF-8"]), "UTF-8", Both, "The encoding of text. Of messages only."),
    option(
        "raw.endianness",
        Choice(&["big-endian", "little-endian"]),
        "big-endian",
        Both,
        "The order of the bytes of numbers. Of messages only.",
    ),
];

pub(super) const AVRO: &[OptionEntry] = &[
    option(
        "avro.timestamp_mapping.legacy",
        Boolean,
        "true",
        Both,
        "A TIMESTAMP is Avro's `timestamp`, and with `false` its `local-timestamp`.",
    ),
    option(
        "avro.codec",
        Choice(&["null", "deflate", "snappy", "zstandard"]),
        "snappy",
        Write,
        "How the blocks of files are compressed.",
    ),
];

pub(super) const AVRO_CONFLUENT: &[OptionEntry] = &[
    option("avro-confluent.url", Text, "", Both, "The schema registry, such as `http://localhost:8081`. Required."),
    option(
        "avro-confluent.subject",
        Text,
        "the topic with `-value` or `-key` behind it",
        Write,
        "What the schema of written messages is called in the registry.",
    ),
    option(
        "avro-confluent.basic-auth.credentials-source",
        Choice(&["USER_INFO"]),
        "",
        Both,
        "Where user and password come from.",
    ),
    option("avro-confluent.basic-auth.user-info", Text, "", Both, "The user and the password, with a `:` between."),
];

pub(super) const PROTOBUF: &[OptionEntry] = &[
    option(
        "protobuf.descriptor-file",
        Text,
        "",
        Both,
        "The file that `protoc --include_imports --descriptor_set_out=FILE` has written. Required.",
    ),
    option("protobuf.message-name", Text, "", Both, "The message with its package, such as `shop.Order`. Required."),
    option(
        "protobuf.read-default-values",
        Boolean,
        "false",
        Read,
        "A field that could be there and is not has its default; otherwise the column is NULL.",
    ),
];

pub(super) const DEBEZIUM_JSON: &[OptionEntry] = &[
    option(
        "debezium-json.schema-include",
        Boolean,
        "false",
        Read,
        "The change is the `payload` of an object that has its schema as well.",
    ),
    option(
        "debezium-json.fail-on-missing-field",
        Boolean,
        "false",
        Read,
        "A row without one of the columns is an error; otherwise the column is NULL.",
    ),
    option(
        "debezium-json.timestamp-format.standard",
        Choice(TIMESTAMP_FORMAT_NAMES),
        "SQL",
        Both,
        "How timestamps are written. Reading takes both `SQL` and `ISO-8601` where it is one of these.",
    ),
    option(
        "debezium-json.ignore-parse-errors",
        Boolean,
        "false",
        Read,
        "A value that cannot be decoded is NULL, and counted; an object that cannot be read is skipped.",
    ),
    option("debezium-json.encode.ignore-null-fields", Boolean, "false", Write, "A column that is NULL is left out."),
];
