//! `GENERATE_SERIES(start, end [, step])`: the integers from `start` to `end`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use pelton_data::allowance::Allowance;
use pelton_data::column::sql_name;
use pelton_data::table_function::{OutputRows, TableFunction, TableFunctionError};

/// The name of the function.
const NAME: &str = "GENERATE_SERIES";

/// Bytes of an output row: its input row and its value.
const ROW_BYTES: u128 = 12;

#[derive(Debug)]
pub(super) struct GenerateSeries;

/// How many integers there are from `start` to `end`, both of which count. No more than a step apart they are one.
fn length(start: i64, end: i64, step: i64) -> u128 {
    let (distance, step) = (i128::from(end) - i128::from(start), i128::from(step));
    if distance != 0 && (distance < 0) != (step < 0) { 0 } else { (distance / step) as u128 + 1 }
}

impl TableFunction for GenerateSeries {
    fn name(&self) -> &str {
        NAME
    }

    fn argument_types(&self, given: &[DataType]) -> Result<Vec<DataType>, TableFunctionError> {
        let hint = "write GENERATE_SERIES(start, end) or GENERATE_SERIES(start, end, step), with integers".to_string();
        if !matches!(given.len(), 2 | 3) {
            let message = format!("{NAME} takes two or three arguments, not {}", given.len());
            return Err(TableFunctionError { message, argument: None, hint });
        }
        match given.iter().position(|argument| !argument.is_integer() && !argument.is_null()) {
            None => Ok(vec![DataType::Int64; given.len()]),
            Some(argument) => {
                let message = format!("{NAME} takes integers, and this is of type {}", sql_name(&given[argument]));
                Err(TableFunctionError { message, argument: Some(argument), hint })
            }
        }
    }

    fn columns(&self, _arguments: &[FieldRef]) -> Result<Vec<FieldRef>, TableFunctionError> {
        Ok(vec![Arc::new(Field::new("value", DataType::Int64, false))])
    }

    /// A row with a NULL among its arguments has no output rows.
    fn call(&self, arguments: &[ArrayRef], rows: usize, wanted: &[usize]) -> Result<OutputRows, String> {
        let columns: Vec<&Int64Array> = arguments.iter().map(|argument| argument.as_primitive::<Int64Type>()).collect();
        let series = |row: usize| {
            let are_valid = columns.iter().all(|column| column.is_valid(row));
            let step = columns.get(2).map_or(1, |steps| steps.value(row));
            are_valid.then(|| (columns[0].value(row), columns[1].value(row), step))
        };
        let mut count = 0_u128;
        for (start, end, step) in (0..rows).filter_map(series) {
            if step == 0 {
                return Err("the step is 0; it must be another integer".to_string());
            }
            count += length(start, end, step);
        }
        let bytes = usize::try_from(count * ROW_BYTES).unwrap_or(usize::MAX);
        if let Some(refusal) = Allowance::get().refusal(bytes) {
            return Err(format!("it {refusal}"));
        }
        let (mut input_rows, mut values) = (Vec::with_capacity(count as usize), Vec::with_capacity(count as usize));
        for row in 0..rows {
            let Some((start, end, step)) = series(row) else { continue };
            let length = length(start, end, step) as usize;
            input_rows.extend(std::iter::repeat_n(row as u32, length));
            values.extend((0..length as i64).map(|index| start.wrapping_add(index.wrapping_mul(step))));
        }
        let values: ArrayRef = Arc::new(Int64Array::from(values));
        Ok(OutputRows { input_rows, columns: wanted.iter().map(|_| values.clone()).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(start: i64, end: i64, step: i64) -> Result<Vec<i64>, String> {
        let arguments = [start, end, step].map(|number| Arc::new(Int64Array::from(vec![number])) as ArrayRef);
        let made = GenerateSeries.call(&arguments, 1, &[0])?;
        assert_eq!(made.input_rows, vec![0; made.columns[0].len()]);
        Ok(made.columns[0].as_primitive::<Int64Type>().values().to_vec())
    }

    #[test]
    fn a_series_ends_at_its_end_or_before() {
        assert_eq!(of(1, 3, 1), Ok(vec![1, 2, 3]));
        assert_eq!(of(1, 6, 2), Ok(vec![1, 3, 5]));
        assert_eq!(of(3, 1, -1), Ok(vec![3, 2, 1]));
        assert_eq!(of(5, 5, -7), Ok(vec![5]));
        assert_eq!(of(1, 3, -1), Ok(vec![]));
        assert_eq!(of(3, 1, 1), Ok(vec![]));
        assert_eq!(of(i64::MAX - 1, i64::MAX, 1), Ok(vec![i64::MAX - 1, i64::MAX]));
        assert_eq!(of(i64::MIN, i64::MAX, i64::MAX), Ok(vec![i64::MIN, -1, i64::MAX - 1]));
        assert!(of(1, 2, 0).is_err_and(|error| error.contains("step is 0")));
        assert!(of(i64::MIN, i64::MAX, 1).is_err_and(|error| error.contains("more than the limit")));
    }
}
