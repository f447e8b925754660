//! Tables of Delta Lake out: `'connector' = 'delta'`. Rows are appended as Parquet files, which become rows of the table when its log says so: with each checkpoint, or as files end.

use arrow::datatypes::{DataType, Field, TimeUnit};
use pelton_data::column::sql_name;
use pelton_runtime::sink::Sink;
use serde_json::{Value, json};

use super::delta_log::{DeltaLog, DeltaTable};
use super::directory_sink::{DirectorySink, Layout};
use super::part::with_time_units;
use super::partition_keys::{self, PartitionKeys};
use super::rolling::RollingPolicy;
use super::sink::location;
use crate::format::{Format, FormatName};
use crate::options::Options;
use crate::{ConnectorError, Open, TableRequest};

/// Flink's option for the directory.
const PATH: &str = "table-path";

/// Characters that names of columns have not in Parquet files that Delta's readers read by them.
const REFUSED: &[char] = &[' ', ',', ';', '{', '}', '(', ')', '\n', '\t', '='];

/// Reads what the options of a table say that is written.
pub(crate) fn sink<'a>(request: &'a TableRequest, options: &'a Options) -> Result<Open<'a, dyn Sink>, ConnectorError> {
    let location = location(options.required(PATH, "/data/trades")?, request, options)?;
    let format = Format::new(options, Some(FormatName::Parquet))?;
    options.text(partition_keys::DEFAULT_NAME);
    let table = table(request)?;
    let policy = RollingPolicy::of(options, &format, false)?;
    let job = request.host.committed_by.as_ref().map(|job| job.name.clone());
    let keys = PartitionKeys::of(request);
    let schema = match &keys {
        Some(keys) => keys.data_schema(&request.schema),
        None => request.schema.clone(),
    };
    // Times as Delta tables have them.
    let schema = with_time_units(&schema, |_| TimeUnit::Microsecond);
    Ok(Box::new(move || {
        let log = DeltaLog::open(&location, job.as_deref(), table);
        let log = log.map_err(|problem| ConnectorError::place(location.to_string(), problem))?;
        let layout = Layout { directory: location, job, format, schema, policy, keys, log: Some(log) };
        Ok(Box::new(DirectorySink::open(layout, None)?))
    }))
}

/// What the log says of the table.
fn table(request: &TableRequest) -> Result<DeltaTable, ConnectorError> {
    let fields = request.schema.fields().iter();
    let fields: Vec<Value> = fields.map(|field| field_of_log(field)).collect::<Result<_, _>>()?;
    let name = |key: &usize| request.schema.field(*key).name().clone();
    Ok(DeltaTable {
        schema: json!({"type": "struct", "fields": fields}),
        partition_columns: request.partition_keys.iter().map(name).collect(),
        null_name: partition_keys::default_name(request).to_owned(),
        has_local_times: request.schema.fields().iter().any(|field| has_local_time(field.data_type())),
    })
}

/// A column as the log has it.
fn field_of_log(field: &Field) -> Result<Value, ConnectorError> {
    if field.name().contains(REFUSED) {
        let problem = "has a character in its name that Delta tables have not: one of ' ,;{}()=', a tab or a line end; name it otherwise";
        return Err(ConnectorError::column(field.name(), problem));
    }
    let Some(data_type) = type_name(field.data_type()) else {
        let problem = format!("is of type {}, which Delta tables have not; cast it", sql_name(field.data_type()));
        return Err(ConnectorError::column(field.name(), problem));
    };
    Ok(json!({"name": field.name(), "type": data_type, "nullable": field.is_nullable(), "metadata": {}}))
}

fn type_name(data_type: &DataType) -> Option<Value> {
    let name = match data_type {
        DataType::Boolean => "boolean",
        DataType::Int8 => "byte",
        DataType::Int16 => "short",
        DataType::Int32 => "integer",
        DataType::Int64 => "long",
        DataType::Float32 => "float",
        DataType::Float64 => "double",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "string",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => "binary",
        DataType::Date32 => "date",
        DataType::Timestamp(_, None) => "timestamp_ntz",
        DataType::Timestamp(_, Some(_)) => "timestamp",
        DataType::Decimal128(precision, scale) => return Some(json!(format!("decimal({precision},{scale})"))),
        DataType::List(item) => {
            let element = type_name(item.data_type())?;
            return Some(json!({"type": "array", "elementType": element, "containsNull": item.is_nullable()}));
        }
        DataType::Map(entries, _) => {
            let DataType::Struct(parts) = entries.data_type() else { return None };
            let [key, value] = [type_name(parts[0].data_type())?, type_name(parts[1].data_type())?];
            let contains_null = parts[1].is_nullable();
            return Some(
                json!({"type": "map", "keyType": key, "valueType": value, "valueContainsNull": contains_null}),
            );
        }
        DataType::Struct(fields) => {
            let fields = fields.iter().map(|field| field_of_log(field).ok()).collect::<Option<Vec<Value>>>()?;
            return Some(json!({"type": "struct", "fields": fields}));
        }
        _ => return None,
    };
    Some(Value::from(name))
}

fn has_local_time(data_type: &DataType) -> bool {
    match data_type {
        DataType::Timestamp(_, zone) => zone.is_none(),
        DataType::List(item) | DataType::Map(item, _) => has_local_time(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_local_time(field.data_type())),
        _ => false,
    }
}
