//! How fast a stream passes, part by part: the cases of a benchmark over the same rows, as the lines of one picture.
//!
//! Cases with `fixed=yes` run code that stays; others may change theirs, and are compared with the best of these from one change of the data to
//! the next, turn by turn ([`alternation`]). Behind a change, and at first, a case has [`SETTLED_S`] to find the code that suits it. A case `again=CASE` is
//! another run of one that stays: where that one is the best, it says what chance does to the same figures. A case `always=STEP` has the rows of that
//! step all the time: what others do where they have rows like these, is compared with what code does that has always had them. All run once: their turns
//! are repetition enough.

mod alternation;

use std::fmt::Write;

use super::file::{Benchmark, Case};
use super::files::{Folder, prepare};
use super::loops::Input;
use super::plot::Picture;
use super::report::{Figure, Samples};
use super::{Arguments, BenchError};
use alternation::Turns;

/// Parts of the stream in a picture, at most.
const PARTS: usize = 80;

/// Seconds that a change of the data may take to be noticed and answered.
const SETTLED_S: f64 = 0.2;

/// Turns are compared one by one, and told of in parts of so many seconds at least, each by the turn in the middle.
const PART_S: f64 = 0.4;

/// How long the spans are of which none may be slow.
const SPAN_S: f64 = 1.0;

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
    /// Of each part, which have about as many rows each.
    pub rates: Vec<f64>,
    /// Compared with the cases that stay; none of these themselves.
    pub compared: Option<Compared>,
}

/// A case compared with those that stay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compared {
    /// Its time for all rows in that of the one that is best over all rows, inverted: above 1 it is faster.
    pub whole: f64,
    /// Its speed in that of the best from change to change, where the data has not just changed: the turn in the middle,
    pub settled_median: f64,
    /// the part where it is least, and
    pub settled_least: f64,
    /// of what is between two changes the one where it is least.
    pub stretch_least: f64,
    /// Its speed in that of code that has always had such rows, from change to change: where it is least, if there is such code for any.
    pub always_least: Option<f64>,
    /// Its speed in that of the first case that stays, in the second in which it is least.
    pub second_least: f64,
    /// From a change to the first new code milliseconds, at most.
    pub answered_ms: f64,
    /// So many changes were answered by new code.
    pub answered: f64,
    /// Of so many, the beginning among them.
    pub changes: f64,
}

/// Runs all cases side by side.
pub(super) fn measure(benchmark: &Benchmark, arguments: &Arguments) -> Result<Vec<Figure>, BenchError> {
    let folder = Folder::new(&benchmark.name)?;
    let first = benchmark.statements(&benchmark.cases[0], arguments.seconds, &folder.text());
    prepare(&first.setup, &first.prepare)?;
    let input = Input::load(&first.setup, &benchmark.table)?;
    let turns = alternation::run(benchmark, &input, arguments.workers)?;
    let place = |name: &String| benchmark.cases.iter().position(|case| case.name == *name);
    let is_fixed = |index: &usize| benchmark.cases[*index].parameters.contains_key("fixed");
    let fixed: Vec<usize> = (0..benchmark.cases.len()).filter(is_fixed).collect();
    let always_given = |step: usize| {
        let is_alike = |case: &Case| case.always().is_some_and(|always| benchmark.course.are_alike(always, step));
        benchmark.cases.iter().position(is_alike)
    };
    let always: Vec<Option<usize>> = turns.steps.iter().map(|&step| always_given(step)).collect();
    let course = |(index, case): (usize, &Case)| Course {
        bench: benchmark.name.clone(),
        case: case.name.clone(),
        workers: arguments.workers,
        rows: turns.ends.last().copied().unwrap_or(0.0),
        rates: rates(&turns, index),
        compared: match fixed.contains(&index) || case.always().is_some() {
            true => None,
            false => {
                let rivals = Rivals { fixed: &fixed, always: &always };
                compared(&turns, index, rivals, case.parameters.get("again").and_then(place))
            }
        },
    };
    let courses: Vec<Course> = benchmark.cases.iter().enumerate().map(course).collect();
    if let Some(folder) = &arguments.plots {
        picture(&benchmark.what, &courses).write(folder, &benchmark.name)?;
    }
    Ok(courses.into_iter().map(Figure::Course).collect())
}

/// Of a case, part by part.
fn rates(turns: &Turns, case: usize) -> Vec<f64> {
    let count = turns.ends.len();
    let parts = PARTS.min(count);
    let rate = |part: usize| {
        let (from, to) = (part * count / parts, (part + 1) * count / parts);
        (turns.ends[to - 1] - turns.start(from)) / turns.seconds[case][from..to].iter().sum::<f64>()
    };
    (0..parts).map(rate).collect()
}

/// What a case is compared with.
#[derive(Debug, Clone, Copy)]
struct Rivals<'a> {
    /// The cases that stay.
    fixed: &'a [usize],
    /// At the beginning and behind each change, the case that has always had such rows.
    always: &'a [Option<usize>],
}

