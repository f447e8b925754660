//! Rows as text: one line a row, exact enough that equal texts mean equal values.

use arrow::array::{Array, Float64Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use pelton::display::format_options;
use pelton_data::column::{logical_type, sql_name};

const SEPARATOR: &str = " | ";

/// The columns' names and SQL types in one line.
pub fn schema_line(schema: &SchemaRef) -> String {
    let columns: Vec<String> = schema
        .fields()
        .iter()
        .map(|field| {
            let nullable = if field.is_nullable() { "" } else { " NOT NULL" };
            format!("{} {}{nullable}", field.name(), sql_name(logical_type(field.data_type())))
        })
        .collect();
    columns.join(SEPARATOR)
}

/// One line for each row: values separated by ` | `, `NULL`, `(empty)` for an empty string, floating-point values in the fewest digits
/// that read back as the same value, timestamps with the digits of their type.
///
/// # Errors
/// Where a column's type has no text form.
pub fn row_lines(batch: &RecordBatch) -> Result<Vec<String>, ArrowError> {
    let options: Vec<FormatOptions<'_>> =
        batch.columns().iter().map(|column| format_options(column.data_type())).collect();
    let columns = batch.columns().iter().zip(&options);
    let formatters: Vec<ArrayFormatter<'_>> =
        columns.map(|(column, options)| ArrayFormatter::try_new(column, options)).collect::<Result<_, _>>()?;
    let line = |row: usize| {
        let values = batch.columns().iter().zip(&formatters).map(|(column, formatter)| {
            let is_null = column.is_null(row);
            formatter.value(row).try_to_string().map(|text| if is_null { text } else { visible(&text) })
        });
        Ok(values.collect::<Result<Vec<_>, ArrowError>>()?.join(SEPARATOR))
    };
    (0..batch.num_rows()).map(line).collect()
}

/// A value of a model, in the text that [`row_lines`] gives it.
pub trait Value {
    /// The text.
    fn text(&self) -> String;
}

impl Value for f64 {
    fn text(&self) -> String {
        let array = Float64Array::from(vec![*self]);
        ArrayFormatter::try_new(&array, &format_options(array.data_type()))
            .and_then(|formatter| formatter.value(0).try_to_string())
            .expect("floating-point values have a text form")
    }
}

macro_rules! as_displayed {
    ($($kind:ty),*) => {$(
        impl Value for $kind {
            fn text(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

as_displayed!(bool, i32, i64);

/// A value of a model or NULL, as [`row_lines`] writes it.
pub fn value_text<T: Value>(value: Option<T>) -> String {
    value.map_or_else(|| "NULL".to_string(), |value| value.text())
}

/// The text without anything that would not show, or would end the line.
fn visible(text: &str) -> String {
    if text.is_empty() {
        return "(empty)".to_string();
    }
    if text.starts_with(' ') || text.ends_with(' ') || text.chars().any(|c| c.is_control() || c == '\\') {
        return format!("{text:?}");
    }
    text.to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, Decimal128Array, Float32Array, Float64Array, StringViewArray, TimestampMillisecondArray,
        TimestampSecondArray,
    };

    use super::*;

    fn lines(columns: Vec<(&str, ArrayRef)>) -> Vec<String> {
        row_lines(&RecordBatch::try_from_iter(columns).unwrap()).unwrap()
    }

    #[test]
    fn values_show_as_what_they_are() {
        let text: ArrayRef =
            Arc::new(StringViewArray::from(vec![Some("a b"), Some(""), None, Some("NULL\n"), Some(" ")]));
        assert_eq!(lines(vec![("s", text)]), ["a b", "(empty)", "NULL", "\"NULL\\n\"", "\" \""]);
        let wide: ArrayRef = Arc::new(Float64Array::from(vec![0.1 + 0.2, -0.0, f64::NAN, 1e300]));
        let narrow: ArrayRef = Arc::new(Float32Array::from(vec![0.1, 2.0, f32::INFINITY, 16_777_216.0]));
        assert_eq!(
            lines(vec![("w", wide), ("n", narrow)]),
            ["0.30000000000000004 | 0.1", "-0.0 | 2.0", "NaN | inf", "1e300 | 16777216.0"]
        );
        let small: ArrayRef = Arc::new(Float64Array::from(vec![0.000_082, 8.2e-9]));
        assert_eq!(lines(vec![("s", small)]), [0.000_082, 8.2e-9].map(|value| value_text(Some(value))));
        let decimal: ArrayRef = Arc::new(Decimal128Array::from(vec![-5]).with_precision_and_scale(10, 2).unwrap());
        assert_eq!(lines(vec![("d", decimal)]), ["-0.05"]);
    }

    #[test]
    fn times_have_the_digits_of_their_type() {
        let millis: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![1_577_836_800_000]));
        let zoned: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![-1]).with_timezone("+00:00"));
        let seconds: ArrayRef = Arc::new(TimestampSecondArray::from(vec![0]));
        assert_eq!(
            lines(vec![("m", millis), ("z", zoned), ("s", seconds)]),
            ["2020-01-01 00:00:00.000 | 1969-12-31 23:59:59.999Z | 1970-01-01 00:00:00"]
        );
    }
}
