//! What a query has done so far, for people and programs that watch it.

use std::time::Duration;

use pelton_data::Micros;
use pelton_data::time::WATERMARK_MIN;
use pelton_runtime::adapt::story::Story;
use pelton_runtime::latency;
use pelton_runtime::progress as run;
use pelton_runtime::source;
use pelton_state::kernel::Tier;

/// A snapshot of the figures of a query, while it runs or at its end: [`Query::progress`](crate::Query::progress).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Progress {
    /// Time since the query began, until it ended.
    pub elapsed: Duration,
    /// Rates and queue lengths.
    pub load: Load,
    /// Tables that are read.
    pub sources: Vec<SourceProgress>,
    /// Compiled pipelines.
    pub pipelines: Vec<PipelineProgress>,
    /// Stateful operators: window aggregations, rankings, and functions OVER rows.
    pub operators: Vec<OperatorProgress>,
    /// Outputs.
    pub sinks: Vec<SinkProgress>,
    /// All figures of the runtime.
    run: run::Progress,
}

impl Progress {
    /// Rows that came after their time and were left out, over all operators.
    pub fn late_rows(&self) -> u64 {
        self.operators.iter().map(|operator| operator.late_rows).sum()
    }

    /// Latency of all outputs since the query began.
    pub fn latency(&self) -> Latency {
        Latency(self.run.latency())
    }

    /// Latency of all outputs since an earlier snapshot of the same query.
    pub fn latency_since(&self, earlier: &Progress) -> Latency {
        Latency(self.run.latency_since(&earlier.run))
    }

    /// Latency of all outputs in the last ten to twenty seconds.
    pub fn recent_latency(&self) -> Latency {
        Latency(self.run.recent_latency())
    }

    /// All figures of the runtime, for the project's own tests and benchmarks. They change without notice.
    #[doc(hidden)]
    pub fn run(&self) -> &run::Progress {
        &self.run
    }
}

impl From<run::Progress> for Progress {
    fn from(run: run::Progress) -> Progress {
        Progress {
            elapsed: run.elapsed,
            load: Load::of(&run.load),
            sources: run.sources.iter().map(SourceProgress::of).collect(),
            pipelines: run.pipelines.iter().map(PipelineProgress::of).collect(),
            operators: run.stateful.iter().map(OperatorProgress::of).collect(),
            sinks: run.sinks.iter().map(SinkProgress::of).collect(),
            run,
        }
    }
}

/// Rates over the last second or two, and queue lengths.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Load {
    /// Rows read and decoded, a second.
    pub rows_in_per_s: f64,
    /// Rows written, a second.
    pub rows_out_per_s: f64,
    /// Workers that are busy with the query, on average.
    pub busy_cores: f64,
    /// Rows that were read and wait to be processed.
    pub rows_waiting: u64,
    /// Bytes of these.
    pub bytes_waiting: u64,
    /// Bytes of the state of operators and of joined tables.
    pub state_bytes: u64,
    /// Operator or output that makes the sources wait for want of memory, or the setting that leaves none.
    pub held_back_by: Option<String>,
}

impl Load {
    fn of(run: &run::LoadProgress) -> Load {
        Load {
            rows_in_per_s: run.rows_in_per_s,
            rows_out_per_s: run.rows_out_per_s,
            busy_cores: run.busy_cores,
            rows_waiting: run.rows_waiting,
            bytes_waiting: run.bytes_waiting,
            state_bytes: run.state_bytes,
            held_back_by: run.held_back_by.clone(),
        }
    }
}

/// Figures of a table that is read.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SourceProgress {
    /// Name of the table.
    pub name: String,
    /// Rows read and decoded.
    pub rows: u64,
    /// Rows a second, over the last second or two.
    pub rows_per_s: f64,
    /// Bytes of the columns that were read.
    pub bytes: u64,
    /// Watermark in microseconds since 1970; `None` before the first row, [`i64::MAX`] when the input has ended.
    pub watermark: Option<Micros>,
    /// Whether a worker is reading from it at this moment.
    pub is_being_read: bool,
    /// Rows and values of the input that are not among its rows.
    pub left_out: LeftOut,
    /// The longest step that the watermark made.
    pub longest_watermark_step: Option<WatermarkStep>,
}

impl SourceProgress {
    fn of(run: &run::SourceProgress) -> SourceProgress {
        SourceProgress {
            name: run.name.clone(),
            rows: run.rows,
            rows_per_s: run.rows_per_s,
            bytes: run.bytes,
            watermark: watermark(run.watermark),
            is_being_read: run.is_being_read,
            left_out: LeftOut::of(&run.left_out),
            longest_watermark_step: run.leap.as_ref().map(WatermarkStep::of),
        }
    }
}