/// A case compared with those that stay; where it is one of these `again`, from changes on behind which that one is the best.
fn compared(turns: &Turns, case: usize, rivals: Rivals<'_>, again: Option<usize>) -> Option<Compared> {
    let fixed = rivals.fixed;
    let own = &turns.seconds[case];
    let sum = |case: usize, from: usize, to: usize| turns.seconds[case][from..to].iter().sum::<f64>();
    let best = |from: usize, to: usize| {
        fixed.iter().copied().min_by(|left, right| sum(*left, from, to).total_cmp(&sum(*right, from, to)))
    };
    let starts = || std::iter::once(0).chain(turns.changes.iter().copied());
    let ends = turns.changes.iter().copied().chain([own.len()]);
    let (mut settled, mut parts, mut stretches, mut always) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (stretch, (start, end)) in starts().zip(ends).enumerate() {
        let first = (start..end).find(|&turn| sum(case, start, turn) >= SETTLED_S).unwrap_or(end);
        let best = best(first, end)?;
        if first == end || again.is_some_and(|again| again != best) {
            continue;
        }
        let against = |rival: usize| (first..end).map(|turn| turns.seconds[rival][turn] / own[turn]).collect();
        let ratios: Vec<f64> = against(best);
        let always_given = rivals.always[stretch].filter(|_| again.is_none());
        always.extend(always_given.map(|rival| Samples(against(rival)).median()));
        let count = ((sum(case, first, end) / PART_S) as usize).clamp(1, ratios.len());
        let part =
            |part| Samples(ratios[part * ratios.len() / count..(part + 1) * ratios.len() / count].to_vec()).median();
        parts.extend((0..count).map(part));
        stretches.push(Samples(ratios.clone()).median());
        settled.extend(ratios);
    }
    let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let reference = again.or_else(|| best(0, own.len()))?;
    let spans = (0..own.len()).filter_map(|from| {
        let to =
            (from + 1..=own.len()).find(|&to| sum(case, from, to) >= SPAN_S).or((from == 0).then_some(own.len()))?;
        Some(sum(fixed[0], from, to) / sum(case, from, to))
    });
    let answers: Vec<f64> = starts().filter_map(|start| answered_ms(turns, case, start)).collect();
    (!settled.is_empty()).then(|| Compared {
        whole: sum(reference, 0, own.len()) / sum(case, 0, own.len()),
        settled_least: least(&parts),
        stretch_least: least(&stretches),
        always_least: (!always.is_empty()).then(|| least(&always)),
        second_least: least(&spans.collect::<Vec<_>>()),
        settled_median: Samples(settled).median(),
        answered_ms: answers.iter().copied().fold(0.0, f64::max),
        answered: answers.len() as f64,
        changes: starts().count() as f64,
    })
}

/// How long it was from a change, which a turn begins with, to the first new code, if there was any before the next change: as if rows passed evenly
/// within a turn.
fn answered_ms(turns: &Turns, case: usize, change: usize) -> Option<f64> {
    let end = turns.changes.iter().copied().find(|next| *next > change).unwrap_or(turns.ends.len());
    let is_between = |row: &&f64| **row > turns.start(change) && **row <= turns.ends[end - 1];
    let row = turns.new_code[case].iter().find(is_between)?;
    let turn = turns.ends.partition_point(|end| end < row);
    let share = (row - turns.start(turn)) / (turns.ends[turn] - turns.start(turn));
    let before: f64 = turns.seconds[case][change..turn].iter().sum();
    Some((before + share * turns.seconds[case][turn]) * 1e3)
}

