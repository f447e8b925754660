//! What a run has done so far, for people and programs that watch it.

mod operators;

use std::collections::BTreeMap;
use std::time::Duration;

use pelton_data::Micros;
use pelton_data::window::Emission;
use pelton_state::kernel::Tier;

pub use self::operators::OperatorProgress;
use crate::adapt::story::Story;
use crate::graph::{PipelineTarget, StreamRef};
pub use crate::operators::{Holding, OpenWindows, WaitingRows};
use crate::output::latency::{Latencies, Latency};
use crate::scheduler::dispatch::backpressure::{HeldBackBy, held_back_by};
use crate::shared::Shared;
use crate::source::LeftOut;
pub use crate::source::sequence::Leap;
use crate::source::sequence::Partition;
use crate::state::{SinkState, SourceState, State};
use crate::sync::atomic::Ordering;

/// A look at a run, while it runs or after it.
#[derive(Debug, Clone)]
pub struct Progress {
    /// Since the run began, until it ended.
    pub elapsed: Duration,
    /// How it fares now.
    pub load: LoadProgress,
    /// Inputs.
    pub sources: Vec<SourceProgress>,
    /// Pipelines.
    pub pipelines: Vec<PipelineProgress>,
    /// Stateful operators: windows, and functions OVER rows.
    pub stateful: Vec<StatefulProgress>,
    /// Outputs.
    pub sinks: Vec<SinkProgress>,
    /// All of these, as the scheduler sees them.
    pub operators: Vec<OperatorProgress>,
}

impl Progress {
    /// Rows that came after their time, over all operators.
    pub fn late_rows(&self) -> u64 {
        self.stateful.iter().map(|operator| operator.late_rows).sum()
    }

    /// The windows that are open at each of the operators that have windows.
    pub fn windows(&self) -> impl Iterator<Item = (&StatefulProgress, &OpenWindows)> {
        self.stateful.iter().filter_map(|operator| match &operator.holding {
            Holding::Windows(open) => Some((operator, open)),
            Holding::Rows(_) => None,
        })
    }

    /// Of all outputs together since the run began: of results, or, where there were none, of marks.
    pub fn latency(&self) -> Latency {
        results_or_marks(|of_one| self.latency_of(of_one, |latency| &latency.all))
    }

    /// The same since an earlier look at the run.
    pub fn latency_since(&self, earlier: &Progress) -> Latency {
        results_or_marks(|of_one| {
            let mut all = self.latency_of(of_one, |latency| &latency.all);
            all.subtract(&earlier.latency_of(of_one, |latency| &latency.all));
            all
        })
    }

    /// The same of the last ten seconds, and up to twenty.
    pub fn recent_latency(&self) -> Latency {
        results_or_marks(|of_one| self.latency_of(of_one, |latency| &latency.recent))
    }

    fn latency_of(&self, of_one: OfSink, when: fn(&LatencyProgress) -> &Latency) -> Latency {
        self.sinks.iter().map(of_one).map(when).fold(Latency::default(), |mut all, sink| {
            all.add(sink);
            all
        })
    }
}

/// One of the latencies of an output.
type OfSink = fn(&SinkProgress) -> &LatencyProgress;

fn results_or_marks(latency: impl Fn(OfSink) -> Latency) -> Latency {
    let results = latency(|sink| &sink.results);
    if results.processing_ns.is_empty() { latency(|sink| &sink.marks) } else { results }
}

/// How a run fares: rates are those of the last second or two.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadProgress {
    /// Rows decoded a second.
    pub rows_in_per_s: f64,
    /// Rows written a second.
    pub rows_out_per_s: f64,
    /// Workers that are busy with it, on average.
    pub busy_cores: f64,
    /// Rows that were read and wait.
    pub rows_waiting: u64,
    /// Bytes of them.
    pub bytes_waiting: u64,
    /// Bytes of what its operators remember and of what it has read into memory to join with or to replay, when they were measured last.
    pub state_bytes: u64,
    /// How often a worker was given something to do for it, since it began,
    pub decisions: u64,
    /// how long workers took to choose that,
    pub deciding: Duration,
    /// how long they waited for each other before they could,
    pub waiting: Duration,
    /// how long they took to wake each other then,
    pub waking: Duration,
    /// and how long they were busy with it.
    pub busy: Duration,
    /// What is furthest downstream of what its inputs wait for, where they are not read for want of room; or the setting that leaves none.
    pub held_back_by: Option<String>,
}

