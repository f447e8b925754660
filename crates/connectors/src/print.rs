//! Rows to the terminal, in Flink's form: `+I[a, b]`.
//!
//! | option | default | meaning |
//! |---|---|---|
//! | `print-identifier` | – | each line begins with it and `> ` |
//! | `standard-error` | `false` | `true`: to standard error instead of standard output |

use std::fmt::Write as _;
use std::io::Write;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit,
};
use arrow::temporal_conversions::date32_to_datetime;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use chrono::{DateTime, Timelike, Utc};
use pelton_data::column::{logical_type, sql_name};
use pelton_data::float_text::{write_double, write_float};
use pelton_data::time::micros_per_tick;
use pelton_runtime::sink::{Sink, SinkError};

use crate::options::Options;
use crate::{ConnectorError, TableRequest};

/// Writes one line for each row.
struct Print<W> {
    output: W,
    place: &'static str,
    prefix: String,
    lines: String,
}

/// Opens the terminal.
pub(crate) fn open_sink(request: &TableRequest, options: &Options) -> Result<Box<dyn Sink>, ConnectorError> {
    for field in request.schema.fields() {
        if !is_printable(field.data_type()) {
            let problem = format!("is of type {}, which cannot be printed", sql_name(field.data_type()));
            return Err(ConnectorError::column(field.name(), problem));
        }
    }
    let prefix = options.text("print-identifier").map_or_else(String::new, |identifier| format!("{identifier}> "));
    let lines = String::new();
    Ok(match options.boolean("standard-error", false)? {
        false => Box::new(Print { output: std::io::stdout(), place: "standard output", prefix, lines }),
        true => Box::new(Print { output: std::io::stderr(), place: "standard error", prefix, lines }),
    })
}

fn is_printable(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(
        logical_type(data_type),
        Boolean | Int8 | Int16 | Int32 | Int64 | Float32 | Float64 | Utf8View | BinaryView | Date32 | Decimal128(..)
    ) || micros_per_tick(data_type).is_some()
}

impl<W: Write + Send> Sink for Print<W> {
    fn write(&mut self, rows: &RecordBatch) -> Result<(), SinkError> {
        self.lines.clear();
        for row in 0..rows.num_rows() {
            self.lines.push_str(&self.prefix);
            write_row(rows, row, &mut self.lines);
            self.lines.push('\n');
        }
        let written = self.output.write_all(self.lines.as_bytes());
        written.map_err(|error| self.failed(&error))
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        let flushed = self.output.flush();
        flushed.map_err(|error| self.failed(&error))
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.flush()
    }
}

impl<W> Print<W> {
    fn failed(&self, error: &std::io::Error) -> SinkError {
        SinkError { place: self.place.to_string(), problem: error.to_string() }
    }
}

/// `+I[…]`: an inserted row.
pub(crate) fn write_row(rows: &RecordBatch, row: usize, line: &mut String) {
    line.push_str("+I[");
    for (index, column) in rows.columns().iter().enumerate() {
        if index > 0 {
            line.push_str(", ");
        }
        write_value(column.as_ref(), row, line);
    }
    line.push(']');
}