impl Course {
    pub(super) fn json(&self) -> String {
        let rates: Vec<String> = self.rates.iter().map(|rate| format!("{rate:.0}")).collect();
        let compared = self.compared.map_or(String::new(), |compared| {
            let Compared { whole, settled_median, settled_least, stretch_least, second_least, .. } = compared;
            let Compared { always_least, answered_ms, answered, changes, .. } = compared;
            let always = always_least.map(|least| format!(",\"of_always_stretch_min\":{least:.3}")).unwrap_or_default();
            format!(
                ",\"of_best_fixed\":{whole:.3},\"of_best_fixed_settled\":{settled_median:.3},\
                 \"of_best_fixed_settled_stretch_min\":{stretch_least:.3},\"of_best_fixed_settled_min\":{settled_least:.3},\
                 \"of_first_fixed_second_min\":{second_least:.3},\"answered_ms_max\":{answered_ms:.1},\"answered\":{answered},\
                 \"changes\":{changes}{always}"
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
        if let Some(compared) = self.compared {
            let Compared { whole, settled_median, settled_least, stretch_least, second_least, .. } = compared;
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "   {whole:.3} of the best that stays; once settled {settled_median:.3}, at least {stretch_least:.2} from change to change and \
                 {settled_least:.2} part by part; at least {second_least:.2} of the first that stays in any second"
            );
            if let Some(least) = compared.always_least {
                let _ = write!(text, "; at least {least:.2} of code that has always had such rows");
            }
            if compared.answered > 0.0 {
                let Compared { answered_ms, answered, changes, .. } = compared;
                let _ = write!(
                    text,
                    "; new code {answered_ms:.0} ms behind a change at most, behind {answered} of {changes}"
                );
            }
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

    /// Turns of a hundred rows: two cases that stay, each good in one half, the first of these again, and what `own` takes.
    fn turns(own: &[f64]) -> Turns {
        let turns = own.len();
        let half = |first: f64, second: f64| -> Vec<f64> {
            (0..turns).map(|turn| if turn < turns / 2 { first } else { second }).collect()
        };
        Turns {
            ends: (1..=turns).map(|turn| 100.0 * turn as f64).collect(),
            changes: vec![turns / 2],
            steps: vec![0, 1],
            seconds: vec![half(0.1, 0.3), half(0.2, 0.1), half(0.11, 0.3), own.to_vec()],
            new_code: vec![Vec::new(), Vec::new(), Vec::new(), vec![50.0, 100.0 * (turns / 2) as f64 + 150.0]],
        }
    }

    const RIVALS: Rivals<'_> = Rivals { fixed: &[0, 1], always: &[None, Some(1)] };

    #[test]
    fn turns_are_compared_with_the_best_from_change_to_change() {
        // As good as the best all the time, but for the turn behind the change.
        let mut own = vec![0.1; 80];
        own[40] = 0.45;
        let found = compared(&turns(&own), 3, RIVALS, None).expect("something is settled");
        assert_eq!((found.settled_median, found.settled_least, found.stretch_least), (1.0, 1.0, 1.0));
        assert_eq!(found.always_least, Some(1.0), "of the second half alone, where it has the rows of the second");
        // The second one takes less over all rows.
        let expected = (0.2 + 0.1) * 40.0 / (0.1 * 79.0 + 0.45);
        assert!((found.whole - expected).abs() < 1e-9, "{found:?}");
        // A second that ends with the change: six turns of 0.1 and that of 0.45, for which the first that stays takes 0.6 and 0.3.
        assert!((found.second_least - 0.9 / 1.05).abs() < 1e-9, "{found:?}");
        // Half of a turn of 0.1 behind the beginning; a turn of 0.45 and half of the next behind the change.
        assert!((found.answered_ms - 500.0).abs() < 1e-6 && (found.answered, found.changes) == (2.0, 2.0), "{found:?}");
        // Slow in a part for longer than a change excuses, and not for most of the time.
        own[50..62].fill(0.2);
        let found = compared(&turns(&own), 3, RIVALS, None).expect("something is settled");
        assert_eq!((found.settled_median, found.settled_least, found.stretch_least), (1.0, 0.5, 1.0));
    }

    #[test]
    fn a_case_again_is_compared_where_it_is_the_best() {
        let found = compared(&turns(&[0.1; 80]), 2, RIVALS, Some(0)).expect("the first half is its own");
        assert!((found.settled_median - 0.1 / 0.11).abs() < 1e-9, "{found:?}");
        assert!((found.whole - 16.0 / 16.4).abs() < 1e-9, "{found:?}");
        assert_eq!(found.answered, 0.0);
    }

    #[test]
    fn parts_have_the_rows_of_their_turns() {
        let rates = rates(&turns(&[0.1; 160]), 3);
        assert_eq!(rates.len(), PARTS);
        assert!(rates.iter().all(|rate| (rate - 1_000.0).abs() < 1e-6), "{rates:?}");
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
        let compared = Compared {
            whole: 1.5,
            settled_median: 1.0,
            settled_least: 0.9,
            stretch_least: 0.96,
            always_least: Some(0.98),
            second_least: 0.6,
            answered_ms: 12.4,
            answered: 2.0,
            changes: 3.0,
        };
        let courses = [course("one", None), course("two", Some(compared))];
        let svg = picture("What it is, a < b.", &courses).svg();
        assert!(svg.contains(">What it is, a &lt; b.<"), "{svg}");
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.ends_with("</svg>\n"));
        assert!(courses[0].json().ends_with("\"course_records_per_s\":133333333,\"rates\":[100000000,200000000]}"));
        assert!(
            courses[1]
                .json()
                .ends_with("\"answered_ms_max\":12.4,\"answered\":2,\"changes\":3,\"of_always_stretch_min\":0.980}")
        );
        assert!(courses[1].text().ends_with(
            "once settled 1.000, at least 0.96 from change to change and 0.90 part by part; at least 0.60 of the first that stays in any second; \
             at least 0.98 of code that has always had such rows; new code 12 ms behind a change at most, behind 2 of 3"
        ));
    }
}