/// A time for people, in the unit that suits it.
pub fn time_with_unit(micros: u64) -> String {
    let units = [("d", 86_400e6, 2.0), ("h", 3_600e6, 2.0), ("min", 60e6, 2.0), ("s", 1e6, 1.0), ("ms", 1e3, 1.0)];
    match units.into_iter().find(|(_, unit, least)| micros as f64 >= unit * least) {
        Some((name, unit, _)) => format!("{:.2} {name}", micros as f64 / unit),
        None => format!("{micros} µs"),
    }
}

/// What a source has delivered.
#[derive(Debug, Clone)]
pub struct SourceProgress {
    /// The table's name.
    pub name: String,
    /// Rows decoded and queued.
    pub rows: u64,
    /// The same of late, in a second.
    pub rows_per_s: f64,
    /// Bytes of their columns (a string counts 16).
    pub bytes: u64,
    /// What of its input is not among them.
    pub left_out: LeftOut,
    /// How far its event time has come, in microseconds.
    pub watermark: Micros,
    /// Whether a worker is asking it for rows.
    pub is_being_read: bool,
    /// The longest leap that its watermark made, or one of its partitions'.
    pub leap: Option<Leap>,
}

/// What a pipeline has done.
#[derive(Debug, Clone)]
pub struct PipelineProgress {
    /// Which.
    pub name: String,
    /// How its code runs now.
    pub tier: Tier,
    /// How long it took to prepare or compile that code.
    pub preparation: Duration,
    /// Rows of its blocks.
    pub rows: u64,
    /// Blocks.
    pub blocks: u64,
    /// Time workers spent in it.
    pub busy: Duration,
    /// What has become of its code.
    pub story: Story,
}

impl PipelineProgress {
    /// Nanoseconds a row of input.
    pub fn nanos_per_row(&self) -> f64 {
        self.busy.as_nanos() as f64 / (self.rows.max(1)) as f64
    }
}

/// What a stateful operator has done.
#[derive(Debug, Clone)]
pub struct StatefulProgress {
    /// Which.
    pub name: String,
    /// Input rows that came after their time, and were left out.
    pub late_rows: u64,
    /// Rows that have left it.
    pub rows: u64,
    /// Time workers spent turning state into rows.
    pub busy: Duration,
    /// Bytes of state.
    pub state_bytes: u64,
    /// Up to where its results are final: the least watermark of its inputs, less what it is delayed by, in microseconds.
    pub watermark: Micros,
    /// Whether the rows before that have left.
    pub has_kept_up: bool,
    /// Whether it has come to its end. What it still holds then has not been reported, as the run was stopped early.
    pub has_ended: bool,
    /// What it holds.
    pub holding: Holding,
    /// Whose time is furthest behind of all partitions that its rows come from; an idle one only where all are, and none where all have ended.
    pub held_back_by: Option<Laggard>,
    /// Partitions that its rows come from, and that have delivered nothing for so long that they do not hold time back.
    pub idle: Vec<Laggard>,
}

impl StatefulProgress {
    /// Windows, or rows, that had not been reported when the run was stopped early.
    pub fn unreported(&self) -> u64 {
        match &self.holding {
            _ if !self.has_ended => 0,
            // They are reported by the windows that share them.
            Holding::Windows(open) if open.is_shared => 0,
            Holding::Windows(open) => open.slices,
            Holding::Rows(waiting) => waiting.rows,
        }
    }
}

/// A partition of a source, and how far it has come: one that others wait for, or wait for no longer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Laggard {
    /// The table's name.
    pub source: String,
    /// Which of its partitions, from 0.
    pub partition: usize,
    /// How far its event time has come, in microseconds: what was read of it, also where that waits to be processed.
    pub watermark: Micros,
    /// How much later than by that windows are reported that wait for it: rows of it may be so late, in microseconds.
    pub delay: Micros,
    /// It has delivered nothing for so long that it does not hold time back.
    pub is_idle: bool,
}

