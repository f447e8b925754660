//! From columns to text: the inverse of [`super::column`].

use std::io::Write;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, ListArray, MapArray, RecordBatch, StringViewArray, StructArray,
};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
};
use pelton_data::block::ticks;
use pelton_data::time::ticks_per_second;

use super::column::FieldRules;
use super::csv::Dialect;
use super::time::{TimestampFormat, write_date, write_timestamp};
use super::{TextFormat, TextKind, csv, json};

/// A column of one batch.
pub(crate) enum Cells<'a> {
    Boolean(&'a BooleanArray),
    Int8(&'a Int8Array),
    Int16(&'a Int16Array),
    Int32(&'a Int32Array),
    Int64(&'a Int64Array),
    Float32(&'a Float32Array),
    Float64(&'a Float64Array),
    Decimal(&'a Decimal128Array),
    Date(&'a Date32Array),
    Timestamp {
        ticks: Int64Array,
        ticks_per_second: i64,
        zoned: bool,
        format: TimestampFormat,
    },
    String(&'a StringViewArray),
    /// Members introduce the fields' values.
    Row {
        rows: &'a StructArray,
        members: Vec<Vec<u8>>,
        fields: Vec<Cells<'a>>,
        ignore_null_fields: bool,
    },
    Array {
        lists: &'a ListArray,
        elements: Box<Cells<'a>>,
    },
    Map {
        maps: &'a MapArray,
        keys: Box<Cells<'a>>,
        values: Box<Cells<'a>>,
    },
}

impl<'a> Cells<'a> {
    /// The values of a column of one of the types that [`TextFormat::holds`]. Fields of a ROW that are NULL are left out where `ignore_null_fields`.
    pub(crate) fn new(column: &'a ArrayRef, rules: &FieldRules, ignore_null_fields: bool) -> Cells<'a> {
        let part = |column: &'a ArrayRef| Cells::new(column, rules, ignore_null_fields);
        match column.data_type() {
            DataType::Boolean => Cells::Boolean(column.as_boolean()),
            DataType::Int8 => Cells::Int8(column.as_primitive::<Int8Type>()),
            DataType::Int16 => Cells::Int16(column.as_primitive::<Int16Type>()),
            DataType::Int32 => Cells::Int32(column.as_primitive::<Int32Type>()),
            DataType::Int64 => Cells::Int64(column.as_primitive::<Int64Type>()),
            DataType::Float32 => Cells::Float32(column.as_primitive::<Float32Type>()),
            DataType::Float64 => Cells::Float64(column.as_primitive::<Float64Type>()),
            DataType::Decimal128(..) => Cells::Decimal(column.as_primitive::<Decimal128Type>()),
            DataType::Date32 => Cells::Date(column.as_primitive::<Date32Type>()),
            DataType::Timestamp(unit, zone) => Cells::Timestamp {
                ticks: ticks(column),
                ticks_per_second: ticks_per_second(*unit),
                zoned: zone.is_some(),
                format: rules.timestamps,
            },
            DataType::Utf8View => Cells::String(column.as_string_view()),
            DataType::Struct(fields) => {
                let rows = column.as_struct();
                let members = fields.iter().map(|field| json::write::member(field.name())).collect();
                Cells::Row { rows, members, fields: rows.columns().iter().map(part).collect(), ignore_null_fields }
            }
            DataType::List(_) => {
                let lists = column.as_list();
                Cells::Array { lists, elements: Box::new(part(lists.values())) }
            }
            DataType::Map(..) => {
                let maps = column.as_map();
                let [keys, values] = [maps.keys(), maps.values()].map(|side| Box::new(part(side)));
                Cells::Map { maps, keys, values }
            }
            other => panic!("tables with columns of type {other} are refused when they are opened"),
        }
    }

    pub(crate) fn is_null(&self, row: usize) -> bool {
        match self {
            Cells::Boolean(values) => values.is_null(row),
            Cells::Int8(values) => values.is_null(row),
            Cells::Int16(values) => values.is_null(row),
            Cells::Int32(values) => values.is_null(row),
            Cells::Int64(values) => values.is_null(row),
            Cells::Float32(values) => values.is_null(row),
            Cells::Float64(values) => values.is_null(row),
            Cells::Decimal(values) => values.is_null(row),
            Cells::Date(values) => values.is_null(row),
            Cells::Timestamp { ticks, .. } => ticks.is_null(row),
            Cells::String(values) => values.is_null(row),
            Cells::Row { rows, .. } => rows.is_null(row),
            Cells::Array { lists, .. } => lists.is_null(row),
            Cells::Map { maps, .. } => maps.is_null(row),
        }
    }

    /// Appends the value as text without quotes, as it is read again.
    ///
    /// # Errors
    /// What cannot be written.
    pub(crate) fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<(), String> {
        let written = match self {
            Cells::Boolean(values) => write!(out, "{}", values.value(row)),
            Cells::Int8(values) => write!(out, "{}", values.value(row)),
            Cells::Int16(values) => write!(out, "{}", values.value(row)),
            Cells::Int32(values) => write!(out, "{}", values.value(row)),
            Cells::Int64(values) => write!(out, "{}", values.value(row)),
            Cells::Float32(values) => write_float(out, f64::from(values.value(row)), values.value(row)),
            Cells::Float64(values) => write_float(out, values.value(row), values.value(row)),
            Cells::Decimal(values) => write!(out, "{}", values.value_as_string(row)),
            Cells::Date(values) => {
                write_date(out, i64::from(values.value(row)));
                Ok(())
            }
            Cells::Timestamp { ticks, ticks_per_second, zoned, format } => {
                let ticks = ticks.value(row);
                if !write_timestamp(out, ticks, *format, *ticks_per_second, *zoned) {
                    return Err(format!("{ticks} ticks since 1970 are further from then than times are written"));
                }
                Ok(())
            }
            Cells::String(values) => out.write_all(values.value(row).as_bytes()),
            Cells::Row { members, fields, ignore_null_fields, .. } => {
                return json::write::object(members, *ignore_null_fields, fields, row, out)
                    .map_err(|(_, problem)| problem);
            }
            Cells::Array { lists, elements } => {
                let ends = lists.value_offsets();
                return json::write::array(elements, ends[row] as usize..ends[row + 1] as usize, out);
            }
            Cells::Map { maps, keys, values } => {
                let ends = maps.value_offsets();
                return json::write::entries(keys, values, ends[row] as usize..ends[row + 1] as usize, out);
            }
        };
        written.expect("writing to memory succeeds");
        Ok(())
    }

    /// Whether JSON has the value between quotes.
    pub(crate) fn is_quoted_in_json(&self, row: usize) -> bool {
        match self {
            Cells::Float32(values) => !values.value(row).is_finite(),
            Cells::Float64(values) => !values.value(row).is_finite(),
            Cells::Timestamp { format, .. } => !matches!(format, TimestampFormat::Epoch { .. }),
            Cells::Date(_) | Cells::String(_) => true,
            _ => false,
        }
    }
}

/// The shortest text that is read as the same number; infinities have the name that Java gives them.
fn write_float(out: &mut Vec<u8>, value: f64, shown: impl std::fmt::Debug) -> std::io::Result<()> {
    match value {
        f64::INFINITY => out.write_all(b"Infinity"),
        f64::NEG_INFINITY => out.write_all(b"-Infinity"),
        _ => write!(out, "{shown:?}"),
    }
}

/// Encodes batches of one table as text.
pub(crate) struct TextWriter {
    rules: Arc<FieldRules>,
    kind: KindWriter,
    /// Rows that it has written.
    rows: usize,
}

enum KindWriter {
    Csv { dialect: Dialect, names: Vec<String>, header_written: bool },
    Json { members: Vec<Vec<u8>>, ignore_null_fields: bool },
}

impl TextWriter {
    /// A writer for columns of these names, whose rows may follow others.
    pub(crate) fn new(format: &TextFormat, names: Vec<String>, follows_rows: bool) -> TextWriter {
        let kind = match &format.kind {
            TextKind::Csv(dialect) | TextKind::Raw(dialect) => {
                KindWriter::Csv { dialect: dialect.clone(), names, header_written: follows_rows || !dialect.header }
            }
            TextKind::Json { ignore_null_fields, .. } => KindWriter::Json {
                members: names.iter().map(|name| json::write::member(name)).collect(),
                ignore_null_fields: *ignore_null_fields,
            },
        };
        TextWriter { rules: format.rules.clone(), kind, rows: 0 }
    }

    /// What comes before the first row, once.
    pub(crate) fn begin(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let KindWriter::Csv { dialect, names, header_written } = &mut self.kind else { return Ok(()) };
        if std::mem::replace(header_written, true) {
            return Ok(());
        }
        csv::write::header(dialect, names, out)
    }

    /// Appends the rows of a batch.
    ///
    /// # Errors
    /// What cannot be written, and where it would stand.
    pub(crate) fn write(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), String> {
        self.write_each(batch, out, |_| {})
    }

    /// Appends the rows of a batch without line ends, and notes where each ends.
    ///
    /// # Errors
    /// As [`TextWriter::write`].
    pub(crate) fn write_messages(
        &mut self,
        batch: &RecordBatch,
        out: &mut Vec<u8>,
        ends: &mut Vec<usize>,
    ) -> Result<(), String> {
        self.write_each(batch, out, |out| {
            out.pop();
            ends.push(out.len());
        })
    }

    /// Appends the rows of a batch; `written` is called behind each.
    fn write_each(
        &mut self,
        batch: &RecordBatch,
        out: &mut Vec<u8>,
        mut written: impl FnMut(&mut Vec<u8>),
    ) -> Result<(), String> {
        let ignores_nulls = matches!(self.kind, KindWriter::Json { ignore_null_fields: true, .. });
        let columns: Vec<Cells> =
            batch.columns().iter().map(|column| Cells::new(column, &self.rules, ignores_nulls)).collect();
        for row in 0..batch.num_rows() {
            let row_written = match &self.kind {
                KindWriter::Csv { dialect, .. } => csv::write::row(dialect, &self.rules, &columns, row, out),
                KindWriter::Json { members, ignore_null_fields } => {
                    json::write::row(members, *ignore_null_fields, &columns, row, out)
                }
            };
            row_written.map_err(|(column, problem)| {
                format!(
                    "row {} of the INSERT, column '{}': {problem}",
                    self.rows + row + 1,
                    batch.schema_ref().field(column).name()
                )
            })?;
            written(out);
        }
        self.rows += batch.num_rows();
        Ok(())
    }
}
