//! Joins of two streams: which rows are put together, and what leaves.

use arrow::datatypes::SchemaRef;

use crate::Micros;
use crate::block::TimeColumn;
use crate::window::Window;

/// Which rows leave a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JoinKind {
    /// Pairs of rows that match.
    Inner,
    /// The same, and rows of the left side without a match, with NULLs.
    Left,
    /// The same, and rows of the right side without a match, with NULLs.
    Right,
    /// The same, and rows of either side without a match, with NULLs.
    Full,
    /// Rows of the left side with a match, once each.
    Semi,
    /// Rows of the left side without a match.
    Anti,
}

/// The sides of a join, which are the ports of its operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// Port 0.
    Left,
    /// Port 1.
    Right,
}

/// How times decide which rows of equal keys match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinTime {
    /// Both rows are in one window: in windows with the same end. Pairs are reported once for each window that has both.
    Windows {
        /// The windows of the rows of each side. Where a side's rows are results of windows, they are the windows that these results fall into
        /// ([`Window::of_results`]).
        sides: [Window; 2],
        /// The windows that pairs are reported for.
        bounds: Window,
    },
    /// `left time - right time` is at least `lower` and at most `upper`, in microseconds.
    Interval {
        /// At least.
        lower: Micros,
        /// At most.
        upper: Micros,
    },
    /// Each row of the left side matches one row of the right side: of those whose times are on the given side of its own, the nearest. Of rows of one time it
    /// is the last that came.
    Nearest {
        /// `left time >= right time` (or `>`), the latest such row; else `left time <= right time` (or `<`), the earliest.
        is_backward: bool,
        /// Whether a row of the same time does not match.
        is_strict: bool,
    },
}

/// One side of a join.
#[derive(Debug, Clone)]
pub struct JoinSide {
    /// Its rows.
    pub schema: SchemaRef,
    /// The columns of its rows that are equal to those of the other side: as many, of the same types. NULL is equal to nothing.
    pub keys: Vec<usize>,
    /// When its rows were, where that is looked at once more: rows are put into windows when they come.
    pub time: Option<TimeColumn>,
}

/// A column of the pairs that leave a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JoinColumn {
    /// A column of a side's rows; NULL for rows of the other side without a match.
    Of(Side, usize),
    /// A bound of the window; where there is a side, NULL for rows of the other side without a match.
    Window(WindowBound, Option<Side>),
}

/// What windows have as columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WindowBound {
    /// First instant.
    Start,
    /// First instant after the window.
    End,
    /// Last millisecond.
    Time,
}

/// A join of two streams.
#[derive(Debug, Clone)]
pub struct JoinSpec {
    /// Which rows leave.
    pub kind: JoinKind,
    /// How times decide which rows match.
    pub time: JoinTime,
    /// The left and the right side.
    pub sides: [JoinSide; 2],
    /// The columns of what leaves.
    pub columns: Vec<JoinColumn>,
    /// Their names and types.
    pub schema: SchemaRef,
    /// Which of them is the event time of what leaves.
    pub output_time: Option<TimeColumn>,
}

impl Side {
    /// Both.
    pub const BOTH: [Side; 2] = [Side::Left, Side::Right];

    /// The number of its port.
    pub fn port(self) -> usize {
        self as usize
    }

    /// The other one.
    pub fn other(self) -> Side {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }
}

impl JoinKind {
    /// Whether rows of a side leave that have no match.
    pub fn keeps_unmatched(self, side: Side) -> bool {
        match side {
            Side::Left => matches!(self, JoinKind::Left | JoinKind::Full | JoinKind::Anti),
            Side::Right => matches!(self, JoinKind::Right | JoinKind::Full),
        }
    }

    /// Whether pairs leave, and not rows of the left side alone.
    pub fn has_pairs(self) -> bool {
        !matches!(self, JoinKind::Semi | JoinKind::Anti)
    }
}
