//! What scheduling and data passing bring, each by itself and together (Enjima, figure 9b): queries at rising rates, with threads for all
//! operators or the engine's policy, and with queues of events or blocks.

use pelton_runtime::policy::PolicyName;

use super::file::{Benchmark, Case};
use super::plot::Picture;
use super::queries::{Side, in_turn, run};
use super::report::{Crowd, Figure};
use super::{Arguments, BenchError};

/// What the classical engine would be comes first: the others are compared with it.
const MODES: [(&str, &str, &str); 4] = [
    ("threads+queues", "threads", "queues"),
    ("adaptive+queues", "adaptive", "queues"),
    ("threads+blocks", "threads", "blocks"),
    ("adaptive+blocks", "adaptive", "blocks"),
];

/// All cases, at each of which the modes take turns. A case says how many `queries` there are; those that are not flat out are points of the
/// pictures at the `rate` of each query.
pub(super) fn measure(benchmark: &Benchmark, arguments: &Arguments) -> Result<Vec<Figure>, BenchError> {
    let mut all = Vec::new();
    for case in &benchmark.cases {
        let mut crowds = MODES.map(|(name, ..)| Crowd::new(benchmark, case, "", name, arguments.workers));
        for repetition in 0..arguments.repeat.max(1) {
            for mode in in_turn(MODES.len(), repetition) {
                let ((_, policy, data_passing), crowd) = (MODES[mode], &mut crowds[mode]);
                let policy = PolicyName::named(policy).expect("it is a policy");
                for (_, shown) in run(benchmark, case, arguments, Side { policy, data_passing, ..Side::default() })? {
                    crowd.add(shown);
                }
            }
        }
        let [classical, ..] = &crowds;
        let classical = classical.rows_per_s.median();
        crowds
            .iter_mut()
            .for_each(|crowd| crowd.ratio_to = Some(("threads_and_queues", crowd.rows_per_s.median() / classical)));
        all.push((case, crowds));
    }
    if let Some(folder) = &arguments.plots {
        let throughput = |crowd: &Crowd| crowd.rows_per_s.median() / 1e6;
        let axes = "million records a second, over million records a second that are due";
        picture(benchmark, &all, axes, false, throughput).write(folder, &format!("{}-throughput", benchmark.name))?;
        let latency = |crowd: &Crowd| crowd.p99_ms.median() + crowd.behind_ms.median();
        let axes = "milliseconds (p99 and lag at the end), over million records a second that are due";
        picture(benchmark, &all, axes, true, latency).write(folder, &format!("{}-latency", benchmark.name))?;
    }
    Ok(all.into_iter().flat_map(|(_, crowds)| crowds).map(Figure::Crowd).collect())
}

fn picture<'a>(
    benchmark: &'a Benchmark,
    all: &[(&Case, [Crowd; MODES.len()])],
    axes: &'a str,
    is_logarithmic: bool,
    height: impl Fn(&Crowd) -> f64,
) -> Picture<'a> {
    let point = |(case, crowds): &(&Case, [Crowd; MODES.len()]), mode: usize| {
        let due = case.number("rate").filter(|_| super::queries::is_paced(case))? * case.number("queries")?;
        Some((due as f64 / 1e6, height(&crowds[mode])))
    };
    let line = |(mode, (name, ..)): (usize, &(&'static str, _, _))| {
        (*name, all.iter().filter_map(|case| point(case, mode)).collect())
    };
    Picture { title: &benchmark.what, axes, is_logarithmic, lines: MODES.iter().enumerate().map(line).collect() }
}