/// Rows and values of an input that are not among the rows of its table.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct LeftOut {
    /// Rows that could not be decoded and were skipped (`'on-error' = 'skip'`).
    pub skipped_rows: u64,
    /// What was wrong with the first of them.
    pub skipped_errors: Vec<String>,
    /// Values that could not be decoded and are NULL.
    pub null_values: u64,
    /// What was wrong with the first of them.
    pub null_errors: Vec<String>,
    /// Rows that were dropped because they were not read in time (`'on-overload' = 'drop'`).
    pub dropped_rows: u64,
    /// Columns that no row has.
    pub absent_columns: Vec<AbsentColumn>,
}

impl LeftOut {
    /// Whether no row and no value was left out.
    pub fn is_empty(&self) -> bool {
        self.skipped_rows == 0 && self.null_values == 0 && self.dropped_rows == 0
    }

    fn of(run: &source::LeftOut) -> LeftOut {
        let errors = |undecoded: &source::Undecoded| undecoded.first.iter().map(|row| row.error.to_string()).collect();
        LeftOut {
            skipped_rows: run.rejected.count,
            skipped_errors: errors(&run.rejected),
            null_values: run.nulled.count,
            null_errors: errors(&run.nulled),
            dropped_rows: run.dropped_count,
            absent_columns: run.absent.columns.iter().map(|column| AbsentColumn::of(column, &run.absent)).collect(),
        }
    }
}

/// A column, or a field of a ROW, that no row of the input has: it is NULL in all rows.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AbsentColumn {
    /// Its name; of a field how it is reached, such as `order.items[…].price`.
    pub name: String,
    /// Whether it is a field of a ROW.
    pub is_field: bool,
    /// Rows, or values of the ROW, that were looked at.
    pub rows: u64,
    /// A name that may have been meant; empty if none is near.
    pub hint: String,
    /// The first file or other input without it.
    pub input: String,
    /// Whether other inputs were looked at as well.
    pub has_other_inputs: bool,
}

impl AbsentColumn {
    fn of(column: &source::AbsentColumn, absent: &source::Absent) -> AbsentColumn {
        AbsentColumn {
            name: column.name.clone(),
            is_field: column.is_field,
            rows: column.rows,
            hint: column.hint.clone(),
            input: absent.place.clone(),
            has_other_inputs: absent.has_other_places,
        }
    }
}

/// A row that moved the watermark.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatermarkStep {
    /// Event time of the row, in microseconds since 1970.
    pub event_time: Micros,
    /// Watermark before it, in microseconds since 1970.
    pub from: Micros,
    /// Watermark behind it, in microseconds since 1970.
    pub to: Micros,
    /// Input and number of the row, where they are known.
    pub row: Option<(String, u64)>,
}

impl WatermarkStep {
    fn of(run: &run::Leap) -> WatermarkStep {
        let row = run.provenance.as_ref().map(|row| (row.input.to_string(), row.first_row));
        WatermarkStep { event_time: run.event_time, from: run.from, to: run.to, row }
    }
}

/// Figures of a pipeline: what runs between two stateful operators, as one piece of code.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PipelineProgress {
    /// Number, input and target.
    pub name: String,
    /// Rows it has processed.
    pub rows: u64,
    /// Time that workers spent in it.
    pub busy: Duration,
    /// The code that runs now.
    pub code: Code,
}

impl PipelineProgress {
    fn of(run: &run::PipelineProgress) -> PipelineProgress {
        PipelineProgress { name: run.name.clone(), rows: run.rows, busy: run.busy, code: Code::of(run) }
    }

    /// Nanoseconds of workers a row.
    pub fn nanos_per_row(&self) -> f64 {
        self.busy.as_nanos() as f64 / self.rows.max(1) as f64
    }
}

/// The code of a pipeline, and how it has adapted.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Code {
    /// Whether it is machine code; otherwise it is interpreted.
    pub is_compiled: bool,
    /// Time it took to prepare or compile it.
    pub preparation: Duration,
    /// What it is specialised for, as in the names of the settings `pelton.adapt.*`; `None` for generic code.
    pub specialisation: Option<&'static str>,
    /// Whether groups are found by the number that is their key, without hashing.
    pub has_dense_keys: bool,
    /// Nanoseconds a row with this code; `None` before the first row.
    pub nanos_per_row: Option<f64>,
    /// Nanoseconds a row while the pipeline was interpreted, where it was and is no more.
    pub interpreted_nanos_per_row: Option<f64>,
    story: Story,
}

