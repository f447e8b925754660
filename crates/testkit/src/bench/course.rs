//! How fast a stream passes, part by part: the cases of a benchmark over the same rows, as the lines of one picture.
//!
//! Cases with `fixed=yes` run code that stays; the others may change theirs, and are compared with the best of these at each part of the
//! stream. Behind rows at which the data changes (`changes=ROW,ROW…` of a case) a case has [`SETTLED_S`] to find the code that suits it.

use std::fmt::Write;
use std::time::{Duration, Instant};

use super::file::{Benchmark, Case};
use super::plot::Picture;
use super::report::{Figure, Samples};
use super::{Arguments, BenchError, Prepared, measure};

/// How often a query is asked how far it is.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// Parts of the stream, of as many rows each.
const PARTS: usize = 80;

/// Seconds that a change of the data may take to be noticed and answered.
const SETTLED_S: f64 = 0.2;

/// Records a second of one case, part by part.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    /// The benchmark.
    pub bench: String,
    /// The case.
    pub case: String,
    /// Threads.
    pub workers: usize,
    /// Rows of all parts.
    pub rows: f64,
    /// Of each part, in the middle of several runs.
    pub rates: Vec<f64>,
    /// Compared with the cases that stay; none of these themselves.
    pub compared: Option<Compared>,
}

/// A case compared with the best of those that stay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compared {
    /// Its time for all rows in that of the one that is best over all rows, inverted: above 1 it is faster.
    pub whole: f64,
    /// Its speed in that of the best at the same part, where the data has not just changed: the part in the middle,
    pub settled_median: f64,
    /// the part where it is least,
    pub settled_least: f64,
    /// and the same of all such parts together from one change to the next: a part is over in a few milliseconds, in which a machine that others use
    /// is slow by chance, so that of eighty parts of one code, measured twice, one is slower than another by a third.
    pub stretch_least: f64,
    /// The least of all parts.
    pub least: f64,
}

/// How far a run was when: seconds, rows.
type Looks = Vec<(f64, f64)>;

/// Runs all cases in turns.
pub(super) fn measure(benchmark: &Benchmark, arguments: &Arguments) -> Result<Vec<Figure>, BenchError> {
    let cases = benchmark.cases.iter().map(|case| Ok((case, Prepared::new(benchmark, case, arguments.seconds)?)));
    let cases: Vec<(&Case, Prepared)> = cases.collect::<Result<_, BenchError>>()?;
    let mut runs: Vec<Vec<Vec<f64>>> = vec![Vec::new(); cases.len()];
    let mut rows = f64::INFINITY;
    for turn in 0..arguments.repeat.max(1) {
        for index in 0..cases.len() {
            let index = if turn % 2 == 1 { cases.len() - 1 - index } else { index };
            let looks = looks(&cases[index].1, arguments.workers)?;
            rows = rows.min(looks.last().map_or(0.0, |look| look.1));
            runs[index].push(seconds_of_parts(&looks));
        }
    }
    let of_runs = |runs: &Vec<Vec<f64>>| -> Vec<f64> {
        (0..PARTS).map(|part| Samples(runs.iter().map(|run| run[part]).collect()).median()).collect()
    };
    let seconds: Vec<Vec<f64>> = runs.iter().map(of_runs).collect();
    let is_fixed = |case: &Case| case.parameters.contains_key("fixed");
    let fixed: Vec<&Vec<f64>> =
        cases.iter().zip(&seconds).filter(|((case, _), _)| is_fixed(case)).map(|(_, s)| s).collect();
    let courses = cases.iter().zip(&seconds).map(|((case, _), own)| Course {
        bench: benchmark.name.clone(),
        case: case.name.clone(),
        workers: arguments.workers,
        rows,
        rates: own.iter().map(|seconds| rows / PARTS as f64 / seconds).collect(),
        compared: (!is_fixed(case) && !fixed.is_empty()).then(|| compared(own, &fixed, &changes(case), rows)),
    });
    let courses: Vec<Course> = courses.collect();
    if let Some(folder) = &arguments.plots {
        picture(&benchmark.what, &courses).write(folder, &benchmark.name)?;
    }
    Ok(courses.into_iter().map(Figure::Course).collect())
}

/// Rows at which the data changes.
fn changes(case: &Case) -> Vec<f64> {
    let text = case.parameters.get("changes").map_or("", String::as_str);
    text.split(',').filter_map(|row| row.parse().ok()).collect()
}

