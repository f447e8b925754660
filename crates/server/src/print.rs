//! Rows on standard output.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_json::writer::NullableEncoder;
use arrow_json::{Encoder, EncoderFactory, EncoderOptions};
use pelton::arrow::array::{Array, AsArray, RecordBatch};
use pelton::arrow::compute::cast;
use pelton::arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type, Int64Type, Schema, SchemaRef};
use pelton::arrow::error::ArrowError;
use pelton::arrow::util::display::{ArrayFormatter, FormatOptions};
use pelton::display::{format_options, sql_name};

use crate::arguments::Format;
use crate::failure::Failure;

/// Prints the rows of one result, batch by batch as they come.
pub struct Printer {
    format: Format,
    schema: SchemaRef,
    /// Whether a header was printed.
    begun: bool,
    /// Rows that were printed.
    rows: usize,
    /// Characters of each column of a table: as wide as the widest value so far.
    widths: Vec<usize>,
    /// Values of a table keep their line ends.
    keeps_lines: bool,
    /// Characters of a table's lines, at most.
    line_max: Option<usize>,
    /// Characters of its values, at most.
    value_max: Option<usize>,
    /// Whether a value was cut to fit.
    has_cut: bool,
}

impl Printer {
    pub fn new(format: Format, schema: SchemaRef) -> Printer {
        let widths = Vec::new();
        let (keeps_lines, line_max, value_max, has_cut) = (false, None, None, false);
        Printer { format, schema, begun: false, rows: 0, widths, keeps_lines, line_max, value_max, has_cut }
    }

    /// The same for what a statement says, such as `SHOW CREATE TABLE`, which may have several lines, to be copied.
    pub fn of_statement(format: Format, schema: SchemaRef) -> Printer {
        Printer { keeps_lines: true, ..Printer::new(format, schema) }
    }

    /// The same with the values of a table cut to lines of so many characters.
    pub fn fitting(self, line_max: Option<usize>) -> Printer {
        Printer { line_max, ..self }
    }

    /// Rows that were printed.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether a value was cut to fit.
    pub fn has_cut(&self) -> bool {
        self.has_cut
    }

    /// Prints rows.
    pub fn print(&mut self, rows: &RecordBatch, out: &mut impl Write) -> Result<(), Failure> {
        check_times(rows, self.rows)?;
        if self.format == Format::Json {
            check_keys(&self.schema)?;
        }
        let first = !std::mem::replace(&mut self.begun, true);
        match self.format {
            Format::Table => self.print_table(rows, out)?,
            Format::Json => {
                let builder = arrow_json::WriterBuilder::new().with_explicit_nulls(true);
                let builder = builder.with_encoder_factory(Arc::new(FloatEncoders));
                let mut writer = builder.build::<_, arrow_json::writer::LineDelimited>(&mut *out);
                writer.write(rows)?;
                writer.finish()?;
            }
            Format::Csv => print_csv(rows, first, out)?,
        }
        out.flush()?;
        self.rows += rows.num_rows();
        Ok(())
    }

    /// Ends the output: a result without rows still has columns.
    pub fn finish(&mut self, out: &mut impl Write) -> Result<(), Failure> {
        if self.begun || self.format == Format::Json {
            return Ok(());
        }
        let none = RecordBatch::new_empty(self.schema.clone());
        self.print(&none, out)
    }

    fn print_table(&mut self, rows: &RecordBatch, out: &mut impl Write) -> Result<(), Failure> {
        let cells = cells(rows, self.keeps_lines)?;
        let schema = rows.schema();
        let names: Vec<String> = schema.fields().iter().map(|field| printable(field.name().clone(), false)).collect();
        let is_number: Vec<bool> = schema.fields().iter().map(|field| is_number(field.data_type())).collect();
        let length = |text: &String| text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        let is_first = self.widths.is_empty();
        self.widths.resize(names.len(), 0);
        let value_max = self.value_max.unwrap_or(GROWN_WIDTH_MAX);
        for (column, width) in self.widths.iter_mut().enumerate() {
            let longest = cells.iter().map(|row| length(&row[column])).max().unwrap_or(0);
            if is_first {
                *width = longest.max(length(&names[column]));
            } else if longest > *width && longest <= GROWN_WIDTH_MAX {
                // With some room, so that numbers which grow do not widen it again and again.
                *width = longest.next_multiple_of(GROWING_STEP).min(value_max.max(*width));
            }
        }
        if is_first {
            if let Some(line_max) = self.line_max {
                self.value_max = fit(&mut self.widths, line_max);
            }
            self.print_line(&names, &is_number, out)?;
            let rules: Vec<String> = self.widths.iter().map(|&width| "─".repeat(width)).collect();
            self.print_line(&rules, &is_number, out)?;
        }
        for row in &cells {
            self.print_line(row, &is_number, out)?;
        }
        Ok(())
    }

