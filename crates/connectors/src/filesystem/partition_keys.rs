//! Tables that are `PARTITIONED BY` some of their columns: rows with the same values of these are in files of one directory, `dt=2024-01-01/hour=10`, and the files
//! have the other columns. Names are those of Hive and Flink.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Component, Path};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringViewArray, UInt32Array, new_null_array};
use arrow::compute::{CastOptions, cast_with_options, partition, take_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use pelton_data::column::sql_name;

use crate::format::column::{Escapes, FieldRules, is_text_type};
use crate::format::time::TimestampFormat;
use crate::format::write::Cells;
use crate::{ConnectorError, TableRequest};

/// Flink's option for the name of what is NULL or an empty string.
pub(super) const DEFAULT_NAME: &str = "partition.default-name";

/// What it is without that option.
const NULL_NAME: &str = "__DEFAULT_PARTITION__";

/// The name that stands for NULL in the directories of a table.
pub(super) fn default_name(request: &TableRequest) -> &str {
    request.options.get(DEFAULT_NAME).map_or(NULL_NAME, String::as_str)
}

/// Checks the columns by which a table is partitioned.
///
/// # Errors
/// Where the values of one cannot be names, or no other column is left.
pub(super) fn check(request: &TableRequest) -> Result<(), ConnectorError> {
    for &key in &request.partition_keys {
        let field = request.schema.field(key);
        if !is_text_type(field.data_type()) {
            let problem = format!("is of type {}, which is no name of a directory", sql_name(field.data_type()));
            return Err(ConnectorError::column(field.name(), format!("{problem}; partition by others")));
        }
    }
    let is_in_files = |index| !request.partition_keys.contains(&index) && !request.metadata.contains_key(&index);
    match request.partition_keys.first() {
        Some(&key) if !(0..request.schema.fields().len()).any(is_in_files) => {
            let problem = "and all others are in PARTITIONED BY, and files have columns that are not; leave one out";
            Err(ConnectorError::column(request.schema.field(key).name(), problem))
        }
        _ => Ok(()),
    }
}

/// How rows are divided among directories.
pub(super) struct PartitionKeys {
    /// The columns, in their order in `PARTITIONED BY`.
    keys: Vec<usize>,
    fields: Vec<Arc<Field>>,
    /// All others.
    data: Vec<usize>,
    default_name: String,
    rules: FieldRules,
}

impl PartitionKeys {
    /// Those of a table that is written, if it has some.
    pub(super) fn of(request: &TableRequest) -> Option<PartitionKeys> {
        let keys = request.partition_keys.clone();
        if keys.is_empty() {
            return None;
        }
        let rules = FieldRules {
            null_literal: None,
            empty_is_null: false,
            timestamps: TimestampFormat::default(),
            escapes: Escapes::Csv { quote: None, escape: None },
            missing_is_wrong: false,
            is_strict: false,
        };
        Some(PartitionKeys {
            fields: keys.iter().map(|&key| request.schema.fields()[key].clone()).collect(),
            data: (0..request.schema.fields().len()).filter(|index| !keys.contains(index)).collect(),
            keys,
            default_name: default_name(request).to_owned(),
            rules,
        })
    }

    /// The columns of files.
    pub(super) fn data_schema(&self, schema: &Schema) -> SchemaRef {
        Arc::new(schema.project(&self.data).expect("they are columns of the table"))
    }

    /// Rows by the directories that they belong to, each with the columns of files.
    pub(super) fn split(&self, rows: &RecordBatch) -> Result<Vec<(String, RecordBatch)>, String> {
        let options = CastOptions { safe: false, ..Default::default() };
        // Strings may come as dictionaries.
        let columns = self.keys.iter().zip(&self.fields);
        let columns = columns.map(|(&key, field)| cast_with_options(rows.column(key), field.data_type(), &options));
        let columns = columns.collect::<Result<Vec<ArrayRef>, _>>().map_err(|error| error.to_string())?;
        let data = rows.project(&self.data).map_err(|error| error.to_string())?;
        if rows.num_rows() == 0 {
            return Ok(Vec::new());
        }
        let cells: Vec<Cells> = columns.iter().map(|column| Cells::new(column, &self.rules, false)).collect();
        let mut ranges: BTreeMap<String, Vec<Range<usize>>> = BTreeMap::new();
        // Rows that follow each other often belong together.
        for range in partition(&columns).map_err(|error| error.to_string())?.ranges() {
            ranges.entry(self.directory(&cells, range.start)?).or_default().push(range);
        }
        let select = |(directory, ranges): (String, Vec<Range<usize>>)| {
            let rows = match ranges.as_slice() {
                [range] => Ok(data.slice(range.start, range.len())),
                ranges => {
                    let rows = ranges.iter().cloned().flatten().map(|row| row as u32);
                    take_record_batch(&data, &UInt32Array::from_iter_values(rows)).map_err(|error| error.to_string())
                }
            };
            rows.map(|rows| (directory, rows))
        };
        ranges.into_iter().map(select).collect()
    }

    /// The directory that a row belongs to.
    fn directory(&self, cells: &[Cells], row: usize) -> Result<String, String> {
        let mut directory = String::new();
        let mut value = Vec::new();
        for (field, cells) in self.fields.iter().zip(cells) {
            value.clear();
            if !cells.is_null(row) {
                let written = cells.write(row, &mut value);
                written.map_err(|problem| format!("the partition column '{}': {problem}", field.name()))?;
            }
            let value = if value.is_empty() { self.default_name.as_bytes() } else { &value };
            if !directory.is_empty() {
                directory.push('/');
            }
            escape(field.name(), &mut directory);
            directory.push('=');
            escape(&String::from_utf8_lossy(value), &mut directory);
        }
        Ok(directory)
    }
}

/// Characters that are no part of names, beside those that cannot be shown, as in Hive.
const ESCAPED: &str = "\"#%'*/:=?\\{}[]^\u{7f}";

/// Appends a name, with `%` and two digits in the place of characters that have a meaning in paths.
fn escape(name: &str, out: &mut String) {
    for character in name.chars() {
        // A name that is `.` or `..` is none.
        let is_dot = character == '.' && matches!(name, "." | "..");
        if (character as u32) < 0x20 || ESCAPED.contains(character) || is_dot {
            write!(out, "%{:02X}", character as u32).expect("writing to a string");
        } else {
            out.push(character);
        }
    }
}

/// The name that was escaped.
fn unescape(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let digits = behind.get(..2).filter(|_| first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The columns and values that the name of a directory tells, from its root on.
pub(super) fn values(directory: &str) -> Vec<(String, String)> {
    let value = |name: &str| name.split_once('=').map(|(key, value)| (unescape(key), unescape(value)));
    directory.split('/').filter_map(value).collect()
}

/// The value of a column that the path of a file tells, as an array of one row; `default_name` stands for NULL.
///
/// # Errors
/// Where the path does not tell it, or it does not fit the column.
pub(super) fn constant(path: &Path, field: &Field, default_name: &str) -> Result<ArrayRef, String> {
    let name = field.name();
    let mut directories = path.parent().into_iter().flat_map(Path::components).rev().filter_map(|part| match part {
        Component::Normal(part) => part.to_str(),
        _ => None,
    });
    let found = directories.find_map(|part| values(part).pop().filter(|(key, _)| key == name));
    let Some((_, value)) = found else {
        let mut shown = String::new();
        escape(name, &mut shown);
        return Err(format!("is in no directory {shown}=…, and the table is PARTITIONED BY {name}"));
    };
    if value == default_name {
        return match field.is_nullable() {
            true => Ok(new_null_array(field.data_type(), 1)),
            false => Err(format!("is in the partition of rows whose {name} is NULL, and {name} is declared NOT NULL")),
        };
    }
    let text: ArrayRef = Arc::new(StringViewArray::from_iter_values([&value]));
    if *field.data_type() == DataType::Utf8View {
        return Ok(text);
    }
    let options = CastOptions { safe: false, ..Default::default() };
    cast_with_options(&text, field.data_type(), &options)
        .map_err(|_| format!("is in the partition {name}={value}, which is no {}", sql_name(field.data_type())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(name: &str) -> String {
        let mut out = String::new();
        escape(name, &mut out);
        out
    }

    #[test]
    fn names_are_escaped_as_flink_does() {
        for (name, expected) in [
            ("2024-01-01 10:00", "2024-01-01 10%3A00"),
            ("a/b=c", "a%2Fb%3Dc"),
            ("50%\n", "50%25%0A"),
            ("ä.b", "ä.b"),
            ("..", "%2E%2E"),
        ] {
            assert_eq!(escaped(name), expected);
            assert_eq!(unescape(expected), name);
        }
        assert_eq!(unescape("100%"), "100%");
        assert_eq!(
            values("dt=2024-01-01/h%3D=a%2Fb"),
            [("dt".into(), "2024-01-01".into()), ("h=".into(), "a/b".into())]
        );
    }

    #[test]
    fn the_path_of_a_file_tells_values() {
        let path = Path::new("/data/n=1/dt=2024-02-03/n=-7/s=__DEFAULT_PARTITION__/part-0.csv");
        let of = |name: &str, data_type: DataType, nullable: bool| {
            constant(path, &Field::new(name, data_type, nullable), NULL_NAME)
                .map(|array| arrow::util::display::array_value_to_string(&array, 0).unwrap())
        };
        assert_eq!(of("n", DataType::Int64, false), Ok("-7".into()));
        assert_eq!(of("dt", DataType::Date32, true), Ok("2024-02-03".into()));
        assert_eq!(of("dt", DataType::Utf8View, true), Ok("2024-02-03".into()));
        assert_eq!(of("s", DataType::Utf8View, true), Ok(String::new()));
        assert_eq!(of("dt", DataType::Int32, true), Err("is in the partition dt=2024-02-03, which is no INT".into()));
        assert_eq!(
            of("s", DataType::Utf8View, false),
            Err("is in the partition of rows whose s is NULL, and s is declared NOT NULL".into())
        );
        assert_eq!(
            of("x", DataType::Utf8View, true),
            Err("is in no directory x=…, and the table is PARTITIONED BY x".into())
        );
    }
}
