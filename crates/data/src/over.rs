//! OVER: what is computed for each row from the rows around it, in the order of their times.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};

use crate::block::TimeColumn;
use crate::time::Micros;
use crate::udaf::{Merging, UdafHandle};

/// The rows that a row's value is computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Frame {
    /// `ROWS`: the row itself and so many before it, or all where there is no number.
    Rows {
        /// Rows before the row.
        preceding: Option<u64>,
    },
    /// `RANGE`: all rows whose time is the row's own or at most so much before it, or before it at all where there is no number.
    Range {
        /// Length of time, in microseconds.
        preceding: Option<Micros>,
    },
    /// `RANGE` in processing time: the row itself and the rows that came at most so much before it. Rows have no peers, because rows that are
    /// read together share a clock reading: peers would depend on how rows are cut into blocks.
    Arrived {
        /// Length of time, in microseconds.
        preceding: Micros,
    },
    /// `ROWS … FOLLOWING`: the row itself, so many before it and so many after it, or all where there is no number.
    RowsAround {
        /// Rows before the row.
        preceding: Option<u64>,
        /// Rows after the row.
        following: Option<u64>,
    },
    /// `RANGE … FOLLOWING`: all rows whose time is at most so much before the row's, or after it, or before or after it at all where there is no number.
    RangeAround {
        /// Length of time, in microseconds.
        preceding: Option<Micros>,
        /// Length of time, in microseconds.
        following: Option<Micros>,
    },
}

/// Where a frame ends that ends after its row: all calls of one node have one such end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FrameEnd {
    /// So long after the row, in microseconds.
    Range(Micros),
    /// So many rows after the row.
    Rows(u64),
    /// With the last row of all.
    Unbounded,
}

impl Frame {
    /// Whether rows leave the frame again.
    pub fn is_bounded(&self) -> bool {
        match self {
            Frame::Rows { preceding } | Frame::RowsAround { preceding, .. } => preceding.is_some(),
            Frame::Range { preceding } | Frame::RangeAround { preceding, .. } => preceding.is_some(),
            Frame::Arrived { .. } => true,
        }
    }

    /// Where the frame ends, if that is after its row: the row's value waits for the rows until there.
    pub fn end(&self) -> Option<FrameEnd> {
        match *self {
            Frame::Rows { .. } | Frame::Range { .. } | Frame::Arrived { .. } => None,
            Frame::RowsAround { following, .. } => Some(following.map_or(FrameEnd::Unbounded, FrameEnd::Rows)),
            Frame::RangeAround { following, .. } => Some(following.map_or(FrameEnd::Unbounded, FrameEnd::Range)),
        }
    }

    /// The same frame in processing time, where each row has a time of its own. A frame that ends some time after its row has none.
    pub fn in_processing_time(self) -> Frame {
        match self {
            Frame::RangeAround { preceding: None, following: None } => {
                Frame::RowsAround { preceding: None, following: None }
            }
            Frame::RangeAround { preceding: Some(0), following: None } => {
                Frame::RowsAround { preceding: Some(0), following: None }
            }
            Frame::Range { preceding: None } => Frame::Rows { preceding: None },
            Frame::Range { preceding: Some(0) } => Frame::Rows { preceding: Some(0) },
            Frame::Range { preceding: Some(preceding) } => Frame::Arrived { preceding },
            other => other,
        }
    }
}

