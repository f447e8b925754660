//! From columns to fields of messages.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{Float32Type, Float64Type, Int32Type, Int64Type};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, Value};

/// The value of a row for a field; none where it is NULL.
pub(super) fn value(column: &ArrayRef, row: usize, field: &FieldDescriptor) -> Result<Option<Value>, String> {
    if column.is_null(row) {
        return Ok(None);
    }
    if field.is_map() {
        let Kind::Message(entry) = field.kind() else { unreachable!("maps have entries") };
        let map = column.as_map();
        let ends = map.value_offsets();
        let mut values = HashMap::new();
        for index in ends[row] as usize..ends[row + 1] as usize {
            let key = value(map.keys(), index, &entry.map_entry_key_field())?;
            let key = key.and_then(Value::into_map_key).ok_or("a map has no key that Protobuf can have")?;
            let value = value(map.values(), index, &entry.map_entry_value_field())?;
            values.insert(key, value.ok_or("a map has a NULL, which Protobuf does not have")?);
        }
        return Ok(Some(Value::Map(values)));
    }
    if field.is_list() {
        let elements = column.as_list::<i32>().value(row);
        let element = |index| match single(&elements, index, &field.kind())? {
            Some(value) => Ok(value),
            None => Err(format!("the array {} has a NULL, which Protobuf does not have", field.name())),
        };
        return Ok(Some(Value::List((0..elements.len()).map(element).collect::<Result<_, String>>()?)));
    }
    single(column, row, &field.kind())
}

fn single(column: &ArrayRef, row: usize, kind: &Kind) -> Result<Option<Value>, String> {
    if column.is_null(row) {
        return Ok(None);
    }
    let int = || column.as_primitive::<Int32Type>().value(row);
    let long = || column.as_primitive::<Int64Type>().value(row);
    Ok(Some(match kind {
        Kind::Bool => Value::Bool(column.as_boolean().value(row)),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(int()),
        Kind::Uint32 | Kind::Fixed32 => Value::U32(int().cast_unsigned()),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(long()),
        Kind::Uint64 | Kind::Fixed64 => Value::U64(long().cast_unsigned()),
        Kind::Float => Value::F32(column.as_primitive::<Float32Type>().value(row)),
        Kind::Double => Value::F64(column.as_primitive::<Float64Type>().value(row)),
        Kind::String => Value::String(column.as_string_view().value(row).to_owned()),
        Kind::Bytes => Value::Bytes(column.as_binary_view().value(row).to_vec().into()),
        Kind::Enum(names) => match column.as_string_view_opt() {
            None => Value::EnumNumber(int()),
            Some(texts) => {
                let text = texts.value(row);
                let found = names.get_value_by_name(text);
                let found = found.ok_or_else(|| format!("'{text}' is no value of {}", names.full_name()))?;
                Value::EnumNumber(found.number())
            }
        },
        Kind::Message(descriptor) => {
            let parts = column.as_struct();
            let mut message = DynamicMessage::new(descriptor.clone());
            for (name, part) in parts.column_names().into_iter().zip(parts.columns()) {
                let field = descriptor.get_field_by_name(name).expect("fields were found when the table was opened");
                if let Some(value) = value(part, row, &field)? {
                    message.set_field(&field, value);
                }
            }
            Value::Message(message)
        }
    }))
}
