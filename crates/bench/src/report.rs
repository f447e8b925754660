//! What was measured, for people and for programs.

use std::fmt::Write;

use super::course::Course;
use super::file::{Benchmark, Case};
use super::queries::Shown;

/// Several measurements of the same thing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples(pub Vec<f64>);

impl Samples {
    /// The middle one; of an even number the mean of both in the middle; 0 of none.
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        match sorted.len() {
            0 => 0.0,
            odd if odd % 2 == 1 => sorted[odd / 2],
            even => (sorted[even / 2 - 1] + sorted[even / 2]) / 2.0,
        }
    }

    /// The smallest that so large a part of them is not more than; 0 of none.
    pub fn quantile(&self, part: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let place = (sorted.len() as f64 * part).ceil() as usize;
        sorted.get(place.saturating_sub(1)).copied().unwrap_or(0.0)
    }

    fn least(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn most(&self) -> f64 {
        self.0.iter().copied().fold(0.0, f64::max)
    }
}

/// One line of a report.
#[derive(Debug, Clone, PartialEq)]
pub enum Figure {
    /// How many records pass.
    Rate(Line),
    /// How long something takes.
    Wait(Wait),
    /// How much of something there is.
    Amount(Amount),
    /// How much memory a process has.
    Resident(Resident),
    /// How much memory windows have.
    State(State),
    /// How many queries at once fare.
    Crowd(Crowd),
    /// How fast a stream passes, part by part.
    Course(Course),
    /// What is kept for windows that slide.
    RetainedSlices(RetainedSlices),
}

impl Figure {
    /// One JSON object.
    pub fn json(&self) -> String {
        match self {
            Figure::Rate(line) => line.json(),
            Figure::Amount(amount) => amount.json(),
            Figure::Wait(wait) => wait.json(),
            Figure::Resident(resident) => resident.json(),
            Figure::State(state) => state.json(),
            Figure::Crowd(crowd) => crowd.json(),
            Figure::Course(course) => course.json(),
            Figure::RetainedSlices(kept) => kept.json(),
        }
    }

    /// One line of a table.
    pub fn text(&self) -> String {
        match self {
            Figure::Rate(line) => line.text(),
            Figure::Amount(amount) => amount.text(),
            Figure::Wait(wait) => wait.text(),
            Figure::Resident(resident) => resident.text(),
            Figure::State(state) => state.text(),
            Figure::Crowd(crowd) => crowd.text(),
            Figure::Course(course) => course.text(),
            Figure::RetainedSlices(kept) => kept.text(),
        }
    }
}

/// How long something took, each time.
#[derive(Debug, Clone, PartialEq)]
pub struct Wait {
    /// The benchmark.
    pub bench: String,
    /// The case.
    pub case: String,
    /// What was waited for.
    pub waited_for: String,
    /// Threads.
    pub workers: usize,
    /// Milliseconds.
    pub samples_ms: Samples,
}

impl Wait {
    fn json(&self) -> String {
        let Wait { bench, case, waited_for, workers, samples_ms } = self;
        let (median, least, most) = (samples_ms.median(), samples_ms.least(), samples_ms.most());
        format!(
            "{{\"bench\":\"{bench}\",\"case\":\"{case}\",\"waited_for\":\"{waited_for}\",\"workers\":{workers},\
             \"milliseconds\":{median:.3},\"milliseconds_min\":{least:.3},\"milliseconds_max\":{most:.3}}}"
        )
    }

    fn text(&self) -> String {
        let Wait { bench, case, waited_for, workers, samples_ms } = self;
        let (median, least, most) = (samples_ms.median(), samples_ms.least(), samples_ms.most());
        format!("{bench:<16} {case:<14} {waited_for:<12} {workers} {median:>9.2} ms ({least:.2}–{most:.2} ms)")
    }
}

/// How much of something there was, each time.
#[derive(Debug, Clone, PartialEq)]
pub struct Amount {
    /// The benchmark.
    pub bench: String,
    /// The case.
    pub case: String,
    /// Of what.
    pub what: String,
    /// Threads.
    pub workers: usize,
    /// In which unit.
    pub unit: String,
    /// How much.
    pub samples: Samples,
    /// What it should be.
    pub goal: Option<Goal>,
}

