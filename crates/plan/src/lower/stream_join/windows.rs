//! Joins of rows in the same window: `window_start` and `window_end` of one side are equal to those of the other.

use datafusion_common::{Column, Result};
use datafusion_expr::logical_plan::Join;
use datafusion_expr::{Expr, LogicalPlan};
use pelton_data::join::{JoinColumn, JoinTime, Side, WindowBound};
use pelton_data::window::Window;

use super::side::SideRows;
use super::{JoinOutput, JoinParts};
use crate::bind::flat_map::FlatMapNode;
use crate::bind::window::WindowNode;
use crate::bind::window_columns::WINDOW_COLUMNS;
use crate::errors::{PlanError, external};
use crate::lower::Lowering;
use crate::lower::unbound::Relation;

/// The bounds of windows, in the order of [`WINDOW_COLUMNS`].
const BOUNDS: [WindowBound; 3] = [WindowBound::Start, WindowBound::End, WindowBound::Time];

/// The pairs of equal expressions that are the same bound of both sides' windows: their numbers, and which bound.
pub(super) fn bound_pairs(join: &Join) -> Result<Vec<(usize, usize)>> {
    let mut found = Vec::new();
    for (number, (left, right)) in join.on.iter().enumerate() {
        let bounds = [(left, &join.left), (right, &join.right)].map(|(key, plan)| match key {
            Expr::Column(column) => bound_of(plan, column),
            _ => Ok(None),
        });
        let [left, right] = bounds;
        if let (Some(left), Some(right)) = (left?, right?)
            && left == right
        {
            found.push((number, left));
        }
    }
    Ok(found)
}

/// Which bound of a window a plan's column is, as a window function made it.
fn bound_of(plan: &LogicalPlan, column: &Column) -> Result<Option<usize>> {
    let mut plan = plan;
    let mut index = plan.schema().index_of_column(column)?;
    loop {
        let (input, place) = match plan {
            LogicalPlan::Extension(_) => {
                let Some(node) = WindowNode::of(plan) else {
                    let input = &FlatMapNode::of(plan).expect("there are no other extensions").input;
                    if index >= input.schema().fields().len() {
                        return Ok(None);
                    }
                    plan = input;
                    continue;
                };
                let width = node.input.schema().fields().len();
                if index >= width {
                    let name = plan.schema().field(index).name();
                    return Ok(WINDOW_COLUMNS.iter().position(|bound| bound == name));
                }
                (&node.input, index)
            }
            LogicalPlan::Projection(projection) => {
                let Some(place) = passed(&projection.expr[index], &projection.input)? else { return Ok(None) };
                (&*projection.input, place)
            }
            LogicalPlan::Aggregate(aggregate) => {
                let Some(group) = aggregate.group_expr.get(index) else { return Ok(None) };
                let Some(place) = passed(group, &aggregate.input)? else { return Ok(None) };
                (&*aggregate.input, place)
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
            _ => return Ok(None),
        };
        (plan, index) = (input, place);
    }
}

/// The input's column that an expression is.
fn passed(expression: &Expr, input: &LogicalPlan) -> Result<Option<usize>> {
    match expression.clone().unalias_nested().data {
        Expr::Column(column) => input.schema().index_of_column(&column).map(Some),
        _ => Ok(None),
    }
}

impl Lowering<'_> {
    /// A join of rows in the same window.
    pub(super) fn window_join(&mut self, mut parts: JoinParts<'_>) -> Result<Relation> {
        let pairs = bound_pairs(parts.join)?;
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
        let mut output = JoinOutput::new();
        for &side in parts.leaving_sides() {
            let is_padded = parts.pads(side);
            self.add_side(&mut output, &mut parts.sides[side.port()], side, is_padded)?;
        }
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

    /// Adds the columns of one side's plan to what leaves.
    fn add_side(&self, output: &mut JoinOutput, rows: &mut SideRows, side: Side, is_padded: bool) -> Result<()> {
        let planned = rows.planned.clone();
        for (index, field) in planned.fields().iter().enumerate() {
            let bounds = rows.branches().iter().map(|branch| self.bound(branch, &branch.columns[index]));
            let bounds: Vec<_> = bounds.collect();
            match bounds[0].filter(|first| bounds.iter().all(|bound| bound.as_ref() == Some(first))) {
                Some((window, bound)) if !matches!(window, Window::Session { .. }) => {
                    let column = JoinColumn::Window(BOUNDS[bound], is_padded.then_some(side));
                    output.add(column, field, field, is_padded);
                }
                _ => {
                    let column = rows.planned_column(index)?;
                    let held = rows.field(column).clone();
                    output.add(JoinColumn::Of(side, column), &held, field, is_padded);
                }
            }
        }
        Ok(())
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
                        return Err(self.refused_stream_join("this join by windows", hint));
                    };
                    SideWindows { rows: bounds.of_results(), bounds }
                }
            };
            let is_joined = !of_branch.bounds.counts_rows() && of_branch.bounds != Window::Global;
            if !is_joined || branch.cut.is_some() && matches!(of_branch.bounds, Window::Session { .. }) {
                let construct = "a join of rows that are cut into sessions, or into windows that count rows,";
                let hint = "aggregate them first: GROUP BY window_start, window_end";
                return Err(self.refused_stream_join(construct, hint));
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
