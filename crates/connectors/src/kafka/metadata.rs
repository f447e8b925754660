//! What is known of a message beside its key and its value.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayBuilder, ArrayRef, AsArray, BinaryViewBuilder, Int32Array, Int64Array, MapArray, RecordBatch,
    StringViewArray, StringViewBuilder, StructArray, TimestampMillisecondArray,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, TimeUnit, TimestampMillisecondType};
use pelton_data::column::sql_name;
use pelton_data::spelling::closest;
use rdkafka::message::{BorrowedMessage, Header, Headers, OwnedHeaders, Timestamp};
use rdkafka::{Message, message::BorrowedHeaders};

use crate::format::rows::repeat;
use crate::options::one_of;
use crate::{ConnectorError, TableRequest};

/// A column that is metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetadataColumn {
    Topic,
    Partition,
    Headers,
    Offset,
    Timestamp,
    TimestampType,
}

/// The keys of `METADATA FROM`, and what can be declared for each.
const COLUMNS: &[(&str, MetadataColumn, &str)] = &[
    ("topic", MetadataColumn::Topic, "STRING"),
    ("partition", MetadataColumn::Partition, "INT or BIGINT"),
    ("headers", MetadataColumn::Headers, "MAP<STRING, BYTES>"),
    ("offset", MetadataColumn::Offset, "BIGINT"),
    ("timestamp", MetadataColumn::Timestamp, "TIMESTAMP_LTZ"),
    ("timestamp-type", MetadataColumn::TimestampType, "STRING"),
];

/// Those that are written.
const WRITABLE: &[MetadataColumn] = &[MetadataColumn::Headers, MetadataColumn::Timestamp];

/// The metadata of a key, which a column of this type can have.
pub(super) fn readable(field: &Field, key: &str) -> Result<MetadataColumn, ConnectorError> {
    if key == "leader-epoch" {
        return Err(ConnectorError::column(
            field.name(),
            "asks for the metadata 'leader-epoch', which is not supported",
        ));
    }
    let Some((_, column, wanted)) = COLUMNS.iter().find(|(name, ..)| *name == key) else {
        let names: Vec<String> = COLUMNS.iter().map(|(name, ..)| format!("'{name}'")).collect();
        let meant = closest(key, COLUMNS.iter().map(|(name, ..)| *name));
        let meant = meant.map_or_else(|| format!("use {}", one_of(&names)), |name| format!("did you mean '{name}'?"));
        let problem = format!("asks for the metadata '{key}', which messages do not have; {meant}");
        return Err(ConnectorError::column(field.name(), problem));
    };
    let is_right = match (column, field.data_type()) {
        (MetadataColumn::Topic | MetadataColumn::TimestampType, DataType::Utf8View) => true,
        (MetadataColumn::Partition, DataType::Int32 | DataType::Int64) => true,
        (MetadataColumn::Offset, DataType::Int64) => true,
        (MetadataColumn::Timestamp, DataType::Timestamp(_, Some(_))) => true,
        (MetadataColumn::Headers, DataType::Map(entries, _)) => match entries.data_type() {
            DataType::Struct(fields) => {
                *fields[0].data_type() == DataType::Utf8View && *fields[1].data_type() == DataType::BinaryView
            }
            _ => false,
        },
        _ => false,
    };
    if !is_right {
        let problem = format!(
            "has the type {}, and must be declared {wanted}, the type of the metadata '{key}'",
            sql_name(field.data_type())
        );
        return Err(ConnectorError::column(field.name(), problem));
    }
    Ok(*column)
}

/// The metadata of the messages of a chunk, as far as it is wanted.
pub(super) struct MetadataValues {
    topic: Arc<str>,
    partition: i32,
    timestamps: Option<Vec<Timestamp>>,
    headers: Option<HeaderValues>,
}

/// The headers of messages, one behind the other.
#[derive(Default)]
struct HeaderValues {
    keys: StringViewBuilder,
    values: BinaryViewBuilder,
    ends: Vec<i32>,
}

impl HeaderValues {
    fn push(&mut self, headers: Option<&BorrowedHeaders>) {
        for Header { key, value } in headers.into_iter().flat_map(Headers::iter) {
            self.keys.append_value(key);
            self.values.append_option(value);
        }
        self.ends.push(self.keys.len() as i32);
    }
}

