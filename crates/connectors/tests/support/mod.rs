//! Reads and writes tables of files in a directory of their own.
#![allow(dead_code, reason = "each test file uses a part of it")]

#[cfg(feature = "s3")]
pub mod moto;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use pelton_connectors::{TableRequest, open_sink, open_source};
use pelton_runtime::sink::Sink;
use pelton_runtime::source::{Read, Undecoded};

/// A directory that is removed with the test.
pub struct Directory(PathBuf);

impl Directory {
    pub fn new() -> Directory {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("pelton-files-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file, and returns its path.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_string()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What is left behind lies in the system's temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Options of a table of files at `path`, from "name=value" pairs.
pub fn options(path: &str, pairs: &[&str]) -> BTreeMap<String, String> {
    let mut options: BTreeMap<String, String> =
        [("connector", "filesystem"), ("path", path)].map(|(k, v)| (k.to_string(), v.to_string())).into();
    options.extend(pairs.iter().map(|pair| {
        let (name, value) = pair.split_once('=').unwrap();
        (name.to_string(), value.to_string())
    }));
    options
}

/// A schema from "name TYPE" or "name TYPE NOT NULL", separated by commas.
pub fn schema(text: &str) -> Schema {
    let field = |column: &str| {
        let (name, rest) = column.trim().split_once(' ').unwrap();
        let data_type = rest.trim_end_matches(" NOT NULL");
        Field::new(name, sql_type(data_type), data_type == rest)
    };
    Schema::new(text.split(", ").map(field).collect::<Vec<_>>())
}

fn sql_type(name: &str) -> DataType {
    match name {
        "BOOLEAN" => DataType::Boolean,
        "TINYINT" => DataType::Int8,
        "SMALLINT" => DataType::Int16,
        "INT" => DataType::Int32,
        "BIGINT" => DataType::Int64,
        "FLOAT" => DataType::Float32,
        "DOUBLE" => DataType::Float64,
        "STRING" => DataType::Utf8View,
        "DATE" => DataType::Date32,
        "DECIMAL(10,2)" => DataType::Decimal128(10, 2),
        "DECIMAL(38,9)" => DataType::Decimal128(38, 9),
        "TIMESTAMP(0)" => DataType::Timestamp(TimeUnit::Second, None),
        "TIMESTAMP(3)" => DataType::Timestamp(TimeUnit::Millisecond, None),
        "TIMESTAMP(6)" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "TIMESTAMP_LTZ(3)" => DataType::Timestamp(TimeUnit::Millisecond, Some("+00:00".into())),
        "TIMESTAMP_LTZ(6)" => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        other => panic!("no type {other} in tests"),
    }
}

/// A request for all columns.
pub fn request(schema: Schema, options: BTreeMap<String, String>) -> TableRequest {
    TableRequest {
        name: "t".into(),
        columns: (0..schema.fields().len()).collect(),
        schema: Arc::new(schema),
        metadata: BTreeMap::new(),
        partition_keys: Vec::new(),
        lengths: BTreeMap::new(),
        options,
        event_time: None,
        block_rows: 1024,
        seed: 0,
        strict_values: false,
        host: Default::default(),
    }
}

/// All rows of a table, partition after partition.
pub struct Table {
    pub rows: RecordBatch,
    pub rejected: Undecoded,
    pub nulled: Undecoded,
}

/// Reads a table to its end, or to its first error.
pub fn read(request: &TableRequest) -> Result<Table, String> {
    let mut source = open_source(request).map_err(|error| error.to_string())?;
    let schema = Arc::new(request.schema.project(&request.columns).unwrap());
    let mut batches = Vec::new();
    let mut table = Table {
        rows: RecordBatch::new_empty(schema.clone()),
        rejected: Undecoded::default(),
        nulled: Undecoded::default(),
    };
    let mut count = 0;
    for partition in 0..source.partitions() {
        loop {
            match source.read(partition).map_err(|error| error.to_string())? {
                Read::Chunk(chunk) => {
                    let decoded = chunk().map_err(|error| error.to_string())?;
                    for batch in decoded.rows.into_batches() {
                        assert_eq!(batch.schema(), schema);
                        count += batch.num_rows();
                        batches.push(batch);
                    }
                    table.rejected.first.extend(decoded.left_out.rejected.first);
                    table.rejected.count += decoded.left_out.rejected.count;
                    table.nulled.first.extend(decoded.left_out.nulled.first);
                    table.nulled.count += decoded.left_out.nulled.count;
                }
                Read::Wait(_) => panic!("files do not wait"),
                Read::End => break,
            }
        }
    }
    if schema.fields().is_empty() {
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(count));
        table.rows = RecordBatch::try_new_with_options(schema, vec![], &options).unwrap();
    } else {
        table.rows = concat_batches(&schema, &batches).unwrap();
    }
    Ok(table)
}

/// The rows as text: `value|value`, one string a row.
pub fn rows(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::new().with_null("NULL");
    let columns: Vec<ArrayFormatter> =
        batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
    let row = |row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|");
    (0..batch.num_rows()).map(row).collect()
}

/// What is left of a job that is killed, and goes on from what a checkpoint says.
pub fn restored(table: &TableRequest, prepared: Option<&str>) -> Box<dyn Sink> {
    let mut sink = open_sink(table).unwrap();
    prepared.iter().for_each(|prepared| sink.commit(prepared).unwrap());
    sink.recover().unwrap();
    sink
}
