//! Joins that keep the rows of a bounded table.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;

/// Passes the pairs of a join of a stream with a bounded table on, and when the stream has ended, the rows of the table that are in none.
#[derive(Debug, Clone)]
pub struct UnmatchedRows {
    /// `Program::lookups[i]`.
    pub table: usize,
    /// The table's column that each column is, as an index into its schema; NULL without one for rows that are in no pair.
    pub columns: Vec<Option<usize>>,
    /// The columns.
    pub schema: SchemaRef,
    /// The same, and last the number of the row of the table.
    pub rows_schema: SchemaRef,
}

impl UnmatchedRows {
    /// Leaves out columns. Returns those of its input that are kept.
    pub(crate) fn choose(&mut self, kept: &[usize]) -> Vec<usize> {
        let row = self.columns.len();
        let of_input: BTreeSet<usize> = kept.iter().copied().chain([row]).collect();
        let of_input: Vec<usize> = of_input.into_iter().collect();
        let project = |schema: &SchemaRef, kept: &[usize]| schema.project(kept).expect("kept columns are columns");
        self.columns = kept.iter().map(|column| self.columns[*column]).collect();
        self.schema = Arc::new(project(&self.schema, kept));
        self.rows_schema = Arc::new(project(&self.rows_schema, &of_input));
        of_input
    }
}