    fn print_line(&mut self, cells: &[String], is_number: &[bool], out: &mut impl Write) -> io::Result<()> {
        let mut line = String::new();
        for ((cell, &width), &right) in cells.iter().zip(&self.widths).zip(is_number) {
            let cut = self.value_max.and_then(|value_max| cut_to(cell, value_max));
            self.has_cut |= cut.is_some();
            let cell = cut.as_ref().unwrap_or(cell);
            // Formatting pads to 65,535 characters at most.
            let fill = " ".repeat(width.saturating_sub(cell.chars().count()));
            line.extend(if right { [&fill, cell.as_str()] } else { [cell.as_str(), &fill] });
            line.push_str("  ");
        }
        let line = line.trim_end();
        let cut = self.line_max.and_then(|line_max| cut_to(line, line_max));
        self.has_cut |= cut.is_some();
        writeln!(out, "{}", cut.as_deref().unwrap_or(line))
    }
}

/// Times reach further than calendars do, and what is beyond these has no text.
fn check_times(rows: &RecordBatch, rows_before: usize) -> Result<(), Failure> {
    for (field, column) in rows.schema_ref().fields().iter().zip(rows.columns()) {
        if !has_times(field.data_type()) {
            continue;
        }
        // Errors within nested values are displayed in their places otherwise.
        let options = format_options(field.data_type()).with_display_error(false);
        let formatter = ArrayFormatter::try_new(column, &options)?;
        let has_text = |row: usize| column.is_null(row) || formatter.value(row).try_to_string().is_ok();
        if !field.data_type().is_nested() {
            let ticks = cast(column, &DataType::Int64)?;
            let known =
                || ticks.as_primitive::<Int64Type>().iter().zip(0..).filter_map(|(tick, row)| Some((tick?, row)));
            if known().min().into_iter().chain(known().max()).all(|(_, row)| has_text(row)) {
                continue;
            }
        }
        if let Some(row) = (0..column.len()).find(|&row| !has_text(row)) {
            let (row, name) = (rows_before + row + 1, field.name());
            let problem = "has a time that no calendar reaches; leave it out with WHERE";
            return Err(format!("row {row} of the result, column {name}: {problem}").into());
        }
    }
    Ok(())
}

/// Whether values of a type are points in time, or have parts that are.
fn has_times(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => fields.iter().any(|field| has_times(field.data_type())),
        DataType::List(part) | DataType::Map(part, _) => has_times(part.data_type()),
        other => matches!(other, DataType::Timestamp(..) | DataType::Date32),
    }
}

/// Members of JSON's objects have strings for names: a MAP of other keys is refused, as Flink's JSON format does.
fn check_keys(schema: &Schema) -> Result<(), Failure> {
    let Some(field) = schema.fields().iter().find(|field| has_other_keys(field.data_type())) else { return Ok(()) };
    let data_type = sql_name(field.data_type());
    let problem = format!("has the type {data_type}, which JSON cannot hold: the keys of its objects are strings");
    Err(format!("column {} of the result {problem}; CAST it to STRING, or print CSV", field.name()).into())
}

fn has_other_keys(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => fields.iter().any(|field| has_other_keys(field.data_type())),
        DataType::List(item) => has_other_keys(item.data_type()),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(sides) => !sides[0].data_type().is_string() || has_other_keys(sides[1].data_type()),
            _ => false,
        },
        _ => false,
    }
}

