//! Joins of two streams: rows of both sides that are in the same window, or near each other in time.
//!
//! Each side is one or more pipelines, which select rows and compute keys, and feed the ports of one operator: first those of the left side.
//! In reading order: `windows` (rows of the same window), `sessions` (rows with the bounds of their sessions), [`time_bounds`] and `interval` (rows that are near
//! each other in time), `nearest` (the nearest row in time), `versions` (the versions of a table's rows), `side` (the columns of a side's rows), `residual` (conditions beside the keys), [`time`] (the event time of what leaves).

mod interval;

mod nearest;

mod residual;

mod side;

pub(crate) mod time;

pub(crate) mod time_bounds;

mod sessions;

mod versions;

mod windows;

use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef, Schema};
use datafusion_common::{NullEquality, Result};
use datafusion_expr::logical_plan::Join;
use datafusion_expr::utils::split_conjunction_owned;
use datafusion_expr::{Expr, JoinType, LogicalPlan};
use pelton_data::join::{JoinColumn, JoinKind, JoinSide, JoinSpec, JoinTime, Side, WindowBound};

use self::nearest::NearestJoin;
use self::side::SideRows;
use crate::bind::names::Names;
use crate::lower::Lowering;
use crate::lower::aggregate::result;
use crate::lower::unbound::{Relation, UnboundTarget};
use crate::pipeline::{Operator, StreamJoin};

/// A join that is being lowered.
struct JoinParts<'j> {
    join: &'j Join,
    kind: JoinKind,
    /// The left and the right side. Those of a right semi or anti join are exchanged.
    sides: [SideRows; 2],
    is_swapped: bool,
}

/// The fields of a plan that leave a join, and what each of them is.
struct JoinOutput {
    names: Names,
    columns: Vec<JoinColumn>,
    fields: Vec<FieldRef>,
    /// The relation's columns, in terms of the fields.
    results: Vec<Expr>,
}

/// How a join of DataFusion's keeps rows, and whether its sides are to be exchanged.
fn kind_of(join_type: JoinType) -> Option<(JoinKind, bool)> {
    Some(match join_type {
        JoinType::Inner => (JoinKind::Inner, false),
        JoinType::Left => (JoinKind::Left, false),
        JoinType::Right => (JoinKind::Right, false),
        JoinType::Full => (JoinKind::Full, false),
        JoinType::LeftSemi => (JoinKind::Semi, false),
        JoinType::RightSemi => (JoinKind::Semi, true),
        JoinType::LeftAnti => (JoinKind::Anti, false),
        JoinType::RightAnti => (JoinKind::Anti, true),
        JoinType::LeftMark | JoinType::RightMark => return None,
    })
}