impl Laggard {
    /// Up to where windows that wait for it may be over, in microseconds.
    pub fn reached(&self) -> Micros {
        Emission { delay: self.delay, ..Emission::default() }.delayed(self.watermark)
    }
}

/// What an output has taken.
#[derive(Debug, Clone)]
pub struct SinkProgress {
    /// Which.
    pub name: String,
    /// Rows written.
    pub rows: u64,
    /// What people should know about where rows go.
    pub remarks: Vec<String>,
    /// Whether it is taking rows at this moment, or cannot take any: whoever reads them may be slow.
    pub is_held_up: bool,
    /// How long results take.
    pub results: LatencyProgress,
    /// Of what has become no result, or is in windows, until the output would have had it, for one block in 50 ms of each source.
    pub marks: LatencyProgress,
}

/// How long something takes.
#[derive(Debug, Clone)]
pub struct LatencyProgress {
    /// Since the run began.
    pub all: Latency,
    /// In the last ten seconds, and up to twenty.
    pub recent: Latency,
}

impl LatencyProgress {
    pub(crate) fn of(latencies: &mut Latencies, now_ns: u64) -> LatencyProgress {
        LatencyProgress { all: latencies.all(), recent: latencies.recent(now_ns) }
    }
}

impl Shared {
    pub fn progress(&self) -> Progress {
        let until_ns = self.clock.nanos().min(self.ended_ns.load(Ordering::SeqCst));
        let elapsed = Duration::from_nanos(until_ns - self.started_ns);
        let holding: Vec<Holding> = self.graph.operators.iter().map(|operator| operator.0.holding()).collect();
        let mut state = self.state();
        let holding = holding.into_iter().enumerate();
        let now_ns = self.clock.nanos();
        let sources = state.sources.iter().map(|node| SourceProgress {
            name: node.name.clone(),
            rows: node.rows,
            rows_per_s: state.source_rows_a_second(node, now_ns),
            bytes: node.bytes,
            left_out: node.left_out.clone(),
            watermark: node.sequencer.watermark(),
            is_being_read: node.reading,
            leap: node.sequencer.leap().cloned(),
        });
        let pipelines = state.pipelines.iter().zip(&self.graph.pipelines).map(|(state, node)| {
            let (tier, preparation) = node.kernel.tier();
            PipelineProgress {
                name: node.name.clone(),
                tier,
                preparation,
                rows: state.rows,
                blocks: state.blocks,
                busy: Duration::from_nanos(state.busy_ns),
                story: node.kernel.story(),
            }
        });
        Progress {
            elapsed,
            load: self.load(&state),
            sources: sources.collect(),
            pipelines: pipelines.collect(),
            stateful: holding.map(|(operator, holding)| self.stateful_progress(&state, operator, holding)).collect(),
            operators: self.operators(&state, now_ns),
            sinks: state.sinks.iter_mut().map(|node| sink_progress(node, now_ns)).collect(),
        }
    }

    fn load(&self, state: &State) -> LoadProgress {
        let [rows_in_per_s, rows_out_per_s, busy_ns_per_s] = state.rates_a_second(self.clock.nanos());
        LoadProgress {
            rows_in_per_s,
            rows_out_per_s,
            busy_cores: busy_ns_per_s / 1e9,
            rows_waiting: state.rows_waiting() + state.waiting.unread().rows(),
            bytes_waiting: (state.bytes_waiting() + state.waiting.unread().bytes()) as u64,
            state_bytes: self.options.budget.query_bytes() as u64,
            decisions: state.decisions,
            deciding: Duration::from_nanos(state.deciding_ns),
            waiting: Duration::from_nanos(state.waited_ns),
            waking: Duration::from_nanos(state.waking_ns),
            busy: Duration::from_nanos(state.mark(0).busy_ns),
            held_back_by: held_back_by(state, self.options.workers).map(|by| match by {
                HeldBackBy::Node(node) => self.name(node).to_owned(),
                HeldBackBy::Memory => "'pelton.memory'".to_owned(),
            }),
        }
    }
}