/// What an amount should be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// So much at most.
    AtMost(f64),
    /// So much at least.
    AtLeast(f64),
}

impl Amount {
    fn json(&self) -> String {
        let Amount { bench, case, what, workers, unit, samples, goal } = self;
        let (median, least, most) = (samples.median(), samples.least(), samples.most());
        format!(
            "{{\"bench\":\"{bench}\",\"case\":\"{case}\",\"what\":\"{what}\",\"workers\":{workers},\"unit\":\"{unit}\",\
             \"amount\":{median:.3},\"amount_min\":{least:.3},\"amount_max\":{most:.3}{}}}",
            match goal {
                None => String::new(),
                Some(Goal::AtMost(most)) => format!(",\"goal_max\":{most}"),
                Some(Goal::AtLeast(least)) => format!(",\"goal_min\":{least}"),
            }
        )
    }

    fn text(&self) -> String {
        let Amount { bench, case, what, workers, unit, samples, goal } = self;
        let (median, least, most) = (samples.median(), samples.least(), samples.most());
        let goal = match goal {
            None => String::new(),
            Some(Goal::AtMost(most)) => format!(", goal ≤ {most} {unit}"),
            Some(Goal::AtLeast(least)) => format!(", goal ≥ {least} {unit}"),
        };
        format!("{bench:<16} {case:<14} {what:<16} {workers} {median:>9.2} {unit} ({least:.2}–{most:.2} {unit}{goal})")
    }
}

/// The memory of a process while a stream passed through it.
#[derive(Debug, Clone, PartialEq)]
pub struct Resident {
    /// The benchmark.
    pub bench: String,
    /// The case.
    pub case: String,
    /// Threads.
    pub workers: usize,
    /// Most bytes resident at any time, each run.
    pub peaks: Samples,
    /// Most bytes resident in the last quarter of a run, divided by those in its second quarter: 1 where nothing grows.
    pub growth: Samples,
}

impl Resident {
    fn json(&self) -> String {
        let Resident { bench, case, workers, peaks, growth } = self;
        format!(
            "{{\"bench\":\"{bench}\",\"case\":\"{case}\",\"workers\":{workers},\"bytes_peak\":{:.0},\"growth\":{:.3}}}",
            peaks.median(),
            growth.median()
        )
    }

    fn text(&self) -> String {
        let Resident { bench, case, workers, peaks, growth } = self;
        format!(
            "{bench:<16} {case:<14} {:<12} {workers} {:>9.1} MB at most, last quarter {:.2} of the second",
            "resident",
            peaks.median() / 1e6,
            growth.median()
        )
    }
}

/// The memory of a query's windows.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// The benchmark.
    pub bench: String,
    /// The case.
    pub case: String,
    /// Threads.
    pub workers: usize,
    /// Most bytes at any time, each run, with slices.
    pub slices: Samples,
    /// The same with a table for each window.
    pub buckets: Samples,
}

impl State {
    fn json(&self) -> String {
        let State { bench, case, workers, slices, buckets } = self;
        format!(
            "{{\"bench\":\"{bench}\",\"case\":\"{case}\",\"workers\":{workers},\"bytes_state\":{:.0},\"bytes_state_buckets\":{:.0}}}",
            slices.median(),
            buckets.median()
        )
    }

    fn text(&self) -> String {
        let State { bench, case, workers, slices, buckets } = self;
        let (slices, buckets) = (slices.median(), buckets.median());
        format!(
            "{bench:<16} {case:<14} {:<12} {workers} {:>9.3} MB at most, {:.3} MB with a table for each window: {:.1} times",
            "state",
            slices / 1e6,
            buckets / 1e6,
            buckets / slices
        )
    }
}

/// What is kept for windows that slide by one row, and how long their results take.
#[derive(Debug, Clone, PartialEq)]
pub struct RetainedSlices {
    /// The benchmark.
    pub bench: String,
    /// The case.
    pub case: String,
    /// The engine, or an algorithm.
    pub strategy: String,
    /// How many values and partial results there are.
    pub partials: usize,
    /// Half of the results took so long at most, when rows came one at a time.
    pub median_ns: u64,
    /// All but one in a hundred did.
    pub p99_ns: u64,
    /// All did.
    pub max_ns: u64,
}

