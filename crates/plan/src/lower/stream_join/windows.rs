//! Joins of rows in the same window: `window_start` and `window_end` of one side are equal to those of the other.

use datafusion_common::{Column, Result};
use datafusion_expr::logical_plan::Join;
use datafusion_expr::{Expr, LogicalPlan};
use pelton_data::join::{JoinTime, WindowBound};
use pelton_data::window::Window;

use super::JoinParts;
use super::side::SideRows;
use crate::bind::flat_map::FlatMapNode;
use crate::bind::time_attribute::passed_through;
use crate::bind::window::WindowNode;
use crate::bind::window_columns::WINDOW_COLUMNS;
use crate::errors::{PlanError, external};
use crate::lower::Lowering;
use crate::lower::unbound::Relation;

/// The bounds of windows, in the order of [`WINDOW_COLUMNS`].
const BOUNDS: [WindowBound; 3] = [WindowBound::Start, WindowBound::End, WindowBound::Time];

/// The pairs of equal expressions that are the same bound of both sides' windows: their numbers, and which bound.
pub(super) fn bound_pairs(join: &Join) -> Vec<(usize, usize)> {
    let bound = |key: &Expr, plan: &LogicalPlan| match key {
        Expr::Column(column) => bound_of(plan, column),
        _ => None,
    };
    let pairs = join.on.iter().enumerate().filter_map(|(number, (left, right))| {
        let (left, right) = (bound(left, &join.left)?, bound(right, &join.right)?);
        (left == right).then_some((number, left))
    });
    pairs.collect()
}

/// Which bound of a window a plan's column is, as a window function made it.
fn bound_of(mut plan: &LogicalPlan, column: &Column) -> Option<usize> {
    let mut index = plan.schema().maybe_index_of_column(column)?;
    loop {
        let (input, place) = match plan {
            LogicalPlan::Extension(_) => {
                let node = WindowNode::of(plan);
                let input = node.map(|node| &node.input).or_else(|| FlatMapNode::of(plan).map(|node| &node.input))?;
                if index >= input.schema().fields().len() {
                    let name = plan.schema().field(index).name();
                    return node.and_then(|_| WINDOW_COLUMNS.iter().position(|bound| bound == name));
                }
                (input, index)
            }
            LogicalPlan::Projection(projection) => {
                (&*projection.input, passed_through(&projection.expr[index], projection.input.schema())?)
            }
            LogicalPlan::Aggregate(aggregate) => {
                (&*aggregate.input, passed_through(aggregate.group_expr.get(index)?, aggregate.input.schema())?)
            }
            LogicalPlan::Join(join) => {
                let width = join.left.schema().fields().len();
                if index < width { (&*join.left, index) } else { (&*join.right, index - width) }
            }
            LogicalPlan::Window(window) if index < window.input.schema().fields().len() => (&*window.input, index),
            LogicalPlan::SubqueryAlias(alias) => (&*alias.input, index),
            LogicalPlan::Filter(filter) => (&*filter.input, index),
            LogicalPlan::Sort(sort) => (&*sort.input, index),
            LogicalPlan::Distinct(distinct) => (&**distinct.input(), index),
            LogicalPlan::Union(union) => (&*union.inputs[0], index),
            _ => return None,
        };
        (plan, index) = (input, place);
    }
}

impl Lowering<'_> {
    /// A join of rows in the same window.
    pub(super) fn window_join(&mut self, mut parts: JoinParts<'_>) -> Result<Relation> {
        let pairs = bound_pairs(parts.join);
        let [left, right] = [self.windows_of_side(&parts.sides[0])?, self.windows_of_side(&parts.sides[1])?];
        if left.bounds != right.bounds {
            let message = "the sides of a join by windows have windows that are not the same";
            let hint = "give both sides the same window function, with the same lengths";
            return Err(external(PlanError::invalid(self.locations.join, message).with_hint(hint)));
        }
        let are_sessions = matches!(left.bounds, Window::Session { .. });
        for (wanted, lacking) in WINDOW_COLUMNS.iter().enumerate().take(2) {
            if !pairs.iter().any(|(_, bound)| *bound == wanted) {
                let message = format!("a join by windows lacks {lacking}");
                let hint = "join ON a.window_start = b.window_start AND a.window_end = b.window_end";
                return Err(external(PlanError::invalid(self.locations.join, message).with_hint(hint)));
            }
        }
        for (number, (left, right)) in parts.on().iter().enumerate() {
            // The end tells which window it is, but of sessions.
            let is_told = pairs.iter().any(|&(pair, bound)| pair == number && !(are_sessions && bound == 0));
            if !is_told {
                self.add_key(&mut parts.sides, left, right)?;
            }
        }
        if parts.sides[0].keys.is_empty() {
            for side in &mut parts.sides {
                let constant = side.constant()?;
                side.keys.push(constant);
            }
        }
        let output = parts.rows_that_leave(|rows, column| self.common_bound_of(rows, column))?;
        let bounds = if are_sessions { left.bounds.of_results() } else { left.bounds };
        for side in &parts.sides {
            side.branches().iter().for_each(|branch| {
                if branch.cut.is_none() {
                    self.ensure_time_column(branch.input);
                }
            });
        }
        self.add_join(parts, JoinTime::Windows { sides: [left.rows, right.rows], bounds }, output)
    }

    /// The bound of its window that a column of a side's plan is in all branches, where the window's end tells it.
    fn common_bound_of(&self, rows: &SideRows, index: usize) -> Option<WindowBound> {
        let mut bounds = rows.branches().iter().map(|branch| self.bound(branch, &branch.columns[index]));
        let first = bounds.next()??;
        let is_told = !matches!(first.0, Window::Session { .. }) && bounds.all(|bound| bound == Some(first));
        is_told.then_some(BOUNDS[first.1])
    }

    /// The windows of a side's rows.
    fn windows_of_side(&self, side: &SideRows) -> Result<SideWindows> {
        let mut found: Option<SideWindows> = None;
        for branch in side.branches() {
            let of_branch = match &branch.cut {
                Some(cut) => SideWindows { rows: cut.window, bounds: cut.window },
                None => {
                    let bounds = branch.columns.iter().find_map(|column| self.bound(branch, column));
                    let Some((bounds, _)) = bounds else {
                        let hint = "let both sides be rows or results of the same windows";
                        return Err(self.refused_join("this join by windows", hint));
                    };
                    SideWindows { rows: bounds.of_results(), bounds }
                }
            };
            let is_joined = !of_branch.bounds.counts_rows() && of_branch.bounds != Window::Global;
            if !is_joined || branch.cut.is_some() && matches!(of_branch.bounds, Window::Session { .. }) {
                let construct = "a join of rows that are cut into sessions, or into windows that count rows,";
                let hint = "aggregate them first: GROUP BY window_start, window_end";
                return Err(self.refused_join(construct, hint));
            }
            if found.is_some_and(|found| found != of_branch) {
                let message = "the parts of a UNION ALL that is joined by windows have windows that are not the same";
                return Err(external(PlanError::invalid(self.locations.join, message)));
            }
            found = Some(of_branch);
        }
        Ok(found.expect("a side has a branch"))
    }
}

/// The windows of a side.
#[derive(Debug, Clone, Copy, PartialEq)]
struct SideWindows {
    /// Those that its rows fall into by their times.
    rows: Window,
    /// Those whose bounds they have.
    bounds: Window,
}
