//! What `SHOW QUERIES` shows: how running queries fare, and what slows them down.

use pelton_runtime::progress::{Progress, SourceProgress, time_with_unit};
use pelton_runtime::source::LeftOut;

use crate::waiting::query_name;

/// Names of the columns.
pub(crate) const COLUMNS: [&str; 20] = [
    "query",
    "rows/s in",
    "rows/s by source",
    "rows/s out",
    "cores",
    "rows waiting",
    "bytes waiting",
    "state bytes",
    "p50 ms",
    "p99 ms",
    "p99.9 ms",
    "event time p50",
    "event time p99",
    "event time p99.9",
    "ns a decision",
    "deciding %",
    "ns waiting for it",
    "ns waking others",
    "left out",
    "held back by",
];

/// Those that a user looks for first.
pub(crate) const NARROW: [(&str, usize); 8] = [
    ("query", 18),
    ("rows/s in", 9),
    ("rows/s out", 9),
    ("p50 ms", 8),
    ("p99 ms", 8),
    ("rows waiting", 9),
    ("left out", 8),
    ("held back by", 12),
];

/// One row for the session's query `number`. Latencies are from reading the last input that a result needed to writing the result, in the last ten
/// to twenty seconds, or, where there were no results, those of one block in 50 ms until the output would have had its rows; by event time they are from the
/// newest event time of the rows, or the end of the window. Decisions are to give a worker something to do for it, and how long these take is a share of the time that workers
/// spend on it in all; how long workers waited for each other before each, and took to wake
/// each other behind it, is told apart.
pub(crate) fn row(number: usize, progress: &Progress) -> Vec<String> {
    let load = &progress.load;
    let latency = progress.recent_latency();
    let latency_ns = &latency.processing_ns;
    let mut row = vec![
        query_name(number, progress.sinks.iter().map(|sink| sink.name.as_str())),
        format!("{:.0}", load.rows_in_per_s),
        rates_by_source(progress),
        format!("{:.0}", load.rows_out_per_s),
        format!("{:.3}", load.busy_cores),
        load.rows_waiting.to_string(),
        load.bytes_waiting.to_string(),
        load.state_bytes.to_string(),
    ];
    row.extend([0.5, 0.99, 0.999].map(|quantile| match latency_ns.is_empty() {
        true => String::new(),
        false => format!("{:.3}", latency_ns.value_at_quantile(quantile) as f64 / 1e6),
    }));
    let event_time_us = &latency.event_time_us;
    row.extend([0.5, 0.99, 0.999].map(|quantile| match event_time_us.is_empty() {
        true => String::new(),
        false => time_with_unit(event_time_us.value_at_quantile(quantile)),
    }));
    let [deciding_ns, busy_ns] = [load.deciding, load.busy].map(|time| time.as_nanos() as f64);
    row.push(format!("{:.0}", deciding_ns / load.decisions.max(1) as f64));
    row.push(format!("{:.3}", deciding_percent(deciding_ns, busy_ns)));
    let others_ns = [load.waiting, load.waking].map(|time| time.as_nanos() as f64);
    row.extend(others_ns.map(|ns| format!("{:.0}", ns / load.decisions.max(1) as f64)));
    row.push(left_out(progress));
    row.push(load.held_back_by.clone().unwrap_or_default());
    row
}

/// What of each source is not among its rows: rows that were dropped or rejected, and values that are NULL because they could not be read.
fn left_out(progress: &Progress) -> String {
    let of_source = |source: &SourceProgress| {
        let LeftOut { dropped_count, rejected, nulled, absent: _, merged_count: _ } = &source.left_out;
        let counts = [(*dropped_count, "dropped"), (rejected.count, "rejected"), (nulled.count, "made NULL")];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let counts = counts.collect::<Vec<_>>().join(" and ");
        (!counts.is_empty()).then(|| format!("{} {counts}", source.name))
    };
    progress.sources.iter().filter_map(of_source).collect::<Vec<_>>().join(", ")
}

/// Of each source what it delivers, where there are several.
fn rates_by_source(progress: &Progress) -> String {
    let rates = progress.sources.iter().map(|source| format!("{} {:.0}", source.name, source.rows_per_s));
    if progress.sources.len() > 1 { rates.collect::<Vec<_>>().join(", ") } else { String::new() }
}

/// Of a query that has next to nothing to do deciding may take longer than doing it.
fn deciding_percent(deciding_ns: f64, busy_ns: f64) -> f64 {
    deciding_ns / (deciding_ns + busy_ns).max(1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deciding_is_a_part_of_all_time() {
        assert_eq!((deciding_percent(300.0, 100.0), deciding_percent(0.0, 0.0)), (75.0, 0.0));
    }
}
