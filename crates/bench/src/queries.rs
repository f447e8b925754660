//! Many queries at once, under each policy: how many rows they get through together, and how long their results take. Where a benchmark has queries of several
//! kinds, that of each kind.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pelton::progress::Progress;
use pelton::{Outcome, Prepared, Query, Session};
use pelton_runtime::policy::PolicyName;

use super::file::{Benchmark, Case, Comparison};
use super::plot::Picture;
use super::report::{Crowd, Figure, Samples, Wait};
use super::{Arguments, BenchError};

/// What is shown is of these shares of a run: queries start one after the other, and are compiled, before it, and end one after the other behind it.
const SHOWN_FROM: f64 = 0.25;
const SHOWN_UNTIL: f64 = 0.95;

/// The default policy once more, where all are measured: how much it differs from itself says what chance does.
const AGAIN: &str = "adaptive-again";

/// What one run of all queries of a kind shows.
pub(super) struct Shown {
    pub rows_per_s: f64,
    pub mean_ms: f64,
    pub median_ms: f64,
    pub p99_ms: f64,
    /// How long before its end the last of its rows was due, of the query that is furthest behind, where rows are due at all.
    pub behind_ms: f64,
    /// How long it took to choose a task,
    pub decision_ns: f64,
    /// and how long all that choosing took, of the time of tasks.
    pub deciding_share: f64,
    /// For how long a checkpoint kept anything from being read, at most.
    pub pause_ms: Option<f64>,
}

/// How the queries of a run are executed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side {
    pub policy: PolicyName,
    pub data_passing: &'static str,
    /// Whether they read tables together: then these have no end.
    pub sharing: Option<bool>,
    /// Whether they have a checkpoint each second.
    pub has_checkpoints: bool,
}

impl Default for Side {
    fn default() -> Side {
        Side { policy: PolicyName::default(), data_passing: "blocks", sharing: None, has_checkpoints: false }
    }
}

/// With a line `compare sharing` queries that read their tables together, against queries that read them alone: the tables have no end. With `compare checkpoints` queries
/// that have a checkpoint each second, against queries without. Else the policies in turn, or the `policies` that a case names, with commas between. It says how many `queries` there are.
pub(super) fn measure(benchmark: &Benchmark, case: &Case, arguments: &Arguments) -> Result<Vec<Figure>, BenchError> {
    let sides = match benchmark.compares {
        Some(Comparison::Sharing) => [("shared", true), ("alone", false)]
            .map(|(name, sharing)| (name, Side { sharing: Some(sharing), ..Side::default() }))
            .to_vec(),
        Some(Comparison::Checkpoints) => [("checkpoints", true), ("without", false)]
            .map(|(name, has_checkpoints)| (name, Side { has_checkpoints, ..Side::default() }))
            .to_vec(),
        None => policies(case),
    };
    let mut pauses_ms = Samples::default();
    let mut crowds: Vec<Vec<Crowd>> = sides.iter().map(|_| Vec::new()).collect();
    for repetition in 0..arguments.repeat.max(1) {
        for index in in_turn(sides.len(), repetition) {
            let ((name, side), crowds) = (sides[index], &mut crowds[index]);
            let shown = run(benchmark, case, arguments, side)?;
            pauses_ms.0.extend(shown.iter().filter_map(|(_, shown)| shown.pause_ms));
            if crowds.is_empty() {
                let crowd = |(kind, _): &(String, _)| Crowd::new(benchmark, case, kind, name, arguments.workers);
                crowds.extend(shown.iter().map(crowd));
            }
            crowds.iter_mut().zip(shown).for_each(|(crowd, (_, shown))| crowd.add(shown));
        }
    }
    if let (true, [one, other]) = (benchmark.compares.is_some(), &mut crowds[..]) {
        for (one, other) in one.iter_mut().zip(other) {
            one.ratio_to = Some((sides[1].0, one.rows_per_s.median() / other.rows_per_s.median()));
        }
    }
    let mut figures: Vec<Figure> = crowds.into_iter().flatten().map(Figure::Crowd).collect();
    if !pauses_ms.0.is_empty() {
        let (bench, case) = (benchmark.name.clone(), case.name.clone());
        let waited_for = "longest pause for a checkpoint".to_owned();
        figures.push(Figure::Wait(Wait { bench, case, waited_for, workers: arguments.workers, samples_ms: pauses_ms }));
    }
    Ok(figures)
}

