//! What the runtime runs.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use pelton_data::arrangement::Arrangement;
use pelton_data::block::ticks;
use pelton_data::over::OverSpec;
use pelton_data::time::WATERMARK_MAX;
use pelton_data::window::{Combination, Emission, SessionSlots, Window};
use pelton_data::{Micros, Stamp, TimeColumn};
use pelton_state::kernel::KernelError;
use pelton_state::layout::EntryLayout;
use pelton_state::ranking::Ranker;
use pelton_state::window::Contents;

use crate::adapt::KernelSlot;
use crate::results::Timed;
use crate::sink::Sink;
use crate::source::Source;

/// Sources, pipelines, windows and sinks of one or more queries. Upstream nodes have smaller indices than downstream ones of their kind, but for slices that
/// windows share.
pub struct Graph {
    /// Inputs.
    pub sources: Vec<SourceNode>,
    /// Pipelines, each over one stream.
    pub pipelines: Vec<PipelineNode>,
    /// Window aggregations.
    pub windows: Vec<WindowNode>,
    /// Functions OVER rows.
    pub overs: Vec<OverNode>,
    /// Outputs.
    pub sinks: Vec<SinkNode>,
}

/// A stream of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamRef {
    /// `Graph::sources[i]`.
    Source(usize),
    /// `Graph::pipelines[i]`.
    Pipeline(usize),
    /// `Graph::windows[i]`.
    Window(usize),
    /// `Graph::overs[i]`.
    Over(usize),
}

/// An input.
pub struct SourceNode {
    /// For people: the table's name.
    pub name: String,
    /// Reads it.
    pub source: Box<dyn Source>,
    /// Schema of its blocks.
    pub schema: SchemaRef,
    /// How its rows are placed in time.
    pub time: SourceTime,
    /// A partition that has delivered nothing for so long does not hold event time back; none does without it.
    pub idle_timeout: Option<Duration>,
}

/// How a source's rows are placed in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceTime {
    /// Not at all.
    None,
    /// Not at all, but a column says when they were made: latency is measured by it.
    Noted {
        /// The column.
        column: TimeColumn,
    },
    /// By a column, with the watermark trailing the partition's largest time by `delay` microseconds.
    Event {
        /// The column.
        column: TimeColumn,
        /// How far the watermark trails.
        delay: Micros,
        /// A row whose time is further ahead of the clock does not move the watermark, where there is a bound.
        ahead_max: Option<Micros>,
    },
    /// By the engine's clock when a block is taken in; the sequencer appends it as the last column
    /// (`Timestamp(Millisecond, "+00:00")`, not null) of what the source decoded.
    Processing,
}

/// A pipeline: its code can be replaced at any time, and takes effect with the next block.
pub struct PipelineNode {
    /// For people.
    pub name: String,
    /// Where its blocks come from.
    pub input: StreamRef,
    /// Its code.
    pub kernel: Arc<KernelSlot>,
    /// Where its rows go.
    pub target: PipelineTarget,
}

/// Where a pipeline's rows go.
#[derive(Debug, Clone)]
pub enum PipelineTarget {
    /// Into its own stream.
    Stream {
        /// Schema of that stream.
        schema: SchemaRef,
    },
    /// Into `Graph::windows[i]`.
    Window(usize),
    /// Into `Graph::overs[over]`.
    Over {
        /// Which.
        over: usize,
        /// The input's column that is passed on as the time of the rows, if the code looks at it for nothing else.
        passed_time: Option<usize>,
    },
}

/// A window aggregation, or the first rows of windows, fed by the pipelines that target it.
pub struct WindowNode {
    /// For people.
    pub name: String,
    /// Which windows.
    pub window: Window,
    /// How they are put together from slices.
    pub combination: Combination,
    /// When they are reported besides when their time has come.
    pub emission: Emission,
    /// Which accumulators tell the sessions, where the windows are sessions.
    pub session_slots: Option<SessionSlots>,
    /// What an entry of its tables holds.
    pub layout: Arc<EntryLayout>,
    /// Whether what is read out says when windows begin or end.
    pub has_bounds: bool,
    /// Chooses the rows that are kept, where these are not groups.
    pub ranker: Option<Arc<Ranker>>,
    /// Reads groups or rows of closed windows out.
    pub read_out: ReadOut,
    /// Reads all rows of groups out, group by group, where rows are kept with groups and `read_out` gives the first of them.
    pub read_all: Option<ReadOut>,
    /// Schema of what is read out.
    pub schema: SchemaRef,
    /// Its event-time column, if any.
    pub time_column: Option<TimeColumn>,
    /// Windows that are put together from its slices: `Graph::windows[i]`. Where there are any, that is all that becomes of them, and `window` is what they are
    /// cut by (`Window::grid`).
    pub shared_by: Vec<usize>,
}