/// NULL is nothing and an empty string a pair of quotes. CSV has no nested values: they are printed as in a table, where NULL is `NULL`.
fn print_csv(rows: &RecordBatch, has_header: bool, out: &mut impl Write) -> Result<(), Failure> {
    let mut lines = String::new();
    let schema = rows.schema_ref();
    if has_header {
        for (index, field) in schema.fields().iter().enumerate() {
            write_csv_field(index, field.name(), &mut lines);
        }
        lines.push('\n');
    }
    let options: Vec<FormatOptions<'_>> = schema.fields().iter().map(|field| csv_options(field.data_type())).collect();
    let columns = rows.columns().iter().zip(&options);
    let columns =
        columns.map(|(column, options)| Ok((column.logical_nulls(), ArrayFormatter::try_new(column, options)?)));
    let columns = columns.collect::<Result<Vec<_>, ArrowError>>()?;
    let floats: Vec<bool> = schema.fields().iter().map(|field| field.data_type().is_floating()).collect();
    for row in 0..rows.num_rows() {
        for (index, (nulls, formatter)) in columns.iter().enumerate() {
            match nulls {
                Some(nulls) if nulls.is_null(row) => lines.push_str(if index > 0 { "," } else { "" }),
                _ => {
                    let text = formatter.value(row).try_to_string()?;
                    write_csv_field(index, if floats[index] { float_in_csv(&text) } else { &text }, &mut lines);
                }
            }
        }
        lines.push('\n');
    }
    Ok(out.write_all(lines.as_bytes())?)
}

/// A number as files have it: the infinities are spelt out.
fn float_in_csv(text: &str) -> &str {
    match text {
        "inf" => "Infinity",
        "-inf" => "-Infinity",
        number => number,
    }
}

fn csv_options(data_type: &DataType) -> FormatOptions<'static> {
    match data_type {
        nested if nested.is_nested() => format_options(nested),
        _ => FormatOptions::new()
            .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
            .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.fZ")),
    }
}

fn write_csv_field(index: usize, text: &str, line: &mut String) {
    if index > 0 {
        line.push(',');
    }
    if !text.is_empty() && !text.contains([',', '"', '\n', '\r']) {
        return line.push_str(text);
    }
    line.push('"');
    line.push_str(&text.replace('"', "\"\""));
    line.push('"');
}

/// JSON has no number for NaN and the infinities: they are strings, as tables write them.
#[derive(Debug)]
struct FloatEncoders;

impl EncoderFactory for FloatEncoders {
    fn make_default_encoder<'a>(
        &self,
        _field: &'a FieldRef,
        array: &'a dyn Array,
        _options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let encoder: Box<dyn Encoder + 'a> = match array.data_type() {
            DataType::Float32 => {
                let values = array.as_primitive::<Float32Type>().values();
                Box::new(FloatEncoder(move |row| (f64::from(values[row]), format!("{:?}", values[row]))))
            }
            DataType::Float64 => {
                let values = array.as_primitive::<Float64Type>().values();
                Box::new(FloatEncoder(move |row| (values[row], format!("{:?}", values[row]))))
            }
            _ => return Ok(None),
        };
        Ok(Some(NullableEncoder::new(encoder, array.nulls().cloned())))
    }
}

/// The number in a row, and its text.
struct FloatEncoder<Number>(Number);

impl<Number: Fn(usize) -> (f64, String)> Encoder for FloatEncoder<Number> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let (number, text) = (self.0)(row);
        let text = match number {
            f64::INFINITY => "\"Infinity\"",
            f64::NEG_INFINITY => "\"-Infinity\"",
            number if number.is_nan() => "\"NaN\"",
            _ => &text,
        };
        out.extend_from_slice(text.as_bytes());
    }
}

/// A column whose later values are longer becomes wider, up to so many characters; a value that is longer still moves only what is behind it in its row.
const GROWN_WIDTH_MAX: usize = 60;

/// It becomes so many characters wider at a time.
const GROWING_STEP: usize = 4;

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