/// The policies of a case, and the default one once more where these are all.
fn policies(case: &Case) -> Vec<(&'static str, Side)> {
    let wanted = case.parameters.get("policies");
    let is_wanted = |policy: &PolicyName| wanted.is_none_or(|names| names.split(',').any(|name| name == policy.name()));
    let mut policies: Vec<_> = PolicyName::all().filter(is_wanted).map(|policy| (policy.name(), policy)).collect();
    if wanted.is_none() {
        policies.push((AGAIN, PolicyName::default()));
    }
    policies.into_iter().map(|(name, policy)| (name, Side { policy, ..Side::default() })).collect()
}

/// So many sides in the order of a repetition, each at another place than before and behind another one: the machine is not the same at the end of a repetition as at
/// its beginning, and what it has just done counts as well. The default policy differed from itself by a tenth where only the order was reversed.
pub(super) fn in_turn(sides: usize, repetition: usize) -> impl Iterator<Item = usize> {
    let divides_both = |divisor: usize, step: usize| sides.is_multiple_of(divisor) && step.is_multiple_of(divisor);
    let comes_round = |step: &usize| !(2..=*step).any(|divisor| divides_both(divisor, *step));
    let steps: Vec<usize> = (1..=sides).filter(comes_round).collect();
    (0..sides).map(move |place| (place * steps[repetition % steps.len()] + repetition) % sides)
}

/// Draws what was measured of some cases over how many queries there were, or the logarithm of another parameter: how fast they were flat out, and how long results
/// took where rows were due at a rate.
pub(super) fn draw(benchmark: &Benchmark, measured: &[(&Case, Crowd)], folder: &Path) -> Result<(), BenchError> {
    let picture = |is_paced_wanted: bool, axes: &str, height: &dyn Fn(&Crowd) -> f64, name: &str| {
        let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
        for (case, crowd) in measured.iter().filter(|(case, _)| is_paced(case) == is_paced_wanted) {
            let at = match &benchmark.over {
                None => case.number("queries").unwrap_or(1) as f64,
                Some(parameter) => (case.number(parameter).unwrap_or(1) as f64).log2(),
            };
            let point = (at, height(crowd));
            let line = format!("{} {}", crowd.policy, crowd.kind).trim_end().to_owned();
            match lines.iter_mut().find(|(known, _)| *known == line) {
                Some((_, points)) => points.push(point),
                None => lines.push((line, vec![point])),
            }
        }
        if lines.is_empty() {
            return Ok(());
        }
        let lines = lines.iter().map(|(line, points)| (line.as_str(), points.clone())).collect();
        let over = benchmark.over.as_ref().map_or("queries of a kind".to_owned(), |over| format!("log2 of {over}"));
        let axes = &format!("{axes}, over {over}");
        let picture = Picture { title: &benchmark.what, axes, is_logarithmic: is_paced_wanted, lines };
        picture.write(folder, &format!("{}-{name}", benchmark.name))
    };
    let throughput = |crowd: &Crowd| crowd.rows_per_s.median() / 1e6;
    picture(false, "million records a second, flat out", &throughput, "throughput")?;
    let latency = |crowd: &Crowd| crowd.p99_ms.median() + crowd.behind_ms.median();
    picture(true, "milliseconds (p99 and lag at the end), at a rate", &latency, "latency")
}

/// Whether rows of a case are due at a rate.
pub(super) fn is_paced(case: &Case) -> bool {
    case.parameters.get("pace").is_some_and(|pace| pace == "real-time")
}