fn sink_progress(node: &mut SinkState, now_ns: u64) -> SinkProgress {
    let [results, marks] = [&mut node.results, &mut node.marks].map(|latencies| LatencyProgress::of(latencies, now_ns));
    let is_held_up = node.writing || node.blocked_at.is_some();
    let (name, remarks) = (node.name.clone(), node.remarks.clone());
    SinkProgress { name, rows: node.rows, remarks, is_held_up, results, marks }
}

impl Shared {
    /// The partition whose time is furthest behind for a stream of all that it comes from, of those that are not idle if there are any.
    pub(crate) fn laggard(&self, state: &State, stream: StreamRef) -> Option<Laggard> {
        let behind = self.sources_of(stream).into_iter().filter_map(|(source, delay)| {
            let node = &state.sources[source];
            node.sequencer.partition_behind().map(|partition| partition_of(node, partition, delay))
        });
        behind.min_by_key(|laggard| (laggard.is_idle, laggard.reached()))
    }

    /// Of an operator that holds so much.
    pub(crate) fn stateful_progress(&self, state: &State, operator: usize, holding: Holding) -> StatefulProgress {
        let (node, stream) = (&state.operators[operator], StreamRef::Operator(operator));
        StatefulProgress {
            name: node.name.clone(),
            late_rows: node.late_rows,
            rows: node.results.rows,
            busy: Duration::from_nanos(node.busy_ns),
            state_bytes: holding.bytes(),
            // Where state is handed on, time is told when something has ended.
            watermark: state.operators[self.graph.handed_on_from(operator)].reach(),
            has_kept_up: !node.advancing && !node.must_advance(),
            has_ended: node.ended,
            holding,
            held_back_by: self.laggard(state, stream),
            idle: self.idle(state, stream),
        }
    }

    /// The idle partitions of all that a stream comes from.
    pub(crate) fn idle(&self, state: &State, stream: StreamRef) -> Vec<Laggard> {
        let partitions = self.sources_of(stream).into_iter().flat_map(|(source, delay)| {
            let node = &state.sources[source];
            (0..node.sequencer.partitions.len()).map(move |partition| partition_of(node, partition, delay))
        });
        partitions.filter(|partition| partition.is_idle).collect()
    }

    /// The sources that a stream comes from, with what windows on the longest way from there to it, itself included, are delayed by.
    fn sources_of(&self, stream: StreamRef) -> BTreeMap<usize, Micros> {
        let feeding = |delay: Micros, feeds: &dyn Fn(&PipelineTarget) -> bool| {
            let mut sources = BTreeMap::new();
            for node in self.graph.pipelines.iter().filter(|node| feeds(&node.target)) {
                for (source, before) in self.sources_of(node.input) {
                    let longest = sources.entry(source).or_insert(0);
                    *longest = before.saturating_add(delay).max(*longest);
                }
            }
            sources
        };
        match stream {
            StreamRef::Source(source) => BTreeMap::from([(source, 0)]),
            StreamRef::Pipeline(pipeline) => self.sources_of(self.graph.pipelines[pipeline].input),
            StreamRef::Operator(operator) => {
                let fed = self.graph.handed_on_from(operator);
                feeding(
                    self.operator(operator).delay(),
                    &|target| matches!(*target, PipelineTarget::Operator { operator, .. } if operator == fed),
                )
            }
        }
    }
}

fn partition_of(node: &SourceState, partition: usize, delay: Micros) -> Laggard {
    let Partition { watermark, is_idle, .. } = node.sequencer.partitions[partition];
    Laggard { source: node.name.clone(), partition, watermark, delay, is_idle }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_the_unit_that_suits_it() {
        let (s, min, h, d) = (1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000);
        for (micros, text) in [
            (0, "0 µs"),
            (999, "999 µs"),
            (1_000, "1.00 ms"),
            (7_126, "7.13 ms"),
            (s, "1.00 s"),
            (119 * s, "119.00 s"),
            (2 * min, "2.00 min"),
            (119 * min, "119.00 min"),
            (2 * h, "2.00 h"),
            (47 * h, "47.00 h"),
            (2 * d, "2.00 d"),
            (20_000 * d, "20000.00 d"),
        ] {
            assert_eq!(time_with_unit(micros), text);
        }
    }
}
