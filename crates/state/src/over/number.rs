//! Calls that need no values: rows and times are counted.

use pelton_data::over::OverFunction;

use super::frame::{Bounds, Moves};
use super::value::Results;

/// Results of a call that counts rows.
pub(super) fn count_rows(function: &OverFunction, bounds: &Bounds, results: &mut Results) {
    let mut rows = 0;
    for step in bounds.steps() {
        rows += step.rows;
        match (function, step.moves) {
            // The last of the rows of one time is the last of their frame.
            (OverFunction::RowNumber, Moves::Nothing) => {
                results.integers().extend((0..step.rows as u64).rev().map(|behind| (step.end - behind) as i64));
            }
            // Rows of one time, all of which are in this run, have the number of the first.
            (OverFunction::Rank { .. }, _) => {
                let first = step.end - step.rows as u64 + 1;
                results.integers().extend(std::iter::repeat_n(first as i64, step.rows));
            }
            (OverFunction::RowNumber, _) => results.integers().extend(step.ends().map(|end| end as i64)),
            (_, _) => results.integers().extend(step.lengths().map(|length| length as i64)),
        }
    }
    results.append_valid(rows);
}

/// Results of a call that numbers the times of rows, of which there were `times` before.
pub(super) fn number_times(times: &mut u64, bounds: &Bounds, results: &mut Results) {
    let mut rows = 0;
    for step in bounds.steps() {
        *times += 1;
        rows += step.rows;
        results.integers().extend(std::iter::repeat_n(*times as i64, step.rows));
    }
    results.append_valid(rows);
}
