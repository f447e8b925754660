//! Rows to the terminal, in Flink's form: `+I[a, b]`.
//!
//! [`crate::options::table`] lists the options.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
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

use self::behind::behind;
use crate::io::outbox::Outbox;
use crate::options::Options;
use crate::{ConnectorError, TableRequest};

mod behind;

/// Writes one line for each row.
struct Print {
    output: Output,
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
    let (output, place) = match options.boolean("standard-error")? {
        false => (Output::of(std::io::stdout(), request), "standard output"),
        true => (Output::of(std::io::stderr(), request), "standard error"),
    };
    Ok(Box::new(Print { output, place, prefix, lines }))
}

/// Where lines go.
enum Output {
    /// To the thread that is opened with the first line, and writes where somebody may be slow to read.
    Unopened(Option<Box<dyn FnOnce() -> io::Result<Outbox> + Send>>),
    Behind(Outbox),
    /// Nobody has to read it before there is room.
    Direct(Box<dyn Write + Send>),
}

impl Output {
    fn of(output: impl Write + AsFd + Send + 'static, request: &TableRequest) -> Output {
        let is_file = output.as_fd().try_clone_to_owned().and_then(|owned| File::from(owned).metadata());
        match &request.host.waker {
            Some(waker) if !is_file.is_ok_and(|metadata| metadata.is_file()) => {
                let waker = waker.clone();
                Output::Unopened(Some(Box::new(move || behind(output, waker))))
            }
            _ => Output::Direct(Box::new(output)),
        }
    }

    fn write(&mut self, text: &[u8]) -> Result<(), String> {
        if let Output::Unopened(open) = self {
            let open = open.take().expect("it is opened once");
            *self = Output::Behind(open().map_err(|error| error.to_string())?);
        }
        match self {
            Output::Behind(behind) => behind.push(text),
            Output::Direct(output) => output.write_all(text).map_err(|error| error.to_string()),
            Output::Unopened(_) => unreachable!("it was opened just now"),
        }
    }
}

fn is_printable(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Struct(fields) => return fields.iter().all(|field| is_printable(field.data_type())),
        List(part) | Map(part, _) => return is_printable(part.data_type()),
        _ => {}
    }
    matches!(
        logical_type(data_type),
        Boolean | Int8 | Int16 | Int32 | Int64 | Float32 | Float64 | Utf8View | BinaryView | Date32 | Decimal128(..)
    ) || micros_per_tick(data_type).is_some()
}

impl Sink for Print {
    fn is_ready(&self) -> bool {
        match &self.output {
            Output::Behind(behind) => behind.has_room(),
            Output::Unopened(_) | Output::Direct(_) => true,
        }
    }

    fn is_settled(&self) -> bool {
        match &self.output {
            Output::Behind(behind) => behind.is_settled(),
            Output::Unopened(_) | Output::Direct(_) => true,
        }
    }

    fn write(&mut self, rows: &RecordBatch) -> Result<(), SinkError> {
        self.lines.clear();
        for row in 0..rows.num_rows() {
            self.lines.push_str(&self.prefix);
            write_row(rows, row, &mut self.lines);
            self.lines.push('\n');
        }
        let written = self.output.write(self.lines.as_bytes());
        written.map_err(|problem| self.failed(problem))
    }

    /// What has a thread is flushed by it, as soon as it can.
    fn flush(&mut self) -> Result<(), SinkError> {
        let flushed = match &mut self.output {
            Output::Behind(behind) => behind.result(),
            Output::Direct(output) => output.flush().map_err(|error| error.to_string()),
            Output::Unopened(_) => Ok(()),
        };
        flushed.map_err(|problem| self.failed(problem))
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        match &mut self.output {
            Output::Behind(behind) => behind.finish().map_err(|problem| self.failed(problem)),
            Output::Unopened(_) | Output::Direct(_) => self.flush(),
        }
    }
}

impl Print {
    fn failed(&self, problem: String) -> SinkError {
        SinkError { place: self.place.to_string(), problem }
    }
}

/// `+I[…]`: an inserted row.
pub(crate) fn write_row(rows: &RecordBatch, row: usize, line: &mut String) {
    write_fields(rows.columns(), row, line);
}

/// A row, or a ROW in it: Java's `Row` has a kind in both places.
fn write_fields(columns: &[ArrayRef], row: usize, line: &mut String) {
    line.push_str("+I[");
    for (index, column) in columns.iter().enumerate() {
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
        DataType::Struct(_) => {
            write_fields(column.as_struct().columns(), row, line);
            Ok(())
        }
        DataType::List(_) => {
            let lists = column.as_list::<i32>();
            let ends = lists.value_offsets();
            line.push('[');
            for element in ends[row]..ends[row + 1] {
                line.push_str(if element > ends[row] { ", " } else { "" });
                write_value(lists.values(), element as usize, line);
            }
            line.write_char(']')
        }
        DataType::Map(..) => {
            let maps = column.as_map();
            let ends = maps.value_offsets();
            line.push('{');
            for entry in ends[row]..ends[row + 1] {
                line.push_str(if entry > ends[row] { ", " } else { "" });
                write_value(maps.keys(), entry as usize, line);
                line.push('=');
                write_value(maps.values(), entry as usize, line);
            }
            line.write_char('}')
        }
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
        Int64Array, ListArray, MapArray, StringViewArray, StructArray, TimestampMicrosecondArray,
        TimestampMillisecondArray, UInt8Array,
    };
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{Field, Fields};

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
    fn nested_values_look_as_java_writes_them() {
        let names: ArrayRef = Arc::new(StringViewArray::from(vec![Some("x"), None]));
        let counts: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let fields = |names: [&str; 2]| {
            let types = [DataType::Utf8View, DataType::Int64];
            let fields = names.into_iter().zip(types).map(|(name, of)| Field::new(name, of, name != "key"));
            fields.collect::<Fields>()
        };
        let rows = StructArray::new(fields(["name", "count"]), vec![names, counts.clone()], None);
        let item = Arc::new(Field::new_list_field(rows.data_type().clone(), true));
        let lists = ListArray::new(item, OffsetBuffer::from_lengths([2, 0]), Arc::new(rows.clone()), None);
        assert_eq!(printed(rows), ["+I[x, 1]", "+I[null, 2]"]);
        assert_eq!(printed(lists), ["[+I[x, 1], +I[null, 2]]", "[]"]);
        let keys: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "b"]));
        let pairs = StructArray::new(fields(["key", "value"]), vec![keys, counts], None);
        let entries = Arc::new(Field::new("entries", pairs.data_type().clone(), false));
        let maps = MapArray::new(entries, OffsetBuffer::from_lengths([2]), pairs, None, false);
        assert_eq!(printed(maps), ["{a=1, b=2}"]);
    }

    #[test]
    fn each_row_is_a_line_with_the_identifier() {
        let columns: [(&str, ArrayRef); 2] = [
            ("a", Arc::new(Int64Array::from(vec![Some(1), None]))),
            ("b", Arc::new(StringViewArray::from(vec!["x", "y z"]))),
        ];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let (mut read, write) = io::pipe().unwrap();
        let output = Output::Direct(Box::new(write));
        let mut print = Print { output, place: "memory", prefix: "out> ".into(), lines: String::new() };
        print.write(&rows).unwrap();
        print.finish().unwrap();
        drop(print);
        assert_eq!(io::read_to_string(&mut read).unwrap(), "out> +I[1, x]\nout> +I[null, y z]\n");
    }
}
