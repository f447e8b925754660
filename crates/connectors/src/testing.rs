//! Reading and writing whole tables, for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use pelton_data::TimeColumn;
use pelton_runtime::source::{Read, Source};

use crate::{ConnectorError, Host, TableRequest, declared, open_source, physical_schema};

/// A table with the columns its connector declares, all wanted, in blocks of `block_rows` rows.
pub(crate) fn table(options: &[(&str, &str)], block_rows: usize) -> TableRequest {
    let options: BTreeMap<String, String> =
        options.iter().map(|&(name, value)| (name.to_string(), value.to_string())).collect();
    let schema = Arc::new(declared(&options).unwrap().expect("the connector declares columns").schema);
    let columns = (0..schema.fields().len()).collect();
    let name = "t".to_string();
    let (metadata, lengths) = (BTreeMap::new(), BTreeMap::new());
    let host = Host::default();
    TableRequest {
        name,
        schema,
        columns,
        metadata,
        partition_keys: Vec::new(),
        lengths,
        options,
        event_time: None,
        block_rows,
        seed: 42,
        strict_values: false,
        host,
    }
}

/// The same table, but only these columns wanted.
pub(crate) fn wanting(mut request: TableRequest, names: &[&str]) -> TableRequest {
    let fields = request.schema.fields();
    request.columns = (0..fields.len()).filter(|&column| names.contains(&fields[column].name().as_str())).collect();
    request
}

/// The same table, with the wanted column `name` as its event time.
pub(crate) fn timed(mut request: TableRequest, name: &str) -> TableRequest {
    let wanted = request.columns.iter().position(|&column| request.schema.field(column).name() == name).unwrap();
    request.event_time = TimeColumn::new(wanted, request.schema.field(request.columns[wanted]).data_type());
    request
}

/// All batches of a source that need not wait, shifted where they are replayed.
pub(crate) fn batches(mut source: Box<dyn Source>) -> Vec<RecordBatch> {
    let mut batches = Vec::new();
    for partition in 0..source.partitions() {
        loop {
            match source.read(partition).unwrap() {
                Read::Chunk(chunk) => batches.extend(chunk().unwrap().rows.into_batches()),
                Read::Wait(_) => panic!("a source that runs flat out does not wait"),
                Read::End => break,
            }
        }
    }
    batches
}

/// All rows of a table.
pub(crate) fn rows(request: &TableRequest) -> RecordBatch {
    let delivered = physical_schema(request).unwrap().project(&request.columns).unwrap();
    concat_batches(&Arc::new(delivered), &batches(open_source(request).unwrap())).unwrap()
}

/// What opening a table says is wrong.
pub(crate) fn refusal(request: &TableRequest) -> String {
    let refused: Result<_, ConnectorError> = open_source(request).map(|_| ());
    refused.unwrap_err().to_string()
}
