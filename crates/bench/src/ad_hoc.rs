//! Queries that come and go while rows flow: the ad hoc experiments of HDES (figures 23 to 37).
//!
//! A case with `changed=N` has `queries` run, and then exchanges N of them in each step. One without goes from one query to `queries`, one more in each step, and
//! back to one. Rows are counted at one query that stays; it and the others read the same tables.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pelton::{Progress, Query, Session};

use super::file::{Benchmark, Case};
use super::live::Measured;
use super::measure::start_in;
use super::plot::Picture;
use super::queries::numbered;
use super::report::{Figure, Samples};
use super::{Arguments, BenchError};

/// Of each step this share passes before rows are counted: queries that come are compiled meanwhile.
const SETTLING_SHARE: f64 = 0.4;

/// How fast rows pass, and how long results take, step by step.
pub(super) fn measure(benchmark: &Benchmark, case: &Case, arguments: &Arguments) -> Result<Vec<Figure>, BenchError> {
    let mut queries = Queries::start(benchmark, case, arguments)?;
    let number = |name: &str| case.number(name).ok_or_else(|| BenchError::Input(format!("a case needs {name}=NUMBER")));
    let count = number("queries")?;
    let (measured, lines) = match case.number("changed") {
        Some(changed) => queries.exchange(count, changed, arguments.seconds)?,
        None => queries.grow_and_shrink(count, arguments.seconds)?,
    };
    if let Some(folder) = &arguments.plots {
        let is_over_time = case.parameters.contains_key("changed");
        let axes =
            if is_over_time { "million rows a second, over steps" } else { "million rows a second, over queries" };
        let lines = lines.iter().map(|(line, points)| (*line, points.clone())).collect();
        let picture = Picture { title: &benchmark.what, axes, is_logarithmic: false, lines };
        picture.write(folder, &format!("{}-{}", benchmark.name, case.name))?;
    }
    Ok(measured.into_iter().map(|measured| measured.figure(benchmark, case, arguments.workers)).collect())
}

/// Lines of a picture: their names and points.
type Lines = Vec<(&'static str, Vec<(f64, f64)>)>;

/// Queries that run.
struct Queries<'a> {
    session: Session,
    text: String,
    counts_results: bool,
    case: &'a Case,
    /// It stays.
    first: Query,
    /// The oldest goes first.
    others: VecDeque<Query>,
    started: usize,
}

/// What has passed in a step.
struct Step {
    rows_per_s: f64,
    p99_ms: f64,
}