fn cells(rows: &RecordBatch, keeps_lines: bool) -> Result<Vec<Vec<String>>, ArrowError> {
    let options: Vec<FormatOptions<'_>> =
        rows.columns().iter().map(|column| format_options(column.data_type())).collect();
    let columns = rows.columns().iter().zip(&options);
    let formatters: Vec<ArrayFormatter<'_>> =
        columns.map(|(column, options)| ArrayFormatter::try_new(column, options)).collect::<Result<_, _>>()?;
    let cell = |formatter: &ArrayFormatter<'_>, row: usize| {
        formatter.value(row).try_to_string().map(|text| printable(text, keeps_lines))
    };
    let row = |row: usize| formatters.iter().map(|formatter| cell(formatter, row)).collect();
    (0..rows.num_rows()).map(row).collect()
}

/// Text with control characters as escapes: they would tear its row apart, or reach the terminal as commands.
fn printable(text: String, keeps_lines: bool) -> String {
    let is_escaped = |character: char| character.is_control() && !(keeps_lines && character == '\n');
    if !text.contains(is_escaped) {
        return text;
    }
    let mut printable = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match is_escaped(character) {
            true => printable.extend(character.escape_default()),
            false => printable.push(character),
        }
    }
    printable
}

/// Columns that are narrowed keep so many characters.
const NARROWED_WIDTH_MIN: usize = 8;

/// Narrows the widest columns until a line has at most so many characters, or none can be narrowed further. Returns what
/// the widest then have, where any was narrowed.
fn fit(widths: &mut [usize], line_max: usize) -> Option<usize> {
    let between = 2 * widths.len().saturating_sub(1);
    let fits = |cap: usize| widths.iter().map(|&width| width.min(cap)).sum::<usize>() + between <= line_max;
    let widest = widths.iter().copied().max().unwrap_or(0);
    if fits(widest) {
        return None;
    }
    let cap = (NARROWED_WIDTH_MIN..widest).rev().find(|&cap| fits(cap)).unwrap_or(NARROWED_WIDTH_MIN);
    widths.iter_mut().for_each(|width| *width = (*width).min(cap));
    Some(cap)
}

/// The text with an ellipsis in the place of what is beyond so many characters; `None` where it fits.
fn cut_to(text: &str, length_max: usize) -> Option<String> {
    let (end, _) = text.char_indices().nth(length_max.saturating_sub(1))?;
    text[end..].chars().nth(1)?;
    Some(format!("{}…", &text[..end]))
}

/// A count with thousands apart: 12 345 678.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap_or("")).collect();
    groups.join(" ")
}

