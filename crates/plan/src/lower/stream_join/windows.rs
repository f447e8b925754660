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

/// Whether a join may be one of rows in the same window, by the plans of its sides: both have a bound of windows which it compares. The windows may be others than
/// those that the rows are in.
pub(super) fn compares_bounds(join: &Join) -> bool {
    let bound = |key: &Expr, plan: &LogicalPlan| match key {
        Expr::Column(column) => bound_of(plan, column),
        _ => None,
    };
    join.on
        .iter()
        .any(|(left, right)| bound(left, &join.left).is_some_and(|left| Some(left) == bound(right, &join.right)))
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
        let on = parts.on();
        let pairs: Vec<Option<usize>> =
            on.iter().map(|(left, right)| self.bound_of_pair(&parts, left, right)).collect();
        let [left, right] = [self.windows_of_side(&parts.sides[0])?, self.windows_of_side(&parts.sides[1])?];
        if left.bounds != right.bounds {
            let message = "the sides of a join by windows have windows that are not the same";
            let hint = "give both sides the same window function, with the same lengths";
            return Err(external(PlanError::invalid(self.locations.join, message).with_hint(hint)));
        }
        let are_sessions = matches!(left.bounds, Window::Session { .. });
        for (wanted, lacking) in WINDOW_COLUMNS.iter().enumerate().take(2) {
            if !pairs.contains(&Some(wanted)) {
                let message = format!("a join by windows lacks {lacking}");
                let hint = "join ON a.window_start = b.window_start AND a.window_end = b.window_end";
                return Err(external(PlanError::invalid(self.locations.join, message).with_hint(hint)));
            }
        }
        for ((left, right), bound) in on.iter().zip(&pairs) {
            // The end tells which window it is, but of sessions.
            if bound.is_none() || are_sessions && *bound == Some(0) {
                self.add_key(&mut parts.sides, left, right)?;
            }
        }
        if parts.sides[0].keys.is_empty() {
            for side in &mut parts.sides {
                let constant = side.constant()?;
                side.keys.push(constant);
            }
        }
        let output = parts.rows_that_leave(|rows, column| self.told_bound(rows, column))?;
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

    /// Whether a join compares bounds of the windows that the rows of both sides are in.
    pub(super) fn compares_own_bounds(&self, parts: &JoinParts<'_>) -> bool {
        parts.on().iter().any(|(left, right)| self.bound_of_pair(parts, left, right).is_some())
    }

    /// The bound of their windows that expressions over the plans of both sides are.
    fn bound_of_pair(&self, parts: &JoinParts<'_>, left: &Expr, right: &Expr) -> Option<usize> {
        let bound = |rows: &SideRows, key: &Expr| {
            let index = passed_through(key, &rows.planned)?;
            self.bound_of_side(rows, index).map(|(_, bound)| bound)
        };
        bound(&parts.sides[0], left).filter(|left| Some(*left) == bound(&parts.sides[1], right))
    }

    /// The windows of a side's rows, and the bound of them that a column of its plan is: it is that of all rows, and never NULL.
    fn bound_of_side(&self, rows: &SideRows, index: usize) -> Option<(Window, usize)> {
        let mut bounds = rows.branches().iter().map(|branch| self.bound(branch, &branch.columns[index]));
        let first = bounds.next()??;
        bounds.all(|bound| bound == Some(first)).then_some(first)
    }

    /// The bound of its window that a column of a side's plan is, where the window's end tells it.
    fn told_bound(&self, rows: &SideRows, index: usize) -> Option<WindowBound> {
        let (window, bound) = self.bound_of_side(rows, index)?;
        (!matches!(window, Window::Session { .. })).then_some(BOUNDS[bound])
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
