//! Columns, and fields of ROWs, that no row has and that are NULL in all of them: mostly their names are misspelt.

use std::collections::BTreeSet;

use pelton::progress::{AbsentColumn, Progress, SourceProgress};

use crate::print::count;

/// With fewer rows a column may still come.
const EARLY_ROWS_MIN: u64 = 1_000;

/// Says of each column once that no row has it: as soon as there are many rows, or at the end.
#[derive(Default)]
pub struct AbsenceWarning {
    /// Of which source, and which column.
    told: BTreeSet<(usize, String)>,
}

impl AbsenceWarning {
    /// What is to be said while a query runs, in lines.
    pub fn look_at(&mut self, progress: &Progress) -> Vec<String> {
        self.warnings(progress, EARLY_ROWS_MIN, "the first ")
    }

    /// What is to be said at its end and has not been said.
    pub fn at_the_end(&mut self, progress: &Progress) -> Vec<String> {
        self.warnings(progress, 1, "")
    }

    fn warnings(&mut self, progress: &Progress, rows_min: u64, which: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for (index, source) in progress.sources.iter().enumerate() {
            for column in source.left_out.absent_columns.iter().filter(|column| column.rows >= rows_min) {
                if self.told.insert((index, column.name.clone())) {
                    let (kind, unit) = if column.is_field { ("field", "object") } else { ("column", "row") };
                    let rows = match column.rows {
                        1 => format!("is not in the only {unit}"),
                        rows => format!("is in none of {which}{} {unit}s", count(rows)),
                    };
                    lines.push(warning(source, column, &format!("{kind} '{}' {rows}", column.name)));
                }
            }
        }
        lines
    }
}

fn warning(source: &SourceProgress, column: &AbsentColumn, absence: &str) -> String {
    let others = if column.has_other_inputs { " and others" } else { "" };
    let hint = if column.hint.is_empty() { String::new() } else { format!("; {}", column.hint) };
    format!("warning: {}: {absence} of {}{others}, and is NULL{hint}", source.name, column.input)
}
