//! How values look as text, wherever people or tests read them.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use arrow::temporal_conversions::timestamp_us_to_datetime;
use arrow::util::display::FormatOptions;
pub use pelton_data::column::sql_name;

/// The names of two types, to tell them apart: SQL's, or Arrow's in quotes where these are the same.
pub(crate) fn type_names(one: &DataType, other: &DataType) -> [String; 2] {
    let types = [one, other];
    match one != other && sql_name(one) == sql_name(other) {
        true => types.map(|data_type| format!("'{data_type}'")),
        false => types.map(sql_name),
    }
}

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

/// An instant, given in microseconds since 1970, as text in UTC with the fractional digits that it needs.
pub fn instant(micros: i64) -> String {
    let format = if micros % 1_000_000 == 0 { "%Y-%m-%d %H:%M:%S" } else { "%Y-%m-%d %H:%M:%S%.3f" };
    timestamp_us_to_datetime(micros).map_or_else(|| micros.to_string(), |time| time.format(format).to_string())
}

/// Columns of a table that fits a terminal, those first that a user looks for first, and how many characters of each are shown at most.
pub(crate) type Narrow = [(&'static str, usize)];

/// Characters that such a table has at most.
#[cfg(test)]
const NARROW_MAX: usize = 100;

/// Rows of text: all columns where all is asked for, else the narrow ones. Text that is longer than its column is cut; numbers are not.
pub(crate) fn shown_rows(
    (columns, narrow): (&[&str], &Narrow),
    rows: impl Iterator<Item = Vec<String>>,
    is_verbose: bool,
) -> RecordBatch {
    if is_verbose {
        return text_rows(columns, rows);
    }
    let place = |name: &str| columns.iter().position(|column| *column == name).expect("a narrow column is a column");
    let chosen = |row: Vec<String>| narrow.iter().map(|(name, most)| cut(&row[place(name)], *most)).collect();
    text_rows(&narrow.iter().map(|(name, _)| *name).collect::<Vec<_>>(), rows.map(chosen))
}

/// A text of at most so many characters.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most || text.parse::<f64>().is_ok() {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
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

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;

    use super::*;

    #[test]
    fn types_of_one_name_are_told_apart() {
        assert_eq!(type_names(&DataType::Int64, &DataType::Utf8), ["BIGINT", "STRING"]);
        assert_eq!(type_names(&DataType::Utf8, &DataType::Utf8View), ["'Utf8'", "'Utf8View'"]);
        assert_eq!(type_names(&DataType::Utf8, &DataType::Utf8), ["STRING", "STRING"]);
    }

    #[test]
    fn narrow_tables_fit_a_terminal() {
        for narrow in [&crate::running::NARROW[..], &crate::waiting::NARROW, &crate::operators::NARROW] {
            let widths = narrow.iter().map(|(name, most)| name.len().max(*most));
            let width = widths.sum::<usize>() + 2 * (narrow.len() - 1);
            assert!(width <= NARROW_MAX, "{narrow:?} is {width} wide");
        }
    }

    #[test]
    fn text_is_cut_and_numbers_are_not() {
        let row = || std::iter::once(vec!["a long name".to_owned(), "123456789".to_owned(), "beside".to_owned()]);
        let columns = ["text", "number", "other"];
        let narrow = shown_rows((&columns, &[("number", 4), ("text", 6)]), row(), false);
        let value = |column: usize| narrow.column(column).as_string_view().value(0).to_owned();
        assert_eq!((value(0), value(1), narrow.num_columns()), ("123456789".to_owned(), "a lon…".to_owned(), 2));
        assert_eq!(shown_rows((&columns, &[("text", 6)]), row(), true).num_columns(), 3);
    }
}
