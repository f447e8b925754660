//! What a run has done so far, for people and programs that watch it.

use std::time::Duration;

use hdrhistogram::Histogram;
use pelton_data::Micros;
use pelton_data::window::Window;
use pelton_state::kernel::Tier;

use crate::adapt::story::Story;
use crate::source::LeftOut;

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
    /// Window aggregations.
    pub windows: Vec<WindowProgress>,
    /// Functions OVER rows.
    pub overs: Vec<OverProgress>,
    /// Outputs.
    pub sinks: Vec<SinkProgress>,
}

impl Progress {
    /// Rows that came after their time, over all windows and functions OVER rows.
    pub fn late_rows(&self) -> u64 {
        let windows = self.windows.iter().map(|window| window.late_rows);
        windows.chain(self.overs.iter().map(|over| over.late_rows)).sum()
    }

    /// Bytes of what windows and functions OVER rows remember.
    pub fn state_bytes(&self) -> u64 {
        let windows = self.windows.iter().map(|window| window.state_bytes);
        windows.chain(self.overs.iter().map(|over| over.state_bytes)).sum()
    }

    /// Of all outputs together: [`SinkProgress::latency_ns`], or, where there were no results, [`SinkProgress::marker_latency_ns`].
    pub fn latency_ns(&self) -> Histogram<u64> {
        let of_all = |of_one: fn(&SinkProgress) -> &Histogram<u64>| {
            self.sinks.iter().map(of_one).fold(latency_histogram(), |mut all, sink| {
                // They have the same bounds.
                all.add(sink).expect("a latency fits");
                all
            })
        };
        let results = of_all(|sink| &sink.latency_ns);
        if results.is_empty() { of_all(|sink| &sink.marker_latency_ns) } else { results }
    }
}

/// How a run fares: rates are those of the last second or two, and of a longer time where nothing has happened since.
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
    /// Bytes of them, of which a string counts 16.
    pub bytes_waiting: u64,
    /// How often a worker was given something to do for it, since it began,
    pub decisions: u64,
    /// how long workers took to choose that,
    pub deciding: Duration,
    /// and how long they were busy with it.
    pub busy: Duration,
    /// What is furthest downstream of what its inputs wait for, where they are not read for want of room; or the setting that leaves none.
    pub held_back_by: Option<String>,
}

/// Latencies are kept to three digits, up to a minute and a half.
pub(crate) fn latency_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 100_000_000_000, 3).expect("the bounds are those of a histogram")
}

/// What a source has delivered.
#[derive(Debug, Clone)]
pub struct SourceProgress {
    /// The table's name.
    pub name: String,
    /// Rows decoded and queued.
    pub rows: u64,
    /// Bytes of their columns (a string counts 16).
    pub bytes: u64,
    /// What of its input is not among them.
    pub left_out: LeftOut,
    /// How far its event time has come, in microseconds.
    pub watermark: Micros,
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

/// What a window aggregation has done.
#[derive(Debug, Clone)]
pub struct WindowProgress {
    /// Which.
    pub name: String,
    /// How rows are assigned to them. Where rows are counted, instants below are numbers of rows.
    pub window: Window,
    /// Input rows that came after their window had closed, and were left out.
    pub late_rows: u64,
    /// Rows of closed windows.
    pub rows: u64,
    /// Time workers spent closing windows.
    pub busy: Duration,
    /// Slices that were open when the run was stopped early, and were not reported.
    pub open_slices_dropped: u64,
    /// Bytes of open slices.
    pub state_bytes: u64,
    /// Up to where windows are over: the least watermark of its inputs, in microseconds.
    pub watermark: Micros,
    /// The end of the first window that is open and has rows; of sessions, the earliest that one can have. The largest time stands for the end
    /// of the input.
    pub next_end: Option<Micros>,
    /// Whose time is furthest behind of all partitions that its rows come from; an idle one only where all are, and none where all have ended.
    pub held_back_by: Option<Laggard>,
    /// Partitions that its rows come from, and that have delivered nothing for so long that they do not hold time back.
    pub idle: Vec<Laggard>,
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
    /// It has delivered nothing for so long that it does not hold time back.
    pub is_idle: bool,
}

/// What functions OVER rows have done.
#[derive(Debug, Clone)]
pub struct OverProgress {
    /// Which.
    pub name: String,
    /// Input rows that came after the watermark had passed their time, and were left out.
    pub late_rows: u64,
    /// Rows with results.
    pub rows: u64,
    /// Time workers spent computing them.
    pub busy: Duration,
    /// Rows that waited for the watermark when the run was stopped early, and were not reported.
    pub waiting_rows_dropped: u64,
    /// Bytes of rows that wait or are looked back at.
    pub state_bytes: u64,
}

/// What an output has taken.
#[derive(Debug, Clone)]
pub struct SinkProgress {
    /// Which.
    pub name: String,
    /// Rows written.
    pub rows: u64,
    /// From reading the last input that a result needed to writing the result, in nanoseconds, one value a batch.
    pub latency_ns: Histogram<u64>,
    /// From reading what has become no result, or is in windows, to when the output would have had it, in nanoseconds, for one block in 50 ms of each
    /// source.
    pub marker_latency_ns: Histogram<u64>,
}
