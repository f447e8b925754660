//! Many queries at once, under each policy: how many rows they get through together, and how long their results take.

use super::file::{Benchmark, Case};
use super::report::{Crowd, Figure};
use super::{Arguments, BenchError};
use pelton::{Outcome, Query, Session};
use pelton_runtime::policy::PolicyName;

/// What one run of all queries shows.
pub(super) struct Shown {
    pub rows_per_s: f64,
    pub median_ms: f64,
    pub p99_ms: f64,
    /// How long before its end the last of its rows was due, of the query that is furthest behind, where rows are due at all.
    pub behind_ms: f64,
    /// How long it took to choose a task,
    pub decision_ns: f64,
    /// and how long all that choosing took, of the time of tasks.
    pub deciding_share: f64,
}

/// The policies in turn, or the `policies` that a case names, with commas between. It says how many `queries` there are.
pub(super) fn measure(benchmark: &Benchmark, case: &Case, arguments: &Arguments) -> Result<Vec<Figure>, BenchError> {
    let crowd = |policy: PolicyName| (policy, Crowd::new(benchmark, case, policy.name(), arguments.workers));
    let wanted = case.parameters.get("policies");
    let is_wanted = |policy: &PolicyName| wanted.is_none_or(|names| names.split(',').any(|name| name == policy.name()));
    let mut crowds: Vec<(PolicyName, Crowd)> = PolicyName::all().filter(is_wanted).map(crowd).collect();
    for _ in 0..arguments.repeat.max(1) {
        for (policy, crowd) in &mut crowds {
            crowd.add(run(benchmark, case, arguments, *policy, "blocks")?);
        }
    }
    Ok(crowds.into_iter().map(|(_, crowd)| Figure::Crowd(crowd)).collect())
}

/// Whether rows of a case are due at a rate.
pub(super) fn is_paced(case: &Case) -> bool {
    case.parameters.get("pace").is_some_and(|pace| pace == "real-time")
}

/// Runs all queries of a case.
pub(super) fn run(
    benchmark: &Benchmark,
    case: &Case,
    arguments: &Arguments,
    policy: PolicyName,
    data_passing: &str,
) -> Result<Shown, BenchError> {
    let statements = benchmark.statements(case, arguments.seconds, "");
    let session = Session::new();
    session.set("pelton.workers", &arguments.workers.to_string())?;
    session.set("pelton.tier", "compile")?;
    session.set("pelton.policy", policy.name())?;
    session.set("pelton.data-passing", data_passing)?;
    for statement in session.prepare(&statements.setup)? {
        session.execute(&statement)?;
    }
    let count = case.number("queries").ok_or_else(|| BenchError::Input("a case needs queries=NUMBER".into()))?;
    let rate = case.number("rate").filter(|_| is_paced(case));
    let prepared = session.prepare(&statements.query)?;
    let statement = prepared.first().ok_or_else(|| BenchError::Input("the benchmark has no query".into()))?;
    let start = || match session.execute(statement)? {
        Outcome::Running(query) => Ok(query),
        _ => Err(BenchError::Input("the benchmark's query is none".into())),
    };
    let queries: Vec<Query> = (0..count).map(|_| start()).collect::<Result<_, BenchError>>()?;
    let (mut rows_per_s, mut behind_s, mut latency_ns) = (0.0, 0.0, None);
    let [mut decisions, mut deciding_ns, mut busy_ns] = [0.0; 3];
    for query in queries {
        let summary = query.wait()?;
        // The inserts of a statement set read tables of their own, which would be one source otherwise: they are told by what is behind the name.
        let read = summary.sources.iter().filter(|source| source.name.starts_with(&benchmark.table));
        let rows: u64 = read.map(|source| source.rows).sum();
        rows_per_s += rows as f64 / summary.elapsed.as_secs_f64();
        if let Some(rate) = rate {
            behind_s = f64::max(behind_s, summary.elapsed.as_secs_f64() - rows as f64 / rate as f64);
        }
        decisions += summary.load.decisions as f64;
        deciding_ns += summary.load.deciding.as_nanos() as f64;
        busy_ns += summary.load.busy.as_nanos() as f64;
        let own = summary.latency().processing_ns;
        match &mut latency_ns {
            None => latency_ns = Some(own),
            Some(all) => all.add(own).map_err(|error| BenchError::Input(error.to_string()))?,
        }
    }
    let latency_ns = latency_ns.ok_or_else(|| BenchError::Input("a case needs queries=NUMBER, from 1 on".into()))?;
    let quantile_ms = |quantile: f64| latency_ns.value_at_quantile(quantile) as f64 / 1e6;
    Ok(Shown {
        rows_per_s,
        median_ms: quantile_ms(0.5),
        p99_ms: quantile_ms(0.99),
        behind_ms: behind_s * 1e3,
        decision_ns: deciding_ns / decisions,
        deciding_share: deciding_ns / busy_ns,
    })
}
