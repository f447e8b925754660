//! From fields of messages to columns.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, ListArray, MapArray, PrimitiveArray, StringViewArray, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, FieldRef, Fields, Float32Type, Float64Type, Int32Type, Int64Type,
};
use pelton_data::column::sql_name;
use pelton_data::spelling::closest;
use prost_reflect::{
    DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage as _, Value,
};

/// The field of a message that a column of this type has.
pub(super) fn field(message: &MessageDescriptor, name: &str, data_type: &DataType) -> Result<FieldDescriptor, String> {
    let Some(field) = message.get_field_by_name(name) else {
        let names: Vec<String> = message.fields().map(|field| field.name().to_owned()).collect();
        let meant = closest(name, names.iter().map(String::as_str));
        let meant = meant
            .map_or_else(|| format!(", which has {}", names.join(", ")), |name| format!("; did you mean '{name}'?"));
        return Err(format!("is no field of the message {}{meant}", message.full_name()));
    };
    fits(&field, data_type).map(|()| field)
}

/// What is wrong with a column's type, whatever the message is.
pub(super) fn check(data_type: &DataType) -> Result<(), String> {
    match data_type {
        DataType::Boolean | DataType::Int32 | DataType::Int64 | DataType::Float32 | DataType::Float64 => Ok(()),
        DataType::Utf8View | DataType::BinaryView => Ok(()),
        DataType::List(element) => check(element.data_type()),
        DataType::Struct(parts) => parts.iter().try_for_each(|part| check(part.data_type())),
        DataType::Map(entries, _) => check(entries.data_type()),
        other => Err(format!("has the type {}, which Protobuf does not have", sql_name(other))),
    }
}

fn fits(field: &FieldDescriptor, data_type: &DataType) -> Result<(), String> {
    let wrong = || {
        let repeated = if field.is_list() { "repeated " } else { "" };
        Err(format!(
            "has the type {}, and its field in the message is {repeated}{:?}",
            sql_name(data_type),
            field.kind()
        ))
    };
    if field.is_map() {
        let DataType::Map(entries, _) = data_type else { return wrong() };
        let (DataType::Struct(parts), Kind::Message(entry)) = (entries.data_type(), field.kind()) else {
            return wrong();
        };
        fits(&entry.map_entry_key_field(), parts[0].data_type())?;
        return fits(&entry.map_entry_value_field(), parts[1].data_type());
    }
    match (field.is_list(), data_type) {
        (true, DataType::List(element)) if kind_fits(&field.kind(), element.data_type())? => Ok(()),
        (false, data_type) if kind_fits(&field.kind(), data_type)? => Ok(()),
        _ => wrong(),
    }
}

fn kind_fits(kind: &Kind, data_type: &DataType) -> Result<bool, String> {
    Ok(match kind {
        Kind::Bool => *data_type == DataType::Boolean,
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => *data_type == DataType::Int32,
        // As in Flink, unsigned numbers are the signed ones of the same bits.
        Kind::Uint32 | Kind::Fixed32 => *data_type == DataType::Int32,
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 | Kind::Uint64 | Kind::Fixed64 => *data_type == DataType::Int64,
        Kind::Float => *data_type == DataType::Float32,
        Kind::Double => *data_type == DataType::Float64,
        Kind::String => *data_type == DataType::Utf8View,
        Kind::Bytes => *data_type == DataType::BinaryView,
        Kind::Enum(_) => matches!(data_type, DataType::Utf8View | DataType::Int32),
        Kind::Message(message) => match data_type {
            DataType::Struct(parts) => {
                parts.iter().try_for_each(|part| field(message, part.name(), part.data_type()).map(drop))?;
                true
            }
            _ => false,
        },
    })
}

/// A value with what its names are, if it is one of an enumeration.
pub(super) type Found = Option<(Value, Option<EnumDescriptor>)>;

/// The value of a field, if it is there.
pub(super) fn value_of(message: &DynamicMessage, field: &FieldDescriptor, reads_defaults: bool) -> Found {
    let is_there = !field.supports_presence() || message.has_field(field) || reads_defaults && !is_message(field);
    is_there.then(|| (message.get_field(field).into_owned(), names(field)))
}

fn is_message(field: &FieldDescriptor) -> bool {
    matches!(field.kind(), Kind::Message(_))
}

fn names(field: &FieldDescriptor) -> Option<EnumDescriptor> {
    match field.kind() {
        Kind::Enum(names) => Some(names),
        _ => None,
    }
}

