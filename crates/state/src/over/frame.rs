//! Where the frame of each row begins and ends.

use std::ops::Range;

use pelton_data::over::Frame;

use super::row_store::ColumnStore;

/// A frame in the units of the time column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameTicks {
    /// So many rows before each row, or all.
    Rows(Option<u64>),
    /// So many ticks before each row, or all; and all rows of the row's own time.
    Range(Option<i64>),
}

/// The frames of a run of rows: positions among the key's rows.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    /// First row of each frame.
    pub starts: Vec<u64>,
    /// One past the last row of each frame. None lies behind the run.
    pub ends: Vec<u64>,
}

impl FrameTicks {
    pub fn new(frame: Frame, micros_per_tick: i64) -> FrameTicks {
        match frame {
            Frame::Rows { preceding } => FrameTicks::Rows(preceding),
            Frame::Range { preceding } => FrameTicks::Range(preceding.map(|micros| micros.div_euclid(micros_per_tick))),
        }
    }

    /// Whether rows of one time must be seen at once.
    pub fn needs_peers(self) -> bool {
        matches!(self, FrameTicks::Range(_))
    }

    /// Whether the times of earlier rows are looked back at.
    pub fn needs_times(self) -> bool {
        matches!(self, FrameTicks::Range(Some(_)))
    }

    /// The frames of the rows whose times are `ticks`, the first of which is the key's row `position`. `start` is where the frame of
    /// the row before began, and is moved; `times` holds the times of the rows from there to the end of the run.
    pub fn bounds(self, ticks: &[i64], position: u64, start: &mut u64, times: &ColumnStore<i64>, bounds: &mut Bounds) {
        let Bounds { starts, ends } = bounds;
        starts.clear();
        ends.clear();
        let rows: Range<u64> = position..position + ticks.len() as u64;
        match self {
            FrameTicks::Rows(_) => ends.extend(rows.clone().map(|row| row + 1)),
            FrameTicks::Range(_) => {
                let mut end = 0;
                while end < ticks.len() {
                    let peers = ticks[end..].iter().take_while(|&&tick| tick == ticks[end]).count();
                    end += peers;
                    ends.resize(end, position + end as u64);
                }
            }
        }
        match self {
            FrameTicks::Rows(None) | FrameTicks::Range(None) => starts.resize(ticks.len(), 0),
            FrameTicks::Rows(Some(preceding)) => starts.extend(rows.map(|row| row.saturating_sub(preceding))),
            FrameTicks::Range(Some(preceding)) => starts.extend(ticks.iter().map(|&tick| {
                let first = tick.saturating_sub(preceding);
                while times.get(*start) < first {
                    *start += 1;
                }
                *start
            })),
        }
        if let Some(&last) = starts.last() {
            *start = last;
        }
    }
}
