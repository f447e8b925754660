//! The formats by their names.

use crate::ConnectorError;
use crate::options::Options;

/// The formats' names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FormatName {
    Csv,
    /// CSV with tabs.
    Tsv,
    Json,
    Parquet,
    Avro,
    Raw,
}

/// The formats by their names in options.
const NAMES: [(&str, FormatName); 5] = [
    ("csv", FormatName::Csv),
    ("json", FormatName::Json),
    ("parquet", FormatName::Parquet),
    ("avro", FormatName::Avro),
    ("raw", FormatName::Raw),
];

impl FormatName {
    /// The format that a file's name tells by its extension, before that of its compression.
    pub(crate) fn of_file(path: &str) -> Option<FormatName> {
        let lower = path.to_ascii_lowercase();
        let name = lower.strip_suffix(".gz").or(lower.strip_suffix(".zst")).unwrap_or(&lower);
        match name.rsplit_once('.')?.1 {
            "csv" => Some(FormatName::Csv),
            "tsv" => Some(FormatName::Tsv),
            "json" | "jsonl" | "ndjson" => Some(FormatName::Json),
            "parquet" => Some(FormatName::Parquet),
            "avro" => Some(FormatName::Avro),
            _ => None,
        }
    }

    /// The format's own option to have NULL for values that cannot be decoded.
    pub(crate) fn ignore_option(self) -> Option<&'static str> {
        match self {
            FormatName::Csv | FormatName::Tsv => Some("csv.ignore-parse-errors"),
            FormatName::Json => Some("json.ignore-parse-errors"),
            FormatName::Parquet | FormatName::Avro | FormatName::Raw => None,
        }
    }

    /// Its name in options.
    pub(crate) fn in_options(self) -> &'static str {
        match self {
            FormatName::Csv | FormatName::Tsv => "csv",
            FormatName::Json => "json",
            FormatName::Parquet => "parquet",
            FormatName::Avro => "avro",
            FormatName::Raw => "raw",
        }
    }

    /// The format that the options name.
    pub(crate) fn told(options: &Options) -> Result<Option<FormatName>, ConnectorError> {
        options.choice("format", &NAMES)
    }
}
