//! The encodings of rows in bytes.
//!
//! CSV and JSON lines share everything but how a row is split into fields: [`rows`] drives a chunk through a splitter and
//! the decoders of its [`column`]s, which read [`value`]s and [`time`]s. Parquet has columns already.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use pelton_data::column::{is_nested, sql_name};

use crate::ConnectorError;
use crate::options::Options;
use pelton_data::spelling::closest;

pub(crate) mod opened;

pub(crate) mod compression;

pub(crate) mod on_error;

pub(crate) mod split;

mod absent;

pub(crate) mod rows;

pub(crate) mod column;

pub(crate) mod nested;

pub(crate) mod value;

pub(crate) mod time;

pub(crate) mod write;

pub(crate) mod csv;

pub(crate) mod json;

pub(crate) mod parquet;

pub(crate) mod infer;

#[cfg(feature = "kafka")]
pub(crate) mod message;

use column::{Escapes, FieldRules};
use csv::Dialect;
use json::layout::Layout;
use on_error::OnError;
use rows::{OutputColumn, RowDecoder, Splitter};
use time::{TIMESTAMP_FORMATS, TimestampFormat};

const FAIL_ON_MISSING_FIELD: &str = "json.fail-on-missing-field";

/// How the rows of a table are encoded.
#[derive(Debug, Clone)]
pub(crate) enum Format {
    Text(TextFormat),
    Parquet {
        on_error: OnError,
        /// Of files to write.
        compression: ::parquet::basic::Compression,
    },
}

/// A format of lines.
#[derive(Debug, Clone)]
pub(crate) struct TextFormat {
    pub(crate) kind: TextKind,
    pub(crate) rules: Arc<FieldRules>,
    pub(crate) on_error: OnError,
}

/// The formats of text.
#[derive(Debug, Clone)]
pub(crate) enum TextKind {
    Csv(Dialect),
    /// One column, which is the line.
    Raw(Dialect),
    Json {
        /// Whether a line without one of the wanted columns is an error; else it is NULL.
        fail_on_missing_field: bool,
        /// Whether NULLs are written by leaving the member out.
        ignore_null_fields: bool,
    },
}

/// The formats' names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FormatName {
    Csv,
    /// CSV with tabs.
    Tsv,
    Json,
    Parquet,
    Raw,
}

/// The formats by their names in options.
const NAMES: [(&str, FormatName); 4] =
    [("csv", FormatName::Csv), ("json", FormatName::Json), ("parquet", FormatName::Parquet), ("raw", FormatName::Raw)];

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
            _ => None,
        }
    }

    /// The format's own option to have NULL for values that cannot be decoded.
    pub(crate) fn ignore_option(self) -> Option<&'static str> {
        match self {
            FormatName::Csv | FormatName::Tsv => Some("csv.ignore-parse-errors"),
            FormatName::Json => Some("json.ignore-parse-errors"),
            FormatName::Parquet | FormatName::Raw => None,
        }
    }

    /// Its name in options.
    pub(crate) fn in_options(self) -> &'static str {
        match self {
            FormatName::Csv | FormatName::Tsv => "csv",
            FormatName::Json => "json",
            FormatName::Parquet => "parquet",
            FormatName::Raw => "raw",
        }
    }

    /// The format that the options name.
    pub(crate) fn told(options: &Options) -> Result<Option<FormatName>, ConnectorError> {
        options.choice("format", &NAMES)
    }
}