impl Code {
    fn of(run: &run::PipelineProgress) -> Code {
        let story = run.story.clone();
        let current = story.variants.iter().find(|variant| variant.is_current);
        let before = story.variants.iter().find(|variant| variant.tier == Tier::Interpreted && !variant.is_current);
        Code {
            is_compiled: run.tier == Tier::Compiled,
            preparation: run.preparation,
            specialisation: current.and_then(|variant| variant.specialisation).map(|special| special.name()),
            has_dense_keys: story.keys.is_some(),
            nanos_per_row: current.and_then(|variant| variant.nanos_per_row()),
            interpreted_nanos_per_row: before.and_then(|variant| variant.nanos_per_row()),
            story,
        }
    }

    /// How far adaptation is: `generic`, `instrumented` or `specialised`.
    pub fn stage(&self) -> String {
        self.story.stage.to_string()
    }

    /// The figures of the code that runs and its last `events_max` adaptation events, as lines of text.
    pub fn history(&self, events_max: usize) -> Vec<String> {
        let story = &self.story;
        let current = story.variants.iter().filter(|variant| variant.is_current).map(|variant| variant.figures());
        let events = story.events.iter().skip(story.events.len().saturating_sub(events_max));
        let events = events.map(|event| format!("at {:.1} s: {}", event.at.as_secs_f64(), event.summary()));
        current.chain(events).chain(story.keys_since()).chain(story.keys_figures()).collect()
    }
}

/// Figures of a stateful operator.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OperatorProgress {
    /// Kind and number.
    pub name: String,
    /// Rows it has emitted.
    pub rows: u64,
    /// Rows that came after their time and were left out.
    pub late_rows: u64,
    /// Time that workers spent emitting rows.
    pub busy: Duration,
    /// Bytes of its state.
    pub state_bytes: u64,
    /// Time before which its results are final, in microseconds since 1970; `None` before the first row, [`i64::MAX`] at the end.
    pub watermark: Option<Micros>,
    /// What it holds.
    pub state: OperatorState,
    /// Windows, or rows, that were not emitted because the query was stopped.
    pub unreported: u64,
    /// Table and partition whose watermark it waits for; `None` when its input has ended.
    pub held_back_by: Option<(String, usize)>,
}

impl OperatorProgress {
    fn of(run: &run::StatefulProgress) -> OperatorProgress {
        OperatorProgress {
            name: run.name.clone(),
            rows: run.rows,
            late_rows: run.late_rows,
            busy: run.busy,
            state_bytes: run.state_bytes,
            watermark: watermark(run.watermark),
            state: match &run.holding {
                run::Holding::Windows(open) => OperatorState::Windows { open: open.slices, next_end: open.next_end },
                run::Holding::Rows(waiting) => OperatorState::Rows { waiting: waiting.rows },
            },
            unreported: run.unreported(),
            held_back_by: run.held_back_by.as_ref().map(|laggard| (laggard.source.clone(), laggard.partition)),
        }
    }
}

/// What a stateful operator holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperatorState {
    /// Windows.
    Windows {
        /// Slices of time that are open.
        open: u64,
        /// End of the first open window, in microseconds since 1970; of count windows, in rows. `None` if none is open.
        next_end: Option<Micros>,
    },
    /// Rows.
    Rows {
        /// Rows that wait for the watermark or for later rows.
        waiting: u64,
    },
}

/// Figures of an output.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SinkProgress {
    /// Name of the table, or of the result.
    pub name: String,
    /// Rows written.
    pub rows: u64,
    /// What users should know about how rows were written.
    pub remarks: Vec<String>,
    /// Whether it is writing at this moment, or waits for its reader.
    pub is_held_up: bool,
}

impl SinkProgress {
    fn of(run: &run::SinkProgress) -> SinkProgress {
        let run::SinkProgress { name, rows, remarks, is_held_up, .. } = run;
        SinkProgress { name: name.clone(), rows: *rows, remarks: remarks.clone(), is_held_up: *is_held_up }
    }
}

/// How long results take. Queries without results are measured by marks that pass through them.
#[derive(Debug, Clone)]
pub struct Latency(latency::Latency);

impl Latency {
    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.0.processing_ns.is_empty()
    }

    /// Time from reading the last row that a result needed to writing the result; `quantile` is from 0 to 1.
    pub fn processing(&self, quantile: f64) -> Option<Duration> {
        let processing_ns = &self.0.processing_ns;
        (!processing_ns.is_empty()).then(|| Duration::from_nanos(processing_ns.value_at_quantile(quantile)))
    }

    /// Time from the event time of a result to writing it; `quantile` is from 0 to 1.
    pub fn event_time(&self, quantile: f64) -> Option<Duration> {
        let event_time_us = &self.0.event_time_us;
        (!event_time_us.is_empty()).then(|| Duration::from_micros(event_time_us.value_at_quantile(quantile)))
    }
}

fn watermark(micros: Micros) -> Option<Micros> {
    (micros != WATERMARK_MIN).then_some(micros)
}