impl WindowNode {
    /// Whether it is slices that windows share.
    pub(crate) fn is_shared(&self) -> bool {
        !self.shared_by.is_empty()
    }

    /// Up to where windows are over for the rows of a block and for those behind it in its stream, as far as its stamp tells.
    pub(crate) fn over_until(&self, stamp: &Stamp) -> Micros {
        over_until(&self.window, self.emission, stamp)
    }

    /// What windows hold as rows, where there are any, with when the last of the windows was over; where these do not end by event time, with the
    /// largest time.
    pub(crate) fn rows(&self, contents: Contents<'_>) -> Result<Option<Timed>, KernelError> {
        let end = if self.window.counts_rows() { WATERMARK_MAX } else { contents.end() };
        Ok((self.read_out)(contents)?.map(|batch| (batch, end)))
    }
}

fn over_until(window: &Window, emission: Emission, stamp: &Stamp) -> Micros {
    match window {
        // A row that comes at the watermark may belong to a session; and other windows are not over by time.
        Window::Session { .. } | Window::Rows { .. } | Window::RowsByKey { .. } | Window::Global => Micros::MIN,
        // The block's own partition may be ahead of others, whose rows come behind it. The time of results is not in their stamps.
        _ => window.over_until(emission.delayed(stamp.watermark_before.min(stamp.watermark))),
    }
}

/// Functions of the rows around each row, fed by the pipelines that target it.
pub struct OverNode {
    /// For people.
    pub name: String,
    /// What is computed.
    pub spec: OverSpec,
}

impl OverNode {
    /// The newest time of rows that leave, all of which are before `until`; the largest where they are in no order of time.
    pub(crate) fn newest(&self, rows: &RecordBatch, until: Micros) -> Micros {
        if self.spec.time.is_none() {
            return WATERMARK_MAX;
        }
        let times = self.spec.output_time().map(|time| (ticks(rows.column(time.index)), time.micros_per_tick));
        // Rows that wait for others of their keys leave in no order of time.
        let last = |ticks: &Int64Array| match self.spec.frame_end() {
            Some(_) => ticks.values().iter().copied().max(),
            None => ticks.values().last().copied(),
        };
        let newest = times.and_then(|(ticks, tick)| last(&ticks).map(|last| last.saturating_mul(tick)));
        newest.unwrap_or(until)
    }
}

/// Turns what closed windows hold into rows, where there are any.
pub type ReadOut = Box<dyn Fn(Contents<'_>) -> Result<Option<RecordBatch>, KernelError> + Send + Sync>;

/// An output, fed by one or more streams.
pub struct SinkNode {
    /// For people.
    pub name: String,
    /// Streams that feed it; rows of one stream keep their order.
    pub inputs: Vec<StreamRef>,
    /// Which of the rows are written, and in which order.
    pub arrangement: Arrangement,
    /// Takes the rows.
    pub sink: Box<dyn Sink>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_over_for_what_comes_when_they_are_for_all_partitions() {
        let tumbling = Window::Tumbling { size: 10, offset: 0 };
        let stamp = |watermark_before, watermark| Stamp { watermark_before, watermark, ..Stamp::default() };
        let until =
            |window: &Window, delay, stamp| over_until(window, Emission { delay, ..Emission::default() }, &stamp);
        assert_eq!(until(&tumbling, 0, stamp(100, 130)), 100, "the block itself has come further");
        assert_eq!(until(&tumbling, 0, stamp(100, 70)), 70, "another partition is behind");
        assert_eq!(until(&tumbling, 30, stamp(100, 130)), 70, "windows are delayed");
        assert_eq!(
            until(&Window::Session { gap: 10 }, 0, stamp(100, 130)),
            Micros::MIN,
            "the next row may belong to one"
        );
    }
}
