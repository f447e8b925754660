//! The SQL types of columns, and the Arrow types that hold them.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, TimeUnit};
use pelton_data::column::{MAP_ENTRIES, MAP_KEY, MAP_VALUE};
use pelton_data::spelling::identifier;

/// Fractional digits of a TIMESTAMP written without precision, as in Flink.
pub const TIMESTAMP_PRECISION_DEFAULT: u8 = 6;

/// Most digits a DECIMAL can have.
pub const DECIMAL_PRECISION_MAX: u8 = 38;

/// A column's SQL type, as declared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SqlType {
    /// `BOOLEAN`
    Boolean,
    /// `TINYINT`, 8 bits
    TinyInt,
    /// `SMALLINT`, 16 bits
    SmallInt,
    /// `INT`, 32 bits
    Int,
    /// `BIGINT`, 64 bits
    BigInt,
    /// `FLOAT`, 32 bits
    Float,
    /// `DOUBLE`, 64 bits
    Double,
    /// `DECIMAL(precision, scale)`
    Decimal {
        /// Digits in all.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// `CHAR(length)`; not padded.
    Char(u32),
    /// `VARCHAR(length)`; the length is not enforced.
    Varchar(u32),
    /// `STRING`
    String,
    /// `BYTES`, `BINARY(n)` and `VARBINARY(n)`; lengths are not enforced.
    Bytes,
    /// `DATE`
    Date,
    /// `TIMESTAMP(precision)`, without a time zone.
    Timestamp(u8),
    /// `TIMESTAMP_LTZ(precision)`: an instant.
    TimestampLtz(u8),
    /// `ROW<name type, …>`
    Row(Vec<RowField>),
    /// `ARRAY<element>`
    Array(Box<Element>),
    /// `MAP<key, value>`; keys are never NULL.
    Map {
        /// Type of the keys.
        key: Box<SqlType>,
        /// Type of the values.
        value: Box<Element>,
    },
}

/// A field of a ROW.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RowField {
    /// Name.
    pub name: String,
    /// Type, and whether it may be NULL.
    pub element: Element,
    /// What its declaration says of it.
    pub comment: Option<String>,
}

/// The type of a part of a nested value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Element {
    /// Type.
    pub sql_type: SqlType,
    /// Whether it may be NULL.
    pub nullable: bool,
}

impl Element {
    fn to_field(&self, name: &str) -> Field {
        Field::new(name, self.sql_type.to_arrow(), self.nullable)
    }

    fn from_field(field: &Field) -> Option<Element> {
        Some(Element { sql_type: SqlType::from_arrow(field.data_type())?, nullable: field.is_nullable() })
    }
}

impl SqlType {
    /// Whether values are points in time that can be an event time.
    pub fn is_timestamp(&self) -> bool {
        matches!(self, SqlType::Timestamp(_) | SqlType::TimestampLtz(_))
    }

    /// The Arrow type of the column's values.
    pub fn to_arrow(&self) -> DataType {
        match self {
            SqlType::Boolean => DataType::Boolean,
            SqlType::TinyInt => DataType::Int8,
            SqlType::SmallInt => DataType::Int16,
            SqlType::Int => DataType::Int32,
            SqlType::BigInt => DataType::Int64,
            SqlType::Float => DataType::Float32,
            SqlType::Double => DataType::Float64,
            &SqlType::Decimal { precision, scale } => DataType::Decimal128(precision, scale as i8),
            SqlType::Char(_) | SqlType::Varchar(_) | SqlType::String => DataType::Utf8View,
            SqlType::Bytes => DataType::BinaryView,
            SqlType::Date => DataType::Date32,
            SqlType::Timestamp(precision) => DataType::Timestamp(time_unit(*precision), None),
            SqlType::TimestampLtz(precision) => DataType::Timestamp(time_unit(*precision), Some("+00:00".into())),
            SqlType::Row(fields) => {
                DataType::Struct(fields.iter().map(|field| field.element.to_field(&field.name)).collect())
            }
            SqlType::Array(element) => DataType::List(Arc::new(element.to_field(Field::LIST_FIELD_DEFAULT_NAME))),
            SqlType::Map { key, value } => {
                let entries = [Field::new(MAP_KEY, key.to_arrow(), false), value.to_field(MAP_VALUE)];
                let entries = Field::new(MAP_ENTRIES, DataType::Struct(entries.into_iter().collect()), false);
                DataType::Map(Arc::new(entries), false)
            }
        }
    }

