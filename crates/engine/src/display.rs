//! How values look as text, wherever people or tests read them.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, ListArray, MapArray, RecordBatch, StringViewArray, StructArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema, TimeUnit};
use arrow::error::ArrowError;
use arrow::temporal_conversions::timestamp_us_to_datetime;
use arrow::util::display::{ArrayFormatter, FormatOptions};
pub use pelton_data::column::sql_name;
pub use pelton_data::zone::Zone;

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

/// The rows with texts in place of timestamps, in columns and in parts of nested values alike. Instants (`TIMESTAMP_LTZ`) are shown by the clocks of `zone`.
///
/// # Errors
/// Where Arrow has no text for a type.
pub fn with_times_as_text(rows: &RecordBatch, zone: Zone) -> Result<RecordBatch, ArrowError> {
    if !rows.schema_ref().fields().iter().any(|field| has_timestamps(field.data_type())) {
        return Ok(rows.clone());
    }
    let columns = rows.columns().iter().map(|column| times_as_text(column, zone)).collect::<Result<Vec<_>, _>>()?;
    let fields: Vec<FieldRef> =
        rows.schema_ref().fields().iter().zip(&columns).map(|(field, column)| retyped(field, column)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

fn has_timestamps(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => fields.iter().any(|field| has_timestamps(field.data_type())),
        DataType::List(part) | DataType::Map(part, _) => has_timestamps(part.data_type()),
        other => matches!(other, DataType::Timestamp(..)),
    }
}

/// The field of values that have another type now.
fn retyped(field: &Field, values: &ArrayRef) -> FieldRef {
    Arc::new(field.clone().with_data_type(values.data_type().clone()))
}

fn times_as_text(values: &ArrayRef, zone: Zone) -> Result<ArrayRef, ArrowError> {
    Ok(match values.data_type() {
        nested if nested.is_nested() && !has_timestamps(nested) => values.clone(),
        DataType::Struct(fields) => {
            let rows = values.as_struct();
            let parts = rows.columns().iter().map(|part| times_as_text(part, zone)).collect::<Result<Vec<_>, _>>()?;
            let fields: Vec<FieldRef> = fields.iter().zip(&parts).map(|(field, part)| retyped(field, part)).collect();
            Arc::new(StructArray::try_new(fields.into(), parts, rows.nulls().cloned())?)
        }
        DataType::List(field) => {
            let lists = values.as_list::<i32>();
            let items = times_as_text(lists.values(), zone)?;
            let field = retyped(field, &items);
            Arc::new(ListArray::try_new(field, lists.offsets().clone(), items, lists.nulls().cloned())?)
        }
        DataType::Map(field, is_sorted) => {
            let maps = values.as_map();
            let entries = times_as_text(&(Arc::new(maps.entries().clone()) as ArrayRef), zone)?;
            let (field, entries) = (retyped(field, &entries), entries.as_struct().clone());
            Arc::new(MapArray::try_new(field, maps.offsets().clone(), entries, maps.nulls().cloned(), *is_sorted)?)
        }
        DataType::Timestamp(unit, is_instant) => {
            let clocks = if is_instant.is_some() { clocks(values, *unit, zone)? } else { values.clone() };
            let formatter = ArrayFormatter::try_new(&clocks, &format_options(clocks.data_type()))?;
            let text = |row: usize| clocks.is_valid(row).then(|| formatter.value(row).to_string());
            Arc::new(StringViewArray::from_iter((0..clocks.len()).map(text)))
        }
        _ => values.clone(),
    })
}

/// What the clocks of a zone show at instants.
fn clocks(instants: &ArrayRef, unit: TimeUnit, zone: Zone) -> Result<ArrayRef, ArrowError> {
    let ticks_per_second = match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    let shown = |ticks: i64| {
        let instant = ticks.div_euclid(ticks_per_second).saturating_mul(1_000_000);
        let ahead_seconds = (zone.clock(instant).saturating_sub(instant)) / 1_000_000;
        ticks.saturating_add(ahead_seconds * ticks_per_second)
    };
    let ticks = cast(instants, &DataType::Int64)?;
    let shown: Int64Array = ticks.as_primitive::<Int64Type>().unary(shown);
    cast(&shown, &DataType::Timestamp(unit, None))
}

/// An instant, given in microseconds since 1970, as text in UTC with the fractional digits that it needs.
pub fn instant(micros: i64) -> String {
    let format = if micros % 1_000_000 == 0 { "%Y-%m-%d %H:%M:%S" } else { "%Y-%m-%d %H:%M:%S%.3f" };
    timestamp_us_to_datetime(micros).map_or_else(|| micros.to_string(), |time| time.format(format).to_string())
}

/// Columns of a table that fits a terminal, those first that a user looks for first, and how many characters of each are shown at most.
pub(crate) type Narrow = [(&'static str, usize)];

/// Characters that such a table has at most.
/// The column of what `EXPLAIN` says.
pub(crate) const PLAN_COLUMN: &str = "plan";

/// What `EXPLAIN` says, line by line.
pub(crate) fn plan_rows(text: &str) -> RecordBatch {
    text_rows(&[PLAN_COLUMN], text.lines().map(|line| vec![line.to_owned()]))
}

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
    fn instants_are_shown_by_the_clocks_of_a_zone() {
        let instant = |ticks: i64, unit: TimeUnit| {
            let instants = DataType::Timestamp(unit, Some("+00:00".into()));
            let rows = RecordBatch::try_from_iter([("t", cast(&Int64Array::from(vec![ticks]), &instants).unwrap())]);
            let shown = with_times_as_text(&rows.unwrap(), Zone::named("Europe/Berlin").unwrap()).unwrap();
            shown.column(0).as_string_view().value(0).to_owned()
        };
        assert_eq!(instant(0, TimeUnit::Second), "1970-01-01 01:00:00");
        // Summer, and a fraction before 1970.
        assert_eq!(instant(1_720_000_000_123, TimeUnit::Millisecond), "2024-07-03 11:46:40.123");
        assert_eq!(instant(-1, TimeUnit::Microsecond), "1970-01-01 00:59:59.999999");
        assert_eq!(instant(1, TimeUnit::Nanosecond), "1970-01-01 01:00:00.000000001");
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