/// A rate in three digits: 12.3 M.
pub fn short(number: f64) -> String {
    match number {
        n if n >= 1e9 => format!("{:.2} G", n / 1e9),
        n if n >= 1e6 => format!("{:.2} M", n / 1e6),
        n if n >= 1e3 => format!("{:.1} k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pelton::arrow::array::{
        ArrayRef, Float32Array, Float64Array, Int32Array, Int64Array, MapArray, StringViewArray, StructArray,
        TimestampMillisecondArray,
    };
    use pelton::arrow::buffer::OffsetBuffer;
    use pelton::arrow::datatypes::{Field, Fields, TimeUnit};

    use super::*;

    fn printed(format: Format) -> String {
        let name: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a,b"), None, Some("")]));
        let number: ArrayRef = Arc::new(Int64Array::from(vec![1, 20_000, 3]));
        let rows = RecordBatch::try_from_iter_with_nullable([("name", name, true), ("n", number, false)]).unwrap();
        let mut printer = Printer::new(format, rows.schema());
        let mut out = Vec::new();
        printer.print(&rows, &mut out).unwrap();
        printer.finish(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn rows_have_three_forms() {
        assert_eq!(printed(Format::Table), "name      n\n────  ─────\na,b       1\nNULL  20000\n          3\n");
        assert_eq!(printed(Format::Csv), "name,n\n\"a,b\",1\n,20000\n\"\",3\n");
        assert_eq!(
            printed(Format::Json),
            "{\"name\":\"a,b\",\"n\":1}\n{\"name\":null,\"n\":20000}\n{\"name\":\"\",\"n\":3}\n"
        );
    }

    #[test]
    fn a_table_grows_with_its_rows_and_keeps_their_alignment() {
        let schema = Arc::new(pelton::arrow::datatypes::Schema::new(vec![
            pelton::arrow::datatypes::Field::new("name", DataType::Utf8View, false),
            pelton::arrow::datatypes::Field::new("n", DataType::Int64, false),
        ]));
        let mut printer = Printer::new(Format::Table, schema.clone());
        let mut out = Vec::new();
        let long = "x".repeat(61);
        for (name, number) in [("a", 1), ("second", 12345), ("third", 7), (&long, 8)] {
            let columns: Vec<ArrayRef> =
                vec![Arc::new(StringViewArray::from(vec![name])), Arc::new(Int64Array::from(vec![number]))];
            printer.print(&RecordBatch::try_new(schema.clone(), columns).unwrap(), &mut out).unwrap();
        }
        let expected = format!(
            "name  n\n────  ─\na     1\n\
             second       12345\nthird            7\n{long}         8\n"
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn text_in_csv_is_read_as_it_was() {
        let mut line = String::new();
        for (index, text) in ["a b", "a,b", "say \"a\"", "", "a\nb", "a\rb"].into_iter().enumerate() {
            write_csv_field(index, text, &mut line);
        }
        assert_eq!(line, "a b,\"a,b\",\"say \"\"a\"\"\",\"\",\"a\nb\",\"a\rb\"");
    }

    #[test]
    fn what_would_break_a_table_is_escaped_there_alone() {
        let text: ArrayRef = Arc::new(StringViewArray::from(vec!["a\nb", "a\tb\\", "\u{1b}[2Jé"]));
        let rows = RecordBatch::try_from_iter([("t\r", text)]).unwrap();
        let printed = |format| {
            let mut out = Vec::new();
            Printer::new(format, rows.schema()).print(&rows, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(printed(Format::Table), "t\\r\n──────────\na\\nb\na\\tb\\\n\\u{1b}[2Jé\n");
        assert_eq!(printed(Format::Csv), "\"t\r\"\n\"a\nb\"\na\tb\\\n\u{1b}[2Jé\n");
    }

    #[test]
    fn what_a_statement_says_keeps_its_lines() {
        let text: ArrayRef = Arc::new(StringViewArray::from(vec!["CREATE TABLE t (\n  a INT\t\n)"]));
        let rows = RecordBatch::try_from_iter([("statement", text)]).unwrap();
        let mut out = Vec::new();
        Printer::of_statement(Format::Table, rows.schema()).print(&rows, &mut out).unwrap();
        let printed = String::from_utf8(out).unwrap();
        assert_eq!(printed, "statement\n────────────────\nCREATE TABLE t (\n  a INT\\t\n)\n");
    }

    #[test]
    fn infinities_in_csv_are_those_of_files() {
        let numbers = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.5];
        let doubles: ArrayRef = Arc::new(Float64Array::from(numbers.to_vec()));
        let floats: ArrayRef = Arc::new(Float32Array::from(numbers.map(|number| number as f32).to_vec()));
        let text: ArrayRef = Arc::new(StringViewArray::from(vec!["inf"; 4]));
        let rows = RecordBatch::try_from_iter([("d", doubles), ("f", floats), ("s", text)]).unwrap();
        let mut out = Vec::new();
        Printer::new(Format::Csv, rows.schema()).print(&rows, &mut out).unwrap();
        let expected = "d,f,s\nInfinity,Infinity,inf\n-Infinity,-Infinity,inf\nNaN,NaN,inf\n1.5,1.5,inf\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    /// One row of a MAP from `keys` to a NULL.
    fn map_of(keys: ArrayRef) -> RecordBatch {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![None]));
        let sides =
            [Field::new("key", keys.data_type().clone(), false), Field::new("value", values.data_type().clone(), true)];
        let sides = Fields::from_iter(sides);
        let entries = StructArray::new(sides.clone(), vec![keys, values], None);
        let field = Arc::new(Field::new("entries", DataType::Struct(sides), false));
        let map: ArrayRef = Arc::new(MapArray::new(field, OffsetBuffer::from_lengths([1]), entries, None, false));
        RecordBatch::try_from_iter([("m", map)]).unwrap()
    }

    #[test]
    fn null_in_nested_values_is_written_out() {
        let printed = |format: Format, rows: &RecordBatch| {
            let mut out = Vec::new();
            let printed = Printer::new(format, rows.schema()).print(rows, &mut out).map_err(|error| error.to_string());
            printed.map(|()| String::from_utf8(out).unwrap())
        };
        let rows = map_of(Arc::new(StringViewArray::from(vec!["k"])));
        assert_eq!(printed(Format::Csv, &rows).unwrap(), "m\n{k: NULL}\n");
        assert_eq!(printed(Format::Json, &rows).unwrap(), "{\"m\":{\"k\":null}}\n");
        // JSON has no other keys than strings.
        let rows = map_of(Arc::new(Int32Array::from(vec![7])));
        assert_eq!(printed(Format::Csv, &rows).unwrap(), "m\n{7: NULL}\n");
        let expected = "column m of the result has the type MAP<INT, BIGINT>, which JSON cannot hold: the keys of its objects are strings; \
                        CAST it to STRING, or print CSV";
        assert_eq!(printed(Format::Json, &rows).unwrap_err(), expected);
    }

    #[test]
    fn a_time_beyond_the_calendar_is_an_error_that_names_its_row() {
        let times: ArrayRef =
            Arc::new(TimestampMillisecondArray::from(vec![Some(0), None, Some(i64::MIN), Some(i64::MAX), Some(1)]));
        let rows = RecordBatch::try_from_iter_with_nullable([("t", times, true)]).unwrap();
        let field = Arc::new(Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), true));
        let within: ArrayRef = Arc::new(StructArray::new(vec![field].into(), vec![rows.column(0).clone()], None));
        let within = RecordBatch::try_from_iter([("t", within)]).unwrap();
        let tried = [Format::Table, Format::Csv, Format::Json]
            .into_iter()
            .flat_map(|format| [(format, &rows), (format, &within)]);
        for (format, rows) in tried {
            let mut printer = Printer::new(format, rows.schema());
            let mut out = Vec::new();
            printer.print(&rows.slice(0, 2), &mut out).unwrap();
            let printed = out.len();
            let error = printer.print(&rows.slice(2, 3), &mut out).unwrap_err();
            let expected =
                "row 3 of the result, column t: has a time that no calendar reaches; leave it out with WHERE";
            assert_eq!((error.to_string().as_str(), out.len()), (expected, printed));
        }
    }

    #[test]
    fn a_result_without_rows_has_columns() {
        let schema = Arc::new(pelton::arrow::datatypes::Schema::new(vec![pelton::arrow::datatypes::Field::new(
            "n",
            DataType::Int64,
            false,
        )]));
        for (format, expected) in [(Format::Table, "n\n─\n"), (Format::Csv, "n\n"), (Format::Json, "")] {
            let mut out = Vec::new();
            Printer::new(format, schema.clone()).finish(&mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn a_table_is_cut_to_the_terminal() {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["a text that is too long", "short"]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let rows = RecordBatch::try_from_iter([("t", texts), ("n", numbers)]).unwrap();
        let printed = |line_max| {
            let mut out = Vec::new();
            let mut printer = Printer::new(Format::Table, rows.schema()).fitting(Some(line_max));
            printer.print(&rows, &mut out).unwrap();
            (String::from_utf8(out).unwrap(), printer.has_cut())
        };
        let whole = "t                        n\n───────────────────────  ─\na text that is too long  1\nshort                    2\n";
        assert_eq!(printed(26), (whole.to_owned(), false));
        let cut = "t             n\n────────────  ─\na text that…  1\nshort         2\n";
        assert_eq!(printed(15), (cut.to_owned(), true));
        let narrow = "t…\n─…\na…\ns…\n";
        assert_eq!(printed(2), (narrow.to_owned(), true));
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!([count(7), count(1_234_567)], ["7", "1 234 567"]);
        assert_eq!([short(999.0), short(12_345.0), short(2.5e6)], ["999", "12.3 k", "2.50 M"]);
    }
}