/// A value as Java's `toString` writes it, which is what Flink prints.
fn write_value(column: &dyn Array, row: usize, line: &mut String) {
    if column.is_null(row) {
        return line.push_str("null");
    }
    let written = match column.data_type() {
        DataType::Boolean => write!(line, "{}", column.as_boolean().value(row)),
        DataType::Int8 => write!(line, "{}", column.as_primitive::<Int8Type>().value(row)),
        DataType::Int16 => write!(line, "{}", column.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => write!(line, "{}", column.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => write!(line, "{}", column.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => {
            write_float(column.as_primitive::<Float32Type>().value(row), line);
            Ok(())
        }
        DataType::Float64 => {
            write_double(column.as_primitive::<Float64Type>().value(row), line);
            Ok(())
        }
        DataType::Utf8View => line.write_str(column.as_string_view().value(row)),
        DataType::BinaryView => {
            // Java's bytes are signed.
            let signed: Vec<i8> = column.as_binary_view().value(row).iter().map(|&byte| byte as i8).collect();
            write!(line, "{signed:?}")
        }
        DataType::Date32 => match date32_to_datetime(column.as_primitive::<Date32Type>().value(row)) {
            Some(date) => write!(line, "{}", date.date()),
            None => line.write_str("date out of range"),
        },
        DataType::Decimal128(..) => line.write_str(&column.as_primitive::<Decimal128Type>().value_as_string(row)),
        DataType::Timestamp(_, zone) => write_timestamp(column, row, zone.is_some(), line),
        // Dictionaries: each row is a string.
        _ => ArrayFormatter::try_new(column, &FormatOptions::default())
            .expect("the table's columns were checked to be printable")
            .value(row)
            .write(line)
            .map_err(|_| std::fmt::Error),
    };
    written.expect("strings take whatever is written");
}

/// Without a zone as a `LocalDateTime`, which omits seconds that are zero; with one as an `Instant`, which never does.
fn write_timestamp(column: &dyn Array, row: usize, zoned: bool, line: &mut String) -> std::fmt::Result {
    let ticks = match column.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => {
            column.as_primitive::<arrow::datatypes::TimestampSecondType>().value(row)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            column.as_primitive::<arrow::datatypes::TimestampMillisecondType>().value(row)
        }
        _ => column.as_primitive::<arrow::datatypes::TimestampMicrosecondType>().value(row),
    };
    let micros = micros_per_tick(column.data_type()).and_then(|per_tick| ticks.checked_mul(per_tick));
    let Some(time) = micros.and_then(DateTime::<Utc>::from_timestamp_micros) else {
        return line.write_str("time out of range");
    };
    write!(line, "{}", time.format("%Y-%m-%dT%H:%M"))?;
    let micros = time.nanosecond() / 1_000;
    if zoned || time.second() > 0 || micros > 0 {
        write!(line, ":{:02}", time.second())?;
    }
    match micros {
        0 => {}
        _ if micros.is_multiple_of(1_000) => write!(line, ".{:03}", micros / 1_000)?,
        _ => write!(line, ".{micros:06}")?,
    }
    if zoned { line.write_char('Z') } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, BinaryViewArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array, Float64Array,
        Int64Array, StringViewArray, TimestampMicrosecondArray, TimestampMillisecondArray, UInt8Array,
    };

    use super::*;

    fn printed(column: impl Array + 'static) -> Vec<String> {
        let column: ArrayRef = Arc::new(column);
        assert!(is_printable(column.data_type()));
        let text = |row| {
            let mut line = String::new();
            write_value(column.as_ref(), row, &mut line);
            line
        };
        (0..column.len()).map(text).collect()
    }

    #[test]
    fn values_look_as_java_writes_them() {
        let doubles = Float64Array::from(vec![
            0.0,
            -0.0,
            1.0,
            -1.5,
            1234567.0,
            9999999.0,
            1e7,
            1.25e10,
            0.001,
            0.00012,
            1e-5,
            f64::NAN,
            f64::NEG_INFINITY,
            123.456,
            1e300,
        ]);
        let expected = [
            "0.0",
            "-0.0",
            "1.0",
            "-1.5",
            "1234567.0",
            "9999999.0",
            "1.0E7",
            "1.25E10",
            "0.001",
            "1.2E-4",
            "1.0E-5",
            "NaN",
            "-Infinity",
            "123.456",
            "1.0E300",
        ];
        assert_eq!(printed(doubles), expected);
        assert_eq!(printed(Float32Array::from(vec![0.1, 3.4e38])), ["0.1", "3.4E38"]);
        let minute = 1_436_918_400_000;
        let times = vec![minute, minute + 1_000, minute + 5, minute + 60_000];
        let local = TimestampMillisecondArray::from(times.clone());
        let expected = ["2015-07-15T00:00", "2015-07-15T00:00:01", "2015-07-15T00:00:00.005", "2015-07-15T00:01"];
        assert_eq!(printed(local), expected);
        let instants =
            TimestampMicrosecondArray::from(vec![minute * 1_000, minute * 1_000 + 7]).with_timezone("+00:00");
        assert_eq!(printed(instants), ["2015-07-15T00:00:00Z", "2015-07-15T00:00:00.000007Z"]);
        let decimals = Decimal128Array::from(vec![12345, -5]).with_precision_and_scale(10, 3).unwrap();
        assert_eq!(printed(decimals), ["12.345", "-0.005"]);
        assert_eq!(printed(Date32Array::from(vec![0, 16_631])), ["1970-01-01", "2015-07-15"]);
        assert_eq!(printed(BinaryViewArray::from_iter_values([[1u8, 255]])), ["[1, -1]"]);
        let words = Arc::new(StringViewArray::from(vec!["view", "click"]));
        assert_eq!(printed(DictionaryArray::new(UInt8Array::from(vec![1, 0]), words)), ["click", "view"]);
    }

    #[test]
    fn each_row_is_a_line_with_the_identifier() {
        let columns: [(&str, ArrayRef); 2] = [
            ("a", Arc::new(Int64Array::from(vec![Some(1), None]))),
            ("b", Arc::new(StringViewArray::from(vec!["x", "y z"]))),
        ];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let mut print = Print { output: Vec::new(), place: "memory", prefix: "out> ".into(), lines: String::new() };
        print.write(&rows).unwrap();
        print.finish().unwrap();
        assert_eq!(String::from_utf8(print.output).unwrap(), "out> +I[1, x]\nout> +I[null, y z]\n");
    }
}