impl Queries<'_> {
    fn start<'a>(benchmark: &Benchmark, case: &'a Case, arguments: &Arguments) -> Result<Queries<'a>, BenchError> {
        let statements = benchmark.statements(case, arguments.seconds, "");
        let session = Session::new();
        let first = start_in(&session, &statements.setup, &numbered(&statements.query, 0), arguments.workers)?;
        let (text, counts_results) = (statements.query, benchmark.counts_results);
        Ok(Queries { session, text, counts_results, case, first, others: VecDeque::new(), started: 1 })
    }

    fn add(&mut self) -> Result<(), BenchError> {
        self.others.push_back(self.session.sql(&numbered(&self.text, self.started))?);
        self.started += 1;
        Ok(())
    }

    fn remove(&mut self) -> Result<(), BenchError> {
        let Some(oldest) = self.others.pop_front() else { return Ok(()) };
        oldest.control().abort();
        oldest.wait()?;
        Ok(())
    }

    /// Has rows flow for so long.
    fn step(&self, length: Duration) -> Step {
        std::thread::sleep(length.mul_f64(SETTLING_SHARE));
        let (began, before) = (Instant::now(), self.first.progress());
        std::thread::sleep(length.mul_f64(1.0 - SETTLING_SHARE));
        let (passed, after) = (began.elapsed(), self.first.progress());
        let rows = |progress: &Progress| match self.counts_results {
            true => progress.sinks.iter().map(|sink| sink.rows).sum::<u64>(),
            false => progress.sources.iter().map(|source| source.rows).sum(),
        };
        let latency = after.run().latency_since(before.run()).processing_ns;
        Step {
            rows_per_s: (rows(&after) - rows(&before)) as f64 / passed.as_secs_f64(),
            p99_ms: latency.value_at_quantile(0.99) as f64 / 1e6,
        }
    }

    /// From one query to so many, and back.
    fn grow_and_shrink(&mut self, count: usize, seconds: f64) -> Result<(Vec<Measured>, Lines), BenchError> {
        let length = Duration::from_secs_f64(seconds / (2 * count) as f64);
        let (mut growing, mut shrinking) = (Vec::new(), Vec::new());
        for queries in 1..=count {
            growing.push(self.step(length));
            if queries < count {
                self.add()?;
            }
        }
        for _ in 1..=count {
            shrinking.push(self.step(length));
            self.remove()?;
        }
        shrinking.reverse();
        let ratios = growing.iter().zip(&shrinking).map(|(growing, shrinking)| {
            let ratio = shrinking.rows_per_s / growing.rows_per_s;
            ratio.min(1.0 / ratio)
        });
        let ratios = Samples(ratios.collect());
        let measured = vec![
            Measured::of("lesser ÷ greater", "×", ratios).at_least(0.95),
            Measured::of("rows growing", "M/s", rates(&growing)),
            Measured::of("rows shrinking", "M/s", rates(&shrinking)),
            Measured::of("p99 growing", "ms", p99s(&growing)),
            Measured::of("p99 shrinking", "ms", p99s(&shrinking)),
        ];
        let lines = vec![("queries are added", points(&growing)), ("queries are removed", points(&shrinking))];
        Ok((measured, lines))
    }

    /// So many queries, of which some are exchanged in each step, beside as many that stay.
    fn exchange(&mut self, count: usize, changed: usize, seconds: f64) -> Result<(Vec<Measured>, Lines), BenchError> {
        let every_ms = self.case.number("every_ms").unwrap_or(1_000);
        let length = Duration::from_millis(every_ms as u64);
        let steps = ((seconds / 2.0 / length.as_secs_f64()).ceil() as usize).max(1);
        (1..count).try_for_each(|_| self.add())?;
        std::thread::sleep(length);
        let staying: Vec<Step> = (0..steps).map(|_| self.step(length)).collect();
        let mut changing = Vec::new();
        for _ in 0..steps {
            (0..changed.min(count - 1)).try_for_each(|_| self.add())?;
            (0..changed.min(count - 1)).try_for_each(|_| self.remove())?;
            changing.push(self.step(length));
        }
        let ratio = rates(&changing).median() / rates(&staying).median();
        let measured = vec![
            Measured::one("changing ÷ staying", "×", ratio).at_least(0.97),
            Measured::of("rows staying", "M/s", rates(&staying)),
            Measured::of("rows changing", "M/s", rates(&changing)),
            Measured::of("p99 staying", "ms", p99s(&staying)),
            Measured::of("p99 changing", "ms", p99s(&changing)),
        ];
        Ok((measured, vec![("queries stay", points(&staying)), ("queries come and go", points(&changing))]))
    }
}

impl Drop for Queries<'_> {
    fn drop(&mut self) {
        self.others.iter().chain([&self.first]).for_each(|query| query.control().abort());
    }
}

fn rates(steps: &[Step]) -> Samples {
    Samples(steps.iter().map(|step| step.rows_per_s / 1e6).collect())
}

fn p99s(steps: &[Step]) -> Samples {
    Samples(steps.iter().map(|step| step.p99_ms).collect())
}

fn points(steps: &[Step]) -> Vec<(f64, f64)> {
    (1..).zip(steps).map(|(at, step)| (f64::from(at), step.rows_per_s / 1e6)).collect()
}