/// A column of values.
pub(super) fn array(data_type: &DataType, values: Vec<Found>, reads_defaults: bool) -> Result<ArrayRef, String> {
    Ok(match data_type {
        DataType::Boolean => Arc::new(
            values.iter().map(|found| found.as_ref().and_then(|(value, _)| value.as_bool())).collect::<BooleanArray>(),
        ),
        DataType::Int32 => numbers::<Int32Type>(&values, |value| match value {
            Value::I32(number) | Value::EnumNumber(number) => Some(*number),
            Value::U32(number) => Some(number.cast_signed()),
            _ => None,
        }),
        DataType::Int64 => numbers::<Int64Type>(&values, |value| match value {
            Value::I64(number) => Some(*number),
            Value::U64(number) => Some(number.cast_signed()),
            _ => None,
        }),
        DataType::Float32 => numbers::<Float32Type>(&values, Value::as_f32),
        DataType::Float64 => numbers::<Float64Type>(&values, Value::as_f64),
        DataType::Utf8View => {
            Arc::new(values.iter().map(|found| found.as_ref().and_then(text)).collect::<StringViewArray>())
        }
        DataType::BinaryView => {
            let bytes = |found: &Found| found.as_ref().and_then(|(value, _)| value.as_bytes().cloned());
            let bytes: Vec<_> = values.iter().map(bytes).collect();
            Arc::new(BinaryViewArray::from_iter(bytes.iter().map(Option::as_deref)))
        }
        DataType::Struct(parts) => Arc::new(rows(parts, values, reads_defaults)?),
        DataType::List(element) => lists(element, values, reads_defaults)?,
        DataType::Map(entries, _) => maps(entries, values, reads_defaults)?,
        other => return Err(format!("has the type {}, which Protobuf does not have", sql_name(other))),
    })
}

fn numbers<T: ArrowPrimitiveType>(values: &[Found], read: impl Fn(&Value) -> Option<T::Native>) -> ArrayRef {
    Arc::new(
        values.iter().map(|found| found.as_ref().and_then(|(value, _)| read(value))).collect::<PrimitiveArray<T>>(),
    )
}

fn text((value, names): &(Value, Option<EnumDescriptor>)) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::EnumNumber(number) => {
            let name = names.as_ref().and_then(|names| names.get_value(*number));
            Some(name.map_or_else(|| number.to_string(), |name| name.name().to_owned()))
        }
        _ => None,
    }
}

fn rows(parts: &Fields, values: Vec<Found>, reads_defaults: bool) -> Result<StructArray, String> {
    let messages: Vec<Option<DynamicMessage>> = values
        .into_iter()
        .map(|found| match found {
            Some((Value::Message(message), _)) => Some(message),
            _ => None,
        })
        .collect();
    let part = |part: &FieldRef| {
        let value = |message: &Option<DynamicMessage>| {
            let message = message.as_ref()?;
            value_of(message, &message.descriptor().get_field_by_name(part.name())?, reads_defaults)
        };
        array(part.data_type(), messages.iter().map(value).collect(), reads_defaults)
    };
    let columns = parts.iter().map(part).collect::<Result<Vec<_>, _>>()?;
    let nulls = NullBuffer::from_iter(messages.iter().map(Option::is_some));
    StructArray::try_new(parts.clone(), columns, Some(nulls)).map_err(|error| error.to_string())
}

fn lists(element: &FieldRef, values: Vec<Found>, reads_defaults: bool) -> Result<ArrayRef, String> {
    let (mut elements, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
    for found in values {
        valid.push(found.is_some());
        let before = elements.len();
        if let Some((Value::List(list), names)) = found {
            elements.extend(list.into_iter().map(|value| Some((value, names.clone()))));
        }
        lengths.push(elements.len() - before);
    }
    let elements = array(element.data_type(), elements, reads_defaults)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    let lists = ListArray::try_new(element.clone(), offsets, elements, Some(valid.into()));
    Ok(Arc::new(lists.map_err(|error| error.to_string())?))
}

fn maps(entries: &FieldRef, values: Vec<Found>, reads_defaults: bool) -> Result<ArrayRef, String> {
    let DataType::Struct(parts) = entries.data_type() else { return Err("is no MAP".to_owned()) };
    let (mut keys, mut items, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for found in values {
        valid.push(found.is_some());
        let before = keys.len();
        if let Some((Value::Map(map), _)) = found {
            let mut pairs: Vec<(MapKey, Value)> = map.into_iter().collect();
            pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
            for (key, value) in pairs {
                keys.push(Some((Value::from(key), None)));
                items.push(Some((value, None)));
            }
        }
        lengths.push(keys.len() - before);
    }
    let columns =
        vec![array(parts[0].data_type(), keys, reads_defaults)?, array(parts[1].data_type(), items, reads_defaults)?];
    let pairs = StructArray::try_new(parts.clone(), columns, None).map_err(|error| error.to_string())?;
    let maps =
        MapArray::try_new(entries.clone(), OffsetBuffer::from_lengths(lengths), pairs, Some(valid.into()), false);
    Ok(Arc::new(maps.map_err(|error| error.to_string())?))
}
