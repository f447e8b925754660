//! `SHOW SHARING`: which queries read tables together.

use arrow::array::RecordBatch;
use pelton_runtime::exchange::GroupState;

use super::Session;
use crate::display::text_rows;

const COLUMNS: [&str; 6] = ["table", "readers", "query", "columns", "chunks waiting", "partial results"];

/// What is computed for a group of queries, in words.
pub(crate) fn partial_results(group: &GroupState) -> String {
    let GroupState { number, members, predicates, values, slice } = *group;
    let some = |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    let (predicates, values) = (some(predicates, "predicate"), some(values, "value"));
    let members = if members == 1 { "1 query".to_owned() } else { format!("{members} queries") };
    let slice_ms = slice as f64 / 1e3;
    format!("group {number} of {members}: {predicates}, {values}, slices of {slice_ms} ms")
}

impl Session {
    /// One row for each query that reads a table with others, or may.
    pub(super) fn show_sharing(&self) -> RecordBatch {
        let shared_sources = self.engine().known().shared_sources.clone();
        let mut tables = shared_sources.subscribers();
        tables.extend(shared_sources.joins.subscribers());
        tables.extend(self.snapshot().program_tables.subscribers().map(|(name, queries)| (name.to_owned(), queries)));
        tables.sort_by(|(one, _), (other, _)| one.cmp(other));
        let rows = tables.iter().flat_map(|(table, queries)| {
            queries.iter().map(|query| {
                let [readers, columns, waiting] =
                    [queries.len(), query.columns, query.chunks_waiting].map(|number| number.to_string());
                let partial_results = query.group.as_ref().map(partial_results).unwrap_or_default();
                vec![table.clone(), readers, query.name.clone(), columns, waiting, partial_results]
            })
        });
        text_rows(&COLUMNS, rows)
    }
}
