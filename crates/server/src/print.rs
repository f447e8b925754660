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
use pelton::display::{Zone, format_options, sql_name, with_times_as_text};

use crate::arguments::Format;
use crate::failure::Failure;

/// Prints the rows of one result, batch by batch as they come.
pub struct Printer {
    format: Format,
    schema: SchemaRef,
    /// By whose clocks a table shows instants.
    zone: Zone,
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
    pub fn new(format: Format, schema: SchemaRef, zone: Zone) -> Printer {
        let widths = Vec::new();
        let (keeps_lines, line_max, value_max, has_cut) = (false, None, None, false);
        Printer { format, schema, zone, begun: false, rows: 0, widths, keeps_lines, line_max, value_max, has_cut }
    }

    /// The same for what a statement says, such as `SHOW CREATE TABLE`, which may have several lines, to be copied.
    pub fn of_statement(format: Format, schema: SchemaRef, zone: Zone) -> Printer {
        Printer { keeps_lines: true, ..Printer::new(format, schema, zone) }
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
        let cells = cells(&with_times_as_text(rows, self.zone)?, self.keeps_lines)?;
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

/// Whether a type has a MAP in it whose keys are no strings.
pub fn has_other_keys(data_type: &DataType) -> bool {
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
pub struct FloatEncoders;

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
mod tests;