/// What is computed from the rows of a frame.
#[derive(Debug, Clone, PartialEq)]
pub enum OverFunction {
    /// `ROW_NUMBER()`: how many rows there were, whatever the frame.
    RowNumber,
    /// `RANK()`: one more than the rows of earlier times, whatever the frame; or `DENSE_RANK()`: how many times there were.
    Rank {
        /// Whether times are counted.
        is_dense: bool,
    },
    /// `LAG(x, n)`: the value so many rows before, whatever the frame; NULL where there are fewer.
    Lag {
        /// How many.
        rows: u64,
    },
    /// `LEAD(x, n)`: the value so many rows after, with which the frame ends; NULL where there are fewer.
    Lead {
        /// How many.
        rows: u64,
    },
    /// `COUNT(*)`.
    CountRows,
    /// `COUNT(x)`: values that are not NULL.
    Count,
    /// `SUM(x)`.
    Sum,
    /// `AVG(x)`.
    Mean,
    /// `VAR_POP(x)` and `VAR_SAMP(x)`, or, as their roots, `STDDEV_POP(x)` and `STDDEV_SAMP(x)`.
    Variance {
        /// Whether the values are a sample, of which there must be two.
        is_sample: bool,
        /// Whether the root is asked for.
        is_root: bool,
    },
    /// `MIN(x)`; floating-point values are in total order.
    Minimum,
    /// `MAX(x)`; floating-point values are in total order.
    Maximum,
    /// `FIRST_VALUE(x)`: NULLs are passed over.
    First,
    /// `LAST_VALUE(x)`: NULLs are passed over.
    Last,
    /// `MODE(x)`: the value that there is most of, the smallest of several.
    Mode,
    /// `PERCENTILE_CONT(x, fraction)`, and `MEDIAN(x)`, or `PERCENTILE_DISC(x, fraction)`.
    Percentile {
        /// Which, from 0 to 1.
        fraction: f64,
        /// Whether it may lie between two values, which are floating-point then.
        is_continuous: bool,
        /// Whether values are counted from the largest.
        is_descending: bool,
    },
    /// `ARRAY_AGG(x)`, in the order of the rows.
    Array {
        /// Whether NULLs are passed over.
        ignores_nulls: bool,
    },
    /// `LISTAGG(x, delimiter)`, in the order of the rows: NULLs are passed over.
    Joined {
        /// What stands between two.
        delimiter: Arc<str>,
    },
    /// A function that the program defines.
    Udaf {
        /// Which.
        function: UdafHandle,
        /// The input's columns that are its arguments, at least one.
        arguments: Vec<usize>,
        /// The input's column that says which rows count, if not all do.
        condition: Option<usize>,
    },
}

/// One function over one frame.
#[derive(Debug, Clone, PartialEq)]
pub struct OverCall {
    /// What.
    pub function: OverFunction,
    /// Whether each value counts once. Of functions for which that makes no difference it does not.
    pub is_distinct: bool,
    /// The input's column that it is computed from; none where rows are counted, and of the program's own functions.
    pub argument: Option<usize>,
    /// The frame.
    pub frame: Frame,
    /// The result's type.
    pub data_type: DataType,
}

/// How a call follows its frame from row to row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sliding {
    /// The frame's bounds say it all.
    Bounds,
    /// The value is looked up: so many rows before, or where a value of the frame comes first or last that is not NULL.
    Lookup,
    /// Values only enter.
    Running,
    /// Values that leave are subtracted.
    SubtractOnEvict,
    /// Sums of the rows to come out and of those that came in, in runs: nothing is ever subtracted, so that sums do not drift.
    TwoStacks,
    /// Values that may become the extreme one day wait in a queue.
    MonotoneQueue,
    /// It is counted how often each value comes, of those that leave once less.
    Frequencies,
    /// As well, and values are in the order of their counts.
    OrderedFrequencies,
    /// As well, and the distinct values are in their order.
    RankedFrequencies,
    /// Values are in their order, out of which those are taken that leave.
    Ranked,
    /// The values of each frame are gone through.
    Listed,
}

impl Sliding {
    /// Whether all values of the frame are held.
    pub fn holds_values(self) -> bool {
        self.counts_values() || self == Sliding::Ranked
    }

    /// Whether it is counted how often each value comes.
    pub fn counts_values(self) -> bool {
        matches!(self, Sliding::Frequencies | Sliding::OrderedFrequencies | Sliding::RankedFrequencies)
    }
}

impl OverCall {
    /// The input's columns that it is computed from.
    pub fn columns(&self) -> impl Iterator<Item = usize> {
        let (arguments, condition) = match &self.function {
            OverFunction::Udaf { arguments, condition, .. } => (arguments.as_slice(), *condition),
            _ => (&[][..], None),
        };
        self.argument.into_iter().chain(arguments.iter().copied()).chain(condition)
    }