impl Format {
    /// The format that a table's options describe; `inferred` stands in for the option `format`.
    pub(crate) fn new(options: &Options, inferred: Option<FormatName>) -> Result<Format, ConnectorError> {
        let told = FormatName::told(options)?;
        let is_tabs = inferred == Some(FormatName::Tsv);
        let Some(name) = told.or(inferred) else {
            let problem = "is missing, and no file name tells it: add 'format' = 'csv', 'json', 'parquet' or 'raw'";
            return Err(ConnectorError::option("format", problem));
        };
        let on_error = OnError::new(options, name.ignore_option())?;
        Ok(match name {
            FormatName::Csv | FormatName::Tsv => {
                let dialect = Dialect::new(options, if is_tabs { '\t' } else { ',' })?;
                let rules = FieldRules {
                    null_literal: options.text("csv.null-literal").map(|text| text.as_bytes().to_vec()),
                    empty_is_null: true,
                    timestamps: options.choice("csv.timestamp-format", TIMESTAMP_FORMATS)?.unwrap_or_default(),
                    escapes: Escapes::Csv { quote: dialect.quote, escape: dialect.escape },
                    missing_is_wrong: false,
                    is_strict: false,
                };
                Format::Text(TextFormat { kind: TextKind::Csv(dialect), rules: Arc::new(rules), on_error })
            }
            FormatName::Json => {
                let standard = options.choice("json.timestamp-format.standard", TIMESTAMP_FORMATS)?;
                let fail_on_missing_field = options.boolean(FAIL_ON_MISSING_FIELD)?;
                let rules = FieldRules {
                    null_literal: None,
                    empty_is_null: false,
                    timestamps: standard.unwrap_or_default(),
                    escapes: Escapes::Json,
                    missing_is_wrong: fail_on_missing_field,
                    is_strict: false,
                };
                if fail_on_missing_field && on_error == OnError::Null {
                    let problem = "cannot be 'true' together with 'json.ignore-parse-errors' = 'true'";
                    return Err(ConnectorError::option(FAIL_ON_MISSING_FIELD, problem));
                }
                let kind = TextKind::Json {
                    fail_on_missing_field,
                    ignore_null_fields: options.boolean("json.encode.ignore-null-fields")?,
                };
                Format::Text(TextFormat { kind, rules: Arc::new(rules), on_error })
            }
            FormatName::Raw => {
                let dialect = Dialect::of_lines();
                let rules = FieldRules {
                    null_literal: None,
                    empty_is_null: false,
                    timestamps: TimestampFormat::default(),
                    escapes: Escapes::Csv { quote: None, escape: None },
                    missing_is_wrong: false,
                    is_strict: false,
                };
                Format::Text(TextFormat { kind: TextKind::Raw(dialect), rules: Arc::new(rules), on_error })
            }
            FormatName::Parquet => Format::Parquet {
                on_error,
                compression: options
                    .choice("parquet.compression", &parquet::compressions())?
                    .unwrap_or(::parquet::basic::Compression::SNAPPY),
            },
        })
    }
}

impl Format {
    /// The same, for a session in which a value that does not fit its column is an error.
    pub(crate) fn strict(mut self, is_strict: bool) -> Format {
        if let Format::Text(format) = &mut self
            && is_strict
        {
            Arc::make_mut(&mut format.rules).is_strict = true;
        }
        self
    }
}

/// What a source delivers, and from where.
#[derive(Debug, Clone)]
pub(crate) struct RowShape {
    /// The delivered columns.
    pub(crate) schema: SchemaRef,
    /// Names of the columns that are in the data, wanted or not, in the table's order.
    pub(crate) data_names: Vec<String>,
    /// For each delivered column where it comes from.
    pub(crate) origins: Vec<Origin>,
}

/// Where a delivered column comes from.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// From the data: an index into [`RowShape::data_names`].
    Data(usize),
    /// It is about the file: the key of `METADATA FROM`.
    Metadata(String),
    /// The name of a directory tells it, in which this stands for NULL.
    Partition {
        /// See there.
        default_name: String,
    },
}

impl TextFormat {
    /// Whether its files hold values of this type.
    pub(crate) fn holds(&self, data_type: &DataType) -> bool {
        match self.kind {
            TextKind::Json { .. } => nested::is_json_type(data_type),
            TextKind::Csv(_) | TextKind::Raw(_) => column::is_text_type(data_type),
        }
    }