impl MetadataValues {
    pub(super) fn new<'a>(
        topic: Arc<str>,
        partition: i32,
        wanted: impl Iterator<Item = &'a MetadataColumn>,
    ) -> MetadataValues {
        let mut values = MetadataValues { topic, partition, timestamps: None, headers: None };
        for column in wanted {
            match column {
                MetadataColumn::Timestamp | MetadataColumn::TimestampType => values.timestamps = Some(Vec::new()),
                MetadataColumn::Headers => values.headers = Some(HeaderValues::default()),
                MetadataColumn::Topic | MetadataColumn::Partition | MetadataColumn::Offset => {}
            }
        }
        values
    }

    pub(super) fn push(&mut self, message: &BorrowedMessage<'_>) {
        if let Some(timestamps) = &mut self.timestamps {
            timestamps.push(message.timestamp());
        }
        if let Some(headers) = &mut self.headers {
            headers.push(message.headers());
        }
    }

    /// The column of this type, of messages with these offsets.
    pub(super) fn column(&mut self, column: &MetadataColumn, data_type: &DataType, offsets: &[i64]) -> ArrayRef {
        let rows = offsets.len();
        let timestamps = self.timestamps.as_deref().unwrap_or_default();
        let native: ArrayRef = match column {
            MetadataColumn::Topic => repeat(&(Arc::new(StringViewArray::from(vec![&*self.topic])) as ArrayRef), rows),
            MetadataColumn::Partition => Arc::new(Int32Array::from(vec![self.partition; rows])),
            MetadataColumn::Offset => Arc::new(Int64Array::from(offsets.to_vec())),
            MetadataColumn::Timestamp => {
                let millis = timestamps.iter().map(|timestamp| timestamp.to_millis());
                Arc::new(millis.collect::<TimestampMillisecondArray>().with_timezone("+00:00"))
            }
            MetadataColumn::TimestampType => {
                let name = |timestamp: &Timestamp| match timestamp {
                    Timestamp::NotAvailable => "NoTimestampType",
                    Timestamp::CreateTime(_) => "CreateTime",
                    Timestamp::LogAppendTime(_) => "LogAppendTime",
                };
                Arc::new(StringViewArray::from_iter_values(timestamps.iter().map(name)))
            }
            MetadataColumn::Headers => {
                let headers = self.headers.as_mut().expect("headers are noted where they are wanted");
                return headers.column(data_type);
            }
        };
        cast(&native, data_type).expect("columns of other types are refused when the table is opened")
    }
}

impl HeaderValues {
    fn column(&mut self, data_type: &DataType) -> ArrayRef {
        let DataType::Map(entries, is_sorted) = data_type else { unreachable!("headers are a MAP") };
        let DataType::Struct(fields) = entries.data_type() else { unreachable!("entries of a MAP are a ROW") };
        let columns: Vec<ArrayRef> = vec![Arc::new(self.keys.finish()), Arc::new(self.values.finish())];
        let ends = [0].into_iter().chain(self.ends.drain(..)).collect::<ScalarBuffer<i32>>();
        let structs = StructArray::new(fields.clone(), columns, None);
        let maps = MapArray::new(entries.clone(), OffsetBuffer::new(ends), structs, None, *is_sorted);
        Arc::new(maps)
    }
}

/// Which columns of a table that is written are metadata.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Written {
    timestamp: Option<usize>,
    headers: Option<usize>,
}

/// The metadata of a batch of rows.
pub(super) struct WrittenColumns {
    timestamps: Option<TimestampMillisecondArray>,
    headers: Option<MapArray>,
}

impl Written {
    pub(super) fn of(request: &TableRequest) -> Result<Written, ConnectorError> {
        let mut written = Written::default();
        for (&index, key) in &request.metadata as &BTreeMap<usize, String> {
            let field = request.schema.field(index);
            match readable(field, key)? {
                MetadataColumn::Timestamp => written.timestamp = Some(index),
                MetadataColumn::Headers => written.headers = Some(index),
                _ => {
                    let names: Vec<String> = COLUMNS
                        .iter()
                        .filter(|(_, column, _)| WRITABLE.contains(column))
                        .map(|(name, ..)| format!("'{name}'"))
                        .collect();
                    let problem = format!(
                        "is the metadata '{key}', which is not written ({} are); declare it VIRTUAL",
                        names.join(" and ")
                    );
                    return Err(ConnectorError::column(field.name(), problem));
                }
            }
        }
        Ok(written)
    }

    pub(super) fn columns(&self, rows: &RecordBatch) -> WrittenColumns {
        let millis = |index: usize| {
            let data_type = DataType::Timestamp(TimeUnit::Millisecond, Some("+00:00".into()));
            let cast = cast(rows.column(index), &data_type).expect("it is a TIMESTAMP_LTZ");
            cast.as_primitive::<TimestampMillisecondType>().clone()
        };
        WrittenColumns {
            timestamps: self.timestamp.map(millis),
            headers: self.headers.map(|index| rows.column(index).as_map().clone()),
        }
    }
}

impl WrittenColumns {
    /// Milliseconds since 1970; where it is NULL, the time at which the message is sent.
    pub(super) fn timestamp(&self, row: usize) -> Option<i64> {
        self.timestamps.as_ref().filter(|timestamps| timestamps.is_valid(row)).map(|timestamps| timestamps.value(row))
    }

    pub(super) fn headers(&self, row: usize) -> Option<OwnedHeaders> {
        let headers = self.headers.as_ref().filter(|headers| headers.is_valid(row))?;
        let ends = headers.value_offsets();
        let (keys, values) = (headers.keys().as_string_view(), headers.values().as_binary_view());
        let entries = ends[row] as usize..ends[row + 1] as usize;
        let owned = OwnedHeaders::new_with_capacity(entries.len());
        Some(entries.fold(owned, |owned, entry| {
            let value = values.is_valid(entry).then(|| values.value(entry));
            owned.insert(Header { key: keys.value(entry), value })
        }))
    }
}