impl RetainedSlices {
    /// By how long each result took.
    pub fn new(bench: String, case: String, strategy: &str, partials: usize, mut taken_ns: Vec<u64>) -> RetainedSlices {
        taken_ns.sort_unstable();
        let at = |hundredths: usize| taken_ns.len().checked_sub(1).map_or(0, |last| taken_ns[last * hundredths / 100]);
        let (median_ns, p99_ns, max_ns) = (at(50), at(99), at(100));
        RetainedSlices { bench, case, strategy: strategy.to_string(), partials, median_ns, p99_ns, max_ns }
    }

    fn json(&self) -> String {
        let RetainedSlices { bench, case, strategy, partials, median_ns, p99_ns, max_ns } = self;
        format!(
            "{{\"bench\":\"{bench}\",\"case\":\"{case}\",\"strategy\":\"{strategy}\",\"partials\":{partials},\
             \"median_ns\":{median_ns},\"p99_ns\":{p99_ns},\"max_ns\":{max_ns}}}"
        )
    }

    fn text(&self) -> String {
        let RetainedSlices { bench, case, strategy, partials, median_ns, p99_ns, max_ns } = self;
        format!(
            "{bench:<16} {case:<14} {strategy:<12} {partials:>9} partial results, each row's result in {median_ns} ns, p99 {p99_ns} ns, at most {max_ns} ns"
        )
    }
}

/// Many queries at once under one policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Crowd {
    /// The benchmark.
    pub bench: String,
    /// The case.
    pub case: String,
    /// The table that they read, where there are queries of several kinds; empty else.
    pub kind: String,
    /// Who went first.
    pub policy: &'static str,
    /// Threads.
    pub workers: usize,
    /// Rows a second of all queries together.
    pub rows_per_s: Samples,
    /// Results were written so soon after the last row that they needed was read, in the mean,
    pub mean_ms: Samples,
    /// half of them,
    pub median_ms: Samples,
    /// and all but one in a hundred.
    pub p99_ms: Samples,
    /// So long before its end the last row was due of the query that was furthest behind; 0 where rows are not due at a time.
    pub behind_ms: Samples,
    /// Nanoseconds to choose a task.
    pub decision_ns: Samples,
    /// All of them together, of the time of tasks.
    pub deciding_share: Samples,
    /// Rows a second in those of another side, where one was measured.
    pub ratio_to: Option<(&'static str, f64)>,
}

impl Crowd {
    /// Nothing measured yet.
    pub(super) fn new(benchmark: &Benchmark, case: &Case, kind: &str, policy: &'static str, workers: usize) -> Crowd {
        Crowd {
            bench: benchmark.name.clone(),
            case: case.name.clone(),
            kind: kind.to_owned(),
            policy,
            workers,
            rows_per_s: Samples::default(),
            mean_ms: Samples::default(),
            median_ms: Samples::default(),
            p99_ms: Samples::default(),
            behind_ms: Samples::default(),
            decision_ns: Samples::default(),
            deciding_share: Samples::default(),
            ratio_to: None,
        }
    }

    pub(super) fn add(&mut self, shown: Shown) {
        self.rows_per_s.0.push(shown.rows_per_s);
        self.mean_ms.0.push(shown.mean_ms);
        self.median_ms.0.push(shown.median_ms);
        self.p99_ms.0.push(shown.p99_ms);
        self.behind_ms.0.push(shown.behind_ms);
        self.decision_ns.0.push(shown.decision_ns);
        self.deciding_share.0.push(shown.deciding_share);
    }

