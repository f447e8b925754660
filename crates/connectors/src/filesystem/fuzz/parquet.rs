//! What a fuzzer calls with any bytes as a Parquet file: nothing panics, and strings are UTF-8.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::Array;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use pelton_runtime::source::Read;

use super::super::files::InputFile;
use super::super::parquet_stream::{ParquetReading, ParquetStream};
use crate::TableRequest;
use crate::format::on_error::OnError;
use crate::format::parquet::declared_schema;
use crate::storage::Location;

/// Parts of a damaged file that are read at most: it may have any number of rows.
const PARTS_MAX: usize = 8;

/// Reads a Parquet file, bytes as strings and times in each unit. Rows that do not fit are skipped.
pub fn parquet(bytes: &[u8]) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("pelton-fuzz-{}-{}.parquet", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, bytes).expect("the temporary directory takes files");
    if let Ok(schema) = declared_schema(&Location::local(&path), "FILE") {
        for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond] {
            let wanted = |field: &Arc<Field>| match field.data_type() {
                DataType::BinaryView => Field::clone(field).with_data_type(DataType::Utf8View),
                DataType::Timestamp(_, zone) => {
                    Field::clone(field).with_data_type(DataType::Timestamp(unit, zone.clone()))
                }
                _ => Field::clone(field),
            };
            read(&path, Schema::new(schema.fields().iter().map(wanted).collect::<Vec<_>>()));
        }
    }
    std::fs::remove_file(&path).expect("the file was written");
}

fn read(path: &std::path::Path, schema: Schema) {
    let request = TableRequest {
        name: "t".into(),
        columns: (0..schema.fields().len()).collect(),
        schema: Arc::new(schema),
        metadata: Default::default(),
        partition_keys: Vec::new(),
        lengths: Default::default(),
        options: Default::default(),
        event_time: None,
        block_rows: 1024,
        seed: 0,
        strict_values: false,
        host: Default::default(),
    };
    let metadata = std::fs::metadata(path).expect("the file was written");
    let file = InputFile::new(path.to_path_buf(), &metadata);
    let reading = ParquetReading::new(&request, OnError::Skip).expect("the columns are the file's");
    let mut stream = ParquetStream::new(file, 0);
    for _ in 0..PARTS_MAX {
        // What cannot be read is an error.
        let Ok(Read::Chunk(chunk)) = reading.read(&mut stream) else { return };
        let Ok(decoded) = chunk() else { return };
        for batch in decoded.rows.into_batches() {
            for column in batch.columns() {
                column.to_data().validate_full().expect("columns are what they say they are");
            }
        }
    }
}
