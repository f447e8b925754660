//! Rows on standard output.

use std::io::{self, Write};

use pelton::arrow::array::RecordBatch;
use pelton::arrow::datatypes::{DataType, SchemaRef};
use pelton::arrow::error::ArrowError;
use pelton::arrow::util::display::{ArrayFormatter, FormatOptions};
use pelton::display::format_options;

use crate::Failure;
use crate::arguments::Format;

/// Prints the rows of one result, batch by batch as they come.
pub struct Printer {
    format: Format,
    schema: SchemaRef,
    /// Whether a header was printed.
    begun: bool,
    /// Characters of each column of a table: as wide as the widest value of the first batch.
    widths: Vec<usize>,
}

impl Printer {
    pub fn new(format: Format, schema: SchemaRef) -> Printer {
        Printer { format, schema, begun: false, widths: Vec::new() }
    }

    /// Prints rows.
    pub fn print(&mut self, rows: &RecordBatch, out: &mut impl Write) -> Result<(), Failure> {
        let first = !std::mem::replace(&mut self.begun, true);
        match self.format {
            Format::Table => print_table(rows, &mut self.widths, out)?,
            Format::Json => {
                let builder = arrow_json::WriterBuilder::new().with_explicit_nulls(true);
                let mut writer = builder.build::<_, arrow_json::writer::LineDelimited>(&mut *out);
                writer.write(rows)?;
                writer.finish()?;
            }
            Format::Csv => {
                let builder = arrow_csv::WriterBuilder::new().with_header(first);
                let builder = builder.with_timestamp_format("%Y-%m-%d %H:%M:%S%.f".into());
                builder.with_timestamp_tz_format("%Y-%m-%d %H:%M:%S%.fZ".into()).build(&mut *out).write(rows)?;
            }
        }
        out.flush()?;
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
}

fn print_table(rows: &RecordBatch, widths: &mut Vec<usize>, out: &mut impl Write) -> Result<(), Failure> {
    let cells = cells(rows)?;
    let schema = rows.schema();
    let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    let is_number: Vec<bool> = schema.fields().iter().map(|field| is_number(field.data_type())).collect();
    if widths.is_empty() {
        let length = |text: &String| text.chars().count();
        *widths = (0..names.len())
            .map(|column| {
                cells.iter().map(|row| length(&row[column])).chain([length(&names[column])]).max().unwrap_or(0)
            })
            .collect();
        print_line(&names, widths, &is_number, out)?;
        let rules: Vec<String> = widths.iter().map(|&width| "─".repeat(width)).collect();
        print_line(&rules, widths, &is_number, out)?;
    }
    for row in &cells {
        print_line(row, widths, &is_number, out)?;
    }
    Ok(())
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

fn cells(rows: &RecordBatch) -> Result<Vec<Vec<String>>, ArrowError> {
    let options: Vec<FormatOptions<'_>> =
        rows.columns().iter().map(|column| format_options(column.data_type())).collect();
    let columns = rows.columns().iter().zip(&options);
    let formatters: Vec<ArrayFormatter<'_>> =
        columns.map(|(column, options)| ArrayFormatter::try_new(column, options)).collect::<Result<_, _>>()?;
    let row = |row: usize| formatters.iter().map(|formatter| formatter.value(row).try_to_string()).collect();
    (0..rows.num_rows()).map(row).collect()
}

fn print_line(cells: &[String], widths: &[usize], is_number: &[bool], out: &mut impl Write) -> io::Result<()> {
    let mut line = String::new();
    for ((cell, &width), &right) in cells.iter().zip(widths).zip(is_number) {
        let padded = if right { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
        line.push_str(&padded);
        line.push_str("  ");
    }
    writeln!(out, "{}", line.trim_end())
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

    use pelton::arrow::array::{ArrayRef, Int64Array, StringViewArray};

    use super::*;

    fn printed(format: Format) -> String {
        let name: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a,b"), None]));
        let number: ArrayRef = Arc::new(Int64Array::from(vec![1, 20_000]));
        let rows = RecordBatch::try_from_iter_with_nullable([("name", name, true), ("n", number, false)]).unwrap();
        let mut printer = Printer::new(format, rows.schema());
        let mut out = Vec::new();
        printer.print(&rows, &mut out).unwrap();
        printer.finish(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn rows_have_three_forms() {
        assert_eq!(printed(Format::Table), "name      n\n────  ─────\na,b       1\nNULL  20000\n");
        assert_eq!(printed(Format::Csv), "name,n\n\"a,b\",1\n,20000\n");
        assert_eq!(printed(Format::Json), "{\"name\":\"a,b\",\"n\":1}\n{\"name\":null,\"n\":20000}\n");
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
    fn numbers_are_readable() {
        assert_eq!([count(7), count(1_234_567)], ["7", "1 234 567"]);
        assert_eq!([short(999.0), short(12_345.0), short(2.5e6)], ["999", "12.3 k", "2.50 M"]);
    }
}
