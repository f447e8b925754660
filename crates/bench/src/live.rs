//! What it takes to add a query to running ones, to remove it, and to have many that nothing comes for.
//!
//! The queries of a case (`running`) are those of the benchmark, whose text is numbered (see `queries`). Others (`idle`) read the table `silent (v BIGINT NOT NULL)`, which gets no rows. Then one query
//! after the other is added and removed.

use std::time::{Duration, Instant};

use pelton::{Query, Session};

use super::file::{Benchmark, Case};
use super::queries::numbered;
use super::report::{Amount, Figure, Samples};
use super::resident::resident_bytes;
use super::{Arguments, BenchError};

/// Between the last query that is started and what is measured.
const BEFORE: Duration = Duration::from_secs(1);

/// How often a query is added and removed, for each second of a measurement.
const CHANGES_PER_SECOND: f64 = 50.0;

/// How long it takes from the text of a query until it is attached and until it has left, the memory of a query, and how long the choice of a task takes.
pub(super) fn measure(benchmark: &Benchmark, case: &Case, arguments: &Arguments) -> Result<Vec<Figure>, BenchError> {
    let statements = benchmark.statements(case, arguments.seconds, "");
    let session = Session::new();
    session.set("pelton.workers", &arguments.workers.to_string())?;
    for statement in session.prepare(&statements.setup)? {
        session.execute(&statement)?;
    }
    let silent = session.push_table("silent", "v BIGINT NOT NULL")?;
    let [running, idle] = ["running", "idle"].map(|name| case.number(name).unwrap_or(0));
    let process = std::process::id();
    let started = |count: usize, text: &dyn Fn(usize) -> String| -> Result<(Vec<Query>, f64), BenchError> {
        let before = resident_bytes(process).unwrap_or(0.0);
        let queries = (0..count).map(|number| Ok(session.sql(&text(number))?)).collect::<Result<_, BenchError>>()?;
        std::thread::sleep(BEFORE);
        Ok((queries, (resident_bytes(process).unwrap_or(0.0) - before) / count.max(1) as f64))
    };
    let of_idle = |number: usize| format!("INSERT INTO nowhere SELECT v, v FROM silent WHERE v > {number}");
    let (idle_queries, idle_bytes) = started(idle, &of_idle)?;
    let (running_queries, running_bytes) = started(running, &|number| numbered(&statements.query, number))?;
    let (mut added_ms, mut removed_ms) = (Samples::default(), Samples::default());
    let changes = (arguments.seconds * CHANGES_PER_SECOND).ceil() as usize;
    let looked = running_queries.first().map(Query::progress);
    for number in running..running + changes {
        let text = numbered(&statements.query, number);
        let began = Instant::now();
        let query = session.sql(&text)?;
        added_ms.0.push(began.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(Duration::from_secs_f64(0.5 / CHANGES_PER_SECOND));
        let began = Instant::now();
        query.control().abort();
        query.wait()?;
        removed_ms.0.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let decision_ns = running_queries.first().zip(looked).map(|(query, before)| {
        let (before, after) = (before.run().load.clone(), query.progress().run().load.clone());
        let decisions = (after.decisions - before.decisions).max(1) as f64;
        (after.deciding - before.deciding).as_nanos() as f64 / decisions
    });
    let amount = |what: &str, unit: &str, samples: Samples| {
        let (bench, case) = (benchmark.name.clone(), case.name.clone());
        let (what, unit, workers) = (what.to_owned(), unit.to_owned(), arguments.workers);
        Figure::Amount(Amount { bench, case, what, workers, unit, samples })
    };
    let p99 = |samples: &Samples| Samples(vec![samples.quantile(0.99)]);
    let mut figures = vec![
        amount("added p99", "ms", p99(&added_ms)),
        amount("added", "ms", added_ms),
        amount("removed p99", "ms", p99(&removed_ms)),
        amount("removed", "ms", removed_ms),
    ];
    let each = [("a running query", running, running_bytes), ("an idle query", idle, idle_bytes)];
    let each = each.into_iter().filter(|(_, count, _)| *count > 0);
    figures.extend(each.map(|(what, _, bytes)| amount(what, "kB", Samples(vec![bytes / 1e3]))));
    figures.extend(decision_ns.map(|ns| amount("a decision", "ns", Samples(vec![ns]))));
    running_queries.iter().chain(&idle_queries).for_each(|query| query.control().abort());
    drop(silent);
    Ok(figures)
}
