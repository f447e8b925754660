//! The columns that window functions add to their rows.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use pelton_data::window::Window;

/// Names of the columns that a window function adds, in their order.
pub(crate) const WINDOW_COLUMNS: [&str; 3] = ["window_start", "window_end", "window_time"];

/// The fields that a window function adds, in the order of [`WINDOW_COLUMNS`]. Windows that count rows have no time, and numbers of rows as bounds.
pub(crate) fn window_fields(window: &Window, time_type: &DataType) -> Vec<FieldRef> {
    let [start, end, time] = WINDOW_COLUMNS;
    if window.counts_rows() {
        return [start, end].map(|name| Arc::new(Field::new(name, DataType::Int64, false))).into();
    }
    let zone = match time_type {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    };
    let bound = DataType::Timestamp(TimeUnit::Millisecond, None);
    vec![
        Arc::new(Field::new(start, bound.clone(), false)),
        Arc::new(Field::new(end, bound, false)),
        Arc::new(Field::new(time, DataType::Timestamp(TimeUnit::Millisecond, zone), false)),
    ]
}

/// The field of the event time of results of windows. Of those that count rows only whoever groups the results by their windows once more reads it.
pub(crate) fn result_time_field(window: &Window) -> FieldRef {
    match window.counts_rows() {
        true => Arc::new(Field::new("last_row", DataType::Timestamp(TimeUnit::Microsecond, None), false)),
        false => window_fields(window, &DataType::Null).pop().expect("a window has bounds"),
    }
}

/// What to do about a name that windows of windows both have.
pub(crate) fn renaming_hint(name: &str) -> String {
    format!("give that of the inner windows another name: SELECT {name} AS inner_{name}")
}
