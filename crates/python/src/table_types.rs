//! Arrow types as those that columns of tables have.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StructArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit, TimestampNanosecondType};
use pelton::display::sql_name;
use pelton::identifier;

/// A `UINT64` as a decimal.
const UNSIGNED_DIGITS: u8 = 20;

/// Most digits that a DECIMAL has.
const DIGITS_MAX: u8 = 38;

const NANOS_PER_MICRO: i64 = 1_000;

/// The schema of a table for columns as other libraries have them.
pub fn table_schema(schema: &Schema) -> Result<SchemaRef, String> {
    let field = |field: &FieldRef| table_field(field).map_err(|problem| format!("column {}: {problem}", field.name()));
    Ok(Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Result<Vec<_>, _>>()?)))
}

/// The columns of a table as a list in CREATE TABLE.
pub fn column_list(schema: &Schema) -> String {
    let column = |field: &FieldRef| {
        let not_null = if field.is_nullable() { "" } else { " NOT NULL" };
        format!("{} {}{not_null}", identifier(field.name()), sql_name(field.data_type()))
    };
    schema.fields().iter().map(column).collect::<Vec<_>>().join(", ")
}

fn table_field(field: &FieldRef) -> Result<FieldRef, String> {
    Ok(Arc::new(Field::new(field.name(), table_type(field.data_type())?, field.is_nullable())))
}

/// The type that holds all values of a type and that a column can have.
fn table_type(data_type: &DataType) -> Result<DataType, String> {
    use DataType::*;
    let refused = |instead: &str| Err(format!("a table has no columns of type {data_type}: cast it to {instead}"));
    Ok(match data_type {
        Boolean | Int8 | Int16 | Int32 | Int64 | Float32 | Float64 | Date32 | Decimal128(..) => data_type.clone(),
        UInt8 => Int16,
        UInt16 => Int32,
        UInt32 => Int64,
        UInt64 => Decimal128(UNSIGNED_DIGITS, 0),
        Float16 => Float32,
        Null | Utf8 | LargeUtf8 | Utf8View => Utf8View,
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => BinaryView,
        Date64 => Date32,
        Decimal32(precision, scale) | Decimal64(precision, scale) => Decimal128(*precision, *scale),
        Decimal256(precision, scale) if *precision <= DIGITS_MAX => Decimal128(*precision, *scale),
        Decimal256(..) => return refused("a decimal of at most 38 digits"),
        Timestamp(unit, zone) => {
            let unit = if *unit == TimeUnit::Nanosecond { TimeUnit::Microsecond } else { *unit };
            Timestamp(unit, zone.as_ref().map(|_| "+00:00".into()))
        }
        List(item) | LargeList(item) | ListView(item) | LargeListView(item) | FixedSizeList(item, _) => {
            let item = Field::new(Field::LIST_FIELD_DEFAULT_NAME, table_type(item.data_type())?, item.is_nullable());
            List(Arc::new(item))
        }
        Struct(fields) => Struct(fields.iter().map(table_field).collect::<Result<_, _>>()?),
        Map(entries, _) => {
            let Struct(parts) = entries.data_type() else { return refused("a list") };
            let [key, value] = parts.as_ref() else { return refused("a list") };
            let key = Field::new("key", table_type(key.data_type())?, false);
            let value = Field::new("value", table_type(value.data_type())?, value.is_nullable());
            let entries = Struct([key, value].into_iter().collect());
            Map(Arc::new(Field::new("entries", entries, false)), false)
        }
        Dictionary(_, values) => table_type(values)?,
        RunEndEncoded(_, values) => table_type(values.data_type())?,
        Time32(_) | Time64(_) => return refused("a string, or a number of seconds"),
        Duration(_) | Interval(_) => return refused("a number of seconds"),
        Union(..) => return refused("a struct"),
    })
}

/// The rows in the types of a table's schema. Columns are found by their places.
pub fn as_table_rows(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, String> {
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| as_type(column, field));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    if columns.is_empty() {
        return Err("rows without columns".to_owned());
    }
    RecordBatch::try_new(schema.clone(), columns).map_err(|error| error.to_string())
}

/// The values of a column in the type of a table's, none of which may be lost.
pub fn as_type(values: &ArrayRef, field: &Field) -> Result<ArrayRef, String> {
    let wanted = field.data_type();
    let failed = |problem: String| format!("column {}: {problem}", field.name());
    if values.data_type() == wanted {
        return Ok(values.clone());
    }
    check_nanoseconds(values, wanted).map_err(failed)?;
    // A row that is NULL has no parts of its own: what these are in other libraries says nothing.
    if let (Some(rows), DataType::Struct(fields)) = (values.as_struct_opt(), wanted) {
        let parts = rows.columns().iter().zip(fields).map(|(part, field)| as_type(part, field));
        let parts = parts.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let rows = StructArray::try_new(fields.clone(), parts, rows.nulls().cloned());
        return rows.map(|rows| Arc::new(rows) as ArrayRef).map_err(|error| failed(error.to_string()));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(values, wanted, &options).map_err(|error| failed(error.to_string()))
}

/// Tables have microseconds.
fn check_nanoseconds(values: &ArrayRef, wanted: &DataType) -> Result<(), String> {
    let is_cut = matches!(wanted, DataType::Timestamp(unit, _) if *unit != TimeUnit::Nanosecond);
    let Some(nanos) = values.as_primitive_opt::<TimestampNanosecondType>().filter(|_| is_cut) else { return Ok(()) };
    match nanos.iter().flatten().find(|nanos| nanos % NANOS_PER_MICRO != 0) {
        None => Ok(()),
        Some(nanos) => Err(format!(
            "a time has {} nanoseconds behind its microseconds, which a table's have not: round it",
            nanos.rem_euclid(NANOS_PER_MICRO)
        )),
    }
}
