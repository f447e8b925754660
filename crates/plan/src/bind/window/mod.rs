//! Window table functions: `TUMBLE(TABLE t, DESCRIPTOR(time), size [, offset])`, `HOP` and `CUMULATE` likewise, and
//! `SESSION(TABLE t [PARTITION BY key, …], DESCRIPTOR(time), gap)`; and `TUMBLE_ROWS(TABLE t [PARTITION BY key, …], size)` and `HOP_ROWS`,
//! which count rows.
//!
//! In the logical plan a window function is a node of its own that adds `window_start`, `window_end` and, unless it counts rows, `window_time`
//! to its input's columns. DataFusion's rules push predicates through it where it cuts by time, and leave the rest of it alone.

mod call;

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::{Column, DFSchema, DFSchemaRef, Result, TableReference};
use datafusion_expr::logical_plan::{Extension, UserDefinedLogicalNodeCore};
use datafusion_expr::{Expr, LogicalPlan};
use pelton_data::window::Window;

use crate::bind::window_columns::{WINDOW_COLUMNS, renaming_hint, window_fields};
use crate::errors::{Place, PlanError, external};
use crate::length::Length;
use crate::lower::scope::WINDOW;

pub(crate) use call::{
    Call, WindowFunctionPlanner, check_length, check_offset, check_rows, cumulative, hopping, partition_column,
    time_column,
};

/// Qualifies a window_time that stands in the rows of windows, where these have no name.
const INNER: &str = "inner";

/// A window function in a logical plan.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct WindowNode {
    /// What is cut into windows.
    pub input: LogicalPlan,
    /// The time attribute of the input; none where rows are counted.
    pub time: Option<Column>,
    /// Which windows.
    pub window: Window,
    /// The columns of the input that sessions, or rows that are counted, are partitioned by.
    pub keys: Vec<Column>,
    schema: DFSchemaRef,
}

impl WindowNode {
    /// Windows over `input`, whose column `time` is a timestamp; sessions, and windows that count rows, by `keys`. `place` is that of
    /// the call, for errors.
    pub fn new(
        input: LogicalPlan,
        time: Option<Column>,
        window: Window,
        keys: Vec<Column>,
        place: Option<Place>,
    ) -> Result<WindowNode> {
        let time_type = match &time {
            Some(time) => input.schema().qualified_field_from_column(time)?.1.data_type().clone(),
            None => DataType::Null,
        };
        let mut fields: Vec<_> =
            input.schema().iter().map(|(qualifier, field)| (qualifier.cloned(), field.clone())).collect();
        for added in window_fields(&window, &time_type) {
            let Some(taken) = fields.iter_mut().find(|(_, field)| field.name() == added.name()) else {
                fields.push((None, added));
                continue;
            };
            if added.name() != WINDOW_COLUMNS[2] {
                return Err(external(ambiguous(added.name(), place)));
            }
            // Windows are cut by the window_time of others; what names it behind them is an error, as of any two columns of one name.
            taken.0.get_or_insert_with(|| TableReference::bare(INNER));
            fields.push((Some(TableReference::bare(WINDOW)), added));
        }
        let schema = DFSchema::new_with_metadata(fields, input.schema().metadata().clone())?;
        Ok(WindowNode { input, time, window, keys, schema: Arc::new(schema) })
    }

    /// The plan that consists of this node.
    pub fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    /// The node that a plan consists of.
    pub fn of(plan: &LogicalPlan) -> Option<&WindowNode> {
        match plan {
            LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
            _ => None,
        }
    }
}

/// The error for rows that are cut into windows and have a column of this name already.
pub(crate) fn ambiguous(name: &str, place: Option<Place>) -> PlanError {
    let message = format!("{name} would be ambiguous: the rows that are cut into windows have a column {name}");
    PlanError::invalid(place, message).with_hint(renaming_hint(name))
}

impl PartialOrd for WindowNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for WindowNode {
    fn name(&self) -> &str {
        match self.window {
            Window::Tumbling { .. } => "Tumble",
            Window::Hopping { .. } => "Hop",
            Window::Cumulative { .. } => "Cumulate",
            Window::Session { .. } => "Session",
            Window::Rows { size, slide } | Window::RowsByKey { size, slide } if size == slide => "TumbleRows",
            Window::Rows { .. } | Window::RowsByKey { .. } => "HopRows",
            Window::Zoned(_) | Window::Counted | Window::Global => {
                unreachable!("no window function is planned as one of these")
            }
        }
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.time.iter().chain(&self.keys).cloned().map(Expr::Column).collect()
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        // Rows that are counted are counted before those above are filtered.
        if self.window.counts_rows() {
            return self.schema.fields().iter().map(|field| field.name().clone()).collect();
        }
        let added = self.input.schema().fields().len()..self.schema.fields().len();
        added.map(|index| self.schema.field(index).name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match &self.time {
            Some(time) => write!(f, "{}: time={}", self.name(), time.name)?,
            None => f.write_str(self.name())?,
        }
        let keys: Vec<&str> = self.keys.iter().map(|key| key.name.as_str()).collect();
        let (size, offset) = match self.window {
            Window::Tumbling { size, offset } => (size, offset),
            Window::Hopping { size, slide, offset } => {
                write!(f, ", slide={}", Length(slide))?;
                (size, offset)
            }
            Window::Cumulative { size, step, offset } => {
                write!(f, ", step={}", Length(step))?;
                (size, offset)
            }
            Window::Rows { size, slide } | Window::RowsByKey { size, slide } => {
                let by = if keys.is_empty() { String::new() } else { format!("by={}, ", keys.join(", ")) };
                return write!(f, ": {by}size={size} rows, slide={slide}");
            }
            Window::Session { gap } => {
                if !keys.is_empty() {
                    write!(f, ", by={}", keys.join(", "))?;
                }
                return write!(f, ", gap={}", Length(gap));
            }
            Window::Zoned(_) | Window::Counted | Window::Global => {
                unreachable!("no window function is planned as one of these")
            }
        };
        write!(f, ", size={}", Length(size))?;
        if offset == 0 { Ok(()) } else { write!(f, ", offset={}", Length(offset)) }
    }

    fn with_exprs_and_inputs(&self, expressions: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let columns = expressions.into_iter().map(|expression| match expression {
            Expr::Column(column) => column,
            other => unreachable!("what a window is cut by stays a column, but became {other:?}"),
        });
        let mut columns: Vec<Column> = columns.collect();
        let keys = columns.split_off(usize::from(self.time.is_some()));
        WindowNode::new(inputs.remove(0), columns.pop(), self.window, keys, None)
    }
}
