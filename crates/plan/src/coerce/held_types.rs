//! The types in which blocks and tables of state hold values.

use arrow::datatypes::{DataType, TimeUnit};
use pelton_data::column::is_nested;

use crate::types::SqlType;

/// The type that blocks and tables hold values of `data_type` in, or `None` where there is none.
pub(crate) fn held_type(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::Null => DataType::Utf8View,
        DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 | DataType::UInt64 => DataType::Int64,
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        DataType::Date64 => DataType::Date32,
        DataType::Float16 => DataType::Float32,
        other if is_nested(other) => return None,
        other => SqlType::from_arrow(other)?.to_arrow(),
    })
}

/// As [`held_type`], and nested types: rows on their way carry values of these, and no table of state holds them.
pub(crate) fn carried_type(data_type: &DataType) -> Option<DataType> {
    held_type(data_type).or_else(|| is_nested(data_type).then(|| data_type.clone()))
}

/// How a part of a value of a nested type is written; `None` of other types.
pub(crate) fn part_of(data_type: &DataType) -> Option<&'static str> {
    match data_type {
        DataType::Struct(_) => Some("row.field"),
        DataType::List(_) => Some("array[1]"),
        DataType::Map(..) => Some("map['key']"),
        _ => None,
    }
}

/// As [`held_type`], and `data_type` itself where there is none: an array is held as it is, and the rest is refused where it is read.
pub(crate) fn held_or_same(data_type: &DataType) -> DataType {
    held_type(data_type).unwrap_or_else(|| data_type.clone())
}