/// Runs all queries of a case, of each of the benchmark's statements as many. Of each statement the name of the table that it reads, where there are several, and
/// what it shows.
pub(super) fn run(
    benchmark: &Benchmark,
    case: &Case,
    arguments: &Arguments,
    side: Side,
) -> Result<Vec<(String, Shown)>, BenchError> {
    let statements = benchmark.statements(case, arguments.seconds, "");
    let session = Session::new();
    session.set("pelton.workers", &arguments.workers.to_string())?;
    session.set("pelton.tier", "compile")?;
    session.set("pelton.policy", side.policy.name())?;
    session.set("pelton.data-passing", side.data_passing)?;
    if let Some(sharing) = side.sharing {
        session.set("pelton.sharing", if sharing { "on" } else { "off" })?;
    }
    let folder = side.has_checkpoints.then(CheckpointFolder::new);
    if let Some(CheckpointFolder(path)) = &folder {
        session.set("execution.checkpointing.dir", &path.display().to_string())?;
        session.set("execution.checkpointing.interval", "1 s")?;
    }
    for statement in session.prepare(&statements.setup)? {
        session.execute(&statement)?;
    }
    let count = case.number("queries").ok_or_else(|| BenchError::Input("a case needs queries=NUMBER".into()))?;
    let prepared = |number| Ok::<_, BenchError>(session.prepare(&numbered(&statements.query, number))?);
    let prepared: Vec<Vec<Prepared>> = (0..count).map(prepared).collect::<Result<_, _>>()?;
    let kind_count = prepared.first().map_or(0, Vec::len);
    let began = Instant::now();
    let start = |statement| match session.execute(statement)? {
        Outcome::Running(query) => Ok(query),
        _ => Err(BenchError::Input("the benchmark's query is none".into())),
    };
    let kinds: Vec<Vec<Query>> = (0..kind_count)
        .map(|kind| prepared.iter().map(|statements| start(&statements[kind])).collect())
        .collect::<Result<_, BenchError>>()?;
    let looks = |share: f64| -> Vec<Vec<Progress>> {
        let until = began + Duration::from_secs_f64(arguments.seconds * share);
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        kinds.iter().map(|queries| queries.iter().map(Query::progress).collect()).collect()
    };
    let [from, until] = [SHOWN_FROM, SHOWN_UNTIL].map(looks);
    let mut shown = Vec::new();
    for (from, until) in from.into_iter().zip(until) {
        let kind = until.first().and_then(|progress| progress.sources.first());
        let kind = kind.filter(|_| kind_count > 1).map_or(String::new(), |source| source.name.clone());
        let rate = case.number(&if kind.is_empty() { "rate".to_owned() } else { format!("{kind}_rate") });
        shown.push((kind, show(benchmark, (&from, &until), rate.filter(|_| is_paced(case)))?));
    }
    if side.has_checkpoints {
        let statuses = session.engine().jobs().into_iter().filter_map(|job| job.checkpoints());
        let pauses = statuses.map(|status| status.pause_max.as_secs_f64() * 1e3);
        shown[0].1.pause_ms = pauses.reduce(f64::max);
    }
    for query in kinds.into_iter().flatten() {
        if side.sharing.is_some() {
            query.control().abort();
        }
        query.wait()?;
    }
    Ok(shown)
}

/// Where checkpoints are kept while a case runs.
struct CheckpointFolder(PathBuf);

impl CheckpointFolder {
    fn new() -> CheckpointFolder {
        CheckpointFolder(std::env::temp_dir().join(format!("pelton-bench-checkpoints-{}", std::process::id())))
    }
}