/// Runs a case, and looks how far it is until it has ended.
fn looks(prepared: &Prepared, workers: usize) -> Result<Looks, BenchError> {
    let settings = [("pelton.tier", prepared.tier)];
    let query = measure::start(&prepared.statements.setup, &prepared.statements.query, &settings, workers)?;
    let control = query.control();
    let mut looks: Looks = Vec::new();
    let mut started = Instant::now();
    while !control.has_ended() {
        let rows = control.progress().pipelines.first().map_or(0, |pipeline| pipeline.rows) as f64;
        if looks.is_empty() {
            // Input is loaded before the first row.
            started = Instant::now();
        }
        if rows > 0.0 {
            looks.push((started.elapsed().as_secs_f64(), rows));
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    let summary = query.wait()?;
    let rows = summary.pipelines.first().map_or(0, |pipeline| pipeline.rows) as f64;
    looks.push((started.elapsed().as_secs_f64(), rows));
    Ok(looks)
}

/// How long each part took, as if rows passed evenly from look to look.
fn seconds_of_parts(looks: &Looks) -> Vec<f64> {
    let all = looks.last().map_or(0.0, |look| look.1);
    let at = |rows: f64| {
        let after = looks.partition_point(|look| look.1 < rows).min(looks.len() - 1);
        let (to, from) = (looks[after], if after == 0 { (0.0, 0.0) } else { looks[after - 1] });
        let share = if to.1 > from.1 { (rows - from.1) / (to.1 - from.1) } else { 1.0 };
        from.0 + share * (to.0 - from.0)
    };
    let edges: Vec<f64> = (0..=PARTS).map(|part| at(all * part as f64 / PARTS as f64)).collect();
    edges.windows(2).map(|edges| (edges[1] - edges[0]).max(1e-9)).collect()
}

fn compared(own: &[f64], fixed: &[&Vec<f64>], changes: &[f64], rows: f64) -> Compared {
    let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
    let best = |part: usize| least(&mut fixed.iter().map(|seconds| seconds[part]));
    let ratios: Vec<f64> = (0..PARTS).map(|part| best(part) / own[part]).collect();
    let (mut settled, mut since_change) = (Vec::new(), f64::INFINITY);
    // Of the parts since the last change: seconds of its own, and of each that stays.
    let mut stretches: Vec<(f64, Vec<f64>)> = Vec::new();
    for (part, ratio) in ratios.iter().enumerate() {
        let (from, to) = (rows * part as f64 / PARTS as f64, rows * (part + 1) as f64 / PARTS as f64);
        // The first rows are as new as those behind a change.
        if part == 0 || changes.iter().any(|change| (from..to).contains(change)) {
            since_change = 0.0;
            stretches.push((0.0, vec![0.0; fixed.len()]));
        }
        if since_change >= SETTLED_S {
            settled.push(*ratio);
            let (of_own, of_fixed) = stretches.last_mut().expect("the first part begins one");
            *of_own += own[part];
            of_fixed.iter_mut().zip(fixed).for_each(|(sum, seconds)| *sum += seconds[part]);
        }
        since_change += own[part];
    }
    let whole = least(&mut fixed.iter().map(|seconds| seconds.iter().sum())) / own.iter().sum::<f64>();
    // A stretch may be too short for anything to be settled.
    let stretches = stretches.into_iter().filter(|(own, _)| *own > 0.0);
    Compared {
        whole,
        stretch_least: least(&mut stretches.map(|(own, fixed)| least(&mut fixed.into_iter()) / own)),
        settled_least: least(&mut settled.iter().copied()),
        settled_median: Samples(settled).median(),
        least: least(&mut ratios.into_iter()),
    }
}

impl Course {
    pub(super) fn json(&self) -> String {
        let rates: Vec<String> = self.rates.iter().map(|rate| format!("{rate:.0}")).collect();
        let compared =
            self.compared.map_or(String::new(), |Compared { whole, settled_median, settled_least, stretch_least, least }| {
                format!(
                    ",\"of_best_fixed\":{whole:.3},\"of_best_fixed_settled\":{settled_median:.3},\
                 \"of_best_fixed_settled_stretch_min\":{stretch_least:.3},\"of_best_fixed_settled_min\":{settled_least:.3},\"of_best_fixed_min\":{least:.3}"
                )
            });
        format!(
            "{{\"bench\":\"{}\",\"case\":\"{}\",\"workers\":{},\"course_records_per_s\":{:.0},\"rates\":[{}]{compared}}}",
            self.bench,
            self.case,
            self.workers,
            self.whole(),
            rates.join(",")
        )
    }

    pub(super) fn text(&self) -> String {
        let slowest = self.rates.iter().copied().fold(f64::INFINITY, f64::min);
        let mut text = format!(
            "{:<16} {:<14} {:<12} {} {:>9.1} M/s, slowest part {:.1} M/s",
            self.bench,
            self.case,
            "course",
            self.workers,
            self.whole() / 1e6,
            slowest / 1e6
        );
        if let Some(Compared { whole, settled_median, settled_least, stretch_least, least }) = self.compared {
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "   {whole:.2} of the best that stays; once settled at least {stretch_least:.2} from change to change, part by part \
                 {settled_median:.2}, at least {settled_least:.2}, {least:.2} where it is not"
            );
        }
        text
    }

    /// Records a second over all parts.
    fn whole(&self) -> f64 {
        self.rates.len() as f64 / self.rates.iter().map(|rate| 1.0 / rate).sum::<f64>()
    }
}

/// Million records a second over million records.
fn picture<'a>(what: &'a str, courses: &'a [Course]) -> Picture<'a> {
    let line = |course: &'a Course| {
        let part = course.rows / 1e6 / course.rates.len() as f64;
        let points = course.rates.iter().enumerate().map(|(index, rate)| ((index as f64 + 0.5) * part, rate / 1e6));
        (course.case.as_str(), points.collect())
    };
    let axes = "million records a second, over million records of the stream";
    Picture { title: what, axes, is_logarithmic: false, lines: courses.iter().map(line).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_compared_with_the_best_at_that_part() {
        // Two that stay, each good in one half; the third is good in both, but for a part after the change.
        let half = |first: f64, second: f64| -> Vec<f64> {
            (0..PARTS).map(|part| if part < PARTS / 2 { first } else { second }).collect()
        };
        let (a, b) = (half(0.1, 0.3), half(0.2, 0.1));
        let mut own = half(0.1, 0.1);
        own[PARTS / 2] = 0.4;
        let found = compared(&own, &[&a, &b], &[4_000.0], 8_000.0);
        assert_eq!((found.settled_median, found.settled_least, found.least), (1.0, 1.0, 0.25));
        assert!((found.stretch_least - 1.0).abs() < 1e-9, "{found:?}");
        let expected = (0.1 + 0.2) * 40.0 / (0.1 * 79.0 + 0.4);
        assert!((found.whole - expected).abs() < 1e-9, "{found:?}");
        // Slow for longer than a change excuses.
        own[PARTS / 2 + 1] = 0.2;
        let found = compared(&own, &[&a, &b], &[4_000.0], 8_000.0);
        assert_eq!(found.settled_least, 0.5);
        // 39 parts behind the change, of which one takes twice as long.
        assert!((found.stretch_least - 39.0 / 40.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn rows_pass_evenly_between_looks() {
        let rows = PARTS as f64;
        let seconds = seconds_of_parts(&vec![(1.0, rows / 2.0), (5.0, rows / 2.0), (6.0, rows)]);
        let sum: f64 = seconds.iter().sum();
        assert!((sum - 6.0).abs() < 1e-9);
        assert!((seconds[0] - 2.0 / rows).abs() < 1e-9, "{seconds:?}");
        assert!((seconds[PARTS - 1] - 2.0 / rows).abs() < 1e-9, "{seconds:?}");
    }

    #[test]
    fn a_picture_has_a_line_for_each_case() {
        let course = |case: &str, compared| Course {
            bench: "b".into(),
            case: case.into(),
            workers: 1,
            rows: 8e6,
            rates: vec![1e8, 2e8],
            compared,
        };
        let compared =
            Compared { whole: 1.5, settled_median: 1.0, settled_least: 0.9, stretch_least: 0.96, least: 0.4 };
        let courses = [course("one", None), course("two", Some(compared))];
        let svg = picture("What it is, a < b.", &courses).svg();
        assert!(svg.contains(">What it is, a &lt; b.<"), "{svg}");
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.ends_with("</svg>\n"));
        assert!(courses[0].json().ends_with("\"course_records_per_s\":133333333,\"rates\":[100000000,200000000]}"));
        assert!(
            courses[1].text().ends_with(
                "at least 0.96 from change to change, part by part 1.00, at least 0.90, 0.40 where it is not"
            )
        );
    }
}
