//! The Avro schema of a table's columns, as Flink derives it.

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, TimeUnit};
use pelton_data::column::sql_name;
use std::sync::Arc;

use crate::ConnectorError;
use crate::options::Options;

/// The name of the record, which is Flink's.
const RECORD: &str = "record";
const NAMESPACE: &str = "org.apache.flink.avro.generated";

/// How timestamps are encoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timestamps {
    /// TIMESTAMP is what Avro means by an instant, as Flink has it by default.
    pub(crate) are_legacy: bool,
}

impl Timestamps {
    pub(crate) fn of(options: &Options) -> Result<Timestamps, ConnectorError> {
        let legacy = options.choice("avro.timestamp_mapping.legacy", &[("true", true), ("false", false)])?;
        Ok(Timestamps { are_legacy: legacy.unwrap_or(true) })
    }
}

/// The schema of a record of these columns.
///
/// # Errors
/// A column that Avro has no values for.
pub(crate) fn record(schema: &Schema, timestamps: Timestamps) -> Result<String, String> {
    let fields = fields(schema.fields(), RECORD, timestamps)?;
    Ok(format!(r#"{{"type":"record","name":"{RECORD}","namespace":"{NAMESPACE}","fields":[{fields}]}}"#))
}

/// What is wrong with a column.
pub(crate) fn check(name: &str, data_type: &DataType, timestamps: Timestamps) -> Result<(), String> {
    check_name(name)?;
    value(data_type, &format!("{RECORD}_{name}"), timestamps).map(drop)
}

fn check_name(name: &str) -> Result<(), String> {
    let is_letter = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    let is_name =
        name.starts_with(is_letter) && name.chars().all(|letter| is_letter(letter) || letter.is_ascii_digit());
    if is_name { Ok(()) } else { Err(format!("has the name '{name}', and Avro's have letters, digits and '_' only")) }
}

fn fields(fields: &Fields, record: &str, timestamps: Timestamps) -> Result<String, String> {
    let field = |field: &FieldRef| {
        check_name(field.name())?;
        let own = optional(field, &format!("{record}_{}", field.name()), timestamps)?;
        let default = if field.is_nullable() { r#","default":null"# } else { "" };
        Ok(format!(r#"{{"name":"{}","type":{own}{default}}}"#, field.name()))
    };
    Ok(fields.iter().map(field).collect::<Result<Vec<_>, String>>()?.join(","))
}

/// The schema of a field, or of the elements of an array.
fn optional(field: &Field, record: &str, timestamps: Timestamps) -> Result<String, String> {
    let own = value(field.data_type(), record, timestamps)?;
    Ok(if field.is_nullable() { format!(r#"["null",{own}]"#) } else { own })
}

fn value(data_type: &DataType, record: &str, timestamps: Timestamps) -> Result<String, String> {
    let logical = |of: &str, name: &str| format!(r#"{{"type":"{of}","logicalType":"{name}"}}"#);
    Ok(match data_type {
        DataType::Boolean => r#""boolean""#.into(),
        DataType::Int8 | DataType::Int16 | DataType::Int32 => r#""int""#.into(),
        DataType::Int64 => r#""long""#.into(),
        DataType::Float32 => r#""float""#.into(),
        DataType::Float64 => r#""double""#.into(),
        DataType::Utf8View => r#""string""#.into(),
        DataType::BinaryView => r#""bytes""#.into(),
        DataType::Date32 => logical("int", "date"),
        DataType::Decimal128(precision, scale) => {
            format!(r#"{{"type":"bytes","logicalType":"decimal","precision":{precision},"scale":{scale}}}"#)
        }
        DataType::Timestamp(unit, zone) => {
            let local = if zone.is_none() && !timestamps.are_legacy { "local-" } else { "" };
            let unit = if fine(*unit) { "micros" } else { "millis" };
            logical("long", &format!("{local}timestamp-{unit}"))
        }
        DataType::List(element) => {
            format!(r#"{{"type":"array","items":{}}}"#, optional(element, record, timestamps)?)
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(parts) if *parts[0].data_type() == DataType::Utf8View => {
                format!(r#"{{"type":"map","values":{}}}"#, optional(&parts[1], record, timestamps)?)
            }
            _ => return Err(format!("has the type {}, and the keys of Avro's maps are strings", sql_name(data_type))),
        },
        DataType::Struct(parts) => {
            let fields = fields(parts, record, timestamps)?;
            format!(r#"{{"type":"record","name":"{record}","fields":[{fields}]}}"#)
        }
        other => return Err(format!("has the type {}, which Avro does not have", sql_name(other))),
    })
}

/// Whether there is more than a millisecond to tell.
fn fine(unit: TimeUnit) -> bool {
    matches!(unit, TimeUnit::Microsecond | TimeUnit::Nanosecond)
}

/// The columns in the types that records are encoded from.
pub(crate) fn native(schema: &Schema, timestamps: Timestamps) -> Schema {
    Schema::new(schema.fields().iter().map(|field| native_field(field, timestamps)).collect::<Vec<_>>())
}

fn native_field(field: &FieldRef, timestamps: Timestamps) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(native_type(field.data_type(), timestamps)))
}

fn native_type(data_type: &DataType, timestamps: Timestamps) -> DataType {
    match data_type {
        DataType::Int8 | DataType::Int16 => DataType::Int32,
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Timestamp(unit, zone) => {
            let unit = if fine(*unit) { TimeUnit::Microsecond } else { TimeUnit::Millisecond };
            let is_instant = zone.is_some() || timestamps.are_legacy;
            DataType::Timestamp(unit, is_instant.then(|| "+00:00".into()))
        }
        DataType::List(element) => DataType::List(native_field(element, timestamps)),
        DataType::Map(entries, is_sorted) => DataType::Map(native_field(entries, timestamps), *is_sorted),
        DataType::Struct(parts) => DataType::Struct(parts.iter().map(|part| native_field(part, timestamps)).collect()),
        other => other.clone(),
    }
}
