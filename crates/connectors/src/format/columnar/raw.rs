//! Columns whose values the library does not check: they are read as bytes, and decoded here.
//!
//! The library takes the bytes of a text column for UTF-8 unless the file marks the column STRING, and wraps an INT96 time that does not fit 64 bits.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryArray, Int64Array};
use arrow::datatypes::{
    DataType, Date64Type, Field, Fields, Schema, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampSecondType,
};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::{Repetition, Type as PhysicalType};
use parquet::errors::ParquetError;
use parquet::file::metadata::{FileMetaData, ParquetMetaData, ParquetMetaDataBuilder};
use parquet::schema::types::{SchemaDescriptor, Type, TypePtr};
use pelton_data::column::checked_strings;
use pelton_data::time::ticks_per_second;

use super::super::value::Wrong;

/// Bytes of an INT96 time.
const INT96_BYTES: i32 = 12;

/// The Julian day of 1970-01-01.
const JULIAN_DAY_OF_EPOCH: i64 = 2_440_588;

const SECONDS_PER_DAY: i64 = 86_400;
const MILLIS_PER_DAY: i64 = 86_400_000;
const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// The same metadata, with text, bytes and INT96 times as plain bytes.
///
/// # Errors
/// Where the library does not read the columns so.
pub(in crate::format) fn with_raw_columns(metadata: &ArrowReaderMetadata) -> Result<ArrowReaderMetadata, ParquetError> {
    let file = metadata.metadata().file_metadata();
    let (mut types, mut fields) = (Vec::new(), Vec::new());
    for (parquet, arrow) in file.schema().get_fields().iter().zip(metadata.schema().fields()) {
        let (parquet, data_type) = raw(parquet, arrow.data_type())?;
        types.push(parquet);
        fields.push(Field::clone(arrow).with_data_type(data_type));
    }
    let root = Type::group_type_builder(file.schema().name()).with_fields(types).build()?;
    let file = FileMetaData::new(
        file.version(),
        file.num_rows(),
        file.created_by().map(str::to_owned),
        file.key_value_metadata().cloned(),
        Arc::new(SchemaDescriptor::new(Arc::new(root))),
        file.column_orders().cloned(),
    );
    let parts: &ParquetMetaData = metadata.metadata();
    let raw = ParquetMetaDataBuilder::new(file)
        .set_row_groups(parts.row_groups().to_vec())
        .set_offset_index(parts.offset_index().cloned())
        .build();
    let options = ArrowReaderOptions::new().with_schema(Arc::new(Schema::new(fields)));
    ArrowReaderMetadata::try_new(Arc::new(raw), options)
}

/// A column of the file as bytes, and the array that it is read into. Other columns, and nested ones of a form that is not read, stay as they are.
fn raw(column: &TypePtr, data_type: &DataType) -> Result<(TypePtr, DataType), ParquetError> {
    let unchanged = || Ok((column.clone(), data_type.clone()));
    let info = column.get_basic_info();
    if info.repetition() == Repetition::REPEATED {
        return unchanged();
    }
    if !column.is_primitive() {
        return Ok(raw_parts(column, data_type)?.unwrap_or((column.clone(), data_type.clone())));
    }
    let (physical, length, data_type) = match column.get_physical_type() {
        PhysicalType::BYTE_ARRAY if is_bytes(data_type) => (PhysicalType::BYTE_ARRAY, -1, DataType::BinaryView),
        // They are encoded alike.
        PhysicalType::INT96 => {
            (PhysicalType::FIXED_LEN_BYTE_ARRAY, INT96_BYTES, DataType::FixedSizeBinary(INT96_BYTES))
        }
        _ => return unchanged(),
    };
    let plain = Type::primitive_type_builder(column.name(), physical)
        .with_repetition(info.repetition())
        .with_length(length)
        .with_id(info.has_id().then(|| info.id()))
        .build()?;
    Ok((Arc::new(plain), data_type))
}