impl Drop for CheckpointFolder {
    fn drop(&mut self) {
        // What stays behind is in a directory for such files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The text of one of many queries: `${number}` is its number, from 0, and of each `${one of: a | b | c}` one stands there, in turn.
pub(super) fn numbered(text: &str, number: usize) -> String {
    let mut numbered = text.replace("${number}", &number.to_string());
    while let Some((before, rest)) = numbered.split_once("${one of:") {
        let Some((choices, behind)) = rest.split_once('}') else { break };
        let choices: Vec<&str> = choices.split('|').map(str::trim).collect();
        numbered = format!("{before}{}{behind}", choices[number % choices.len()]);
    }
    numbered
}

/// What queries of a kind have come to between two looks at each, where rows are due at a rate, or are not.
fn show(
    benchmark: &Benchmark,
    (from, until): (&[Progress], &[Progress]),
    rate: Option<usize>,
) -> Result<Shown, BenchError> {
    let (mut rows_per_s, mut behind_s, mut latency_ns) = (0.0, 0.0, None);
    let [mut decisions, mut deciding_ns, mut busy_ns] = [0.0; 3];
    for (from, until) in from.iter().zip(until) {
        let rows = |progress: &Progress| match benchmark.counts_results {
            true => progress.sinks.iter().map(|sink| sink.rows).sum::<u64>() as f64,
            false => progress.sources.iter().map(|source| source.rows).sum::<u64>() as f64,
        };
        // Where all operators have threads looks take long: a query may have ended before the first of them.
        let elapsed = until.elapsed - from.elapsed;
        rows_per_s += if elapsed.is_zero() { 0.0 } else { (rows(until) - rows(from)) / elapsed.as_secs_f64() };
        if let Some(rate) = rate {
            behind_s = f64::max(behind_s, until.elapsed.as_secs_f64() - rows(until) / rate as f64);
        }
        let ns = |time: Duration| time.as_nanos() as f64;
        decisions += (until.run().load.decisions - from.run().load.decisions) as f64;
        deciding_ns += ns(until.run().load.deciding) - ns(from.run().load.deciding);
        busy_ns += ns(until.run().load.busy) - ns(from.run().load.busy);
        let own = until.run().latency_since(from.run()).processing_ns;
        match &mut latency_ns {
            None => latency_ns = Some(own),
            Some(all) => all.add(own).map_err(|error| BenchError::Input(error.to_string()))?,
        }
    }
    let latency_ns = latency_ns.ok_or_else(|| BenchError::Input("a case needs queries=NUMBER, from 1 on".into()))?;
    let quantile_ms = |quantile: f64| latency_ns.value_at_quantile(quantile) as f64 / 1e6;
    Ok(Shown {
        rows_per_s,
        mean_ms: latency_ns.mean() / 1e6,
        median_ms: quantile_ms(0.5),
        p99_ms: quantile_ms(0.99),
        behind_ms: behind_s * 1e3,
        decision_ns: deciding_ns / decisions,
        deciding_share: deciding_ns / busy_ns,
        pause_ms: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_of_different_numbers_have_different_texts() {
        let text = "SELECT ${one of: a | b | c} FROM ${one of: t | u} WHERE v > ${number}";
        let texts = [0, 1, 5].map(|number| numbered(text, number));
        let expected = ["SELECT a FROM t WHERE v > 0", "SELECT b FROM u WHERE v > 1", "SELECT c FROM u WHERE v > 5"];
        assert_eq!(texts, expected);
    }

    #[test]
    fn each_repetition_has_all_sides_in_another_order() {
        for sides in 1..=12 {
            for repetition in 0..8 {
                let mut all: Vec<usize> = in_turn(sides, repetition).collect();
                all.sort_unstable();
                assert_eq!(all, Vec::from_iter(0..sides), "{sides} sides, repetition {repetition}");
            }
        }
        let of_four = |repetition| in_turn(4, repetition).collect::<Vec<_>>();
        assert_eq!([0, 1, 2].map(of_four), [[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1]]);
        let before = |side: usize| {
            let orders = (0..4).map(|repetition| Vec::from_iter(in_turn(10, repetition)));
            let places =
                orders.map(|order| order.iter().position(|other| *other == side).map(|at| (at, order[(at + 9) % 10])));
            let (places, before): (Vec<usize>, Vec<usize>) = places.flatten().unzip();
            (places, before)
        };
        assert_eq!(before(0), (vec![0, 3, 4, 3], vec![9, 7, 3, 1]));
    }
}
