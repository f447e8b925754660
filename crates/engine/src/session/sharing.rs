//! `SHOW SHARING`: which queries read tables together.

use arrow::array::RecordBatch;

use super::Session;
use crate::display::text_rows;

const COLUMNS: [&str; 5] = ["table", "readers", "query", "columns", "chunks waiting"];

impl Session {
    /// One row for each query that reads a table with others, or may.
    pub(super) fn show_sharing(&self) -> RecordBatch {
        let shared_sources = self.engine().known().shared_sources.clone();
        let mut tables = shared_sources.subscribers();
        tables.extend(self.snapshot().program_tables.subscribers().map(|(name, queries)| (name.to_owned(), queries)));
        tables.sort_by(|(one, _), (other, _)| one.cmp(other));
        let rows = tables.iter().flat_map(|(table, queries)| {
            queries.iter().map(|query| {
                let [readers, columns, waiting] =
                    [queries.len(), query.columns, query.chunks_waiting].map(|number| number.to_string());
                vec![table.clone(), readers, query.name.clone(), columns, waiting]
            })
        });
        text_rows(&COLUMNS, rows)
    }
}