/// The same for the parts of a nested column; `None` where it has a form that is not read.
fn raw_parts(column: &TypePtr, data_type: &DataType) -> Result<Option<(TypePtr, DataType)>, ParquetError> {
    match data_type {
        DataType::Struct(fields) => {
            let Some((column, fields)) = raw_members(column, fields)? else { return Ok(None) };
            Ok(Some((column, DataType::Struct(fields))))
        }
        DataType::List(item) | DataType::LargeList(item) => {
            let [repeated] = column.get_fields() else { return Ok(None) };
            // Lists of other forms are of old writers.
            if !repeated.is_group()
                || repeated.get_fields().len() != 1
                || repeated.get_fields()[0].name() != item.name()
            {
                return Ok(None);
            }
            let (element, data_type) = raw(&repeated.get_fields()[0], item.data_type())?;
            let column = with_fields(column, vec![with_fields(repeated, vec![element])?])?;
            let item = Arc::new(Field::clone(item).with_data_type(data_type));
            Ok(Some((column, DataType::List(item))))
        }
        DataType::Map(entries, is_ordered) => {
            let ([repeated], DataType::Struct(pair)) = (column.get_fields(), entries.data_type()) else {
                return Ok(None);
            };
            let Some((repeated, pair)) = raw_members(repeated, pair)? else { return Ok(None) };
            let entries = Arc::new(Field::clone(entries).with_data_type(DataType::Struct(pair)));
            Ok(Some((with_fields(column, vec![repeated])?, DataType::Map(entries, *is_ordered))))
        }
        _ => Ok(None),
    }
}

/// The same for the members of a group.
fn raw_members(group: &TypePtr, fields: &Fields) -> Result<Option<(TypePtr, Fields)>, ParquetError> {
    if !group.is_group() || group.get_fields().len() != fields.len() {
        return Ok(None);
    }
    let (mut types, mut arrow) = (Vec::new(), Vec::new());
    for (member, field) in group.get_fields().iter().zip(fields) {
        let (member, data_type) = raw(member, field.data_type())?;
        types.push(member);
        arrow.push(Field::clone(field).with_data_type(data_type));
    }
    Ok(Some((with_fields(group, types)?, arrow.into())))
}

/// A group with other members.
fn with_fields(group: &TypePtr, members: Vec<TypePtr>) -> Result<TypePtr, ParquetError> {
    let info = group.get_basic_info();
    let group = Type::group_type_builder(group.name())
        .with_repetition(info.repetition())
        .with_converted_type(info.converted_type())
        .with_logical_type(info.logical_type_ref().cloned())
        .with_id(info.has_id().then(|| info.id()))
        .with_fields(members);
    Ok(Arc::new(group.build()?))
}

/// Whether a column, or a part of one, is nested in a form that is read: such as all writers of today have.
pub(in crate::format) fn is_read(column: &TypePtr, data_type: &DataType) -> bool {
    let info = column.get_basic_info();
    if info.has_repetition() && info.repetition() == Repetition::REPEATED {
        return false;
    }
    if column.is_primitive() {
        return true;
    }
    let are_read = |group: &TypePtr, fields: &Fields| {
        group.is_group()
            && group.get_fields().len() == fields.len()
            && group.get_fields().iter().zip(fields).all(|(member, field)| is_read(member, field.data_type()))
    };
    match (data_type, column.get_fields()) {
        (DataType::Struct(fields), _) => are_read(column, fields),
        (DataType::List(item) | DataType::LargeList(item), [repeated]) => {
            repeated.is_group()
                && matches!(repeated.get_fields(), [element] if element.name() == item.name() && is_read(element, item.data_type()))
        }
        (DataType::Map(entries, _), [repeated]) => match entries.data_type() {
            DataType::Struct(pair) => are_read(repeated, pair),
            _ => false,
        },
        _ => false,
    }
}

/// Whether values of this type are text or bytes.
fn is_bytes(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView => true,
        Dictionary(_, value) => is_bytes(value),
        _ => false,
    }
}

