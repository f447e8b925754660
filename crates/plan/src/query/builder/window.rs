//! Windows of queries that are put together by calls.

use std::time::Duration;

use datafusion_common::{Column, Result};
use datafusion_expr::LogicalPlan;
use pelton_data::Micros;

use crate::bind::window::{
    WindowNode, check_length, check_offset, check_rows, cumulative, hopping, partition_column, time_column,
};
use crate::errors::PlanError;
use crate::pipeline::Window;
use crate::query::builder::{RelationBuilder, step};

/// Windows that rows are cut into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowWindow {
    /// By a time attribute.
    Time(TimeWindow),
    /// By the number of rows.
    Count(CountWindow),
}

impl From<TimeWindow> for RowWindow {
    fn from(window: TimeWindow) -> RowWindow {
        RowWindow::Time(window)
    }
}

impl From<CountWindow> for RowWindow {
    fn from(window: CountWindow) -> RowWindow {
        RowWindow::Count(window)
    }
}

/// Windows that rows are cut into by a time attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeWindow {
    time: String,
    kind: WindowKind,
    /// Of sessions the gap.
    size: Duration,
    offset: Duration,
    /// What sessions are partitioned by.
    keys: Vec<String>,
}

/// How windows follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WindowKind {
    Tumbling,
    Hopping { slide: Duration },
    Cumulative { step: Duration },
    Session,
}

/// Windows of so many rows, in the order of their arrival. They have no time: `window_start` and `window_end` are numbers of rows, from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountWindow {
    size: u64,
    slide: u64,
    keys: Vec<String>,
}

impl CountWindow {
    /// `TUMBLE_ROWS`: windows of `size` rows, one after the other.
    pub fn tumble(size: u64) -> CountWindow {
        CountWindow { size, slide: size, keys: Vec::new() }
    }

    /// `HOP_ROWS`: windows of `size` rows, one every `slide` rows. A row is in none where the slide is larger than the size and leaves it out.
    pub fn hop(slide: u64, size: u64) -> CountWindow {
        CountWindow { size, slide, keys: Vec::new() }
    }

    /// Counts the rows of each key by themselves. The columns are those that the windows are then grouped by.
    pub fn partition_by<K: Into<String>>(self, keys: impl IntoIterator<Item = K>) -> CountWindow {
        CountWindow { keys: keys.into_iter().map(Into::into).collect(), ..self }
    }

    fn window(&self) -> Result<Window, PlanError> {
        let rows = |what: &str, rows: u64| {
            let hint = "call CountWindow::tumble(100), or CountWindow::hop(10, 100)";
            check_rows(what, i64::try_from(rows).map_err(|_| rows.to_string()), None, hint)
        };
        Ok(Window::Rows { size: rows("size", self.size)?, slide: rows("slide", self.slide)? })
    }
}

impl TimeWindow {
    /// `TUMBLE`: windows of length `size`, one after the other, by the time attribute `time`.
    pub fn tumble(time: impl Into<String>, size: Duration) -> TimeWindow {
        TimeWindow { time: time.into(), kind: WindowKind::Tumbling, size, offset: Duration::ZERO, keys: Vec::new() }
    }

    /// `HOP`: windows of length `size`, one every `slide`, by the time attribute `time`. A row is in all windows that hold
    /// its time, and in none where the slide is longer than the size and leaves it out.
    pub fn hop(time: impl Into<String>, slide: Duration, size: Duration) -> TimeWindow {
        TimeWindow { kind: WindowKind::Hopping { slide }, ..TimeWindow::tumble(time, size) }
    }

    /// `CUMULATE`: windows that begin together, one `step` longer than the other up to a length of `size`, and begin anew then,
    /// by the time attribute `time`.
    pub fn cumulate(time: impl Into<String>, step: Duration, size: Duration) -> TimeWindow {
        TimeWindow { kind: WindowKind::Cumulative { step }, ..TimeWindow::tumble(time, size) }
    }

    /// `SESSION`: rows at most `gap` apart by the time attribute `time`, one after the other: of all rows, or of those of each key
    /// ([`TimeWindow::partition_by`]).
    pub fn session(time: impl Into<String>, gap: Duration) -> TimeWindow {
        TimeWindow { kind: WindowKind::Session, ..TimeWindow::tumble(time, gap) }
    }

    /// Gives the rows of each key sessions of their own. The columns are those that the sessions are then grouped by.
    pub fn partition_by<K: Into<String>>(self, keys: impl IntoIterator<Item = K>) -> TimeWindow {
        TimeWindow { keys: keys.into_iter().map(Into::into).collect(), ..self }
    }

    /// Lets the windows begin so much later than at multiples of their size, or of their slide where they hop.
    pub fn offset(self, offset: Duration) -> TimeWindow {
        TimeWindow { offset, ..self }
    }

    fn window(&self) -> Result<Window, PlanError> {
        let length = |what: &str, length: Duration| {
            let length = micros(length);
            check_length(what, length, None).map(|()| length)
        };
        let sized = || {
            if !self.keys.is_empty() {
                let error = PlanError::invalid(None, "only sessions are partitioned");
                return Err(error.with_hint("group other windows by their keys"));
            }
            let (size, offset) = (length("size", self.size)?, micros(self.offset));
            check_offset(offset, size, None)?;
            Ok((size, offset))
        };
        match self.kind {
            WindowKind::Tumbling => sized().map(|(size, offset)| Window::Tumbling { size, offset }),
            WindowKind::Hopping { slide } => {
                let (size, offset) = sized()?;
                Ok(hopping(size, length("slide", slide)?, offset))
            }
            WindowKind::Cumulative { step } => {
                let (size, offset) = sized()?;
                cumulative(size, length("step", step)?, offset, None)
            }
            WindowKind::Session if self.offset != Duration::ZERO => {
                Err(PlanError::invalid(None, "sessions have no offset"))
            }
            WindowKind::Session => Ok(Window::Session { gap: length("gap", self.size)? }),
        }
    }
}

impl RelationBuilder {
    /// Cuts rows into windows: adds `window_start`, `window_end` and, unless rows are counted, `window_time`.
    ///
    /// # Errors
    /// [`PlanError`] where the rows have no such time attribute or keys, or the window no such length.
    pub fn window(self, window: &RowWindow) -> Result<RelationBuilder, PlanError> {
        let (time, cut, keys) = match window {
            RowWindow::Time(window) => (Some(&window.time), window.window()?, &window.keys),
            RowWindow::Count(window) => (None, window.window()?, &window.keys),
        };
        let input = step(&[], || self.selected())?;
        let time = time.map(|time| time_column(&input, time, None)).transpose()?;
        let keys = keys.iter().map(|key| partition_column(&input, key, None)).collect::<Result<_, _>>()?;
        let added = input.schema().fields().len();
        let plan: LogicalPlan = step(&[], || Ok(WindowNode::new(input, time, cut, keys, None)?.into_plan()))?;
        let bounds = [added, added + 1].map(|index| Column::from(plan.schema().qualified_field(index)));
        Ok(RelationBuilder { plan, aggregated: None, bounds: Some(bounds) })
    }
}

/// Micros of a length, rounded up: what is finer than they are is no whole number of milliseconds either.
fn micros(length: Duration) -> Micros {
    Micros::try_from(length.as_nanos().div_ceil(1_000)).unwrap_or(Micros::MAX)
}
