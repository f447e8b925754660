//! Casts to texts.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, StringViewBuilder};
use arrow::datatypes::{
    DataType, DurationMicrosecondType, Float32Type, Float64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use arrow::error::ArrowError;
use pelton_data::float_text::{write_double, write_float};

use super::of_type;

/// Truth in capitals, numbers as Java writes them.
pub(super) fn texts(values: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let mut texts = StringViewBuilder::with_capacity(values.len());
    let mut text = String::new();
    if matches!(values.data_type(), DataType::Interval(_) | DataType::Duration(_)) {
        return intervals(values);
    }
    let plain = of_type(values, &DataType::Float64)?;
    for row in 0..values.len() {
        if values.is_null(row) {
            texts.append_null();
            continue;
        }
        text.clear();
        match values.data_type() {
            DataType::Boolean => text.push_str(if values.as_boolean().value(row) { "TRUE" } else { "FALSE" }),
            DataType::Float32 => write_float(values.as_primitive::<Float32Type>().value(row), &mut text),
            _ => write_double(plain.as_primitive::<Float64Type>().value(row), &mut text),
        }
        texts.append_value(&text);
    }
    Ok(Arc::new(texts.finish()))
}

/// Lengths of time as `+1-02` of years and months, and as `+1 02:03:04.567` of days and what is shorter.
fn intervals(values: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let texts: StringViewArray = match values.data_type() {
        DataType::Duration(_) => {
            let micros = of_type(values, &DataType::Duration(TimeUnit::Microsecond))?;
            let micros = micros.as_primitive::<DurationMicrosecondType>();
            micros.iter().map(|micros| Some(days_to_seconds(i128::from(micros?) / 1_000))).collect()
        }
        _ => {
            let lengths = of_type(values, &DataType::Interval(IntervalUnit::MonthDayNano))?;
            let lengths = lengths.as_primitive::<IntervalMonthDayNanoType>();
            let written = lengths.iter().map(|length| {
                let length = length?;
                if length.months != 0 {
                    let (sign, months) = (if length.months < 0 { '-' } else { '+' }, length.months.unsigned_abs());
                    return Some(format!("{sign}{}-{:02}", months / 12, months % 12));
                }
                let millis =
                    i128::from(length.days) * MILLISECONDS_PER_DAY + i128::from(length.nanoseconds) / 1_000_000;
                Some(days_to_seconds(millis))
            });
            written.collect()
        }
    };
    Ok(Arc::new(texts))
}

const MILLISECONDS_PER_DAY: i128 = 86_400_000;

fn days_to_seconds(millis: i128) -> String {
    let (sign, millis) = (if millis < 0 { '-' } else { '+' }, millis.abs());
    let (days, rest) = (millis / MILLISECONDS_PER_DAY, millis % MILLISECONDS_PER_DAY);
    let (hours, minutes, seconds) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1_000 % 60);
    format!("{sign}{days} {hours:02}:{minutes:02}:{seconds:02}.{:03}", rest % 1_000)
}
