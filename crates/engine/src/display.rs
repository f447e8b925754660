//! How values look as text, wherever people or tests read them.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use arrow::util::display::FormatOptions;

/// NULL as `NULL`, timestamps with the digits of their type, floating-point values in the fewest digits that read back as the same value.
pub fn format_options(data_type: &DataType) -> FormatOptions<'static> {
    let options = FormatOptions::new().with_null("NULL");
    match data_type {
        DataType::Timestamp(unit, zone) => {
            let format = match unit {
                TimeUnit::Second => "%Y-%m-%d %H:%M:%S",
                TimeUnit::Millisecond => "%Y-%m-%d %H:%M:%S%.3f",
                TimeUnit::Microsecond => "%Y-%m-%d %H:%M:%S%.6f",
                TimeUnit::Nanosecond => "%Y-%m-%d %H:%M:%S%.9f",
            };
            match zone {
                None => options.with_timestamp_format(Some(format)),
                Some(_) => options.with_timestamp_tz_format(Some(with_zone(unit))),
            }
        }
        _ => options,
    }
}

fn with_zone(unit: &TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "%Y-%m-%d %H:%M:%SZ",
        TimeUnit::Millisecond => "%Y-%m-%d %H:%M:%S%.3fZ",
        TimeUnit::Microsecond => "%Y-%m-%d %H:%M:%S%.6fZ",
        TimeUnit::Nanosecond => "%Y-%m-%d %H:%M:%S%.9fZ",
    }
}

/// Rows of text.
pub(crate) fn text_rows(columns: &[&str], rows: impl Iterator<Item = Vec<String>>) -> RecordBatch {
    let rows: Vec<Vec<String>> = rows.collect();
    let fields = columns.iter().map(|name| Field::new(*name, DataType::Utf8View, false));
    let arrays = (0..columns.len()).map(|column| {
        let values = rows.iter().map(|row| row[column].as_str());
        Arc::new(StringViewArray::from_iter_values(values)) as ArrayRef
    });
    RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), arrays.collect())
        .expect("all columns have a value for each row")
}
