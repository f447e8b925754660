//! Columns that no row has and that are NULL in all of them: mostly their names are misspelt.

use std::collections::BTreeSet;

use pelton::progress::{Progress, SourceProgress};

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
        let sources = progress.sources.iter().enumerate();
        for (index, source) in sources.filter(|(_, source)| source.left_out.absent.rows >= rows_min) {
            for column in &source.left_out.absent.columns {
                if self.told.insert((index, column.name.clone())) {
                    lines.push(warning(source, &column.name, &column.hint, which));
                }
            }
        }
        lines
    }
}

fn warning(source: &SourceProgress, column: &str, hint: &str, which: &str) -> String {
    let absent = &source.left_out.absent;
    let others = if absent.has_other_places { " and others" } else { "" };
    let hint = if hint.is_empty() { String::new() } else { format!("; {hint}") };
    let rows = match absent.rows {
        1 => "is not in the only row".to_owned(),
        rows => format!("is in none of {which}{} rows", count(rows)),
    };
    format!("warning: {}: column '{column}' {rows} of {}{others}, and is NULL{hint}", source.name, absent.place)
}