/// The values of a column as `wanted`, for those pairs of types that are decoded here; and the rows, in order, whose values do not fit, with
/// NULL in their place.
pub(in crate::format) fn decoded(column: &ArrayRef, wanted: &DataType) -> Option<(ArrayRef, Vec<usize>, Wrong)> {
    Some(match (column.data_type(), wanted) {
        (DataType::BinaryView, DataType::Utf8View) => {
            let (strings, wrong) = checked_strings(column.as_binary_view());
            (Arc::new(strings), wrong, Wrong::Utf8)
        }
        (DataType::FixedSizeBinary(INT96_BYTES), DataType::Timestamp(unit, zone)) => {
            let values: &FixedSizeBinaryArray = column.as_fixed_size_binary();
            let (ticks, wrong) = checked(column, |row| int96_ticks(values.value(row), *unit));
            let times: ArrayRef = match unit {
                TimeUnit::Second => {
                    Arc::new(ticks.reinterpret_cast::<TimestampSecondType>().with_timezone_opt(zone.clone()))
                }
                TimeUnit::Millisecond => {
                    Arc::new(ticks.reinterpret_cast::<TimestampMillisecondType>().with_timezone_opt(zone.clone()))
                }
                _ => Arc::new(ticks.reinterpret_cast::<TimestampMicrosecondType>().with_timezone_opt(zone.clone())),
            };
            (times, wrong, Wrong::Range)
        }
        // Arrow's own cast wraps, and rounds days before 1970 up.
        (DataType::Date64, DataType::Date32) => {
            let values = column.as_primitive::<Date64Type>();
            let day = |row: usize| i32::try_from(values.value(row).div_euclid(MILLIS_PER_DAY)).ok();
            let days: Vec<Option<i32>> =
                (0..column.len()).map(|row| column.is_valid(row).then(|| day(row)).flatten()).collect();
            let wrong = lost(column, |row| days[row].is_none());
            (Arc::new(arrow::array::Date32Array::from(days)), wrong, Wrong::Range)
        }
        _ => return None,
    })
}

/// The ticks that `value` has for each row that is not NULL, and the rows for which it has none.
fn checked(column: &ArrayRef, value: impl Fn(usize) -> Option<i64>) -> (Int64Array, Vec<usize>) {
    let ticks: Int64Array = (0..column.len()).map(|row| column.is_valid(row).then(|| value(row)).flatten()).collect();
    let wrong = lost(column, |row| ticks.is_null(row));
    (ticks, wrong)
}

/// The rows that are NULL now and were not in `column`.
fn lost(column: &ArrayRef, is_null: impl Fn(usize) -> bool) -> Vec<usize> {
    (0..column.len()).filter(|&row| column.is_valid(row) && is_null(row)).collect()
}

/// An INT96 time: nanoseconds of a day in eight bytes, then a Julian day in four.
fn int96(value: &[u8]) -> Option<(i64, i32)> {
    let (nanos, day) = value.split_first_chunk()?;
    Some((i64::from_le_bytes(*nanos), i32::from_le_bytes(day.try_into().ok()?)))
}

/// An INT96 time for people.
pub(in crate::format) fn int96_text(value: &[u8]) -> Option<String> {
    int96(value).map(|(nanos, day)| format!("{nanos} ns of Julian day {day}"))
}

/// An INT96 time in ticks since 1970. `None` where it does not fit 64 bits.
fn int96_ticks(value: &[u8], unit: TimeUnit) -> Option<i64> {
    let (nanos, day) = int96(value)?;
    let per_second = ticks_per_second(unit);
    let days = i64::from(day) - JULIAN_DAY_OF_EPOCH;
    let ticks = days.checked_mul(SECONDS_PER_DAY * per_second)?;
    ticks.checked_add(nanos.div_euclid(NANOS_PER_SECOND / per_second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn int96_times_are_right_or_do_not_fit() {
        let time = |day: i32, nanos: i64| [nanos.to_le_bytes().as_slice(), &day.to_le_bytes()].concat();
        // 9999-12-31 is day 2932896 since 1970.
        let last = time(2_440_588 + 2_932_896, 86_399_999_999_999);
        assert_eq!(int96_ticks(&last, TimeUnit::Millisecond), Some(253_402_300_799_999));
        assert_eq!(int96_ticks(&last, TimeUnit::Microsecond), Some(253_402_300_799_999_999));
        // 0001-01-01 is day -719162.
        let first = time(2_440_588 - 719_162, 0);
        assert_eq!(int96_ticks(&first, TimeUnit::Second), Some(-62_135_596_800));
        // A tick that has begun before 1970 is not over.
        assert_eq!(int96_ticks(&time(2_440_588, -1), TimeUnit::Millisecond), Some(-1));
        assert_eq!(int96_ticks(&time(i32::MAX, 0), TimeUnit::Microsecond), None);
        assert_eq!(
            int96_ticks(&time(i32::MAX, 0), TimeUnit::Millisecond),
            Some((2_147_483_647 - 2_440_588) * 86_400_000)
        );
        assert_eq!(int96_ticks(&time(i32::MIN, i64::MIN), TimeUnit::Microsecond), None);
    }
}
