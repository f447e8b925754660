//! Rows as the server sends them, and as they are printed.

use std::sync::Arc;

use bytes::Buf;
use pelton::arrow::array::{ArrayRef, RecordBatch, StringArray};
use pelton::arrow::compute::cast;
use pelton::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use pgwire::messages::data::{DataRow, FieldDescription, RowDescription};

use crate::failure::Failure;

/// Rows that are printed at once, at most.
const ROWS_MAX: usize = 1024;

/// Digits of a number that are known by the modifier of its type.
const PRECISION_MAX: i32 = 38;

/// Rows that have come and are not printed yet.
pub struct Batch {
    schema: SchemaRef,
    columns: Vec<Vec<Option<String>>>,
}

impl Batch {
    pub fn new(description: &RowDescription) -> Batch {
        let field = |column: &FieldDescription| Field::new(&column.name, data_type(column), true);
        let fields: Vec<Field> = description.fields.iter().map(field).collect();
        Batch { columns: vec![Vec::new(); fields.len()], schema: Arc::new(Schema::new(fields)) }
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub fn push(&mut self, row: &DataRow) -> Result<(), Failure> {
        let mut values = values(row);
        for column in &mut self.columns {
            column.push(values.next().flatten().ok_or("the server sends a row that is shorter than it says")?);
        }
        Ok(())
    }

    pub fn is_full(&self) -> bool {
        self.columns.first().is_some_and(|column| column.len() >= ROWS_MAX)
    }

    /// The rows, if there are any.
    pub fn take(&mut self) -> Result<Option<RecordBatch>, Failure> {
        if self.columns.first().is_none_or(Vec::is_empty) {
            return Ok(None);
        }
        let column = |(values, field): (&mut Vec<Option<String>>, &Arc<Field>)| {
            let texts: ArrayRef = Arc::new(StringArray::from_iter(std::mem::take(values)));
            cast(&texts, field.data_type())
        };
        let columns = self.columns.iter_mut().zip(self.schema.fields()).map(column).collect::<Result<Vec<_>, _>>()?;
        Ok(Some(RecordBatch::try_new(self.schema.clone(), columns)?))
    }
}

/// The type in which a column is printed: numbers and truth values as such, and all else as the text that the server sends.
fn data_type(column: &FieldDescription) -> DataType {
    match column.type_id {
        16 => DataType::Boolean,
        20 => DataType::Int64,
        21 => DataType::Int16,
        23 => DataType::Int32,
        700 => DataType::Float32,
        701 => DataType::Float64,
        1700 if column.type_modifier >= 4 => {
            let modifier = column.type_modifier - 4;
            let (precision, scale) = (modifier >> 16, modifier & 0xffff);
            match (1..=PRECISION_MAX).contains(&precision) && scale <= precision {
                true => DataType::Decimal128(precision as u8, scale as i8),
                false => DataType::Utf8View,
            }
        }
        _ => DataType::Utf8View,
    }
}

/// The values of a row as text; NULL is `Some(None)`, and what cannot be read `None`.
pub fn values(row: &DataRow) -> impl Iterator<Item = Option<Option<String>>> {
    let mut bytes: &[u8] = &row.data;
    (0..row.field_count).map(move |_| {
        let length = bytes.try_get_i32().ok()?;
        let Ok(length) = usize::try_from(length) else { return Some(None) };
        let (value, rest) = bytes.split_at_checked(length)?;
        bytes = rest;
        Some(Some(String::from_utf8_lossy(value).into_owned()))
    })
}

#[cfg(test)]
mod tests {
    use pelton::arrow::array::AsArray;
    use pelton::arrow::datatypes::{Decimal128Type, Int64Type};

    use super::*;

    #[test]
    fn rows_have_the_types_that_the_server_tells() {
        let column =
            |name: &str, oid: u32, modifier: i32| FieldDescription::new(name.to_owned(), 0, 0, oid, -1, modifier, 0);
        let columns = vec![
            column("i", 20, -1),
            column("b", 16, -1),
            column("n", 1700, (10 << 16 | 2) + 4),
            column("t", 1114, -1),
        ];
        let mut batch = Batch::new(&RowDescription::new(columns));
        assert!(batch.take().unwrap().is_none());
        let mut data = bytes::BytesMut::new();
        for value in ["-5", "t", "12.50"] {
            data.extend_from_slice(&(value.len() as i32).to_be_bytes());
            data.extend_from_slice(value.as_bytes());
        }
        data.extend_from_slice(&(-1_i32).to_be_bytes());
        batch.push(&DataRow::new(data.clone(), 4)).unwrap();
        let rows = batch.take().unwrap().unwrap();
        assert_eq!(rows.column(0).as_primitive::<Int64Type>().value(0), -5);
        assert!(rows.column(1).as_boolean().value(0) && rows.column(3).is_null(0));
        assert_eq!(rows.column(2).as_primitive::<Decimal128Type>().value(0), 1250);
        data.truncate(8);
        assert!(batch.push(&DataRow::new(data, 4)).is_err());
    }
}
