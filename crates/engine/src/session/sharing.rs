//! `SHOW SHARING`: which queries read tables together.

use std::time::Duration;

use arrow::array::RecordBatch;
use pelton_runtime::exchange::{GroupState, SubscriberState};
use pelton_runtime::run::RunHandle;
use pelton_runtime::wake::Waker;

use super::Session;
use crate::display::text_rows;
use crate::shared_joins::JoinState;

const COLUMNS: [&str; 8] =
    ["table", "readers", "query", "columns", "chunks waiting", "partial results", "busy ms", "state bytes"];

/// What is computed for a group of queries, in words.
pub(crate) fn partial_results(group: &GroupState) -> String {
    let GroupState { number, members, predicates, values, slice } = *group;
    let some = |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    let (predicates, values) = (some(predicates, "predicate"), some(values, "value"));
    let members = if members == 1 { "1 query".to_owned() } else { format!("{members} queries") };
    let slice_ms = slice as f64 / 1e3;
    format!("group {number} of {members}: {predicates}, {values}, slices of {slice_ms} ms")
}

/// What a run takes.
#[derive(Clone, Copy, Default)]
struct Usage {
    busy: Duration,
    state_bytes: u64,
}

impl Usage {
    fn of(run: &RunHandle) -> Usage {
        let load = run.progress().load;
        Usage { busy: load.busy, state_bytes: load.state_bytes }
    }

    fn add(&mut self, more: Usage) {
        self.busy += more.busy;
        self.state_bytes += more.state_bytes;
    }
}

/// What the queries of an engine take, and the joins that run for several of them.
struct Usages {
    runs: Vec<(RunHandle, Usage)>,
    joins: Vec<(JoinState, Usage)>,
}

impl Usages {
    fn new(runs: Vec<RunHandle>, joins: Vec<JoinState>) -> Usages {
        let runs = runs.into_iter().map(|run| (run.clone(), Usage::of(&run))).collect();
        let joins = joins.into_iter().map(|join| {
            let usage = Usage::of(&join.run);
            (join, usage)
        });
        Usages { runs, joins: joins.collect() }
    }

    /// What a run takes with its share of each join that it reads the pairs of: of those who read them each has the same.
    fn of(&self, waker: &Waker) -> Usage {
        let mut usage = Usage::default();
        let all = self.runs.iter().map(|(run, usage)| (run, usage));
        let all = all.chain(self.joins.iter().map(|(join, usage)| (&join.run, usage)));
        all.filter(|(run, _)| run.is_woken_by(waker)).for_each(|(_, own)| usage.add(*own));
        for (join, of_join) in &self.joins {
            let readers = join.subscribers.len().max(1);
            for _ in join.subscribers.iter().filter(|reader| reader.waker == *waker) {
                let (busy, state_bytes) = (of_join.busy / readers as u32, of_join.state_bytes / readers as u64);
                usage.add(Usage { busy, state_bytes });
            }
        }
        usage
    }
}

impl Session {
    /// One row for each query that reads a table with others, or may.
    pub(super) fn show_sharing(&self) -> RecordBatch {
        let (runs, shared_sources) = {
            let engine = self.engine();
            let known = engine.known();
            (known.running_queries(None), known.shared_sources.clone())
        };
        let usages = Usages::new(runs, shared_sources.joins.states());
        let mut tables = shared_sources.subscribers();
        let pairs = usages.joins.iter().map(|(join, _)| (join.name.clone(), join.subscribers.clone()));
        tables.extend(pairs);
        tables.extend(self.snapshot().program_tables.subscribers().map(|(name, queries)| (name.to_owned(), queries)));
        tables.sort_by(|(one, _), (other, _)| one.cmp(other));
        let rows = tables.iter().flat_map(|(table, queries)| {
            queries.iter().map(|query| {
                let SubscriberState { name, columns, chunks_waiting, group, waker } = query;
                let [readers, columns, waiting] =
                    [queries.len(), *columns, *chunks_waiting].map(|number| number.to_string());
                let partial_results = group.as_ref().map(partial_results).unwrap_or_default();
                let Usage { busy, state_bytes } = usages.of(waker);
                let (busy_ms, state_bytes) = (format!("{:.1}", busy.as_secs_f64() * 1e3), state_bytes.to_string());
                vec![table.clone(), readers, name.clone(), columns, waiting, partial_results, busy_ms, state_bytes]
            })
        });
        text_rows(&COLUMNS, rows)
    }
}
