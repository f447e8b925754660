//! Debezium's JSON: a row before and after a change, and what kind of change it is. Rows that were inserted are read; tables have no updates and deletes.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringViewArray, StructArray, new_null_array};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use pelton_runtime::source::{RejectedRow, SourceError};

use super::{MessageFormat, TextMessages};
use crate::ConnectorError;
use crate::format::TextFormat;
use crate::format::on_error::OnError;
use crate::format::rows::{DecodedColumns, RowDecoder};
use crate::format::write::TextWriter;

/// How changes are encoded.
#[derive(Debug, Clone)]
pub(crate) struct DebeziumFormat {
    /// JSON.
    pub(crate) text: TextFormat,
    /// Whether the change is the `payload` of an object that has its schema as well.
    pub(crate) has_schema: bool,
}

impl DebeziumFormat {
    pub(crate) fn decoder(
        &self,
        all: &SchemaRef,
        wanted: &[usize],
        place: &str,
    ) -> Result<DebeziumDecoder, ConnectorError> {
        // Something must be read of rows, so that it is known whether they are there.
        let read = if wanted.is_empty() { &[0] } else { wanted };
        let after = DataType::Struct(all.project(read).expect("wanted columns are among all").fields);
        let change: Fields = vec![Field::new("op", DataType::Utf8View, true), Field::new("after", after, true)].into();
        let schema = match self.has_schema {
            true => Schema::new(vec![Field::new("payload", DataType::Struct(change), true)]),
            false => Schema::new(change),
        };
        let schema = Arc::new(schema);
        let inner = MessageFormat::Text(self.text.clone());
        let every: Vec<usize> = (0..schema.fields().len()).collect();
        let decoder = inner.text_decoder(&schema, &every, place)?;
        Ok(DebeziumDecoder { decoder, has_schema: self.has_schema, width: wanted.len() })
    }

    pub(crate) fn encoder(&self, schema: &SchemaRef) -> DebeziumEncoder {
        let names = ["before", "after", "op"].map(str::to_owned).to_vec();
        DebeziumEncoder { writer: TextWriter::new(&self.text, names, true), fields: schema.fields().clone() }
    }
}

/// Decodes changes.
pub(crate) struct DebeziumDecoder {
    decoder: Box<RowDecoder>,
    has_schema: bool,
    /// How many columns are wanted.
    width: usize,
}

impl DebeziumDecoder {
    /// A row for each change.
    ///
    /// # Errors
    /// Where a message is no insert, and such are not left out.
    pub(crate) fn decode(&self, bytes: Vec<u8>, ends: &[u32]) -> Result<DecodedColumns, SourceError> {
        let messages = TextMessages { decoder: &self.decoder, bytes: bytes.into() };
        let mut decoded = messages.decode(ends, 0)?;
        let payload: Option<StructArray> = self.has_schema.then(|| decoded.columns[0].as_struct().clone());
        let change: &[ArrayRef] = payload.as_ref().map_or(&decoded.columns, |payload| payload.columns());
        let (op, after) = (change[0].as_string_view().clone(), change[1].as_struct().clone());
        for row in 0..decoded.rows {
            let is_kept = decoded.kept.as_ref().is_none_or(|kept| kept[row]);
            let is_there = payload.as_ref().is_none_or(|payload| payload.is_valid(row));
            let Some(problem) = problem(&op, &after, row).filter(|_| is_kept && is_there).or_else(|| {
                (is_kept && !is_there).then(|| "has no payload; is 'debezium-json.schema-include' right?".to_owned())
            }) else {
                continue;
            };
            let start = if row == 0 { 0 } else { ends[row - 1] as usize };
            let text = String::from_utf8_lossy(&messages.bytes[start..ends[row] as usize]).trim_end().to_owned();
            let value = if op.is_valid(row) { op.value(row).to_owned() } else { "NULL".to_owned() };
            let place = self.decoder.place.clone();
            let error = SourceError::Row { place, row: row as u64, column: "op".to_owned(), value, problem };
            if self.decoder.on_error == OnError::Fail {
                return Err(error);
            }
            decoded.kept.get_or_insert_with(|| vec![true; decoded.rows])[row] = false;
            decoded.left_out.rejected.push(|| RejectedRow { error, row: text });
        }
        decoded.columns = after.columns()[..self.width].to_vec();
        Ok(decoded)
    }
}

/// Why a change is not a row that was inserted.
fn problem(op: &StringViewArray, after: &StructArray, row: usize) -> Option<String> {
    let op = op.is_valid(row).then(|| op.value(row));
    match op {
        Some("c" | "r") if after.is_valid(row) => None,
        Some("c" | "r") => Some("has no row 'after' the change".to_owned()),
        Some("u") => Some("is an update, and only inserts ('c' and 'r') are supported".to_owned()),
        Some("d") => Some("is a delete, and only inserts ('c' and 'r') are supported".to_owned()),
        Some(_) => Some("is no kind of change; 'c' and 'r' are inserts".to_owned()),
        None => Some("is missing: the message is none of Debezium's; see 'debezium-json.schema-include'".to_owned()),
    }
}

/// Encodes rows as inserts.
pub(crate) struct DebeziumEncoder {
    writer: TextWriter,
    fields: Fields,
}

impl DebeziumEncoder {
    /// Appends the rows of a batch, and where each ends.
    ///
    /// # Errors
    /// What cannot be written.
    pub(crate) fn encode(
        &mut self,
        batch: &RecordBatch,
        out: &mut Vec<u8>,
        ends: &mut Vec<usize>,
    ) -> Result<(), String> {
        let rows = batch.num_rows();
        let after = StructArray::new(self.fields.clone(), batch.columns().to_vec(), None);
        let columns: [(&str, ArrayRef); 3] = [
            ("before", new_null_array(&DataType::Utf8View, rows)),
            ("after", Arc::new(after)),
            ("op", Arc::new(StringViewArray::from_iter_values(std::iter::repeat_n("c", rows)))),
        ];
        let changes = RecordBatch::try_from_iter(columns).map_err(|error| error.to_string())?;
        self.writer.write_messages(&changes, out, ends)
    }
}