    /// The same, to be given other numbers.
    pub fn columns_mut(&mut self) -> impl Iterator<Item = &mut usize> {
        let (arguments, condition) = match &mut self.function {
            OverFunction::Udaf { arguments, condition, .. } => (arguments.as_mut_slice(), condition.as_mut()),
            _ => (&mut [][..], None),
        };
        self.argument.iter_mut().chain(arguments).chain(condition)
    }

    /// How it follows its frame, where its argument has this type.
    pub fn sliding(&self, argument: Option<&DataType>) -> Sliding {
        match &self.function {
            OverFunction::RowNumber | OverFunction::Rank { .. } | OverFunction::CountRows => Sliding::Bounds,
            OverFunction::Lag { .. } | OverFunction::Lead { .. } | OverFunction::First | OverFunction::Last => {
                Sliding::Lookup
            }
            OverFunction::Array { .. } | OverFunction::Joined { .. } => Sliding::Listed,
            OverFunction::Mode => Sliding::OrderedFrequencies,
            OverFunction::Percentile { .. } if self.is_distinct => Sliding::RankedFrequencies,
            OverFunction::Percentile { .. } => Sliding::Ranked,
            _ if self.is_distinct => Sliding::Frequencies,
            _ if !self.frame.is_bounded() => Sliding::Running,
            OverFunction::Udaf { function, .. } => match function.0.merging() {
                Merging::Invert => Sliding::SubtractOnEvict,
                Merging::Combine => Sliding::TwoStacks,
                Merging::Rows => Sliding::Listed,
            },
            OverFunction::Minimum | OverFunction::Maximum => Sliding::MonotoneQueue,
            OverFunction::Count => Sliding::SubtractOnEvict,
            OverFunction::Sum | OverFunction::Mean | OverFunction::Variance { .. } => {
                if argument.is_some_and(DataType::is_floating) { Sliding::TwoStacks } else { Sliding::SubtractOnEvict }
            }
        }
    }

    /// How many rows before a row, or how long before it, values are kept for it; `None` where none are.
    pub fn kept(&self, argument: Option<&DataType>) -> Option<Frame> {
        match (&self.function, self.sliding(argument)) {
            (OverFunction::Lag { rows }, _) => Some(Frame::Rows { preceding: Some(*rows) }),
            (_, Sliding::Listed) => Some(self.frame),
            (OverFunction::First, _) if self.frame.is_bounded() => Some(self.frame),
            // Candidates that are text are looked up.
            (_, Sliding::MonotoneQueue) if argument.is_some_and(is_text) => Some(self.frame),
            (_, Sliding::SubtractOnEvict | Sliding::TwoStacks) => Some(self.frame),
            (_, sliding) if sliding.holds_values() && self.frame.is_bounded() => Some(self.frame),
            _ => None,
        }
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8View | DataType::BinaryView)
}

/// One output column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverColumn {
    /// A column of the input.
    Input(usize),
    /// The value of `OverSpec::calls[i]`.
    Value(usize),
}

/// Functions over the rows of each key, in the order of their times or of their arrival.
#[derive(Debug, Clone)]
pub struct OverSpec {
    /// The input's columns.
    pub input_schema: SchemaRef,
    /// Which of them is the time that rows are put in the order of; none where they stay in the order of their arrival. It is never NULL.
    pub time: Option<TimeColumn>,
    /// Which of them are the keys that rows are partitioned by.
    pub keys: Vec<usize>,
    /// What is computed.
    pub calls: Vec<OverCall>,
    /// The output's columns.
    pub columns: Vec<OverColumn>,
    /// Their names and types.
    pub schema: SchemaRef,
}

impl OverSpec {
    /// Where all frames end, if that is after their rows.
    pub fn frame_end(&self) -> Option<FrameEnd> {
        self.calls.first().and_then(|call| call.frame.end())
    }

    /// Type of a call's argument.
    pub fn argument_type(&self, call: &OverCall) -> Option<&DataType> {
        call.argument.map(|argument| self.input_schema.field(argument).data_type())
    }

    /// The output's column that is the time, if any.
    pub fn output_time(&self) -> Option<TimeColumn> {
        let time = self.time?;
        let index = self.columns.iter().position(|column| *column == OverColumn::Input(time.index))?;
        Some(TimeColumn { index, ..time })
    }
}