impl Lowering<'_> {
    /// The rows of a join of two streams; `None` where it is none of these.
    pub(crate) fn stream_join(&mut self, join: &Join) -> Result<Option<Relation>> {
        if let Some(nearest) = NearestJoin::of(join) {
            return self.nearest_join(join, nearest).map(Some);
        }
        let Some((kind, is_swapped)) = kind_of(join.join_type) else { return Ok(None) };
        let mut bounds = None;
        if !windows::compares_bounds(join) {
            bounds = self.bounds_of_times(join)?;
            if bounds.is_none() {
                return Ok(None);
            }
        }
        if join.null_equality == NullEquality::NullEqualsNull {
            let construct = "IS NOT DISTINCT FROM between these columns";
            return Err(self.refused_join(construct, "compare them with ="));
        }
        let mut plans = [&join.left, &join.right];
        if is_swapped {
            plans.reverse();
        }
        let mut side = |plan: &LogicalPlan| self.side_rows(plan);
        let sides = [side(plans[0])?, side(plans[1])?];
        let parts = JoinParts { join, kind, sides, is_swapped };
        if bounds.is_none() && !self.compares_own_bounds(&parts) {
            // Those are bounds of other windows than the rows are in.
            bounds = self.bounds_of_times(join)?;
        }
        match bounds {
            Some(bounds) => self.interval_join(parts, bounds).map(Some),
            None => self.window_join(parts).map(Some),
        }
    }

    /// The rows of a side. Those of sessions are known with the bounds of theirs when these are over.
    fn side_rows(&mut self, plan: &LogicalPlan) -> Result<SideRows> {
        let relation = self.relation(plan)?;
        let relation = self.with_bounds_of_sessions(relation, plan)?;
        Ok(SideRows::new(relation, plan.schema().clone()))
    }

    /// Adds a pair of equal expressions as keys of one type.
    fn add_key(&self, sides: &mut [SideRows; 2], left: &Expr, right: &Expr) -> Result<()> {
        let left = sides[0].expression(left, None)?;
        let data_type = sides[0].field(left).data_type().clone();
        self.check_key(&data_type)?;
        let right = sides[1].expression(right, Some(&data_type))?;
        sides[0].keys.push(left);
        sides[1].keys.push(right);
        Ok(())
    }

    /// Filters a side's rows by the conditions that read them alone, where rows of the side without a match go. Returns the other conditions.
    fn filter_sides(&mut self, parts: &mut JoinParts<'_>, conditions: Vec<Expr>) -> Result<Vec<Expr>> {
        let mut of_pairs = Vec::new();
        for condition in conditions {
            let filters = Side::BOTH.into_iter().filter(|side| !parts.kind.keeps_unmatched(*side)).find_map(|side| {
                let filters = parts.sides[side.port()].row_filters(&condition).transpose()?;
                Some(filters.map(|filters| (side, filters)))
            });
            let Some((side, filters)) = filters.transpose()? else {
                of_pairs.push(condition);
                continue;
            };
            for (branch, filter) in parts.sides[side.port()].branches_mut().iter_mut().zip(filters) {
                self.filter(branch, filter)?;
            }
        }
        Ok(of_pairs)
    }

    /// Adds the operator, and ends the branches of both sides in it. Returns its rows.
    fn add_join(&mut self, mut parts: JoinParts<'_>, time: JoinTime, output: JoinOutput) -> Result<Relation> {
        let conditions = parts.join.filter.clone().map_or_else(Vec::new, split_conjunction_owned);
        let (residual, filters) = match parts.kind {
            JoinKind::Inner => (None, conditions),
            _ => {
                let of_pairs = match time {
                    JoinTime::Windows { .. } | JoinTime::Interval { .. } => {
                        self.filter_sides(&mut parts, conditions)?
                    }
                    // Which row is the nearest does not depend on the conditions.
                    JoinTime::Nearest { .. } => conditions,
                };
                (residual::residual(&mut parts, of_pairs)?, Vec::new())
            }
        };
        let JoinOutput { columns, fields, results, .. } = output;
        let left_ports = parts.sides[0].branches().len();
        let schema = Arc::new(Schema::new(fields));
        let operator = self.unbound.operators.len();
        let sides = parts.sides.each_ref().map(|side| JoinSide {
            schema: side.schema(),
            keys: side.keys.clone(),
            time: side.time,
        });
        for side in parts.sides {
            for (branch, columns, time) in side.into_pipelines() {
                self.unbound.end(branch, UnboundTarget::Rows { operator, columns, time });
            }
        }
        let spec = JoinSpec { kind: parts.kind, time, sides, columns, schema, output_time: None };
        let mut branch =
            self.unbound.add_operator(Operator::Join(Box::new(StreamJoin { spec, residual, left_ports })))?;
        branch.columns = results;
        for condition in filters {
            let predicate = branch.substitute(&condition, &parts.join.schema)?;
            self.filter(&mut branch, predicate)?;
        }
        Ok(Relation { branches: vec![branch] })
    }
}

impl JoinOutput {
    fn new() -> JoinOutput {
        JoinOutput { names: Names::default(), columns: Vec::new(), fields: Vec::new(), results: Vec::new() }
    }

    /// Adds a column that is `column`, of the type of `held`, where the plan has `planned`.
    fn add(&mut self, column: JoinColumn, held: &Field, planned: &Field, is_nullable: bool) {
        let name = self.names.unique(planned.name());
        let nullable = held.is_nullable() || is_nullable;
        self.results.push(result(&name, held.data_type(), planned));
        self.columns.push(column);
        self.fields.push(Arc::new(Field::new(name, held.data_type().clone(), nullable)));
    }
}

impl JoinParts<'_> {
    /// All columns of the plans of both sides, as those that leave. `bound` says which bound of its window a column of a side's plan is.
    fn rows_that_leave(&mut self, bound: impl Fn(&SideRows, usize) -> Option<WindowBound>) -> Result<JoinOutput> {
        let mut output = JoinOutput::new();
        let sides: &[Side] = if self.kind.has_pairs() { &Side::BOTH } else { &[Side::Left] };
        for &side in sides {
            let is_padded = self.pads(side);
            let rows = &mut self.sides[side.port()];
            let planned = rows.planned.clone();
            for (index, field) in planned.fields().iter().enumerate() {
                if let Some(bound) = bound(rows, index) {
                    output.add(JoinColumn::Window(bound, is_padded.then_some(side)), field, field, is_padded);
                    continue;
                }
                let column = rows.planned_column(index)?;
                let held = rows.field(column).clone();
                output.add(JoinColumn::Of(side, column), &held, field, is_padded);
            }
        }
        Ok(output)
    }

    /// Whether rows leave that have no row of a side.
    fn pads(&self, side: Side) -> bool {
        self.kind.keeps_unmatched(side.other()) && self.kind.has_pairs()
    }

    /// Pairs of equal expressions: the left side's, the right side's.
    fn on(&self) -> Vec<(Expr, Expr)> {
        let pairs = self.join.on.iter().cloned();
        pairs.map(|(left, right)| if self.is_swapped { (right, left) } else { (left, right) }).collect()
    }
}
