//! What it takes to add a query to running ones, to remove it, and to have many that nothing comes for.
//!
//! The queries of a case (`running`) are those of the benchmark, whose text is numbered (see `queries`). Others (`idle`) read the table `silent (v BIGINT NOT NULL)`, which gets no rows. Then one query
//! after the other is added and removed. Where rows come as fast as they are taken (`pace=flat-out`), the running queries are measured alone and beside the idle ones instead: what differs is
//! what the choice of each task takes longer.
//!
//! Memory is measured in the first case of a process alone: later ones use again what those before have given back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pelton::{Query, Session};

use super::file::{Benchmark, Case};
use super::queries::{is_paced, numbered};
use super::report::{Amount, Figure, Goal, Samples};
use super::resident::resident_bytes;
use super::{Arguments, BenchError};

/// Between the last query that is started and what is measured.
const BEFORE: Duration = Duration::from_secs(1);

/// How often a query is added and removed, for each second of a measurement.
const CHANGES_PER_SECOND: f64 = 50.0;

/// Whether a case has been measured.
static HAS_MEASURED: AtomicBool = AtomicBool::new(false);

/// How long it takes from the text of a query until it is attached and until it has left, how much memory the process has grown by meanwhile, the memory of a query, and how long the choice of
/// a task takes. `--seconds 200` adds and removes ten thousand queries.
pub(super) fn measure(benchmark: &Benchmark, case: &Case, arguments: &Arguments) -> Result<Vec<Figure>, BenchError> {
    let statements = benchmark.statements(case, arguments.seconds, "");
    let session = Session::new();
    session.set("pelton.workers", &arguments.workers.to_string())?;
    for statement in session.prepare(&statements.setup)? {
        session.execute(&statement)?;
    }
    let silent = session.push_table("silent", "v BIGINT NOT NULL")?;
    let queries = Queries { session, text: &statements.query, case };
    let measured = if is_paced(case) { queries.changes(arguments)? } else { queries.deciding(arguments)? };
    drop(silent);
    Ok(measured.into_iter().map(|measured| measured.figure(benchmark, case, arguments.workers)).collect())
}

/// A figure of a case.
pub(super) struct Measured {
    what: &'static str,
    unit: &'static str,
    samples: Samples,
    goal: Option<Goal>,
}

impl Measured {
    pub fn of(what: &'static str, unit: &'static str, samples: Samples) -> Measured {
        Measured { what, unit, samples, goal: None }
    }

    pub fn one(what: &'static str, unit: &'static str, amount: f64) -> Measured {
        Measured::of(what, unit, Samples(vec![amount]))
    }

    fn at_most(self, most: f64) -> Measured {
        Measured { goal: Some(Goal::AtMost(most)), ..self }
    }

    pub fn at_least(self, least: f64) -> Measured {
        Measured { goal: Some(Goal::AtLeast(least)), ..self }
    }

    pub fn figure(self, benchmark: &Benchmark, case: &Case, workers: usize) -> Figure {
        let Measured { what, unit, samples, goal } = self;
        let (bench, case) = (benchmark.name.clone(), case.name.clone());
        let (what, unit) = (String::from(what), String::from(unit));
        Figure::Amount(Amount { bench, case, what, workers, unit, samples, goal })
    }
}

/// The queries of a case.
struct Queries<'a> {
    session: Session,
    text: &'a str,
    case: &'a Case,
}