    fn json(&self) -> String {
        let Crowd { bench, case, kind, policy, workers, .. } = self;
        let kind = if kind.is_empty() { String::new() } else { format!(",\"kind\":\"{kind}\"") };
        let ratio = self.ratio_to.map_or(String::new(), |(side, ratio)| format!(",\"of_{side}\":{ratio:.3}"));
        format!(
            "{{\"bench\":\"{bench}\",\"case\":\"{case}\"{kind},\"policy\":\"{policy}\",\"workers\":{workers},\"crowd_records_per_s\":{:.0},\
             \"latency_mean_ms\":{:.3},\"latency_median_ms\":{:.3},\"latency_p99_ms\":{:.3},\"behind_ms\":{:.3},\"decision_ns\":{:.0},\"deciding_share\":{:.5}{ratio}}}",
            self.rows_per_s.median(),
            self.mean_ms.median(),
            self.median_ms.median(),
            self.p99_ms.median(),
            self.behind_ms.median(),
            self.decision_ns.median(),
            self.deciding_share.median()
        )
    }

    fn text(&self) -> String {
        let Crowd { bench, case, kind, policy, workers, rows_per_s, p99_ms, .. } = self;
        let name = format!("{case} {kind}");
        let ratio = self.ratio_to.map_or(String::new(), |(side, ratio)| format!("   {ratio:.2} of {side}"));
        format!(
            "{bench:<16} {name:<14} {policy:<15} {workers} {:>9.1} M/s ({:.1}–{:.1} M/s)   latency {:.3} ms, median {:.3} ms, p99 {:.3} ms ({:.3}–{:.3} ms), \
             {:.1} ms behind at the end   {:.0} ns a decision, {:.2} %{ratio}",
            rows_per_s.median() / 1e6,
            rows_per_s.least() / 1e6,
            rows_per_s.most() / 1e6,
            self.mean_ms.median(),
            self.median_ms.median(),
            p99_ms.median(),
            p99_ms.least(),
            p99_ms.most(),
            self.behind_ms.median(),
            self.decision_ns.median(),
            self.deciding_share.median() * 100.0
        )
    }
}

/// How many records pass a second.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The benchmark.
    pub bench: String,
    /// The case.
    pub case: String,
    /// What ran: `compiled`, `interpreted`, one of several loops, or `scan`, which only reads the columns.
    pub engine: String,
    /// Threads.
    pub workers: usize,
    /// Records a second.
    pub samples: Samples,
    /// Bytes of the columns used, a record.
    pub bytes_per_record: usize,
    /// The loop it was measured against, and that one's records a second.
    pub reference: Option<(String, Samples)>,
}

impl Line {
    /// The engine's speed divided by its reference's, each time they took turns: the middle of that.
    pub fn ratio(&self) -> Option<f64> {
        let (_, reference) = self.reference.as_ref()?;
        let turns = self.samples.0.iter().zip(&reference.0);
        Some(Samples(turns.map(|(engine, reference)| engine / reference).collect()).median())
    }

    /// One JSON object.
    pub fn json(&self) -> String {
        let records = self.samples.median();
        let (reference, reference_records) = match &self.reference {
            Some((name, samples)) => (format!("\"{name}\""), format!("{:.0}", samples.median())),
            None => ("null".to_string(), "null".to_string()),
        };
        let ratio = self.ratio().map_or("null".to_string(), |ratio| format!("{ratio:.3}"));
        format!(
            "{{\"bench\":\"{}\",\"case\":\"{}\",\"engine\":\"{}\",\"workers\":{},\"records_per_s\":{records:.0},\"bytes_per_s\":{:.0},\
             \"reference\":{reference},\"reference_records_per_s\":{reference_records},\"ratio\":{ratio}}}",
            self.bench,
            self.case,
            self.engine,
            self.workers,
            records * self.bytes_per_record as f64,
        )
    }