    /// The SQL type that an Arrow type is shown as, or `None` where no column can have it. Dictionaries are shown as their values.
    pub fn from_arrow(data_type: &DataType) -> Option<SqlType> {
        Some(match data_type {
            DataType::Boolean => SqlType::Boolean,
            DataType::Int8 => SqlType::TinyInt,
            DataType::Int16 => SqlType::SmallInt,
            DataType::Int32 => SqlType::Int,
            DataType::Int64 => SqlType::BigInt,
            DataType::Float32 => SqlType::Float,
            DataType::Float64 => SqlType::Double,
            DataType::Decimal128(precision, scale) => {
                SqlType::Decimal { precision: *precision, scale: u8::try_from(*scale).ok()? }
            }
            DataType::Utf8View | DataType::Utf8 | DataType::LargeUtf8 => SqlType::String,
            DataType::BinaryView | DataType::Binary | DataType::LargeBinary => SqlType::Bytes,
            DataType::Date32 => SqlType::Date,
            DataType::Timestamp(unit, zone) => {
                let precision = match unit {
                    TimeUnit::Second => 0,
                    TimeUnit::Millisecond => 3,
                    TimeUnit::Microsecond => 6,
                    TimeUnit::Nanosecond => return None,
                };
                if zone.is_some() { SqlType::TimestampLtz(precision) } else { SqlType::Timestamp(precision) }
            }
            DataType::Dictionary(_, values) => SqlType::from_arrow(values)?,
            DataType::Struct(fields) => {
                let field = |field: &Arc<Field>| {
                    let element = Element::from_field(field)?;
                    Some(RowField { name: field.name().clone(), element, comment: None })
                };
                SqlType::Row(fields.iter().map(field).collect::<Option<_>>()?)
            }
            DataType::List(item) => SqlType::Array(Box::new(Element::from_field(item)?)),
            DataType::Map(entries, _) => {
                let DataType::Struct(entries) = entries.data_type() else { return None };
                let [key, value] = entries.as_ref() else { return None };
                let key = Box::new(SqlType::from_arrow(key.data_type())?);
                SqlType::Map { key, value: Box::new(Element::from_field(value)?) }
            }
            _ => return None,
        })
    }
}

/// The coarsest Arrow unit that keeps `precision` fractional digits of a second.
fn time_unit(precision: u8) -> TimeUnit {
    match precision {
        0 => TimeUnit::Second,
        1..=3 => TimeUnit::Millisecond,
        _ => TimeUnit::Microsecond,
    }
}

impl fmt::Display for SqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SqlType::Boolean => f.write_str("BOOLEAN"),
            SqlType::TinyInt => f.write_str("TINYINT"),
            SqlType::SmallInt => f.write_str("SMALLINT"),
            SqlType::Int => f.write_str("INT"),
            SqlType::BigInt => f.write_str("BIGINT"),
            SqlType::Float => f.write_str("FLOAT"),
            SqlType::Double => f.write_str("DOUBLE"),
            SqlType::Decimal { precision, scale } => write!(f, "DECIMAL({precision}, {scale})"),
            SqlType::Char(length) => write!(f, "CHAR({length})"),
            SqlType::Varchar(length) => write!(f, "VARCHAR({length})"),
            SqlType::String => f.write_str("STRING"),
            SqlType::Bytes => f.write_str("BYTES"),
            SqlType::Date => f.write_str("DATE"),
            SqlType::Timestamp(precision) => write!(f, "TIMESTAMP({precision})"),
            SqlType::TimestampLtz(precision) => write!(f, "TIMESTAMP_LTZ({precision})"),
            SqlType::Row(fields) => {
                f.write_str("ROW<")?;
                for (index, RowField { name, element, comment }) in fields.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(f, "{separator}{} {element}", identifier(name))?;
                    if let Some(comment) = comment {
                        write!(f, " '{}'", comment.replace('\'', "''"))?;
                    }
                }
                f.write_str(">")
            }
            SqlType::Array(element) => write!(f, "ARRAY<{element}>"),
            SqlType::Map { key, value } => write!(f, "MAP<{key}, {value}>"),
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.sql_type, if self.nullable { "" } else { " NOT NULL" })
    }
}