    /// What to declare in the place of a type that its files do not hold.
    pub(crate) fn unheld(&self, data_type: &DataType) -> String {
        let name = sql_name(data_type);
        match self.kind {
            TextKind::Json { .. } if is_nested(data_type) => {
                format!(
                    "has the type {name}, which JSON cannot hold: the keys of objects are strings, and no value is BYTES"
                )
            }
            TextKind::Json { .. } => format!("has the type {name}, which text cannot hold"),
            TextKind::Csv(_) | TextKind::Raw(_) if is_nested(data_type) => {
                format!("has the type {name}, which CSV and raw text cannot hold")
            }
            TextKind::Csv(_) | TextKind::Raw(_) => format!("has the type {name}, which text cannot hold"),
        }
    }

    /// A decoder for the rows of the file `place`. `header` has the names of a CSV file's fields, `layout` is that of a JSON file's objects, and
    /// `constants` are the values of the columns that are not in the data, in order.
    pub(crate) fn decoder(
        &self,
        shape: &RowShape,
        place: String,
        header: Option<Vec<String>>,
        layout: Layout,
        constants: Vec<ArrayRef>,
    ) -> Result<RowDecoder, ConnectorError> {
        let names = header.unwrap_or_else(|| shape.data_names.clone());
        let mut constants = constants.into_iter();
        let mut wanted = Vec::new();
        let mut columns = Vec::new();
        for origin in &shape.origins {
            columns.push(match origin {
                Origin::Metadata(_) | Origin::Partition { .. } => {
                    OutputColumn::Constant(constants.next().expect("one constant each"))
                }
                Origin::Data(index) => {
                    wanted.push(*index);
                    OutputColumn::Field(wanted.len() - 1)
                }
            });
        }
        let wanted_names = || wanted.iter().map(|&index| shape.data_names[index].clone()).collect::<Vec<_>>();
        let width = wanted.len();
        let splitter = match &self.kind {
            TextKind::Csv(dialect) | TextKind::Raw(dialect) => {
                let found = field_indices(&shape.data_names, &names, &place)?;
                let wanted: Vec<usize> = wanted.iter().map(|&index| found[index]).collect();
                let splitter = csv::split::CsvSplitter::new(dialect.clone(), names, &wanted);
                Splitter::Csv(splitter.keep_short_rows(self.on_error == OnError::Null))
            }
            TextKind::Json { fail_on_missing_field, .. } => {
                let first = shape.data_names.first().cloned().unwrap_or_default();
                Splitter::Json(json::split::JsonSplitter::new(wanted_names(), first, *fail_on_missing_field, layout))
            }
        };
        Ok(RowDecoder {
            place,
            splitter,
            width,
            rules: self.rules.clone(),
            on_error: self.on_error,
            schema: shape.schema.clone(),
            columns,
        })
    }
}

/// For each column of the table the index of its field among those that a file names.
fn field_indices(columns: &[String], names: &[String], place: &str) -> Result<Vec<usize>, ConnectorError> {
    let find = |column: &String| {
        let mut matches = names.iter().enumerate().filter(|(_, name)| *name == column).map(|(index, _)| index);
        match (matches.next(), matches.next()) {
            (Some(index), None) => Ok(index),
            (Some(_), Some(_)) => {
                Err(ConnectorError::column(column, format!("is named twice in the header of {place}")))
            }
            (None, _) => {
                let meant = match closest(column, names.iter().map(String::as_str)) {
                    Some(name) => format!("; did you mean '{name}'?"),
                    None => format!(", which names {}", names.join(", ")),
                };
                Err(ConnectorError::column(column, format!("is not in the header of {place}{meant}")))
            }
        }
    };
    columns.iter().map(find).collect()
}

/// The same columns, which may all be NULL.
pub(crate) fn all_nullable(schema: &Schema) -> Schema {
    let fields = schema.fields().iter().map(|field| Field::clone(field).with_nullable(true)).collect::<Vec<_>>();
    Schema::new(fields)
}
