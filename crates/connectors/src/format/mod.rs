//! The encodings of rows in bytes.
//!
//! CSV and JSON lines share everything but how a row is split into fields: [`rows`] drives a chunk through a splitter and
//! the decoders of its [`column`]s, which read [`value`]s and [`time`]s. Parquet has columns already.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
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

mod name;

mod shape;

mod columnar;

pub(crate) mod parquet;

pub(crate) mod avro;

pub(crate) mod infer;

#[cfg(feature = "kafka")]
pub(crate) mod message;

use column::{Escapes, FieldRules};
use csv::Dialect;
use json::layout::Layout;
pub(crate) use name::FormatName;
use on_error::OnError;
use rows::{OutputColumn, RowDecoder, Splitter};
pub(crate) use shape::{Origin, RowShape, all_nullable};
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
    Avro {
        on_error: OnError,
        writing: avro::AvroWriting,
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

impl Format {
    /// The format that a table's options describe; `inferred` stands in for the option `format`.
    pub(crate) fn new(options: &Options, inferred: Option<FormatName>) -> Result<Format, ConnectorError> {
        let told = FormatName::told(options)?;
        let is_tabs = inferred == Some(FormatName::Tsv);
        let Some(name) = told.or(inferred) else {
            let problem =
                "is missing, and no file name tells it: add 'format' = 'csv', 'json', 'parquet', 'avro' or 'raw'";
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
            FormatName::Avro => Format::Avro { on_error, writing: avro::AvroWriting::of(options)? },
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