impl Queries<'_> {
    /// Starts as many as the case says, and how many bytes more the process has for each.
    fn start(&self, count: &str, text: impl Fn(usize) -> String) -> Result<(Vec<Query>, f64), BenchError> {
        let process = std::process::id();
        let count = self.case.number(count).unwrap_or(0);
        let before = resident_bytes(process).unwrap_or(0.0);
        let queries =
            (0..count).map(|number| Ok(self.session.sql(&text(number))?)).collect::<Result<_, BenchError>>()?;
        std::thread::sleep(BEFORE);
        Ok((queries, (resident_bytes(process).unwrap_or(0.0) - before) / count.max(1) as f64))
    }

    fn start_idle(&self) -> Result<(Vec<Query>, f64), BenchError> {
        self.start("idle", |number| format!("INSERT INTO nowhere SELECT v, v FROM silent WHERE v > {number}"))
    }

    fn start_running(&self) -> Result<(Vec<Query>, f64), BenchError> {
        self.start("running", |number| numbered(self.text, number))
    }

    /// Adds and removes queries.
    fn changes(&self, arguments: &Arguments) -> Result<Vec<Measured>, BenchError> {
        let is_first = !HAS_MEASURED.swap(true, Ordering::Relaxed);
        let (idle, idle_bytes) = self.start_idle()?;
        let accounted_bytes = (self.session.state_bytes() + self.session.waiting_bytes()) as f64;
        let (running, running_bytes) = self.start_running()?;
        let (mut added_ms, mut removed_ms) = (Samples::default(), Samples::default());
        let changes = (arguments.seconds * CHANGES_PER_SECOND).ceil() as usize;
        let (decided, mut resident_before) = (Decided::by(&running), None);
        for number in running.len()..running.len() + changes {
            let text = numbered(self.text, number);
            let began = Instant::now();
            let query = self.session.sql(&text)?;
            added_ms.0.push(began.elapsed().as_secs_f64() * 1e3);
            std::thread::sleep(Duration::from_secs_f64(0.5 / CHANGES_PER_SECOND));
            let began = Instant::now();
            query.control().abort();
            query.wait()?;
            removed_ms.0.push(began.elapsed().as_secs_f64() * 1e3);
            // The first ones fill pools that later ones use again.
            if number == running.len() + changes / 10 {
                resident_before = resident_bytes(std::process::id());
            }
        }
        let resident = resident_bytes(std::process::id());
        let grown = resident.zip(resident_before).map(|(after, before)| (after - before) / 1e6);
        let decision_ns = Decided::by(&running).ns_since(&decided);
        let p99 = |samples: &Samples| samples.quantile(0.99);
        let mut measured = vec![
            Measured::one("added p99", "ms", p99(&added_ms)).at_most(10.0),
            Measured::of("added", "ms", added_ms).at_most(2.0),
            Measured::one("removed p99", "ms", p99(&removed_ms)),
            Measured::of("removed", "ms", removed_ms).at_most(1.0),
        ];
        measured.extend(grown.map(|grown| Measured::one("memory grown", "MB", grown)));
        if is_first && !idle.is_empty() {
            measured.push(Measured::one("an idle query", "kB", idle_bytes / 1e3).at_most(100.0));
            measured.push(Measured::one("its state", "kB", accounted_bytes / idle.len() as f64 / 1e3));
        }
        if is_first && idle.is_empty() {
            measured.push(Measured::one("a running query", "kB", running_bytes / 1e3));
        }
        if !running.is_empty() {
            measured.push(Measured::one("a decision", "ns", decision_ns));
        }
        running.iter().chain(&idle).for_each(|query| query.control().abort());
        Ok(measured)
    }

    /// Has queries run alone, and beside idle ones.
    fn deciding(&self, arguments: &Arguments) -> Result<Vec<Measured>, BenchError> {
        HAS_MEASURED.store(true, Ordering::Relaxed);
        let (running, _) = self.start_running()?;
        let passed = || {
            let (began, decided, before) = (Instant::now(), Decided::by(&running), rows(&running));
            std::thread::sleep(Duration::from_secs_f64(arguments.seconds));
            let rows_per_s = (rows(&running) - before) as f64 / began.elapsed().as_secs_f64();
            (rows_per_s, Decided::by(&running).ns_since(&decided))
        };
        let (alone, decision_alone_ns) = passed();
        let (idle, _) = self.start_idle()?;
        let (beside, decision_ns) = passed();
        running.iter().chain(&idle).for_each(|query| query.control().abort());
        let ratio = Measured::one("beside ÷ alone", "×", beside / alone);
        Ok(vec![
            Measured::one("rows alone", "M/s", alone / 1e6),
            Measured::one("rows beside idle", "M/s", beside / 1e6),
            ratio.at_least(0.97),
            Measured::one("decision alone", "ns", decision_alone_ns),
            Measured::one("a decision", "ns", decision_ns),
        ])
    }
}

/// Rows that queries have read.
fn rows(queries: &[Query]) -> u64 {
    let rows = |query: &Query| query.progress().sources.iter().map(|source| source.rows).sum::<u64>();
    queries.iter().map(rows).sum()
}

/// How often tasks of queries were chosen, and how long that took.
struct Decided {
    decisions: u64,
    deciding: Duration,
}

impl Decided {
    fn by(queries: &[Query]) -> Decided {
        let loads = queries.iter().map(|query| query.progress().run().load.clone());
        let nothing = Decided { decisions: 0, deciding: Duration::ZERO };
        loads.fold(nothing, |all, load| Decided {
            decisions: all.decisions + load.decisions,
            deciding: all.deciding + load.deciding,
        })
    }

    /// Nanoseconds that a choice took since then.
    fn ns_since(&self, before: &Decided) -> f64 {
        (self.deciding - before.deciding).as_nanos() as f64 / (self.decisions - before.decisions).max(1) as f64
    }
}
