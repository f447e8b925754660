//! What `SHOW OPERATORS` shows: what each operator of the running queries costs, and what waits in front of it.

use pelton_runtime::progress::{OperatorProgress, Progress, time_with_unit};

use crate::waiting::query_name;

/// Names of the columns.
pub(crate) const COLUMNS: [&str; 11] = [
    "query",
    "operator",
    "rows in",
    "rows out",
    "selectivity",
    "ns a row",
    "busy ms",
    "rows waiting",
    "bytes waiting",
    "state bytes",
    "ran before",
];

/// Those that a user looks for first.
pub(crate) const NARROW: [(&str, usize); 6] =
    [("query", 15), ("operator", 30), ("rows in", 10), ("rows out", 10), ("busy ms", 10), ("rows waiting", 12)];

/// One row for each operator of a query, which is the session's query `number`: sources, pipelines, windows, functions OVER rows, outputs. Selectivity and cost
/// are those by which the scheduler decides, and empty before they have been measured; how long ago it ran last is empty before it has run.
pub(crate) fn rows(number: usize, progress: &Progress) -> Vec<Vec<String>> {
    let query = query_name(number, progress.sinks.iter().map(|sink| sink.name.as_str()));
    let number = |number: Option<f64>| number.map_or_else(String::new, |number| format!("{number:.3}"));
    let row = |operator: &OperatorProgress| {
        vec![
            query.clone(),
            operator.name.clone(),
            operator.rows_in.to_string(),
            operator.rows_out.to_string(),
            number(operator.selectivity),
            number(operator.nanos_per_row),
            format!("{:.3}", operator.busy.as_secs_f64() * 1e3),
            operator.rows_waiting.to_string(),
            operator.bytes_waiting.to_string(),
            operator.state_bytes.to_string(),
            operator.ran.map_or_else(String::new, |ago| time_with_unit(ago.as_micros() as u64)),
        ]
    };
    progress.operators.iter().map(row).collect()
}