    /// One line of a table.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{:<16} {:<14} {:<12} {} {:>9.1} M/s {:>7.3} ns ({:.1}–{:.1} M/s) {:>6.1} GB/s",
            self.bench,
            self.case,
            self.engine,
            self.workers,
            self.samples.median() / 1e6,
            1e9 / self.samples.median(),
            self.samples.least() / 1e6,
            self.samples.most() / 1e6,
            self.samples.median() * self.bytes_per_record as f64 / 1e9,
        );
        if let (Some((name, samples)), Some(ratio)) = (&self.reference, self.ratio()) {
            // Writing to a string cannot fail.
            let _ = write!(text, "   {ratio:.2} of {name} at {:.1} M/s", samples.median() / 1e6);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_and_memory() {
        let wait = Wait {
            bench: "b".into(),
            case: "c".into(),
            waited_for: "first result".to_owned(),
            workers: 1,
            samples_ms: Samples(vec![2.0, 1.0, 4.5]),
        };
        assert_eq!(
            Figure::Wait(wait.clone()).json(),
            "{\"bench\":\"b\",\"case\":\"c\",\"waited_for\":\"first result\",\"workers\":1,\
             \"milliseconds\":2.000,\"milliseconds_min\":1.000,\"milliseconds_max\":4.500}"
        );
        assert!(Figure::Wait(wait).text().ends_with("2.00 ms (1.00–4.50 ms)"));
        let resident = Resident {
            bench: "b".into(),
            case: "c".into(),
            workers: 2,
            peaks: Samples(vec![2e8]),
            growth: Samples(vec![1.01]),
        };
        assert!(Figure::Resident(resident.clone()).json().ends_with("\"bytes_peak\":200000000,\"growth\":1.010}"));
        assert!(Figure::Resident(resident).text().ends_with("200.0 MB at most, last quarter 1.01 of the second"));
        let crowd = Crowd {
            bench: "b".into(),
            case: "c".into(),
            kind: "trip".into(),
            policy: "fcfs",
            workers: 2,
            rows_per_s: Samples(vec![2e8]),
            mean_ms: Samples(vec![0.5]),
            median_ms: Samples(vec![0.25]),
            p99_ms: Samples(vec![1.5]),
            behind_ms: Samples(vec![2.0]),
            decision_ns: Samples(vec![300.0]),
            deciding_share: Samples(vec![0.005]),
            ratio_to: Some(("threads_and_queues", 5.0)),
        };
        assert!(
            crowd
                .json()
                .contains("\"kind\":\"trip\",\"policy\":\"fcfs\",\"workers\":2,\"crowd_records_per_s\":200000000,")
        );
        assert!(Figure::Crowd(crowd).text().ends_with(
            "(1.500–1.500 ms), 2.0 ms behind at the end   300 ns a decision, 0.50 %   5.00 of threads_and_queues"
        ));
        let kept = RetainedSlices::new("b".into(), "c".into(), "pelton", 7, (1..=1_000).rev().collect());
        assert!(kept.json().ends_with("\"partials\":7,\"median_ns\":500,\"p99_ns\":990,\"max_ns\":1000}"));
        assert!(
            Figure::RetainedSlices(kept)
                .text()
                .ends_with("7 partial results, each row's result in 500 ns, p99 990 ns, at most 1000 ns")
        );
        let (slices, buckets) = (Samples(vec![2e6]), Samples(vec![5e6]));
        let state = State { bench: "b".into(), case: "c".into(), workers: 1, slices, buckets };
        assert!(
            Figure::State(state.clone()).json().ends_with("\"bytes_state\":2000000,\"bytes_state_buckets\":5000000}")
        );
        assert!(Figure::State(state).text().ends_with("5.000 MB with a table for each window: 2.5 times"));
    }

    #[test]
    fn medians_and_ratios() {
        assert_eq!(Samples(vec![3.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(Samples(vec![4.0, 1.0]).median(), 2.5);
        assert_eq!(Samples((1..=200).rev().map(f64::from).collect()).quantile(0.99), 198.0);
        let line = Line {
            bench: "b".into(),
            case: "c".into(),
            engine: "compiled".into(),
            workers: 2,
            samples: Samples(vec![2e9]),
            bytes_per_record: 17,
            reference: Some(("loop".into(), Samples(vec![2.5e9]))),
        };
        assert_eq!(
            line.json(),
            "{\"bench\":\"b\",\"case\":\"c\",\"engine\":\"compiled\",\"workers\":2,\"records_per_s\":2000000000,\"bytes_per_s\":34000000000,\
             \"reference\":\"loop\",\"reference_records_per_s\":2500000000,\"ratio\":0.800}"
        );
        assert!(line.text().contains("0.500 ns") && line.text().ends_with("0.80 of loop at 2500.0 M/s"));
        assert!(
            Line { reference: None, ..line }
                .json()
                .ends_with("\"reference\":null,\"reference_records_per_s\":null,\"ratio\":null}")
        );
    }
}
